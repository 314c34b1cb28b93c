//! What log-loss asks of rows, and what rows answer.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use faer::{Mat, MatMut};

use super::Curvature;
use super::curvature::logistic;
use super::data::{Data, add_gram, add_outer, predictors, sum};
use super::evaluate::{State, softmax};
use crate::basis::Design;
use crate::error::Result;
use crate::problem::pass::{Block, Partial, RowWork, Scratch};
use crate::problem::squared::expected;
use crate::problem::task::TaskSummary;
use crate::rows::{Rows, Targets};
use crate::summary::{Accumulator, Summarizer, Summary};
use crate::theta::Theta;

/// Classes up to which a block of curvature is made of all rows. Of more classes, at most one row in so many enters a block by itself.
const WHOLE_BLOCKS: usize = 32;
/// What may be left of a block of curvature when no further row enters it by itself, as a share of it.
const NEARLY_ALL: f64 = 1e-3;
/// Rows of a class gathered for one product.
const GATHERED: usize = 256;
/// A row this sure that still moves on is one the parameters run away from.
const SURE: f64 = 1e-5;

/// A question about the log-loss of rows.
#[derive(Debug, Clone)]
#[doc(hidden)] // a part of `Pass`
pub struct LogisticPass {
    /// The classes that are told apart; rows of others are left out.
    pub(in crate::problem) classes: Arc<[String]>,
    /// Parameters and steps at which rows were left out that the parameters run away from.
    pub(in crate::problem) left_out: Arc<[(Theta, Theta)]>,
    pub(in crate::problem) question: Question,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(in crate::problem) enum Question {
    /// `Σ w |x_j|` of every column.
    Sizes,
    /// Loss, number of rows that are not strictly on their own side, gradient.
    Evaluate(Theta),
    /// The whole curvature, `pm × pm`, lower triangle.
    Curvature(Theta),
    /// One `m × m` matrix that stands for the curvature of all classes.
    SharedCurvature(Theta),
    /// The diagonal blocks of the curvature, one for each class, about.
    ClassCurvatures(Theta),
    /// The curvature at parameters times a direction.
    Multiply(Theta, Theta),
    /// The root of a curvature that bounds or approximates the loss; loss and gradient with it.
    Expand(Theta, Curvature),
    /// A lower bound of the least loss from parameters and a step.
    Certify(Theta, Theta),
}

/// What the blocks of curvature of all classes cost, in blocks of all rows.
pub(super) fn cost_of_blocks(classes: usize) -> usize {
    if classes <= WHOLE_BLOCKS { classes } else { classes.div_ceil(WHOLE_BLOCKS) }
}

/// What runs the passes of log-loss over the rows of a task.
pub(super) trait RunLogistic {
    fn run(&mut self, pass: &LogisticPass) -> Result<Partial>;
}

/// Parameters as a matrix.
pub(super) fn matrix(theta: &Theta) -> Mat<f64> {
    Mat::from_fn(theta.width(), theta.targets(), |j, k| theta.column(k)[j])
}

/// Numbers of a matrix, column by column.
pub(super) fn numbers(matrix: &Mat<f64>) -> impl Iterator<Item = f64> {
    (0..matrix.ncols()).flat_map(move |k| (0..matrix.nrows()).map(move |j| matrix[(j, k)]))
}

/// The way back.
pub(super) fn from_numbers(list: &[f64], rows: usize, columns: usize) -> Mat<f64> {
    Mat::from_fn(rows, columns, |j, k| list[k * rows + j])
}

/// Answers a pass over the blocks it is given.
pub(super) struct LogisticWork {
    pass: LogisticPass,
    m: usize,
    done: Option<Partial>,
}

impl LogisticWork {
    pub(super) fn new(pass: LogisticPass, m: usize) -> Self {
        Self { pass, m, done: None }
    }
}

impl RowWork for LogisticWork {
    fn add(&mut self, block: Block<'_>) -> Result<()> {
        let Targets::Classes { codes, names } = block.rows.y else {
            return Err(expected("labels", "classes"));
        };
        let classes = &self.pass.classes;
        let place = |name: &String| classes.iter().position(|c| c == name);
        let class_of = names.iter().map(|n| place(n).unwrap_or(0) as u32).collect();
        let data = Data::new(
            block.cells,
            self.m,
            (codes, class_of),
            block.rows.weights,
            classes.len(),
            (block.first as usize, block.threads),
        );
        let answer = data.answer(&self.pass, block.scratch)?;
        self.done = Some(match self.done.take() {
            Some(before) => before.merge(answer)?,
            None => answer,
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.done.ok_or(crate::error::Error::Empty { what: "the task" })
    }
}

impl Data<'_> {
    /// The answer of these rows. `scratch` keeps probabilities at the last parameters, where the rows are all of the task's.
    pub(super) fn answer(
        mut self,
        pass: &LogisticPass,
        mut scratch: Option<&mut Scratch>,
    ) -> Result<Partial> {
        self.leave_out(&pass.left_out, scratch.as_deref_mut());
        let sums = match &pass.question {
            Question::Sizes => self.sizes(),
            Question::Evaluate(theta) => {
                let state = self.at(&matrix(theta));
                let mut sums = vec![state.value, state.misses];
                sums.extend(numbers(&state.gradient));
                if let Some(scratch) = scratch {
                    scratch.theta = Some(theta.clone());
                    scratch.rows = state.spread;
                }
                sums
            }
            Question::Curvature(theta) => {
                numbers(&self.hessian(&self.spread(theta, scratch))).collect()
            }
            Question::SharedCurvature(theta) => {
                let (spread, p) = (self.spread(theta, scratch), self.p);
                let h = self.gram(|i| {
                    self.weight(i)
                        * if p == 1 {
                            spread[i]
                        } else {
                            Curvature::Hessian.softmax(&spread[i * p..(i + 1) * p], 0.0, i)
                        }
                });
                numbers(&h).collect()
            }
            Question::ClassCurvatures(theta) => {
                let spread = self.spread(theta, scratch);
                let total: f64 = (0..self.len()).map(|i| self.weight(i)).sum();
                let mut mean = self.gram(|i| self.weight(i));
                mean *= faer::Scale(if total > 0.0 { 1.0 / total } else { 0.0 });
                let jobs = (0..self.p).step_by(self.classes_at_once()).collect();
                self.parallel(jobs, true, |from| self.class_blocks(&spread, from, &mean)).concat()
            }
            Question::Multiply(theta, d) => {
                let spread = self.spread(theta, scratch);
                numbers(&self.multiply(&spread, &matrix(d))).collect()
            }
            Question::Expand(theta, curvature) => return self.expand(&matrix(theta), *curvature),
            Question::Certify(theta, d) => {
                let certificate = self.certify(&matrix(theta), &matrix(d));
                let count = |flags: &[f64]| flags.iter().sum::<f64>();
                vec![certificate.outside, certificate.entropy, count(&certificate.runaway)]
            }
        };
        Ok(Partial { sums, ..Partial::default() })
    }

    /// Gives rows no weight that the parameters were found to run away from.
    fn leave_out(&mut self, left_out: &[(Theta, Theta)], mut scratch: Option<&mut Scratch>) {
        if left_out.is_empty() {
            return;
        }
        let known = scratch.as_ref().map_or(0, |s| s.left_out.min(left_out.len()));
        if let (Some(scratch), 1..) = (&scratch, known) {
            self.weights = Some(scratch.weights.clone().into());
        }
        for (theta, d) in &left_out[known..] {
            let runaway = self.certify(&matrix(theta), &matrix(d)).runaway;
            let left = |i: usize| if runaway[i] > 0.0 { 0.0 } else { self.weight(i) };
            let weights: Vec<f64> = (0..self.len()).map(left).collect();
            self.weights = Some(weights.into());
        }
        if let Some(scratch) = &mut scratch {
            scratch.left_out = left_out.len();
            scratch.weights = self.weights.as_deref().unwrap_or_default().to_vec();
        }
    }

    /// Two classes: `p(1 − p)` of every row. More: all probabilities, row after row.
    fn spread<'s>(&self, theta: &Theta, scratch: Option<&'s mut Scratch>) -> Cow<'s, [f64]> {
        let Some(scratch) = scratch else { return Cow::Owned(self.at(&matrix(theta)).spread) };
        if scratch.theta.as_ref() != Some(theta) {
            scratch.rows = self.at(&matrix(theta)).spread;
            scratch.theta = Some(theta.clone());
        }
        Cow::Borrowed(&scratch.rows)
    }

