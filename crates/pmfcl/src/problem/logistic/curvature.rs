//! How curved the quadratic is: one number `c_i` for every row.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// No row's curvature is taken smaller. A row so sure of itself that `p(1−p)` is below this still pulls on
/// the parameters if it is wrong; with a weight of 0 its gradient would lie outside the row space of `R`.
/// Raising a curvature keeps a bound a bound.
const LEAST: f64 = 1e-10;

/// How the loss of a task is turned into a quadratic: the weight `c_i` of `x_i x_iᵀ`.
///
/// | name       | binary                   | softmax                                              | a bound? |
/// |------------|--------------------------|------------------------------------------------------|----------|
/// | `bohning`  | `¼`                      | `½`                                                  | yes      |
/// | `sharp`    | `tanh(ξ/2) / 2ξ`, `ξ = η` | `tanh(ξ/2) / ξ`, `ξ = logit max_k p_k`; `½` for `ξ ≤ 0` | yes   |
/// | `hessian`  | `p(1 − p)`               | `(1 − Σ p_k²) / (K − 1)`                              | no       |
/// | `blend`    | mean of `hessian` and `sharp` | the same                                         | no       |
/// | `diagonal` | `Diag(Σ_j │H_ij│)` of `sharp` | the same                                         | yes      |
/// | `fisher`   | `Diag` of squared gradients at drawn labels | the same, over `K − 1`              | no       |
///
/// The softmax Hessian of a row, `diag(p) − ppᵀ`, is not a multiple of `I − 11ᵀ/K`, and the full `Km × Km` matrix does
/// not fit a summary with one `R`. The multiple nearest to it in Frobenius norm is its trace over that of the
/// projector, the mean of its `K − 1` eigenvalues: `(1 − Σp²)/(K − 1)`. Exact for `K = 2` and for even odds. Measured on
/// five kinds of drifting streams of six classes it is also the best candidate: in the sequential scheme its log-loss above
/// joint training is about half that of the root mean square of the eigenvalues and a sixth of that of the largest.
///
/// Paper: Lemma E.1 (`lem:bohning-multiclass`) for `bohning`; the paper's Fisher diagonal is no bound (erratum).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Curvature {
    /// The largest curvature anywhere: the paper's form.
    Bohning,
    /// The smallest curvature that still bounds the loss everywhere from this anchor (binary: Jaakkola and
    /// Jordan, de Leeuw and Lange; softmax: by the largest probability). Never above [`Curvature::Bohning`].
    #[default]
    Sharp,
    /// The curvature at the anchor (Laplace): the best local fit.
    Hessian,
    /// Halfway between [`Curvature::Hessian`] and [`Curvature::Sharp`].
    Blend,
    /// A diagonal above the sharp curvature.
    Diagonal,
    /// The Monte-Carlo diagonal of the Fisher information, as in elastic weight consolidation.
    Fisher {
        /// Labels drawn for each row; at least one is.
        draws: u32,
        /// Where the draws start.
        seed: u64,
    },
}

impl Curvature {
    /// Whether the quadratic lies above the loss for every parameter.
    pub fn guaranteed(self) -> bool {
        matches!(self, Self::Bohning | Self::Sharp | Self::Diagonal)
    }

    /// Whether only a diagonal is kept.
    pub fn is_diagonal(self) -> bool {
        matches!(self, Self::Diagonal | Self::Fisher { .. })
    }

    /// `c_i` of two classes at `η`; `row` numbers the draws of [`Curvature::Fisher`].
    pub(super) fn binary(self, eta: f64, row: usize) -> f64 {
        let hessian = || logistic(eta) * logistic(-eta);
        let c = match self {
            Self::Bohning => 0.25,
            Self::Sharp | Self::Diagonal => sharp(eta),
            Self::Hessian => hessian(),
            Self::Blend => f64::midpoint(hessian(), sharp(eta)),
            Self::Fisher { draws, seed } => {
                let (p, q) = (logistic(eta), logistic(-eta));
                mean_of_draws(draws, seed, row, |u| if u < p { q * q } else { p * p })
            }
        };
        c.max(LEAST)
    }

