//! What a learner is set up with, apart from the problem it solves.
//!
//! Every setting has one spelling, its `Display`, which `FromStr` reads back: on the command line, in
//! Python, in model files and in messages.

mod preference;

pub use preference::Preference;
pub(crate) use preference::Weighed;

use std::fmt;
use std::str::FromStr;

use crate::basis::Basis;
use crate::error::{Error, Result};
use crate::solve::Penalty;
use crate::summary::Accumulator;

/// How the ridge is set.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Ridge {
    /// Chosen from the summaries: by generalised cross-validation on standardized features for squared loss,
    /// by the rule of [`crate::problem`] for losses that are bounded.
    #[default]
    Auto,
    /// The one that predicts left-out tasks best; needs the ledger. GCV while there is only one task.
    LeaveOneTaskOut,
    /// `(λ/2)‖θ‖²` on the mean loss, intercept free. 0 is least squares of minimum norm.
    Fixed(f64),
}

/// Which memory to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// One summary per task: any preference in hindsight, forgetting per task, exact unlearning.
    #[default]
    Ledger,
    /// One merged summary of constant size.
    Compact,
}

/// What a learner is set up with; cannot change afterwards, except preference and ridge.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The basis inputs are mapped through.
    pub basis: Basis,
    /// Whether there is a free intercept.
    pub intercept: bool,
    /// The longest features of a row, after the basis and without the intercept: longer ones are scaled down to it, in learning and in
    /// predicting alike. For models of private summaries, whose rows are held to such a bound.
    pub clip: Option<f64>,
    /// The ridge.
    pub ridge: Ridge,
    /// Whether the ridge is multiplied by feature variances. `Ridge::Auto` always does.
    pub standardize: bool,
    /// What is remembered.
    pub memory: MemoryKind,
    /// How rows are accumulated.
    pub accumulator: Accumulator,
    /// How tasks are weighed.
    pub prefer: Preference,
    /// Threads to use; the result does not depend on it.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            basis: Basis::default(),
            intercept: true,
            clip: None,
            ridge: Ridge::default(),
            standardize: false,
            memory: MemoryKind::default(),
            accumulator: Accumulator::default(),
            prefer: Preference::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Settings {
    /// Checks what does not depend on the problem.
    pub(crate) fn check(&self) -> Result<()> {
        self.prefer.check()?;
        if let Some(value) = self.clip.filter(|clip| !(1e-30..=1e30).contains(clip)) {
            return Err(Error::Range { what: "clip", value, must: "between 1e-30 and 1e30" });
        }
        if let Ridge::Fixed(x) = self.ridge {
            Penalty::new(x, self.standardize)?;
        }
        if (self.ridge, self.memory) == (Ridge::LeaveOneTaskOut, MemoryKind::Compact) {
            return Err(Error::Unsupported {
                operation: "choosing the ridge by leaving tasks out",
                reason: "compact memory merges the tasks; use the ledger, or auto".to_owned(),
            });
        }
        Ok(())
    }
}

/// The error for a text that names no setting.
pub(crate) fn unknown<T>(value: &str, expected: &'static str) -> Result<T> {
    Err(Error::SettingName { value: value.to_owned(), expected })
}

/// A finite number.
pub(crate) fn finite(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

/// `Display` and `FromStr` of an enum without numbers.
macro_rules! setting_names {
    ($type:ty, $expected:literal, $($name:literal => $value:path),+ $(,)?) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($value => $name,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<Self> {
                match text {
                    $($name => Ok($value),)+
                    _ => $crate::settings::unknown(text, $expected),
                }
            }
        }
    };
}
pub(crate) use setting_names;

setting_names!(
    MemoryKind,
    "ledger, compact",
    "ledger" => MemoryKind::Ledger,
    "compact" => MemoryKind::Compact,
);
setting_names!(Accumulator, "qr, gram", "qr" => Accumulator::Qr, "gram" => Accumulator::Gram);

impl fmt::Display for Ridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::LeaveOneTaskOut => f.write_str("leave-one-task-out"),
            Self::Fixed(x) => x.fmt(f),
        }
    }
}

impl FromStr for Ridge {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "leave-one-task-out" => Ok(Self::LeaveOneTaskOut),
            other => match finite(other).filter(|x| *x >= 0.0) {
                Some(x) => Ok(Self::Fixed(x)),
                None => unknown(text, "a number of 0 or more, auto, leave-one-task-out"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back<S: FromStr<Err = Error> + ToString>(names: &[&str]) {
        for name in names {
            assert_eq!(name.parse::<S>().map(|s| s.to_string()), Ok((*name).to_owned()));
        }
        let error = "nothing like it".parse::<S>().map(|_| ()).expect_err("no such name");
        assert!(error.to_string().contains("none of"), "{error}");
    }

    #[test]
    fn every_name_is_read_back() {
        back::<MemoryKind>(&["ledger", "compact"]);
        back::<Accumulator>(&["qr", "gram"]);
        back::<Ridge>(&["auto", "leave-one-task-out", "0", "0.1", "0.0000001"]);
        back::<Preference>(&["samples", "equal", "decay:0.9"]);
        for bad in ["-1", "nan", "inf", ""] {
            assert!(bad.parse::<Ridge>().is_err(), "{bad}");
        }
        for bad in ["decay:0", "decay:1.1", "decay:", "chosen"] {
            assert!(bad.parse::<Preference>().is_err(), "{bad}");
        }
    }
}
