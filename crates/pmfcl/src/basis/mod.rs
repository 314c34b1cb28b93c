//! Between **read** and **summarize**: φ maps a row of d inputs to the m columns of the model.
//!
//! A model that is linear in its parameters need not be linear in its inputs:
//!
//! f(x) = φ(x)ᵀ θ,  φ: Rᵈ → Rᵐ
//!
//! Everything said of linear regression then holds with φ(X) in the place of X.
//!
//! Paper: Appendix D.1 (`app:mfcl_basis`), Lemma D.1 (`lem:ntk-2layer`).
//!
//! | spec | columns | φ |
//! | --- | --- | --- |
//! | `linear` | d | x |
//! | `auto` | 2·d + 320 + 4·d to 2·d + 1200 | a portfolio: inputs, splines, products, random features; the pool decides which predict |
//! | `poly:q` | C(d+q, q) − 1 | monomials of degree 1 to q (`interactions=false`: pure powers, d·q) |
//! | `log` | d | sign(x)·log(1 + \|x\|), defined everywhere |
//! | `exp` | d | eˣ |
//! | `power:a` | d | sign(x)·\|x\|ᵃ |
//! | `spline:k` | d·k | cubic B-splines, constant beyond the range of the first rows (`scale=range`: linear) |
//! | `rbf:m` | m | exp(−‖x̃ − c‖²/(2ℓ²)) at centres drawn from the first rows |
//! | `rff:m` | m | √(2/m)·cos(x̃W + b), so that φ(x)ᵀφ(x′) ≈ exp(−γ‖x̃ − x̃′‖²) |
//! | `relu:m` | m | max(0, x̃W + b) |
//! | `patches:m` | m | means over a grid of max(0, windows of an image × filters + b) |
//! | `ntk:m` | m·d | x̃ ⊗ (w ⊙ 1[Vx̃ ≥ 0]): a two-layer network near its random start |
//!
//! The intercept is not part of a basis; the learner adds it.
//!
//! `spline`, `rbf`, `rff`, `relu` and `ntk` see the inputs through a frozen map that far rows cannot leave (`scale=clip`,
//! the default, or `scale=quantile`), and have the inputs as columns next to the features unless `linear=off`; `poly` does
//! so where a scale is named.
//!
//! A [`Basis`] is what was asked for; [`Basis::fix`] settles what the spec leaves open (ranges,
//! centres, units) from the first rows seen, and the [`Map`] that comes out never changes again:
//! the summaries of all tasks must speak of the same columns to be added.
//!
//! ```
//! use pmfcl::basis::Basis;
//!
//! let basis: Basis = "poly:2".parse()?;
//! let map = basis.fix(&[], 2)?;
//! let mut columns = [0.0; 5];
//! map.apply(&[3.0, 5.0], &mut columns, 5, 0)?;
//! assert_eq!(columns, [3.0, 5.0, 9.0, 15.0, 25.0]);
//! assert_eq!(map.names(&["a".into(), "b".into()]), ["a", "b", "a^2", "a*b", "b^2"]);
//! # Ok::<(), pmfcl::basis::BasisError>(())
//! ```

mod blocks;
mod design;
mod draw;
pub(crate) use draw::Draw;
mod error;
mod frame;
#[cfg(test)]
mod golden;
mod parts;
mod patches;
mod pointwise;
mod polynomial;
mod random;
mod range;
mod spec;
mod spline;
mod units;
mod waves;

pub use blocks::Candidate;
#[cfg(test)]
pub(crate) use design::tests::MAPPED;
pub use design::{Design, Fill};
pub use error::BasisError;
pub use frame::Frame;
pub use parts::{Group, Monomial, Parts};
pub use patches::Layout;
pub use pointwise::Pointwise;
pub use random::Finish;

use blocks::Blocks;
use patches::Patches;
use polynomial::Polynomial;
use random::Random;
use spec::{Kind, Scale};
use spline::Spline;

/// The most columns a basis may have.
#[doc(hidden)] // for tests
pub const MAX_COLUMNS: usize = 1_000_000;

/// A basis as it is asked for, such as `poly:2` or `rff:1024,gamma=0.1,seed=7`.
///
/// Comes from a string by `parse` and goes back by `to_string`; the [module](self) lists what may
/// be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis(Kind);

