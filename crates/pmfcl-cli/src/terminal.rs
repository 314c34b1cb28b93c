//! What the person sees: notes, tables and progress on stderr, data on stdout, colours only on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use pmfcl_ingest::{Files, Step};

/// How much to say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Voice {
    /// One JSON document on stdout.
    pub(crate) json: bool,
    /// Errors only.
    pub(crate) quiet: bool,
    /// More about what is done.
    pub(crate) verbose: bool,
}

static VOICE: OnceLock<Voice> = OnceLock::new();

/// Sets how much is said, once.
pub(crate) fn set_voice(voice: Voice) {
    let _ = VOICE.set(voice);
}

pub(crate) fn voice() -> Voice {
    *VOICE.get_or_init(|| Voice { json: false, quiet: false, verbose: false })
}

/// A line for the person, on stderr, whatever was asked.
#[allow(clippy::print_stderr, reason = "the one place that talks")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// A note for the person, unless it should be quiet.
pub(crate) fn note(line: &str) {
    if !voice().quiet {
        say(line);
    }
}

/// A detail for the curious.
pub(crate) fn detail(line: &str) {
    if voice().verbose {
        say(line);
    }
}

/// Data, on stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// A reader that has seen enough is not an error.
pub(crate) fn closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The result of a command: a JSON document where one was asked for, words otherwise.
pub(crate) fn answer(document: &serde_json::Value, words: &str) -> Result<()> {
    match voice() {
        Voice { json: true, .. } => print(&format!("{document:#}\n")),
        Voice { quiet: true, .. } => Ok(()),
        _ => print(words),
    }
}

/// Text in bold, on a terminal that has colours.
pub(crate) fn bold(text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some() || !std::io::stdout().is_terminal();
    if plain { text.to_owned() } else { format!("\x1b[1m{text}\x1b[0m") }
}

/// A bar with rows a second and the time left, where stderr is a terminal.
pub(crate) struct Progress(Option<ProgressBar>, std::sync::atomic::AtomicU64);

impl Progress {
    pub(crate) fn over(files: &Files, what: &str) -> Self {
        let shown = std::io::stderr().is_terminal() && !voice().quiet;
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

    pub(crate) fn step(&self, step: Step) {
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

/// A count with thousands apart.
pub(crate) fn grouped(n: f64) -> String {
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
pub(crate) fn short(v: f64) -> String {
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
pub(crate) fn maybe(v: Option<f64>) -> String {
    v.map_or_else(|| "–".to_owned(), short)
}

/// Bytes in the unit that suits them.
pub(crate) fn bytes(n: usize) -> String {
    match n as f64 {
        b if b < 10_000.0 => format!("{n} B"),
        b if b < 1e7 => format!("{:.1} kB", b / 1e3),
        b if b < 1e10 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

/// A text in lines of at most so many characters, broken between words.
pub(crate) fn wrapped(text: &str, most: usize) -> Vec<String> {
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
pub(crate) fn cut(name: &str, most: usize) -> String {
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
