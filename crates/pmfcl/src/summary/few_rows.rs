//! Few rows of a wide design, whose sums of products are made when somebody asks for them.
//!
//! `n` rows take less memory than the sums of their products where `n ≤ m/2`, and twice as much at `n = m`. To add them to other sums
//! costs what making sums of their own would: those would be cleared, filled, corrected for the mean and added, at 10,000 columns a
//! third of the time of such a task. And a triangle made of the rows has all digits, where sums of fewer rows than columns are singular.

use std::sync::{Arc, OnceLock};

use crate::kernel::{self, Gram, Mixed, Plain, PlainTargets, Source, Triangle};

/// Rows that are filled at once by one thread.
const PIECE: usize = 64;

/// Steps of power iteration.
const STEPS: usize = 3;

/// Features and targets of some rows, and what is summed of them.
type Piece<'a> = ((&'a mut [f64], &'a mut [f64]), &'a mut Vec<f64>);

/// Rows about their mean: column 0, the intercept, is zero in all of them.
#[derive(Debug, Clone)]
pub(super) struct FewRows {
    m: usize,
    p: usize,
    /// Features, row-major.
    x: Arc<Vec<f64>>,
    /// Targets, row-major.
    y: Vec<f64>,
    /// The power of two that each feature is multiplied by before it is rounded, where products are made in single precision.
    units: Option<Arc<Vec<f64>>>,
    /// Added to the sum of squares of each feature, as a share of it.
    lift: f64,
    /// Sums of squares of features and of targets, before the lift.
    squares: Vec<f64>,
    made: OnceLock<Gram>,
}

