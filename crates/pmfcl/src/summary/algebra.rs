//! Stage 4, **merge**: the algebra of summaries.
//!
//! * `a ⊕ empty = a`
//! * `a ⊕ b = b ⊕ a`
//! * `(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)`
//! * `(a ⊕ b) ⊖ b = a`
//!
//! up to rounding; `tests/core/laws.rs` checks each. Learning a task, federating clients and reducing shards
//! are this one operation.

use faer::{Mat, Side};

use super::diagonal::DiagonalSum;
use super::{Echelon, Form, Summary};
use crate::error::{Error, Result};
use crate::kernel::{self, Source, Stairs, Triangle};

/// Fewest digits a removal may leave: `λ_min` of what remains relative to what was there.
const LEAST_REMAINDER: f64 = 1e-8;

/// Sample counts this near are the same sum, rounded in another order.
const SAME_SAMPLES: f64 = 64.0 * f64::EPSILON;

/// How near a part must be to the whole to be all of it; earlier removals may have cost eight digits.
const SAME: f64 = 1e-6;

/// A design of more columns is pooled triangle by triangle.
pub(crate) const WIDE_DESIGN: usize = 512;

impl Summary {
    /// The summary of both sets of rows together.
    ///
    /// Stacks `[R_a Z_a; R_b Z_b]` and takes one QR.
    /// Paper: Lemma 3.5 (`lem:mtl_global`). Cost: `O(m²(m + p))`; `O(m p)` where every row of both has a single entry.
    ///
    /// # Errors
    /// When the two have different numbers of columns or targets, or sums of squares overflow.
    pub fn merge(&self, other: &Summary) -> Result<Summary> {
        self.check_shape(other)?;
        if self.is_summed() || other.is_summed() {
            let (sums, part) = if self.is_summed() { (self, other) } else { (other, self) };
            let parts = std::iter::once((part, 1.0));
            return Self::added_up(Some(sums.clone()), (self.m, self.p), parts);
        }
        // The larger one at the bottom: 3–10 times more accurate than on top.
        let (top, bottom) = if self.n <= other.n { (self, other) } else { (other, self) };
        if top.rank() == 0 {
            let mut sum = bottom.clone();
            sum.add_scalars(top);
            return sum.kept();
        }
        if top.is_diagonal() && bottom.is_diagonal() {
            return pool(self.m, self.p, [(self, 1.0), (other, 1.0)].into_iter());
        }
        let triangle = kernel::stack(ScaledRows::of(top), ScaledRows::of(bottom));
        let target_sum = add(&self.target_sum, &other.target_sum);
        Self::from_triangle(triangle, self.n + other.n, target_sum).kept()
    }

    /// As [`Summary::merge`]; sums of products that nobody else has are changed where they are.
    ///
    /// # Errors
    /// As [`Summary::merge`].
    pub(crate) fn merged(self, other: &Summary) -> Result<Summary> {
        self.check_shape(other)?;
        if !self.is_summed() {
            return self.merge(other);
        }
        let shape = (self.m, self.p);
        Self::added_up(Some(self), shape, std::iter::once((other, 1.0)))
    }

    /// The summary with every sample weight multiplied by `w`.
    ///
    /// # Errors
    /// When `w` is not positive and finite, or takes the numbers out of the range of double precision.
    pub fn scale(&self, w: f64) -> Result<Summary> {
        if !(w > 0.0 && w.is_finite()) {
            return Err(Error::Range { what: "scale", value: w, must: "positive and finite" });
        }
        let root = w.sqrt();
        let mut scaled = self.clone();
        if scaled.is_summed() {
            scaled.scale_sums(w);
            let kept = Self::added_up(Some(scaled), (self.m, self.p), std::iter::empty());
            return kept.map_err(|_| out_of_range(w));
        }
        scaled.n *= w;
        for v in &mut scaled.target_sum {
            *v *= w;
        }
        let echelon = scaled.echelon_mut();
        for v in &mut echelon.packed {
            *v *= root;
        }
        for v in &mut echelon.c {
            *v *= w;
        }
        let n_left = scaled.n > 0.0 || self.n <= 0.0;
        // Entries that underflow are zeros like others.
        match scaled.compacted().kept() {
            Ok(scaled) if n_left => Ok(scaled),
            _ => Err(out_of_range(w)),
        }
    }