    /// The whole curvature, `pm × pm`, lower triangle. Cost: `n m² p(p+1)/2` flops.
    fn hessian(&self, spread: &[f64]) -> Mat<f64> {
        let (m, p) = (self.m, self.p);
        if p == 1 {
            return self.gram(|i| self.weight(i) * spread[i]);
        }
        sum(
            self.each_chunk(|chunk| {
                let mut part = Mat::<f64>::zeros(p * m, p * m);
                let mut scratch = Vec::new();
                for span in self.blocks(chunk) {
                    let x = self.cells(&span);
                    for k in 0..p {
                        for l in 0..=k {
                            let v = |b: usize| {
                                let row = &spread[(span.start + b) * p..(span.start + b + 1) * p];
                                let same = if k == l { 1.0 } else { 0.0 };
                                self.weight(span.start + b) * row[k] * (same - row[l])
                            };
                            let block = part.as_mut().submatrix_mut(k * m, l * m, m, m);
                            add_gram(block, x, &mut scratch, v);
                        }
                    }
                }
                part
            }),
            (p * m, p * m),
        )
    }

    /// Diagonal blocks of the curvature, for a preconditioner: one after another for classes `from..`.
    ///
    /// With many classes nearly all rows have next to no share in each. Only rows of the largest shares enter a block by themselves;
    /// the others are taken to be spread like `mean`, the mean of `x xᵀ` over all rows.
    /// Cost: at most `n m² p` flops over [`WHOLE_BLOCKS`] for many classes, and `2 n p` comparisons.
    fn class_blocks(&self, spread: &[f64], from: usize, mean: &Mat<f64>) -> Vec<f64> {
        let (m, p) = (self.m, self.p);
        let classes = from..p.min(from + self.classes_at_once());
        let limits = self.small_shares(spread, &classes);
        let mut blocks = vec![0.0; classes.len() * m * m];
        let (mut rest, mut rows) = (vec![0.0; classes.len()], vec![Vec::new(); classes.len()]);
        let mut scratch = Vec::new();
        let mut flush = |block: &mut [f64], rows: &mut Vec<f64>| {
            add_gram(MatMut::from_column_major_slice_mut(block, m, m), rows, &mut scratch, |_| 1.0);
            rows.clear();
        };
        let all = self.all_cells().chunks_exact(m).zip(spread.chunks_exact(p));
        for (i, (x, shares)) in all.enumerate() {
            for (k, share) in shares[classes.clone()].iter().enumerate() {
                let v = self.weight(i) * share * (1.0 - share);
                if *share < limits[k] {
                    rest[k] += v;
                    continue;
                }
                let root = v.sqrt();
                rows[k].extend(x.iter().map(|x| root * x));
                if rows[k].len() == GATHERED * m {
                    flush(&mut blocks[k * m * m..(k + 1) * m * m], &mut rows[k]);
                }
            }
        }
        for (k, block) in blocks.chunks_exact_mut(m * m).enumerate() {
            flush(block, &mut rows[k]);
            for (v, mean) in block.iter_mut().zip(numbers(mean)) {
                *v += rest[k] * mean;
            }
        }
        blocks
    }

