//! The ridge of a wide design by normal equations, refined with the rows.
//!
//! `H = RᵀR + N` with the penalty `N = nλD` has the minimizer `θ = H⁻¹(RᵀZ + Nθ₀)`. Sums of products and a Cholesky decomposition
//! run at the speed of matrix products, twice that of a QR decomposition of `[R; √N]`, but square the condition number. What that
//! costs is taken back by steps of
//!
//! ```text
//! g = Rᵀ(Z − Rθ) + N(θ₀ − θ)      θ ← θ + H⁻¹g
//! ```
//!
//! with residuals from `R` itself (corrected seminormal equations: Björck, 1987). Each step leaves a share of about `κ²ε` of the
//! error before it, down to what a QR decomposition leaves.

use crate::kernel::{Gram, Root, decompose, each};
use crate::summary::{Summary, Sums, dot};
use crate::theta::Theta;

/// Beyond this condition number of `[R; √N]` steps gain too little. The estimate is rarely below half of the truth, so a step leaves at most
/// 1e-5 of an error.
const ACCURATE: f64 = 1e5;

/// Steps, the first one from 0.
const STEPS: usize = 4;

/// By how much the squares of pivots may understate the square of a condition number.
const UNSEEN: f64 = 1e3;

/// Columns for each target from which on half of a decomposition takes longer than steps of refinement.
const ROUNDED_FROM: usize = 4096;

/// The residual at which refinement ends, relative to the right-hand side in the norm of the preconditioner.
const TOLERANCE: f64 = 1e-12;
/// Steps of refinement after which a decomposition in double precision is made instead. At 5,000 and 10,000 random features a step
/// gained one digit and a half or more.
const MOST_STEPS: usize = 12;

/// The minimizer of `‖Rθ − Z‖² + (θ − θ₀)ᵀN(θ − θ₀)`; `None` where the condition number is too large for this way.
///
/// Cost: `2m³/3 + 24 m² p` flops.
pub(super) fn minimizer(
    pooled: &Summary,
    hold: &[f64],
    start: impl Fn(usize) -> f64,
) -> Option<Theta> {
    let (m, p) = (pooled.width(), pooled.targets());
    let mut gram = Gram::new(m, p);
    gram.add(pooled, 0..pooled.rank());
    for (j, hold) in hold.iter().enumerate() {
        gram.raise(j, *hold);
    }
    let (root, condition) = decompose(&gram)?;
    drop(gram);
    if condition > ACCURATE {
        return None;
    }
    let mut theta = Theta::zeros(m, p);
    for k in 0..p {
        for _ in 0..STEPS {
            let column = theta.column_mut(k);
            let mut g: Vec<f64> = (0..m).map(|j| hold[j] * (start(j) - column[j])).collect();
            for (pivot, r, z) in pooled.iter() {
                let rest = z[k] - dot(r, &column[pivot..]);
                for (g, r) in g[pivot..].iter_mut().zip(r) {
                    *g += rest * r;
                }
            }
            solve(&root.cells, m + p, &mut g);
            for (theta, step) in column.iter_mut().zip(&g) {
                *theta += step;
            }
        }
    }
    Some(theta)
}

