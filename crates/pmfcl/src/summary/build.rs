//! Rows in chunks of any size become a summary, in bounded memory and on several threads.
//!
//! Rows are cut into *leaves* of a fixed length that depends on the number of columns alone. Each leaf
//! is factored (or summed) by one thread; finished leaves are merged along a fixed tree ([`Counter`]).
//! So the result has the same bits however the rows were chunked and however many threads there are.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::{Counter, Summary, Sums, echelon};
use crate::basis::{BasisError, Design};
use crate::error::{Error, ROW_WEIGHT, Result};
use crate::kernel::{self, Gram, Mixed, PlainTargets, Source, Triangle};
use crate::rows::Rows;

/// Rows whose median sums of products are taken about: few are enough to save digits, in single precision more are worth it.
const SHIFT_ROWS: usize = 15;
const SHIFT_ROWS_MIXED: usize = 63;

/// Up to this many rows per column rows are factored where sums of products were asked for.
const FEW: u64 = 2;

/// Columns up to which `auto` is `qr`.
const NARROW: usize = 512;

/// Columns from which on leaves are summed one after another by all threads, instead of one by each.
const SHARED: usize = 512;

/// The same for sums of products, of which threads can share a strip at less cost.
const SHARED_SUMS: usize = 384;

/// How rows are accumulated.
///
/// | | products | digits lost | use |
/// | --- | --- | --- | --- |
/// | `qr` | none | as many as the condition number has | up to some hundred columns |
/// | `gram` | double | twice as many | wide designs; factors where columns nearly depend on each other |
/// | `mixed` | single | see `Learner::rounding_bound` | very wide random features |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accumulator {
    /// `qr` up to 512 design columns, `gram` beyond; for the basis `auto` up to 128 where its ridge makes that safe. The default.
    #[default]
    Auto,
    /// Orthogonal factors: loses as many digits as the condition number has.
    Qr,
    /// Sums of products: about three times faster, loses twice as many digits. With an intercept a row near the first ones
    /// is subtracted from all rows while they are summed, so that a mean far from zero costs no digits. Where the first rows
    /// show that columns nearly depend on each other, orthogonal factors are used all the same.
    Gram,
    /// Sums of products that are made in single precision and added up in double: about twice as fast as `gram`. Every feature's
    /// sum of squares is raised by [`Accumulator::single_precision`], so that rounding is never taken for signal; the rank then
    /// counts all columns that vary, since dependent ones cannot be told. No more rows than columns are factored in double
    /// precision instead.
    Mixed,
}

impl Accumulator {
    /// What this is for a design of `m` columns: `auto` stands for `qr` or `gram`.
    #[must_use]
    pub fn for_width(self, m: usize) -> Self {
        match self {
            Self::Auto if m <= NARROW => Self::Qr,
            Self::Auto => Self::Gram,
            chosen => chosen,
        }
    }

    /// The share of its own sum of squares by which `mixed` raises that of every feature of a design of `m` columns:
    /// `2⁻²² √m`, about what rounding to single precision can do to a sum of squares in any direction. It acts as a ridge of
    /// this size on standardized features.
    pub fn single_precision(m: usize) -> f64 {
        2.0 * f64::from(f32::EPSILON) * (m as f64).sqrt()
    }

    /// Share of `(‖y‖ + Σ ‖x_j‖|θ_j|)²` that rounding alone may leave of squared residuals over `m` columns.
    pub(crate) fn rounding(self, m: usize) -> f64 {
        match self.for_width(m) {
            Self::Auto | Self::Qr => echelon::tolerance(m).powi(2),
            Self::Gram => echelon::gram_tolerance(m),
            Self::Mixed => Self::single_precision(m),
        }
    }
}

/// Streams rows into a [`Summary`].
///
/// ```
/// use pmfcl::{Accumulator, Basis, Design, Rows, Summarizer};
/// let design = Design::linear(1, true)?;
/// let mut summarizer = Summarizer::new(design, 1, Accumulator::Qr)?;
/// summarizer.add(Rows::new(&[0.0, 1.0], 1)?, Rows::new(&[1.0, 3.0], 1)?, None)?;
/// summarizer.add(Rows::new(&[2.0], 1)?, Rows::new(&[5.0], 1)?, None)?;
/// let summary = summarizer.finish()?;
/// assert_eq!((summary.rank(), summary.n() as u64), (2, 3));
/// # Ok::<(), pmfcl::Error>(())
/// ```
#[derive(Debug)]
pub struct Summarizer {
    design: Design,
    targets: usize,
    threads: usize,
    leaf: usize,
    state: State,
    /// Rows not yet a full leaf: inputs, targets, weights.
    pending: Pending,
    rows: u64,
    /// Rows already in leaves, for messages that name a row.
    reduced: u64,
    n: RowSum,
    target_sum: Vec<RowSum>,
    failed: Option<Error>,
    /// Whether columns that nearly depend on others do no harm.
    shrunk: bool,
    /// Whether sums stay sums, and the ridge they will be solved with.
    kept: Option<Held>,
}

