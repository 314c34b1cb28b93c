//! Dense kernels (plain version).
use faer::Mat;
use std::ops::Range;

pub(crate) trait Source: Sync {
    fn rows(&self) -> usize;
    fn fill(&self, from: usize, out: &mut [f64]);
}

#[derive(Debug, Clone)]
pub(crate) struct Triangle {
    pub(crate) m: usize,
    pub(crate) p: usize,
    pub(crate) rows: usize,
    pub(crate) cells: Vec<f64>,
    pub(crate) residual: Vec<f64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Gram {
    m: usize,
    p: usize,
    xx: Vec<f64>,
    xy: Vec<f64>,
    yy: Vec<f64>,
}

impl Gram {
    pub(crate) fn new(m: usize, p: usize) -> Self {
        Self { m, p, xx: vec![0.0; m * m], xy: vec![0.0; m * p], yy: vec![0.0; p] }
    }
    pub(crate) fn add(&mut self, source: &impl Source, rows: Range<usize>) {
        let w = self.m + self.p;
        let mut out = vec![0.0; rows.len() * w];
        source.fill(rows.start, &mut out);
        for r in out.chunks_exact(w) {
            for i in 0..self.m {
                for j in i..self.m {
                    self.xx[i * self.m + j] += r[i] * r[j];
                }
                for k in 0..self.p {
                    self.xy[i * self.p + k] += r[i] * r[self.m + k];
                }
            }
            for k in 0..self.p {
                self.yy[k] += r[self.m + k] * r[self.m + k];
            }
        }
    }
    pub(crate) fn merge(&mut self, o: &Gram) {
        for (a, b) in self.xx.iter_mut().zip(&o.xx) {
            *a += b;
        }
        for (a, b) in self.xy.iter_mut().zip(&o.xy) {
            *a += b;
        }
        for (a, b) in self.yy.iter_mut().zip(&o.yy) {
            *a += b;
        }
    }
    pub(crate) fn xx(&self, i: usize, j: usize) -> f64 {
        self.xx[i * self.m + j]
    }
    pub(crate) fn xy(&self, i: usize, k: usize) -> f64 {
        self.xy[i * self.p + k]
    }
    pub(crate) fn yy(&self, k: usize) -> f64 {
        self.yy[k]
    }
}

pub(crate) fn leaf_rows(m: usize) -> usize {
    (16 * m).max(2048)
}

pub(crate) fn factor(m: usize, p: usize, source: &impl Source, rows: Range<usize>) -> Triangle {
    let n = rows.len();
    let w = m + p;
    let mut out = vec![0.0; n * w];
    source.fill(rows.start, &mut out);
    let a = Mat::from_fn(n, w, |i, j| out[i * w + j]);
    triangle(m, p, &a, vec![0.0; p])
}

pub(crate) fn stack(a: &Triangle, b: &Triangle) -> Triangle {
    let (m, p) = (a.m, a.p);
    let w = m + p;
    let mat = Mat::from_fn(a.rows + b.rows, w, |i, j| {
        if i < a.rows { a.cells[i * w + j] } else { b.cells[(i - a.rows) * w + j] }
    });
    let c = a.residual.iter().zip(&b.residual).map(|(x, y)| x + y).collect();
    triangle(m, p, &mat, c)
}

fn triangle(m: usize, p: usize, a: &Mat<f64>, mut residual: Vec<f64>) -> Triangle {
    let n = a.nrows();
    let w = m + p;
    let qr = a.qr();
    let r = qr.thin_R();
    let rows = n.min(m);
    let mut cells = vec![0.0; rows * w];
    for i in 0..rows {
        let s = if r[(i, i)] < 0.0 { -1.0 } else { 1.0 };
        for j in i..w {
            cells[i * w + j] = s * r[(i, j)];
        }
    }
    for k in 0..p {
        for i in m..r.nrows().min(m + k + 1) {
            residual[k] += r[(i, m + k)].powi(2);
        }
    }
    Triangle { m, p, rows, cells, residual }
}