/// The same for a pool that is kept as sums of products, which have squared the condition number already: steps with residuals of the
/// same sums gain nothing.
///
/// Cost: `m³/3 + m² p` flops.
pub(super) fn minimizer_of_sums(
    sums: &Sums,
    hold: &[f64],
    start: impl Fn(usize) -> f64 + Sync,
) -> Option<Theta> {
    let (m, p) = sums.rest().shape();
    let penalized;
    let sums = if hold[0] > 0.0 {
        // A penalty on column 0, which is no intercept then, is one more row.
        let mut row = vec![0.0; m + p];
        row[0] = hold[0].sqrt();
        let target = row[0] * start(0);
        row[m..].fill(target);
        let mut more = sums.clone();
        more.add_row(row);
        penalized = more;
        &penalized
    } else {
        sums
    };
    let (first, rest) = (sums.first(), sums.rest());
    let held = |j: usize| if j == 0 { 0.0 } else { hold[j] };
    // Stands in for a feature that is zero in all rows: its coefficient is 0.
    let raised =
        |j: usize| if rest.xx(j, j) + held(j) > 0.0 { held(j) } else { 1.0 - rest.xx(j, j) };
    let raised: Vec<f64> = (0..m).map(raised).collect();
    let negative = || {
        let mut negative = rest.negated();
        for (j, raised) in raised.iter().enumerate() {
            negative.raise(j, -raised);
            (0..p).for_each(|k| negative.add_xy(j, k, -held(j) * start(j)));
        }
        negative
    };
    let squares: Vec<f64> = (0..m).map(|j| rest.xx(j, j) + raised[j]).collect();
    let with_intercept = |k: usize, column: &mut [f64]| {
        column[0] = 0.0;
        if first[0] > 0.0 {
            column[0] = (first[m + k] - dot(&first[1..m], &column[1..])) / first[0];
        }
    };
    let system = System { sums: rest, raised: &raised, squares: &squares };
    if m >= ROUNDED_FROM * p.max(1) {
        let right_hand_side =
            |k: usize| (0..m).map(|j| rest.xy(j, k) + held(j) * start(j)).collect();
        if let Some(mut theta) = system.refined(negative(), p, right_hand_side) {
            theta.columns_mut().enumerate().for_each(|(k, column)| with_intercept(k, column));
            return Some(theta);
        }
    }
    let root = Root::of_negative(negative())?;
    if !system.keeps_digits(&root) {
        return None;
    }
    let mut theta = Theta::zeros(m, p);
    let columns = theta.columns_mut().enumerate().collect();
    each(columns, |(k, column): (usize, &mut [f64])| {
        let mut z: Vec<f64> = (0..m).map(|j| root.z(j, k)).collect();
        root.substitute_back(&mut z);
        column.copy_from_slice(&z);
        with_intercept(k, column);
    });
    Some(theta)
}

/// `H = XᵀX + N` as sums and what is added to their diagonal.
struct System<'a> {
    sums: &'a Gram,
    raised: &'a [f64],
    /// The diagonal of `H`.
    squares: &'a [f64],
}

impl System<'_> {
    /// Whether either the penalty bounds the condition number, or the pivots are far from showing one that is too large.
    fn keeps_digits(&self, root: &Root) -> bool {
        let m = self.squares.len();
        let most = |shares: &dyn Fn(usize) -> f64| (1..m).map(shares).fold(1.0, f64::max);
        let share = |j: usize, of: f64| if of > 0.0 { self.squares[j] / of } else { f64::INFINITY };
        let bound = m as f64 * most(&|j| share(j, self.raised[j]));
        let pivots = most(&|j| share(j, root.pivot(j).powi(2)));
        bound <= ACCURATE * ACCURATE || pivots * UNSEEN <= ACCURATE * ACCURATE
    }

    /// `H⁻¹` times each of `p` right-hand sides, by conjugate gradients that are preconditioned with a decomposition from products in
    /// single precision, which takes half the time of one in double. The residuals are those of the sums, so the result has the digits
    /// of a decomposition in double precision. `None` where a few steps are not enough.
    fn refined(
        &self,
        negative: Gram,
        p: usize,
        right_hand_side: impl Fn(usize) -> Vec<f64>,
    ) -> Option<Theta> {
        let m = self.squares.len();
        let units: Vec<f64> = self.squares.iter().map(|square| unit(*square)).collect();
        let root = Root::of_negative_rounded(negative, &units)?;
        if !self.keeps_digits(&root) {
            return None;
        }
        let mut theta = Theta::zeros(m, p);
        for (k, x) in theta.columns_mut().enumerate() {
            let mut rest = right_hand_side(k);
            let mut z = rest.clone();
            root.apply_inverse(&mut z);
            let mut square = dot(&rest, &z);
            let mut d = z.clone();
            let enough = TOLERANCE * TOLERANCE * square;
            let mut steps = 0;
            loop {
                // A number that is not finite is no small residual.
                if !square.is_finite() {
                    return None;
                }
                if square <= enough {
                    break;
                }
                if steps == MOST_STEPS {
                    return None;
                }
                let mut image = self.sums.times(&d);
                for ((image, raised), d) in image.iter_mut().zip(self.raised).zip(&d) {
                    *image += raised * d;
                }
                let curvature = dot(&d, &image);
                if curvature <= 0.0 {
                    return None;
                }
                let length = square / curvature;
                x.iter_mut().zip(&d).for_each(|(x, d)| *x += length * d);
                rest.iter_mut().zip(&image).for_each(|(rest, image)| *rest -= length * image);
                z.copy_from_slice(&rest);
                root.apply_inverse(&mut z);
                let next = dot(&rest, &z);
                let share = next / square;
                d.iter_mut().zip(&z).for_each(|(d, z)| *d = z + share * *d);
                square = next;
                steps += 1;
            }
        }
        Some(theta)
    }
}

