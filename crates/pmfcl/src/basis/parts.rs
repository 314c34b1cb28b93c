//! What a fixed map is made of, to be read by programs that compute φ elsewhere.
//!
//! A stored basis keeps its seed; another runtime has no use for a seed and needs the numbers drawn from it.
//! With the parts of a [`Map`](super::Map) and the formulas of this page φ can be written down anywhere:
//!
//! ```
//! use pmfcl::basis::{Basis, Monomial, Parts};
//!
//! let map = "poly:2".parse::<Basis>()?.fix(&[], 2)?;
//! let Parts::Monomials(monomials) = map.parts() else { panic!("`poly` is made of monomials") };
//! let mut columns = Vec::new();
//! for Monomial { parent, input } in monomials {
//!     columns.push(parent.map_or(1.0, |parent| columns[parent]) * [3.0, 5.0][input]);
//! }
//! assert_eq!(columns, [3.0, 5.0, 9.0, 15.0, 25.0]);
//! # Ok::<(), pmfcl::basis::BasisError>(())
//! ```

use super::frame::Frame;
use super::patches::Layout;
use super::pointwise::Pointwise;
use super::random::Finish;

/// What the columns of a map are computed from.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export, lab, read
pub enum Parts<'a> {
    /// Column j is input j.
    Identity,
    /// Column j is a function of input j.
    Pointwise(Pointwise),
    /// Every column is an earlier one times an input; in the order of the columns.
    Monomials(Vec<Monomial>),
    /// Column j·count + i is cubic B-spline i of input j, linear beyond the range.
    ///
    /// With K = count − 2, x clipped to [lo, hi] and t = (x − lo)/(hi − lo)·K, the interval is
    /// I = min(⌊t⌋, K − 1) and u = t − I. Splines I to I + 3 are
    ///
    /// (1 − u)³/6,  (4 − 6u² + 3u³)/6,  the same of 1 − u,  u³/6
    ///
    /// and all others 0. What was clipped off, in units of (hi − lo)/K, is multiplied by the slopes
    /// (−½, 0, ½, 0) below the range and (0, −½, 0, ½) above it, and added, unless `held`: then 1/20 of x is added to each spline
    /// instead ([`Parts::SHARE`]). Spline number `count` is not a column.
    Splines {
        /// Splines kept for each input.
        count: usize,
        /// (lo, hi) of each input.
        ranges: &'a [(f64, f64)],
        /// Whether what was clipped off is left off, and a share of x added.
        held: bool,
    },
    /// Z = x̃W with x̃ = (x − shift)/spread, and what is done to it.
    Random {
        /// What is taken off each input.
        shift: &'a [f64],
        /// What each input is then divided by.
        spread: &'a [f64],
        /// W: row j holds the weights of input j, one for each unit.
        weights: &'a [f64],
        /// What becomes of Z.
        finish: &'a Finish,
    },
    /// Groups of columns next to each other, behind one frozen map.
    Groups {
        /// μ and σ of each input, and knots where a group wants ranks.
        frame: &'a Frame,
        /// The groups in the order of their columns.
        groups: Vec<Group<'a>>,
    },
    /// Column r·filters + f is the mean of max(0, x̃W + bias) of filter f over the windows of region r, x̃ being
    /// the pixels of a window, (x − shift)/spread.
    Patches {
        /// Where windows lie, and which region each belongs to.
        layout: Layout,
        /// What is taken off each pixel.
        shift: f64,
        /// What each pixel is then divided by.
        spread: f64,
        /// W: row c holds the weights of pixel c of a window, one for each filter.
        weights: &'a [f64],
        /// One for each filter.
        bias: &'a [f64],
    },
}

impl Parts<'_> {
    /// What each spline behind a frozen map has of its input.
    pub const SHARE: f64 = super::spline::SHARE;
}

/// A group of the columns behind a frozen map; with z = (x − μ)/σ for every input:
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for export
pub enum Group<'a> {
    /// Column j is input j.
    Inputs,
    /// Column j is input j as long as |z| ≤ 4, and from there on μ ± σ(8 − 16/|z|).
    Bounded,
    /// A map of the inputs in other units: z/√(1 + (z/4)²), or by `quantile` the value at the input, linear between the knots
    /// of the frame and constant beyond them.
    Mapped {
        /// Whether units are ranks.
        quantile: bool,
        /// So many first columns of the map are left out.
        skip: usize,
        /// The map.
        parts: Parts<'a>,
    },
}

