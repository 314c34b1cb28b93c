//! What a random map is, and products in single precision.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

/// Rows mapped by one thread at a time; fixed, so that bits do not depend on the number of threads.
const PIECE: usize = 128;

/// From inputs to features, row by row.
pub trait FeatureMap: Send + Sync {
    /// What to call it.
    fn name(&self) -> String;

    /// Numbers in a row of inputs.
    fn inputs(&self) -> usize;

    /// Features.
    fn width(&self) -> usize;

    /// Writes the features of `rows` rows, row after row.
    fn write(&self, x: &[f32], rows: usize, out: &mut [f32]);
}

/// The features of `rows` rows after a column of ones, row after row.
pub(super) fn with_intercept(
    map: &dyn FeatureMap,
    x: &[f32],
    rows: usize,
    threads: usize,
) -> Vec<f32> {
    let (d, stride) = (map.inputs(), map.width() + 1);
    let mut out = vec![1.0; rows * stride];
    let pieces: Vec<(&[f32], &mut [f32])> =
        x.chunks(PIECE * d).zip(out.chunks_mut(PIECE * stride)).collect();
    let write = |(x, out): (&[f32], &mut [f32])| {
        let mut features = vec![0.0; x.len() / d * (stride - 1)];
        map.write(x, x.len() / d, &mut features);
        for (row, values) in out.chunks_exact_mut(stride).zip(features.chunks_exact(stride - 1)) {
            row[1..].copy_from_slice(values);
        }
    };
    if threads <= 1 {
        pieces.into_iter().for_each(write);
        return out;
    }
    let mut hands: Vec<Vec<(&[f32], &mut [f32])>> = (0..threads).map(|_| Vec::new()).collect();
    for (i, piece) in pieces.into_iter().enumerate() {
        hands[i % threads].push(piece);
    }
    std::thread::scope(|scope| {
        for hand in hands {
            scope.spawn(|| hand.into_iter().for_each(write));
        }
    });
    out
}

/// `out = a · b`, all row-major; `a` has `rows` rows.
pub(super) fn product(a: &[f32], b: &[f32], rows: usize, out: &mut [f32]) {
    let inner = a.len() / rows;
    let columns = b.len() / inner;
    matmul(
        MatMut::from_row_major_slice_mut(out, rows, columns),
        Accum::Replace,
        MatRef::from_row_major_slice(a, rows, inner),
        MatRef::from_row_major_slice(b, inner, columns),
        1.0,
        Par::Seq,
    );
}
