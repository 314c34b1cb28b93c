//! Sums of products of features: those of a piece of rows in single precision, those of all pieces in double.
//!
//! ```text
//! rows ──fill (f64)──▶ strip ──units, round──▶ panels of columns (f32) ──products (f32)──▶ sums (f64)
//!                        │                       └──── products with the first column (f64) ──▶ sums (f64)
//!                        └───────────────────── products with targets (f64) ─────────────▶ sums (f64)
//! ```
//!
//! The first column, the intercept where there is one, gives the means that are taken out of all other sums. Its products are exact ones of
//! the rounded rows: an error in means is shared by all columns, so that it grows with their number where other errors grow with its
//! root, and sums of fewer rows than columns would not be positive definite.
//!
//! Every number is off by `2⁻²⁴` of itself and a piece's sum by a few times that, independently of other pieces, so a sum over many
//! rows has about seven digits however many there are. Columns are first brought to sizes near 1 by powers of two, which change no
//! digit, so that no square leaves the range of single precision.
//!
//! A panel of single precision has sixteen columns, two panels of the sums.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use pulp::{Simd, WithSimd};

use super::absorb::LEFT;
use super::gram::{BAND, lock, upper};
use super::instructions::dispatch;
use super::strip::{Aligned, DEEP, MANY, STRIPS, WIDE, groups};
use super::tile::SIX;
use super::{Gram, Source, parallel};

/// Columns in a panel.
const BROAD: usize = 2 * WIDE;

/// Rows of which products in single precision are made and summed in double.
pub(crate) struct Mixed<'a> {
    /// A power of two for each feature, by which it is multiplied before it is rounded.
    pub(crate) units: &'a [f64],
}

impl Mixed<'_> {
    /// Adds the given rows to the sums.
    ///
    /// The same rows in the same pieces give the same bits, on any number of threads.
    /// Cost: `n m²` flops in single precision and `2 n m p` in double.
    pub(crate) fn add(&self, gram: &mut Gram, source: &impl Source, rows: Range<usize>) {
        let (m, p) = gram.shape();
        let threads = if m < SHARED { 1 } else { parallel::threads() };
        let count = rows.len().div_ceil(DEEP).min(STRIPS.max(threads));
        if count == 0 {
            return;
        }
        // 1/unit, in whole panels.
        let mut sizes: Vec<f64> = self.units.iter().map(|unit| 1.0 / unit).collect();
        sizes.resize(m.next_multiple_of(BROAD), 1.0);
        let strips: Vec<RwLock<Rounded>> =
            (0..count).map(|_| RwLock::new(Rounded::new(m, p, rows.len().min(DEEP)))).collect();
        let mut lead = vec![0.0; m];
        gram.xx_from(0, &mut lead);
        // The last columns are the longest: they come first.
        let bands: Vec<Mutex<(Range<usize>, &mut [f64])>> =
            gram.bands(BAND).into_iter().rev().map(Mutex::new).collect();
        let doubles = Mutex::new(Doubles::zeros(m, p));
        let rounds = rows.len().div_ceil(count * DEEP);
        let tickets: Vec<[AtomicUsize; 2]> = (0..rounds).map(|_| Default::default()).collect();
        parallel::team(threads, |meeting| {
            for (round, [loads, jobs]) in tickets.iter().enumerate() {
                let first = rows.start + round * count * DEEP;
                loop {
                    let at = loads.fetch_add(1, Ordering::Relaxed);
                    let Some(strip) = strips.get(at) else { break };
                    let from = rows.end.min(first + at * DEEP);
                    let strip = &mut *strip.write().unwrap_or_else(PoisonError::into_inner);
                    strip.load(source, from..rows.end.min(from + DEEP), self.units);
                }
                meeting.wait();
                let loaded: Vec<_> = strips
                    .iter()
                    .map(|strip| strip.read().unwrap_or_else(PoisonError::into_inner))
                    .collect();
                let strips: Vec<&Rounded> =
                    loaded.iter().map(|strip| &**strip).filter(|strip| strip.rows > 0).collect();
                loop {
                    let job = jobs.fetch_add(1, Ordering::Relaxed);
                    if let Some(band) = bands.get(job) {
                        let (columns, sums) = &mut *lock(band);
                        let columns = columns.clone();
                        dispatch(Products { columns, sums, strips: &strips, sizes: &sizes });
                    } else if job == bands.len() {
                        let sums = &mut *lock(&doubles);
                        strips.iter().for_each(|strip| sums.add(&strip.doubles));
                    } else {
                        break;
                    }
                }
                drop(strips);
                drop(loaded);
                meeting.wait();
            }
        });
        drop(bands);
        let sums = doubles.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (j, v) in lead.iter_mut().enumerate() {
            *v += sums.lead[j] * (sizes[0] * sizes[j]);
        }
        gram.set_first(&lead);
        for k in 0..p {
            for (i, v) in sums.xy[k * m..(k + 1) * m].iter().enumerate() {
                gram.add_xy(i, k, *v);
            }
            gram.add_yy(k, sums.yy[k]);
        }
    }
}

