//! Sums of products as integers, so that their sum is exact whatever the order.

use pmfcl::summary::Products;

use crate::error::{Error, Result};
use crate::params::Params;

/// How a number is made an integer: `round(v · 2^scale)`, refused where `|v| > 2^bound`.
///
/// Integers have 128 bits, because `XᵀX` of rows in ordinary units spans what 64 bits cannot hold: the default keeps every double of
/// at least 2⁻⁸ in size to its last bit, and rounds smaller ones to 2⁻⁶¹. `bound + scale` and the bits of the number of clients come
/// to at most 126, so no sum of clients can wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedPoint {
    scale: u8,
    bound: u8,
}

impl Default for FixedPoint {
    /// Steps of 2⁻⁶⁰ up to 2⁵⁰ (about 10¹⁵), for at most 65,536 clients.
    fn default() -> Self {
        Self { scale: 60, bound: 50 }
    }
}

impl FixedPoint {
    /// Steps of `2^-scale` up to `2^bound`.
    ///
    /// # Errors
    /// When together they leave no room for clients.
    pub fn new(scale: u8, bound: u8) -> Result<Self> {
        if u32::from(scale) + u32::from(bound) > 125 {
            return Err(Error::Params {
                reason: format!(
                    "a scale of {scale} bits and a bound of {bound} bits leave no room to add clients: together they are at most 125"
                ),
            });
        }
        Ok(Self { scale, bound })
    }

    /// Bits behind the point.
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// Bits before the point.
    pub fn bound(self) -> u8 {
        self.bound
    }

    /// Most clients whose sum cannot wrap, as bits.
    pub(crate) fn room(self) -> u32 {
        126 - u32::from(self.scale) - u32::from(self.bound)
    }

    /// The sums of one client as integers modulo 2¹²⁸, in the order of the fields of [`Products`].
    pub(crate) fn integers(self, params: &Params, products: &Products) -> Result<Vec<u128>> {
        let (m, p) = (params.features(), params.targets());
        for (what, expected, found) in [
            ("the number of columns", m, products.features),
            ("the number of targets", p, products.targets),
            ("the triangle of products", m * (m + 1) / 2, products.xx.len()),
            ("the products with targets", m * p, products.xy.len()),
            ("the squares of targets", p, products.yy.len()),
            ("the sums of targets", p, products.y.len()),
        ] {
            if expected != found {
                return Err(Error::Shape { what, expected, found });
            }
        }
        if products.n.is_nan() || products.n <= 0.0 {
            return Err(Error::Number {
                number: "the number of samples".to_owned(),
                value: products.n,
                must: "must be positive; a client without rows stays away".to_owned(),
            });
        }
        let all = [products.n].into_iter().chain(
            [&products.xx, &products.xy, &products.yy, &products.y].into_iter().flatten().copied(),
        );
        let (unit, most) = (power(self.scale), power(self.bound));
        let integer = |(at, v): (usize, f64)| {
            if v.is_nan() || v.abs() > most {
                return Err(Error::Number {
                    number: name(at, m, p),
                    value: v,
                    must: format!(
                        "the agreed fixed point holds numbers up to 2^{} = {most:e}; rescale features and targets to about one, or agree on fewer \
                         than {} bits of scale and a larger bound",
                        self.bound, self.scale
                    ),
                });
            }
            Ok(((v * unit).round_ties_even() as i128).cast_unsigned())
        };
        all.enumerate().map(integer).collect()
    }

    /// The sums of `clients` clients; each number is rounded to a double once, here.
    pub(crate) fn products(
        self,
        params: &Params,
        clients: usize,
        sum: &[u128],
    ) -> Result<Products> {
        let (m, p) = (params.features(), params.targets());
        let most = (clients as u128) << (self.scale + self.bound);
        let step = 1.0 / power(self.scale);
        let mut values = Vec::with_capacity(sum.len());
        for v in sum {
            let v = v.cast_signed();
            if v.unsigned_abs() > most {
                return Err(Error::Sum);
            }
            values.push(v as f64 * step);
        }
        let mut rest = values.into_iter();
        let mut next = |count: usize| rest.by_ref().take(count).collect::<Vec<f64>>();
        let n = next(1)[0];
        Ok(Products {
            n,
            features: m,
            targets: p,
            xx: next(m * (m + 1) / 2),
            xy: next(m * p),
            yy: next(p),
            y: next(p),
        })
    }
}