/// A ridge that is known before rows are summed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// `λ` on the mean loss; 0 where it is not known.
    pub(crate) ridge: f64,
    /// Whether it is multiplied by the variance of each feature.
    pub(crate) standardize: bool,
}

impl Held {
    /// Largest square of a condition number for which sums of products keep eight digits.
    const MOST: f64 = 1e8;

    /// Whether sums under this ridge keep eight digits. With columns scaled to unit length no eigenvalue is below the least share of
    /// the ridge in a column's square, or above the number of columns.
    fn is_enough(self, sums: &Sums, n: f64) -> bool {
        let (m, _) = sums.shape();
        let share = |j: usize| {
            let variance = sums.xx(j) / n;
            let hold = self.ridge * if self.standardize { variance } else { 1.0 };
            if variance > 0.0 { (variance + hold) / hold } else { 1.0 }
        };
        let most = Self::MOST / (1..m).map(share).fold(1.0, f64::max);
        m as f64 <= most || sums.largest() <= most
    }
}

#[derive(Debug)]
enum State {
    /// Factors of leaves.
    Forest(Counter<Triangle>),
    /// Sums of products of rows less `shift`, a row near the first ones (0 for the intercept); empty until there is one,
    /// and without an intercept.
    Sums {
        /// Nothing before the first leaf: few rows never come to be one.
        sums: Option<Gram>,
        shift: Vec<f64>,
        /// Whether products are made in single precision, and then the power of two that each feature is multiplied by.
        units: Option<Vec<f64>>,
    },
}

/// How one leaf is reduced.
#[derive(Clone, Copy)]
enum Way<'a> {
    Factor,
    Sums,
    Mixed(&'a [f64]),
}

/// As [`Way`], for as long as one likes.
enum OwnedWay {
    Factor,
    Sums,
    Mixed(Vec<f64>),
}

impl OwnedWay {
    fn borrowed(&self) -> Way<'_> {
        match self {
            Self::Factor => Way::Factor,
            Self::Sums => Way::Sums,
            Self::Mixed(units) => Way::Mixed(units),
        }
    }
}

impl Way<'_> {
    fn to_owned(self) -> OwnedWay {
        match self {
            Self::Factor => OwnedWay::Factor,
            Self::Sums => OwnedWay::Sums,
            Self::Mixed(units) => OwnedWay::Mixed(units.to_vec()),
        }
    }
}

impl State {
    /// Adds the next leaf.
    fn join(&mut self, leaf: Reduced) {
        match (self, leaf) {
            (Self::Forest(factors), Reduced::Factor(t)) => {
                let Ok(()) = factors.push(t, stacked);
            }
            (Self::Sums { sums: Some(sums), .. }, Reduced::Sums(g)) => sums.merge(&g),
            (Self::Sums { sums, .. }, Reduced::Sums(g)) => *sums = Some(g),
            _ => unreachable!("a leaf is reduced the way the state asks for"),
        }
    }