    /// Takes `part` out again: the summary of the rows that remain.
    ///
    /// With `A = R_t R⁻¹` the remainder is `R' = C R`, `CᵀC = I − AᵀA`. The smallest eigenvalue of
    /// `I − AᵀA` says how many digits the subtraction costs, so the check and the work are one.
    /// Re-merging the other summaries of a ledger is always safe and preferred where there is one.
    /// Cost: `O(m³)`.
    ///
    /// # Errors
    /// When `part` was never added (it has directions, samples or squares the whole lacks), or when
    /// fewer than eight digits would remain.
    pub fn remove(&self, part: &Summary) -> Result<Summary> {
        self.check_shape(part)?;
        let refuse = |reason: String| Err(Error::Removal { reason });
        if part.n == 0.0 {
            return Ok(self.clone());
        }
        let n = self.n - part.n;
        if n < -1e-9 * self.n {
            return refuse(format!(
                "the part has {} samples, the whole only {}: it was never added",
                part.n, self.n
            ));
        }
        let r = self.rank();
        let a = self.share_of(part)?;
        // I − AᵀA
        let mut rest = Mat::<f64>::identity(r, r);
        rest -= a.transpose() * &a;
        let values = rest.self_adjoint_eigenvalues(Side::Lower).map_err(|_| Error::Removal {
            reason: "the eigenvalues of the remainder do not converge".to_owned(),
        })?;
        // Targets are measured from what the whole predicts best, `R θ = Z`, where those of the part are `Z_t − A Z`. Sums of
        // their squares are then of the size of errors, and subtracting them costs no digits to a mean far from zero.
        let z = Mat::from_fn(r, self.p, |i, k| self.row(i).2[k]);
        let errors = Mat::from_fn(part.rank(), self.p, |i, k| part.row(i).2[k]) - &a * &z;
        let squares =
            |of: &Mat<f64>, k: usize| (0..of.nrows()).map(|i| of[(i, k)].powi(2)).sum::<f64>();
        if n.abs() <= SAME_SAMPLES * self.n {
            let same = |k: usize| {
                let size = self.squares(k).max(part.squares(k));
                let pulled = squares(&errors, k);
                pulled <= SAME * SAME * size
                    && (self.residual()[k] - part.residual()[k]).abs() <= SAME * size
            };
            return if values.iter().all(|v| v.abs() <= SAME) && (0..self.p).all(same) {
                Ok(Summary::empty(self.m, self.p))
            } else {
                refuse("as many samples as there are, but not the same ones".to_owned())
            };
        }
        let least = values.first().copied().unwrap_or(1.0);
        if least < LEAST_REMAINDER {
            return refuse(if least < -1e-6 {
                "the remainder would not be positive semi-definite: the part was never added"
                    .to_owned()
            } else {
                format!(
                    "only a share of {:.0e} of some direction would remain, so fewer than 8 of 16 \
                     digits would be right; keep a ledger, or learn the other tasks again",
                    least.max(0.0)
                )
            });
        }
        let llt = rest.llt(Side::Lower).map_err(|_| Error::Removal {
            reason: "the remainder is not positive definite".to_owned(),
        })?;
        let l = llt.L();
        // R' = Lᵀ R, and Z' = Lᵀ Z + E with L E = −Aᵀ (Z_t − A Z).
        let mut pull = -(a.transpose() * &errors);
        l.solve_lower_triangular_in_place(pull.as_mut());
        let w = self.m + self.p;
        let mut cells = vec![0.0; r * w];
        for i in 0..r {
            for q in i..r {
                let f = l[(q, i)];
                let (pivot, row, _) = self.row(q);
                for (out, v) in cells[i * w + pivot..i * w + self.m].iter_mut().zip(row) {
                    *out += f * v;
                }
                for k in 0..self.p {
                    cells[i * w + self.m + k] += f * z[(q, k)];
                }
            }
            for k in 0..self.p {
                cells[i * w + self.m + k] += pull[(i, k)];
            }
        }
        let mut c = Vec::with_capacity(self.p);
        for k in 0..self.p {
            let taken = part.residual()[k] + squares(&errors, k) + squares(&pull, k);
            let rest = self.residual()[k] - taken;
            if rest < -1e-7 * self.squares(k) {
                return refuse(format!(
                    "target {k} of the part has squares the whole lacks: it was never added"
                ));
            }
            c.push(rest.max(0.0));
        }
        let target_sum = self.target_sum.iter().zip(&part.target_sum).map(|(a, b)| a - b).collect();
        Self::pack(self.m, self.p, n, self.echelon().pivots.clone(), &cells, c, target_sum).kept()
    }