/// Columns from which on threads share the work.
const SHARED: usize = 384;

/// Sums in double precision.
struct Doubles {
    /// `XᵀY`, target after target.
    xy: Vec<f64>,
    yy: Vec<f64>,
    /// Products of the first feature with all features, rounded and in their units.
    lead: Vec<f64>,
}

impl Doubles {
    fn zeros(m: usize, p: usize) -> Self {
        Self { xy: vec![0.0; m * p], yy: vec![0.0; p], lead: vec![0.0; m] }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in
            [(&mut self.xy, &other.xy), (&mut self.yy, &other.yy), (&mut self.lead, &other.lead)]
        {
            mine.iter_mut().zip(theirs).for_each(|(sum, v)| *sum += v);
        }
    }
}

/// A strip of rounded rows in panels, and its sums in double precision.
struct Rounded {
    m: usize,
    depth: usize,
    rows: usize,
    /// The first panels, which hold zeros only.
    skipped: usize,
    filled: Vec<f64>,
    /// Two f32 in the place of one f64.
    packed: Aligned,
    doubles: Doubles,
}

impl Rounded {
    fn new(m: usize, p: usize, depth: usize) -> Self {
        Self {
            m,
            depth,
            rows: 0,
            skipped: 0,
            filled: vec![0.0; MANY.min(depth) * (m + p)],
            packed: Aligned::zeros(m.div_ceil(BROAD) * depth * BROAD / 2),
            doubles: Doubles::zeros(m, p),
        }
    }

    /// Takes some rows in the place of those it has.
    fn load(&mut self, source: &impl Source, rows: Range<usize>, units: &[f64]) {
        let (m, p) = (self.m, self.doubles.yy.len());
        let width = m + p;
        self.rows = rows.len();
        self.skipped = if rows.is_empty() { usize::MAX } else { source.zeros(rows.start) / BROAD };
        self.doubles.lead.fill(0.0);
        for done in (0..rows.len()).step_by(MANY) {
            let take = MANY.min(rows.len() - done);
            let filled = &mut self.filled[..take * width];
            source.fill(rows.start + done, filled);
            let panels = pulp::bytemuck::cast_slice_mut(self.packed.cells_mut());
            let panels = pulp::as_arrays_mut::<BROAD, f32>(panels).0;
            let lead = &mut self.doubles.lead;
            dispatch(Round { filled, width, units, panels, depth: self.depth, done, lead });
            // Row-major rows are the columns of the transposed matrix.
            let all = MatRef::from_column_major_slice(&*filled, width, take);
            let out = MatMut::from_column_major_slice_mut(&mut self.doubles.xy, m, p);
            let how = if done == 0 { Accum::Replace } else { Accum::Add };
            let y = all.subrows(m, p);
            matmul(out, how, all.subrows(0, m), y.transpose(), 1.0, Par::Seq);
            for (k, yy) in self.doubles.yy.iter_mut().enumerate() {
                let sum: f64 = filled.iter().skip(m + k).step_by(width).map(|y| y * y).sum();
                *yy = if done == 0 { sum } else { *yy + sum };
            }
        }
    }

    fn panel(&self, q: usize) -> &[f32] {
        let cells: &[f32] = pulp::bytemuck::cast_slice(self.packed.cells());
        &cells[q * self.depth * BROAD..][..self.rows * BROAD]
    }

    fn panels(&self) -> usize {
        self.m.div_ceil(BROAD)
    }
}

/// Rounds rows and lays them out in panels, and adds products of their first number to `lead`.
struct Round<'a> {
    filled: &'a [f64],
    width: usize,
    units: &'a [f64],
    panels: &'a mut [[f32; BROAD]],
    /// Rows of a panel, and the first to be written.
    depth: usize,
    done: usize,
    lead: &'a mut [f64],
}

