//! Large arrays: their pages are written before they are read, and their memory is used again.
//!
//! The system gives memory page by page, when it is touched. A page that is read first is the one page of zeros that all share; the
//! first number added to it then copies that page and interrupts every other thread to say so. Sums are read before they are
//! written, and those of 5,000 columns took 40 % of their time in that on two threads. A page that is written first costs one fault,
//! and threads share them.
//!
//! Even so every fresh page is a fault, and allocators give memory of this size back at once. Every task of a wide model has an array
//! of sums of its own, and so has every solution: a fifth of the time of 5,000 columns went into their pages. So the largest array that
//! was dropped last is kept for the next one, as long as there is another array in use.

use std::hint::black_box;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::parallel;

/// Cells of a page of 4 kB, the smallest there is.
const PAGE: usize = 512;

/// Cells below which memory is likely to be used again, and nothing is gained.
const LARGE: usize = 1 << 16;

/// Cells that one thread touches at once.
const PIECE: usize = 1 << 18;

/// So many zeros.
pub(crate) fn zeros(len: usize) -> Vec<f64> {
    let mut cells = vec![0.0; len];
    if len >= LARGE {
        in_pieces(&mut cells, |piece| {
            for cell in piece.iter_mut().step_by(PAGE) {
                // The compiler knows that it is zero and would leave a plain assignment out.
                *cell = black_box(0.0);
            }
        });
    }
    cells
}

fn in_pieces(cells: &mut [f64], work: impl Fn(&mut [f64]) + Sync) {
    parallel::each(cells.chunks_mut(PIECE).collect(), work);
}

/// Numbers whose memory is used again if there are many.
#[derive(Debug, PartialEq)]
pub(crate) struct Cells(Vec<f64>);

/// Memory that was given back.
#[derive(Debug)]
struct Spare {
    /// Large arrays in use.
    used: usize,
    kept: Vec<f64>,
}

static SPARE: Mutex<Spare> = Mutex::new(Spare { used: 0, kept: Vec::new() });

impl Spare {
    /// Memory for so many cells, with whatever is in it. Less than that is freed: the arrays that come now are larger.
    fn take(&mut self, len: usize) -> Option<Vec<f64>> {
        self.used += 1;
        let room = self.kept.capacity();
        let fits = (len..=2 * len).contains(&room);
        (fits || room < len).then(|| std::mem::take(&mut self.kept)).filter(|_| fits)
    }

    /// Takes memory back, and gives what is to be freed.
    fn give(&mut self, mut cells: Vec<f64>) -> [Vec<f64>; 2] {
        self.used -= 1;
        if cells.capacity() >= self.kept.capacity() {
            std::mem::swap(&mut cells, &mut self.kept);
        }
        [cells, if self.used == 0 { std::mem::take(&mut self.kept) } else { Vec::new() }]
    }
}

impl Cells {
    /// So many zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        if len < LARGE {
            return Self(vec![0.0; len]);
        }
        let Some(mut cells) = used_again(len) else { return Self(zeros(len)) };
        in_pieces(&mut cells, |piece| piece.fill(0.0));
        Self(cells)
    }

    /// As many numbers as `from` has, made of them.
    pub(crate) fn map(from: &Self, change: impl Fn(f64) -> f64 + Sync) -> Self {
        let len = from.len();
        let mut cells = Self(if len < LARGE {
            vec![0.0; len]
        } else {
            used_again(len).unwrap_or_else(|| zeros(len))
        });
        let pairs = cells.chunks_mut(PIECE).zip(from.chunks(PIECE)).collect();
        parallel::each(pairs, |(to, from): (&mut [f64], &[f64])| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = change(*from));
        });
        cells
    }
}

/// Memory of an array that was dropped, for so many cells.
fn used_again(len: usize) -> Option<Vec<f64>> {
    let mut cells = lock(|spare| spare.take(len))?;
    cells.resize(len, 0.0);
    Some(cells)
}

fn lock<T>(work: impl FnOnce(&mut Spare) -> T) -> T {
    work(&mut SPARE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Clone for Cells {
    fn clone(&self) -> Self {
        Self::map(self, |v| v)
    }
}

impl Drop for Cells {
    fn drop(&mut self) {
        if self.0.len() >= LARGE {
            let cells = std::mem::take(&mut self.0);
            // Freed once nobody waits for the lock.
            drop(lock(|spare| spare.give(cells)));
        }
    }
}

impl Deref for Cells {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.0
    }
}

impl DerefMut for Cells {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes of what is freed when an array is given back, and of what is kept.
    fn given(spare: &mut Spare, len: usize) -> (Vec<usize>, usize) {
        let freed = spare.give(vec![0.0; len]);
        (freed.iter().map(Vec::capacity).filter(|n| *n > 0).collect(), spare.kept.capacity())
    }

    #[test]
    fn one_array_is_kept_and_none_once_all_are_dropped() {
        let mut spare = Spare { used: 0, kept: Vec::new() };
        (0..3).for_each(|_| assert!(spare.take(100).is_none()));
        assert_eq!(given(&mut spare, 100), (vec![], 100));
        assert_eq!(given(&mut spare, 90), (vec![90], 100));
        assert!(spare.take(49).is_none(), "too large for so few");
        assert_eq!(spare.take(60).map(|cells| cells.capacity()), Some(100));
        assert_eq!(given(&mut spare, 49), (vec![], 49));
        assert!(spare.take(50).is_none());
        assert_eq!(spare.kept.capacity(), 0, "too small for what comes now");
        assert_eq!(given(&mut spare, 50), (vec![], 50));
        assert_eq!(given(&mut spare, 70), (vec![50], 70));
        assert_eq!(given(&mut spare, 60), (vec![60, 70], 0));
    }

    #[test]
    fn memory_that_is_used_again_holds_zeros() {
        for len in [LARGE - 1, LARGE, LARGE + PIECE + 1] {
            let held = Cells::zeros(len);
            for _ in 0..3 {
                let mut cells = Cells::zeros(len);
                assert!(cells.len() == len && cells.iter().all(|v| v.to_bits() == 0));
                cells.fill(7.0);
                let twice = Cells::map(&cells, |v| 2.0 * v);
                assert!(twice.len() == len && twice.iter().all(|v| (*v - 14.0).abs() < 1e-12));
                assert!(cells.clone() == cells);
            }
            assert!(held.iter().all(|v| v.to_bits() == 0), "nobody else has written to it");
        }
    }
}