    /// `A = R_t R⁻¹` on the row space of `R`; an error where `R_t` leaves it.
    fn share_of(&self, part: &Summary) -> Result<Mat<f64>> {
        let r = self.rank();
        let pivots: Vec<usize> = self.pivots().collect();
        let mut at = Mat::<f64>::zeros(r, part.rank());
        for i in 0..part.rank() {
            for (q, &j) in pivots.iter().enumerate() {
                at[(q, i)] = part.entry(i, j);
            }
        }
        // Rᵀ restricted to pivot columns: entry (column i, row q).
        let lower = Mat::from_fn(r, r, |i, q| self.entry(q, pivots[i]));
        lower.solve_lower_triangular_in_place(at.as_mut());
        // Does A R give R_t back in every column, also those without a pivot?
        let scale: Vec<f64> = self.column_squares().iter().map(|s| s.sqrt()).collect();
        for (i, (start, row, _)) in part.iter().enumerate() {
            let mut back = vec![0.0; self.m];
            for (q, (pivot, whole, _)) in self.iter().enumerate() {
                for (b, v) in back[pivot..].iter_mut().zip(whole) {
                    *b += at[(q, i)] * v;
                }
            }
            for (b, v) in back[start..].iter_mut().zip(row) {
                *b -= v;
            }
            if let Some(j) = (0..self.m).find(|&j| back[j].abs() > 1e-7 * scale[j]) {
                return Err(Error::Removal {
                    reason: format!(
                        "the part varies in a direction the whole has never seen (column {j}): it was never added"
                    ),
                });
            }
        }
        Ok(at.transpose().to_owned())
    }

    /// Inserts `count` feature columns at design column `at`, zero for all rows seen so far.
    ///
    /// Exact for a category or class unseen before, whose past values are zero by definition. A new
    /// *measurement* cannot be added this way: its past values are unknown, not zero.
    ///
    /// # Errors
    /// When `at` is beyond the last column.
    pub fn extend_features(&self, at: usize, count: usize) -> Result<Summary> {
        check_place(at, count, self.m, "the place of new columns")?;
        if count == 0 {
            return Ok(self.clone());
        }
        // Rows of a single entry each, of a single column too, need no zeros.
        let single = self.numbers() == self.rank() * (1 + self.p);
        let mut packed = Vec::with_capacity(self.numbers() + count * self.rank());
        let mut pivots = Vec::with_capacity(self.rank());
        let mut starts = Vec::with_capacity(self.rank());
        for (pivot, r, z) in self.iter() {
            starts.push(packed.len());
            pivots.push((if pivot >= at { pivot + count } else { pivot }) as u32);
            if pivot >= at || single {
                packed.extend_from_slice(r);
            } else {
                packed.extend_from_slice(&r[..at - pivot]);
                packed.resize(packed.len() + count, 0.0);
                packed.extend_from_slice(&r[at - pivot..]);
            }
            packed.extend_from_slice(z);
        }
        let c = self.residual().to_vec();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Ok(Self { m: self.m + count, form, target_sum: self.target_sum.clone(), ..*self })
    }