// No spec holds a NaN.
impl Eq for Basis {}

impl Default for Basis {
    /// `linear`.
    fn default() -> Self {
        Self(Kind::Linear)
    }
}

impl Basis {
    /// Whether [`fix`](Self::fix) learns anything from the first rows.
    ///
    /// False when every parameter is given or needs no data; such a basis can be fixed with
    /// `&[]` for the rows.
    pub fn needs_rows(&self) -> bool {
        match &self.0 {
            Kind::Auto { .. } => true,
            kind if kind.frame().is_some() => true,
            Kind::Linear | Kind::Polynomial { .. } | Kind::Log | Kind::Exp | Kind::Power { .. } => {
                false
            }
            Kind::Spline { range, .. } => range.is_none(),
            Kind::Rbf { .. } => true,
            Kind::Rff { gamma, scale, .. } => gamma.is_none() || *scale == Scale::Range,
            Kind::Relu { scale, .. } | Kind::Ntk { scale, .. } | Kind::Patches { scale, .. } => {
                *scale == Scale::Range
            }
        }
    }

    /// Settles everything the spec leaves open from the first rows seen, row after row of `d`.
    ///
    /// * `spline`: the range of each input (a constant v takes [v − 1, v + 1]).
    /// * random bases: the range of each input (a constant one takes the median range of the
    ///   others, or 1); for `rff` γ = 1/(d · mean variance of x̃), for `rbf` the centres and
    ///   ℓ = the median distance between them. `patches`: one range for all inputs.
    ///
    /// Paper: Appendix D.1 (`app:mfcl_basis`).
    /// Cost: one pass over `rows`, the draws, and 10⁶·d operations at most for ℓ.
    ///
    /// # Errors
    /// When rows are needed and missing, not finite or of the wrong length, or when the map would
    /// have more than [`MAX_COLUMNS`] columns.
    pub fn fix(&self, rows: &[f64], d: usize) -> Result<Map, BasisError> {
        self.check_size(d)?;
        check_rows(rows, d)?;
        let frozen = if self.needs_rows() {
            if rows.is_empty() {
                return Err(BasisError::NoRows { basis: self.to_string() });
            }
            match &self.0 {
                kind if self.has_frame() => blocks::learn(kind, rows, d)?,
                Kind::Spline { .. } => spline::learn(rows, d)?,
                Kind::Patches { .. } => patches::learn(rows, d)?,
                kind => units::learn(kind, rows, d)?,
            }
        } else {
            self.given(d)
        };
        Map::thaw(self, d, &frozen)
    }

    /// Whether a frozen map stands in front of the features.
    fn has_frame(&self) -> bool {
        matches!(self.0, Kind::Auto { .. }) || self.0.frame().is_some()
    }

    /// Whether this is a portfolio, of which the pool chooses what predicts.
    pub fn is_portfolio(&self) -> bool {
        matches!(self.0, Kind::Auto { .. })
    }

    /// The frozen numbers of a basis that learns nothing.
    fn given(&self, d: usize) -> Vec<f64> {
        match &self.0 {
            Kind::Spline { range: Some((lo, hi)), .. } => [vec![*lo; d], vec![*hi; d]].concat(),
            Kind::Rff { gamma: Some(gamma), .. } => units::raw(d, Some(*gamma)),
            Kind::Relu { .. } | Kind::Ntk { .. } => units::raw(d, None),
            Kind::Patches { .. } => vec![0.0, 1.0],
            _ => Vec::new(),
        }
    }

    /// How many random weights a map on `d` inputs draws, which no file holds: a short spec can ask for many.
    pub fn weights(&self, d: usize) -> usize {
        match &self.0 {
            Kind::Rbf { count, .. }
            | Kind::Rff { count, .. }
            | Kind::Relu { count, .. }
            | Kind::Ntk { count, .. } => d.saturating_mul(*count),
            Kind::Auto { .. } => d.saturating_mul(self.columns(d).unwrap_or(usize::MAX)),
            _ => 0,
        }
    }

