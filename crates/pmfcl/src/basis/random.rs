//! `rff`, `rbf`, `relu`, `ntk`: columns from random directions or centres.
//!
//! Paper: Lemma D.1 (`lem:ntk-2layer`) for `ntk`.
//!
//! All four begin with the product Z = x̃W of the rows in their own units, x̃ = (x − shift)/spread,
//! and finish element by element:
//!
//! | basis | W | column |
//! | --- | --- | --- |
//! | `rff` | N(0, 2γ) | √(2/m)·cos(z + b), b uniform in [0, 2π) |
//! | `rbf` | centres c as columns | exp(−(‖x̃‖² + ‖c‖² − 2z)/(2ℓ²)) |
//! | `relu` | N(0, 1) | max(0, z + b), b from N(0, 1) |
//! | `ntk` | Vᵀ, N(0, 1) | x̃ⱼ·wᵢ·1[zᵢ ≥ 0], w from N(0, 1/m) |
//!
//! With w of variance 1/m the kernel of `ntk`, φ(x)ᵀφ(x′), tends to x̃ᵀx̃′(π − ∠)/2π as m grows,
//! ∠ being the angle between x̃ and x̃′. Column j·m + i of `ntk` belongs to input j and hidden unit
//! i: the order of x ⊗ w, and of V with its columns stacked.
//!
//! Each input has its own stream of draws, so the weights of an input do not depend on how many
//! inputs come after it.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use super::draw::Draw;
use super::spec::Kind;
use super::waves::Waves;
use super::{BasisError, Parts};

/// The most weights that are drawn: 2 GB.
pub(super) const MAX_WEIGHTS: usize = 1 << 28;

/// Rows that go through one product.
const BLOCK: usize = 256;

/// Streams of a seed. Inputs take the numbers from `INPUTS` on.
const BIAS: u64 = 0;
const OUTER: u64 = 1;
pub(super) const CENTRES: u64 = 2;
const INPUTS: u64 = 16;

/// A product and what is done to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Random {
    shift: Vec<f64>,
    spread: Vec<f64>,
    /// W: row j holds the m weights of input j.
    weights: Vec<f64>,
    /// Number of columns of W, m.
    units: usize,
    finish: Finish,
    /// Whether a frozen map bounds the inputs.
    bounded: bool,
}

/// What becomes of z = x̃W, m numbers per row.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export, lab
pub enum Finish {
    /// `rff`: √(2/m)·cos(z + phase).
    Cosine {
        /// One for each unit, in [0, 2π).
        phase: Vec<f64>,
    },
    /// `rbf`: exp(−(‖x̃‖² + norm − 2z)/(2ℓ²)), the bracket not below 0; 0 where ‖x̃‖² overflows.
    Gauss {
        /// ℓ.
        length: f64,
        /// ‖c‖² of each centre c, the columns of W.
        norms: Vec<f64>,
    },
    /// `relu`: max(0, z + bias).
    Relu {
        /// One for each unit.
        bias: Vec<f64>,
    },
    /// `ntk`: x̃ ⊗ (outer ⊙ 1[z ≥ 0]); column j·m + i is x̃ⱼ·outerᵢ·1[zᵢ ≥ 0].
    Tangent {
        /// One for each unit.
        outer: Vec<f64>,
    },
}

