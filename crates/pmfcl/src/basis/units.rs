//! What a random basis learns from the first rows: units, γ, centres, ℓ.
//!
//! Everything ends up in one list of numbers: shift and spread of each input, with
//! x̃ = (x − shift)/spread; then γ for `rff`, or ℓ and the centres (in units of x̃) for `rbf`.

use super::draw::Draw;
use super::random::CENTRES;
use super::range::{median, ranges, spreads};
use super::spec::{Kind, Scale};
use super::{BasisError, all_finite};

/// Centres among which the median distance is taken; they are in random order.
const MEDIAN_CENTRES: usize = 1000;

/// Units as they come, then γ.
pub(super) fn raw(d: usize, gamma: Option<f64>) -> Vec<f64> {
    [vec![0.0; d], vec![1.0; d]].into_iter().flatten().chain(gamma).collect()
}

/// Shift and spread of each input; then γ for `rff`, or ℓ and the centres for `rbf`.
pub(super) fn learn(kind: &Kind, rows: &[f64], d: usize) -> Result<Vec<f64>, BasisError> {
    let ranges = ranges(rows, d)?;
    let scaled = matches!(
        kind,
        Kind::Rbf { scale: Scale::Range, .. }
            | Kind::Rff { scale: Scale::Range, .. }
            | Kind::Relu { scale: Scale::Range, .. }
            | Kind::Ntk { scale: Scale::Range, .. }
    );
    let lows: Vec<f64> = ranges.iter().map(|(lo, _)| *lo).collect();
    let box_sides = spreads(&ranges);
    let spread = if scaled { box_sides.clone() } else { vec![1.0; d] };
    // Distances to centres do not change when both move, but ‖x‖² + ‖c‖² − 2xc keeps more digits
    // near the origin: rbf moves there even in raw units.
    let moved = scaled || matches!(kind, Kind::Rbf { .. });
    let shift = if moved { lows } else { vec![0.0; d] };
    let unit =
        |row: &[f64]| -> Vec<f64> { (0..d).map(|j| (row[j] - shift[j]) / spread[j]).collect() };
    let widest = || {
        let width = |j: &usize| ranges[*j].1 - ranges[*j].0;
        let column = (0..d).max_by(|a, b| width(a).total_cmp(&width(b))).unwrap_or_default();
        BasisError::Range { column, lo: ranges[column].0, hi: ranges[column].1 }
    };
    let mut extra = Vec::new();
    match kind {
        Kind::Rff { gamma, .. } => {
            let gamma = gamma.unwrap_or_else(|| 1.0 / total_variance(rows, d, &shift, &spread));
            if !(gamma.is_finite() && gamma > 0.0) {
                return Err(widest());
            }
            extra.push(gamma);
        }
        Kind::Rbf { count, length, seed, .. } => {
            let mut draw = Draw::new(*seed, CENTRES);
            let n = rows.len() / d;
            let mut centres = Vec::with_capacity(count * d);
            for i in draw.sample(n, n.min(*count)) {
                centres.extend(unit(&rows[i * d..][..d]));
            }
            for _ in n..*count {
                centres.extend((0..d).map(|j| draw.uniform() * box_sides[j] / spread[j]));
            }
            let diagonal = (0..d).map(|j| (box_sides[j] / spread[j]).powi(2)).sum::<f64>().sqrt();
            let typical = || median_distance(&centres, d).unwrap_or(diagonal / 2.0);
            let length = length.unwrap_or_else(typical);
            if !(length.is_finite() && length > 0.0 && all_finite(&centres)) {
                return Err(widest());
            }
            extra.push(length);
            extra.extend(centres);
        }
        _ => {}
    }
    Ok([shift, spread, extra].concat())
}

/// Σⱼ var(x̃ⱼ) = d · mean variance, or d when nothing varies.
fn total_variance(rows: &[f64], d: usize, shift: &[f64], spread: &[f64]) -> f64 {
    let n = (rows.len() / d) as f64;
    let unit = |row: &[f64], j: usize| (row[j] - shift[j]) / spread[j];
    let mut mean = vec![0.0; d];
    for row in rows.chunks_exact(d) {
        (0..d).for_each(|j| mean[j] += unit(row, j) / n);
    }
    let squares = |row: &[f64]| (0..d).map(|j| (unit(row, j) - mean[j]).powi(2)).sum::<f64>() / n;
    let total: f64 = rows.chunks_exact(d).map(squares).sum();
    if total > 0.0 { total } else { d as f64 }
}

/// Median distance between different centres.
fn median_distance(centres: &[f64], d: usize) -> Option<f64> {
    let centres: Vec<&[f64]> = centres.chunks_exact(d).take(MEDIAN_CENTRES).collect();
    let between = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let mut squares = Vec::with_capacity(centres.len() * centres.len() / 2);
    for (i, a) in centres.iter().enumerate() {
        squares.extend(centres[..i].iter().map(|b| between(a, b)).filter(|square| *square > 0.0));
    }
    median(&mut squares).map(f64::sqrt)
}
