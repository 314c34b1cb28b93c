//! A summary from sums of products made elsewhere, and the sums a summary stands for.
//!
//! Some places can only add numbers: an SQL engine, secure aggregation, a matrix unit in single precision. What they give is
//! `XᵀX`, `XᵀY`, `Σ y²`, `Σ y` and `n`; the root is taken here. Sums of products lose twice the digits of the condition number, so
//! where rows are available, a [`Summarizer`](super::Summarizer) is better.

use super::Summary;
use super::echelon;
use crate::error::{Error, Result};
use crate::kernel::Gram;

/// How far sums may be from those of any rows, as a share of the norms involved: what single precision leaves.
const SLACK: f64 = 1e-5;

/// Sums of products over rows.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for lab, secagg
pub struct Products {
    /// Σ of sample weights.
    pub n: f64,
    /// Columns of the design, the intercept included.
    pub features: usize,
    /// Targets.
    pub targets: usize,
    /// `XᵀX`: row after row, from the diagonal on.
    pub xx: Vec<f64>,
    /// `XᵀY`: feature after feature.
    pub xy: Vec<f64>,
    /// `Σ y²` of each target.
    pub yy: Vec<f64>,
    /// `Σ y` of each target.
    pub y: Vec<f64>,
}

impl Products {
    /// Where `XᵀX[i][i..]` begins in `xx`.
    fn row(&self, i: usize) -> usize {
        i * self.features - i * i.saturating_sub(1) / 2
    }

    fn check(&self) -> Result<()> {
        let (m, p) = (self.features, self.targets);
        if m == 0 || p == 0 {
            return Err(Error::Empty { what: "the sums of products" });
        }
        for (what, number, list, expected) in [
            ("the triangle of products", "a product of features", &self.xx, m * (m + 1) / 2),
            ("the table of products with targets", "a product with a target", &self.xy, m * p),
            ("the list of squares of targets", "a sum of squared targets", &self.yy, p),
            ("the list of sums of targets", "a sum of targets", &self.y, p),
        ] {
            if list.len() != expected {
                let found = list.len();
                return Err(Error::Shape { what, unit: "numbers", expected, found });
            }
            if let Some(value) = list.iter().find(|v| !v.is_finite()) {
                return Err(Error::Range { what: number, value: *value, must: "finite" });
            }
        }
        if !(self.n > 0.0 && self.n.is_finite()) {
            return Err(Error::Range {
                what: "the number of samples",
                value: self.n,
                must: "positive and finite",
            });
        }
        Ok(())
    }
}

impl Summary {
    /// The summary of rows of which only sums of products are left.
    ///
    /// Cost: `m³/3` flops; more where columns depend on each other.
    ///
    /// # Errors
    /// When shapes do not agree, a number is not finite, or no rows have such sums: `[X Y]ᵀ[X Y]` must be positive
    /// semi-definite, to what single precision leaves.
    pub fn from_products(products: &Products) -> Result<Summary> {
        Self::rooted(products, None)
    }

    /// The same for sums that are known to be those of `rows` rows: the rank is then at most that, which sums alone do not
    /// show where there are fewer rows than columns.
    ///
    /// # Errors
    /// As [`Summary::from_products`].
    pub fn from_products_of_rows(products: &Products, rows: u64) -> Result<Summary> {
        Self::rooted(products, Some(rows))
    }

    fn rooted(products: &Products, rows: Option<u64>) -> Result<Summary> {
        products.check()?;
        let (m, p) = (products.features, products.targets);
        let gram = Gram::from_upper(m, p, &products.xx, &products.xy, &products.yy);
        let (n, target_sum) = (products.n, products.y.clone());
        let summary =
            echelon::from_gram(echelon::Sums { gram: &gram, n, rows, target_sum, shift: &[] })
                .map_err(|column| Error::Overflow { column })?;
        summary.stands_for(products)?;
        Ok(summary)
    }

    /// The sums of products of the rows this summary stands for.
    ///
    /// Cost: `r m²` flops.
    pub fn products(&self) -> Products {
        let (m, p) = (self.m, self.p);
        let mut out = Products {
            n: self.n,
            features: m,
            targets: p,
            xx: vec![0.0; m * (m + 1) / 2],
            xy: vec![0.0; m * p],
            yy: self.residual().to_vec(),
            y: self.target_sum.clone(),
        };
        for (pivot, r, z) in self.iter() {
            for (i, a) in r.iter().enumerate() {
                let at = out.row(pivot + i);
                for (sum, b) in out.xx[at..].iter_mut().zip(&r[i..]) {
                    *sum += a * b;
                }
                for (sum, b) in out.xy[(pivot + i) * p..].iter_mut().zip(z) {
                    *sum += a * b;
                }
            }
            for (sum, b) in out.yy.iter_mut().zip(z) {
                *sum += b * b;
            }
        }
        out
    }

