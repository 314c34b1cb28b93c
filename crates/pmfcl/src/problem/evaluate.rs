//! How well a model does on rows: one evaluation for the library, the command line and Python.

/// Probabilities below this count as this in the log-loss, as in scikit-learn.
const LEAST: f64 = f64::EPSILON;
/// Bins of the calibration error.
const BINS: usize = 15;

/// Sums over rows from which the scores follow. Evaluations of disjoint rows merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    samples: f64,
    /// Of each target: mean, squares about it, squared errors. Empty for classes.
    targets: Vec<[f64; 3]>,
    hits: f64,
    log_loss: f64,
    /// Sums of confidence and of hits by confidence.
    bins: [[f64; 2]; BINS],
}

impl Evaluation {
    /// Of no rows; `targets` is 0 for classes.
    pub(crate) fn new(targets: usize) -> Self {
        Self {
            samples: 0.0,
            targets: vec![[0.0; 3]; targets],
            hits: 0.0,
            log_loss: 0.0,
            bins: [[0.0; 2]; BINS],
        }
    }

    /// Adds a row of predicted values.
    pub(crate) fn add_values(&mut self, predicted: &[f64], truth: impl Fn(usize) -> f64) {
        let before = self.samples;
        self.samples += 1.0;
        for (k, (sums, predicted)) in self.targets.iter_mut().zip(predicted).enumerate() {
            let truth = truth(k);
            let gap = truth - sums[0];
            sums[0] += gap / self.samples;
            sums[1] += gap * gap * before / self.samples;
            sums[2] += (truth - predicted).powi(2);
        }
    }

    /// Adds a row of probabilities; `truth` is the position of its class, `None` for a class that was never learned.
    pub(crate) fn add_classes(&mut self, probabilities: &[f64], truth: Option<usize>) {
        let best = super::response::largest(probabilities) as usize;
        let hit = f64::from(u8::from(truth == Some(best)));
        self.samples += 1.0;
        self.hits += hit;
        self.log_loss -= truth.map_or(0.0, |k| probabilities[k]).max(LEAST).ln();
        let confidence = probabilities.get(best).copied().unwrap_or(0.0);
        let bin = &mut self.bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
        *bin = [bin[0] + confidence, bin[1] + hit];
    }

    /// Adds the rows of another evaluation.
    pub fn merge(&mut self, other: &Self) {
        let n = self.samples + other.samples;
        if n <= 0.0 {
            return;
        }
        for (a, b) in self.targets.iter_mut().zip(&other.targets) {
            let gap = b[0] - a[0];
            a[1] += b[1] + gap * gap * self.samples * other.samples / n;
            a[0] += gap * other.samples / n;
            a[2] += b[2];
        }
        self.samples = n;
        self.hits += other.hits;
        self.log_loss += other.log_loss;
        for (a, b) in self.bins.iter_mut().zip(&other.bins) {
            *a = [a[0] + b[0], a[1] + b[1]];
        }
    }

    /// Rows that were scored.
    pub fn samples(&self) -> f64 {
        self.samples
    }

    /// Whether classes were scored, and not values.
    pub fn is_of_classes(&self) -> bool {
        self.targets.is_empty()
    }

    /// Share of rows whose class is predicted.
    pub fn accuracy(&self) -> f64 {
        self.hits / self.samples
    }

    /// Mean of `−log p(class)`; a probability below `2⁻⁵²` counts as that, also for a class that was never learned.
    pub fn log_loss(&self) -> f64 {
        self.log_loss / self.samples
    }

    /// Expected calibration error: mean gap between confidence and accuracy over 15 equal bins.
    pub fn calibration_error(&self) -> f64 {
        self.bins.iter().map(|[p, hit]| (p - hit).abs()).sum::<f64>() / self.samples
    }

    /// Mean squared error of each target.
    pub fn mse_per_target(&self) -> Vec<f64> {
        self.targets.iter().map(|t| t[2] / self.samples).collect()
    }

    /// R² of each target about its mean; for a target that is constant 1 if it is hit, else 0.
    pub fn r2_per_target(&self) -> Vec<f64> {
        let r2 = |t: &[f64; 3]| match (t[1] > 0.0, t[2] > 0.0) {
            (true, _) => 1.0 - t[2] / t[1],
            (false, true) => 0.0,
            (false, false) => 1.0,
        };
        self.targets.iter().map(r2).collect()
    }

    /// Mean squared error, averaged over targets.
    pub fn mse(&self) -> f64 {
        self.mse_per_target().iter().sum::<f64>() / self.targets.len() as f64
    }

    /// R², averaged over targets.
    pub fn r2(&self) -> f64 {
        self.r2_per_target().iter().sum::<f64>() / self.targets.len() as f64
    }
}