    /// Classes whose blocks are made together: their shares of a row lie in one cache line. Few classes are one job each.
    fn classes_at_once(&self) -> usize {
        if self.p <= WHOLE_BLOCKS { 1 } else { 8 }
    }

    /// For each class the share below which rows enter its block of curvature by their sum alone: a power of two that leaves out next
    /// to nothing, or as little as one row in [`WHOLE_BLOCKS`] can.
    fn small_shares(&self, spread: &[f64], classes: &Range<usize>) -> Vec<f64> {
        const BINS: usize = 64;
        if self.p <= WHOLE_BLOCKS {
            return vec![0.0; classes.len()];
        }
        // Rows, and their sum of curvatures, by the power of two below their share.
        let mut bins = vec![[(0_usize, 0.0); BINS]; classes.len()];
        for (i, shares) in spread.chunks_exact(self.p).enumerate() {
            for (bins, share) in bins.iter_mut().zip(&shares[classes.clone()]) {
                let exponent = (share.to_bits() >> 52) as usize;
                let power = 1023_usize.saturating_sub(exponent).min(BINS - 1);
                let (count, sum) = &mut bins[power];
                *count += 1;
                *sum += self.weight(i) * share * (1.0 - share);
            }
        }
        let limit = |bins: &[(usize, f64); BINS]| {
            let mut rest: f64 = bins.iter().map(|(_, sum)| sum).sum();
            let (mut rows, enough) = (0, NEARLY_ALL * rest);
            let mut limit = 2.0;
            for (count, sum) in bins {
                rows += count;
                if rest <= enough || rows > self.len() / WHOLE_BLOCKS {
                    break;
                }
                rest -= sum;
                limit /= 2.0;
            }
            limit
        };
        bins.iter().map(limit).collect()
    }