/// The power of two nearest to `1/√square`.
fn unit(square: f64) -> f64 {
    libm::exp2((-0.5 * libm::log2(square)).round())
}

/// `x ← R⁻¹x`
fn substitute_back(cells: &[f64], width: usize, x: &mut [f64]) {
    let m = x.len();
    for i in (0..m).rev() {
        let r = &cells[i * width + i..i * width + m];
        let known = dot(&r[1..], &x[i + 1..]);
        x[i] = if r[0] > 0.0 { (x[i] - known) / r[0] } else { 0.0 };
    }
}

/// `g ← H⁻¹g` for `H = RᵀR`. A feature that is zero in all rows and has no penalty has a coefficient of 0.
fn solve(cells: &[f64], width: usize, g: &mut [f64]) {
    let m = g.len();
    let row = |i: usize| &cells[i * width + i..i * width + m];
    for i in 0..m {
        let r = row(i);
        let (head, tail) = g.split_at_mut(i + 1);
        head[i] = if r[0] > 0.0 { head[i] / r[0] } else { 0.0 };
        for (g, r) in tail.iter_mut().zip(&r[1..]) {
            *g -= head[i] * r;
        }
    }
    substitute_back(cells, width, g);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{Penalty, pool, shortest};
    use crate::{Accumulator, Design, Rows, Summarizer};

    /// Rows of 31 columns that share a part of weight `common`, two targets.
    fn pooled(common: f64) -> Summary {
        let draw = |i: usize| ((i as f64 * 12.9898).sin() * 43_758.547).fract();
        let (n, m) = (90, 31);
        let x: Vec<f64> = (0..n * m).map(|i| draw(i) + common * draw(9000 + i / m)).collect();
        let y: Vec<f64> = (0..2 * n).map(|i| draw(5000 + i) + x[i / 2 * m]).collect();
        let design = Design::linear(m, true).unwrap();
        let mut s = Summarizer::new(design, 2, Accumulator::Qr).unwrap();
        s.add(Rows::new(&x, m).unwrap(), Rows::new(&y, 2).unwrap(), None).unwrap();
        s.finish().unwrap()
    }

    #[test]
    fn refined_normal_equations_give_what_a_factorisation_gives() {
        for (common, ridge) in [(0.0, 1e-2), (30.0, 1e-3), (300.0, 1e-5)] {
            let (pooled, penalty) = (pooled(common), (ridge, false));
            let hold: Vec<f64> = crate::solve::weights(&pooled, true, false)
                .iter()
                .map(|d| pooled.n() * ridge * d)
                .collect();
            let origin: Vec<f64> = (0..31).map(|j| f64::from(j) / 31.0).collect();
            for origin in [None, Some(&origin[..])] {
                let start = |j: usize| crate::solve::start(j, true, origin);
                let theta = minimizer(&pooled, &hold, start).unwrap();
                let rows = crate::solve::penalty_rows(&pooled, true, penalty, origin);
                let both = [(&pooled, 1.0), (&rows, 1.0)];
                let expected = shortest(&pool(32, 2, both.into_iter()).unwrap(), true, origin);
                let penalty = Penalty::new(ridge, false).unwrap();
                let left =
                    crate::solve::residual_in_rounding(&pooled, true, &penalty, origin, &theta);
                assert!(left.unwrap() <= 1.0, "the gradient is more than rounding");
                // Both solve a problem that is off by rounding: what κ² of the residual makes of it.
                for k in 0..2 {
                    let size: f64 = expected.column(k).iter().map(|v| v * v).sum::<f64>().sqrt();
                    for (a, b) in theta.column(k).iter().zip(expected.column(k)) {
                        assert!((a - b).abs() <= 1e-9 * size, "{common}: {a} against {b}");
                    }
                }
            }
        }
    }

    /// The sums of a pool, those with `raised` on their diagonal, and the diagonal of these.
    fn sums_of(pooled: &Summary, raised: &[f64]) -> (Gram, Gram, Vec<f64>) {
        let (m, p) = (pooled.width(), pooled.targets());
        let mut gram = Gram::new(m, p);
        gram.add(pooled, 0..pooled.rank());
        let mut whole = gram.clone();
        raised.iter().enumerate().for_each(|(j, raised)| whole.raise(j, *raised));
        let squares = (0..m).map(|j| whole.xx(j, j)).collect();
        (gram, whole, squares)
    }

    #[test]
    fn a_rounded_decomposition_is_refined_to_the_digits_of_a_whole_one() {
        for (common, ridge) in [(0.0, 1e-2), (30.0, 1e-3), (30.0, 1e-1)] {
            let pooled = pooled(common);
            let (m, p) = (pooled.width(), pooled.targets());
            let raised: Vec<f64> = crate::solve::weights(&pooled, true, false)
                .iter()
                .map(|d| pooled.n() * ridge * d)
                .collect();
            let (gram, whole, squares) = sums_of(&pooled, &raised);
            let system = System { sums: &gram, raised: &raised, squares: &squares };
            let right_hand_side = |k: usize| (0..m).map(|j| gram.xy(j, k)).collect();
            let theta = system.refined(whole.negated(), p, right_hand_side).unwrap();
            let root = Root::of_negative(whole.negated()).unwrap();
            for k in 0..p {
                let mut expected: Vec<f64> = (0..m).map(|j| gram.xy(j, k)).collect();
                root.apply_inverse(&mut expected);
                let size: f64 = expected.iter().map(|v| v * v).sum::<f64>().sqrt();
                for (a, b) in theta.column(k).iter().zip(&expected) {
                    // 1e-12 in the norm of H, and what a condition number of some 1e5 makes of rounding.
                    assert!((a - b).abs() <= 1e-9 * size, "{common}, {ridge}: {a} against {b}");
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_refined_in_a_few_steps_is_left_to_the_whole_decomposition() {
        let pooled = pooled(1e5);
        let (m, p) = (pooled.width(), pooled.targets());
        let raised = vec![1e-9; m];
        let (gram, whole, squares) = sums_of(&pooled, &raised);
        let system = System { sums: &gram, raised: &raised, squares: &squares };
        let right_hand_side = |k: usize| (0..m).map(|j| gram.xy(j, k)).collect();
        assert!(system.refined(whole.negated(), p, right_hand_side).is_none());
    }

    #[test]
    fn right_hand_sides_that_overflow_have_no_refined_solution() {
        let pooled = pooled(0.0);
        let (m, p) = (pooled.width(), pooled.targets());
        let raised = vec![1.0; m];
        let (gram, whole, squares) = sums_of(&pooled, &raised);
        let system = System { sums: &gram, raised: &raised, squares: &squares };
        for bad in [f64::NAN, f64::INFINITY, 1e300] {
            assert!(system.refined(whole.negated(), p, |_| vec![bad; m]).is_none(), "{bad}");
        }
    }

    #[test]
    fn columns_that_nearly_depend_on_others_are_left_to_the_factorisation() {
        let pooled = pooled(1e6);
        assert!(minimizer(&pooled, &vec![1e-9; 32], |_| 0.0).is_none());
    }
}
