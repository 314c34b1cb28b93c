//! Rows cut into strips and packed for the micro-kernels.
//!
//! Four neighbouring columns form a *panel*, stored row after row, so that a kernel walks through
//! memory in one direction whatever the width of the matrix:
//!
//! ```text
//! row-major rows          panel 0      panel 1      targets
//! a0 a1 a2 a3 b0 y0       a0 a1 a2 a3  b0 0  0  0   y0 0 0 0
//! a4 a5 a6 a7 b1 y1  ──▶  a4 a5 a6 a7  b1 0  0  0   y1 0 0 0
//! …                       …            …            …
//! ```
//!
//! Missing columns and rows are zeros, which change no sum. Features and targets never share a
//! panel.

use std::ops::Range;

use super::{Source, parallel};

/// Columns in a panel.
pub(super) const WIDE: usize = 4;

/// Rows in a strip of narrow matrices: four panels stay in a 32 kB first-level cache, and the
/// distance between panels is no multiple of 4 kB, which would make them evict each other.
const DEEP: usize = 192;

/// Cells of a strip that stay in a 512 kB second-level cache, with room for what passes through.
const CACHED: usize = 48 * 1024;

/// Cells filled at once before they are packed.
const FILLED: usize = 8 * 1024;

/// From this many columns on a whole strip is filled before it is packed, so that a basis maps many rows at once and threads share
/// them, this many rows at a time.
const WHOLE: usize = 768;
const PIECE: usize = 32;

/// Numbers that start on a cache line, so that no vector straddles two.
pub(super) struct Aligned {
    store: Vec<f64>,
    at: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn zeros(len: usize) -> Self {
        let store = vec![0.0; len + 7];
        // Falls back to 7 where the platform cannot tell; speed is all that depends on it.
        let at = store.as_ptr().align_offset(64).min(7);
        Self { store, at, len }
    }

    pub(super) fn cells(&self) -> &[f64] {
        &self.store[self.at..self.at + self.len]
    }

    pub(super) fn cells_mut(&mut self) -> &mut [f64] {
        &mut self.store[self.at..self.at + self.len]
    }
}

/// A strip of rows of `[X | Y]`, packed in panels.
pub(super) struct Strip {
    m: usize,
    p: usize,
    depth: usize,
    rows: usize,
    filled: Vec<f64>,
    packed: Aligned,
}

impl Strip {
    /// An empty strip for rows of `m` features and `p` targets.
    pub(super) fn new(m: usize, p: usize) -> Self {
        let panels = m.div_ceil(WIDE) + p.div_ceil(WIDE);
        let depth = depth(panels);
        let chunk = if m + p < WHOLE { (FILLED / (m + p)).clamp(8, depth) } else { depth };
        let filled = vec![0.0; chunk * (m + p)];
        Self { m, p, depth, rows: 0, filled, packed: Aligned::zeros(panels * depth * WIDE) }
    }

    /// Calls `work` with the strip holding each piece of `rows` in turn.
    pub(super) fn each(
        &mut self,
        source: &impl Source,
        rows: Range<usize>,
        mut work: impl FnMut(&mut Self),
    ) {
        let mut from = rows.start;
        while from < rows.end {
            let take = self.depth.min(rows.end - from);
            self.load(source, from, take);
            work(self);
            from += take;
        }
    }

    fn load(&mut self, source: &impl Source, from: usize, rows: usize) {
        let width = self.m + self.p;
        let chunk = self.filled.len() / width;
        let mut done = 0;
        while done < rows {
            let take = chunk.min(rows - done);
            fill(source, from + done, width, &mut self.filled[..take * width]);
            self.pack(done, take);
            done += take;
        }
        self.rows = rows;
        // Kernels work on four rows at a time: the last rows are filled up with zeros.
        let padded = self.padded() * WIDE;
        for panel in self.packed.cells_mut().chunks_exact_mut(self.depth * WIDE) {
            panel[rows * WIDE..padded].fill(0.0);
        }
    }

    fn pack(&mut self, done: usize, take: usize) {
        let (m, p, width) = (self.m, self.p, self.m + self.p);
        let features = (0..m.div_ceil(WIDE)).map(|q| WIDE * q..m.min(WIDE * q + WIDE));
        let targets = (0..p.div_ceil(WIDE)).map(|q| m + WIDE * q..m + p.min(WIDE * q + WIDE));
        let panels = self.packed.cells_mut().chunks_exact_mut(self.depth * WIDE);
        let filled = &self.filled[..take * width];
        let pack = |(columns, panel): (Range<usize>, &mut [f64])| {
            let cells = panel[WIDE * done..WIDE * (done + take)].chunks_exact_mut(WIDE);
            let rows = filled.chunks_exact(width);
            let (from, count) = (columns.start, columns.len());
            if count == WIDE {
                for (cell, row) in cells.zip(rows) {
                    cell.copy_from_slice(&row[from..from + WIDE]);
                }
            } else {
                // The other columns of the panel are zero since `new`.
                for (cell, row) in cells.zip(rows) {
                    cell[..count].copy_from_slice(&row[from..from + count]);
                }
            }
        };
        features.chain(targets).zip(panels).for_each(pack);
    }

    /// Rows in use, rounded up to a whole number of panel blocks.
    pub(super) fn padded(&self) -> usize {
        self.rows.next_multiple_of(WIDE)
    }

    /// Cells between the beginnings of two panels.
    pub(super) fn stride(&self) -> usize {
        self.depth * WIDE
    }

    /// Feature panels, then target panels.
    pub(super) fn panels(&self) -> (usize, usize) {
        (self.m.div_ceil(WIDE), self.p.div_ceil(WIDE))
    }

    /// One panel's rows, the padding included.
    pub(super) fn panel(&self, q: usize) -> &[f64] {
        &self.packed.cells()[q * self.stride()..][..self.padded() * WIDE]
    }

    /// All panels, `stride` apart.
    pub(super) fn cells_mut(&mut self) -> &mut [f64] {
        self.packed.cells_mut()
    }
}

/// Fills rows from `from` on; threads share those of wide sources.
pub(super) fn fill(source: &impl Source, from: usize, width: usize, out: &mut [f64]) {
    if width < WHOLE || parallel::threads() < 2 {
        return source.fill(from, out);
    }
    let pieces = (from..).step_by(PIECE).zip(out.chunks_mut(PIECE * width)).collect();
    parallel::each(pieces, |(from, out): (usize, &mut [f64])| source.fill(from, out));
}

/// Rows per strip, a function of the number of columns alone: it fixes the order of summation, and
/// with it the bits of the result.
fn depth(panels: usize) -> usize {
    (CACHED / (panels * WIDE)).clamp(96, DEEP) / WIDE * WIDE
}

/// Cuts `count` panels into pairs, the last one alone where their number is odd.
///
/// A tile of one panel against two keeps eight sums in flight, enough to hide the latency of a multiplication,
/// and leaves registers to spare. Against three it would need all sixteen, and a compiler that plans for one
/// more spills a sum in every step: half the speed.
pub(super) fn groups(count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(2).map(move |from| from..count.min(from + 2))
}