impl WithSimd for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { filled, width, units, panels, depth, done, lead } = self;
        let (m, take) = (units.len(), filled.len() / width);
        let mut firsts = [0.0; MANY];
        for q in 0..m.div_ceil(BROAD) {
            let first = q * BROAD;
            let count = BROAD.min(m - first);
            // Columns that no row has are zero.
            let mut unit = [0.0; BROAD];
            unit[..count].copy_from_slice(&units[first..first + count]);
            let out = &mut panels[q * depth + done..][..take];
            for i in 0..take {
                let row = &filled[i * width + first..];
                if count == BROAD {
                    let row = &pulp::as_arrays::<BROAD, f64>(row).0[0];
                    for k in 0..BROAD {
                        out[i][k] = (row[k] * unit[k]) as f32;
                    }
                } else {
                    for k in 0..count {
                        out[i][k] = (row[k] * unit[k]) as f32;
                    }
                }
            }
            if q == 0 {
                for i in 0..take {
                    firsts[i] = f64::from(out[i][0]);
                }
            }
            let mut sums = [0.0; BROAD];
            for i in 0..take {
                for k in 0..BROAD {
                    sums[k] += firsts[i] * f64::from(out[i][k]);
                }
            }
            for k in 0..count {
                lead[first + k] += sums[k];
            }
        }
    }
}

/// Adds `XᵀX` of some strips to some columns of panels of the sums.
struct Products<'a> {
    columns: Range<usize>,
    sums: &'a mut [f64],
    strips: &'a [&'a Rounded],
    sizes: &'a [f64],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        let wide = S::F32_LANES == BROAD;
        let panels = self.columns.start / 2..self.columns.end.div_ceil(2);
        let skipped = self.strips.iter().map(|strip| strip.skipped).min().unwrap_or(0);
        for band in (skipped / LEFT * LEFT..panels.end).step_by(LEFT) {
            let first = band.max(skipped);
            for right in groups(panels.len(), if wide { 3 } else { 1 }) {
                let right = panels.start + right.start..panels.start + right.end;
                let last = right.end.min(band + LEFT);
                for strip in self.strips {
                    if wide {
                        for left in first..last {
                            let right = right.start.max(left)..right.end;
                            self.tile::<0>(strip, left, right.clone());
                            self.tile::<WIDE>(strip, left, right);
                        }
                    } else if first < last {
                        self.sixes(strip, first * BROAD..last * BROAD, right.start);
                    }
                }
            }
        }
    }
}

impl Products<'_> {
    /// Eight columns of panel `left`, from its column `FROM` on, times the panels on the right.
    #[inline(always)]
    fn tile<const FROM: usize>(&mut self, strip: &Rounded, left: usize, right: Range<usize>) {
        let mut out = [0.0_f32; WIDE * 3 * BROAD];
        let cells = strip.panel(left);
        let panel = |j: usize| strip.panel(right.start + j);
        match right.len() {
            3 => {
                let right = [panel(0), panel(1), panel(2)];
                dispatch(Outer::<3, FROM> { left: cells, right, out: &mut out });
            }
            2 => {
                let right = [panel(0), panel(1)];
                dispatch(Outer::<2, FROM> { left: cells, right, out: &mut out });
            }
            _ => dispatch(Outer::<1, FROM> { left: cells, right: [panel(0)], out: &mut out }),
        }
        let (first, wide) = (left * BROAD + FROM, right.len() * BROAD);
        for j in 0..right.len() {
            self.add_up(first..first + WIDE, right.start + j, &out[j * BROAD..], wide);
        }
    }

    /// Some columns on the left, six at a time, times one panel on the right.
    #[inline(always)]
    fn sixes(&mut self, strip: &Rounded, columns: Range<usize>, right: usize) {
        let last = strip.panels() - 1;
        let panel = strip.panel(right);
        for from in columns.clone().step_by(SIX) {
            let q = from / BROAD;
            let left = [strip.panel(q), strip.panel((q + 1).min(last))];
            let mut out = [0.0_f32; SIX * BROAD];
            let (right_panel, sums) = (panel, &mut out);
            match from % BROAD {
                0 => dispatch(Six::<0> { left, right: right_panel, out: sums }),
                2 => dispatch(Six::<2> { left, right: right_panel, out: sums }),
                4 => dispatch(Six::<4> { left, right: right_panel, out: sums }),
                6 => dispatch(Six::<6> { left, right: right_panel, out: sums }),
                8 => dispatch(Six::<8> { left, right: right_panel, out: sums }),
                10 => dispatch(Six::<10> { left, right: right_panel, out: sums }),
                12 => dispatch(Six::<12> { left, right: right_panel, out: sums }),
                _ => dispatch(Six::<14> { left, right: right_panel, out: sums }),
            }
            self.add_up(from..columns.end.min(from + SIX), right, &out, BROAD);
        }
    }

    /// Adds the sums of some columns with the sixteen columns of panel `right`, in their own units, where they are on or above the
    /// diagonal of blocks. The sums of one column begin `wide` after those of the one before.
    #[inline(always)]
    fn add_up(&mut self, columns: Range<usize>, right: usize, sums: &[f32], wide: usize) {
        let base = upper(0, self.columns.start);
        let sizes = pulp::as_arrays::<WIDE, f64>(self.sizes).0;
        for half in 0..2 {
            let j = 2 * right + half;
            let last = columns.end.min((j + 1) * WIDE);
            if j >= self.columns.end || last <= columns.start {
                continue;
            }
            // The blocks of a column are in one piece: eight sums for every row of the matrix.
            let out = &mut self.sums[upper(0, j) - base + columns.start * WIDE..];
            let out = pulp::as_arrays_mut::<WIDE, f64>(out).0;
            let across = sizes[j];
            for i in 0..last - columns.start {
                let size = self.sizes[columns.start + i];
                let row = &pulp::as_arrays::<WIDE, f32>(&sums[i * wide + half * WIDE..]).0[0];
                // Arrays, so that the compiler knows the lengths and uses whole registers.
                let mut parts = [0.0; WIDE];
                for k in 0..WIDE {
                    parts[k] = f64::from(row[k]) * (size * across[k]);
                }
                for k in 0..WIDE {
                    out[i][k] += parts[k];
                }
            }
        }
    }
}

