//! Ridge fits of many ridges from one tridiagonal form.
//!
//! The products of columns, centred and in units of their deviations, are brought to tridiagonal form `QᵀKQ = T`, `Qᵀb`: from there on
//! a ridge costs `O(k)`, and neither eigenvalues nor vectors are needed. With `M = T + λ`, `x = M⁻¹Qᵀb`,
//!
//! ```text
//! unexplained = yᵀy − bᵀx − λ xᵀx     its derivative by λ: 2λ xᵀM⁻¹x
//! df          = k − λ tr M⁻¹          its derivative by λ: −(tr M⁻¹ − λ tr M⁻²)
//! ```
//!
//! the traces from the pivots of both eliminations, from the top and from the bottom, and their derivatives.
//!
//! Products lose the digits that a triangle keeps: what is lost is about 1e-16 of the largest eigenvalue over the ridge, as a share of
//! the targets' variance.

use faer::Mat;

use crate::kernel::{Gram, SIDE, Side, Sweeps, Tridiagonal, each, matrix_of, tridiagonal};
use crate::summary::Summary;

/// Products of the columns of a pooled summary that vary, in units of the penalty on each, for each sample.
pub(super) struct Correlations {
    /// The columns, ascending.
    pub(super) kept: Vec<usize>,
    /// The lower half.
    pub(super) products: Mat<f64>,
    /// Products with the targets.
    pub(super) pulls: Mat<f64>,
    /// Squares of each target about its mean.
    pub(super) squares: Vec<f64>,
    /// The largest square of a column, its mean included.
    pub(super) largest_square: f64,
}

impl Correlations {
    /// With the penalty `d` on each column. Cost: a product of the triangle with itself; nothing where the summary is kept as sums.
    pub(super) fn new(pooled: &Summary, intercept: bool, d: &[f64]) -> Self {
        let first = usize::from(intercept);
        let (m, p, n) = (pooled.width(), pooled.targets(), pooled.n());
        let varies = pooled.variances(first);
        let kept: Vec<usize> = (first..m).filter(|&j| d[j] > 0.0 && varies[j] > 0.0).collect();
        let made;
        let mut means: &[f64] = &[];
        let mut squares = vec![0.0; p];
        let gram = match pooled.sums() {
            Some(sums) => {
                if !intercept {
                    means = sums.first();
                }
                sums.rest()
            }
            None => {
                let top = usize::from(intercept && pooled.pivots().next() == Some(0));
                let mut gram = Gram::new(m, p);
                gram.add(pooled, top..pooled.rank());
                squares.copy_from_slice(pooled.residual());
                made = gram;
                &made
            }
        };
        let mean = |j: usize| means.get(j).copied().unwrap_or(0.0);
        for (k, s) in squares.iter_mut().enumerate() {
            *s = (*s + gram.yy(k) + mean(m + k).powi(2)) / n;
        }
        let inverse: Vec<f64> = kept.iter().map(|&j| 1.0 / (n * d[j]).sqrt()).collect();
        let products = matrix_of(kept.len(), kept.len(), |i, j| {
            if i < j {
                return 0.0;
            }
            let (a, b) = (kept[j], kept[i]);
            (gram.xx(a, b) + mean(a) * mean(b)) * inverse[i] * inverse[j]
        });
        let root = n.sqrt();
        let pulls = matrix_of(kept.len(), p, |i, k| {
            (gram.xy(kept[i], k) + mean(kept[i]) * mean(m + k)) * inverse[i] / root
        });
        let sizes = pooled.column_squares();
        let sizes = kept.iter().map(|&j| sizes[j] / n / d[j]);
        Self { largest_square: sizes.fold(0.0, f64::max), kept, products, pulls, squares }
    }
}

/// Products in tridiagonal form.
pub(super) struct Reduced {
    form: Tridiagonal,
    /// `Qᵀb` of all targets, some side by side; zeros where there are no more.
    pulls: Vec<Side>,
}

/// What a ridge does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    /// The squares it leaves unexplained, and their derivative by the ridge.
    pub(super) unexplained: f64,
    pub(super) rise: f64,
    /// Degrees of freedom, without an intercept, and by how much they fall with the ridge.
    pub(super) degrees: f64,
    pub(super) gain: f64,
}

impl Reduced {
    /// Of products, the lower half, and their products with the targets. Cost: `4k³/3` flops.
    pub(super) fn new(products: Mat<f64>, mut pulls: Mat<f64>) -> Self {
        let form = tridiagonal(products, &mut pulls);
        let (k, p) = (pulls.nrows(), pulls.ncols());
        let cell = |i: usize, target: usize| if target < p { pulls[(i, target)] } else { 0.0 };
        let side =
            |first: usize| (0..k).map(|i| std::array::from_fn(|l| cell(i, first + l))).collect();
        Self { form, pulls: (0..p).step_by(SIDE).map(side).collect() }
    }

    /// The largest eigenvalue, to twelve digits.
    pub(super) fn largest(&self) -> f64 {
        let Tridiagonal { diagonal, below } = &self.form;
        let side = |i: usize| below.get(i).map_or(0.0, |v| v.abs());
        let rows = diagonal.iter().enumerate();
        let row_sum = |(i, d): (usize, &f64)| d + side(i) + i.checked_sub(1).map_or(0.0, side);
        let (mut low, mut high) = (0.0, rows.map(row_sum).fold(0.0, f64::max));
        // All pivots of T − x are negative where x is above all eigenvalues.
        let is_above = |x: f64| {
            let mut pivot = -1.0;
            diagonal.iter().enumerate().all(|(i, d)| {
                let square = i.checked_sub(1).map_or(0.0, |i| below[i] * below[i]);
                pivot = d - x - square / pivot;
                pivot < 0.0
            })
        };
        while high - low > 1e-12 * high {
            let middle = f64::midpoint(low, high);
            if is_above(middle) { high = middle } else { low = middle }
        }
        high
    }

