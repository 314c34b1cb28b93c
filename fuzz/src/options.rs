//! What is written behind options of the command line: what is read is written and read again as the same.
//!
//! The first byte chooses the option, the rest is its text.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use pmfcl::{Basis, ClassList, MemoryKind, Preference, Problem, Ridge, Settings};

/// Reads, writes, reads.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match first % 6 {
        0 => same::<Basis>(text),
        1 => same::<Ridge>(text),
        2 => same::<Preference>(text),
        3 => same::<MemoryKind>(text),
        4 => loss(text),
        _ => option(text),
    }
}

fn same<T: FromStr + Display + PartialEq + Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let written = value.to_string();
    let again = written.parse::<T>().ok().unwrap_or_else(|| panic!("`{written}` of `{text}`"));
    assert_eq!(again, value, "`{written}` of `{text}`");
    assert_eq!(again.to_string(), written);
}

fn problems(text: &str) -> impl Iterator<Item = Problem> {
    let kinds = [None, Some(ClassList::Open)];
    kinds.into_iter().filter_map(move |classes| Problem::parse(text, classes).ok())
}

fn loss(text: &str) {
    for problem in problems(text) {
        let written = problem.to_string();
        let classes = problem.predicts_classes().then_some(ClassList::Open);
        let again =
            Problem::parse(&written, classes).unwrap_or_else(|e| panic!("`{written}`: {e}"));
        assert_eq!(again.to_string(), written);
        let _ = pmfcl::Learner::new(problem, Settings { threads: 1, ..Settings::default() });
    }
}

/// `loss name=value`.
fn option(text: &str) {
    let mut words = text.splitn(3, [' ', '=']);
    let (Some(loss), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    for problem in problems(loss) {
        let Ok(with) = problem.with_option(name, value) else { continue };
        for (name, value) in with.options() {
            let again = with.clone().with_option(name, &value);
            assert!(again.is_ok(), "{name}={value}, which it says of itself");
        }
    }
}
