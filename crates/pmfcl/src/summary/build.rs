//! Rows in chunks of any size become a summary, in bounded memory and on several threads.
//!
//! Rows are cut into *leaves* of a fixed length that depends on the number of columns alone. Each leaf
//! is factored (or summed) by one thread; finished leaves are merged along a fixed tree ([`Counter`]).
//! So the result has the same bits however the rows were chunked and however many threads there are.

use std::convert::Infallible;
use std::sync::Mutex;

use super::accumulator::Accumulator;
use super::in_order::in_order;
use super::leaf::{Leaf, Reduced, Way};
use super::room::check_memory;
use super::row_sum::RowSum;
use super::{Counter, Summary, Sums, echelon};
use crate::basis::Design;
use crate::error::{Error, ROW_WEIGHT, Result};
use crate::kernel::{self, Gram, Triangle};
use crate::rows::Rows;

/// Rows whose median sums of products are taken about: few are enough to save digits, in single precision more are worth it.
const SHIFT_ROWS: usize = 15;
const SHIFT_ROWS_MIXED: usize = 63;

/// Up to this many rows per column rows are factored where sums of products were asked for.
const FEW: u64 = 2;

/// Columns from which on leaves are summed one after another by all threads, instead of one by each.
const SHARED: usize = 512;

/// The same for sums of products, of which threads can share a strip at less cost.
const SHARED_SUMS: usize = 384;

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
    /// Rows that came without weights, and the weights of the others.
    plain_rows: u64,
    weighted: RowSum,
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
            plain_rows: 0,
            weighted: RowSum::default(),
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
        let n = self.n();
        let target_sum: Vec<f64> = self.target_sum.iter().map(|s| s.value()).collect();
        kernel::with_threads(self.threads, || match self.state {
            State::Forest(factors) => {
                let Ok(triangle) = factors.finish(stacked);
                let triangle = triangle.expect("at least one row was added");
                Summary::from_triangle(triangle, n, target_sum).kept()
            }
            State::Sums { sums, shift, units } => {
                let mut sums = sums.expect("at least one row was added");
                if units.is_some() {
                    let first = usize::from(self.design.intercept());
                    sums.lift(first, Accumulator::single_precision(m));
                }
                let rows = Some(self.rows);
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
            if !held.is_enough(&sums, self.n()) {
                return Ok(None);
            }
            let target_sum = self.target_sum.iter().map(|s| s.value()).collect();
            Summary::of_sums(self.n(), target_sum, sums).map(Some)
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

    /// Counts rows, and adds up their weights and targets.
    fn count(&mut self, y: &Rows<'_>, weights: Option<&[f64]>) {
        let (len, first) = (y.len(), self.rows);
        match weights {
            // A row of weight 1 is a row, and takes no sum.
            None => self.plain_rows += len as u64,
            Some(weights) => {
                (first..).zip(weights).for_each(|(row, w)| self.weighted.add(row, *w));
            }
        }
        let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
        if let Some(codes) = y.as_indicators() {
            for (i, code) in codes.iter().enumerate() {
                self.target_sum[*code as usize].add(first + i as u64, weight(i));
            }
        } else {
            for i in 0..len {
                let (row, w) = (first + i as u64, weight(i));
                for (k, sum) in self.target_sum.iter_mut().enumerate() {
                    sum.add(row, w * y.get(i, k));
                }
            }
        }
        self.rows += len as u64;
    }

    /// Σ of row weights.
    fn n(&self) -> f64 {
        self.plain_rows as f64 + self.weighted.value()
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

/// The factor of the rows of both. The older stands for at least as many rows, and the larger factor is more accurate at the
/// bottom.
#[expect(clippy::unnecessary_wraps, reason = "what a counter merges with")]
fn stacked(older: Triangle, newer: Triangle) -> Result<Triangle, Infallible> {
    Ok(kernel::stack(newer, older))
}