    fn way(&self) -> Way<'_> {
        match self {
            Self::Forest(_) => Way::Factor,
            Self::Sums { units: None, .. } => Way::Sums,
            Self::Sums { units: Some(units), .. } => Way::Mixed(units),
        }
    }

    fn shift(&self) -> &[f64] {
        match self {
            Self::Forest(_) => &[],
            Self::Sums { shift, .. } => shift,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Pending {
    x: Vec<f64>,
    y: Vec<f64>,
    w: Vec<f64>,
    weighted: bool,
    len: usize,
}

/// A sum with its rounding error carried along (Neumaier).
#[derive(Debug, Clone, Copy, Default)]
struct Compensated {
    sum: f64,
    carry: f64,
}

impl Compensated {
    fn add(&mut self, v: f64) {
        let t = self.sum + v;
        self.carry +=
            if self.sum.abs() >= v.abs() { (self.sum - t) + v } else { (v - t) + self.sum };
        self.sum = t;
    }

    fn value(self) -> f64 {
        self.sum + self.carry
    }
}

/// A compensated sum over rows. Neighbouring rows are added to different parts, so that none waits for the one before it.
#[derive(Debug, Clone, Copy, Default)]
struct RowSum([Compensated; 4]);

impl RowSum {
    fn add(&mut self, row: u64, v: f64) {
        self.0[(row % 4) as usize].add(v);
    }

    fn value(self) -> f64 {
        let mut total = Compensated::default();
        for part in self.0 {
            total.add(part.sum);
            total.add(part.carry);
        }
        total.value()
    }
}

impl Summarizer {
    /// A summarizer of rows with `design.inputs()` features and `targets` targets.
    ///
    /// # Errors
    /// When there are no columns or no targets, or more columns than there is memory for.
    pub fn new(design: Design, targets: usize, accumulator: Accumulator) -> Result<Self> {
        let m = design.width();
        if m == 0 || targets == 0 {
            return Err(Error::Empty {
                what: if m == 0 { "the design" } else { "the target list" },
            });
        }
        check_memory(m, targets)?;
        let sums = |units| State::Sums { sums: None, shift: Vec::new(), units };
        let state = match accumulator.for_width(m) {
            Accumulator::Auto | Accumulator::Qr => State::Forest(Counter::new()),
            Accumulator::Gram => sums(None),
            Accumulator::Mixed => sums(Some(vec![1.0; m])),
        };
        // Sums of wide designs are not worth collecting many rows for: nothing has to be merged.
        let summed = m > SHARED_SUMS && !matches!(state, State::Forest(_));
        let leaf = if summed { (2 * m).max(4096) } else { kernel::leaf_rows(m) };
        Ok(Self {
            leaf,
            design,
            targets,
            threads: 1,
            state,
            pending: Pending::default(),
            rows: 0,
            reduced: 0,
            n: RowSum::default(),
            target_sum: vec![RowSum::default(); targets],
            failed: None,
            shrunk: false,
            kept: None,
        })
    }

    /// Sums of a wide design stay sums in the summary, which is meant to be added to others. Few rows are then summed too, where
    /// the ridge leaves enough digits.
    #[must_use]
    pub(crate) fn keep_sums(mut self, kept: Option<Held>) -> Self {
        let summed = self.design.width() > SHARED && matches!(self.state, State::Sums { .. });
        self.kept = kept.filter(|_| summed);
        self
    }

    /// Says that a ridge far above rounding will shrink the model, so that sums of products of columns that nearly depend on each
    /// other keep enough digits: they are not replaced by factors, no column is left out for them, and the summary has sums, which those
    /// of other rows of the task are added to before a triangle is made.
    #[must_use]
    pub(crate) fn shrunk(mut self, shrunk: bool) -> Self {
        self.shrunk = shrunk;
        self
    }

    /// Uses up to `threads` threads for chunks of several leaves. The result does not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Rows a leaf has. Chunks of at least `threads · leaf_rows()` keep all threads busy.
    pub fn leaf_rows(&self) -> usize {
        self.leaf
    }

    /// The design rows are mapped by.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// Rows seen so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a chunk of rows; a weight of 3 counts as three copies of the row.
    ///
    /// # Errors
    /// On shapes that do not agree, weights that are not positive, values that are not finite (found
    /// when the leaf they are in is full). After an error the summarizer stays failed.
    pub fn add(&mut self, x: Rows<'_>, y: Rows<'_>, weights: Option<&[f64]>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let done = self.check(&x, &y, weights).and_then(|()| self.absorb(x, y, weights));
        self.failed = done.as_ref().err().cloned();
        done
    }

    /// The summary of all rows added.
    ///
    /// # Errors
    /// When no row was added, or for what [`Summarizer::add`] has not yet looked at.
    pub fn finish(mut self) -> Result<Summary> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let held = std::mem::take(&mut self.pending);
        let x = Rows::new(&held.x, self.design.inputs())?;
        let y = Rows::new(&held.y, self.targets)?;
        self.conclude(&x, &y, held.weighted.then_some(&held.w[..]))
    }

    /// The summary of all rows added, and of these, which come last. They are summed from where they lie: less than a leaf of them would
    /// be copied by [`Summarizer::add`].
    ///
    /// # Errors
    /// As [`Summarizer::add`] and [`Summarizer::finish`].
    pub fn finish_with(
        mut self,
        x: Rows<'_>,
        y: Rows<'_>,
        weights: Option<&[f64]>,
    ) -> Result<Summary> {
        if self.failed.is_some() || self.pending.len > 0 {
            self.add(x, y, weights)?;
            return self.finish();
        }
        self.check(&x, &y, weights)?;
        let (len, whole) = (x.len(), x.len() / self.leaf * self.leaf);
        self.absorb(x.slice(0, whole), y.slice(0, whole), weights.map(|w| &w[..whole]))?;
        let (x, y, weights) =
            (x.slice(whole, len), y.slice(whole, len), weights.map(|w| &w[whole..]));
        self.count(&y, weights);
        self.conclude(&x, &y, weights)
    }

    /// The summary of the rows in leaves and of the last ones, which are less than a leaf.
    fn conclude(mut self, x: &Rows<'_>, y: &Rows<'_>, weights: Option<&[f64]>) -> Result<Summary> {
        if self.rows == 0 {
            return Err(Error::Empty { what: "the task" });
        }
        let m = self.design.width();
        let few = if matches!(self.state.way(), Way::Mixed(_)) { 1 } else { FEW };
        if self.reduced == 0 && self.rows <= few * m as u64 {
            if let Some(held) = self.kept.filter(|held| held.ridge > 0.0)
                && let Some(summary) = self.sum_few(held, x, y, weights)?
            {
                return Ok(summary);
            }
            // The products of few rows are singular or nearly so, and factoring the rows costs no more.
            self.state = State::Forest(Counter::new());
        }
        if !x.is_empty() {
            self.leaves(x, y, weights)?;
        }
        let target_sum: Vec<f64> = self.target_sum.iter().map(|s| s.value()).collect();
        kernel::with_threads(self.threads, || match self.state {
            State::Forest(factors) => {
                let Ok(triangle) = factors.finish(stacked);
                let triangle = triangle.expect("at least one row was added");
                Summary::from_triangle(triangle, self.n.value(), target_sum).kept()
            }
            State::Sums { sums, shift, units } => {
                let mut sums = sums.expect("at least one row was added");
                if units.is_some() {
                    let first = usize::from(self.design.intercept());
                    sums.lift(first, Accumulator::single_precision(m));
                }
                let (n, rows) = (self.n.value(), Some(self.rows));
                if self.kept.is_some() || self.shrunk {
                    let sums = Sums::new(sums, &shift, rows).shrunk(self.shrunk);
                    return Summary::of_sums(n, target_sum, sums);
                }
                let sums = echelon::Sums { gram: &sums, n, rows, target_sum, shift: &shift };
                echelon::from_gram(sums)
                    .and_then(|summary| summary.kept().map_err(|_| 0))
                    .map_err(|column| Error::Overflow { column })
            }
        })
    }

    /// The sums of few rows, the only ones; `None` where they would keep too few digits.
    fn sum_few(
        &mut self,
        held: Held,
        x: &Rows<'_>,
        y: &Rows<'_>,
        weights: Option<&[f64]>,
    ) -> Result<Option<Summary>> {
        let few = self.rows <= self.design.width() as u64;
        let sums = if self.design.intercept() && weights.is_none() && few {
            self.few_rows(x, y)?
        } else {
            self.few_sums(x, y, weights)?
        };
        kernel::with_threads(self.threads, || {
            if !held.is_enough(&sums, self.n.value()) {
                return Ok(None);
            }
            let target_sum = self.target_sum.iter().map(|s| s.value()).collect();
            Summary::of_sums(self.n.value(), target_sum, sums).map(Some)
        })
    }

    /// Sums that are made when they are asked for: the rows take no more memory than a matrix of all products, keep all digits, and are
    /// added to other sums at no more cost.
    fn few_rows(&mut self, x: &Rows<'_>, y: &Rows<'_>) -> Result<Sums> {
        let (m, p) = (self.design.width(), self.targets);
        self.fix_shift(x, y);
        let State::Sums { shift, units, .. } = &self.state else {
            unreachable!("only sums are kept")
        };
        let leaf = Leaf {
            design: &self.design,
            x: *x,
            y: *y,
            scale: None,
            shift: shift.clone(),
            failure: Mutex::new(None),
        };
        let single = units.clone().map(|units| (units, Accumulator::single_precision(m)));
        let sums =
            kernel::with_threads(self.threads, || Sums::of_few(&leaf, (m, p), shift, single));
        let bad = (0..m).find(|&j| !sums.xx(j).is_finite());
        leaf.check(bad.or_else(|| (0..p).find(|&k| !sums.yy(k).is_finite()).map(|k| m + k)))?;
        Ok(sums)
    }

    /// Sums over few rows, which do not count as summed yet.
    fn few_sums(&mut self, x: &Rows<'_>, y: &Rows<'_>, weights: Option<&[f64]>) -> Result<Sums> {
        let shrunk = std::mem::replace(&mut self.shrunk, true);
        self.leaves(x, y, weights)?;
        let m = self.design.width();
        let State::Sums { sums, shift, units } = &mut self.state else {
            unreachable!("only sums are kept")
        };
        let mut gram = sums.take().expect("there are rows");
        if units.is_some() {
            gram.lift(usize::from(self.design.intercept()), Accumulator::single_precision(m));
        }
        let sums = kernel::with_threads(self.threads, || Sums::new(gram, shift, Some(self.rows)));
        (self.shrunk, self.reduced) = (shrunk, 0);
        Ok(sums)
    }

    fn check(&self, x: &Rows<'_>, y: &Rows<'_>, weights: Option<&[f64]>) -> Result<()> {
        let shape = |what, unit, expected, found| {
            if expected == found {
                Ok(())
            } else {
                Err(Error::Shape { what, unit, expected, found })
            }
        };
        shape("the feature table", "columns", self.design.inputs(), x.width())?;
        shape("the target table", "columns", self.targets, y.width())?;
        shape("the target table", "rows", x.len(), y.len())?;
        let Some(weights) = weights else { return Ok(()) };
        shape("the list of sample weights", "numbers", x.len(), weights.len())?;
        match weights.iter().position(|&w| !(w > 0.0 && w.is_finite())) {
            Some(i) => Err(Error::Weight {
                what: ROW_WEIGHT,
                at: (self.rows + i as u64).to_string(),
                value: weights[i],
            }),
            None => Ok(()),
        }
    }

    fn absorb(&mut self, x: Rows<'_>, y: Rows<'_>, weights: Option<&[f64]>) -> Result<()> {
        let len = x.len();
        let mut at = 0;
        if self.pending.len > 0 {
            at = (self.leaf - self.pending.len).min(len);
            self.hold(&x.slice(0, at), &y.slice(0, at), weights.map(|w| &w[..at]));
            if self.pending.len == self.leaf {
                self.flush()?;
            }
        }
        let leaves = (len - at) / self.leaf;
        if leaves > 0 {
            let to = at + leaves * self.leaf;
            self.leaves(&x.slice(at, to), &y.slice(at, to), weights.map(|w| &w[at..to]))?;
            at = to;
        }
        if at < len {
            self.hold(&x.slice(at, len), &y.slice(at, len), weights.map(|w| &w[at..]));
        }
        self.count(&y, weights);
        Ok(())
    }

    /// Counts rows, and adds up their targets.
    fn count(&mut self, y: &Rows<'_>, weights: Option<&[f64]>) {
        let len = y.len();
        for i in 0..len {
            let (row, w) = (self.rows + i as u64, weights.map_or(1.0, |w| w[i]));
            self.n.add(row, w);
            if let Some(codes) = y.as_indicators() {
                self.target_sum[codes[i] as usize].add(row, w);
                continue;
            }
            for (k, sum) in self.target_sum.iter_mut().enumerate() {
                sum.add(row, w * y.get(i, k));
            }
        }
        self.rows += len as u64;
    }

    fn hold(&mut self, x: &Rows<'_>, y: &Rows<'_>, weights: Option<&[f64]>) {
        let held = &mut self.pending;
        x.append_to(&mut held.x);
        y.append_to(&mut held.y);
        match weights {
            Some(w) => held.w.extend_from_slice(w),
            None => held.w.resize(held.len + x.len(), 1.0),
        }
        held.weighted |= weights.is_some();
        held.len += x.len();
    }

    /// Turns the pending rows into a leaf.
    fn flush(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.pending);
        if held.len == 0 {
            return Ok(());
        }
        let x = Rows::new(&held.x, self.design.inputs())?;
        let y = Rows::new(&held.y, self.targets)?;
        self.leaves(&x, &y, held.weighted.then_some(&held.w[..]))
    }

    /// Takes the median of the first rows as the shift of sums of products, where there is an intercept to put it back into, and
    /// their largest distance from it as the unit of single precision. The median, because a single row far out would cost the
    /// digits the shift is meant to save.
    fn fix_shift(&mut self, x: &Rows<'_>, y: &Rows<'_>) {
        let (m, w) = (self.design.width(), self.design.width() + self.targets);
        let intercept = self.design.intercept();
        let State::Sums { shift, units, .. } = &mut self.state else { return };
        if self.reduced > 0 || units.is_none() && !intercept {
            return;
        }
        let count = x.len().min(if units.is_some() { SHIFT_ROWS_MIXED } else { SHIFT_ROWS });
        // All over the first leaf: rows next to each other may be alike.
        let first = x.len().min(self.leaf);
        let mut rows = vec![0.0; count * w];
        for (i, row) in rows.chunks_exact_mut(w).enumerate() {
            let at = i * first / count;
            // Rows the basis refuses are refused again, with their place, when their leaf is reduced.
            if self.design.write(&x.slice(at, at + 1), 0, row, w, None).is_err() {
                return;
            }
            y.slice(at, at + 1).copy_into(0, row, w, m, None);
        }
        let median = |j: usize| {
            let mut column: Vec<f64> = rows.iter().skip(j).step_by(w).copied().collect();
            let (_, median, _) = column.select_nth_unstable_by(count / 2, f64::total_cmp);
            Some(*median).filter(|v| v.is_finite() && j > 0).unwrap_or(0.0)
        };
        if intercept {
            *shift = (0..w).map(median).collect();
        }
        for (j, unit) in units.iter_mut().flatten().enumerate() {
            let middle = shift.get(j).copied().unwrap_or(0.0);
            let sizes = rows.iter().skip(j).step_by(w).map(|v| (v - middle).abs());
            let largest = sizes.fold(0.0, f64::max);
            if largest > 0.0 && largest.is_finite() {
                *unit = libm::exp2(-libm::log2(largest).round().clamp(-1000.0, 1000.0));
            }
        }
    }

    /// Factors whole leaves (the last may be short), one on each thread, and merges them in order. Leaves of wide designs are summed one after another, by all threads together.
    fn leaves(&mut self, x: &Rows<'_>, y: &Rows<'_>, weights: Option<&[f64]>) -> Result<()> {
        self.fix_shift(x, y);
        let (threads, reduced) = (self.threads, self.reduced);
        let (design, size) = (&self.design, self.leaf);
        let empty = || Gram::new(design.width(), y.width());
        let count = x.len().div_ceil(size);
        let leaf = |i: usize, shift: &[f64]| {
            let (from, to) = (i * size, ((i + 1) * size).min(x.len()));
            Leaf {
                design,
                x: x.slice(from, to),
                y: y.slice(from, to),
                scale: weights.map(|w| w[from..to].iter().map(|w| w.sqrt()).collect()),
                shift: shift.to_vec(),
                failure: Mutex::new(None),
            }
        };
        let place = |i: usize| reduced + (i * size) as u64;
        let mut next = 0;
        if reduced == 0
            && !self.shrunk
            && let State::Sums { sums, shift, units: None } = &mut self.state
        {
            // The first rows show whether sums of products keep the columns apart.
            let loses = kernel::with_threads(threads, || {
                let sums = sums.get_or_insert_with(empty);
                leaf(0, shift).sum(sums, Way::Sums)?;
                Ok::<_, Error>(echelon::loses_digits(sums))
            });
            if loses.map_err(|e| e.shifted(place(0)))? {
                self.state = State::Forest(Counter::new());
            } else {
                next = 1;
            }
        }
        let summed = matches!(self.state, State::Sums { .. });
        let together = design.width() > if summed { SHARED_SUMS } else { SHARED };
        if together && summed {
            let shift = self.state.shift().to_vec();
            let units = match self.state.way() {
                Way::Mixed(units) => units.to_vec(),
                _ => Vec::new(),
            };
            let way = if units.is_empty() { Way::Sums } else { Way::Mixed(&units) };
            let State::Sums { sums, .. } = &mut self.state else { unreachable!("asked above") };
            let sums = kernel::with_threads(threads, || sums.get_or_insert_with(empty));
            for i in next..count {
                kernel::with_threads(threads, || leaf(i, &shift).sum(sums, way))
                    .map_err(|e| e.shifted(place(i)))?;
            }
            next = count;
        }
        if together || count - next < 2 || threads < 2 {
            // A single leaf has all threads to itself, and so has one of a wide design.
            for i in next..count {
                kernel::with_threads(threads, || {
                    let reduced = leaf(i, self.state.shift()).reduce(self.state.way());
                    self.state.join(reduced.map_err(|e| e.shifted(place(i)))?);
                    Ok::<_, Error>(())
                })?;
            }
        } else {
            let (shift, way) = (self.state.shift().to_vec(), self.state.way().to_owned());
            let one = |i: usize| {
                let reduced = leaf(i, &shift).reduce(way.borrowed());
                reduced.map_err(|e| e.shifted(place(i)))
            };
            in_order(threads, next..count, one, |reduced| self.state.join(reduced))?;
        }
        self.reduced += x.len() as u64;
        Ok(())
    }
}

