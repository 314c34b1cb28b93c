//! How well a model does on rows: one evaluation for the library, the command line and Python.

/// Probabilities below this count as this in the log-loss, as in scikit-learn.
const LEAST: f64 = f64::EPSILON;
/// Bins of the reliability curve and of the calibration error.
const BINS: usize = 15;
/// Numbers of an evaluation of classes: samples, hits, log-loss, Brier score, and three for each bin.
pub(super) const NUMBERS: usize = 4 + 3 * BINS;
/// Steps into which a halving of `1 − novelty` is divided, and how many there are: beyond, double precision has no more digits.
const STEPS: f64 = 64.0;
const NOVELTIES: usize = 53 * 64 + 1;

/// Sums over rows from which the scores follow. Evaluations of disjoint rows merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    samples: f64,
    /// Of each target: mean, squares about it, squared errors. Empty for classes.
    targets: Vec<[f64; 3]>,
    hits: f64,
    log_loss: f64,
    brier: f64,
    /// Sums of weights, of confidence and of hits by confidence.
    bins: [[f64; 3]; BINS],
    novelty: Option<Box<NoveltyCounts>>,
}

/// A bin of the reliability curve: rows whose predicted class has about the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
#[doc(hidden)] // for report, terminal
pub struct ReliabilityBin {
    /// Rows in it.
    pub samples: f64,
    /// Their mean confidence: the probability of the class that is predicted.
    pub confidence: f64,
    /// The share of them whose class is predicted. Calibrated probabilities have it near the confidence.
    pub accuracy: f64,
}

/// Rows of classes that were learned and of others, by novelty.
#[derive(Debug, Clone, PartialEq)]
struct NoveltyCounts {
    known: Vec<f64>,
    unknown: Vec<f64>,
}

