//! Class names and codes.
//!
//! A class has a name. Outside and inside, classes stand in one order, whatever the order they appeared
//! in: names that are finite numbers first, by value (`2` before `10`), then all others by their
//! characters. So two learners that saw the same rows in another order hold the same columns, and
//! merging inserts columns without moving any.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result};

/// What may be given as a class label: text or a whole number.
pub trait Label {
    /// The name of the class.
    fn name(&self) -> Cow<'_, str>;
}

impl<T: Label + ?Sized> Label for &T {
    fn name(&self) -> Cow<'_, str> {
        (**self).name()
    }
}

impl Label for str {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

impl Label for String {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed(self)
    }
}

macro_rules! whole_numbers {
    ($($t:ty),*) => {$(
        impl Label for $t {
            fn name(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )*};
}
whole_numbers!(i8, i16, i32, i64, u8, u16, u32, u64, usize, isize, bool);

/// The labels of a task: a code for each row, a name for each code.
///
/// ```
/// use pmfcl::classify::Labels;
/// let labels = Labels::new(&["b", "a", "b"]);
/// assert_eq!(labels.len(), 3);
/// assert_eq!(labels.names(), ["a", "b"]);
/// assert_eq!(Labels::new(&[10, 2]).names(), ["2", "10"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    names: Vec<String>,
    codes: Vec<u32>,
}

impl Labels {
    /// From one label a row.
    pub fn new<L: Label>(labels: &[L]) -> Self {
        let mut seen: HashMap<Cow<'_, str>, u32> = HashMap::new();
        let mut names: Vec<String> = Vec::new();
        let codes = labels
            .iter()
            .map(|label| {
                let name = label.name();
                *seen.entry(name).or_insert_with_key(|name| {
                    names.push(name.to_string());
                    (names.len() - 1) as u32
                })
            })
            .collect();
        Self { names, codes }.sorted()
    }

    /// From codes that count from 0 into a list of names. Names no row has are left out.
    ///
    /// # Errors
    /// When a code is beyond the list.
    pub fn from_codes(codes: &[u32], names: &[String]) -> Result<Self> {
        if let Some(code) = codes.iter().find(|&&c| c as usize >= names.len()) {
            return Err(Error::Range {
                what: "a class code",
                value: f64::from(*code),
                must: "below the number of class names",
            });
        }
        let mut used = vec![u32::MAX; names.len()];
        let mut kept = Vec::new();
        let codes = codes
            .iter()
            .map(|&c| {
                let at = &mut used[c as usize];
                if *at == u32::MAX {
                    *at = kept.len() as u32;
                    kept.push(names[c as usize].clone());
                }
                *at
            })
            .collect();
        Ok(Self { names: kept, codes }.sorted())
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// The classes that occur, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The class of every row, counted within [`Labels::names`].
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The name of row `i`'s class.
    pub fn name(&self, i: usize) -> &str {
        &self.names[self.codes[i] as usize]
    }

    /// The class of every row, counted within `classes`; the first row whose class is not there is an
    /// error.
    pub(crate) fn within(&self, classes: &[String]) -> Result<Vec<u32>> {
        let places: Vec<Option<u32>> = self.places(classes);
        let find = |(row, &code): (usize, &u32)| {
            places[code as usize].ok_or_else(|| Error::UnknownClass {
                label: self.names[code as usize].clone(),
                row: row as u64,
                known: crate::error::listing(classes.iter().map(String::as_str)),
            })
        };
        self.codes.iter().enumerate().map(find).collect()
    }

    /// Where each of the names stands in `classes`.
    pub(crate) fn places(&self, classes: &[String]) -> Vec<Option<u32>> {
        let place =
            |name: &String| classes.binary_search_by(|c| order(c, name)).ok().map(|at| at as u32);
        self.names.iter().map(place).collect()
    }

    fn sorted(self) -> Self {
        let mut by_name: Vec<usize> = (0..self.names.len()).collect();
        by_name.sort_by(|&a, &b| order(&self.names[a], &self.names[b]));
        let mut rank = vec![0; by_name.len()];
        for (new, &old) in by_name.iter().enumerate() {
            rank[old] = new as u32;
        }
        Self {
            names: by_name.iter().map(|&i| self.names[i].clone()).collect(),
            codes: self.codes.iter().map(|&c| rank[c as usize]).collect(),
        }
    }
}

/// The order of classes: numbers by value, then text.
pub(crate) fn order(a: &str, b: &str) -> Ordering {
    let number = |s: &str| s.parse::<f64>().ok().filter(|v| v.is_finite());
    match (number(a), number(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y).then_with(|| a.cmp(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Both lists of classes together, and where in the union the names missing from `ours` stand
/// (ascending: inserted one after the other they end up there).
pub(crate) fn union(ours: &[String], theirs: &[String]) -> (Vec<String>, Vec<usize>) {
    let mut all: Vec<String> = ours.iter().chain(theirs).cloned().collect();
    all.sort_by(|a, b| order(a, b));
    all.dedup();
    let missing = |name: &String| ours.binary_search_by(|c| order(c, name)).is_err();
    let places = all.iter().enumerate().filter(|(_, n)| missing(n)).map(|(i, _)| i).collect();
    (all, places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_by_value_before_text() {
        let labels = Labels::new(&["b", "10", "nan", "2", "a", "-1"]);
        assert_eq!(labels.names(), ["-1", "2", "10", "a", "b", "nan"]);
        assert_eq!(labels.name(1), "10");
    }

    #[test]
    fn codes_without_rows_are_left_out() {
        let names = ["z", "y", "x"].map(String::from);
        let labels = Labels::from_codes(&[2, 0, 2], &names).unwrap();
        assert_eq!(
            (labels.names(), labels.codes()),
            (&["x".into(), "z".into()][..], &[0, 1, 0][..])
        );
        assert!(Labels::from_codes(&[3], &names).is_err());
    }

    #[test]
    fn a_union_says_where_the_new_ones_go() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let (all, new) = union(&list(&["2", "b"]), &list(&["10", "a", "b", "c"]));
        assert_eq!((all, new), (list(&["2", "10", "a", "b", "c"]), vec![1, 2, 4]));
    }
}