impl Random {
    /// Draws the weights; `frozen` is what [`learn`](super::units::learn) found.
    pub(super) fn build(kind: &Kind, d: usize, frozen: &[f64]) -> Result<Self, &'static str> {
        let (count, seed, expected) = match kind {
            Kind::Rbf { count, seed, .. } => (*count, *seed, 2 * d + 1 + count * d),
            Kind::Rff { count, seed, .. } => (*count, *seed, 2 * d + 1),
            Kind::Relu { count, seed, .. } | Kind::Ntk { count, seed, .. } => {
                (*count, *seed, 2 * d)
            }
            _ => return Err("the basis is not random"),
        };
        if frozen.len() != expected {
            return Err("there are too many or too few");
        }
        let (shift, rest) = frozen.split_at(d);
        let (spread, rest) = rest.split_at(d);
        if spread.iter().chain(rest.first()).any(|positive| *positive <= 0.0) {
            return Err("a range, length or gamma is not positive");
        }
        let normals = |stream, deviation: f64| {
            let mut draw = Draw::new(seed, stream);
            std::iter::repeat_with(move || deviation * draw.normal()).take(count)
        };
        let weights = |deviation| -> Vec<f64> {
            (0..d as u64).flat_map(|j| normals(INPUTS + j, deviation)).collect()
        };
        let (shift, spread) = (shift.to_vec(), spread.to_vec());
        Ok(match kind {
            Kind::Rbf { .. } => Self::gauss(shift, spread, &rest[1..], rest[0]),
            Kind::Rff { .. } => {
                let mut draw = Draw::new(seed, BIAS);
                let phase = (0..count).map(|_| std::f64::consts::TAU * draw.uniform()).collect();
                let finish = Finish::Cosine { phase };
                Self::new(shift, spread, weights((2.0 * rest[0]).sqrt()), finish)
            }
            Kind::Relu { .. } => {
                let finish = Finish::Relu { bias: normals(BIAS, 1.0).collect() };
                Self::new(shift, spread, weights(1.0), finish)
            }
            _ => {
                let deviation = 1.0 / (count as f64).sqrt();
                let finish = Finish::Tangent { outer: normals(OUTER, deviation).collect() };
                Self::new(shift, spread, weights(1.0), finish)
            }
        })
    }

    pub(super) fn new(
        shift: Vec<f64>,
        spread: Vec<f64>,
        weights: Vec<f64>,
        finish: Finish,
    ) -> Self {
        let units = weights.len() / shift.len();
        Self { shift, spread, weights, units, finish, bounded: false }
    }

    /// Says that a frozen map bounds the inputs.
    pub(super) fn bound(&mut self) {
        self.bounded = true;
    }

    /// `centres`: one after another, in the units of x̃.
    pub(super) fn gauss(shift: Vec<f64>, spread: Vec<f64>, centres: &[f64], length: f64) -> Self {
        let d = shift.len();
        let units = centres.len() / d;
        let mut weights = vec![0.0; centres.len()];
        for (i, centre) in centres.chunks_exact(d).enumerate() {
            (0..d).for_each(|j| weights[j * units + i] = centre[j]);
        }
        let norms = centres.chunks_exact(d).map(square).collect();
        Self::new(shift, spread, weights, Finish::Gauss { length, norms })
    }

    /// φ of all rows; row i of the result begins at `out[i * stride]`. `check` sees each row once.
    ///
    /// Cost: `2·d·m` flops a row at the speed of a matrix product.
    pub(super) fn apply(
        &self,
        rows: &[f64],
        out: &mut [f64],
        stride: usize,
        check: impl Fn(usize, &[f64]) -> Result<(), BasisError>,
    ) -> Result<(), BasisError> {
        let (d, m) = (self.shift.len(), self.units);
        let mut block = vec![0.0; BLOCK.min(rows.len() / d) * d];
        let mut gates = match self.finish {
            Finish::Tangent { .. } => vec![0.0; block.len() / d * m],
            _ => Vec::new(),
        };
        let blocks = rows.chunks(BLOCK * d).zip(out.chunks_mut(BLOCK * stride));
        for (number, (rows, out)) in blocks.enumerate() {
            let k = rows.len() / d;
            let x = &mut block[..rows.len()];
            for (x, row) in x.chunks_exact_mut(d).zip(rows.chunks_exact(d)) {
                (0..d).for_each(|j| x[j] = (row[j] - self.shift[j]) / self.spread[j]);
            }
            if let Finish::Cosine { phase } = &self.finish
                && self.bounded
            {
                let (weights, factor, rows) = (&self.weights[..], self.cosine_factor(), &*x);
                let waves =
                    Waves { rows, inputs: d, weights, phase, factor, out: &mut *out, stride };
                pulp::Arch::new().dispatch(waves);
                for i in 0..k {
                    check(number * BLOCK + i, &out[i * stride..][..m])?;
                }
            } else if let Finish::Tangent { outer } = &self.finish {
                self.product(x, &mut gates, m);
                for (i, x) in x.chunks_exact(d).enumerate() {
                    let gates = &mut gates[i * m..][..m];
                    for (gate, w) in gates.iter_mut().zip(outer) {
                        *gate = if *gate >= 0.0 { *w } else { 0.0 };
                    }
                    let row = &mut out[i * stride..][..m * d];
                    for (row, x) in row.chunks_exact_mut(m).zip(x) {
                        row.iter_mut().zip(&*gates).for_each(|(out, gate)| *out = x * gate);
                    }
                    check(number * BLOCK + i, row)?;
                }
            } else {
                self.product(x, out, stride);
                for i in 0..k {
                    let row = &mut out[i * stride..][..m];
                    self.finish(&x[i * d..][..d], row);
                    check(number * BLOCK + i, row)?;
                }
            }
        }
        Ok(())
    }

    /// Z = x̃W, row i at `out[i * stride]`.
    fn product(&self, x: &[f64], out: &mut [f64], stride: usize) {
        let (d, m) = (self.shift.len(), self.units);
        let k = x.len() / d;
        if k == 1 {
            // A single row would take the way of a matrix-vector product, which sums in another
            // order. With a twin next to it the last bits are those it has in any block.
            let mut pair = vec![0.0; 2 * m];
            self.product(&[x, x].concat(), &mut pair, m);
            out[..m].copy_from_slice(&pair[..m]);
            return;
        }
        // Row-major k × m is column-major m × k: Zᵀ = Wᵀ x̃ᵀ.
        matmul(
            MatMut::from_column_major_slice_with_stride_mut(out, m, k, stride),
            Accum::Replace,
            MatRef::from_column_major_slice(&self.weights, m, d),
            MatRef::from_column_major_slice(x, d, k),
            1.0,
            Par::Seq,
        );
    }

    /// From z to the columns, for one row.
    fn finish(&self, x: &[f64], row: &mut [f64]) {
        match &self.finish {
            Finish::Cosine { phase } => {
                let factor = self.cosine_factor();
                for (z, b) in row.iter_mut().zip(phase) {
                    *z = factor * libm::cos(*z + b);
                }
            }
            Finish::Gauss { length, norms } => {
                let norm = square(x);
                if !norm.is_finite() {
                    // So far out that every column is 0, and z may be NaN.
                    row.fill(0.0);
                    return;
                }
                let half = -0.5 / length / length;
                for (z, c) in row.iter_mut().zip(norms) {
                    *z = libm::exp(half * (norm + c - 2.0 * *z).max(0.0));
                }
            }
            Finish::Relu { bias } => {
                for (z, b) in row.iter_mut().zip(bias) {
                    // Not `max`, which would turn a NaN into 0.
                    let sum = *z + b;
                    *z = if sum < 0.0 { 0.0 } else { sum };
                }
            }
            Finish::Tangent { .. } => unreachable!("handled with its gates"),
        }
    }

    /// √(2/m) of `rff`.
    fn cosine_factor(&self) -> f64 {
        (2.0 / self.units as f64).sqrt()
    }

    /// v₀: the columns of V one below the other, which is how W is stored.
    pub(super) fn origin(&self) -> Option<&[f64]> {
        matches!(self.finish, Finish::Tangent { .. }).then_some(&self.weights)
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts::Random {
            shift: &self.shift,
            spread: &self.spread,
            weights: &self.weights,
            finish: &self.finish,
        }
    }

    /// The input farthest out, in its own units.
    pub(super) fn responsible_input(&self, x: &[f64]) -> usize {
        let size = |j: &usize| ((x[*j] - self.shift[*j]) / self.spread[*j]).abs();
        (0..x.len()).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or_default()
    }

    /// `rff17`; for `ntk` unit and input, `ntk3(x1)`.
    pub(super) fn names(&self, x: &[String]) -> Vec<String> {
        let numbered = |name: &str| (1..=self.units).map(|i| format!("{name}{i}")).collect();
        match self.finish {
            Finish::Cosine { .. } => numbered("rff"),
            Finish::Gauss { .. } => numbered("rbf"),
            Finish::Relu { .. } => numbered("relu"),
            Finish::Tangent { .. } => {
                let of = |x: &String| {
                    (1..=self.units).map(|i| format!("ntk{i}({x})")).collect::<Vec<_>>()
                };
                x.iter().flat_map(of).collect()
            }
        }
    }
}