    /// The curvature times `d`, without forming it. Cost: `4 n m p` flops.
    fn multiply(&self, spread: &[f64], d: &Mat<f64>) -> Mat<f64> {
        let p = self.p;
        sum(
            self.each_chunk(|chunk| {
                let mut part = Mat::<f64>::zeros(self.m, p);
                let mut a = Vec::new();
                for span in self.blocks(chunk) {
                    let x = self.rows(&span);
                    a.resize(span.len() * p, 0.0);
                    predictors(x, d, &mut a);
                    let spread = &spread[span.start * p..span.end * p];
                    let rows = a.chunks_exact_mut(p).zip(spread.chunks_exact(p));
                    for (i, (a, s)) in span.clone().zip(rows) {
                        let w = self.weight(i);
                        if p == 1 {
                            a[0] *= w * s[0];
                        } else {
                            let mean: f64 = a.iter().zip(s).map(|(a, s)| a * s).sum();
                            a.iter_mut().zip(s).for_each(|(a, s)| *a = w * s * (*a - mean));
                        }
                    }
                    add_outer(&mut part, x, &a);
                }
                part
            }),
            (self.m, p),
        )
    }

    /// Loss and gradient at an anchor, and a root of the curvature there: as a summary, or for a diagonal one its squares.
    fn expand(&self, theta: &Mat<f64>, curvature: Curvature) -> Result<Partial> {
        let weights = self.curvatures(theta, curvature);
        let state: State = self.at(theta);
        let mut sums = vec![state.value];
        sums.extend(numbers(&state.gradient));
        let mut tasks = Vec::new();
        match curvature {
            Curvature::Diagonal => sums.extend(numbers(&self.gram(|i| weights[i]))),
            Curvature::Fisher { .. } => sums.extend(self.column_squares(&weights)),
            _ => tasks.push(TaskSummary::exact(self.factor(&weights)?, None)),
        }
        Ok(Partial { tasks, sums, ..Partial::default() })
    }

    /// `w_i c_i` of every row.
    fn curvatures(&self, theta: &Mat<f64>, curvature: Curvature) -> Vec<f64> {
        let (p, first) = (self.p, self.first);
        let mut weights = vec![0.0; self.len()];
        self.each_chunk_with(&mut weights, 1, |chunk, weights| {
            let start = chunk.start;
            let (mut eta, mut shares) = (Vec::new(), Vec::new());
            for span in self.blocks(chunk) {
                eta.resize(span.len() * p, 0.0);
                shares.resize(span.len() * p, 0.0);
                predictors(self.rows(&span), theta, &mut eta);
                let weights = &mut weights[span.start - start..span.end - start];
                if p == 1 {
                    for ((i, eta), weight) in span.zip(&eta).zip(weights) {
                        *weight = self.weight(i) * curvature.binary(*eta, first + i);
                    }
                    continue;
                }
                // logit of the largest probability: −log of the sum of the others over it.
                softmax(&eta, p, &mut shares, |b, _, others| weights[b] = -others.ln());
                let rows = eta.chunks_exact(p).zip(shares.chunks_exact(p));
                for ((i, (eta, shares)), weight) in span.zip(rows).zip(weights) {
                    let xi = if weight.is_finite() { *weight } else { gap(eta) };
                    *weight = self.weight(i) * curvature.softmax(shares, xi, first + i);
                }
            }
        });
        weights
    }

    /// `R` with `RᵀR = Σ w c x xᵀ`, by QR.
    fn factor(&self, weights: &[f64]) -> Result<Summary> {
        let design = Design::linear(self.m, false)?;
        let mut summarizer = Summarizer::new(design, 1, Accumulator::Qr)?.threads(self.threads());
        let zeros = vec![0.0; weights.len()];
        let x = Rows::new(self.all_cells(), self.m)?;
        summarizer.add(x, Rows::new(&zeros, 1)?, Some(weights))?;
        summarizer.finish()
    }

