//! What a client sends for one step.

use crate::error::{Error, Result};
use crate::solve::{Penalty, solve};
use crate::summary::Summary;

/// Longest name of a client, in bytes.
pub(super) const LONGEST_NAME: usize = 255;

/// How much of the curvature is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateForm {
    /// All of it: `r(m+p) − r(r−1)/2` numbers, which at low rank `r` are few as they are.
    #[default]
    Exact,
    /// `2m` numbers for one target: `H ≼ Diag(Σ_j |H_ij|)` about the step's own minimizer. An upper bound of the loss that
    /// touches it there, so the bound on forgetting holds; the model is no longer that of pooled rows.
    Diagonal,
}

/// How numbers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// Eight bytes each: nothing is lost.
    #[default]
    Double,
    /// Four bytes each, but for the first row, which holds the means where there is an intercept, and the sums. Every
    /// number is off by a share of at most 2⁻²⁴: the summary is that of rows nearby, and a bound holds but for that rounding.
    Single,
}

/// What is known of a step's log-loss beside its quadratic.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bound {
    /// A certified lower bound of its least.
    pub(super) least: f64,
    /// Whether its classes can be told apart without error.
    pub(super) separable: bool,
    /// Samples of each agreed class.
    pub(super) counts: Vec<f64>,
    /// Moments of its design columns.
    pub(super) moments: Vec<f64>,
}

/// What a client sends for one step: the summary of its new rows.
///
/// Made by [`Agreement::summarize`](super::Agreement::summarize). The square-root form is positive semi-definite whatever its
/// numbers are; sums of products from elsewhere become one through [`Summary::from_products`], which checks them.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    pub(super) client: String,
    pub(super) step: u64,
    pub(super) model: u64,
    pub(super) form: UpdateForm,
    pub(super) numbers: Numbers,
    pub(super) summary: Summary,
    pub(super) bound: Option<Bound>,
}

impl Update {
    pub(super) fn new(
        client: &str,
        step: u64,
        model: u64,
        summary: Summary,
        bound: Option<Bound>,
    ) -> Result<Self> {
        if !is_name(client) {
            return Err(Error::Unsupported {
                operation: "this name of a client",
                reason: format!("a name has 1 to {LONGEST_NAME} bytes and no control characters"),
            });
        }
        let summary = summary.with_plain_zeros();
        let (form, numbers) = (UpdateForm::Exact, Numbers::Double);
        Ok(Self { client: client.to_owned(), step, model, form, numbers, summary, bound })
    }

    /// An update of a summary made elsewhere under the agreed design, for values and for classes by `squared` and `gaussian`
    /// (targets are then class indicators).
    ///
    /// # Errors
    /// When the summary has another shape or no rows, and for log-loss, which needs the rows.
    pub fn from_summary(
        agreement: &super::Agreement,
        client: &str,
        step: u64,
        summary: Summary,
    ) -> Result<Self> {
        let expected = (agreement.design().width(), agreement.targets());
        if agreement.is_bounded() {
            return Err(Error::Unsupported {
                operation: "an update from a summary",
                reason: "log-loss looks at a step's rows several times; give the rows".to_owned(),
            });
        }
        if (summary.width(), summary.targets()) != expected {
            return Err(Error::Mismatch {
                what: "the shape of the summary",
                left: format!("{} × {}", summary.width(), summary.targets()),
                right: format!("{} × {}", expected.0, expected.1),
            });
        }
        if summary.n() <= 0.0 {
            return Err(Error::Empty { what: "the step" });
        }
        Self::new(client, step, agreement.fingerprint(), summary, None)
    }