    /// Whether sums can be those of rows: what Cholesky left out must be rounding, and no residual negative.
    fn stands_for(&self, products: &Products) -> Result<()> {
        let (m, p) = (self.m, self.p);
        let refuse = |value: f64| {
            Err(Error::Range {
                what: "an eigenvalue of the products",
                value,
                must: "zero or more: no rows have these sums",
            })
        };
        let diagonal = |j: usize| products.xx[products.row(j)];
        if let Some(j) = (0..m).find(|&j| diagonal(j) < 0.0) {
            return refuse(diagonal(j));
        }
        let mut free = vec![true; m];
        self.pivots().for_each(|j| free[j] = false);
        for j in (0..m).filter(|&j| free[j]) {
            let mut left: Vec<f64> = products.xx[products.row(j)..][..m - j].to_vec();
            let mut targets: Vec<f64> = products.xy[j * p..][..p].to_vec();
            for (pivot, r, z) in self.iter().take_while(|(pivot, ..)| *pivot < j) {
                // A row of a single entry has nothing in column j.
                let Some(r @ [a, ..]) = r.get(j - pivot..) else { continue };
                left.iter_mut().zip(r).for_each(|(v, b)| *v -= a * b);
                targets.iter_mut().zip(z).for_each(|(v, b)| *v -= a * b);
            }
            for (l, v) in left.iter().enumerate() {
                if v.abs() > SLACK * (diagonal(j) * diagonal(j + l)).sqrt() {
                    return refuse(-v.abs());
                }
            }
            for (v, yy) in targets.iter().zip(&products.yy) {
                if v.abs() > SLACK * (diagonal(j) * yy).sqrt() {
                    return refuse(-v.abs());
                }
            }
        }
        for k in 0..p {
            let fitted: f64 = self.iter().map(|(.., z)| z[k] * z[k]).sum();
            let left = products.yy[k] - fitted;
            if left < -SLACK * products.yy[k].max(0.0) || products.yy[k] < 0.0 {
                return refuse(left.min(products.yy[k]));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rows;
    use crate::basis::Design;
    use crate::summary::{Accumulator, Summarizer};

    fn summary(x: &[f64], d: usize, y: &[f64]) -> Summary {
        let design = Design::linear(d, true).expect("linear");
        let mut summarizer = Summarizer::new(design, 1, Accumulator::Qr).expect("columns");
        summarizer
            .add(Rows::new(x, d).expect("rows"), Rows::new(y, 1).expect("rows"), None)
            .expect("finite");
        summarizer.finish().expect("rows")
    }

    #[test]
    fn there_and_back_is_the_same_summary() {
        // The third column is the sum of the first two: rank 3 of 4.
        let x = [1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 4.0, 0.0, 4.0, -2.0, 1.5, -0.5, 0.3, 0.9, 1.2];
        let whole = summary(&x, 3, &[1.0, -2.0, 0.5, 3.0, 1.0]);
        let back = Summary::from_products(&whole.products()).expect("sums of rows");
        assert_eq!((back.rank(), whole.rank()), (3, 3));
        for ((_, r, z), (_, r2, z2)) in whole.iter().zip(back.iter()) {
            for (a, b) in r.iter().chain(z).zip(r2.iter().chain(z2)) {
                assert!((a - b).abs() < 1e-12, "{a} {b}");
            }
        }
        assert!((whole.residual()[0] - back.residual()[0]).abs() < 1e-12);
        assert_eq!(whole.target_sums(), back.target_sums());
    }

    #[test]
    fn sums_that_no_rows_have_are_refused() {
        let good = summary(&[1.0, 2.0, 4.0], 1, &[1.0, 0.0, 2.0]).products();
        assert!(Summary::from_products(&good).is_ok());
        let bad = |change: &dyn Fn(&mut Products)| {
            let mut sums = good.clone();
            change(&mut sums);
            Summary::from_products(&sums).expect_err("no rows have these sums");
        };
        bad(&|s| s.xx[1] = 1e3); // a correlation above 1
        bad(&|s| s.xx[2] = -1.0); // a negative square
        bad(&|s| s.yy[0] = 0.1); // less than what is explained
        bad(&|s| s.xy[0] = f64::NAN);
        bad(&|s| s.n = 0.0);
        bad(&|s| {
            s.xx.pop();
        });
    }
}