    /// Number of columns on `d` inputs, if not far too many. Of a portfolio the most it can have: first rows decide about some.
    pub fn columns(&self, d: usize) -> Option<usize> {
        let features = match &self.0 {
            Kind::Auto { width, .. } => {
                d.checked_mul(2).and_then(|d| d.checked_add(width.unwrap_or(blocks::MOST)))
            }
            Kind::Linear | Kind::Log | Kind::Exp | Kind::Power { .. } => Some(d),
            Kind::Polynomial { degree, interactions: true, .. } => polynomial::width(d, *degree),
            Kind::Polynomial { degree: count, .. }
            | Kind::Spline { count, .. }
            | Kind::Ntk { count, .. } => d.checked_mul(*count),
            Kind::Rbf { count, .. }
            | Kind::Rff { count, .. }
            | Kind::Relu { count, .. }
            | Kind::Patches { count, .. } => Some(*count),
        };
        match &self.0 {
            // The inputs are among the monomials already.
            Kind::Polynomial { .. } => features,
            kind if kind.frame().is_some_and(|(_, linear)| linear) => features?.checked_add(d),
            _ => features,
        }
    }

    fn check_size(&self, d: usize) -> Result<(), BasisError> {
        if d == 0 {
            return Err(BasisError::NoInputs);
        }
        let too_large = |what, most| {
            Err(BasisError::TooLarge { basis: self.to_string(), inputs: d, what, most })
        };
        if self.columns(d).is_none_or(|m| m > MAX_COLUMNS) {
            return too_large("columns", MAX_COLUMNS);
        }
        match &self.0 {
            Kind::Auto { .. } if self.weights(d) > random::MAX_WEIGHTS => {
                too_large("weights", random::MAX_WEIGHTS)
            }
            Kind::Rbf { count, .. } | Kind::Rff { count, .. } | Kind::Relu { count, .. }
                if d.checked_mul(*count).is_none_or(|numbers| numbers > random::MAX_WEIGHTS) =>
            {
                too_large("weights", random::MAX_WEIGHTS)
            }
            Kind::Patches { windows, .. } => match windows.lay(d) {
                Ok(_) => Ok(()),
                Err(reason) => {
                    Err(BasisError::Image { basis: self.to_string(), inputs: d, reason })
                }
            },
            _ => Ok(()),
        }
    }
}

/// φ: Rᵈ → Rᵐ, settled once and for all.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for cli, file, lab
pub struct Map {
    basis: Basis,
    inputs: usize,
    width: usize,
    frozen: Vec<f64>,
    rule: Rule,
}

/// How the columns of a row are computed.
#[derive(Debug, Clone, PartialEq)]
enum Rule {
    Identity,
    Pointwise(Pointwise),
    Polynomial(Polynomial),
    Spline(Spline),
    Random(Random),
    Patches(Patches),
    Blocks(Blocks),
}

impl Map {
    /// The map whose learned numbers [`frozen`](Self::frozen) gave, on `d` inputs.
    ///
    /// Bit for bit the same map: what is not among the numbers is drawn again from the seed.
    ///
    /// # Errors
    /// When the numbers are not those of this basis: wrong count, not finite, an empty range.
    pub fn thaw(basis: &Basis, d: usize, frozen: &[f64]) -> Result<Self, BasisError> {
        basis.check_size(d)?;
        let wrong = |what| BasisError::Frozen { basis: basis.to_string(), inputs: d, what };
        if !all_finite(frozen) {
            return Err(wrong("one of them is not finite"));
        }
        let rule = match &basis.0 {
            kind if basis.has_frame() => {
                Rule::Blocks(Blocks::build(kind, d, frozen).map_err(wrong)?)
            }
            kind @ (Kind::Rbf { .. } | Kind::Rff { .. } | Kind::Relu { .. } | Kind::Ntk { .. }) => {
                Rule::Random(Random::build(kind, d, frozen).map_err(wrong)?)
            }
            Kind::Patches { count, windows, seed, .. } => {
                let layout = windows.lay(d).expect("the size was checked");
                let filters = count / windows.regions();
                Rule::Patches(Patches::build(layout, filters, *seed, frozen).map_err(wrong)?)
            }
            Kind::Spline { count, .. } => {
                Rule::Spline(Spline::build(*count, d, frozen).map_err(wrong)?)
            }
            _ if !frozen.is_empty() => return Err(wrong("there should be none")),
            Kind::Linear => Rule::Identity,
            Kind::Log => Rule::Pointwise(Pointwise::Log),
            Kind::Exp => Rule::Pointwise(Pointwise::Exp),
            Kind::Power { exponent } => Rule::Pointwise(Pointwise::Power(*exponent)),
            // A frame was handled above.
            Kind::Auto { .. } => return Err(wrong("there should be some")),
            Kind::Polynomial { degree, interactions, .. } => {
                Rule::Polynomial(Polynomial::build(d, *degree, *interactions))
            }
        };
        let width = match &rule {
            Rule::Blocks(blocks) => blocks.width(),
            _ => basis.columns(d).expect("the size was checked"),
        };
        Ok(Self { basis: basis.clone(), inputs: d, width, frozen: frozen.to_vec(), rule })
    }