    /// `c_i` of a softmax row with probabilities `p` and `ξ = logit max p`.
    pub(super) fn softmax(self, p: &[f64], xi: f64, row: usize) -> f64 {
        // 1 − Σp² = Σ p(1 − p), with 1 − max p as the sum of the others.
        let hessian = || {
            let top = argmax(p);
            let others: f64 = p.iter().enumerate().filter(|(k, _)| *k != top).map(|(_, p)| p).sum();
            let spread: f64 = p
                .iter()
                .enumerate()
                .map(|(k, p)| p * if k == top { others } else { 1.0 - p })
                .sum();
            spread / (p.len() - 1) as f64
        };
        let sharp = || if xi > 0.0 { 2.0 * sharp(xi) } else { 0.5 };
        let c = match self {
            Self::Bohning => 0.5,
            Self::Sharp | Self::Diagonal => sharp(),
            Self::Hessian => hessian(),
            Self::Blend => f64::midpoint(hessian(), sharp()),
            Self::Fisher { draws, seed } => {
                let squares: f64 = p.iter().map(|p| p * p).sum();
                let top = argmax(p);
                let others: f64 =
                    p.iter().enumerate().filter(|(k, _)| *k != top).map(|(_, p)| p).sum();
                let one = |y: usize| {
                    // ‖p − e_y‖², without cancellation where p is nearly e_y.
                    let miss = if y == top { others } else { 1.0 - p[y] };
                    let rest = if y == top {
                        p.iter().enumerate().filter(|(k, _)| *k != y).map(|(_, p)| p * p).sum()
                    } else {
                        squares - p[y] * p[y]
                    };
                    miss * miss + rest
                };
                let mean = mean_of_draws(draws, seed, row, |u| {
                    let mut left = u;
                    for (k, p) in p.iter().enumerate() {
                        left -= p;
                        if left < 0.0 {
                            return one(k);
                        }
                    }
                    one(top)
                });
                mean / (p.len() - 1) as f64
            }
        };
        c.max(LEAST)
    }
}

impl fmt::Display for Curvature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bohning => "bohning",
            Self::Sharp => "sharp",
            Self::Hessian => "hessian",
            Self::Blend => "blend",
            Self::Diagonal => "diagonal",
            Self::Fisher { draws, seed } => return write!(f, "fisher:{draws},seed={seed}"),
        })
    }
}

impl FromStr for Curvature {
    type Err = Error;

    /// Reads the names of the table; `fisher` alone is `fisher:1,seed=0`.
    fn from_str(text: &str) -> Result<Self> {
        let fisher = |options: &str| {
            let (mut draws, mut seed) = (1, 0);
            for option in options.split(',').filter(|o| !o.is_empty()) {
                match option.strip_prefix("seed=") {
                    Some(value) => seed = value.parse().ok()?,
                    None => draws = option.parse().ok().filter(|d| *d > 0)?,
                }
            }
            Some(Self::Fisher { draws, seed })
        };
        let found = match text {
            "bohning" => Some(Self::Bohning),
            "sharp" => Some(Self::Sharp),
            "hessian" => Some(Self::Hessian),
            "blend" => Some(Self::Blend),
            "diagonal" => Some(Self::Diagonal),
            "fisher" => fisher(""),
            _ => text.strip_prefix("fisher:").and_then(fisher),
        };
        found.ok_or_else(|| Error::Unsupported {
            operation: "this curvature",
            reason: format!(
                "`{text}` is none of bohning, sharp, hessian, blend, diagonal, fisher, fisher:DRAWS,seed=S"
            ),
        })
    }
}

