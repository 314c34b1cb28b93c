//! Rows cut into strips and packed for the micro-kernels.
//!
//! Eight neighbouring columns form a *panel*, stored row after row, so that a kernel walks through
//! memory in one direction whatever the width of the matrix, a cache line at a time (here with four):
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

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::entries::Entry;
use super::instructions::dispatch;
use super::{Plain, PlainTargets, Source, parallel};

/// Columns in a panel.
pub(super) const WIDE: usize = 8;

/// Rows in a strip, which kernels sum in registers before they add to the sums of a matrix: four panels of them stay in a first-level cache
/// of 48 kB, three in one of 32 kB. It fixes the order of summation, and with it the bits of a result. The distance between panels is no multiple of
/// 4 kB, which would make them evict each other.
pub(super) const DEEP: usize = 168;

/// Strips that are summed one after another for the same sums: those of a wide matrix pass through the processor once for all of them, and three
/// dozen panels of each stay in a second-level cache of 1 MB. More strips, one for each thread, change no bit.
pub(super) const STRIPS: usize = 2;

/// Whitening works on whole blocks of six and of eight rows.
const ROWS: usize = 24;

/// Cells filled at once before they are packed; of rows of some hundred cells, and of wide ones, at least so many rows, so that a basis
/// maps many at once.
const FILLED: usize = 3 * 1024;
const SEVERAL: usize = 24;
pub(super) const MANY: usize = 48;

/// Cells of rows in memory that are packed at once, and so stay in a first-level cache; of wide rows so many rows, which are read
/// side by side.
const PREFETCHED: usize = 2 * 1024;
const LEAST: usize = 8;

