//! Sums of clipped rows as exact integers: what noise is added to.

use faer::{Mat, Side};

use super::Bounds;
use super::bounds::MARGIN;
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::rows::Rows;

/// Rounding sums to the grid of the noise adds at most this share to a sensitivity.
const COARSE: f64 = 1.0 / 256.0;
/// Steps of the rows' grid in one of the noise's.
const FINE: i64 = 1 << 24;
/// What rounding in the eigenvalue solver may add to a sensitivity, as a share.
const EIGEN: f64 = 1e-3;
/// Most rows times columns for which it adds no more: 16·2⁻⁵²·10¹¹ is below a thousandth.
const MOST_CELLS: f64 = 1e11;
/// Rows mapped at once.
const CHUNK: usize = 256;

/// A statistic that is released: its numbers, and how far one row moves them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) name: &'static str,
    /// Numbers.
    pub(super) count: usize,
    /// Share of the budget, in ρ.
    pub(super) share: f64,
    /// Step of the noise's grid, a power of two.
    pub(super) step: f64,
    /// Most that one row changes the rounded sums by, in the Euclidean norm.
    pub(super) sensitivity: f64,
}

impl Piece {
    fn new(name: &'static str, count: usize, share: f64, bound: f64) -> Self {
        let root = (count as f64).sqrt();
        let step = libm::exp2((bound * COARSE / root).log2().floor());
        // Two roundings to the nearest, of half a step in each of the numbers; and those of products.
        let sensitivity = bound * (1.0 + MARGIN) + step * root;
        Self { name, count, share, step, sensitivity }
    }

    /// The same with another share of the budget.
    pub(super) fn with_share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// Step of the rows' grid.
    fn fine(&self) -> f64 {
        self.step / FINE as f64
    }
}

/// How many rows were longer than a bound and were scaled down.
///
/// These counts are not private: they are for whoever holds the rows, to see whether the bounds suit them, and must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(hidden)] // for lab
pub struct Scaled {
    /// Rows added.
    pub rows: u64,
    /// Rows whose features were scaled down.
    pub features: u64,
    /// Rows whose targets were scaled down.
    pub targets: u64,
    /// Rows of which either was.
    pub either: u64,
    /// Rows with a value that was not finite, or that the basis cannot map: they count as shorter ones.
    pub replaced: u64,
}

impl std::ops::AddAssign for Scaled {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.features += other.features;
        self.targets += other.targets;
        self.either += other.either;
        self.replaced += other.replaced;
    }
}

/// What rows are summed up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Products with values.
    Values,
    /// Counts and sums of classes, and products of features.
    Classes,
}

/// Sums of clipped rows, as exact integers. They are not private: noise is added by [`release`](super::release()).
#[derive(Debug, Clone, PartialEq)]
pub struct Clipped {
    design: Design,
    targets: usize,
    bounds: Bounds,
    form: Form,
    scaled: Scaled,
    pieces: Vec<Piece>,
    /// Of every piece but `λ_min`, on the rows' grid.
    sums: Vec<Vec<i128>>,
}

/// Places in the list of pieces.
pub(super) const XX: usize = 0;
pub(super) const XY: usize = 1;
pub(super) const YY: usize = 2;
pub(super) const LEAST: usize = 3;
pub(super) const COUNT: usize = 4;
pub(super) const Y: usize = 5;

impl Clipped {
    /// No rows yet. The design must have been fixed without a look at the rows.
    ///
    /// # Errors
    /// When there are no targets or columns, and when the design clips at another bound.
    pub fn new(design: Design, targets: usize, bounds: Bounds) -> Result<Self> {
        check_shape(&design, targets, bounds)?;
        let (m, p) = (design.width(), targets);
        let one = if design.intercept() { 1.0 } else { 0.0 };
        let square = one + bounds.x() * bounds.x();
        let by = bounds.y();
        let spare = if design.intercept() { 0.09 } else { 0.03 };
        let mut pieces = vec![
            Piece::new("XᵀX", m * (m + 1) / 2, 0.3, square),
            Piece::new("XᵀY", m * p, 0.3, square.sqrt() * by),
            Piece::new("Σy²", p, spare, by * by),
            Piece::new("λ_min", 1, 0.3, square * (1.0 + EIGEN)),
        ];
        if !design.intercept() {
            pieces.push(Piece::new("n", 1, spare, 1.0));
            pieces.push(Piece::new("Σy", p, spare, by));
        }
        // Whether the bounds suit the rows is told with noise as well; whoever fits without knowing fits nothing.
        pieces.push(Piece::new("clipped", 1, 0.01, 1.0));
        Ok(Self::of(design, targets, bounds, Form::Values, pieces))
    }

