//! Data files on the command line: which ones, and how to read them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use pmfcl_ingest::Files;
use pmfcl_read::{Missing, Options, RemoteFiles, remote_address};

use crate::terminal::note;

/// What to do with rows that miss a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnMissing {
    /// Stop and name the cell.
    Error,
    /// Leave the row out; its prediction is empty.
    Drop,
    /// Take the mean of the column over all rows learned; of a category its share.
    Mean,
    /// Give the gaps of a column a coefficient of their own.
    Indicator,
}

/// How data files are read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub struct Reading {
    /// Missing and non-finite values of features; by default as the model was made, and error for a new one.
    #[arg(long, value_enum, value_name = "WAY")]
    missing: Option<OnMissing>,
    /// Between the fields of CSV; by default what the first line has (`,` `;` tab `|`).
    #[arg(long, value_name = "CHAR")]
    delimiter: Option<String>,
    /// The quote character of CSV.
    #[arg(long, default_value = "\"", value_name = "CHAR")]
    quote: String,
    /// The first line of CSV is data; columns are x1, x2, …
    #[arg(long)]
    no_header: bool,
    /// The decimal mark of numbers in text: a point or a comma.
    #[arg(long, default_value = ".", value_name = "MARK")]
    decimal: String,
    /// What separates groups of three digits in text, such as , . ' or a space.
    #[arg(long, value_name = "MARK")]
    thousands: Option<String>,
    /// Words that stand for a missing value, with commas, in addition to NA, N/A, NaN, null and none.
    #[arg(long, value_delimiter = ',', value_name = "WORDS", allow_hyphen_values = true)]
    na: Vec<String>,
    /// Threads to use; results do not depend on it.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl Reading {
    /// How files are read.
    ///
    /// # Errors
    /// When a delimiter or quote is not one plain character.
    pub fn options(&self) -> Result<Options> {
        let byte = |text: &str, what: &str| match text.as_bytes() {
            [b] if b.is_ascii() => Ok(*b),
            _ if text == "\\t" || text.eq_ignore_ascii_case("tab") => Ok(b'\t'),
            _ => bail!("--{what} takes one plain character, not '{text}'"),
        };
        let decimal = match self.decimal.as_str() {
            "." => b'.',
            "," => b',',
            other => bail!("--decimal takes a point or a comma, not '{other}'"),
        };
        let thousands = match &self.thousands {
            None => None,
            Some(text) => match text.chars().collect::<Vec<_>>()[..] {
                [mark] if !mark.is_alphanumeric() && mark != char::from(decimal) => Some(mark),
                _ => bail!("--thousands takes one mark that is not the decimal mark, not '{text}'"),
            },
        };
        Ok(Options {
            decimal,
            thousands,
            na: self.na.clone(),
            dates: Vec::new(),
            delimiter: self.delimiter.as_deref().map(|d| byte(d, "delimiter")).transpose()?,
            header: !self.no_header,
            quote: byte(&self.quote, "quote")?,
            missing: match self.missing {
                None => Missing::Unstated,
                Some(OnMissing::Error) => Missing::Refuse,
                Some(OnMissing::Drop) => Missing::Drop,
                Some(OnMissing::Mean | OnMissing::Indicator) => Missing::Keep,
            },
            piece_rows: None,
            remote: remote(),
        })
    }

    /// Whether rows that miss a value are left out.
    pub fn drops_missing(&self) -> bool {
        self.missing == Some(OnMissing::Drop)
    }

    /// What was said of missing values.
    pub fn missing(&self) -> Option<OnMissing> {
        self.missing
    }

    /// Threads to use: as given, or all cores.
    pub fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(all).max(1)
    }

    /// These files, read in this way.
    ///
    /// # Errors
    /// As [`Reading::options`].
    pub fn files(&self, paths: Vec<PathBuf>) -> Result<Files> {
        Ok(Files { paths, options: self.options()?, threads: self.threads() })
    }
}

/// What opens addresses: one for the whole program, so that a file is the same version in every pass over it.
#[cfg(feature = "remote")]
#[expect(clippy::unnecessary_wraps, reason = "a program built without it has none")]
fn remote() -> Option<Arc<dyn RemoteFiles>> {
    static STORES: std::sync::OnceLock<Arc<pmfcl_remote::ObjectStores>> =
        std::sync::OnceLock::new();
    Some(STORES.get_or_init(Arc::default).clone())
}

#[cfg(not(feature = "remote"))]
fn remote() -> Option<Arc<dyn RemoteFiles>> {
    None
}

/// The files one argument stands for: itself, or all that a pattern matches, in order. An address is no pattern.
///
/// # Errors
/// When a pattern is invalid or matches no file.
pub fn expand(argument: &str) -> Result<Vec<PathBuf>> {
    let path = PathBuf::from(argument);
    if remote_address(&path).is_some() || path.exists() || !argument.contains(['*', '?', '[']) {
        return Ok(vec![path]);
    }
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in glob::glob(argument)? {
        found.push(entry?);
    }
    if found.is_empty() {
        bail!("{argument}: no file matches this pattern");
    }
    found.sort();
    Ok(found)
}

/// Notes which columns are no features because pandas wrote them as the index of its rows.
pub fn note_index(columns: &[String]) {
    for name in columns {
        note(&format!(
            "column '{name}' is the index of a pandas table and is not used as a feature"
        ));
    }
}

/// What a task is called after: the file's name without its endings.
pub fn task_name(argument: &str) -> String {
    if argument == "-" {
        return "stdin".to_owned();
    }
    let name = Path::new(argument)
        .file_name()
        .map_or_else(|| argument.to_owned(), |name| name.to_string_lossy().into_owned());
    let mut stem = name.as_str();
    for ending in [".gz", ".zst"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    for ending in [".csv", ".tsv", ".parquet", ".arrow", ".feather", ".npy", ".npz", "-ubyte"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    if stem.is_empty() { name } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_pattern() {
        let address = "s3://bucket/part-*.parquet";
        assert_eq!(expand(address).unwrap(), [PathBuf::from(address)]);
    }

    #[test]
    fn tasks_are_called_after_their_files() {
        for (path, name) in [
            ("data/2024-01.csv.gz", "2024-01"),
            ("a/b.parquet", "b"),
            ("train-images-idx3-ubyte.gz", "train-images-idx3"),
            ("-", "stdin"),
            ("sales.2024.csv", "sales.2024"),
            ("s3://bucket/sales/2024-q1.parquet", "2024-q1"),
            ("https://host/day.csv.gz", "day"),
        ] {
            assert_eq!(task_name(path), name);
        }
    }
}