/// A product: a column that stands further left, times an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)] // for export
pub struct Monomial {
    /// The column; none for a monomial of degree one.
    pub parent: Option<usize>,
    /// The input.
    pub input: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;

    const ROWS: [f64; 12] = [0.5, -1.0, 2.0, 0.25, -0.75, 3.0, 1.5, 1.0, 0.0, 0.0, -2.0, 0.125];

    /// φ of one row from nothing but the parts, written as their documentation says it.
    fn phi(parts: &Parts<'_>, x: &[f64]) -> Vec<f64> {
        match parts {
            Parts::Identity => x.to_vec(),
            Parts::Pointwise(Pointwise::Log) => {
                x.iter().map(|x| x.signum() * x.abs().ln_1p()).collect()
            }
            Parts::Pointwise(Pointwise::Exp) => x.iter().map(|x| x.exp()).collect(),
            Parts::Pointwise(Pointwise::Power(a)) => {
                x.iter().map(|x| x.signum() * x.abs().powf(*a)).collect()
            }
            Parts::Monomials(monomials) => {
                let mut columns: Vec<f64> = Vec::new();
                for Monomial { parent, input } in monomials {
                    columns.push(parent.map_or(1.0, |parent| columns[parent]) * x[*input]);
                }
                columns
            }
            Parts::Splines { count, ranges, held } => {
                let spline = |(x, (lo, hi)): (&f64, &(f64, f64))| -> Vec<f64> {
                    let last = (count - 2) as f64;
                    let inside = x.clamp(*lo, *hi);
                    let off = if *held { 0.0 } else { (x - inside) / (hi - lo) * last };
                    let t = (inside - lo) / (hi - lo) * last;
                    let interval = t.floor().min(last - 1.0);
                    let u = t - interval;
                    let inner = |u: f64| (4.0 - 6.0 * u * u + 3.0 * u.powi(3)) / 6.0;
                    let slope = 0.5 * off;
                    let (below, above) = if off < 0.0 { (slope, 0.0) } else { (0.0, slope) };
                    let four = [
                        (1.0 - u).powi(3) / 6.0 - below,
                        inner(u) - above,
                        inner(1.0 - u) + below,
                        u.powi(3) / 6.0 + above,
                    ];
                    let at = |i| (0..4).find(|k| (interval + *k as f64 - i as f64).abs() < 0.5);
                    let share = if *held { x / 20.0 } else { 0.0 };
                    (0..*count).map(|i| at(i).map_or(0.0, |k| four[k]) + share).collect()
                };
                x.iter().zip(*ranges).flat_map(spline).collect()
            }
            Parts::Groups { frame, groups } => {
                let z = |j: usize| (x[j] - frame.shift[j]) / frame.spread[j];
                let one = |group: &Group<'_>| match group {
                    Group::Inputs => x.to_vec(),
                    Group::Bounded => {
                        let bounded = |j: usize| {
                            let far = (8.0 - 16.0 / z(j).abs()) * z(j).signum();
                            let edge = frame.shift[j] + frame.spread[j] * far;
                            if z(j).abs() <= 4.0 { x[j] } else { edge }
                        };
                        (0..x.len()).map(bounded).collect()
                    }
                    Group::Mapped { quantile, skip, parts } => {
                        let rank = |j: usize| {
                            let (knots, values) = frame.knots[128 * j..][..128].split_at(64);
                            let step = |i: usize| {
                                let width = knots[i + 1] - knots[i];
                                let share = if width > 0.0 {
                                    ((x[j] - knots[i]) / width).clamp(0.0, 1.0)
                                } else {
                                    0.0
                                };
                                share * (values[i + 1] - values[i])
                            };
                            values[0] + (0..63).map(step).sum::<f64>()
                        };
                        let soft = |j: usize| z(j) / (1.0 + (z(j) / 4.0).powi(2)).sqrt();
                        let mapped: Vec<f64> = (0..x.len())
                            .map(|j| if *quantile { rank(j) } else { soft(j) })
                            .collect();
                        phi(parts, &mapped).split_off(*skip)
                    }
                };
                groups.iter().flat_map(one).collect()
            }
            Parts::Random { shift, spread, weights, finish } => {
                let x: Vec<f64> = (0..x.len()).map(|j| (x[j] - shift[j]) / spread[j]).collect();
                let m = weights.len() / x.len();
                let z = |i: usize| (0..x.len()).map(|j| x[j] * weights[j * m + i]).sum::<f64>();
                let norm: f64 = x.iter().map(|x| x * x).sum();
                let unit = |i: usize| match finish {
                    Finish::Cosine { phase } => (2.0 / m as f64).sqrt() * (z(i) + phase[i]).cos(),
                    Finish::Gauss { length, norms } => {
                        let square = (norm + norms[i] - 2.0 * z(i)).max(0.0);
                        (-square / (2.0 * length * length)).exp()
                    }
                    Finish::Relu { bias } => (z(i) + bias[i]).max(0.0),
                    Finish::Tangent { outer } => {
                        if z(i) >= 0.0 {
                            outer[i]
                        } else {
                            0.0
                        }
                    }
                };
                let units = (0..m).map(unit);
                match finish {
                    Finish::Tangent { .. } => {
                        let units: Vec<f64> = units.collect();
                        x.iter().flat_map(|x| units.iter().map(move |unit| x * unit)).collect()
                    }
                    _ => units.collect(),
                }
            }
            Parts::Patches { layout, shift, spread, weights, bias } => {
                let (filters, counts) = (bias.len(), layout.counts());
                let mut columns = vec![0.0; counts.len() * filters];
                for w in 0..layout.windows() {
                    let pixels: Vec<f64> =
                        layout.pixels(w).map(|at| (x[at] - shift) / spread).collect();
                    for f in 0..filters {
                        let seen: f64 =
                            (0..pixels.len()).map(|c| pixels[c] * weights[c * filters + f]).sum();
                        let region = layout.region(w);
                        columns[region * filters + f] +=
                            (seen + bias[f]).max(0.0) / counts[region] as f64;
                    }
                }
                columns
            }
        }
    }

    #[test]
    fn the_parts_and_their_documentation_suffice_to_compute_every_basis() {
        let specs = [
            "linear",
            "poly:3",
            "poly:4,interactions=false",
            "log",
            "exp",
            "power:0.5",
            "power:3",
            "spline:3",
            "spline:7",
            "spline:5,lo=-0.5,hi=1",
            "spline:7,scale=range",
            "spline:5,scale=quantile,linear=off",
            "poly:3,scale=clip",
            "poly:2,scale=quantile,linear=off",
            "rbf:9",
            "rbf:9,scale=range",
            "rff:11",
            "rff:11,scale=range",
            "rff:11,scale=quantile",
            "relu:8",
            "relu:8,scale=range",
            "ntk:5",
            "ntk:5,linear=off",
            "ntk:5,scale=range",
            "auto",
            "auto:40,only=linear",
            "auto:40,only=bounded+spline+ranks",
            "patches:4,size=1,step=1,grid=1,shape=1x3",
            "patches:2,size=1,step=2,grid=1,shape=3x1,scale=none",
        ];
        for spec in specs {
            let map = spec.parse::<Basis>().unwrap().fix(&ROWS, 3).unwrap();
            let mut expected = vec![0.0; map.width()];
            // Rows of the first task, and one beyond their range on both sides.
            for row in ROWS.chunks(3).chain([&[4.0, -5.0, 0.5][..], &[400.0, -5e3, 0.5]]) {
                map.apply(row, &mut expected, map.width(), 0).unwrap();
                let found = phi(&map.parts(), row);
                assert_eq!(found.len(), map.width(), "{spec}");
                let size = expected.iter().fold(1.0_f64, |size, v| size.max(v.abs()));
                // A dozen roundings of numbers up to `size`; arguments of cosines are below 10, and grow with the row where
                // nothing bounds it.
                let grown = if spec.contains("scale=range") { row[1].abs().max(1.0) } else { 1.0 };
                let size = size * grown;
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 256.0 * f64::EPSILON * size;
                assert!(found.iter().zip(&expected).all(near), "{spec}: {found:?} {expected:?}");
            }
        }
    }
}