    /// No rows of classes yet: [`ClippedClasses`](super::ClippedClasses) says what is summed.
    pub(super) fn of_classes(design: Design, classes: usize, bound: f64) -> Result<Self> {
        let bounds = Bounds::new(bound, 1.0)?;
        check_shape(&design, classes, bounds)?;
        if !design.intercept() {
            return Err(Error::Unsupported {
                operation: "private sums of classes",
                reason: "counts of classes are sums over the column of ones; take a design with an intercept".to_owned(),
            });
        }
        let (d, m) = (design.width() - 1, design.width());
        let square = bound * bound;
        let pieces = vec![
            Piece::new("ΦᵀΦ", d * (d + 1) / 2, 0.5, square),
            Piece::new("counts and sums", m * classes, 0.49, (1.0 + square).sqrt()),
            Piece::new("clipped", 1, 0.01, 1.0),
        ];
        Ok(Self::of(design, classes, bounds, Form::Classes, pieces))
    }

    fn of(design: Design, targets: usize, bounds: Bounds, form: Form, pieces: Vec<Piece>) -> Self {
        let sums = pieces.iter().map(|piece| vec![0; piece.count]).collect();
        Self { design, targets, bounds, form, scaled: Scaled::default(), pieces, sums }
    }

    /// Adds rows, each scaled down to the bounds.
    ///
    /// Every row is taken, whatever its values: an error that depends on a value would show the row that has it. One that the basis cannot
    /// map (it overflows, or has a value that is not finite) is halved until it can, at last to features of zero; a target that is not
    /// finite counts as the bound, or zero. Which rows these are depends on each row alone, so the guarantee holds; how many,
    /// [`Scaled::replaced`] says to whoever holds the rows.
    ///
    /// # Errors
    /// On shapes that do not agree, and on more rows than the guarantee covers; nothing of the chunk is added then.
    pub fn add(&mut self, x: Rows<'_>, y: Rows<'_>) -> Result<()> {
        if y.width() != self.targets {
            let (what, unit) = ("the target table", "columns");
            return Err(Error::Shape { what, unit, expected: self.targets, found: y.width() });
        }
        let (p, bound) = (self.targets, self.bounds.y());
        let mut target = vec![0.0; p];
        self.add_rows(x, y.len(), |own, at, row, sums| {
            let mut replaced = false;
            for (k, v) in target.iter_mut().enumerate() {
                *v = y.get(at, k);
                if !v.is_finite() {
                    *v = if v.is_nan() { 0.0 } else { bound.copysign(*v) };
                    replaced = true;
                }
            }
            let scaled = own.add_row(row, &mut target, sums);
            Scaled { replaced: u64::from(replaced), ..scaled }
        })
    }

    /// Adds rows of classes by their places in the list of classes. One of no class in the list is left out.
    pub(super) fn add_labels(&mut self, x: Rows<'_>, labels: &[u32]) -> Result<()> {
        self.add_rows(x, labels.len(), |own, at, row, sums| {
            let class = labels[at] as usize;
            if class < own.targets {
                own.add_row_of_class(row, class, sums)
            } else {
                Scaled { rows: 1, replaced: 1, ..Scaled::default() }
            }
        })
    }

    /// Maps the rows and adds each as `add` says; all or nothing.
    fn add_rows(
        &mut self,
        x: Rows<'_>,
        targets: usize,
        mut add: impl FnMut(&Self, usize, &mut [f64], &mut [Vec<i128>]) -> Scaled,
    ) -> Result<()> {
        let m = self.design.width();
        for (what, unit, expected, found) in [
            ("the feature table", "columns", self.design.inputs(), x.width()),
            ("the target table", "rows", x.len(), targets),
        ] {
            if expected != found {
                return Err(Error::Shape { what, unit, expected, found });
            }
        }
        self.check_rows(self.scaled.rows + x.len() as u64)?;
        let mut sums = self.sums.clone();
        let mut scaled = self.scaled;
        let mut design = vec![0.0; CHUNK.min(x.len()) * m];
        for from in (0..x.len()).step_by(CHUNK) {
            let rows = CHUNK.min(x.len() - from);
            let design = &mut design[..rows * m];
            let written = self.design.write_unclipped(&x, from, design, m, None).is_ok();
            for (i, row) in design.chunks_exact_mut(m).enumerate() {
                let mut replaced = false;
                if !written || !row.iter().all(|v| v.is_finite()) {
                    replaced = self.write_row(&x, from + i, row);
                }
                let added = add(self, from + i, row, &mut sums);
                scaled += Scaled { replaced: added.replaced.max(u64::from(replaced)), ..added };
            }
        }
        self.sums = sums;
        self.scaled = scaled;
        Ok(())
    }