    /// φ of k rows: row i is written to `out[i * stride + offset..][..width]`.
    ///
    /// Random bases run in blocks of rows through one matrix product each. On one machine a row maps
    /// to the same bits alone and in any block (a test holds the product to that); between machines
    /// (vector width, fused products) the last bits may differ, and with them the side on which an
    /// `ntk` unit sees a point on its edge.
    ///
    /// Paper: Appendix D.1 (`app:mfcl_basis`).
    /// Cost: O(m) a row; random bases `2·d·m` flops and m cosines or exponentials.
    ///
    /// # Errors
    /// When an input is not finite, outside the domain or so large that φ overflows (names row,
    /// column and value), or when `out` has no room. `out` may have been written in part.
    pub fn apply(
        &self,
        rows: &[f64],
        out: &mut [f64],
        stride: usize,
        offset: usize,
    ) -> Result<(), BasisError> {
        let (d, m) = (self.inputs, self.width);
        let k = check_rows(rows, d)?;
        if k == 0 {
            return Ok(());
        }
        let end = offset.saturating_add(m);
        if stride < end {
            return Err(BasisError::Room { what: "stride", needed: end, found: stride });
        }
        let needed = (k - 1).saturating_mul(stride).saturating_add(end);
        if out.len() < needed {
            return Err(BasisError::Room { what: "output", needed, found: out.len() });
        }
        let out = &mut out[offset..needed];
        match &self.rule {
            Rule::Random(random) => {
                random.apply(rows, out, stride, |i, row| self.check_row(rows, i, row))
            }
            Rule::Patches(patches) => {
                patches.apply(rows, out, stride, |i, row| self.check_row(rows, i, row))
            }
            Rule::Blocks(blocks) => {
                blocks.apply(rows, out, stride);
                (0..k).try_for_each(|i| self.check_row(rows, i, &out[i * stride..][..m]))
            }
            rule => {
                for (i, x) in rows.chunks_exact(d).enumerate() {
                    let row = &mut out[i * stride..][..m];
                    match rule {
                        Rule::Pointwise(pointwise) => pointwise.row(x, row),
                        Rule::Polynomial(polynomial) => polynomial.row(x, row),
                        Rule::Spline(spline) => spline.row(x, row),
                        // The inputs are finite: nothing is left to check.
                        Rule::Identity | Rule::Random(_) | Rule::Patches(_) | Rule::Blocks(_) => {
                            row.copy_from_slice(x);
                            continue;
                        }
                    }
                    self.check_row(rows, i, row)?;
                }
                Ok(())
            }
        }
    }

    /// The same for a map whose columns are checked elsewhere, and which has no groups of its own.
    fn apply_unchecked(&self, rows: &[f64], out: &mut [f64], stride: usize) {
        if let Rule::Random(random) = &self.rule {
            let all = random.apply(rows, out, stride, |_, _| Ok(()));
            return all.expect("nothing is refused");
        }
        let rows = rows.chunks_exact(self.inputs);
        for (x, out) in rows.zip(out.chunks_mut(stride)) {
            let row = &mut out[..self.width];
            match &self.rule {
                Rule::Polynomial(polynomial) => polynomial.row(x, row),
                Rule::Spline(spline) => spline.row(x, row),
                _ => unreachable!(
                    "the features behind a frozen map are random, splines or monomials"
                ),
            }
        }
    }