    /// `Σ_i v_i x_ij²` of every column.
    fn column_squares(&self, weights: &[f64]) -> Vec<f64> {
        let m = self.m;
        let parts = self.each_chunk(|chunk| {
            let mut part = vec![0.0; m];
            for (i, row) in chunk.clone().zip(self.cells(&chunk).chunks_exact(m)) {
                part.iter_mut().zip(row).for_each(|(s, x)| *s += weights[i] * x * x);
            }
            part
        });
        (0..m).map(|j| parts.iter().map(|part| part[j]).sum()).collect()
    }

    /// Entropies of the rows' class shares moved along a step; see [`super::least`].
    fn certify(&self, theta: &Mat<f64>, d: &Mat<f64>) -> Certificate {
        let p = self.p;
        let mut runaway = vec![0.0; self.len()];
        let parts = self.each_chunk_with(&mut runaway, 1, |chunk, runaway| {
            let (mut outside, mut entropy) = (0.0, 0.0);
            let (mut eta, mut a, mut shares) = (Vec::new(), Vec::new(), Vec::new());
            let start = chunk.start;
            for span in self.blocks(chunk) {
                eta.resize(span.len() * p, 0.0);
                a.resize(span.len() * p, 0.0);
                shares.resize(span.len() * p, 0.0);
                predictors(self.rows(&span), theta, &mut eta);
                predictors(self.rows(&span), d, &mut a);
                if p > 1 {
                    softmax(&eta, p, &mut shares, |_, _, _| ());
                }
                let rows = eta.chunks_exact(p).zip(a.chunks_exact(p)).zip(shares.chunks_exact(p));
                for (i, ((eta, a), shares)) in span.zip(rows) {
                    let w = self.weight(i);
                    if w == 0.0 {
                        continue;
                    }
                    let y = self.label(i);
                    let row = if p == 1 {
                        let shares = [logistic(-eta[0]), logistic(eta[0])];
                        moved(&[0.0, eta[0]], &shares, &[0.0, a[0]], y)
                    } else {
                        moved(eta, shares, a, y)
                    };
                    outside += f64::from(u8::from(!row.feasible));
                    entropy += w * row.entropy;
                    runaway[i - start] = f64::from(u8::from(row.runaway));
                }
            }
            (outside, entropy)
        });
        Certificate {
            outside: parts.iter().map(|p| p.0).sum(),
            entropy: parts.iter().map(|p| p.1).sum(),
            runaway,
        }
    }
}

struct Certificate {
    /// Rows whose moved shares are no distribution.
    outside: f64,
    /// `Σ w H(q)`
    entropy: f64,
    /// 1 for each row the parameters run away from.
    runaway: Vec<f64>,
}

struct Moved {
    feasible: bool,
    entropy: f64,
    runaway: bool,
}

/// `q_k = p_k (1 + a_k − ā)` of one row, its entropy, and whether the parameters run away from the row.
fn moved(eta: &[f64], shares: &[f64], a: &[f64], y: usize) -> Moved {
    let top = (0..eta.len()).fold(0, |best, k| if eta[k] > eta[best] { k } else { best });
    let log = eta[top] - shares[top].ln();
    let mean: f64 = shares.iter().zip(a).map(|(p, a)| p * a).sum();
    let (mut feasible, mut entropy, mut miss, mut change) = (true, 0.0, 0.0, 0.0);
    for (k, ((e, p), a)) in eta.iter().zip(shares).zip(a).enumerate() {
        let move_of = a - mean;
        if k != y {
            miss += p;
            change += p * move_of;
        }
        if move_of > -1.0 {
            entropy -= p * (1.0 + move_of) * ((e - log) + move_of.ln_1p());
        } else {
            feasible &= *p == 0.0;
        }
    }
    Moved { feasible, entropy, runaway: miss < SURE && change < -0.5 * miss }
}

/// Distance of the two largest predictors: the logit where all other probabilities underflow.
fn gap(eta: &[f64]) -> f64 {
    let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for &e in eta {
        if e > first {
            (first, second) = (e, first);
        } else if e > second {
            second = e;
        }
    }
    first - second
}