/// `1 / (1 + e^{−η})`, with full relative precision at both ends.
pub(super) fn logistic(eta: f64) -> f64 {
    if eta >= 0.0 {
        1.0 / (1.0 + (-eta).exp())
    } else {
        let e = eta.exp();
        e / (1.0 + e)
    }
}

/// `tanh(ξ/2) / 2ξ`, which is even, at most ¼, and ¼ at 0.
fn sharp(xi: f64) -> f64 {
    let xi = xi.abs();
    if xi < 1e-3 {
        // ¼ − ξ²/48 + ξ⁴/480: the next term is below 1e-20.
        0.25 - xi * xi / 48.0 + xi.powi(4) / 480.0
    } else {
        (xi / 2.0).tanh() / (2.0 * xi)
    }
}

fn argmax(p: &[f64]) -> usize {
    (0..p.len()).fold(0, |best, k| if p[k] > p[best] { k } else { best })
}

/// The mean of `f` over uniform draws that depend on seed, row and draw alone (splitmix64).
fn mean_of_draws(draws: u32, seed: u64, row: usize, f: impl Fn(f64) -> f64) -> f64 {
    let draws = draws.max(1);
    let mut sum = 0.0;
    for d in 0..u64::from(draws) {
        let mut z = seed
            .wrapping_add((row as u64).wrapping_mul(u64::from(draws)).wrapping_add(d))
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        sum += f((z >> 11) as f64 / (1u64 << 53) as f64);
    }
    sum / f64::from(draws)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sharp_curvature_is_smooth_where_its_series_ends() {
        // The terms left out are 17 ξ⁶ / 80640 ≤ 3e-22; tanh and the division cost a few ε.
        let (below, above) = (sharp(1e-3 * (1.0 - 1e-12)), sharp(1e-3));
        assert!((below - above).abs() < 4.0 * f64::EPSILON, "{below} {above}");
        assert!((sharp(0.0) - 0.25).abs() < f64::EPSILON);
        assert!((sharp(700.0) - 1.0 / 1400.0).abs() < 1e-18);
    }

    #[test]
    fn names_are_read_back() {
        for name in ["bohning", "sharp", "hessian", "blend", "diagonal", "fisher:3,seed=7"] {
            assert_eq!(name.parse::<Curvature>().unwrap().to_string(), name);
        }
        assert_eq!("fisher".parse::<Curvature>().unwrap(), Curvature::Fisher { draws: 1, seed: 0 });
        for bad in ["", "Sharp", "fisher:0", "fisher:x", "fisher:1,seed=-1"] {
            assert!(bad.parse::<Curvature>().is_err(), "{bad}");
        }
    }

    #[test]
    fn two_softmax_classes_have_the_curvature_of_binary() {
        // ‖(I − 11ᵀ/2)(0, δ)‖² = δ²/2, so the softmax number is twice the binary one.
        for eta in [-700.0, -3.0, -1e-5, 0.0, 0.4, 20.0, 700.0] {
            let p = [logistic(-eta), logistic(eta)];
            for kind in [Curvature::Sharp, Curvature::Bohning, Curvature::Hessian, Curvature::Blend]
            {
                let (two, one) = (kind.softmax(&p, eta.abs(), 0), 2.0 * kind.binary(eta, 0));
                assert!((two - one).abs() <= 1e-14 * one + 1e-10, "{kind} at {eta}: {two} {one}");
            }
        }
    }

    #[test]
    fn draws_average_to_the_information() {
        // 20,000 draws of a variable in [0, 1]: five standard errors are below 5/(2√20000) = 0.018.
        let kind = Curvature::Fisher { draws: 20_000, seed: 3 };
        assert!((kind.binary(0.8, 5) - Curvature::Hessian.binary(0.8, 5)).abs() < 0.018);
        let p = [0.2, 0.5, 0.3];
        let gap = kind.softmax(&p, 0.0, 9) - Curvature::Hessian.softmax(&p, 0.0, 9);
        assert!(gap.abs() < 0.018, "{gap}");
    }
}
