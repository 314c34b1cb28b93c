//! The columns of a matrix, shared by threads.

use faer::{Mat, MatMut};

use super::parallel::share;

/// Columns that one thread makes at once.
const TILE: usize = 32;

/// Some neighbouring columns after the other, `size` at a time, the last ones fewer.
pub(crate) fn column_tiles(matrix: MatMut<'_, f64>, size: usize) -> Vec<MatMut<'_, f64>> {
    let mut tiles = Vec::with_capacity(matrix.ncols().div_ceil(size));
    let mut rest = matrix;
    while rest.ncols() > size {
        let (tile, after) = rest.split_at_col_mut(size);
        tiles.push(tile);
        rest = after;
    }
    tiles.push(rest);
    tiles
}

/// A matrix made cell by cell.
pub(crate) fn matrix_of(
    rows: usize,
    columns: usize,
    cell: impl Fn(usize, usize) -> f64 + Sync,
) -> Mat<f64> {
    let mut matrix = Mat::zeros(rows, columns);
    let tiles = column_tiles(matrix.as_mut(), TILE).into_iter().enumerate().collect();
    share(rows * columns, tiles, |(at, mut tile): (usize, MatMut<'_, f64>)| {
        for j in 0..tile.ncols() {
            for (i, v) in tile.as_mut().col_mut(j).iter_mut().enumerate() {
                *v = cell(i, at * TILE + j);
            }
        }
    });
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::with_threads;

    #[test]
    fn every_cell_is_made_once_on_any_number_of_threads() {
        for (rows, columns) in [(0, 0), (3, 0), (1, 1), (5, TILE), (400, 3 * TILE + 1)] {
            let expected = Mat::from_fn(rows, columns, |i, j| (i * 1000 + j) as f64);
            for threads in [1, 3] {
                let cell = |i: usize, j: usize| (i * 1000 + j) as f64;
                assert_eq!(with_threads(threads, || matrix_of(rows, columns, cell)), expected);
            }
        }
    }
}