/// `2^bits`, exactly.
fn power(bits: u8) -> f64 {
    f64::from_bits((1023 + u64::from(bits)) << 52)
}

/// What the number at a place is called.
fn name(at: usize, m: usize, p: usize) -> String {
    let Some(mut at) = at.checked_sub(1) else { return "the number of samples".to_owned() };
    for i in 0..m {
        if at < m - i {
            return format!("the sum of products of columns {i} and {}", i + at);
        }
        at -= m - i;
    }
    if at < m * p {
        return format!("the sum of products of column {} and target {}", at / p, at % p);
    }
    at -= m * p;
    if at < p {
        format!("the sum of squares of target {at}")
    } else {
        format!("the sum of target {}", at - p)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(numbers: [f64; 8]) -> Products {
        let [n, a, b, c, d, e, f, g] = numbers;
        Products {
            n,
            features: 2,
            targets: 1,
            xx: vec![a, b, c],
            xy: vec![d, e],
            yy: vec![f],
            y: vec![g],
        }
    }

    fn params(fixed: FixedPoint) -> Params {
        Params::new(2, 3, 2, 1).unwrap().fixed_point(fixed).unwrap()
    }

    #[test]
    fn doubles_of_ordinary_size_come_back_bit_for_bit() {
        let fixed = FixedPoint::default();
        let params = params(fixed);
        let given = sums([7.0, 3.3, -1e-2, 1e15, 0.1 + 0.2, -987_654.321, 1.0 / 3.0, -0.0]);
        let integers = fixed.integers(&params, &given).unwrap();
        assert_eq!(fixed.products(&params, 1, &integers).unwrap(), given);
    }

    #[test]
    fn a_number_out_of_range_is_named() {
        let fixed = FixedPoint::new(60, 20).unwrap();
        let good = [7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let names = [
            "the number of samples",
            "columns 0 and 0",
            "columns 0 and 1",
            "columns 1 and 1",
            "column 0 and target 0",
            "column 1 and target 0",
            "squares of target 0",
            "sum of target 0",
        ];
        for (at, name) in names.iter().enumerate() {
            for value in [1_048_576.1, 1e300, f64::INFINITY, f64::NAN] {
                let mut bad = good;
                bad[at] = value;
                let error = fixed.integers(&params(fixed), &sums(bad)).unwrap_err().to_string();
                assert!(error.contains(name), "{error}");
                assert!(value.is_nan() || error.contains("rescale"), "{error}");
            }
        }
        let mut most = good;
        most[1] = 1_048_576.0;
        most[2] = -1_048_576.0;
        fixed.integers(&params(fixed), &sums(most)).unwrap();
    }

    #[test]
    fn the_largest_sums_do_not_wrap() {
        // 125 bits leave one for clients: two of them at the bound on either side.
        let fixed = FixedPoint::new(62, 63).unwrap();
        assert!(Params::new(2, 3, 2, 1).unwrap().fixed_point(fixed).is_err());
        let params = Params::new(2, 2, 2, 1).unwrap().fixed_point(fixed).unwrap();
        let top = power(63);
        let one =
            fixed.integers(&params, &sums([top, top, -top, top, -top, top, top, -top])).unwrap();
        let two: Vec<u128> = one.iter().map(|v| v.wrapping_add(*v)).collect();
        let back = fixed.products(&params, 2, &two).unwrap();
        assert_eq!(back, sums([2.0, 2.0, -2.0, 2.0, -2.0, 2.0, 2.0, -2.0].map(|v| v * top)));
        assert_eq!(fixed.products(&params, 1, &two), Err(Error::Sum));
        assert!(FixedPoint::new(63, 63).is_err());
    }
}