    /// Adds columns at the end that have had one value each in all rows so far, a multiple of the intercept in column 0: the first
    /// row of the triangle is all that knows of them.
    pub(crate) fn extend_constants(&self, values: &[f64]) -> Result<Summary> {
        if self.rank() == 0 || values.iter().all(|value| *value == 0.0) {
            return self.extend_features(self.m, values.len());
        }
        let mut packed = Vec::with_capacity(self.numbers() + values.len() * self.rank());
        for (i, (pivot, r, z)) in self.iter().enumerate() {
            packed.extend_from_slice(r);
            packed.resize(packed.len() + self.m - pivot - r.len(), 0.0);
            packed.extend(values.iter().map(|value| if i == 0 { value * r[0] } else { 0.0 }));
            packed.extend_from_slice(z);
        }
        let shape = (self.n, self.m + values.len(), self.p);
        let (pivots, c) = (self.echelon().pivots.clone(), self.residual().to_vec());
        Self::from_numbers(shape, pivots, packed, c, self.target_sum.clone())
    }

    /// Inserts `count` targets at position `at`, zero for all rows seen so far (a class that appears
    /// later, one-hot encoded).
    ///
    /// # Errors
    /// When `at` is beyond the last target.
    pub fn extend_targets(&self, at: usize, count: usize) -> Result<Summary> {
        check_place(at, count, self.p, "the place of new targets")?;
        let old = |k: usize| match k.checked_sub(at) {
            None => Some(k),
            Some(after) => after.checked_sub(count).map(|after| at + after),
        };
        if let Some(summed) = self.sums_with_targets(self.p + count, old) {
            return Ok(summed);
        }
        let insert = |values: &[f64]| {
            let mut longer = values[..at].to_vec();
            longer.resize(at + count, 0.0);
            longer.extend_from_slice(&values[at..]);
            longer
        };
        let mut packed = Vec::with_capacity(self.numbers() + count * self.rank());
        let mut starts = Vec::with_capacity(self.rank());
        for (_, r, z) in self.iter() {
            starts.push(packed.len());
            packed.extend_from_slice(r);
            packed.extend(insert(z));
        }
        let (pivots, c) = (self.echelon().pivots.clone(), insert(self.residual()));
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Ok(Self { p: self.p + count, form, target_sum: insert(&self.target_sum), ..*self })
    }

    /// The summary with its feature columns elsewhere: column `j` goes to column `places[j]` of `width`; the
    /// columns nothing goes to are zero for all rows. How summaries that met categories in different
    /// orders come to agree.
    ///
    /// Echelon form depends on the order of columns, so this is one QR. Cost: `O(r m²)`.
    ///
    /// # Errors
    /// When there is not one place for each column, or two go to the same one, or beyond `width`.
    pub fn rearrange(&self, places: &[usize], width: usize) -> Result<Summary> {
        if places.len() != self.m {
            return Err(Error::Shape {
                what: "the list of places",
                unit: "places",
                expected: self.m,
                found: places.len(),
            });
        }
        check_places("the place of a column", places, width, "another column goes there already")?;
        if places.iter().enumerate().all(|(j, place)| j == *place) {
            return self.extend_features(self.m, width - self.m);
        }
        if self.is_diagonal() {
            return Ok(self.rearrange_diagonal(places, width));
        }
        let moved = Moved { summary: self, places, m: width };
        let mut triangle = match self.rank() {
            0 => Triangle::empty(width, self.p),
            rank => kernel::factor(width, self.p, &moved, 0..rank),
        };
        triangle.residual = add(&triangle.residual, self.residual());
        Self::from_triangle(triangle, self.n, self.target_sum.clone()).kept()
    }

    /// The summary without columns that are zero in all rows; `kept` has the others, ascending. Exact to the bit.
    pub(crate) fn without_zero_columns(&self, kept: &[usize]) -> Summary {
        let mut places = vec![None; self.m];
        kept.iter().enumerate().for_each(|(to, &from)| places[from] = Some(to as u32));
        let (mut packed, mut pivots) = (Vec::with_capacity(self.numbers()), Vec::new());
        let mut starts = Vec::with_capacity(self.rank());
        for (pivot, r, z) in self.iter() {
            // A zero column has no pivot.
            let Some(to) = places[pivot] else { continue };
            starts.push(packed.len());
            pivots.push(to);
            let cells = r.iter().zip(&places[pivot..]).filter(|(_, place)| place.is_some());
            packed.extend(cells.map(|(v, _)| *v));
            packed.extend_from_slice(z);
        }
        let c = self.residual().to_vec();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Self { m: kept.len(), form, target_sum: self.target_sum.clone(), ..*self }
    }

