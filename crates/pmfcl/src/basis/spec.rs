//! How a basis is written: `name`, `name:number`, options after commas.
//!
//! | spec | options |
//! | --- | --- |
//! | `linear`, `log`, `exp` | |
//! | `poly:2` | `interactions=false`, `scale=`, `linear=` |
//! | `power:0.5` | |
//! | `spline:8` | `lo=0,hi=1` (together), or `scale=`, `linear=` |
//! | `rbf:200` | `length=`, `scale=`, `linear=`, `seed=` |
//! | `rff:1024` | `gamma=`, `scale=`, `linear=`, `seed=` |
//! | `relu:2000`, `ntk:256` | `scale=`, `linear=`, `seed=` |
//! | `patches:2000` | `size=9`, `step=2`, `grid=4`, `shape=28x28`, `scale=range\|none`, `seed=` |
//! | `auto`, `auto:800` | `only=bounded+spline`, `seed=` |
//!
//! `scale` is one of `clip`, `quantile`, `range`, `none` (see [`Scale`]); `linear=on` keeps the inputs as columns next
//! to the features, which is the default under `clip` and `quantile`.
//!
//! **Two readings.** Models made before there was a frozen map wrote `rff:1024` for what is now `rff:1024,scale=range`.
//! Files and agreements therefore hold [`Basis::stored`], where a scale that is not written is that of then; people
//! write and read [`Display`], where it is `clip`.
//!
//! Letters may be of either case and blanks around the pieces are ignored; [`Display`] writes the
//! canonical form, with every option that is not its default.

use std::fmt::{self, Display};
use std::str::FromStr;

use super::patches::Windows;
use super::{Basis, BasisError, MAX_COLUMNS};

/// Names of the bases, in the order of the documentation.
pub(super) const NAMES: &[&str] = &[
    "linear", "auto", "poly", "log", "exp", "power", "spline", "rbf", "rff", "relu", "ntk",
    "patches",
];

/// What a spec says. Numbers have been checked: counts at least 1, the rest finite.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Linear,
    Auto { width: Option<usize>, only: Vec<Piece>, seed: u64 },
    Polynomial { degree: usize, interactions: bool, scale: Scale, linear: bool },
    Log,
    Exp,
    Power { exponent: f64 },
    Spline { count: usize, range: Option<(f64, f64)>, scale: Scale, linear: bool },
    Rbf { count: usize, length: Option<f64>, scale: Scale, linear: bool, seed: u64 },
    Rff { count: usize, gamma: Option<f64>, scale: Scale, linear: bool, seed: u64 },
    Relu { count: usize, scale: Scale, linear: bool, seed: u64 },
    Ntk { count: usize, scale: Scale, linear: bool, seed: u64 },
    Patches { count: usize, windows: Windows, scale: Scale, seed: u64 },
}

impl Kind {
    /// The frozen map in front of the features, and whether the inputs stay as columns next to them; none where the features
    /// are made of the inputs as they come.
    pub(super) fn frame(&self) -> Option<(Scale, bool)> {
        match self {
            Self::Polynomial { scale, linear, .. }
            | Self::Spline { scale, linear, .. }
            | Self::Rbf { scale, linear, .. }
            | Self::Rff { scale, linear, .. }
            | Self::Relu { scale, linear, .. }
            | Self::Ntk { scale, linear, .. } => scale.is_frozen().then_some((*scale, *linear)),
            _ => None,
        }
    }

    /// The same features of inputs in the units of the frozen map.
    pub(super) fn inside(&self) -> Self {
        let mut inner = self.clone();
        match &mut inner {
            Self::Polynomial { scale, linear, .. }
            | Self::Rbf { scale, linear, .. }
            | Self::Rff { scale, linear, .. }
            | Self::Relu { scale, linear, .. }
            | Self::Ntk { scale, linear, .. } => (*scale, *linear) = (Scale::None, false),
            Self::Spline { scale, linear, .. } => (*scale, *linear) = (Scale::Range, false),
            _ => {}
        }
        inner
    }
}

