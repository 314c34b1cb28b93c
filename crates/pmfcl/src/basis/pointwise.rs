//! `log`, `exp`, `power`: one column for each input.

/// A function applied to every input alike.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for export
pub enum Pointwise {
    /// sign(x)·log(1 + |x|): odd, monotone, defined everywhere; x near 0, ± log|x| far out.
    Log,
    /// eˣ, up to x = 709.78.
    Exp,
    /// sign(x)·|x|ᵃ: odd, and a root of any order for negative x too.
    Power(f64),
}

impl Pointwise {
    /// φ of one row.
    pub(super) fn row(self, x: &[f64], out: &mut [f64]) {
        // libm, not the platform: the same row gives the same bits everywhere.
        for (out, &x) in out.iter_mut().zip(x) {
            *out = match self {
                Self::Log => libm::log1p(x.abs()).copysign(x),
                Self::Exp => libm::exp(x),
                Self::Power(a) => libm::pow(x.abs(), a).copysign(x),
            };
        }
    }

    pub(super) fn names(self, x: &[String]) -> Vec<String> {
        let name = |x: &String| match self {
            Self::Log => format!("log({x})"),
            Self::Exp => format!("exp({x})"),
            Self::Power(a) => format!("{x}^{a}"),
        };
        x.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::basis::{Basis, BasisError};

    fn apply(spec: &str, x: f64) -> Result<f64, BasisError> {
        let mut out = [0.0];
        spec.parse::<Basis>()?.fix(&[], 1)?.apply(&[x], &mut out, 1, 0)?;
        Ok(out[0])
    }

    #[test]
    fn log_is_odd_monotone_and_everywhere_defined() {
        let at = |x| apply("log", x).unwrap();
        let points = [-1e300, -7.0, -1e-9, 0.0, 1e-9, 0.5, 3.0, f64::MAX];
        for pair in points.windows(2) {
            assert!(at(pair[0]) < at(pair[1]), "{pair:?}");
        }
        for x in points {
            assert!((at(x) + at(-x)).abs() <= 0.0);
        }
        assert!((at(std::f64::consts::E - 1.0) - 1.0).abs() <= f64::EPSILON);
    }

    #[test]
    fn power_takes_the_sign_out_of_the_root() {
        assert_eq!(apply("power:0.5", -9.0).unwrap().to_bits(), (-3.0_f64).to_bits());
        assert_eq!(apply("power:-1", -4.0).unwrap().to_bits(), (-0.25_f64).to_bits());
    }

    #[test]
    fn what_has_no_value_is_refused_by_row_column_and_value() {
        let basis = |spec: &str| spec.to_owned();
        assert_eq!(
            apply("power:-1", 0.0),
            Err(BasisError::Pole { basis: basis("power:-1.0"), row: 0, column: 0 })
        );
        assert_eq!(
            apply("exp", 710.0),
            Err(BasisError::Overflow { basis: basis("exp"), row: 0, column: 0, value: 710.0 })
        );
        let map = "exp".parse::<Basis>().unwrap().fix(&[], 2).unwrap();
        let refused = map.apply(&[0.0, 1.0, 2.0, 999.0], &mut [0.0; 4], 2, 0);
        assert_eq!(
            refused,
            Err(BasisError::Overflow { basis: basis("exp"), row: 1, column: 1, value: 999.0 })
        );
        let refused = map.apply(&[0.0, f64::INFINITY], &mut [0.0; 2], 2, 0);
        assert_eq!(refused, Err(BasisError::NotFinite { row: 0, column: 1, value: f64::INFINITY }));
    }
}
