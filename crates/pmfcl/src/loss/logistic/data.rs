//! The rows of one task laid out for many passes, and the passes themselves.
//!
//! Rows are cut into chunks that depend on the shape of the task alone. A pass gives chunks to whichever thread
//! is free and adds the results up in the order of the chunks: the same bits for any number of threads.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::{LabelledRows, columns};
use crate::error::{Error, Result};
use crate::summary::Design;

/// Partial sums of a pass; as many threads have work.
const CHUNKS: usize = 16;
/// Numbers of a block of rows that should stay in the second-level cache. No block has fewer than 256 rows: a
/// product packs its other factor once a block, and with many classes that one is large.
const BLOCK_CELLS: usize = 32 * 1024;
/// Multiplications below which threads cost more than they save.
const WORTH_THREADS: usize = 400_000;

/// A task's design rows, labels and weights.
#[derive(Debug, Clone)]
pub(super) struct Data<'a> {
    /// Design columns.
    pub(super) m: usize,
    /// Columns of `θ`.
    pub(super) p: usize,
    /// Σ of weights.
    pub(super) total: f64,
    pub(super) labels: Cow<'a, [u32]>,
    pub(super) classes: usize,
    /// Row after row.
    x: Cow<'a, [f64]>,
    weights: Option<Cow<'a, [f64]>>,
    block: usize,
    threads: usize,
}

impl<'a> Data<'a> {
    /// Checks a task at the door and maps its rows through the design.
    pub(super) fn new(
        design: &Design,
        task: LabelledRows<'a>,
        classes: usize,
        threads: usize,
    ) -> Result<Self> {
        check(design, &task, classes)?;
        let (m, p, n) = (design.width(), columns(classes), task.x.len());
        let plain = design.map().is_identity() && !design.intercept();
        let x = match task.x.as_f64(0, n) {
            Some(cells) if plain => Cow::Borrowed(cells),
            _ => {
                let mut cells = vec![0.0; n * m];
                if let Err(error) = design.write(&task.x, 0, &mut cells, m, None) {
                    return Err(not_finite(&task).unwrap_or(Error::Basis(error)));
                }
                Cow::Owned(cells)
            }
        };
        if let Some(at) = x.iter().position(|v| !v.is_finite()) {
            return Err(not_finite(&task).unwrap_or(Error::Overflow { column: at % m }));
        }
        Ok(Self {
            m,
            p,
            total: task.weights.map_or(n as f64, |w| w.iter().sum()),
            labels: Cow::Borrowed(task.labels),
            classes,
            x,
            weights: task.weights.map(Cow::Borrowed),
            block: (BLOCK_CELLS / (m + p)).clamp(256, 1024),
            threads: threads.max(1),
        })
    }

    /// The same rows with their labels counted among the classes that occur, and how many these are.
    pub(super) fn only_present_classes(mut self) -> (Self, usize) {
        let mut codes = vec![None; self.classes];
        for &y in self.labels.iter() {
            codes[y as usize] = Some(0);
        }
        let present = codes.iter_mut().flatten().zip(0..).map(|(code, next)| *code = next).count();
        if present < self.classes {
            let code = |y: &u32| codes[*y as usize].expect("the class occurs");
            self.labels = self.labels.iter().map(code).collect::<Vec<u32>>().into();
            self.classes = present;
            self.p = columns(present);
        }
        (self, present)
    }

    /// Gives the rows other weights, some of which may be zero.
    pub(super) fn reweigh(&mut self, weights: Vec<f64>) {
        self.weights = Some(Cow::Owned(weights));
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn weight(&self, i: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[i])
    }

    /// Rows `span`, one after another.
    pub(super) fn cells(&self, span: &Range<usize>) -> &[f64] {
        &self.x[span.start * self.m..span.end * self.m]
    }

