//! The numbers of a model under clear names, shared by safetensors and JSON.
//!
//! | name | shape | holds |
//! | --- | --- | --- |
//! | `coef` | columns of θ × features | coefficients |
//! | `intercept` | columns of θ | missing where the model has none |
//! | `basis.parent`, `basis.input` | features | `poly`: every feature is an earlier one (−1: none) times an input |
//! | `basis.lo`, `basis.hi` | inputs | `spline`: the range; within a group, splines are constant beyond it and have 1/20 of the input added |
//! | `basis.shift`, `basis.spread` | inputs | random bases: x̃ = (x − shift)/spread |
//! | `basis.weights` | inputs × units | random bases: W |
//! | `basis.phase`, `basis.bias`, `basis.outer` | units | `rff`, `relu`, `ntk` |
//! | `basis.length`, `basis.norms` | 1, units | `rbf`: ℓ and ‖c‖² of the centres, the columns of W |
//! | `basis.mean`, `basis.deviation` | inputs | bases behind a frozen map: μ and σ of each input |
//! | `basis.knots`, `basis.ranks` | inputs × 64 | the same with `scale=quantile`: knots, and the value at each |
//! | `basis.groups` | groups × 2 | the same: for every group of columns 0 for bounded inputs, 1 for features of `clip`, 2 for those of `quantile`, 3 for inputs as they are, and how many of their first columns are left out; the numbers of group g stand under `basis.g.…` |
//! | `basis.windows` | 5 | `patches`: height, width, size, step, grid; shift and spread are one number, W is pixels of a window × filters, `bias` has one number per filter |
//!
//! The formulas stand with [`pmfcl::Parts`].

use pmfcl::Parts;
use pmfcl::basis::{Finish, Group};

use crate::Exported;

/// A named array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tensor {
    /// Its name.
    pub(crate) name: String,
    /// Length of every dimension.
    pub(crate) shape: Vec<usize>,
    /// Row after row.
    pub(crate) cells: Cells,
}

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cells {
    /// Floating point.
    Floats(Vec<f64>),
    /// Whole numbers.
    Whole(Vec<i64>),
}

impl Tensor {
    fn floats(name: &str, shape: &[usize], cells: &[f64]) -> Self {
        Self { name: name.to_owned(), shape: shape.to_vec(), cells: Cells::Floats(cells.to_vec()) }
    }

    fn whole(name: &str, cells: Vec<i64>) -> Self {
        Self { name: name.to_owned(), shape: vec![cells.len()], cells: Cells::Whole(cells) }
    }
}

/// Coefficients and intercept.
pub(crate) fn parameters(exported: &Exported<'_>) -> Vec<Tensor> {
    let (p, m) = (exported.columns(), exported.design.map().width());
    let coef: Vec<f64> = (0..p).flat_map(|k| exported.coefficients(k)).copied().collect();
    let mut tensors = vec![Tensor::floats("coef", &[p, m], &coef)];
    tensors.extend(exported.intercepts().map(|cells| Tensor::floats("intercept", &[p], &cells)));
    tensors
}

/// The numbers of the basis.
pub(crate) fn basis(exported: &Exported<'_>) -> Vec<Tensor> {
    of_parts(&exported.design.map().parts())
}

fn of_parts(parts: &Parts<'_>) -> Vec<Tensor> {
    match parts {
        Parts::Groups { frame, groups } => {
            let d = frame.shift.len();
            let mut tensors = vec![
                Tensor::floats("basis.mean", &[d], &frame.shift),
                Tensor::floats("basis.deviation", &[d], &frame.spread),
            ];
            if !frame.knots.is_empty() {
                let count = frame.knots.len() / (2 * d);
                let lists = |which: usize| -> Vec<f64> {
                    frame.knots.chunks(count).skip(which).step_by(2).flatten().copied().collect()
                };
                tensors.push(Tensor::floats("basis.knots", &[d, count], &lists(0)));
                tensors.push(Tensor::floats("basis.ranks", &[d, count], &lists(1)));
            }
            let code = |group: &Group<'_>| match group {
                Group::Bounded => [0, 0],
                Group::Inputs => [3, 0],
                Group::Mapped { quantile, skip, .. } => [1 + i64::from(*quantile), *skip as i64],
            };
            let codes = groups.iter().flat_map(code).collect();
            let mut table = Tensor::whole("basis.groups", codes);
            table.shape = vec![groups.len(), 2];
            tensors.push(table);
            for (g, group) in groups.iter().enumerate() {
                if let Group::Mapped { parts, .. } = group {
                    for mut tensor in of_parts(parts) {
                        let name = tensor.name.trim_start_matches("basis.").to_owned();
                        tensor.name = format!("basis.{g}.{name}");
                        tensors.push(tensor);
                    }
                }
            }
            tensors
        }
        Parts::Identity | Parts::Pointwise(_) => Vec::new(),
        Parts::Monomials(monomials) => {
            let parent = |at: Option<usize>| at.map_or(-1, |at| at as i64);
            vec![
                Tensor::whole("basis.parent", monomials.iter().map(|m| parent(m.parent)).collect()),
                Tensor::whole("basis.input", monomials.iter().map(|m| m.input as i64).collect()),
            ]
        }
        Parts::Splines { ranges, .. } => {
            let (lo, hi): (Vec<f64>, Vec<f64>) = ranges.iter().copied().unzip();
            let d = ranges.len();
            vec![Tensor::floats("basis.lo", &[d], &lo), Tensor::floats("basis.hi", &[d], &hi)]
        }
        Parts::Random { shift, spread, weights, finish } => {
            let d = shift.len();
            let units = weights.len() / d;
            let mut tensors = vec![
                Tensor::floats("basis.shift", &[d], shift),
                Tensor::floats("basis.spread", &[d], spread),
                Tensor::floats("basis.weights", &[d, units], weights),
            ];
            match finish {
                Finish::Cosine { phase } => {
                    tensors.push(Tensor::floats("basis.phase", &[units], phase));
                }
                Finish::Gauss { length, norms } => {
                    tensors.push(Tensor::floats("basis.length", &[1], &[*length]));
                    tensors.push(Tensor::floats("basis.norms", &[units], norms));
                }
                Finish::Relu { bias } => tensors.push(Tensor::floats("basis.bias", &[units], bias)),
                Finish::Tangent { outer } => {
                    tensors.push(Tensor::floats("basis.outer", &[units], outer));
                }
            }
            tensors
        }
        Parts::Patches { layout, shift, spread, weights, bias } => {
            let (cells, filters) = (layout.size * layout.size, bias.len());
            let windows = [layout.height, layout.width, layout.size, layout.step, layout.grid];
            vec![
                Tensor::floats("basis.shift", &[1], &[*shift]),
                Tensor::floats("basis.spread", &[1], &[*spread]),
                Tensor::floats("basis.weights", &[cells, filters], weights),
                Tensor::floats("basis.bias", &[filters], bias),
                Tensor::whole("basis.windows", windows.map(|n| n as i64).to_vec()),
            ]
        }
    }
}