    /// The summary of the same rows with their gaps filled: for each `(value, indicator, mean)`, `mean` times column `indicator`
    /// is added to column `value`, and the indicators are then zero. One QR.
    pub(crate) fn filled(&self, fills: &[(usize, usize, f64)]) -> Result<Summary> {
        let filled = Filled { summary: self, fills };
        let mut triangle = match self.rank() {
            0 => return Ok(self.clone()),
            rank => kernel::factor(self.m, self.p, &filled, 0..rank),
        };
        triangle.residual = add(&triangle.residual, self.residual());
        Self::from_triangle(triangle, self.n, self.target_sum.clone()).kept()
    }

    /// The summary of some of the columns, in ascending order: what the same rows give without the others.
    ///
    /// Cost: one QR, `O(r k²)` for `k` columns.
    ///
    /// # Errors
    /// When there are none, they are not ascending, or one is not there.
    pub fn choose_columns(&self, keep: &[usize]) -> Result<Summary> {
        if keep.is_empty() {
            let what = "the number of columns to keep";
            return Err(Error::Range { what, value: 0.0, must: "1 or more" });
        }
        check_places("a column to keep", keep, self.m, "it is named twice")?;
        if !keep.is_sorted() {
            return Err(Error::Unsupported {
                operation: "choosing columns",
                reason: "they must be in ascending order".to_owned(),
            });
        }
        if keep.len() == self.m {
            return Ok(self.clone());
        }
        let chosen = Chosen { summary: self, keep };
        let mut triangle = match self.rank() {
            0 => Triangle::empty(keep.len(), self.p),
            rank => kernel::factor(keep.len(), self.p, &chosen, 0..rank),
        };
        triangle.residual = add(&triangle.residual, self.residual());
        Self::from_triangle(triangle, self.n, self.target_sum.clone()).kept()
    }

    /// The summary in which all columns but some are zero for all rows; these are in ascending order.
    ///
    /// # Errors
    /// As [`Summary::choose_columns`].
    pub(crate) fn mask_columns(&self, keep: &[usize]) -> Result<Summary> {
        let chosen = self.choose_columns(keep)?;
        let mut packed = Vec::new();
        let mut starts = Vec::with_capacity(chosen.rank());
        let mut pivots = Vec::with_capacity(chosen.rank());
        for (pivot, r, z) in chosen.iter() {
            let first = keep[pivot];
            let start = packed.len();
            starts.push(start);
            pivots.push(first as u32);
            packed.resize(start + self.m - first, 0.0);
            for (column, v) in keep[pivot..].iter().zip(r) {
                packed[start + column - first] = *v;
            }
            packed.extend_from_slice(z);
        }
        let c = chosen.residual().to_vec();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Ok(Self { m: self.m, form, ..chosen })
    }

    /// The summary with its targets elsewhere: target `k` goes to target `places[k]` of `count`; the others
    /// are zero for all rows. Exact to the bit.
    ///
    /// # Errors
    /// When there is not one place for each target, or two go to the same one, or beyond `count`.
    pub fn rearrange_targets(&self, places: &[usize], count: usize) -> Result<Summary> {
        if places.len() != self.p {
            return Err(Error::Shape {
                what: "the list of places",
                unit: "places",
                expected: self.p,
                found: places.len(),
            });
        }
        check_places("the place of a target", places, count, "another target goes there already")?;
        let old = |k: usize| places.iter().position(|place| *place == k);
        if let Some(summed) = self.sums_with_targets(count, old) {
            return Ok(summed);
        }
        let spread = |values: &[f64]| {
            let mut wide = vec![0.0; count];
            for (&k, v) in places.iter().zip(values) {
                wide[k] = *v;
            }
            wide
        };
        let mut packed = Vec::with_capacity(self.numbers() + count * self.rank());
        let mut starts = Vec::with_capacity(self.rank());
        for (_, r, z) in self.iter() {
            starts.push(packed.len());
            packed.extend_from_slice(r);
            packed.extend(spread(z));
        }
        let (pivots, c) = (self.echelon().pivots.clone(), spread(self.residual()));
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Ok(Self { p: count, form, target_sum: spread(&self.target_sum), ..*self })
    }