impl FewRows {
    /// Rows of `source` about their mean, and their means: `source` has `m` features, the first of which is 1, and `p` targets, less
    /// `shift`.
    pub(super) fn of(
        source: &impl Source,
        (m, p): (usize, usize),
        shift: &[f64],
        single: Option<(Vec<f64>, f64)>,
    ) -> (Self, Vec<f64>) {
        let (n, width) = (source.rows(), m + p);
        let (mut x, mut y) = (kernel::zeros(n * m), vec![0.0; n * p]);
        let mut sums = vec![vec![0.0; width]; n.div_ceil(PIECE)];
        let pieces = x.chunks_mut(PIECE * m).zip(y.chunks_mut(PIECE * p)).zip(&mut sums);
        kernel::each(pieces.enumerate().collect(), |(at, ((x, y), sum)): (usize, Piece<'_>)| {
            let mut cells = vec![0.0; x.len() / m * width];
            source.fill(at * PIECE, &mut cells);
            let rows = x.chunks_exact_mut(m).zip(y.chunks_exact_mut(p));
            for (row, (x, y)) in cells.chunks_exact(width).zip(rows) {
                sum.iter_mut().zip(row).for_each(|(sum, v)| *sum += v);
                x.copy_from_slice(&row[..m]);
                y.copy_from_slice(&row[m..]);
            }
        });
        let mut mean = vec![0.0; width];
        for sum in &mut sums {
            mean.iter_mut().zip(&mut *sum).for_each(|(mean, v)| *mean += *v / n as f64);
            sum.fill(0.0);
        }
        // The intercept is 1 in all rows.
        mean[0] = 1.0;
        let mut squares = sums;
        let pieces = x.chunks_mut(PIECE * m).zip(y.chunks_mut(PIECE * p)).zip(&mut squares);
        kernel::each(pieces.collect(), |((x, y), square): Piece<'_>| {
            for (x, y) in x.chunks_exact_mut(m).zip(y.chunks_exact_mut(p)) {
                let cells = x.iter_mut().chain(y);
                for ((v, square), mean) in cells.zip(&mut *square).zip(&mean) {
                    *v -= mean;
                    *square += *v * *v;
                }
            }
        });
        let mut total = vec![0.0; width];
        for square in squares {
            total.iter_mut().zip(square).for_each(|(sum, v)| *sum += v);
        }
        mean.iter_mut().zip(shift).for_each(|(mean, shift)| *mean += shift);
        let (units, lift) = match single {
            Some((units, lift)) => (Some(Arc::new(units)), lift),
            None => (None, 0.0),
        };
        let x = Arc::new(x);
        (Self { m, p, x, y, units, lift, squares: total, made: OnceLock::new() }, mean)
    }

    /// Number of rows.
    pub(super) fn len(&self) -> usize {
        self.x.len() / self.m
    }

    /// Features and targets.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.m, self.p)
    }

    /// The sum of squares of feature `j`.
    pub(super) fn xx(&self, j: usize) -> f64 {
        self.squares[j] * (1.0 + self.lift)
    }

    /// The sum of squares of target `k`.
    pub(super) fn yy(&self, k: usize) -> f64 {
        self.squares[self.m + k]
    }

    /// The sums of products, made once.
    pub(super) fn gram(&self) -> &Gram {
        self.made.get_or_init(|| {
            let mut gram = Gram::new(self.m, self.p);
            self.add_to(&mut gram, 1.0);
            gram
        })
    }

    /// The triangle of these rows and of `first` above them: no digit is lost to products.
    pub(super) fn triangle(&self, first: &[f64]) -> Triangle {
        let stacked = Stacked { first, rows: Scaled { rows: self, root: 1.0 } };
        kernel::factor(self.m, self.p, &stacked, 0..stacked.rows())
    }

    /// Adds the sums of products, times `factor`, to others.
    pub(super) fn add_to(&self, gram: &mut Gram, factor: f64) {
        if let Some(made) = self.made.get() {
            return gram.add_scaled(made, factor);
        }
        let scaled = Scaled { rows: self, root: factor.sqrt() };
        match &self.units {
            Some(units) => Mixed { units }.add(gram, &scaled, 0..self.len()),
            None => gram.add(&scaled, 0..self.len()),
        }
        if self.lift > 0.0 {
            for j in 1..self.m {
                gram.raise(j, factor * self.lift * self.squares[j]);
            }
        }
    }

    /// The largest eigenvalue of the products with features scaled to unit length, about: by power iteration from a fixed start, which
    /// never finds more than there is and rarely less than half.
    pub(super) fn largest(&self) -> f64 {
        let inverse = |square: &f64| if *square > 0.0 { 1.0 / square.sqrt() } else { 0.0 };
        let scale: Vec<f64> = self.squares[..self.m].iter().map(inverse).collect();
        let scrambled = |j: usize| {
            let bits = (j as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            (0.5 + bits as f64 / f64::from(1 << 24)) * if j.is_multiple_of(2) { 1.0 } else { -1.0 }
        };
        let mut v: Vec<f64> = (0..self.m).map(scrambled).collect();
        let mut length = super::dot(&v, &v).sqrt();
        for _ in 0..STEPS {
            let scaled: Vec<f64> = v.iter().zip(&scale).map(|(v, s)| v / length * s).collect();
            let mut parts = vec![Vec::new(); self.len().div_ceil(PIECE)];
            let pieces = self.x.chunks(PIECE * self.m).zip(&mut parts).collect();
            kernel::each(pieces, |(rows, part): (&[f64], &mut Vec<f64>)| {
                part.resize(self.m, 0.0);
                kernel::add_applied(rows, &scaled, part);
            });
            v.fill(0.0);
            for part in &parts {
                v.iter_mut().zip(part).for_each(|(sum, v)| *sum += v);
            }
            v.iter_mut().zip(&scale).for_each(|(v, s)| *v *= s);
            length = super::dot(&v, &v).sqrt();
            if length <= 0.0 {
                break;
            }
        }
        length
    }

    /// `Σ (y_k − xᵀθ)²` of target `k`, and what the lift adds.
    pub(super) fn squared_errors(&self, k: usize, theta: &[f64]) -> f64 {
        let rows = self.x.chunks_exact(self.m).zip(self.y.chunks_exact(self.p));
        let errors: f64 = rows.map(|(x, y)| (y[k] - super::dot(x, theta)).powi(2)).sum();
        let lifted = self.squares.iter().zip(theta).map(|(s, v)| s * v * v).sum::<f64>();
        errors + self.lift * lifted
    }

    /// The same with other targets: target `k` is the `from(k)`-th of these, or zero in all rows.
    pub(super) fn with_targets(&self, count: usize, from: impl Fn(usize) -> Option<usize>) -> Self {
        let mut y = vec![0.0; self.len() * count];
        for (new, old) in y.chunks_exact_mut(count).zip(self.y.chunks_exact(self.p)) {
            for (k, v) in new.iter_mut().enumerate() {
                *v = from(k).map_or(0.0, |k| old[k]);
            }
        }
        let mut squares = self.squares[..self.m].to_vec();
        squares.extend((0..count).map(|k| from(k).map_or(0.0, |k| self.yy(k))));
        let (x, units) = (self.x.clone(), self.units.clone());
        Self { p: count, x, y, units, squares, made: OnceLock::new(), ..*self }
    }
}

/// Rows below another one.
struct Stacked<'a> {
    first: &'a [f64],
    rows: Scaled<'a>,
}

impl Source for Stacked<'_> {
    fn rows(&self) -> usize {
        1 + self.rows.rows()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        if from > 0 {
            return self.rows.fill(from - 1, out);
        }
        let (first, rest) = out.split_at_mut(self.first.len());
        first.copy_from_slice(self.first);
        self.rows.fill(0, rest);
    }
}

/// The rows times a factor.
struct Scaled<'a> {
    rows: &'a FewRows,
    root: f64,
}

impl Source for Scaled<'_> {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        let FewRows { m, p, x, y, .. } = self.rows;
        let rows = x[from * m..].chunks_exact(*m).zip(y[from * p..].chunks_exact(*p));
        for (out, (x, y)) in out.chunks_exact_mut(m + p).zip(rows) {
            out[..*m].copy_from_slice(x);
            out[*m..].copy_from_slice(y);
            if (self.root - 1.0).abs() > 0.0 {
                out.iter_mut().for_each(|v| *v *= self.root);
            }
        }
    }

    fn plain(&self) -> Option<Plain<'_>> {
        let FewRows { x, y, .. } = self.rows;
        let same = (self.root - 1.0).abs() == 0.0;
        let y = PlainTargets::Numbers(y);
        same.then_some(Plain { intercept: false, x, y, shift: &[] })
    }
}