fn square(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::{Basis, Map};

    fn normals(count: usize) -> Vec<f64> {
        let mut draw = Draw::new(42, 99);
        (0..count).map(|_| draw.normal()).collect()
    }

    fn fix(spec: &str, rows: &[f64], d: usize) -> Map {
        // As files of earlier versions had it: inputs in units of their range.
        Basis::from_stored(spec).unwrap().fix(rows, d).unwrap()
    }

    fn phi(map: &Map, x: &[f64]) -> Vec<f64> {
        let k = x.len() / map.inputs();
        let mut out = vec![0.0; k * map.width()];
        map.apply(x, &mut out, map.width(), 0).unwrap();
        out
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn fourier_features_approach_the_gaussian_kernel() {
        let (x, gamma) = (normals(10 * 3), 0.3);
        for m in [1_000, 16_000] {
            let map = fix(&format!("rff:{m},gamma={gamma},seed=5"), &[], 3);
            for (a, b) in x.chunks(3).zip(x[3..].chunks(3)) {
                let between: f64 = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum();
                let kernel = libm::exp(-gamma * between);
                // A mean of m terms 2·cos·cos in [−2, 2] of variance at most 3/2.
                let tolerance = 4.0 * (1.5 / f64::from(m)).sqrt();
                let found = dot(&phi(&map, a), &phi(&map, b));
                assert!((found - kernel).abs() < tolerance, "m = {m}: {found} against {kernel}");
            }
        }
    }

    #[test]
    fn tangent_features_approach_the_arc_cosine_kernel() {
        let (x, m) = (normals(10 * 3), 16_000);
        let map = fix(&format!("ntk:{m},scale=none,seed=2"), &[], 3);
        for (a, b) in x.chunks(3).zip(x[3..].chunks(3)) {
            let (aa, ab, bb) = (dot(a, a), dot(a, b), dot(b, b));
            let angle = libm::acos(ab / (aa * bb).sqrt());
            let kernel = ab * (std::f64::consts::PI - angle) / std::f64::consts::TAU;
            // ab times a mean of m terms w²·1·1 of variance at most E w⁴ = 3.
            let tolerance = 4.0 * ab.abs() * (3.0 / f64::from(m)).sqrt();
            let found = dot(&phi(&map, a), &phi(&map, b));
            assert!((found - kernel).abs() < tolerance, "{found} against {kernel}");
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_in_any_block() {
        for (spec, d) in [("relu:301", 700), ("ntk:37", 40), ("rff:64", 5), ("rbf:33", 600)] {
            let n = 2 * BLOCK + 1;
            let x = normals(n * d);
            let map = fix(spec, &x, d);
            let (m, all) = (map.width(), phi(&map, &x));
            for (from, to) in [(0, 1), (3, 5), (n - 1, n), (7, 7 + BLOCK), (11, n)] {
                let part = phi(&map, &x[from * d..to * d]);
                let same = |(a, b): (&f64, &f64)| a.to_bits() == b.to_bits();
                assert!(part.iter().zip(&all[from * m..to * m]).all(same), "{spec} {from}..{to}");
            }
        }
    }

    #[test]
    fn gamma_is_one_over_the_total_variance_of_the_scaled_inputs() {
        // x̃ = (0, ½, 1): variance 1/6; the second input is constant: 0.
        let map = fix("rff:4", &[10.0, 3.0, 20.0, 3.0, 30.0, 3.0], 2);
        let frozen = map.frozen();
        assert_eq!(frozen[..4], [10.0, 3.0, 20.0, 20.0]);
        assert!((frozen[4] - 6.0).abs() <= 8.0 * f64::EPSILON);
        let nothing_varies = fix("rff:4", &[1.0, 1.0, 1.0, 1.0], 2);
        assert_eq!(nothing_varies.frozen(), [1.0, 1.0, 1.0, 1.0, 0.5]);
    }

    #[test]
    fn units_do_not_matter_unless_asked_for() {
        let x = normals(60);
        let other: Vec<f64> = x.iter().map(|x| 1024.0 * x - 65536.0).collect();
        for spec in ["rff:50", "rbf:20", "relu:50", "ntk:20"] {
            let (a, b) = (phi(&fix(spec, &x, 3), &x), phi(&fix(spec, &other, 3), &other));
            // Inputs were rounded at 2¹⁶·ε, 2⁶ of their scale; φ and its arguments are O(10).
            let tolerance = 1000.0 * 64.0 * f64::EPSILON;
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= tolerance), "{spec}");
        }
    }

    #[test]
    fn centres_are_rows_and_then_points_of_the_box() {
        let x = [0.0, 5.0, 1.0, 9.0, 4.0, 5.5];
        let map = fix("rbf:3,length=0.5", &x, 2);
        let at = phi(&map, &x);
        for i in 0..3 {
            let mine: Vec<f64> = (0..3).map(|row| at[row * 3 + i]).collect();
            assert_eq!(mine.iter().filter(|v| **v >= 1.0).count(), 1, "a centre on one row each");
        }
        let map = fix("rbf:50", &x, 2);
        let centres = &map.frozen()[5..];
        assert_eq!(centres.len(), 100);
        assert!(centres.iter().all(|c| (0.0..=1.0).contains(c)));
    }

    #[test]
    fn the_length_is_the_median_distance_between_centres() {
        let map = fix("rbf:3,scale=none", &[0.0, 0.0, 3.0, 4.0, 0.0, 8.0], 2);
        // Distances 5, 8, 5.
        assert_eq!(map.frozen()[4].to_bits(), 5.0_f64.to_bits());
        let single = fix("rbf:1", &[1.0, 2.0], 2);
        assert!((single.frozen()[4] - 0.5_f64.sqrt()).abs() <= f64::EPSILON);
    }

    #[test]
    fn far_away_a_radial_function_is_zero_and_a_wave_overflows() {
        let x = normals(20);
        let rbf = fix("rbf:5", &x, 2);
        assert!(phi(&rbf, &[1e300, -1e308]).iter().all(|v| v.abs() <= 0.0));
        for spec in ["rff:5", "relu:9", "ntk:5"] {
            let spec = format!("{spec},seed=3,scale=range");
            let map = fix(&spec, &[0.0, 0.0, 1e-3, 1.0], 2);
            let mut out = vec![0.0; 2 * map.width()];
            let refused = map.apply(&[0.0, 1.0, 1e307, -1.0], &mut out, map.width(), 0);
            assert!(
                matches!(refused, Err(BasisError::Overflow { row: 1, column: 0, .. })),
                "{spec}: {refused:?}"
            );
        }
    }
}