    /// More rows than this, and the least eigenvalue loses the digits the guarantee counts on. How many there are is not private to
    /// that extent: the limit is the same for all tables.
    fn check_rows(&self, rows: u64) -> Result<()> {
        if rows as f64 * self.design.width() as f64 > MOST_CELLS {
            return Err(Error::Unsupported {
                operation: "a private sum of so many rows",
                reason: "the least eigenvalue would lose the digits the guarantee counts on; split the task".to_owned(),
            });
        }
        Ok(())
    }

    /// The design row of one row, halved until the basis can map it. Whether it had to be.
    fn write_row(&self, x: &Rows<'_>, at: usize, out: &mut [f64]) -> bool {
        let (d, m) = (x.width(), out.len());
        let mut cells: Vec<f64> = (0..d).map(|j| x.get(at, j)).collect();
        let mut replaced = cells.iter().any(|v| !v.is_finite());
        for v in &mut cells {
            *v = if v.is_nan() { 0.0 } else { v.clamp(-f64::MAX, f64::MAX) };
        }
        // From the largest double to the smallest in steps of 2⁶, then by rows of zeros.
        for step in 0..400 {
            let row = Rows::new(&cells, d).expect("as many cells as columns");
            if self.design.write_unclipped(&row, 0, out, m, None).is_ok()
                && out.iter().all(|v| v.is_finite())
            {
                return replaced;
            }
            replaced = true;
            let factor = if step < 350 { 1.0 / 64.0 } else { 0.0 };
            cells.iter_mut().for_each(|v| *v *= factor);
        }
        out.fill(0.0);
        if self.design.intercept() {
            out[0] = 1.0;
        }
        true
    }

    fn add_row(&self, x: &mut [f64], y: &mut [f64], sums: &mut [Vec<i128>]) -> Scaled {
        let long_x = self.bounds.clip_x(&mut x[usize::from(self.design.intercept())..]);
        let long_y = self.bounds.clip_y(y);
        add_square(x, self.pieces[XX].fine(), &mut sums[XX]);
        let step = self.pieces[XY].fine();
        for (i, a) in x.iter().enumerate() {
            for (k, b) in y.iter().enumerate() {
                sums[XY][i * y.len() + k] += cut(a * b, step);
            }
        }
        for (k, v) in y.iter().enumerate() {
            sums[YY][k] += cut(v * v, self.pieces[YY].fine());
        }
        if !self.design.intercept() {
            sums[COUNT][0] += cut(1.0, self.pieces[COUNT].fine());
            for (k, v) in y.iter().enumerate() {
                sums[Y][k] += cut(*v, self.pieces[Y].fine());
            }
        }
        if long_x || long_y {
            let last = self.pieces.len() - 1;
            sums[last][0] += cut(1.0, self.pieces[last].fine());
        }
        Scaled {
            rows: 1,
            features: u64::from(long_x),
            targets: u64::from(long_y),
            either: u64::from(long_x || long_y),
            replaced: 0,
        }
    }

    fn add_row_of_class(&self, x: &mut [f64], class: usize, sums: &mut [Vec<i128>]) -> Scaled {
        let long = self.bounds.clip_x(&mut x[1..]);
        add_square(&x[1..], self.pieces[XX].fine(), &mut sums[XX]);
        for (i, v) in x.iter().enumerate() {
            sums[XY][i * self.targets + class] += cut(*v, self.pieces[XY].fine());
        }
        if long {
            let last = self.pieces.len() - 1;
            sums[last][0] += cut(1.0, self.pieces[last].fine());
        }
        let long = u64::from(long);
        Scaled { rows: 1, features: long, either: long, ..Scaled::default() }
    }

