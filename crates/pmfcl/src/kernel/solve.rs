//! Whitening: `X ← X R⁻¹` and `Y ← Y − X R⁻¹ Z`, one packed strip at a time.
//!
//! By substitution, never with the inverse of `R`: each row solves a system whose `R` is off by a
//! few units in the last place of its entries, whatever the condition of `R`.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::strip::{Aligned, Strip, WIDE, groups};
use super::tile;

/// Features eliminated in one go: their factors for two panels stay in the first-level cache.
const AHEAD: usize = 128;

/// `[R | Z]` laid out for [`Whitener::apply`].
pub(super) struct Whitener {
    p: usize,
    /// For each group of panels, feature panels first: for each feature, its factors. A lone target
    /// has one factor per feature.
    factors: Vec<Aligned>,
    /// `R` on the diagonal panels, with reciprocals on the diagonal.
    corners: Vec<[[f64; WIDE]; WIDE]>,
    /// The whitened features, four rows side by side: for each four rows, feature after feature.
    turned: Aligned,
}

impl Whitener {
    /// Lays out `m` rows of width `m + p`; the diagonal is positive.
    pub(super) fn new(m: usize, p: usize, cells: &[f64]) -> Self {
        let (x, y) = (m.div_ceil(WIDE), p.div_ceil(WIDE));
        // Columns that only fill up a panel are zero; a one on the diagonal keeps them so.
        let r = |i: usize, j: usize| match (i < m, j < m) {
            (true, true) if i <= j => cells[i * (m + p) + j],
            (false, false) if i == j => 1.0,
            _ => 0.0,
        };
        let z = |i: usize, k: usize| if i < m && k < p { cells[i * (m + p) + m + k] } else { 0.0 };
        let mut factors = Vec::new();
        for group in groups(x) {
            // The corners are zero here: what is solved needs no more clearing.
            let above = |i: usize, j: usize| if i / WIDE < j / WIDE { r(i, j) } else { 0.0 };
            let from = group.start * WIDE;
            factors.push(lay_out(WIDE * group.end, group.len() * WIDE, |i, j| above(i, from + j)));
        }
        for group in groups(y) {
            let columns = if is_single(p, &group) { 1 } else { group.len() * WIDE };
            factors.push(lay_out(WIDE * x, columns, |i, k| z(i, group.start * WIDE + k)));
        }
        let corner = |q: usize| {
            std::array::from_fn(|i| {
                std::array::from_fn(|j| {
                    let cell = r(WIDE * q + i, WIDE * q + j);
                    if i == j { 1.0 / cell } else { cell }
                })
            })
        };
        let corners = (0..x).map(corner).collect();
        Self { p, factors, corners, turned: Aligned::zeros(0) }
    }

    /// Whitens the rows of a strip where they are.
    ///
    /// Cost: `n m (m + 2p)` flops for `n` rows.
    pub(super) fn apply(&mut self, strip: &mut Strip) {
        let (x, _) = strip.panels();
        if self.turned.cells().is_empty() {
            self.turned = Aligned::zeros(strip.stride() * x);
        }
        tile::dispatch(Apply { whitener: self, strip });
    }
}

fn lay_out(rows: usize, columns: usize, cell: impl Fn(usize, usize) -> f64) -> Aligned {
    let mut out = Aligned::zeros(rows * columns);
    for (i, row) in out.cells_mut().chunks_exact_mut(columns).enumerate() {
        for (j, to) in row.iter_mut().enumerate() {
            *to = cell(i, j);
        }
    }
    out
}

/// Whether a group of target panels holds one target only.
fn is_single(p: usize, group: &Range<usize>) -> bool {
    group.len() == 1 && p - group.start * WIDE == 1
}

/// [`Whitener::apply`] with the registers of one processor.
struct Apply<'a> {
    whitener: &'a mut Whitener,
    strip: &'a mut Strip,
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F64_LANES {
            4 => self.run::<S, 1>(simd),
            2 => self.run::<S, 2>(simd),
            _ => self.run::<S, 4>(simd),
        }
    }
}

