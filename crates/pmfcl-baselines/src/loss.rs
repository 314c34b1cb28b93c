//! The two losses, as means over a batch, with their gradients by the outputs.

/// What a target row means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Goal {
    /// One number, the code of a class; cross-entropy, the mean over rows.
    #[default]
    Class,
    /// Values; the squared error, the mean over all elements, without a half.
    Values,
}

impl Goal {
    /// Writes the gradient of `weight` × the mean loss of these rows and returns that loss without the weight.
    pub fn slope(
        self,
        outputs: &[f64],
        targets: &[f64],
        width: usize,
        weight: f64,
        slope: &mut [f64],
    ) -> f64 {
        match self {
            Self::Class => cross_entropy(outputs, targets, width, weight, slope),
            Self::Values => squared(outputs, targets, weight, slope),
        }
    }
}

/// Cross-entropy over all outputs.
fn cross_entropy(
    outputs: &[f64],
    codes: &[f64],
    width: usize,
    weight: f64,
    slope: &mut [f64],
) -> f64 {
    let scale = weight / codes.len() as f64;
    let mut loss = 0.0;
    let rows = outputs.chunks_exact(width).zip(slope.chunks_exact_mut(width));
    for ((row, slope), &code) in rows.zip(codes) {
        loss += probabilities(row, slope) - row[code as usize];
        slope[code as usize] -= 1.0;
        slope.iter_mut().for_each(|s| *s *= scale);
    }
    loss / codes.len() as f64
}

/// Writes the class probabilities of a row of outputs; returns the logarithm of the sum of their exponentials.
pub(crate) fn probabilities(row: &[f64], out: &mut [f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for (p, z) in out.iter_mut().zip(row) {
        *p = (z - top).exp();
        sum += *p;
    }
    out.iter_mut().for_each(|p| *p /= sum);
    top + sum.ln()
}

/// The mean of squares over all elements.
pub(crate) fn squared(outputs: &[f64], targets: &[f64], weight: f64, slope: &mut [f64]) -> f64 {
    let count = outputs.len() as f64;
    let mut loss = 0.0;
    for ((o, t), s) in outputs.iter().zip(targets).zip(slope) {
        loss += (o - t) * (o - t);
        *s = 2.0 * weight * (o - t) / count;
    }
    loss / count
}
