//! What a learner is set up with, apart from the problem it solves.
//!
//! Every setting has one spelling, its `Display`, which `FromStr` reads back: on the command line, in
//! Python, in model files and in messages.

mod preference;

pub use preference::Preference;
pub(crate) use preference::Weighed;

use std::fmt;
use std::str::FromStr;

use crate::basis::{Basis, Design};
use crate::error::{Error, Result};
use crate::solve::Penalty;
use crate::summary::Accumulator;

/// How the ridge is set.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Ridge {
    /// Chosen from the summaries: by generalised cross-validation on standardized features for squared loss,
    /// by the rule of [`crate::problem`] for losses that are bounded.
    #[default]
    Auto,
    /// The one that predicts left-out tasks best; needs the ledger. GCV while there is only one task.
    LeaveOneTaskOut,
    /// `(λ/2)‖θ‖²` on the mean loss, intercept free. 0 is least squares of minimum norm.
    Fixed(f64),
    /// The same with a number of its own for each target; squared loss of values only.
    PerTarget(Vec<f64>),
}

impl Ridge {
    /// Refuses a list of another length than there are targets.
    pub(crate) fn check_targets(&self, targets: usize) -> Result<()> {
        match self {
            Self::PerTarget(list) if list.len() != targets => Err(Error::Shape {
                what: "the list of ridges",
                unit: "numbers",
                expected: targets,
                found: list.len(),
            }),
            _ => Ok(()),
        }
    }
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

/// In which precision the numbers of task summaries are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoredPrecision {
    /// As they are summed.
    #[default]
    F64,
    /// Rounded when a task is learned, for half the bytes in files: every number is off by a share of at most 2⁻²⁴, so the summary
    /// is that of rows nearby. For losses that are exact; a bound that was rounded would not be one.
    F32,
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
    /// In which precision task summaries are kept.
    pub store: StoredPrecision,
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
            store: StoredPrecision::default(),
            prefer: Preference::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Columns from which on the sums of a portfolio are products.
const PRODUCTS: usize = 128;

impl Settings {
    /// Whether the automatic ridge, never below 1e-10 of the trace, shrinks what a portfolio finds: products of its
    /// columns then keep enough digits.
    pub(crate) fn shrinks(&self, design: &Design) -> bool {
        self.accumulator == Accumulator::Auto
            && self.ridge == Ridge::Auto
            && design.map().is_portfolio_of_products()
    }

    /// How rows of a design are accumulated: what `auto` stands for.
    pub(crate) fn accumulator_for(&self, design: &Design) -> Accumulator {
        if self.shrinks(design) && design.width() > PRODUCTS {
            return Accumulator::Gram;
        }
        self.accumulator.for_width(design.width())
    }

    /// Checks what does not depend on the problem.
    pub(crate) fn check(&self) -> Result<()> {
        self.prefer.check()?;
        if let Some(value) = self.clip.filter(|clip| !(1e-30..=1e30).contains(clip)) {
            return Err(Error::Range { what: "clip", value, must: "between 1e-30 and 1e30" });
        }
        match &self.ridge {
            Ridge::Fixed(x) => drop(Penalty::new(*x, self.standardize)?),
            Ridge::PerTarget(list) => drop(Penalty::per_target(list, self.standardize)?),
            Ridge::Auto | Ridge::LeaveOneTaskOut => {}
        }
        if self.ridge == Ridge::LeaveOneTaskOut && self.memory == MemoryKind::Compact {
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
setting_names!(
    StoredPrecision,
    "f64, f32",
    "f64" => StoredPrecision::F64,
    "f32" => StoredPrecision::F32,
);
setting_names!(
    Accumulator,
    "auto, qr, gram, mixed",
    "auto" => Accumulator::Auto,
    "qr" => Accumulator::Qr,
    "gram" => Accumulator::Gram,
    "mixed" => Accumulator::Mixed,
);

impl fmt::Display for Ridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::LeaveOneTaskOut => f.write_str("leave-one-task-out"),
            Self::Fixed(x) => x.fmt(f),
            Self::PerTarget(list) => {
                let texts: Vec<String> = list.iter().map(f64::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl FromStr for Ridge {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "leave-one-task-out" => Ok(Self::LeaveOneTaskOut),
            other => {
                let number = |text: &str| finite(text.trim()).filter(|x| *x >= 0.0);
                match other.split(',').map(number).collect::<Option<Vec<f64>>>() {
                    Some(list) if list.len() == 1 => Ok(Self::Fixed(list[0])),
                    Some(list) => Ok(Self::PerTarget(list)),
                    None => unknown(
                        text,
                        "a number of 0 or more (or one for each target, separated by commas), auto, leave-one-task-out",
                    ),
                }
            }
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
        back::<Accumulator>(&["auto", "qr", "gram", "mixed"]);
        back::<StoredPrecision>(&["f64", "f32"]);
        back::<Ridge>(&["auto", "leave-one-task-out", "0", "0.1", "0.0000001", "0.1,0,3"]);
        back::<Preference>(&["samples", "equal", "decay:0.9"]);
        for bad in ["-1", "nan", "inf", "", "1,", "1,auto", "1,-1"] {
            assert!(bad.parse::<Ridge>().is_err(), "{bad}");
        }
        for bad in ["decay:0", "decay:1.1", "decay:", "chosen"] {
            assert!(bad.parse::<Preference>().is_err(), "{bad}");
        }
    }
}
