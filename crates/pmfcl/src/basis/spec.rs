//! How a basis is written: `name`, `name:number`, options after commas.
//!
//! | spec | options |
//! | --- | --- |
//! | `linear`, `log`, `exp` | |
//! | `poly:2` | `interactions=false` |
//! | `power:0.5` | |
//! | `spline:8` | `lo=0,hi=1` (together) |
//! | `rbf:200` | `length=`, `scale=range\|none`, `seed=` |
//! | `rff:1024` | `gamma=`, `scale=range\|none`, `seed=` |
//! | `relu:2000`, `ntk:256` | `scale=range\|none`, `seed=` |
//! | `patches:2000` | `size=9`, `step=2`, `grid=4`, `shape=28x28`, `scale=range\|none`, `seed=` |
//!
//! Letters may be of either case and blanks around the pieces are ignored; [`Display`] writes the
//! canonical form, with every option that is not its default.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::patches::Windows;
use super::{Basis, BasisError, MAX_COLUMNS};

/// Names of the bases, in the order of the documentation.
pub(super) const NAMES: &[&str] =
    &["linear", "poly", "log", "exp", "power", "spline", "rbf", "rff", "relu", "ntk", "patches"];

/// What a spec says. Numbers have been checked: counts at least 1, the rest finite.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Linear,
    Polynomial { degree: usize, interactions: bool },
    Log,
    Exp,
    Power { exponent: f64 },
    Spline { count: usize, range: Option<(f64, f64)> },
    Rbf { count: usize, length: Option<f64>, scale: Scale, seed: u64 },
    Rff { count: usize, gamma: Option<f64>, scale: Scale, seed: u64 },
    Relu { count: usize, scale: Scale, seed: u64 },
    Ntk { count: usize, scale: Scale, seed: u64 },
    Patches { count: usize, windows: Windows, scale: Scale, seed: u64 },
}

/// The units in which a random basis sees its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// x̃ = (x − lo)/(hi − lo), the range being that of the first rows.
    Range,
    /// As they come.
    None,
}

impl Scale {
    /// Who names a length or a γ speaks of the data's own units.
    fn default_for(unit: Option<f64>) -> Self {
        if unit.is_some() { Self::None } else { Self::Range }
    }
}

impl FromStr for Basis {
    type Err = BasisError;

    /// Reads a spec such as `rff:1024,gamma=0.1,seed=7`.
    ///
    /// # Errors
    /// Names the piece that cannot be read and what may stand there.
    fn from_str(spec: &str) -> Result<Self, BasisError> {
        let mut pieces = spec.split(',');
        let head = pieces.next().unwrap_or_default();
        let (name, number) = match head.split_once(':') {
            Some((name, number)) => (name, Some(number.trim())),
            None => (head, None),
        };
        let name = name.trim().to_ascii_lowercase();
        let Some(&basis) = NAMES.iter().find(|known| **known == name) else {
            return Err(BasisError::UnknownName { nearest: nearest(&name, NAMES), name });
        };
        let allowed: &[&str] = match basis {
            "poly" => &["interactions"],
            "spline" => &["lo", "hi"],
            "rbf" => &["length", "scale", "seed"],
            "rff" => &["gamma", "scale", "seed"],
            "relu" | "ntk" => &["scale", "seed"],
            "patches" => &["size", "step", "grid", "shape", "scale", "seed"],
            _ => &[],
        };
        let mut given = Given { basis, head, number, options: Vec::new() };
        for piece in pieces {
            given.read(piece, allowed)?;
        }
        Ok(Self(given.kind()?))
    }
}

/// A spec taken apart, before its numbers are read.
struct Given<'a> {
    basis: &'static str,
    head: &'a str,
    number: Option<&'a str>,
    options: Vec<(&'static str, &'a str)>,
}