/// Sums of eight columns on the left, from `FROM` on, times `N` panels on the right, over the rows. Compiled by itself.
struct Outer<'a, const N: usize, const FROM: usize> {
    left: &'a [f32],
    right: [&'a [f32]; N],
    /// `N` panels wide, row-major.
    out: &'a mut [f32],
}

impl<const N: usize, const FROM: usize> WithSimd for Outer<'_, N, FROM> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if S::F32_LANES != BROAD {
            unreachable!("other registers take tiles of six columns");
        }
        let left = pulp::as_arrays::<BROAD, f32>(self.left).0;
        let mut right: [&[S::f32s]; N] = [&[]; N];
        for j in 0..N {
            right[j] = &S::as_simd_f32s(self.right[j]).0[..left.len()];
        }
        let mut sums = [[simd.splat_f32s(0.0); N]; WIDE];
        for row in 0..left.len() {
            let mut r = [simd.splat_f32s(0.0); N];
            for j in 0..N {
                r[j] = right[j][row];
            }
            for i in 0..WIDE {
                let l = simd.splat_f32s(left[row][FROM + i]);
                for j in 0..N {
                    sums[i][j] = simd.mul_add_e_f32s(l, r[j], sums[i][j]);
                }
            }
        }
        // One by one: sums that are copied as an array would be in memory, and written there in every row.
        let out = pulp::as_arrays_mut::<N, S::f32s>(S::as_mut_simd_f32s(self.out).0).0;
        for i in 0..WIDE {
            for j in 0..N {
                out[i][j] = sums[i][j];
            }
        }
    }
}

/// Sums of six columns on the left, which begin with column `FROM` of one panel and may go on in the next, times one panel on the
/// right. Compiled by itself.
struct Six<'a, const FROM: usize> {
    left: [&'a [f32]; 2],
    right: &'a [f32],
    out: &'a mut [f32; SIX * BROAD],
}

impl<const FROM: usize> WithSimd for Six<'_, FROM> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            1 => self.run::<S, BROAD>(simd),
            _ => unreachable!("wide registers take tiles of whole panels"),
        }
    }
}

impl<const FROM: usize> Six<'_, FROM> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let right = pulp::as_arrays::<V, S::f32s>(S::as_simd_f32s(self.right).0).0;
        let one = &pulp::as_arrays::<BROAD, f32>(self.left[0]).0[..right.len()];
        let two = &pulp::as_arrays::<BROAD, f32>(self.left[1]).0[..right.len()];
        let mut sums = [[simd.splat_f32s(0.0); V]; SIX];
        for row in 0..right.len() {
            let r = right[row];
            for i in 0..SIX {
                let at = FROM + i;
                let l = if at < BROAD { one[row][at] } else { two[row][at - BROAD] };
                let l = simd.splat_f32s(l);
                for v in 0..V {
                    sums[i][v] = simd.mul_add_e_f32s(l, r[v], sums[i][v]);
                }
            }
        }
        let out = pulp::as_arrays_mut::<V, S::f32s>(S::as_mut_simd_f32s(self.out).0).0;
        for i in 0..SIX {
            for v in 0..V {
                out[i][v] = sums[i][v];
            }
        }
    }
}