    /// Number of inputs, d.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of columns, m.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether the columns are the inputs as they are.
    pub fn is_identity(&self) -> bool {
        self.rule == Rule::Identity
    }

    /// The spec this map came from.
    pub fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Names of the columns from the names of the inputs: `x1^2*x2`, `log(x1)`, `spline3(x1)`,
    /// `rff17`, `ntk3(x1)`, `patch3(1,2)`.
    ///
    /// Inputs beyond the names given are called `x1`, `x2`, … by their place.
    pub fn names(&self, inputs: &[String]) -> Vec<String> {
        let x: Vec<String> = (0..self.inputs)
            .map(|j| inputs.get(j).cloned().unwrap_or_else(|| format!("x{}", j + 1)))
            .collect();
        match &self.rule {
            Rule::Identity => x,
            Rule::Pointwise(pointwise) => pointwise.names(&x),
            Rule::Polynomial(polynomial) => polynomial.names(&x),
            Rule::Spline(spline) => spline.names(&x),
            Rule::Random(random) => random.names(&x),
            Rule::Patches(patches) => patches.names(),
            Rule::Blocks(blocks) => blocks.names(&x, self.basis.is_portfolio()),
        }
    }

    /// The point from which penalty and minimum norm are measured; `None` is the origin.
    ///
    /// For `ntk` it is v₀, the start of the network, for which f₀(x) = φ(x)ᵀv₀: what is learned
    /// is Δv, and a short Δv is what the approximation by a linear model rests on.
    ///
    /// Paper: Lemma D.1 (`lem:ntk-2layer`).
    pub fn origin(&self) -> Option<&[f64]> {
        match &self.rule {
            Rule::Random(random) => random.origin(),
            Rule::Blocks(blocks) => blocks.origin(),
            _ => None,
        }
    }

