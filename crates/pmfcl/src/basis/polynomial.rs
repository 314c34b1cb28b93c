//! `poly:q`: monomials of total degree 1 to q, in graded lexicographic order.
//!
//! For two inputs and q = 3: a, b, a², ab, b², a³, a²b, ab², b³, the order of scikit-learn's
//! `PolynomialFeatures` without its constant. A monomial is its parent, one degree lower, times
//! one input, so each costs one product.

use super::{MAX_COLUMNS, Monomial};

/// All monomials, or only pure powers, as a list of products.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Polynomial {
    runs: Vec<Run>,
}

/// Monomials next to each other with one parent: parent · x\[from\], …, parent · x\[to − 1\].
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    parent: usize,
    from: usize,
    to: usize,
}

/// C(d + q, q) − 1, unless beyond [`MAX_COLUMNS`].
pub(super) fn width(d: usize, degree: usize) -> Option<usize> {
    let mut binomial: u128 = 1;
    for i in 1..=degree {
        // C(d + i, i) = C(d + i − 1, i − 1)·(d + i)/i, without remainder; grows with i.
        binomial = binomial.checked_mul((d + i) as u128)? / i as u128;
        if binomial > MAX_COLUMNS as u128 + 1 {
            return None;
        }
    }
    Some(binomial as usize - 1)
}

impl Polynomial {
    /// Cost: O(m).
    pub(super) fn build(d: usize, degree: usize, interactions: bool) -> Self {
        let mut runs = Vec::new();
        // Monomials of the degree before: where they start, and the last input of each.
        let mut start = 0;
        let mut lasts: Vec<usize> = (0..d).collect();
        for _ in 1..degree {
            let mut next = Vec::new();
            for (i, &last) in lasts.iter().enumerate() {
                let to = if interactions { d } else { last + 1 };
                runs.push(Run { parent: start + i, from: last, to });
                next.extend(last..to);
            }
            start += lasts.len();
            lasts = next;
        }
        Self { runs }
    }

    /// φ of one row.
    pub(super) fn row(&self, x: &[f64], out: &mut [f64]) {
        out[..x.len()].copy_from_slice(x);
        let mut at = x.len();
        for run in &self.runs {
            let (known, rest) = out.split_at_mut(at);
            let parent = known[run.parent];
            for (out, x) in rest.iter_mut().zip(&x[run.from..run.to]) {
                *out = parent * x;
            }
            at += run.to - run.from;
        }
    }

    /// The columns as products.
    pub(super) fn monomials(&self, d: usize) -> Vec<Monomial> {
        let product = |parent, input| Monomial { parent, input };
        let first = (0..d).map(|j| product(None, j));
        let rest = self
            .runs
            .iter()
            .flat_map(|run| (run.from..run.to).map(|j| product(Some(run.parent), j)));
        first.chain(rest).collect()
    }

    /// Of the inputs in a monomial, the largest.
    pub(super) fn responsible_input(&self, x: &[f64], feature: usize) -> usize {
        let mut at = feature;
        let mut largest = None;
        while at >= x.len() {
            let mut first = x.len();
            let run = self.runs.iter().find(|run| {
                first += run.to - run.from;
                at < first
            });
            let run = run.expect("every monomial of degree two or more is in a run");
            let input = run.to - (first - at);
            largest = [Some(input), largest].into_iter().flatten().max_by(by_size(x));
            at = run.parent;
        }
        [Some(at), largest].into_iter().flatten().max_by(by_size(x)).unwrap_or_default()
    }

    /// `x1`, `x1*x2`, `x1^2*x2`.
    pub(super) fn names(&self, x: &[String]) -> Vec<String> {
        // What precedes the last input's power, the last input, its power.
        let mut terms: Vec<(String, usize, usize)> =
            (0..x.len()).map(|j| (String::new(), j, 1)).collect();
        let write = |(before, j, power): &(String, usize, usize)| {
            let x = &x[*j];
            if *power == 1 { format!("{before}{x}") } else { format!("{before}{x}^{power}") }
        };
        for run in &self.runs {
            for j in run.from..run.to {
                let parent = &terms[run.parent];
                let term = if parent.1 == j {
                    (parent.0.clone(), j, parent.2 + 1)
                } else {
                    (format!("{}*", write(parent)), j, 1)
                };
                terms.push(term);
            }
        }
        terms.iter().map(write).collect()
    }
}

fn by_size(x: &[f64]) -> impl Fn(&usize, &usize) -> std::cmp::Ordering {
    |a, b| x[*a].abs().total_cmp(&x[*b].abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::{Basis, BasisError};

    fn names(spec: &str, d: usize) -> Vec<String> {
        spec.parse::<Basis>().unwrap().fix(&[], d).unwrap().names(&[])
    }

    #[test]
    fn names_follow_the_graded_lexicographic_order() {
        let expected = ["x1", "x2", "x1^2", "x1*x2", "x2^2", "x1^3", "x1^2*x2", "x1*x2^2", "x2^3"];
        assert_eq!(names("poly:3", 2), expected);
        let expected = ["x1", "x2", "x1^2", "x2^2", "x1^3", "x2^3"];
        assert_eq!(names("poly:3,interactions=false", 2), expected);
        assert_eq!(names("poly:1", 3), ["x1", "x2", "x3"]);
    }

    #[test]
    fn every_monomial_equals_the_product_its_exponents_say() {
        // Independent of the runs: count exponents by brute force over all words of inputs.
        let x = [1.5, -0.25, 3.0, 2.0];
        let map = "poly:4".parse::<Basis>().unwrap().fix(&[], 4).unwrap();
        let mut out = vec![0.0; map.width()];
        map.apply(&x, &mut out, map.width(), 0).unwrap();
        let mut expected = Vec::new();
        for degree in 1..=4_u32 {
            for word in 0..4_usize.pow(degree) {
                let digits: Vec<usize> =
                    (0..degree).rev().map(|place| word / 4_usize.pow(place) % 4).collect();
                if digits.is_sorted() {
                    expected.push(digits.iter().map(|j| x[*j]).product::<f64>());
                }
            }
        }
        // Powers of two and small integers: exact in any order.
        assert_eq!(out, expected);
    }

    #[test]
    fn widths_are_binomials_and_limited() {
        assert_eq!(width(3, 2), Some(9));
        assert_eq!(width(13, 4), Some(2379));
        assert_eq!(width(784, 2), Some(784 + 784 * 785 / 2));
        assert_eq!(width(784, 3), None);
        assert_eq!(width(usize::MAX / 2, 1_000_000), None);
        let refused = "poly:3".parse::<Basis>().unwrap().fix(&[], 784);
        assert!(matches!(refused, Err(BasisError::TooLarge { inputs: 784, .. })));
    }

    #[test]
    fn overflow_blames_the_largest_input_of_the_monomial() {
        let map = "poly:3".parse::<Basis>().unwrap().fix(&[], 3).unwrap();
        let mut out = vec![0.0; map.width()];
        let refused = map.apply(&[1e3, 2.0, -1e153], &mut out, map.width(), 0);
        assert!(
            matches!(refused, Err(BasisError::Overflow { row: 0, column: 2, .. })),
            "{refused:?}"
        );
    }
}
