//! Work on disjoint tiles, on as many threads as the caller allows.
//!
//! Tiles are cut by the shape of a matrix alone, never by the number of threads, and no tile reads what another one writes, so
//! results have the same bits on any number of threads.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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

/// Cells below which all work on them is done before another thread has started.
const FEW_CELLS: usize = 1 << 16;

/// As [`each`]; tiles that have few cells together are for this thread alone.
pub(super) fn share<T: Send>(cells: usize, tiles: Vec<T>, work: impl Fn(T) + Sync) {
    if cells < FEW_CELLS { tiles.into_iter().for_each(work) } else { each(tiles, work) }
}

/// Calls `work` with each of the tiles, in any order.
pub(crate) fn each<T: Send>(tiles: Vec<T>, work: impl Fn(T) + Sync) {
    let threads = THREADS.get().min(tiles.len());
    if threads < 2 {
        return tiles.into_iter().for_each(work);
    }
    let queue = Mutex::new(tiles.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    #[cfg(test)]
    let forced = super::instructions::tests::FORCED.get();
    let run = || {
        #[cfg(test)]
        super::instructions::tests::FORCED.set(forced);
        while let Some(tile) = next() {
            work(tile);
        }
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
}

/// Calls `work` on each of `threads` threads at once. Where work is done in steps, starting threads for each of them would cost more than
/// the steps; they meet in between instead.
pub(super) fn team(threads: usize, work: impl Fn(&Meeting) + Sync) {
    let meeting = Meeting::new(threads);
    #[cfg(test)]
    let forced = super::instructions::tests::FORCED.get();
    let run = || {
        #[cfg(test)]
        super::instructions::tests::FORCED.set(forced);
        let _guard = Broken(&meeting);
        work(&meeting);
    };
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(run)));
        run();
    });
}

/// Where threads wait for each other.
pub(super) struct Meeting {
    threads: usize,
    state: Mutex<Arrivals>,
    moved: Condvar,
}

#[derive(Default)]
struct Arrivals {
    count: usize,
    round: usize,
    /// Whether a thread has panicked, so that not all will come.
    broken: bool,
}

impl Meeting {
    fn new(threads: usize) -> Self {
        Self { threads, state: Mutex::default(), moved: Condvar::new() }
    }

    /// Waits until all threads have called it.
    ///
    /// # Panics
    /// When another thread has panicked.
    pub(super) fn wait(&self) {
        if self.threads < 2 {
            return;
        }
        let mut state = self.lock();
        state.count += 1;
        if state.count == self.threads {
            state.count = 0;
            state.round += 1;
            self.moved.notify_all();
        } else {
            let round = state.round;
            let missing = |state: &mut Arrivals| state.round == round && !state.broken;
            state = self.moved.wait_while(state, missing).unwrap_or_else(PoisonError::into_inner);
        }
        let broken = state.broken;
        drop(state);
        assert!(!broken, "a thread that was waited for has panicked");
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the others when a thread panics.
struct Broken<'a>(&'a Meeting);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.moved.notify_all();
        }
    }
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

    #[test]
    fn a_team_meets_between_its_steps() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        for threads in [1, 2, 3] {
            let count = AtomicUsize::new(0);
            team(threads, |meeting| {
                for step in 0..50 {
                    count.fetch_add(1, Ordering::Relaxed);
                    meeting.wait();
                    assert_eq!(count.load(Ordering::Relaxed), threads * (step + 1));
                    meeting.wait();
                }
            });
        }
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_team_does_not_wait_for_a_thread_that_panicked() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let first = AtomicBool::new(true);
        team(3, |meeting| {
            assert!(!first.swap(false, Ordering::Relaxed), "one panicked");
            meeting.wait();
        });
    }
}