/// The units in which features see the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// z/√(1 + (z/4)²) of z = (x − mean)/deviation, those of the first rows: far rows saturate at ±4.
    Clip,
    /// The share of the first rows below x, by knots, in units of its deviation: far rows saturate at ±√3. An input of
    /// fewer than 8 values is seen as by `Clip`.
    Quantile,
    /// x̃ = (x − lo)/(hi − lo), the range being that of the first rows.
    Range,
    /// As they come.
    None,
}

impl Scale {
    /// Whether a frozen map stands in front of the features.
    pub(super) fn is_frozen(self) -> bool {
        matches!(self, Self::Clip | Self::Quantile)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Clip => "clip",
            Self::Quantile => "quantile",
            Self::Range => "range",
            Self::None => "none",
        }
    }
}

/// The scale of a spec that names none. Who names a length or a γ speaks of the data's own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Of people.
    Present,
    /// Of files and agreements.
    Stored,
}

impl Reading {
    fn scale(self, unit: Option<f64>) -> Scale {
        match (unit, self) {
            (Some(_), _) => Scale::None,
            (None, Self::Present) => Scale::Clip,
            (None, Self::Stored) => Scale::Range,
        }
    }
}

/// A group of columns of `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    /// The inputs as they are.
    Linear,
    /// The inputs, bounded far out: next to features, which are bounded too.
    Bounded,
    /// Cubic splines of each input.
    Spline,
    /// Products of two inputs.
    Products,
    /// Random features that vary slowly.
    Smooth,
    /// Random features that vary fast.
    Fine,
    /// Random features of ranks.
    Ranks,
}

impl Piece {
    pub(super) const ALL: [Self; 7] = [
        Self::Linear,
        Self::Bounded,
        Self::Spline,
        Self::Products,
        Self::Smooth,
        Self::Fine,
        Self::Ranks,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Bounded => "bounded",
            Self::Spline => "spline",
            Self::Products => "products",
            Self::Smooth => "smooth",
            Self::Fine => "fine",
            Self::Ranks => "ranks",
        }
    }

    /// `bounded+spline`, in the order of the columns.
    pub(super) fn joined(pieces: &[Self]) -> String {
        pieces.iter().map(|piece| piece.name()).collect::<Vec<_>>().join("+")
    }

    fn read(text: &str) -> Option<Vec<Self>> {
        let one = |name: &str| Self::ALL.into_iter().find(|piece| piece.name() == name.trim());
        let pieces: Option<Vec<Self>> = text.split('+').map(one).collect();
        pieces.filter(|pieces| pieces.is_sorted_by(|a, b| a < b))
    }
}

impl Basis {
    /// The spec as files and agreements hold it: as [`Display`] writes it, except that `scale=range`, which was the only
    /// choice once, is the one left out.
    pub fn stored(&self) -> String {
        Written { kind: &self.0, reading: Reading::Stored }.to_string()
    }

    /// Reads what [`Basis::stored`] wrote, now or in an earlier version.
    ///
    /// # Errors
    /// As the reading of any spec.
    pub fn from_stored(spec: &str) -> Result<Self, BasisError> {
        read(spec, Reading::Stored)
    }
}

impl FromStr for Basis {
    type Err = BasisError;

    /// Reads a spec such as `rff:1024,gamma=0.1,seed=7`.
    ///
    /// # Errors
    /// Names the piece that cannot be read and what may stand there.
    fn from_str(spec: &str) -> Result<Self, BasisError> {
        read(spec, Reading::Present)
    }
}

fn read(spec: &str, reading: Reading) -> Result<Basis, BasisError> {
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
        "auto" => &["only", "seed"],
        "poly" => &["interactions", "scale", "linear"],
        "spline" => &["lo", "hi", "scale", "linear"],
        "rbf" => &["length", "scale", "linear", "seed"],
        "rff" => &["gamma", "scale", "linear", "seed"],
        "relu" | "ntk" => &["scale", "linear", "seed"],
        "patches" => &["size", "step", "grid", "shape", "scale", "seed"],
        _ => &[],
    };
    let mut given = Given { basis, head, number, reading, options: Vec::new() };
    for piece in pieces {
        given.read(piece, allowed)?;
    }
    Ok(Basis(given.kind()?))
}