    /// The summary of some of the targets, in the order given.
    ///
    /// # Errors
    /// When there are none, or one is not there.
    pub fn choose_targets(&self, keep: &[usize]) -> Result<Summary> {
        if keep.is_empty() {
            let what = "the number of targets to keep";
            return Err(Error::Range { what, value: 0.0, must: "1 or more" });
        }
        for &target in keep {
            check_below("a target to keep", "target", target, self.p)?;
        }
        Ok(self.keep_targets(keep))
    }

    /// [`Summary::choose_targets`] for targets known to be there.
    pub(crate) fn keep_targets(&self, keep: &[usize]) -> Summary {
        if let Some(summed) = self.sums_with_targets(keep.len(), |k| Some(keep[k])) {
            return summed;
        }
        let pick = |values: &[f64]| keep.iter().map(|&k| values[k]).collect::<Vec<_>>();
        let mut packed = Vec::with_capacity(self.numbers());
        let mut starts = Vec::with_capacity(self.rank());
        for (_, r, z) in self.iter() {
            starts.push(packed.len());
            packed.extend_from_slice(r);
            packed.extend(pick(z));
        }
        let (pivots, c) = (self.echelon().pivots.clone(), pick(self.residual()));
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        Self { p: keep.len(), form, target_sum: pick(&self.target_sum), ..*self }
    }

    pub(super) fn check_shape(&self, other: &Summary) -> Result<()> {
        if self.m != other.m {
            return Err(Error::Mismatch {
                what: "number of feature columns",
                left: self.m.to_string(),
                right: other.m.to_string(),
            });
        }
        if self.p != other.p {
            return Err(Error::Mismatch {
                what: "number of targets",
                left: self.p.to_string(),
                right: other.p.to_string(),
            });
        }
        Ok(())
    }

    fn add_scalars(&mut self, other: &Summary) {
        self.n += other.n;
        let c = add(self.residual(), other.residual());
        self.echelon_mut().c = c;
        self.target_sum = add(&self.target_sum, &other.target_sum);
    }
}

fn out_of_range(scale: f64) -> Error {
    let must = "such that the sums it scales stay within double precision";
    Error::Range { what: "scale", value: scale, must }
}

/// Can `count` more be put in at `at` of `length`?
fn check_place(at: usize, count: usize, length: usize, what: &'static str) -> Result<()> {
    check_below(what, "place", at, length + 1)?;
    u32::try_from(length.saturating_add(count)).map(|_| ()).map_err(|_| Error::Range {
        what: "the number of columns",
        value: length.saturating_add(count) as f64,
        must: "below 2^32",
    })
}

/// Are these places below `count`, and no two the same?
fn check_places(
    what: &'static str,
    places: &[usize],
    count: usize,
    twice: &'static str,
) -> Result<()> {
    let mut taken = vec![false; count];
    for &place in places {
        check_below(what, "place", place, count)?;
        if std::mem::replace(&mut taken[place], true) {
            return Err(Error::Place { what, place, reason: twice.to_owned() });
        }
    }
    Ok(())
}

/// Is `place` one of `count`? `kind` is what is counted.
fn check_below(what: &'static str, kind: &str, place: usize, count: usize) -> Result<()> {
    if place < count {
        return Ok(());
    }
    let reason = match count {
        0 => format!("there are no {kind}s"),
        1 => format!("the only {kind} is 0"),
        _ => format!("{kind}s are 0 to {}", count - 1),
    };
    Err(Error::Place { what, place, reason })
}

