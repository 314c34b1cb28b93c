//! Work on several threads whose results are joined in one order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Leaves that may wait for an earlier one, for each thread.
const WAITING: usize = 4;

/// Calls `make` with every number, on several threads, and `join` with what it gives, in the order of the numbers. The first error,
/// in that order, ends it.
///
/// Threads are started once: for a narrow design a leaf lasts hardly longer than it takes to start one.
pub(super) fn in_order<T: Send, E: Send>(
    threads: usize,
    numbers: Range<usize>,
    make: impl Fn(usize) -> Result<T, E> + Sync,
    join: impl FnMut(T) + Send,
) -> Result<(), E> {
    struct Line<T, E, J> {
        next: usize,
        waiting: BTreeMap<usize, Result<T, E>>,
        failed: Option<E>,
        join: J,
    }
    let (first, end) = (numbers.start, numbers.end);
    let taken = AtomicUsize::new(first);
    let line = Mutex::new(Line { next: first, waiting: BTreeMap::new(), failed: None, join });
    let moved = Condvar::new();
    let panicked = AtomicBool::new(false);
    let work = || {
        // Whoever waits for a thread that panics must not wait for ever.
        let _guard = OnPanic(|| {
            panicked.store(true, Ordering::Relaxed);
            drop(line.lock());
            moved.notify_all();
        });
        loop {
            let i = taken.fetch_add(1, Ordering::Relaxed);
            if i >= end {
                return;
            }
            let made = make(i);
            let line = line.lock().unwrap_or_else(PoisonError::into_inner);
            // Whoever is far ahead waits; the next in line never does.
            let ahead = |line: &mut Line<T, E, _>| {
                let stopped = line.failed.is_some() || panicked.load(Ordering::Relaxed);
                !stopped && i >= line.next + WAITING * threads
            };
            let mut line = moved.wait_while(line, ahead).unwrap_or_else(PoisonError::into_inner);
            let line = &mut *line;
            line.waiting.insert(i, made);
            while line.failed.is_none()
                && let Some(made) = line.waiting.remove(&line.next)
            {
                match made {
                    Ok(made) => (line.join)(made),
                    Err(error) => {
                        line.failed = Some(error);
                        taken.store(end, Ordering::Relaxed);
                    }
                }
                line.next += 1;
            }
            moved.notify_all();
        }
    };
    std::thread::scope(|scope| {
        (1..threads.min(numbers.len())).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    match line.into_inner().unwrap_or_else(PoisonError::into_inner).failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Calls a function where it goes out of scope by a panic.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_joined_in_order_on_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let mut joined = Vec::new();
            let done: Result<(), ()> = in_order(threads, 3..103, Ok, |i| joined.push(i));
            assert_eq!((done, joined), (Ok(()), (3..103).collect()), "{threads} threads");
        }
    }

    #[test]
    fn the_first_error_in_order_is_reported_and_nothing_after_it_is_joined() {
        for threads in [1, 2, 5] {
            let mut joined = Vec::new();
            let make = |i: usize| {
                // The later error tends to be made first.
                if i == 40 {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                if i == 40 || i == 41 { Err(i) } else { Ok(i) }
            };
            assert_eq!(in_order(threads, 0..90, make, |i| joined.push(i)), Err(40));
            assert_eq!(joined, (0..40).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "panicked")]
    fn a_panic_ends_the_work_of_all_threads() {
        let make = |i: usize| {
            assert!(i != 2, "a leaf panicked");
            Ok::<_, ()>(i)
        };
        let _ = in_order(2, 0..1000, make, |_| ());
    }
}