impl Apply<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { whitener, strip } = self;
        let (x, y) = strip.panels();
        let (rows, stride) = (strip.padded(), strip.stride());
        let turned = &mut whitener.turned.cells_mut()[..rows * x * WIDE];
        let mut factors = whitener.factors.iter().map(Aligned::cells);
        for group in groups(x) {
            let panels = &mut strip.cells_mut()[group.start * stride..group.end * stride];
            let factors = factors.next().unwrap_or(&[]);
            let (from, corners) = (group.start * WIDE, &whitener.corners[group.clone()]);
            let job = Job { turned, features: x * WIDE, panels, stride, factors };
            match group.len() {
                2 => job.solve::<S, V, 2>(simd, from, corners),
                _ => job.solve::<S, V, 1>(simd, from, corners),
            }
        }
        for group in groups(y) {
            let (from, to) = ((x + group.start) * stride, (x + group.end) * stride);
            let panels = &mut strip.cells_mut()[from..to];
            let factors = factors.next().unwrap_or(&[]);
            let mut job = Job { turned, features: x * WIDE, panels, stride, factors };
            match group.len() {
                2 => job.update::<2>(x * WIDE),
                _ if is_single(whitener.p, &group) => job.update_single::<S, V>(simd),
                _ => job.update::<1>(x * WIDE),
            }
        }
    }
}

/// One group of panels, to be cleared of the features before it.
struct Job<'a> {
    turned: &'a mut [f64],
    features: usize,
    panels: &'a mut [f64],
    stride: usize,
    factors: &'a [f64],
}

impl Job<'_> {
    /// Subtracts what the first `known` features explain.
    #[inline(always)]
    fn update<const N: usize>(&mut self, known: usize) {
        let factors = self.factors[..known * N * WIDE].chunks(AHEAD * N * WIDE);
        for (ahead, factors) in factors.enumerate() {
            let piece = ahead * AHEAD * WIDE..known.min((ahead + 1) * AHEAD) * WIDE;
            for (block, turned) in self.turned.chunks_exact(self.features * WIDE).enumerate() {
                let at = std::array::from_fn(|j| j * self.stride + block * WIDE * WIDE);
                let sources = &turned[piece.clone()];
                tile::dispatch(tile::Inner::<N> { sources, factors, panels: self.panels, at });
            }
        }
    }

    /// Subtracts what the features before `from` explain, then solves within the group.
    #[inline(always)]
    fn solve<S: Simd, const V: usize, const N: usize>(
        mut self,
        simd: S,
        from: usize,
        corners: &[[[f64; WIDE]; WIDE]],
    ) {
        self.update::<N>(from);
        let Self { turned, features, panels, stride, factors } = self;
        let own = &factors[from * N * WIDE..];
        for (block, turned) in turned.chunks_exact_mut(features * WIDE).enumerate() {
            let solved = &mut turned[from * WIDE..(from + N * WIDE) * WIDE];
            for q in 0..N {
                let rows = four::<S, V>(panels, q * stride, block);
                let mut left: [[S::f64s; V]; WIDE] = std::array::from_fn(|i| rows[i]);
                for feature in 0..q * WIDE {
                    let at = (feature * N + q) * WIDE;
                    let f = tile::registers::<S, V>(&own[at..at + WIDE])[0];
                    for i in 0..WIDE {
                        let x = simd.splat_f64s(solved[feature * WIDE + i]);
                        for v in 0..V {
                            left[i][v] = simd.negate_mul_add_e_f64s(x, f[v], left[i][v]);
                        }
                    }
                }
                let [result, columns] = tile::substitute::<S, V>(simd, left, &corners[q]);
                rows.copy_from_slice(&result);
                let to = &mut solved[q * WIDE * WIDE..(q + 1) * WIDE * WIDE];
                tile::registers_mut::<S, V>(to).copy_from_slice(&columns);
            }
        }
    }

    /// As [`Self::update`] with all features, for a panel of which only the first column is in use.
    #[inline(always)]
    fn update_single<S: Simd, const V: usize>(&mut self, simd: S) {
        let blocks = self.turned.chunks_exact(self.features * WIDE);
        for (turned, y) in blocks.zip(self.panels.chunks_exact_mut(WIDE * WIDE)) {
            let sums = tile::inner_single::<S, V>(simd, turned, self.factors);
            let sums: &[f64] = pulp::bytemuck::cast_slice(sums.as_slice());
            for (y, sum) in y.chunks_exact_mut(WIDE).zip(sums) {
                y[0] -= sum;
            }
        }
    }
}

/// The `block`th four rows of the panel that begins at `panel`.
#[inline(always)]
fn four<S: Simd, const V: usize>(
    panels: &mut [f64],
    panel: usize,
    block: usize,
) -> &mut [[S::f64s; V]] {
    let cells = &mut panels[panel + block * WIDE * WIDE..][..WIDE * WIDE];
    tile::registers_mut::<S, V>(cells)
}