fn add(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

/// Merges many summaries, each scaled by its factor, in one pass over their rows.
///
/// The factors of a ledger are rows like any others, so this is the kernel's factorisation of them,
/// leaf by leaf. Cost: `2 Σr_t m²` flops; `O(Σr_t p + m p)` where every row has a single entry.
pub(crate) fn pool<'a>(
    m: usize,
    p: usize,
    parts: impl Iterator<Item = (&'a Summary, f64)>,
) -> Result<Summary> {
    let parts: Vec<(&Summary, f64)> = parts.collect();
    if parts.iter().any(|(part, _)| part.is_summed()) {
        return Summary::added_up(None, (m, p), parts.into_iter());
    }
    let mut total = Summary::empty(m, p);
    let mut c = vec![0.0; p];
    let mut stacked = Stacked { w: m + p, m, parts: Vec::new(), ends: Vec::new() };
    for (part, factor) in parts {
        total.check_shape(part)?;
        total.n += factor * part.n;
        for k in 0..p {
            c[k] += factor * part.residual()[k];
            total.target_sum[k] += factor * part.target_sum[k];
        }
        stacked.ends.push(stacked.rows() + part.rank());
        stacked.parts.push((part, factor.sqrt()));
    }
    if stacked.rows() == 0 {
        total.echelon_mut().c = c;
        return total.kept();
    }
    if stacked.parts.iter().all(|(part, _)| part.is_diagonal()) {
        let mut sum = DiagonalSum::new(m, p);
        stacked.parts.iter().for_each(|(part, root)| sum.add(part, *root));
        return sum.finish(total.n, &c, total.target_sum).kept();
    }
    let leaf = kernel::leaf_rows(m);
    let mut pooled: Option<Triangle> = None;
    let mut from = 0;
    while from < stacked.rows() {
        let part = stacked.part_at(from);
        // Of a wide design a large triangle is joined as it is, for a third of the cost of factoring its rows.
        let whole = m > WIDE_DESIGN && 4 * stacked.parts[part].0.rank() >= m;
        let to = if whole { stacked.ends[part] } else { stacked.end_of_rows(from, leaf) };
        pooled = Some(match (pooled, whole) {
            (Some(sum), true) => kernel::stack(stacked.triangle(part), sum),
            (None, true) => stacked.triangle(part).into_triangle(),
            (Some(sum), false) => kernel::stack(kernel::factor(m, p, &stacked, from..to), sum),
            (None, false) => kernel::factor(m, p, &stacked, from..to),
        });
        from = to;
    }
    let mut triangle = pooled.expect("there is at least one row");
    triangle.residual = add(&triangle.residual, &c);
    Summary::from_triangle(triangle, total.n, total.target_sum).kept()
}

impl Source for Summary {
    fn rows(&self) -> usize {
        self.rank()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        for (i, row) in (from..).zip(out.chunks_exact_mut(self.m + self.p)) {
            let (pivot, r, z) = self.row(i);
            row[pivot..pivot + r.len()].copy_from_slice(r);
            row[self.m..].copy_from_slice(z);
        }
    }

    fn zeros(&self, from: usize) -> usize {
        self.row(from).0
    }
}

/// The rows of a summary with their columns in other places.
struct Moved<'a> {
    summary: &'a Summary,
    places: &'a [usize],
    m: usize,
}

impl Source for Moved<'_> {
    fn rows(&self) -> usize {
        self.summary.rank()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        for (i, row) in (from..).zip(out.chunks_exact_mut(self.m + self.summary.p)) {
            let (pivot, r, z) = self.summary.row(i);
            for (place, v) in self.places[pivot..].iter().zip(r) {
                row[*place] = *v;
            }
            row[self.m..].copy_from_slice(z);
        }
    }
}

/// The rows of a summary with their gaps filled.
struct Filled<'a> {
    summary: &'a Summary,
    fills: &'a [(usize, usize, f64)],
}

