//! Notes and progress on stderr, data on stdout, colours only on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use pmfcl_ingest::{Files, Step};

/// What is printed, and in which form.
#[derive(Debug, Clone, Copy, Default)]
pub struct Verbosity {
    /// One JSON document on stdout.
    pub json: bool,
    /// Errors only.
    pub quiet: bool,
    /// More about what is done.
    pub verbose: bool,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

/// Sets what is printed, once, at the start of a program.
pub fn set_verbosity(verbosity: Verbosity) {
    let _ = VERBOSITY.set(verbosity);
}

/// What is printed.
pub fn verbosity() -> Verbosity {
    *VERBOSITY.get_or_init(Verbosity::default)
}

/// Prints a line on stderr, whatever the verbosity. Where it cannot be written there is nobody to read it.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", escaped(line));
}

/// Prints a note on stderr, unless `--quiet` was given.
pub fn note(line: &str) {
    if !verbosity().quiet {
        print_line(line);
    }
}

/// Prints a detail on stderr, where `--verbose` was given.
pub fn detail(line: &str) {
    if verbosity().verbose {
        print_line(line);
    }
}

/// Prints data on stdout.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Whether an error only means that the reader of stdout has closed it.
pub fn closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints the result of a command: a JSON document where one was asked for, text otherwise.
///
/// # Errors
/// When stdout cannot be written.
pub fn answer(document: &serde_json::Value, words: &str) -> Result<()> {
    match verbosity() {
        Verbosity { json: true, .. } => print(&format!("{document:#}\n")),
        Verbosity { quiet: true, .. } => Ok(()),
        _ => print_text(words),
    }
}

/// Prints text for people on stdout; names from data cannot control the terminal.
///
/// # Errors
/// When stdout cannot be written.
pub fn print_text(text: &str) -> Result<()> {
    print(&escaped(text))
}

/// Text with control characters and those that change the direction of writing as escapes, except line breaks, tabs and our
/// own bold.
fn escaped(text: &str) -> String {
    let controls = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(controls) {
        return text.to_owned();
    }
    let plain = |part: &str| -> String {
        let one =
            |c: char| if controls(c) { c.escape_unicode().to_string() } else { c.to_string() };
        part.chars().map(one).collect()
    };
    // What `bold` writes is ours.
    let begun: Vec<String> = text
        .split(BOLD)
        .map(|part| part.split(PLAIN).map(plain).collect::<Vec<_>>().join(PLAIN))
        .collect();
    begun.join(BOLD)
}

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Text in bold, on a terminal that has colours.
pub fn bold(text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::stdout().is_terminal();
    if plain { text.to_owned() } else { format!("{BOLD}{text}{PLAIN}") }
}

/// Ends a program: exit code 0 on success, 1 with a message on stderr on an error in the data or the model.
pub fn exit(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("error: {}", error_message(&error)));
            ExitCode::from(1)
        }
    }
}

/// The message of an error, followed by those of its causes that add something.
pub fn error_message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match &text[..] {
        "" => cause,
        known if known.contains(&cause) => text,
        known => format!("{known}: {cause}"),
    })
}

/// A bar with rows per second and the time left, where stderr is a terminal.
#[derive(Debug)]
pub struct Progress(Option<ProgressBar>, std::sync::atomic::AtomicU64);

impl Progress {
    /// Over some files; `what` stands before the bar.
    pub fn over(files: &Files, what: &str) -> Self {
        let shown = std::io::stderr().is_terminal() && !verbosity().quiet;
        let bar = shown.then(|| {
            let bar = match files.bytes() {
                Some(bytes) => ProgressBar::new(bytes),
                None => ProgressBar::no_length(),
            };
            let template = "{prefix} {bar:24} {percent:>3}% · {msg} · {eta} left";
            let style = ProgressStyle::with_template(template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self(bar, std::sync::atomic::AtomicU64::new(0))
    }

    /// Of a fit, which makes as many passes over its rows as it needs.
    pub fn of_a_fit() -> Self {
        let shown = std::io::stderr().is_terminal() && !verbosity().quiet;
        let bar = shown.then(|| {
            let bar = ProgressBar::no_length();
            let style = ProgressStyle::with_template("{prefix} {spinner} {msg} · {elapsed}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self(bar, std::sync::atomic::AtomicU64::new(0))
    }

    /// After a pass over the rows of a task.
    pub fn pass(&self, task: &str, passes: u64) {
        if let Some(bar) = &self.0 {
            bar.set_prefix(task.to_owned());
            bar.set_message(format!("{} passes over its rows", grouped(passes as f64)));
        }
    }

    /// After a piece of a file.
    pub fn step(&self, step: Step) {
        if let Some(bar) = &self.0 {
            let rows =
                self.1.fetch_add(step.rows, std::sync::atomic::Ordering::Relaxed) + step.rows;
            bar.inc(step.bytes);
            let seconds = bar.elapsed().as_secs_f64().max(1e-3);
            bar.set_message(format!("{} rows/s", grouped(rows as f64 / seconds)));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A count with its thousands separated.
pub fn grouped(n: f64) -> String {
    let digits = format!("{:.0}", n.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if n < 0.0 { format!("-{out}") } else { out }
}

/// A number in about five digits.
pub fn short(v: f64) -> String {
    let size = v.abs();
    if !v.is_finite() {
        "–".to_owned()
    } else if size <= 0.0 {
        "0".to_owned()
    } else if (1e-3..1e5).contains(&size) {
        let digits = (4 - size.log10().floor() as i32).clamp(0, 7);
        format!("{v:.*}", digits as usize)
    } else {
        format!("{v:.3e}")
    }
}

/// [`short`], or a dash.
pub fn maybe(v: Option<f64>) -> String {
    v.map_or_else(|| "–".to_owned(), short)
}

/// Bytes in the unit that suits them.
pub fn bytes(n: usize) -> String {
    match n as f64 {
        b if b < 10_000.0 => format!("{n} B"),
        b if b < 1e7 => format!("{:.1} kB", b / 1e3),
        b if b < 1e10 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

/// A text in lines of at most so many characters, broken between words.
pub fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A name cut to what a table has room for.
pub fn cut(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let kept: String = name.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_control_the_terminal() {
        let name = "a\x1b[2Jb\u{202e}c\r";
        assert_eq!(escaped(name), "a\\u{1b}[2Jb\\u{202e}c\\u{d}");
        let ours = format!("{BOLD}model{PLAIN}\n\tx é\n");
        assert_eq!(escaped(&ours), ours);
    }

    #[test]
    fn numbers_are_short_and_thousands_apart() {
        assert_eq!(grouped(1_234_567.0), "1,234,567");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(short(12.345_678), "12.346");
        assert_eq!(short(0.001_234_5), "0.0012345");
        assert_eq!(short(1.5e9), "1.500e9");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(bytes(12_345), "12.3 kB");
        assert_eq!(wrapped("a bc def ghijklm n", 6), ["a bc", "def", "ghijklm", "n"]);
    }
}