    /// The sums of both, to the last bit those of all rows in one place. For a server that is trusted with sums and adds
    /// noise once.
    ///
    /// # Errors
    /// When design, targets or bounds differ, and when both together have more rows than the guarantee covers.
    pub fn merge(&self, other: &Clipped) -> Result<Clipped> {
        self.check_rows(self.scaled.rows.saturating_add(other.scaled.rows))?;
        let shape = |sums: &Clipped| (sums.targets, sums.bounds, sums.form);
        if self.design != other.design || shape(self) != shape(other) {
            return Err(Error::Mismatch {
                what: "design, targets or bounds",
                left: format!("{} × {}, {:?}", self.design.width(), self.targets, self.bounds),
                right: format!("{} × {}, {:?}", other.design.width(), other.targets, other.bounds),
            });
        }
        let mut both = self.clone();
        for (mine, theirs) in both.sums.iter_mut().zip(&other.sums) {
            mine.iter_mut().zip(theirs).for_each(|(a, b)| *a += b);
        }
        both.scaled += other.scaled;
        Ok(both)
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// How many values are predicted.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// The bounds.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// How many rows the bounds have scaled down. Not private.
    pub fn scaled(&self) -> Scaled {
        self.scaled
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    pub(super) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The sums on the noise's grid, `λ_min` among them.
    pub(super) fn rounded(&self) -> Result<Vec<Vec<i128>>> {
        let mut all = self.rounded_sums();
        if self.form == Form::Values {
            all[LEAST] = vec![(self.least()? / self.pieces[LEAST].step).round() as i128];
        }
        Ok(all)
    }

    /// The sums alone on the noise's grid.
    pub(super) fn rounded_sums(&self) -> Vec<Vec<i128>> {
        let fine = i128::from(FINE);
        let nearest = |v: &i128| (v + fine / 2).div_euclid(fine);
        self.sums.iter().map(|sums| sums.iter().map(nearest).collect()).collect()
    }

    /// `λ_min(XᵀX)`.
    fn least(&self) -> Result<f64> {
        let m = self.design.width();
        let step = self.pieces[XX].fine();
        let gram = symmetric(m, self.sums[XX].iter().map(|v| *v as f64 * step));
        let values = gram.self_adjoint_eigenvalues(Side::Lower).map_err(stuck)?;
        Ok(values.into_iter().fold(f64::INFINITY, f64::min).max(0.0))
    }

    /// What noise is added to, and the declared sensitivity, by name. For tests alone: these numbers are not private.
    ///
    /// # Errors
    /// When eigenvalues do not converge.
    #[cfg(feature = "seeded-noise")]
    pub fn before_noise(&self) -> Result<Vec<(&'static str, Vec<f64>, f64)>> {
        let rounded = self.rounded()?;
        let list = self.pieces.iter().zip(rounded).map(|(piece, sums)| {
            let numbers = sums.iter().map(|v| *v as f64 * piece.step).collect();
            (piece.name, numbers, piece.sensitivity)
        });
        Ok(list.collect())
    }
}

/// Towards zero: a contribution cut off is never longer than it was.
fn cut(value: f64, step: f64) -> i128 {
    i128::from((value / step) as i64)
}

/// Adds `xxᵀ` in orthonormal coordinates.
fn add_square(x: &[f64], step: f64, sums: &mut [i128]) {
    let mut cells = sums.iter_mut();
    for i in 0..x.len() {
        for j in i..x.len() {
            let factor = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
            *cells.next().expect("a triangle") += cut(factor * x[i] * x[j], step);
        }
    }
}

/// Columns and targets there must be, and a design that clips as the bounds say.
fn check_shape(design: &Design, targets: usize, bounds: Bounds) -> Result<()> {
    if design.width() == 0 || targets == 0 {
        return Err(Error::Empty { what: "the list of columns or targets" });
    }
    if design.clip().is_some_and(|clip| clip.to_bits() != bounds.x().to_bits()) {
        return Err(Error::Mismatch {
            what: "the bound on features",
            left: format!("{:?} in the design", design.clip()),
            right: format!("{} here", bounds.x()),
        });
    }
    Ok(())
}

/// The matrix of coordinates: the diagonal, and `√2` times what is above it.
pub(super) fn symmetric(m: usize, coordinates: impl Iterator<Item = f64>) -> Mat<f64> {
    let mut coordinates = coordinates;
    let mut gram = Mat::zeros(m, m);
    for i in 0..m {
        for j in i..m {
            let value = coordinates.next().expect("a triangle");
            let value = if i == j { value } else { value * std::f64::consts::FRAC_1_SQRT_2 };
            gram[(i, j)] = value;
            gram[(j, i)] = value;
        }
    }
    gram
}

pub(super) fn stuck(_: impl Sized) -> Error {
    Error::Unsupported {
        operation: "the private release",
        reason: "the eigenvalues of the sums do not converge".to_owned(),
    }
}