impl Evaluation {
    /// Of no rows; `targets` is 0 for classes.
    pub(crate) fn new(targets: usize) -> Self {
        Self {
            samples: 0.0,
            targets: vec![[0.0; 3]; targets],
            hits: 0.0,
            log_loss: 0.0,
            brier: 0.0,
            bins: [[0.0; 3]; BINS],
            novelty: None,
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
    pub(crate) fn add_classes(&mut self, probabilities: &[f64], truth: Option<usize>, weight: f64) {
        let best = super::response::largest(probabilities) as usize;
        let hit = if truth == Some(best) { weight } else { 0.0 };
        let own = truth.map_or(0.0, |k| probabilities[k]);
        self.samples += weight;
        self.hits += hit;
        self.log_loss -= weight * own.max(LEAST).ln();
        // Σ (p_k − 1[k is the class])²
        let squares: f64 = probabilities.iter().map(|p| p * p).sum();
        self.brier += weight * (squares - 2.0 * own + 1.0);
        let confidence = probabilities.get(best).copied().unwrap_or(0.0);
        let bin = &mut self.bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
        *bin = [bin[0] + weight, bin[1] + weight * confidence, bin[2] + hit];
    }

    /// Adds how novel a row looks, and whether its class was learned.
    pub(crate) fn add_novelty(&mut self, novelty: f64, known: bool) {
        let counts = self.novelty.get_or_insert_with(|| {
            let none = vec![0.0; NOVELTIES];
            Box::new(NoveltyCounts { known: none.clone(), unknown: none })
        });
        let left = (1.0 - novelty).clamp(f64::EPSILON / 2.0, 1.0);
        let at = ((-left.log2() * STEPS) as usize).min(NOVELTIES - 1);
        let side = if known { &mut counts.known } else { &mut counts.unknown };
        side[at] += 1.0;
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
        self.brier += other.brier;
        for (a, b) in self.bins.iter_mut().zip(&other.bins) {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        }
        match (&mut self.novelty, &other.novelty) {
            (Some(a), Some(b)) => {
                a.known.iter_mut().zip(&b.known).for_each(|(a, b)| *a += b);
                a.unknown.iter_mut().zip(&b.unknown).for_each(|(a, b)| *a += b);
            }
            (a @ None, b) => a.clone_from(b),
            (Some(_), None) => {}
        }
    }

    /// The same proportions of so many times the rows; of classes.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.samples *= factor;
        self.hits *= factor;
        self.log_loss *= factor;
        self.brier *= factor;
        self.bins.iter_mut().flatten().for_each(|v| *v *= factor);
        self
    }

    /// All sums over classes, novelty left out.
    pub(super) fn to_numbers(&self) -> Vec<f64> {
        let sums = [self.samples, self.hits, self.log_loss, self.brier];
        sums.into_iter().chain(self.bins.iter().flatten().copied()).collect()
    }

    /// What [`Evaluation::to_numbers`] gave; `None` for numbers that no rows have.
    pub(super) fn from_numbers(numbers: &[f64]) -> Option<Self> {
        let (sums, bins) = numbers.split_first_chunk::<4>()?;
        let sound = |v: &f64| v.is_finite() && *v >= -1e-9;
        if numbers.len() != NUMBERS || !numbers.iter().all(sound) {
            return None;
        }
        let mut found = Self::new(0);
        [found.samples, found.hits, found.log_loss, found.brier] = *sums;
        for (bin, own) in found.bins.iter_mut().zip(bins.chunks_exact(3)) {
            bin.copy_from_slice(own);
        }
        Some(found)
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

    /// Brier score: mean of `Σ_k (p_k − 1[k is the class])²`, between 0 and 2.
    pub fn brier(&self) -> f64 {
        self.brier / self.samples
    }

    /// Expected calibration error: mean gap between confidence and accuracy over 15 equal bins.
    pub fn calibration_error(&self) -> f64 {
        self.bins.iter().map(|[_, p, hit]| (p - hit).abs()).sum::<f64>() / self.samples
    }

    /// The reliability curve: confidence against accuracy in 15 equal bins of confidence, those without rows left out.
    pub fn reliability(&self) -> Vec<ReliabilityBin> {
        let rows = self.bins.iter().filter(|[samples, ..]| *samples > 0.0);
        rows.map(|[samples, confidence, hits]| ReliabilityBin {
            samples: *samples,
            confidence: confidence / samples,
            accuracy: hits / samples,
        })
        .collect()
    }

    /// Rows of classes that were never learned, where the model says how novel a row looks; else 0.
    pub fn unknown_samples(&self) -> f64 {
        self.novelty.as_ref().map_or(0.0, |counts| counts.unknown.iter().sum())
    }

    /// Area under the ROC curve of novelty: how often a row of a class that was never learned looks more novel than one of a class
    /// that was; ½ is chance. `None` without rows of both kinds. Novelties nearer than 1 % of `1 − novelty` count as equal.
    pub fn unknown_auroc(&self) -> Option<f64> {
        let counts = self.novelty.as_ref()?;
        let (mut below, mut wins) = (0.0, 0.0);
        for (known, unknown) in counts.known.iter().zip(&counts.unknown) {
            wins += unknown * (below + known / 2.0);
            below += known;
        }
        let pairs = below * self.unknown_samples();
        (pairs > 0.0).then(|| wins / pairs)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_classes_are_those_of_their_definitions() {
        let rows: [(&[f64], Option<usize>, f64); 4] = [
            (&[0.7, 0.3], Some(0), 1.0),
            (&[0.7, 0.3], Some(1), 1.0),
            (&[0.1, 0.9], Some(1), 2.0),
            (&[0.6, 0.4], None, 1.0),
        ];
        let mut found = Evaluation::new(0);
        rows.iter().for_each(|(p, y, w)| found.add_classes(p, *y, *w));
        assert!((found.accuracy() - 3.0 / 5.0).abs() < 1e-15);
        let brier = (0.18 + 0.98 + 2.0 * 0.02 + 0.36 + 0.16 + 1.0) / 5.0;
        assert!((found.brier() - brier).abs() < 1e-15, "{} {brier}", found.brier());
        let bins = found.reliability();
        assert_eq!(bins.len(), 3);
        assert!((bins[1].confidence - 0.7).abs() < 1e-15 && (bins[1].accuracy - 0.5).abs() < 1e-15);
        let again = Evaluation::from_numbers(&found.to_numbers()).unwrap();
        assert_eq!(again, found);
        assert_eq!(again.to_numbers().len(), NUMBERS);
    }

    #[test]
    fn auroc_counts_pairs_and_merges() {
        let (mut a, mut b) = (Evaluation::new(0), Evaluation::new(0));
        for novelty in [0.1, 0.5, 0.9] {
            a.add_classes(&[0.9, 0.1], Some(0), 1.0);
            a.add_novelty(novelty, true);
        }
        assert_eq!(a.unknown_auroc(), None);
        // The first is above two of three and equal to the third.
        for novelty in [0.9, 0.999] {
            b.add_classes(&[0.9, 0.1], None, 1.0);
            b.add_novelty(novelty, false);
        }
        a.merge(&b);
        let area = a.unknown_auroc().unwrap();
        assert!((area - (2.5 + 3.0) / 6.0).abs() < 1e-15, "{area}");
    }
}