/// Leaves that may wait for an earlier one, for each thread.
const WAITING: usize = 4;

/// Calls `make` with every number, on several threads, and `join` with what it gives, in the order of the numbers. The first error,
/// in that order, ends it.
///
/// Threads are started once: for a narrow design a leaf lasts hardly longer than it takes to start one.
fn in_order<T: Send, E: Send>(
    threads: usize,
    numbers: Range<usize>,
    make: impl Fn(usize) -> Result<T, E> + Sync,
    join: impl FnMut(T) + Send,
) -> Result<(), E> {
    struct Line<T, E, J> {
        next: usize,
        waiting: BTreeMap<usize, Result<T, E>>,
        failed: Option<E>,
        join: J,
    }
    let (first, end) = (numbers.start, numbers.end);
    let taken = AtomicUsize::new(first);
    let line = Mutex::new(Line { next: first, waiting: BTreeMap::new(), failed: None, join });
    let moved = Condvar::new();
    let panicked = AtomicBool::new(false);
    let work = || {
        // Whoever waits for a thread that panics must not wait for ever.
        let _guard = OnPanic(|| {
            panicked.store(true, Ordering::Relaxed);
            drop(line.lock());
            moved.notify_all();
        });
        loop {
            let i = taken.fetch_add(1, Ordering::Relaxed);
            if i >= end {
                return;
            }
            let made = make(i);
            let line = line.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever is far ahead waits; the next in line never does.
            let ahead = |line: &mut Line<T, E, _>| {
                let stopped = line.failed.is_some() || panicked.load(Ordering::Relaxed);
                !stopped && i >= line.next + WAITING * threads
            };
            let mut line = moved.wait_while(line, ahead).unwrap_or_else(PoisonError::into_inner);
            let line = &mut *line;
            line.waiting.insert(i, made);
            while line.failed.is_none()
                && let Some(made) = line.waiting.remove(&line.next)
            {
                match made {
                    Ok(made) => (line.join)(made),
                    Err(error) => {
                        line.failed = Some(error);
                        taken.store(end, Ordering::Relaxed);
                    }
                }
                line.next += 1;
            }
            moved.notify_all();
        }
    };
    std::thread::scope(|scope| {
        (1..threads.min(numbers.len())).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    match line.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Calls a function where it goes out of scope by a panic.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Most arrays of `m × (m + p)` numbers that are alive at once, while two triangles are joined: the rows of both side by side, which
/// are two, and half an array for each of the summaries; then the triangle of both, twice, and the summaries.
const ARRAYS: u128 = 3;

/// A design that needs fewer bytes is not looked at.
const PLENTY: u128 = 1 << 28;

/// Refuses a design whose triangles do not fit into memory, before any row is read. The allocator is asked for all of it at once;
/// systems that promise memory before it is used still refuse more than they have.
fn check_memory(m: usize, p: usize) -> Result<()> {
    let bytes = |m: usize| ARRAYS * 8 * m as u128 * (m as u128 + p as u128);
    let fits = |m: usize| {
        let bytes = usize::try_from(bytes(m)).unwrap_or(usize::MAX);
        let mut room = Vec::<u8>::new();
        let granted = room.try_reserve_exact(bytes).is_ok();
        // A compiler that sees nobody use the memory would not ask for it.
        std::hint::black_box(&room);
        granted
    };
    if bytes(m) < PLENTY || fits(m) {
        return Ok(());
    }
    // The largest width that would do, to two digits.
    let (mut least, mut most) = (0, m);
    while most - least > least / 64 + 1 {
        let middle = least.midpoint(most);
        if fits(middle) { least = middle } else { most = middle }
    }
    Err(Error::Unsupported {
        operation: "so wide a design",
        reason: format!(
            "{m} columns need {:.1} GB of memory, which this machine does not have; up to about {least} columns would fit",
            bytes(m) as f64 / 1e9
        ),
    })
}

/// The factor of the rows of both. The older stands for at least as many rows, and the larger factor is more accurate at the
/// bottom.
#[expect(clippy::unnecessary_wraps, reason = "what a counter merges with")]
fn stacked(older: Triangle, newer: Triangle) -> Result<Triangle, Infallible> {
    Ok(kernel::stack(newer, older))
}

enum Reduced {
    Factor(Triangle),
    Sums(Gram),
}

/// A run of rows seen as design columns and targets, weights folded in as √w.
struct Leaf<'a> {
    design: &'a Design,
    x: Rows<'a>,
    y: Rows<'a>,
    scale: Option<Vec<f64>>,
    /// Subtracted from every row before weights are applied; empty for nothing.
    shift: Vec<f64>,
    /// What the basis refuses first, and the row from which the rows it refused were written.
    failure: Mutex<Option<(usize, BasisError)>>,
}

impl Leaf<'_> {
    fn reduce(&self, way: Way<'_>) -> Result<Reduced> {
        let (m, p) = (self.design.width(), self.y.width());
        match way {
            Way::Factor => {
                let t = kernel::factor(m, p, self, 0..self.x.len());
                let cell = t.cells.iter().position(|v| !v.is_finite()).map(|i| i % (m + p));
                let target = || t.residual.iter().position(|v| !v.is_finite()).map(|k| m + k);
                self.check(cell.or_else(target))?;
                Ok(Reduced::Factor(t))
            }
            Way::Sums | Way::Mixed(_) => {
                let mut sums = Gram::new(m, p);
                self.sum(&mut sums, way)?;
                Ok(Reduced::Sums(sums))
            }
        }
    }

    /// Adds the sums of products of the rows.
    fn sum(&self, sums: &mut Gram, way: Way<'_>) -> Result<()> {
        let (m, p) = (self.design.width(), self.y.width());
        match way {
            Way::Mixed(units) => Mixed { units }.add(sums, self, 0..self.x.len()),
            _ => sums.add(self, 0..self.x.len()),
        }
        let bad = (0..m)
            .find(|&j| !sums.xx(j, j).is_finite())
            .or_else(|| (0..p).find(|&k| !sums.yy(k).is_finite()).map(|k| m + k));
        self.check(bad)
    }

    /// Reports what the basis refused, or the column whose numbers overflow.
    fn check(&self, bad: Option<usize>) -> Result<()> {
        let failure = self.failure.lock().expect("no leaf panics while it holds this").take();
        if let Some((_, error)) = failure {
            // A value that is not finite is the more helpful thing to say.
            return Err(self.not_finite().unwrap_or(Error::Basis(error)));
        }
        match bad {
            Some(column) => Err(self.not_finite().unwrap_or(Error::Overflow { column })),
            None => Ok(()),
        }
    }

    fn not_finite(&self) -> Option<Error> {
        let place = |what, (row, column, value): (usize, usize, f64)| Error::NotFinite {
            what,
            row: row as u64,
            column,
            value,
        };
        let x = self.x.first_not_finite().map(|at| place("feature", at));
        x.or_else(|| self.y.first_not_finite().map(|at| place("target", at)))
    }
}

impl Source for Leaf<'_> {
    fn rows(&self) -> usize {
        self.x.len()
    }

    fn plain(&self) -> Option<kernel::Plain<'_>> {
        if !self.design.is_plain() || self.scale.is_some() {
            return None;
        }
        let x = self.x.as_f64(0, self.x.len())?;
        let y = match self.y.as_indicators() {
            Some(codes) => PlainTargets::Indicators(codes),
            None => PlainTargets::Numbers(self.y.as_f64(0, self.y.len())?),
        };
        Some(kernel::Plain { intercept: self.design.intercept(), x, y, shift: &self.shift })
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let w = self.design.width() + self.y.width();
        let scale = self.scale.as_ref().map(|s| &s[from..]);
        if let Err(error) = self.design.write(&self.x, from, out, w, scale) {
            let mut failure = self.failure.lock().expect("no leaf panics while it holds this");
            // Threads fill rows in any order; the first refused row is the one to name.
            if failure.as_ref().is_none_or(|(at, _)| from < *at) {
                *failure = Some((from, error.shifted(from)));
            }
            out.fill(0.0);
            return;
        }
        self.y.copy_into(from, out, w, self.design.width(), scale);
        if self.shift.is_empty() {
            return;
        }
        for (i, row) in out.chunks_exact_mut(w).enumerate() {
            let weight = scale.map_or(1.0, |s| s[i]);
            for (v, shift) in row.iter_mut().zip(&self.shift) {
                *v -= weight * shift;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_joined_in_order_on_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let mut joined = Vec::new();
            let done: Result<(), ()> = in_order(threads, 3..103, Ok, |i| joined.push(i));
            assert_eq!((done, joined), (Ok(()), (3..103).collect()), "{threads} threads");
        }
    }

    #[test]
    fn the_first_error_in_order_is_reported_and_nothing_after_it_is_joined() {
        for threads in [1, 2, 5] {
            let mut joined = Vec::new();
            let make = |i: usize| {
                // The later error tends to be made first.
                if i == 40 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                if i == 40 || i == 41 { Err(i) } else { Ok(i) }
            };
            assert_eq!(in_order(threads, 0..90, make, |i| joined.push(i)), Err(40));
            assert_eq!(joined, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_panic_ends_the_work_of_all_threads() {
        let make = |i: usize| {
            assert!(i != 2, "a leaf panicked");
            Ok::<_, ()>(i)
        };
        let _ = in_order(2, 0..1000, make, |_| ());
    }
}
