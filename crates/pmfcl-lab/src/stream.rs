//! A table as a stream of tasks.

use pmfcl::{Labels, Rows};

use crate::data::DataSet;

/// How the rows are divided into tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The set's own tasks, in order.
    Natural,
    /// This many classes a task, in the order of their numbers.
    Classes(usize),
    /// All classes in each of this many tasks; every task but the first sees the features through a
    /// permutation of its own, and so do its test rows.
    Permuted(usize),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Natural => f.write_str("natural tasks"),
            Self::Classes(k) => write!(f, "class-incremental, {k} a task"),
            Self::Permuted(t) => write!(f, "domain-incremental, {t} permutations"),
        }
    }
}

/// Rows with labels.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name.
    pub name: String,
    width: usize,
    x: Vec<f32>,
    /// Labels.
    pub labels: Labels,
    codes: Vec<u32>,
}

impl Part {
    fn new(name: String, table: &DataSet, rows: &[usize], order: Option<&[usize]>) -> Self {
        let width = table.width;
        let mut x = Vec::with_capacity(rows.len() * width);
        for &i in rows {
            let row = table.row(i);
            match order {
                Some(order) => x.extend(order.iter().map(|&j| row[j])),
                None => x.extend_from_slice(row),
            }
        }
        let codes: Vec<u32> = rows.iter().map(|&i| table.y[i]).collect();
        Self { name, width, x, labels: Labels::new(&codes), codes }
    }

    /// The features.
    ///
    /// # Panics
    /// Never: a part has whole rows.
    pub fn rows(&self) -> Rows<'_> {
        Rows::from_f32(&self.x, self.width).expect("whole rows")
    }

    /// All parts one below the other.
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn joined(parts: &[Part]) -> Self {
        let codes: Vec<u32> = parts.iter().flat_map(|p| p.codes.clone()).collect();
        Self {
            name: "all".to_owned(),
            width: parts[0].width,
            x: parts.iter().flat_map(|p| p.x.iter().copied()).collect(),
            labels: Labels::new(&codes),
            codes,
        }
    }
}

/// Tasks to learn one after the other, and the rows all of them are tested on.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Data set and kind.
    pub name: String,
    /// Every class there is.
    pub classes: Vec<String>,
    /// To learn.
    pub train: Vec<Part>,
    /// To test on: the test rows of all tasks.
    pub test: Part,
}

impl Stream {
    /// Divides a table; of every `thin` rows one is used.
    pub fn new(table: &DataSet, kind: Kind, thin: usize) -> Self {
        let rows = |test: bool, keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
            let all = (0..table.y.len()).filter(|&i| table.test[i] == test && keep(i));
            all.step_by(thin).collect()
        };
        let mut tests = Vec::new();
        let mut train = Vec::new();
        let count = match kind {
            Kind::Natural => table.task.iter().max().map_or(1, |t| *t as usize + 1),
            Kind::Classes(k) => table.classes().div_ceil(k),
            Kind::Permuted(t) => t,
        };
        for t in 0..count {
            let keep = |i: usize| match kind {
                Kind::Natural => table.task[i] as usize == t,
                Kind::Classes(k) => table.y[i] as usize / k == t,
                Kind::Permuted(_) => true,
            };
            let order = match kind {
                Kind::Permuted(_) if t > 0 => Some(permutation(table.width, t as u64)),
                _ => None,
            };
            let (learn, test) = (rows(false, &keep), rows(true, &keep));
            if !learn.is_empty() {
                train.push(Part::new(t.to_string(), table, &learn, order.as_deref()));
            }
            if !test.is_empty() {
                tests.push(Part::new(t.to_string(), table, &test, order.as_deref()));
            }
        }
        let mut classes: Vec<u32> = table.y.clone();
        classes.sort_unstable();
        classes.dedup();
        Self {
            name: format!("{}, {kind}", table.name),
            classes: classes.iter().map(ToString::to_string).collect(),
            train,
            test: Part::joined(&tests),
        }
    }
}

/// A permutation of `0..n` that depends on the seed alone (Fisher and Yates on splitmix64).
fn permutation(n: usize, seed: u64) -> Vec<usize> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, (next() % (i as u64 + 1)) as usize);
    }
    order
}
