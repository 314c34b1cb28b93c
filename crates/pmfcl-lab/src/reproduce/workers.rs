//! Many small jobs over a few threads, with the results in the order of the jobs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `f(i)` for every `i < count`. `f` must not depend on the order it is called in; then the result does not depend on the
/// number of threads.
pub(super) fn map<T: Send>(count: usize, threads: usize, f: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<T>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        break;
                    }
                    let result = f(i);
                    done.lock().expect("no job panics while it holds the list")[i] = Some(result);
                }
            });
        }
    });
    let done = done.into_inner().expect("all threads have ended well");
    done.into_iter().map(|one| one.expect("every job was taken")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let wanted: Vec<usize> = (0..57).map(|i| i * i).collect();
        for threads in [1, 2, 5, 100] {
            assert_eq!(map(57, threads, |i| i * i), wanted);
        }
        assert!(map(0, 3, |i| i).is_empty());
    }
}
