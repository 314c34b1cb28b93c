//! A thin door for measuring the kernels from outside; no part of the library's interface.

use super::{Gram, Source, Triangle, factor, leaf_rows, stack};

struct Slice<'a> {
    cells: &'a [f64],
    width: usize,
}

impl Source for Slice<'_> {
    fn rows(&self) -> usize {
        self.cells.len() / self.width
    }

    fn fill(&self, from: usize, out: &mut [f64]) {
        out.copy_from_slice(&self.cells[from * self.width..][..out.len()]);
    }
}

/// Sums of products of row-major rows: `XᵀX` row-major, only the upper half filled.
pub fn gram(cells: &[f64], m: usize, p: usize) -> Vec<f64> {
    let source = Slice { cells, width: m + p };
    let mut gram = Gram::new(m, p);
    gram.add(&source, 0..source.rows());
    let mut out = vec![0.0; m * m];
    for i in 0..m {
        for j in i..m {
            out[i * m + j] = gram.xx(i, j);
        }
    }
    out
}

/// `R` of row-major rows, `m + p` wide: leaf by leaf, joined in a tree.
pub fn triangle(cells: &[f64], m: usize, p: usize) -> Vec<f64> {
    let source = Slice { cells, width: m + p };
    let rows = source.rows();
    let mut leaves: Vec<Triangle> = (0..rows)
        .step_by(leaf_rows(m))
        .map(|from| factor(m, p, &source, from..rows.min(from + leaf_rows(m))))
        .collect();
    while leaves.len() > 1 {
        leaves = leaves
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => stack(a, b),
                _ => pair[0].clone(),
            })
            .collect();
    }
    leaves.swap_remove(0).cells
}