    /// The fit of a ridge above 0; squares of targets count their shares.
    pub(super) fn fit(&self, ridge: f64, squares: &[f64], shares: &[f64]) -> Fit {
        let Tridiagonal { diagonal, below } = &self.form;
        let k = diagonal.len();
        let mut unexplained: f64 = squares.iter().zip(shares).map(|(s, share)| s * share).sum();
        if k == 0 {
            return Fit { unexplained, rise: 0.0, degrees: 0.0, gain: 0.0 };
        }
        // Pivots of the elimination from the top with their derivatives, and multipliers.
        let mut pivots = vec![(0.0, 1.0); k];
        let mut factors = vec![0.0; k];
        let mut last = (diagonal[0] + ridge, 1.0);
        pivots[0] = last;
        for i in 1..k {
            let factor = below[i - 1] / last.0;
            factors[i] = factor;
            last = (diagonal[i] + ridge - factor * below[i - 1], 1.0 + factor * factor * last.1);
            pivots[i] = last;
        }
        // The inverse has 1/(pivot from the top + pivot from the bottom − diagonal) on its diagonal.
        let mut up = (diagonal[k - 1] + ridge, 1.0);
        let (mut trace, mut slope) = (0.0, 0.0);
        for i in (0..k).rev() {
            if i + 1 < k {
                let factor = below[i] / up.0;
                up = (diagonal[i] + ridge - factor * below[i], 1.0 + factor * factor * up.1);
            }
            let cell = 1.0 / (pivots[i].0 + up.0 - diagonal[i] - ridge);
            trace += cell;
            slope -= cell * cell * (pivots[i].1 + up.1 - 1.0);
        }
        let inverse: Vec<f64> = pivots.iter().map(|(pivot, _)| 1.0 / pivot).collect();
        let sweeps = Sweeps { inverse: &inverse, factors: &factors };
        let mut products = vec![[[0.0; SIDE]; 3]; self.pulls.len()];
        each(self.pulls.iter().zip(&mut products).collect(), |(pulls, products)| {
            *products = sweeps.products(pulls);
        });
        let mut rise = 0.0;
        for ([pulls, lengths, slopes], shares) in products.iter().zip(shares.chunks(SIDE)) {
            for (l, share) in shares.iter().enumerate() {
                unexplained -= share * (pulls[l] + ridge * lengths[l]);
                rise += share * 2.0 * ridge * slopes[l];
            }
        }
        let (degrees, gain) = (k as f64 - ridge * trace, trace + ridge * slope);
        Fit { unexplained, rise, degrees, gain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::ridge::Spectrum;
    use crate::solve::weights;
    use crate::summary::{Accumulator, Summarizer};
    use crate::{Design, Rows};
    use pmfcl_oracle::Draw;

    #[test]
    fn a_fit_is_that_of_the_spectrum_and_its_slopes_those_of_central_differences() {
        let mut draw = Draw::new(3);
        for (n, d, intercept) in [(120, 9, true), (30, 41, true), (90, 40, false)] {
            let x = draw.normals(n * d);
            let y: Vec<f64> = (0..2 * n).map(|i| x[i / 2 * d] + draw.normal()).collect();
            let design = Design::linear(d, intercept).unwrap();
            let mut s = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
            s.add(Rows::new(&x, d).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
            let (pooled, samples) = (s.finish().unwrap(), n as f64);
            let spectrum = Spectrum::new(&pooled, intercept, true, samples).unwrap();
            let found = Correlations::new(&pooled, intercept, &weights(&pooled, intercept, true));
            let (squares, shares) = (found.squares.clone(), [1.0, 0.5]);
            let reduced = Reduced::new(found.products, found.pulls);
            let top = f64::from(u8::from(intercept));
            for ridge in [1e-6, 1e-3, 0.1, 2.0, 1e3] {
                let fit = reduced.fit(ridge, &squares, &shares);
                let left = spectrum.residuals(ridge);
                let expected = (left[0] + 0.5 * left[1]) / samples;
                let near = |a: f64, b: f64, digits: f64| (a - b).abs() <= digits * (1.0 + b.abs());
                assert!(near(fit.unexplained, expected, 1e-9), "{} {expected}", fit.unexplained);
                let degrees = spectrum.degrees(ridge) - top;
                assert!(near(fit.degrees, degrees, 1e-9), "{} {degrees}", fit.degrees);
                let step = 1e-4 * ridge;
                let at = |ridge: f64| reduced.fit(ridge, &squares, &shares);
                let (low, high) = (at(ridge - step), at(ridge + step));
                let slope = |a: f64, b: f64| (b - a) / (2.0 * step) * ridge;
                let rise = slope(low.unexplained, high.unexplained);
                assert!(near(fit.rise * ridge, rise, 1e-6), "{} {rise}", fit.rise);
                let gain = -slope(low.degrees, high.degrees);
                assert!(near(fit.gain * ridge, gain, 1e-6), "{} {gain}", fit.gain);
            }
            let unit = vec![0.0; 2];
            let largest = reduced.largest();
            // The degrees of freedom of a ridge far above all directions are their sum over the ridge, of which this is a part.
            assert!(largest * 0.99 < 1e9 * reduced.fit(1e9, &squares, &unit).degrees);
            let below = Spectrum::new(&pooled, intercept, true, samples).unwrap();
            assert!((below.largest() - largest).abs() <= 1e-9 * largest);
        }
    }
}