/// A spec taken apart, before its numbers are read.
struct Given<'a> {
    basis: &'static str,
    head: &'a str,
    number: Option<&'a str>,
    reading: Reading,
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
                let scale =
                    self.scale_or(Scale::None, &[Scale::Clip, Scale::Quantile, Scale::None])?;
                Kind::Polynomial { degree, interactions, scale, linear: self.linear(scale)? }
            }
            "auto" => {
                let width = match self.number {
                    None => None,
                    Some(_) => Some(self.count("a number of features", "auto:800", 1)?),
                };
                let expected = "names of its columns joined by `+`, in the order linear, bounded, spline, products, smooth, fine, ranks";
                let only = self.option("only", expected, Piece::read)?.unwrap_or_default();
                Kind::Auto { width, only, seed: self.seed()? }
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
                let allowed: &[Scale] = match range {
                    // Where the range is given, nothing is taken from rows.
                    Some(_) => &[Scale::Range],
                    None => &[Scale::Clip, Scale::Quantile, Scale::Range],
                };
                let default = if range.is_some() { Scale::Range } else { self.reading.scale(None) };
                let scale = self.scale_or(default, allowed)?;
                Kind::Spline { count, range, scale, linear: self.linear(scale)? }
            }
            "rbf" => {
                let count = self.count("a number of centres", "rbf:200", 1)?;
                let length = self.option("length", "a positive number", positive)?;
                let (scale, linear) = self.scale_and_linear(length)?;
                Kind::Rbf { count, length, scale, linear, seed: self.seed()? }
            }
            "rff" => {
                let count = self.count("a number of features", "rff:1024", 1)?;
                let gamma = self.option("gamma", "a positive number", positive)?;
                let (scale, linear) = self.scale_and_linear(gamma)?;
                Kind::Rff { count, gamma, scale, linear, seed: self.seed()? }
            }
            "relu" => {
                let count = self.count("a number of units", "relu:2000", 1)?;
                let (scale, linear) = self.scale_and_linear(None)?;
                Kind::Relu { count, scale, linear, seed: self.seed()? }
            }
            "ntk" => {
                let count = self.count("a number of hidden units", "ntk:256", 1)?;
                let (scale, linear) = self.scale_and_linear(None)?;
                Kind::Ntk { count, scale, linear, seed: self.seed()? }
            }
            "patches" => {
                let count = self.count("a number of columns", "patches:2000", 1)?;
                let windows = self.windows()?;
                if count % windows.regions() != 0 {
                    let expected = "a multiple of the square of `grid`, 16 where it is not given";
                    return Err(self.wrong(self.head.trim(), expected));
                }
                let scale = self.scale_or(Scale::Range, &[Scale::Range, Scale::None])?;
                Kind::Patches { count, windows, scale, seed: self.seed()? }
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

    fn scale_or(&self, default: Scale, allowed: &[Scale]) -> Result<Scale, BasisError> {
        let read = |text: &str| allowed.iter().copied().find(|scale| scale.name() == text);
        let expected = match allowed {
            [Scale::Range] => "`range`: knots lie between `lo` and `hi`",
            [Scale::Range, Scale::None] => "`range` or `none`",
            [Scale::Clip, Scale::Quantile, Scale::Range] => "`clip`, `quantile` or `range`",
            [Scale::Clip, Scale::Quantile, Scale::None] => "`clip`, `quantile` or `none`",
            _ => "`clip`, `quantile`, `range` or `none`",
        };
        Ok(self.option("scale", expected, read)?.unwrap_or(default))
    }

    /// The inputs as columns next to the features: they need the bounds that a frozen map knows.
    fn linear(&self, scale: Scale) -> Result<bool, BasisError> {
        let read = |text: &str| match text {
            "on" => scale.is_frozen().then_some(true),
            "off" => Some(false),
            _ => None,
        };
        let expected = if scale.is_frozen() {
            "`on` or `off`"
        } else {
            "`off`: inputs stand next to features of scale `clip` or `quantile` only"
        };
        Ok(self.option("linear", expected, read)?.unwrap_or(scale.is_frozen()))
    }

    fn scale_and_linear(&self, unit: Option<f64>) -> Result<(Scale, bool), BasisError> {
        let all = [Scale::Clip, Scale::Quantile, Scale::Range, Scale::None];
        let scale = self.scale_or(self.reading.scale(unit), &all)?;
        Ok((scale, self.linear(scale)?))
    }

    fn seed(&self) -> Result<u64, BasisError> {
        let read = |text: &str| digits(text).and_then(|text| text.parse().ok());
        Ok(self.option("seed", "a whole number below 2^64", read)?.unwrap_or(0))
    }
}