/// From this many columns on threads share rows that are filled, so many at a time.
const SHARED: usize = 768;
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

    /// Some numbers, in memory that a [`Strip`] of this thread has used before where there is some: the least that is enough.
    fn recycled(len: usize) -> Self {
        let store = KEPT.with_borrow_mut(|kept| {
            let enough = kept.iter().enumerate().filter(|(_, store)| store.len() >= len + 7);
            let found = enough.min_by_key(|(_, store)| store.len()).map(|(at, _)| at);
            found.map(|at| kept.swap_remove(at))
        });
        let Some(store) = store else { return Self::zeros(len) };
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

thread_local! {
    /// Memory of strips, for the next ones. The system would give fresh pages for every leaf, and clear them.
    static KEPT: RefCell<Vec<Vec<f64>>> = const { RefCell::new(Vec::new()) };
}

/// Pieces of memory that a thread keeps, one with the rows of a strip as they come and one with them packed, and the most cells of one
/// of them: 8 MB.
const KEPT_PIECES: usize = 2 * STRIPS;
const KEPT_CELLS: usize = 1 << 20;

/// A strip of rows of `[X | Y]`, packed in panels.
pub(super) struct Strip {
    m: usize,
    p: usize,
    depth: usize,
    rows: usize,
    skipped: usize,
    /// Whether targets that are indicators may be listed instead of packed; whether they are now, and then all that are 1, with their
    /// rows.
    lists: bool,
    listed: bool,
    ones: Vec<(usize, usize)>,
    /// Rows filled at once, and room for them once a source fills.
    chunk: usize,
    filled: Aligned,
    packed: Aligned,
}

impl Strip {
    /// An empty strip for up to `rows` rows of `m` features and `p` targets, [`DEEP`] at most.
    pub(super) fn new(m: usize, p: usize, rows: usize) -> Self {
        let (panels, width) = (m.div_ceil(WIDE) + p.div_ceil(WIDE), m + p);
        let depth = rows.max(1).next_multiple_of(ROWS).min(DEEP);
        let least = if width < SHARED { SEVERAL } else { MANY };
        let chunk = (FILLED / width).clamp(least.min(depth), depth);
        let mut packed = Aligned::recycled(panels * depth * WIDE);
        // Columns that no row has; all other cells are written before they are read.
        for (count, last) in [(m, m.div_ceil(WIDE)), (p, panels)] {
            if count % WIDE > 0 {
                packed.cells_mut()[(last - 1) * depth * WIDE..last * depth * WIDE].fill(0.0);
            }
        }
        let filled = Aligned { store: Vec::new(), at: 0, len: 0 };
        let (lists, listed, ones) = (false, false, Vec::new());
        Self { m, p, depth, rows: 0, skipped: 0, lists, listed, ones, chunk, filled, packed }
    }

    /// Where targets are indicators, their panels are not written, except a last one of a single column; see [`Strip::listed`].
    pub(super) fn listing(mut self) -> Self {
        self.lists = true;
        self
    }

    /// Takes some rows in the place of those it has; none leaves it empty.
    pub(super) fn load(&mut self, source: &impl Source, rows: Range<usize>) {
        let width = self.m + self.p;
        let (from, rows) = (rows.start, rows.len());
        let plain = source.plain();
        let chunk = if plain.is_some() { (PREFETCHED / width).max(LEAST) } else { self.chunk };
        self.list(plain, from..from + rows);
        let mut done = 0;
        while done < rows {
            let take = chunk.min(rows - done);
            if let Some(plain) = plain {
                self.pack_plain(plain, from + done, done, take);
            } else {
                if self.filled.len == 0 {
                    self.filled = Aligned::recycled(self.chunk * width);
                }
                source.fill(from + done, &mut self.filled.cells_mut()[..take * width]);
                self.pack(done, take);
            }
            done += take;
        }
        self.rows = rows;
        self.skipped = if rows > 0 { source.zeros(from) / WIDE / 3 * 3 } else { usize::MAX };
        // Whitening works on several rows at a time: the last rows are filled up with zeros.
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
        let filled = &self.filled.cells()[..take * width];
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

    /// As [`Strip::pack`], from where the rows lie: row `from` on becomes row `done` on.
    fn pack_plain(&mut self, plain: Plain<'_>, from: usize, done: usize, take: usize) {
        let (m, p, depth) = (self.m, self.p, self.depth);
        let lead = usize::from(plain.intercept);
        let features = m.div_ceil(WIDE) * self.stride();
        let (features, targets) = self.packed.cells_mut().split_at_mut(features);
        let shift = |from: usize| plain.shift.get(from..).unwrap_or_default();
        let pack = |rows: &[f64], (width, lead), shift, panels| {
            let rows = &rows[from * width..(from + take) * width];
            if rows.len() <= PREFETCHED {
                prefetch(rows);
            }
            let panels = pulp::as_arrays_mut::<WIDE, f64>(panels).0;
            dispatch(Pack { rows, width, lead, shift, panels, depth, done, take });
        };
        pack(plain.x, (m - lead, lead), shift(0), features);
        let codes = match plain.y {
            PlainTargets::Numbers(y) => return pack(y, (p, 0), shift(m), targets),
            PlainTargets::Indicators(codes) => &codes[from..from + take],
        };
        let first = if self.listed { p / WIDE } else { 0 };
        for q in first..p.div_ceil(WIDE) {
            let panel = &mut targets[q * self.depth * WIDE..][WIDE * done..WIDE * (done + take)];
            for (cells, &code) in panel.chunks_exact_mut(WIDE).zip(codes) {
                for (j, cell) in cells.iter_mut().enumerate().take(p - q * WIDE) {
                    let one = f64::from(u8::from(code as usize == q * WIDE + j));
                    *cell = one - shift(m).get(q * WIDE + j).unwrap_or(&0.0);
                }
            }
        }
    }

    /// Lists targets that are 1, where they are not packed.
    fn list(&mut self, plain: Option<Plain<'_>>, rows: Range<usize>) {
        self.ones.clear();
        self.listed = false;
        let Some(Plain { y: PlainTargets::Indicators(codes), shift, .. }) = plain else { return };
        let moved = shift.get(self.m..).unwrap_or_default().iter().any(|v| *v != 0.0);
        if !self.lists || moved {
            return;
        }
        self.listed = true;
        let ones = codes[rows].iter().enumerate().map(|(row, code)| (*code as usize, row));
        self.ones.extend(ones);
        self.ones.sort_unstable();
    }

    /// The numbers of target panel `q` that are not 0, column after column, in `entries`; whether it has been listed and not packed.
    pub(super) fn listed(&self, q: usize, entries: &mut Vec<Entry>) -> bool {
        if !self.listed || self.p == q * WIDE + 1 {
            return false;
        }
        let before = |q: usize| self.ones.partition_point(|(target, _)| *target < q * WIDE);
        let ones = &self.ones[before(q)..before(q + 1)];
        entries.clear();
        entries.extend(ones.iter().map(|(target, row)| Entry::one(*row, target % WIDE)));
        true
    }

    /// Whether there are no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Rows in use, rounded up to whole blocks of rows.
    pub(super) fn padded(&self) -> usize {
        self.rows.next_multiple_of(ROWS)
    }

    /// Cells between the beginnings of two panels.
    pub(super) fn stride(&self) -> usize {
        self.depth * WIDE
    }

    /// Feature panels, then target panels.
    pub(super) fn panels(&self) -> (usize, usize) {
        (self.m.div_ceil(WIDE), self.p.div_ceil(WIDE))
    }

    /// The first feature panels, in threes, that hold zeros only.
    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    /// The rows in use of a panel.
    #[inline(always)]
    pub(super) fn panel(&self, q: usize) -> &[f64] {
        &self.packed.cells()[q * self.stride()..][..self.rows * WIDE]
    }

    /// All panels, `stride` apart.
    pub(super) fn cells_mut(&mut self) -> &mut [f64] {
        self.packed.cells_mut()
    }
}

impl Drop for Strip {
    fn drop(&mut self) {
        for piece in [&mut self.packed, &mut self.filled] {
            let store = std::mem::take(&mut piece.store);
            if (1..=KEPT_CELLS).contains(&store.len()) {
                // A thread that ends has nothing to keep it in.
                let _ = KEPT.try_with(|kept| {
                    let mut kept = kept.borrow_mut();
                    kept.truncate(KEPT_PIECES - 1);
                    kept.insert(0, store);
                });
            }
        }
    }
}

/// Lays rows that are in memory out in panels, less a shift.
struct Pack<'a> {
    rows: &'a [f64],
    width: usize,
    /// Columns before those of the rows, which are 1.
    lead: usize,
    shift: &'a [f64],
    panels: &'a mut [[f64; WIDE]],
    /// Rows of a panel, and those to write.
    depth: usize,
    done: usize,
    take: usize,
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, width, lead, shift, panels, depth, done, take } = self;
        // Loops by number: what iterators do is compiled by itself, for the oldest processor.
        for q in 0..panels.len() / depth {
            let mut less = [0.0; WIDE];
            for j in 0..WIDE.min(shift.len().saturating_sub(WIDE * q)) {
                less[j] = shift[WIDE * q + j];
            }
            let ones = lead.saturating_sub(WIDE * q);
            let from = WIDE * q + ones - lead;
            let count = (width - from).min(WIDE - ones);
            let out = &mut panels[q * depth + done..][..take];
            if count == WIDE {
                let less = S::as_simd_f64s(&less).0;
                for i in 0..take {
                    let row = S::as_simd_f64s(&rows[i * width + from..][..WIDE]).0;
                    let out = S::as_mut_simd_f64s(&mut out[i]).0;
                    for v in 0..WIDE / S::F64_LANES {
                        out[v] = simd.sub_f64s(row[v], less[v]);
                    }
                }
            } else if ones == 0 && count == 1 {
                // A single target.
                for i in 0..take {
                    out[i][0] = rows[i * width + from] - less[0];
                }
            } else {
                for i in 0..take {
                    for j in 0..ones {
                        out[i][j] = 1.0 - less[j];
                    }
                    for j in ones..ones + count {
                        out[i][j] = rows[i * width + from + j - ones] - less[j];
                    }
                }
            }
        }
    }
}

/// Reads every cache line of some cells in order, which brings them into the first-level cache at the speed of memory. Packing reads rows
/// side by side and would wait for them.
fn prefetch(cells: &[f64]) {
    let mut seen = 0;
    for line in cells.chunks(WIDE) {
        seen |= line[0].to_bits();
        // One line after the other: vector instructions would gather them, at a third of the speed.
        std::hint::black_box(());
    }
    std::hint::black_box(seen);
}

/// Fills rows from `from` on; threads share those of wide sources.
pub(super) fn fill(source: &impl Source, from: usize, width: usize, out: &mut [f64]) {
    if width < SHARED || parallel::threads() < 2 {
        return source.fill(from, out);
    }
    let pieces = (from..).step_by(PIECE).zip(out.chunks_mut(PIECE * width)).collect();
    parallel::each(pieces, |(from, out): (usize, &mut [f64])| source.fill(from, out));
}

/// Cuts `count` panels into groups of `size`, the last one shorter where that does not divide their number.
pub(super) fn groups(count: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..count).step_by(size).map(move |from| from..count.min(from + size))
}
