//! Preferences: how much each task counts.
//!
//! Paper: Definition 3.1 (`def:mtl`), eq. 3 (`eq:preference_global`).

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use super::{finite, unknown};
use crate::error::{Error, Result, listing};

/// What a preference weighs a task by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weighed<'a> {
    pub(crate) name: &'a str,
    pub(crate) samples: f64,
    /// The weight it was learned with.
    pub(crate) weight: f64,
}

/// How the tasks are weighed: `Σ_t α_t L_t(θ)` is minimised, `α` a point of the simplex.
///
/// Each task may also carry a weight `w_t` of its own (1 where none is given), so fixed user weights are
/// `Equal` with weights.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Preference {
    /// `α_t ∝ w_t n_t`: every sample counts the same; this is joint training on all rows (Lemma 3.5).
    #[default]
    Samples,
    /// `α_t ∝ w_t`: every task counts the same.
    Equal,
    /// `α_t ∝ w_t γ^{k−t}`: a task counts `γ` times less with every task that comes after it.
    Decay(f64),
    /// `α` chosen by hand, task by task, in hindsight; tasks not named count nothing.
    Chosen(Vec<(String, f64)>),
}

impl Preference {
    /// Checks what can be checked without tasks.
    ///
    /// # Errors
    /// When a decay is outside `(0, 1]`, or chosen weights are negative or do not sum to one.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Samples | Self::Equal => Ok(()),
            Self::Decay(g) if *g > 0.0 && *g <= 1.0 => Ok(()),
            Self::Decay(g) => {
                Err(Error::Range { what: "decay", value: *g, must: "above 0 and at most 1" })
            }
            Self::Chosen(list) if list.is_empty() => Err(Error::Preference {
                reason: "no task is named; give at least one a weight".to_owned(),
            }),
            Self::Chosen(list) => {
                if let Some((name, a)) = list.iter().find(|(_, a)| !(*a >= 0.0 && a.is_finite())) {
                    return Err(Error::Preference {
                        reason: format!("`{name}` weighs {a}; weights are 0 or more"),
                    });
                }
                let sum: f64 = list.iter().map(|(_, a)| a).sum();
                if (sum - 1.0).abs() > 1e-6 {
                    return Err(Error::Preference {
                        reason: format!(
                            "the weights sum to {sum}; divide them by that to sum to 1"
                        ),
                    });
                }
                let mut names: Vec<_> = list.iter().map(|(name, _)| name).collect();
                names.sort_unstable();
                match names.windows(2).find(|w| w[0] == w[1]) {
                    Some(twice) => {
                        Err(Error::Preference { reason: format!("`{}` is named twice", twice[0]) })
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// The unnormalised weight of each task.
    pub(crate) fn shares(&self, tasks: &[Weighed<'_>]) -> Result<Vec<f64>> {
        self.check()?;
        let count = tasks.len();
        match self {
            Self::Samples => Ok(tasks.iter().map(|t| t.weight * t.samples).collect()),
            Self::Equal => Ok(tasks.iter().map(|t| t.weight).collect()),
            Self::Decay(g) => {
                let age = |t: usize| i32::try_from(count - 1 - t).unwrap_or(i32::MAX);
                Ok((0..count).map(|t| tasks[t].weight * g.powi(age(t))).collect())
            }
            Self::Chosen(list) => {
                let mut shares = vec![0.0; count];
                let places: HashMap<&str, usize> =
                    tasks.iter().enumerate().map(|(t, task)| (task.name, t)).collect();
                for (name, a) in list {
                    match places.get(name.as_str()) {
                        Some(t) => shares[*t] = *a,
                        None => {
                            return Err(Error::UnknownTask {
                                name: name.clone(),
                                known: listing(tasks.iter().map(|t| t.name)),
                            });
                        }
                    }
                }
                Ok(shares)
            }
        }
    }

    /// The same preference over some of the tasks: chosen weights are rescaled to sum to one. Where none
    /// of the chosen ones is left, samples decide.
    pub(crate) fn restricted<'a>(&self, names: impl Iterator<Item = &'a str>) -> Self {
        let Self::Chosen(list) = self else { return self.clone() };
        let names: HashSet<&str> = names.collect();
        let kept: Vec<&(String, f64)> =
            list.iter().filter(|(name, _)| names.contains(name.as_str())).collect();
        let sum: f64 = kept.iter().map(|(_, a)| a).sum();
        if sum <= 0.0 {
            return Self::Samples;
        }
        Self::Chosen(kept.into_iter().map(|(name, a)| (name.clone(), a / sum)).collect())
    }

    /// The factor on the weight of a task when `count` more have come after it.
    pub(crate) fn fade(&self, count: usize) -> f64 {
        match self {
            Self::Decay(g) => g.powi(i32::try_from(count).unwrap_or(i32::MAX)),
            Self::Samples | Self::Equal | Self::Chosen(_) => 1.0,
        }
    }

    /// Weight of a task that arrives now, before normalisation, and the factor on all before it.
    ///
    /// A preference that has these two numbers runs in constant memory.
    pub(crate) fn arrival(&self, samples: f64, weight: f64) -> Option<(f64, f64)> {
        match self {
            Self::Samples => Some((weight * samples, 1.0)),
            Self::Equal => Some((weight, 1.0)),
            Self::Decay(g) => Some((weight, *g)),
            Self::Chosen(_) => None,
        }
    }
}

impl fmt::Display for Preference {
    /// `chosen` for weights chosen task by task, which no short name can tell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples => f.write_str("samples"),
            Self::Equal => f.write_str("equal"),
            Self::Decay(g) => write!(f, "decay:{g}"),
            Self::Chosen(_) => f.write_str("chosen"),
        }
    }
}

impl FromStr for Preference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let decay = |text: &str| {
            text.strip_prefix("decay:").and_then(finite).filter(|g| *g > 0.0 && *g <= 1.0)
        };
        match text {
            "samples" => Ok(Self::Samples),
            "equal" => Ok(Self::Equal),
            other => match decay(other) {
                Some(g) => Ok(Self::Decay(g)),
                None => unknown(text, "samples, equal, decay:G with G above 0 and at most 1"),
            },
        }
    }
}