impl Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Written { kind: &self.0, reading: Reading::Present }.fmt(f)
    }
}

/// A spec on its way to text.
struct Written<'a> {
    kind: &'a Kind,
    reading: Reading,
}

impl Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is not the default of this reading.
        let units = |f: &mut fmt::Formatter<'_>, default: Scale, scale: Scale, linear: bool| {
            if scale != default {
                write!(f, ",scale={}", scale.name())?;
            }
            if linear == scale.is_frozen() { Ok(()) } else { f.write_str(",linear=off") }
        };
        let seeded = |f: &mut fmt::Formatter<'_>, seed: u64| {
            if seed == 0 { Ok(()) } else { write!(f, ",seed={seed}") }
        };
        let default = |unit: Option<f64>| self.reading.scale(unit);
        match self.kind {
            Kind::Linear => f.write_str("linear"),
            Kind::Log => f.write_str("log"),
            Kind::Exp => f.write_str("exp"),
            Kind::Power { exponent } => write!(f, "power:{exponent:?}"),
            Kind::Auto { width, only, seed } => {
                f.write_str("auto")?;
                if let Some(width) = width {
                    write!(f, ":{width}")?;
                }
                if !only.is_empty() {
                    write!(f, ",only={}", Piece::joined(only))?;
                }
                seeded(f, *seed)
            }
            Kind::Polynomial { degree, interactions, scale, linear } => {
                write!(f, "poly:{degree}")?;
                if !interactions {
                    f.write_str(",interactions=false")?;
                }
                units(f, Scale::None, *scale, *linear)
            }
            Kind::Spline { count, range, scale, linear } => {
                write!(f, "spline:{count}")?;
                match range {
                    Some((lo, hi)) => write!(f, ",lo={lo:?},hi={hi:?}"),
                    None => units(f, default(None), *scale, *linear),
                }
            }
            Kind::Rbf { count, length, scale, linear, seed } => {
                write!(f, "rbf:{count}")?;
                if let Some(length) = length {
                    write!(f, ",length={length:?}")?;
                }
                units(f, default(*length), *scale, *linear)?;
                seeded(f, *seed)
            }
            Kind::Rff { count, gamma, scale, linear, seed } => {
                write!(f, "rff:{count}")?;
                if let Some(gamma) = gamma {
                    write!(f, ",gamma={gamma:?}")?;
                }
                units(f, default(*gamma), *scale, *linear)?;
                seeded(f, *seed)
            }
            Kind::Relu { count, scale, linear, seed } => {
                write!(f, "relu:{count}")?;
                units(f, default(None), *scale, *linear)?;
                seeded(f, *seed)
            }
            Kind::Ntk { count, scale, linear, seed } => {
                write!(f, "ntk:{count}")?;
                units(f, default(None), *scale, *linear)?;
                seeded(f, *seed)
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
                units(f, Scale::Range, *scale, false)?;
                seeded(f, *seed)
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
