//! A value that is made when first asked for, by one of the threads that ask.

use std::sync::{Mutex, OnceLock, PoisonError};

/// A value that is made when first asked for. Several threads may ask: one makes it, the others wait. An error is not kept.
#[derive(Debug)]
pub(super) struct Lazy<T> {
    value: OnceLock<T>,
    busy: Mutex<()>,
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self { value: OnceLock::new(), busy: Mutex::new(()) }
    }
}

impl<T: Clone> Clone for Lazy<T> {
    fn clone(&self) -> Self {
        self.value.get().cloned().map_or_else(Self::default, Self::made)
    }
}

impl<T> Lazy<T> {
    /// A value that is there already.
    pub(super) fn made(value: T) -> Self {
        Self { value: OnceLock::from(value), busy: Mutex::new(()) }
    }

    /// The value, where it has been made.
    pub(super) fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value to change, where it has been made.
    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Takes the value out, where it has been made.
    pub(super) fn take(&mut self) -> Option<T> {
        std::mem::take(self).value.into_inner()
    }

    /// The value, made by `make` if nobody has made it yet.
    pub(super) fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = make()?;
        Ok(self.value.get_or_init(|| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn one_thread_makes_the_value_and_errors_are_not_kept() {
        let lazy = Lazy::default();
        assert_eq!(lazy.get_or_try(|| Err::<u32, _>("no")), Err("no"));
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let value = lazy.get_or_try(|| {
                        made.fetch_add(1, Ordering::Relaxed);
                        Ok::<_, &str>(7)
                    });
                    assert_eq!(value, Ok(&7));
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