    /// What the columns are computed from, for other programs to compute them too.
    ///
    /// Cost: O(m) for `poly`; all others lend what is there.
    pub fn parts(&self) -> Parts<'_> {
        match &self.rule {
            Rule::Identity => Parts::Identity,
            Rule::Pointwise(pointwise) => Parts::Pointwise(*pointwise),
            Rule::Polynomial(polynomial) => Parts::Monomials(polynomial.monomials(self.inputs)),
            Rule::Spline(spline) => spline.parts(),
            Rule::Random(random) => random.parts(),
            Rule::Patches(patches) => patches.parts(),
            Rule::Blocks(blocks) => blocks.parts(),
        }
    }

    /// What was learned from the first rows, as plain numbers to store with the spec.
    pub fn frozen(&self) -> Vec<f64> {
        self.frozen.clone()
    }

    /// What the pool chooses from, narrow ones first; empty where there is nothing to choose.
    pub fn candidates(&self) -> Vec<Candidate> {
        match &self.rule {
            // Groups that were named are those that predict.
            Rule::Blocks(blocks) if matches!(&self.basis.0, Kind::Auto { only, .. } if only.is_empty()) => {
                blocks.candidates()
            }
            _ => Vec::new(),
        }
    }

    /// The columns of a portfolio that are inputs as they are.
    pub(crate) fn line(&self) -> std::ops::Range<usize> {
        match &self.rule {
            Rule::Blocks(blocks) if self.basis.is_portfolio() => blocks.line(),
            _ => 0..0,
        }
    }

    /// The same columns, those outside a candidate being 0 and not computed.
    #[must_use]
    pub(crate) fn masked(&self, candidate: &Candidate) -> Self {
        match &self.rule {
            Rule::Blocks(blocks) => {
                Self { rule: Rule::Blocks(blocks.masked(candidate)), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// The same columns, groups of which none counts being 0 and not computed; `None` where all are needed.
    pub(crate) fn without_unused(&self, counts: impl Fn(usize) -> bool) -> Option<Self> {
        let Rule::Blocks(blocks) = &self.rule else { return None };
        let rule = Rule::Blocks(blocks.without_unused(counts)?);
        Some(Self { rule, ..self.clone() })
    }

    /// The columns that are computed; `None` where all are.
    pub(crate) fn computed_columns(&self) -> Option<Vec<usize>> {
        match &self.rule {
            Rule::Blocks(blocks) => blocks.computed_columns(),
            _ => None,
        }
    }

    /// The map that has the columns of a candidate alone, in the same order.
    ///
    /// # Errors
    /// When the candidate is of another map.
    pub(crate) fn restricted(&self, candidate: &Candidate) -> Result<Self, BasisError> {
        match candidate.basis(&self.basis.0) {
            Some(basis) => Self::thaw(&basis, self.inputs, &self.frozen),
            None => Ok(self.clone()),
        }
    }

    /// Whether the first columns are the inputs.
    pub(crate) fn begins_with_inputs(&self) -> bool {
        match &self.rule {
            Rule::Identity => true,
            Rule::Blocks(blocks) => blocks.begins_with_inputs(),
            _ => false,
        }
    }

    /// Whether a column is computed that a frozen map bounds.
    pub(crate) fn is_bounded(&self) -> bool {
        match &self.rule {
            Rule::Blocks(blocks) => blocks.is_bounded(),
            _ => false,
        }
    }

    /// Whether this is a portfolio whose columns are told apart by sums of their products.
    pub(crate) fn is_portfolio_of_products(&self) -> bool {
        match &self.rule {
            Rule::Blocks(blocks) => self.basis.is_portfolio() && blocks.tells_apart(),
            _ => false,
        }
    }

    /// Mean and deviation of each input in the rows that fixed the map, where it has a frozen map.
    pub(crate) fn frame(&self) -> Option<&Frame> {
        match &self.rule {
            Rule::Blocks(blocks) => Some(blocks.frame()),
            _ => None,
        }
    }

    /// The same for inputs that a frozen map bounds: cosines are then computed many at a time, and splines end where their range does.
    fn bounded(mut self) -> Self {
        match &mut self.rule {
            Rule::Random(random) => random.bound(),
            Rule::Spline(spline) => spline.hold(),
            _ => {}
        }
        self
    }

    /// Row `i` of the result must be finite; if not, one input of row `i` is to blame.
    fn check_row(&self, rows: &[f64], i: usize, row: &[f64]) -> Result<(), BasisError> {
        if all_finite(row) {
            return Ok(());
        }
        let x = &rows[i * self.inputs..][..self.inputs];
        let feature = row.iter().position(|value| !value.is_finite()).unwrap_or_default();
        let column = match &self.rule {
            Rule::Identity | Rule::Pointwise(_) => feature,
            Rule::Polynomial(polynomial) => polynomial.responsible_input(x, feature),
            Rule::Spline(spline) => spline.responsible_input(feature),
            Rule::Random(random) => random.responsible_input(x),
            Rule::Patches(patches) => patches.responsible_input(x),
            Rule::Blocks(blocks) => blocks.responsible_input(x),
        };
        let (basis, value) = (self.basis.to_string(), x[column]);
        // |x| < tiny with a negative exponent overflows too, but only 0 has no value at all.
        if matches!(self.basis.0, Kind::Power { .. }) && value.abs() <= 0.0 {
            return Err(BasisError::Pole { basis, row: i, column });
        }
        Err(BasisError::Overflow { basis, row: i, column, value })
    }
}

/// Number of rows in a flat slice of finite numbers.
fn check_rows(rows: &[f64], d: usize) -> Result<usize, BasisError> {
    if !rows.len().is_multiple_of(d) {
        return Err(BasisError::Shape { len: rows.len(), inputs: d });
    }
    if all_finite(rows) {
        return Ok(rows.len() / d);
    }
    let at = rows.iter().position(|x| !x.is_finite()).unwrap_or_default();
    Err(BasisError::NotFinite { row: at / d, column: at % d, value: rows[at] })
}

/// Without an early exit, so that it runs at the speed of memory.
fn all_finite(numbers: &[f64]) -> bool {
    pulp::Arch::new().dispatch(AllFinite(numbers))
}

struct AllFinite<'a>(&'a [f64]);

impl pulp::WithSimd for AllFinite<'_> {
    type Output = bool;

    #[inline(always)]
    #[allow(clippy::inline_always, reason = "only inlined does it take the processor's width")]
    fn with_simd<S: pulp::Simd>(self, _: S) -> bool {
        self.0.iter().fold(true, |all, x| all & x.is_finite())
    }
}