impl Source for Filled<'_> {
    fn rows(&self) -> usize {
        self.summary.rank()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        let m = self.summary.m;
        for (i, row) in (from..).zip(out.chunks_exact_mut(m + self.summary.p)) {
            let (pivot, r, z) = self.summary.row(i);
            for (o, v) in row[pivot..m].iter_mut().zip(r) {
                *o = *v;
            }
            for &(value, indicator, mean) in self.fills {
                row[value] += mean * row[indicator];
            }
            for &(_, indicator, _) in self.fills {
                row[indicator] = 0.0;
            }
            row[m..].copy_from_slice(z);
        }
    }
}

/// The rows of a summary, some columns alone.
struct Chosen<'a> {
    summary: &'a Summary,
    keep: &'a [usize],
}

impl Source for Chosen<'_> {
    fn rows(&self) -> usize {
        self.summary.rank()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let k = self.keep.len();
        for (i, row) in (from..).zip(out.chunks_exact_mut(k + self.summary.p)) {
            let (pivot, r, z) = self.summary.row(i);
            for (cell, &column) in row.iter_mut().zip(self.keep) {
                let at = column.checked_sub(pivot);
                *cell = at.and_then(|at| r.get(at)).copied().unwrap_or(0.0);
            }
            row[k..].copy_from_slice(z);
        }
    }
}

/// The rows of several summaries, one below the other.
struct Stacked<'a> {
    m: usize,
    w: usize,
    parts: Vec<(&'a Summary, f64)>,
    ends: Vec<usize>,
}

impl Stacked<'_> {
    /// The part that row `at` belongs to.
    fn part_at(&self, at: usize) -> usize {
        self.ends.partition_point(|&end| end <= at)
    }

    /// Where rows to be factored together end: after `most` rows, or before a large triangle of a wide design.
    fn end_of_rows(&self, from: usize, most: usize) -> usize {
        let to = (from + most).min(self.rows());
        if self.m <= WIDE_DESIGN {
            return to;
        }
        let mut part = self.part_at(from);
        while self.ends[part] < to && 4 * self.parts[part + 1].0.rank() < self.m {
            part += 1;
        }
        to.min(self.ends[part])
    }

    /// The rows of one part as a triangle, without its residual.
    fn triangle(&self, part: usize) -> ScaledRows<'_> {
        let (summary, factor) = self.parts[part];
        ScaledRows { summary, factor, residual: vec![0.0; summary.p] }
    }
}

/// The rows of a summary, all of them multiplied by a factor.
struct ScaledRows<'a> {
    summary: &'a Summary,
    factor: f64,
    residual: Vec<f64>,
}

impl<'a> ScaledRows<'a> {
    /// The rows as they are.
    fn of(summary: &'a Summary) -> Self {
        Self { summary, factor: 1.0, residual: summary.residual().to_vec() }
    }
}

impl Stairs for ScaledRows<'_> {
    fn shape(&self) -> (usize, usize) {
        (self.summary.m, self.summary.p)
    }

    fn rows(&self) -> usize {
        self.summary.rank()
    }

    fn row(&self, i: usize) -> (usize, &[f64], &[f64]) {
        self.summary.row(i)
    }

    fn factor(&self) -> f64 {
        self.factor
    }

    fn residual(&self) -> &[f64] {
        &self.residual
    }

    fn into_triangle(self) -> Triangle {
        let mut triangle = self.summary.to_triangle();
        triangle.cells.iter_mut().for_each(|v| *v *= self.factor);
        Triangle { residual: self.residual, ..triangle }
    }
}

impl Source for Stacked<'_> {
    fn rows(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.fill(0.0);
        let mut part = self.part_at(from);
        for (at, row) in (from..).zip(out.chunks_exact_mut(self.w)) {
            while self.ends[part] <= at {
                part += 1;
            }
            let (summary, factor) = self.parts[part];
            let (pivot, r, z) = summary.row(at + summary.rank() - self.ends[part]);
            for (o, v) in row[pivot..self.m].iter_mut().zip(r) {
                *o = factor * v;
            }
            for (o, v) in row[self.m..].iter_mut().zip(z) {
                *o = factor * v;
            }
        }
    }
}