    /// Rows `span` as a matrix.
    pub(super) fn rows(&self, span: &Range<usize>) -> MatRef<'_, f64> {
        MatRef::from_row_major_slice(self.cells(span), span.len(), self.m)
    }

    /// The blocks of a chunk.
    pub(super) fn blocks(&self, chunk: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let block = self.block;
        chunk.clone().step_by(block).map(move |from| from..(from + block).min(chunk.end))
    }

    /// Runs `work` on every chunk of rows and returns the results in order.
    pub(super) fn each_chunk<T: Send>(&self, work: impl Fn(Range<usize>) -> T + Sync) -> Vec<T> {
        self.each_chunk_with(&mut [], 0, |chunk, _| work(chunk))
    }

    /// The same with `width` numbers of `table` for every row, to write.
    pub(super) fn each_chunk_with<T: Send>(
        &self,
        table: &mut [f64],
        width: usize,
        work: impl Fn(Range<usize>, &mut [f64]) -> T + Sync,
    ) -> Vec<T> {
        let n = self.len();
        let size = n.div_ceil(self.block).div_ceil(CHUNKS) * self.block;
        let mut jobs = Vec::with_capacity(CHUNKS);
        let mut rest = table;
        for from in (0..n).step_by(size) {
            let chunk = from..(from + size).min(n);
            let (head, tail) = rest.split_at_mut(chunk.len() * width);
            jobs.push((chunk, head));
            rest = tail;
        }
        let worthwhile = n * self.m * self.p >= WORTH_THREADS;
        self.parallel(jobs, worthwhile, |(chunk, part)| work(chunk, part))
    }

    /// Runs jobs on as many threads as there are, where that is worthwhile; results in the order of the jobs.
    pub(super) fn parallel<J: Send, T: Send>(
        &self,
        jobs: Vec<J>,
        worthwhile: bool,
        work: impl Fn(J) -> T + Sync,
    ) -> Vec<T> {
        let threads = if worthwhile { self.threads.min(jobs.len()) } else { 1 };
        if threads <= 1 {
            return jobs.into_iter().map(work).collect();
        }
        let count = jobs.len();
        let queue = Mutex::new(jobs.into_iter().enumerate());
        let next = || queue.lock().expect("taking a job does not panic").next();
        let worker = || {
            let mut done = Vec::new();
            while let Some((i, job)) = next() {
                done.push((i, work(job)));
            }
            done
        };
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
            let mut finished = worker();
            for other in others {
                finished.extend(other.join().expect("a job panicked"));
            }
            for (i, result) in finished {
                results[i] = Some(result);
            }
        });
        results.into_iter().map(|r| r.expect("every job was taken")).collect()
    }

    /// `Σ_i v_i x_i x_iᵀ`, lower triangle; `v` is asked for every row. Cost: `n m²`.
    pub(super) fn gram(&self, v: impl Fn(usize) -> f64 + Sync) -> Mat<f64> {
        let m = self.m;
        sum(self.each_chunk(|chunk| {
            let mut part = Mat::<f64>::zeros(m, m);
            let mut scratch = Vec::new();
            for span in self.blocks(chunk) {
                let v = |b: usize| v(span.start + b);
                add_gram(part.as_mut(), self.cells(&span), &mut scratch, v);
            }
            part
        }))
    }
}

/// `part += Σ_b v_b x_b x_bᵀ` over the rows of a block, lower triangle.
pub(super) fn add_gram(
    part: MatMut<'_, f64>,
    x: &[f64],
    scratch: &mut Vec<f64>,
    v: impl Fn(usize) -> f64,
) {
    let m = part.ncols();
    scratch.clear();
    for (b, row) in x.chunks_exact(m).enumerate() {
        let v = v(b);
        scratch.extend(row.iter().map(|x| v * x));
    }
    triangular::matmul(
        part,
        BlockStructure::TriangularLower,
        Accum::Add,
        MatRef::from_row_major_slice(x, x.len() / m, m).transpose(),
        BlockStructure::Rectangular,
        MatRef::from_row_major_slice(scratch, x.len() / m, m),
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
}

/// `out = X Θ` for the rows of a block, row after row.
pub(super) fn predictors(x: MatRef<'_, f64>, theta: &Mat<f64>, out: &mut [f64]) {
    let out = MatMut::from_row_major_slice_mut(out, x.nrows(), theta.ncols());
    matmul(out, Accum::Replace, x, theta, 1.0, Par::Seq);
}

/// `part += Xᵀ T` for the rows of a block.
pub(super) fn add_outer(part: &mut Mat<f64>, x: MatRef<'_, f64>, t: &[f64]) {
    let t = MatRef::from_row_major_slice(t, x.nrows(), part.ncols());
    matmul(part.as_mut(), Accum::Add, x.transpose(), t, 1.0, Par::Seq);
}

/// Adds partial sums up in their order.
pub(super) fn sum(parts: Vec<Mat<f64>>) -> Mat<f64> {
    parts
        .into_iter()
        .reduce(|mut a, b| {
            a += b;
            a
        })
        .expect("a task has at least one row")
}

fn check(design: &Design, task: &LabelledRows<'_>, classes: usize) -> Result<()> {
    let shape = |what, unit, expected, found| {
        if expected == found { Ok(()) } else { Err(Error::Shape { what, unit, expected, found }) }
    };
    if classes < 2 || u32::try_from(classes).is_err() {
        return Err(Error::Range {
            what: "the number of classes",
            value: classes as f64,
            must: "at least 2, and below 2^32",
        });
    }
    if task.x.is_empty() || design.width() == 0 {
        return Err(Error::Empty { what: "the task" });
    }
    shape("the feature table", "columns", design.inputs(), task.x.width())?;
    shape("the list of labels", "rows", task.x.len(), task.labels.len())?;
    if let Some(label) = task.labels.iter().find(|&&y| y as usize >= classes) {
        return Err(Error::Range {
            what: "a class code",
            value: f64::from(*label),
            must: "below the number of classes",
        });
    }
    let Some(weights) = task.weights else { return Ok(()) };
    shape("the list of sample weights", "numbers", task.x.len(), weights.len())?;
    match weights.iter().position(|&w| !(w > 0.0 && w.is_finite())) {
        Some(i) => Err(Error::Weight {
            what: "sample weight of row",
            at: i.to_string(),
            value: weights[i],
        }),
        None => Ok(()),
    }
}

fn not_finite(task: &LabelledRows<'_>) -> Option<Error> {
    task.x.first_not_finite().map(|(row, column, value)| Error::NotFinite {
        what: "feature",
        row: row as u64,
        column,
        value,
    })
}
