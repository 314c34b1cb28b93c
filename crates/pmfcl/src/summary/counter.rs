//! Many parts merged two by two, along a tree that depends on their number alone.

/// Merges values like the digits of a binary counter: a value is merged with the one before it as soon as both stand for
/// equally many values that were pushed.
///
/// So both sides of a merger are of like size, which costs the fewest digits; the same sequence of values is
/// merged along the same tree, hence with the same bits; and at most one value for each power of two is in memory.
///
/// ```
/// use pmfcl::summary::Counter;
/// let join = |older: String, newer: String| Ok::<_, ()>(format!("({older} {newer})"));
/// let mut counter = Counter::new();
/// for value in ["a", "b", "c", "d", "e", "f", "g"] {
///     counter.push(value.to_owned(), join)?;
/// }
/// assert_eq!(counter.finish(join)?.as_deref(), Some("(((a b) (c d)) ((e f) g))"));
/// # Ok::<(), ()>(())
/// ```
#[derive(Debug, Clone)]
#[doc(hidden)] // for ingest
pub struct Counter<T> {
    /// Level `l` holds the merger of `2^l` values or none; higher levels are older.
    levels: Vec<Option<T>>,
}

impl<T> Default for Counter<T> {
    fn default() -> Self {
        Self { levels: Vec::new() }
    }
}

impl<T> Counter<T> {
    /// A counter of no values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value. `merge` is given the older of two first.
    ///
    /// # Errors
    /// Those of `merge`. The values that were to be merged are lost then, so the counter should be dropped.
    pub fn push<E>(
        &mut self,
        value: T,
        mut merge: impl FnMut(T, T) -> Result<T, E>,
    ) -> Result<(), E> {
        let mut value = value;
        for level in &mut self.levels {
            match level.take() {
                Some(older) => value = merge(older, value)?,
                None => {
                    *level = Some(value);
                    return Ok(());
                }
            }
        }
        self.levels.push(Some(value));
        Ok(())
    }

    /// The merger of all values, small ones first, so that the largest is merged last; `None` where there are none.
    ///
    /// # Errors
    /// Those of `merge`.
    pub fn finish<E>(self, mut merge: impl FnMut(T, T) -> Result<T, E>) -> Result<Option<T>, E> {
        let mut all: Option<T> = None;
        for older in self.levels.into_iter().flatten() {
            all = Some(match all {
                Some(newer) => merge(older, newer)?,
                None => older,
            });
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A run of numbers from `from` to `to`, and the tree it was merged along.
    #[derive(Debug, Clone, PartialEq)]
    struct Run {
        from: usize,
        to: usize,
        tree: String,
    }

    #[expect(
        clippy::needless_pass_by_value,
        clippy::unnecessary_wraps,
        reason = "what a counter merges with"
    )]
    fn join(older: Run, newer: Run) -> Result<Run, Infallible> {
        assert_eq!(older.to, newer.from, "neighbours, the older one first");
        let tree = format!("({}{})", older.tree, newer.tree);
        Ok(Run { from: older.from, to: newer.to, tree })
    }

    fn merged(count: usize) -> Option<Run> {
        let mut counter = Counter::new();
        for i in 0..count {
            let Ok(()) = counter.push(Run { from: i, to: i + 1, tree: ".".to_owned() }, join);
            let held = counter.levels.iter().flatten().count();
            assert_eq!(held, (i + 1).count_ones() as usize, "one for each binary digit that is 1");
        }
        let Ok(all) = counter.finish(join);
        all
    }

    #[test]
    fn values_are_merged_in_the_order_they_were_pushed() {
        assert_eq!(merged(0), None);
        for count in 1..=70 {
            let all = merged(count).expect("at least one value");
            assert_eq!((all.from, all.to), (0, count));
            assert_eq!(Some(all), merged(count), "the same sequence, the same tree");
        }
    }

    #[test]
    fn both_sides_of_a_merger_are_of_like_size() {
        let tree = |count| merged(count).map(|run| run.tree).unwrap_or_default();
        assert_eq!(tree(1), ".");
        assert_eq!(tree(2), "(..)");
        assert_eq!(tree(3), "((..).)");
        assert_eq!(tree(4), "((..)(..))");
        // 6 = 4 + 2 and 7 = 4 + 2 + 1: the smaller two are merged first.
        assert_eq!(tree(6), "(((..)(..))(..))");
        assert_eq!(tree(7), "(((..)(..))((..).))");
    }

    #[test]
    fn errors_of_mergers_are_returned() {
        let odd = |a: u32, b: u32| if (a + b).is_multiple_of(2) { Ok(a + b) } else { Err("odd") };
        let mut counter = Counter::new();
        assert_eq!(counter.push(1, odd), Ok(()));
        assert_eq!(counter.push(2, odd), Err("odd"));
        let mut counter = Counter::default();
        for value in [1, 1, 1] {
            assert_eq!(counter.push(value, odd), Ok(()));
        }
        assert_eq!(counter.finish(odd), Err("odd"));
    }
}
