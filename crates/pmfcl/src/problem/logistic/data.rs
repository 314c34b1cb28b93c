//! A block of design rows with their classes, laid out for the passes of log-loss.
//!
//! Rows are cut into chunks that depend on the shape of the block alone. A pass gives chunks to whichever thread is free and adds
//! the results up in the order of the chunks: the same bits for any number of threads.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::{Accum, Mat, MatMut, MatRef, Par};

use super::columns;

/// Partial sums of a pass; as many threads have work.
const CHUNKS: usize = 16;
/// Numbers of a block of rows that should stay in the second-level cache. No block has fewer than 256 rows: a product packs its
/// other factor once per block, and with many classes that one is large.
const BLOCK_CELLS: usize = 32 * 1024;
/// Multiplications below which threads cost more than they save.
const WORTH_THREADS: usize = 400_000;

/// Design rows, classes and weights.
#[derive(Debug, Clone)]
pub(super) struct Data<'a> {
    /// Design columns.
    pub(super) m: usize,
    /// Columns of `θ`.
    pub(super) p: usize,
    /// The code of every row.
    codes: &'a [u32],
    /// The class of every code.
    class_of: Vec<u32>,
    /// Row after row.
    x: &'a [f64],
    pub(super) weights: Option<Cow<'a, [f64]>>,
    /// The number of the first row within the task.
    pub(super) first: usize,
    block: usize,
    threads: usize,
}

impl<'a> Data<'a> {
    /// Rows of `m` design columns; `class_of[code]` is the class of a code, of `classes` in all.
    pub(super) fn new(
        x: &'a [f64],
        m: usize,
        (codes, class_of): (&'a [u32], Vec<u32>),
        weights: Option<&'a [f64]>,
        classes: usize,
        (first, threads): (usize, usize),
    ) -> Self {
        let p = columns(classes);
        Self {
            m,
            p,
            codes,
            class_of,
            x,
            weights: weights.map(Cow::Borrowed),
            first,
            block: (BLOCK_CELLS / (m + p)).clamp(256, 1024),
            threads: threads.max(1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.codes.len()
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// The class of a row.
    pub(super) fn label(&self, i: usize) -> usize {
        self.class_of[self.codes[i] as usize] as usize
    }

    pub(super) fn weight(&self, i: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |w| w[i])
    }

    /// All rows, one after another.
    pub(super) fn all_cells(&self) -> &'a [f64] {
        self.x
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
        for from in (0..n).step_by(size.max(1)) {
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
        sum(
            self.each_chunk(|chunk| {
                let mut part = Mat::<f64>::zeros(m, m);
                let mut scratch = Vec::new();
                for span in self.blocks(chunk) {
                    let v = |b: usize| v(span.start + b);
                    add_gram(part.as_mut(), self.cells(&span), &mut scratch, v);
                }
                part
            }),
            (m, m),
        )
    }

    /// `Σ_i w_i |x_ij|` of every column.
    pub(super) fn sizes(&self) -> Vec<f64> {
        let mut sizes = vec![0.0; self.m];
        for part in self.each_chunk(|chunk| {
            let mut part = vec![0.0; self.m];
            for (i, row) in chunk.clone().zip(self.cells(&chunk).chunks_exact(self.m)) {
                let w = self.weight(i);
                part.iter_mut().zip(row).for_each(|(s, x)| *s += w * x.abs());
            }
            part
        }) {
            sizes.iter_mut().zip(part).for_each(|(s, v)| *s += v);
        }
        sizes
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
pub(super) fn sum(parts: Vec<Mat<f64>>, (rows, columns): (usize, usize)) -> Mat<f64> {
    let added = parts.into_iter().reduce(|mut a, b| {
        a += b;
        a
    });
    added.unwrap_or_else(|| Mat::zeros(rows, columns))
}