    /// The same in single precision.
    ///
    /// # Errors
    /// When a number is outside the range of single precision.
    pub fn in_single(mut self) -> Result<Self> {
        let narrow = |v: f64| {
            let short = f64::from(v as f32);
            let lost = !short.is_finite() || (v != 0.0 && v.abs() < f64::from(f32::MIN_POSITIVE));
            if lost {
                return Err(Error::Range {
                    what: "a number of the summary",
                    value: v,
                    must: "within single precision; rescale the features, or send doubles",
                });
            }
            Ok(short)
        };
        self.summary = rebuilt(&self.summary, |i, row| {
            if i > 0 {
                row.iter_mut().try_for_each(|v| narrow(*v).map(|short| *v = short))?;
            }
            Ok(())
        })?;
        self.numbers = Numbers::Single;
        Ok(self)
    }

    /// The diagonal bound of the same step: `Diag(Σ_j |H_ij|)` about the step's own minimizer.
    ///
    /// # Errors
    /// When the numbers leave the range of double precision; for `gaussian`, whose covariance is no bound.
    pub fn in_diagonal(mut self, agreement: &super::Agreement) -> Result<Self> {
        if agreement.is_gaussian() {
            return Err(Error::Unsupported {
                operation: "a diagonal update",
                reason: "discriminants need the covariance itself; send it whole, or use squared"
                    .to_owned(),
            });
        }
        if self.form == UpdateForm::Diagonal {
            return Ok(self);
        }
        let s = &self.summary;
        let (m, p) = (s.width(), s.targets());
        let own = solve(s, agreement.design().intercept(), Penalty::NONE, None)?.theta;
        let products = s.products();
        let mut sums = vec![0.0; m];
        let mut at = 0;
        for i in 0..m {
            for j in i..m {
                let h = products.xx[at].abs();
                at += 1;
                sums[i] += h;
                if j > i {
                    sums[j] += h;
                }
            }
        }
        let mut pivots = Vec::new();
        let mut packed = Vec::new();
        for (j, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
            let root = sum.sqrt();
            pivots.push(j as u32);
            packed.push(root);
            packed.resize(packed.len() + m - j - 1, 0.0);
            packed.extend((0..p).map(|k| root * own.column(k)[j]));
        }
        let (c, totals) = (s.residual().to_vec(), s.target_sums().to_vec());
        self.summary = Summary::from_numbers((s.n(), m, p), pivots, packed, c, totals)?;
        self.form = UpdateForm::Diagonal;
        match self.numbers {
            Numbers::Double => Ok(self),
            Numbers::Single => self.in_single(),
        }
    }

    /// Who sends it.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// For which step of that client.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// [`Agreement::fingerprint`](super::Agreement::fingerprint) of the model it was made for.
    pub fn model(&self) -> u64 {
        self.model
    }

    /// Samples it stands for.
    pub fn samples(&self) -> f64 {
        self.summary.n()
    }

    /// The summary.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// How much of the curvature it holds.
    pub fn form(&self) -> UpdateForm {
        self.form
    }

    /// Whether both stand for the same step in the same numbers, however these were sent. Zeros of either sign are told
    /// apart, as the bytes are.
    pub(super) fn is_same(&self, other: &Update) -> bool {
        self.form == other.form
            && self.bound == other.bound
            && self.summary.to_bytes() == other.summary.to_bytes()
    }

    /// How its numbers are sent.
    pub fn numbers(&self) -> Numbers {
        self.numbers
    }
}

/// Whether a client may be called so.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}

/// The summary with every row changed: row number, then `R` from the pivot on and `Z`.
fn rebuilt(s: &Summary, change: impl Fn(usize, &mut [f64]) -> Result<()>) -> Result<Summary> {
    let mut packed = Vec::with_capacity(s.numbers());
    for (i, (_, r, z)) in s.iter().enumerate() {
        let start = packed.len();
        packed.extend_from_slice(r);
        packed.extend_from_slice(z);
        change(i, &mut packed[start..])?;
    }
    let pivots = s.pivots().map(|j| j as u32).collect();
    let (c, totals) = (s.residual().to_vec(), s.target_sums().to_vec());
    Summary::from_numbers((s.n(), s.width(), s.targets()), pivots, packed, c, totals)
}
