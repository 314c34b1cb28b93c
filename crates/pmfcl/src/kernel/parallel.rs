//! Work on disjoint tiles, on as many threads as the caller allows.
//!
//! Tiles are cut by the shape of a matrix alone, never by the number of threads, and no tile reads what another one writes, so
//! results have the same bits on any number of threads.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// Threads that work started on this thread may use. A thread that was started for one tile has one.
    static THREADS: Cell<usize> = const { Cell::new(1) };
}

/// Sets the number of threads back, also when work panics.
struct Restore(usize);

impl Drop for Restore {
    fn drop(&mut self) {
        THREADS.set(self.0);
    }
}

/// Runs `work`, in which wide kernels use up to `threads` threads.
pub(crate) fn with_threads<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(THREADS.replace(threads.max(1)));
    work()
}

/// Threads that [`each`] would use for many tiles.
pub(super) fn threads() -> usize {
    THREADS.get()
}

/// Calls `work` with each of the tiles, in any order.
pub(crate) fn each<T: Send>(tiles: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = THREADS.get().min(tiles.len());
    if threads < 2 {
        return tiles.into_iter().for_each(work);
    }
    let queue = Mutex::new(tiles.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        while let Some(tile) = next() {
            work(tile);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_is_worked_on_once_on_any_number_of_threads() {
        for threads in [1, 2, 5] {
            let mut cells = vec![0_u32; 103];
            with_threads(threads, || {
                each(cells.chunks_mut(10).collect(), |tile| tile.iter_mut().for_each(|v| *v += 1));
            });
            assert!(cells.iter().all(|v| *v == 1), "{threads} threads");
            assert_eq!(THREADS.get(), 1, "the number is set back");
        }
    }
}
