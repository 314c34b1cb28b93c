//! Class names and codes.
//!
//! A class has a name. Whatever is shown lists classes in one order, whatever the order they appeared in: names
//! that are finite numbers first, by value (`2` before `10`), then all others by their characters. Inside, a class keeps
//! the column it was given when it first appeared, so that a new class changes no summary made before.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::rows::Targets;

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
/// use pmfcl::Labels;
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

impl<'a> From<&'a Labels> for Targets<'a> {
    fn from(labels: &'a Labels) -> Self {
        Self::Classes { codes: &labels.codes, names: &labels.names }
    }
}

impl Labels {
    /// From one label per row.
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

/// The classes of a learner.
///
/// Every class has a *place*, the column of targets and parameters it was given when it first appeared, which never
/// changes; [`Classes::names`] and everything shown to people is in sorted order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classes {
    by_place: Vec<String>,
    sorted: Vec<String>,
    /// The place of each of the sorted names.
    places: Vec<u32>,
}

impl Classes {
    /// Classes by their places.
    ///
    /// # Errors
    /// When a name is there twice.
    pub fn new(by_place: Vec<String>) -> Result<Self> {
        let mut places: Vec<u32> = (0..by_place.len() as u32).collect();
        places.sort_by(|&a, &b| order(&by_place[a as usize], &by_place[b as usize]));
        let sorted: Vec<String> = places.iter().map(|&at| by_place[at as usize].clone()).collect();
        if let Some([twice, _]) = sorted.array_windows().find(|[a, b]| a == b) {
            return Err(Error::Unsupported {
                operation: "this list of classes",
                reason: format!("`{twice}` is named twice"),
            });
        }
        Ok(Self { by_place, sorted, places })
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.by_place.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// The names in sorted order: numbers by value, then text.
    pub fn names(&self) -> &[String] {
        &self.sorted
    }

    /// The names by place.
    pub fn by_place(&self) -> &[String] {
        &self.by_place
    }

    /// The place of each of the sorted names.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The place of a class.
    pub fn place(&self, name: &str) -> Option<u32> {
        self.sorted.binary_search_by(|c| order(c, name)).ok().map(|at| self.places[at])
    }

    /// With the names that are not there yet added at the end, in sorted order.
    #[must_use]
    pub fn with(&self, names: &[String]) -> Self {
        let mut new: Vec<&String> = names.iter().filter(|n| self.place(n).is_none()).collect();
        if new.is_empty() {
            return self.clone();
        }
        new.sort_by(|a, b| order(a, b));
        new.dedup();
        let all = self.by_place.iter().chain(new).cloned().collect();
        Self::new(all).expect("names that are there are not added again")
    }

    /// The error for the first row whose class is unknown.
    pub(crate) fn refuse_unknown(&self, codes: &[u32], names: &[String]) -> Result<()> {
        let known: Vec<bool> = names.iter().map(|name| self.place(name).is_some()).collect();
        match codes.iter().position(|&code| !known[code as usize]) {
            None => Ok(()),
            Some(row) => Err(Error::UnknownClass {
                label: names[codes[row] as usize].clone(),
                row: row as u64,
                known: crate::error::listing(self.sorted.iter().map(String::as_str)),
            }),
        }
    }
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
    fn classes_keep_their_places_and_are_shown_in_order() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let first = Classes::new(list(&["2", "b"])).unwrap();
        let all = first.with(&list(&["c", "10", "b", "a"]));
        assert_eq!(all.by_place(), list(&["2", "b", "10", "a", "c"]));
        assert_eq!(all.names(), list(&["2", "10", "a", "b", "c"]));
        assert_eq!((all.place("b"), all.place("z")), (Some(1), None));
        assert!(Classes::new(list(&["a", "a"])).is_err());
    }
}
