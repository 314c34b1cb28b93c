//! Files that commands write: the ending of the name must fit the content, and a file appears when it is complete.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};

/// A file name on the command line that must have one of these endings; any other is wrong usage.
pub fn ending_in(endings: &'static [&'static str]) -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(move |path| match ending_of(&path, endings) {
        Some(_) => Ok(path),
        None => Err(format!("the name must end in {}", listing(endings))),
    })
}

/// Which of the endings a file name has, in capitals or not.
pub fn ending_of(path: &Path, endings: &[&'static str]) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    endings.iter().copied().find(|ending| name.ends_with(ending))
}

fn listing(endings: &[&str]) -> String {
    match endings {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [some @ .., last] => format!("{} or {last}", some.join(", ")),
    }
}

/// A file that is being written. It has its name when it is complete and on the disk, so that whatever fails, and whenever the process or
/// the machine dies, there is the file of before or the one of after.
#[derive(Debug)]
pub struct Draft {
    file: tempfile::NamedTempFile,
    path: PathBuf,
}

impl Draft {
    /// Starts a file that will be at `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(path: &Path) -> Result<Self> {
        let directory = directory(path);
        if !directory.is_dir() {
            bail!(
                "{}: there is no directory {}; create it first",
                refusal(path),
                directory.display()
            );
        }
        let mut builder = tempfile::Builder::new();
        // The rights any new file has.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        // The kind alone: the name of the temporary file means nothing to the reader.
        let file = builder.tempfile_in(directory).map_err(|e| std::io::Error::from(e.kind()));
        Ok(Self { file: file.with_context(|| refusal(path))?, path: path.to_path_buf() })
    }

    /// What to write into.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn writer(&self) -> Result<std::fs::File> {
        self.file.reopen().with_context(|| refusal(&self.path))
    }

    /// Gives the file its name; one that had it is replaced.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(self) -> Result<PathBuf> {
        let (file, draft) = self.file.into_parts();
        let name = || {
            // Before the name: a name of bytes that are not there yet would be an empty file after a power cut.
            file.sync_all()?;
            std::fs::rename(&draft, &self.path)
        };
        name().with_context(|| refusal(&self.path))?;
        // What has another name now is not deleted.
        let _ = draft.keep();
        if let Ok(directory) = std::fs::File::open(directory(&self.path)) {
            // Where a directory cannot be synced there is nothing more to do.
            let _ = directory.sync_all();
        }
        Ok(self.path)
    }
}

/// Where a file is.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn refusal(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}

/// Writes a file so that it is there completely or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let draft = Draft::new(path)?;
    std::io::Write::write_all(&mut draft.writer()?, bytes).with_context(|| refusal(path))?;
    draft.keep()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_found_in_capitals_or_not() {
        let known = [".csv", ".csv.gz", ".parquet"];
        for (name, found) in [
            ("a.csv", Some(".csv")),
            ("dir.parquet/a.CSV.gz", Some(".csv.gz")),
            ("a.Parquet", Some(".parquet")),
            ("a.parquet.bak", None),
            ("csv", None),
            ("a", None),
            ("..", None),
        ] {
            assert_eq!(ending_of(Path::new(name), &known), found, "{name}");
        }
    }
}