impl<'a> Given<'a> {
    fn read(&mut self, piece: &'a str, allowed: &'static [&'static str]) -> Result<(), BasisError> {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        let key = key.trim().to_ascii_lowercase();
        let Some(&option) = allowed.iter().find(|known| **known == key) else {
            let nearest = nearest(&key, allowed);
            return Err(BasisError::UnknownOption {
                basis: self.basis,
                option: key,
                allowed,
                nearest,
            });
        };
        if self.options.iter().any(|(seen, _)| *seen == option) {
            return Err(BasisError::Repeated { basis: self.basis, option });
        }
        self.options.push((option, value.trim()));
        Ok(())
    }

    fn kind(&self) -> Result<Kind, BasisError> {
        let basis = self.basis;
        Ok(match basis {
            "poly" => {
                let degree = self.count("a degree", "poly:2", 1)?;
                let interactions = self
                    .option("interactions", "`true` or `false`", |text| text.parse().ok())?
                    .unwrap_or(true);
                Kind::Polynomial { degree, interactions }
            }
            "power" => {
                let expected = "a number other than 0";
                let text = self.number.ok_or(BasisError::MissingNumber {
                    basis,
                    expected: "an exponent",
                    example: "power:0.5",
                })?;
                let exponent = finite(text)
                    .filter(|a| a.abs() > 0.0)
                    .ok_or_else(|| self.wrong(self.head.trim(), expected))?;
                Kind::Power { exponent }
            }
            "spline" => {
                let count = self.count("a number of functions", "spline:8", 3)?;
                let lo = self.option("lo", "a number", finite)?;
                let hi = self.option("hi", "a number", finite)?;
                let range = match (lo, hi) {
                    (None, None) => None,
                    // A difference that overflows is no range either.
                    (Some(lo), Some(hi)) if lo < hi && (hi - lo).is_finite() => Some((lo, hi)),
                    _ => {
                        let given = |(key, value): &(&str, &str)| format!("{key}={value}");
                        let piece = self.options.iter().map(given).collect::<Vec<_>>().join(",");
                        return Err(self.wrong(&piece, "`lo` and `hi` together, `lo` below `hi`"));
                    }
                };
                Kind::Spline { count, range }
            }
            "rbf" => {
                let count = self.count("a number of centres", "rbf:200", 1)?;
                let length = self.option("length", "a positive number", positive)?;
                Kind::Rbf { count, length, scale: self.scale(length)?, seed: self.seed()? }
            }
            "rff" => {
                let count = self.count("a number of features", "rff:1024", 1)?;
                let gamma = self.option("gamma", "a positive number", positive)?;
                Kind::Rff { count, gamma, scale: self.scale(gamma)?, seed: self.seed()? }
            }
            "relu" => {
                let count = self.count("a number of units", "relu:2000", 1)?;
                Kind::Relu { count, scale: self.scale(None)?, seed: self.seed()? }
            }
            "ntk" => {
                let count = self.count("a number of hidden units", "ntk:256", 1)?;
                Kind::Ntk { count, scale: self.scale(None)?, seed: self.seed()? }
            }
            "patches" => {
                let count = self.count("a number of columns", "patches:2000", 1)?;
                let windows = self.windows()?;
                if count % windows.regions() != 0 {
                    let expected = "a multiple of the square of `grid`, 16 where it is not given";
                    return Err(self.wrong(self.head.trim(), expected));
                }
                Kind::Patches { count, windows, scale: self.scale(None)?, seed: self.seed()? }
            }
            _ if self.number.is_some() => {
                return Err(self.wrong(self.head.trim(), "no number after the name"));
            }
            "log" => Kind::Log,
            "exp" => Kind::Exp,
            _ => Kind::Linear,
        })
    }

    fn wrong(&self, piece: &str, expected: &'static str) -> BasisError {
        BasisError::Value { basis: self.basis, piece: piece.to_owned(), expected }
    }

    /// The number after the colon, as a count.
    fn count(
        &self,
        what: &'static str,
        example: &'static str,
        least: usize,
    ) -> Result<usize, BasisError> {
        let text = self.number.ok_or(BasisError::MissingNumber {
            basis: self.basis,
            expected: what,
            example,
        })?;
        let expected = if least == 1 {
            "a whole number from 1 to 1000000"
        } else {
            "a whole number from 3 to 1000000"
        };
        digits(text)
            .and_then(|text| text.parse().ok())
            .filter(|count| (least..=MAX_COLUMNS).contains(count))
            .ok_or_else(|| self.wrong(self.head.trim(), expected))
    }

    fn option<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, BasisError> {
        let Some((_, value)) = self.options.iter().find(|(seen, _)| *seen == key) else {
            return Ok(None);
        };
        match read(&value.to_ascii_lowercase()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(&format!("{key}={value}"), expected)),
        }
    }

    fn windows(&self) -> Result<Windows, BasisError> {
        let whole = |text: &str| {
            digits(text).and_then(|text| text.parse().ok()).filter(|n| (1..=1000).contains(n))
        };
        let shape = |text: &str| {
            let (height, width) = text.split_once('x')?;
            Some((whole(height)?, whole(width)?))
        };
        let number = |key: &str| self.option(key, "a whole number from 1 to 1000", whole);
        let default = Windows::DEFAULT;
        Ok(Windows {
            shape: self.option("shape", "`HxW` in pixels, such as `28x28`", shape)?,
            size: number("size")?.unwrap_or(default.size),
            step: number("step")?.unwrap_or(default.step),
            grid: number("grid")?.unwrap_or(default.grid),
        })
    }

    fn scale(&self, unit: Option<f64>) -> Result<Scale, BasisError> {
        let read = |text: &str| match text {
            "range" => Some(Scale::Range),
            "none" => Some(Scale::None),
            _ => None,
        };
        let given = self.option("scale", "`range` or `none`", read)?;
        Ok(given.unwrap_or_else(|| Scale::default_for(unit)))
    }

    fn seed(&self) -> Result<u64, BasisError> {
        let read = |text: &str| digits(text).and_then(|text| text.parse().ok());
        Ok(self.option("seed", "a whole number below 2^64", read)?.unwrap_or(0))
    }
}

impl Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let random = |f: &mut fmt::Formatter<'_>, unit: Option<f64>, scale: Scale, seed: u64| {
            if scale != Scale::default_for(unit) {
                f.write_str(if scale == Scale::None { ",scale=none" } else { ",scale=range" })?;
            }
            if seed == 0 { Ok(()) } else { write!(f, ",seed={seed}") }
        };
        match &self.0 {
            Kind::Linear => f.write_str("linear"),
            Kind::Log => f.write_str("log"),
            Kind::Exp => f.write_str("exp"),
            Kind::Power { exponent } => write!(f, "power:{exponent:?}"),
            Kind::Polynomial { degree, interactions } => {
                write!(f, "poly:{degree}")?;
                if *interactions { Ok(()) } else { f.write_str(",interactions=false") }
            }
            Kind::Spline { count, range } => {
                write!(f, "spline:{count}")?;
                match range {
                    Some((lo, hi)) => write!(f, ",lo={lo:?},hi={hi:?}"),
                    None => Ok(()),
                }
            }
            Kind::Rbf { count, length, scale, seed } => {
                write!(f, "rbf:{count}")?;
                if let Some(length) = length {
                    write!(f, ",length={length:?}")?;
                }
                random(f, *length, *scale, *seed)
            }
            Kind::Rff { count, gamma, scale, seed } => {
                write!(f, "rff:{count}")?;
                if let Some(gamma) = gamma {
                    write!(f, ",gamma={gamma:?}")?;
                }
                random(f, *gamma, *scale, *seed)
            }
            Kind::Relu { count, scale, seed } => {
                write!(f, "relu:{count}")?;
                random(f, None, *scale, *seed)
            }
            Kind::Ntk { count, scale, seed } => {
                write!(f, "ntk:{count}")?;
                random(f, None, *scale, *seed)
            }
            Kind::Patches { count, windows, scale, seed } => {
                write!(f, "patches:{count}")?;
                let default = Windows::DEFAULT;
                for (key, value, default) in [
                    ("size", windows.size, default.size),
                    ("step", windows.step, default.step),
                    ("grid", windows.grid, default.grid),
                ] {
                    if value != default {
                        write!(f, ",{key}={value}")?;
                    }
                }
                if let Some((height, width)) = windows.shape {
                    write!(f, ",shape={height}x{width}")?;
                }
                random(f, None, *scale, *seed)
            }
        }
    }
}

fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

fn positive(text: &str) -> Option<f64> {
    finite(text).filter(|x| *x > 0.0)
}

/// Plain digits only: `usize` would also read `+8`.
fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(text)
}

/// The known name at the smallest edit distance, if at most 2 letters (and not all of them) differ.
fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let word: Vec<char> = word.chars().take(32).collect();
    let near = known.iter().map(|name| (distance(&word, name), *name)).min()?;
    (near.0 <= 2 && near.0 < near.1.len()).then_some(near.1)
}

/// Levenshtein distance: insertions, deletions and replacements that turn one word into the other.
fn distance(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, letter) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..a.len() {
            let replace = diagonal + usize::from(a[j] != letter);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}
