//! The streams of Appendix G: ten regression tasks whose true parameters drift.
//!
//! The paper names the kind of stream and no number of it; [`grid`] is ours, and the page prints it.

use pmfcl_oracle::Draw;

/// Rows of every test set.
const TEST_ROWS: usize = 400;

/// What a stream of tasks is drawn from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// What to call it, in file names too.
    pub name: &'static str,
    /// What it is there for.
    pub why: &'static str,
    /// Features.
    pub d: usize,
    /// Training rows of each task.
    pub rows: Vec<usize>,
    /// Standard deviation of the step every true parameter makes between tasks.
    pub drift: f64,
    /// Standard deviation of the noise on targets.
    pub noise: f64,
}

/// Features and targets, row after row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Part {
    /// Features.
    pub x: Vec<f64>,
    /// Targets.
    pub y: Vec<f64>,
}

impl Part {
    /// Mean squared error of predictions.
    pub fn mse(&self, predicted: &[f64]) -> f64 {
        let squares: f64 = predicted.iter().zip(&self.y).map(|(p, y)| (p - y).powi(2)).sum();
        squares / self.y.len() as f64
    }
}

/// One drawn stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Features.
    pub d: usize,
    /// Training rows of every task.
    pub train: Vec<Part>,
    /// Test rows of every task.
    pub test: Vec<Part>,
    /// True parameters of every task.
    pub truth: Vec<Vec<f64>>,
}

/// The eight settings; the first is the one all figures are drawn of.
pub fn grid(tasks: usize) -> Vec<Setting> {
    let of = |name, why, d, n, drift, noise| Setting {
        name,
        why,
        d,
        rows: vec![n; tasks],
        drift,
        noise,
    };
    let uneven = [20, 200, 40, 400, 80].into_iter().cycle().take(tasks).collect();
    vec![
        of("main", "the main run", 50, 100, 0.1, 0.1),
        of("weak-drift", "tasks hardly differ", 50, 100, 0.01, 0.1),
        of("strong-drift", "tasks differ a lot", 50, 100, 0.5, 0.1),
        of("few-rows", "fewer rows than features in a task", 50, 25, 0.1, 0.1),
        Setting { rows: uneven, ..of("uneven", "tasks of unequal size", 20, 0, 0.1, 0.1) },
        of("narrow", "fewer features, more drift", 20, 100, 0.3, 0.1),
        of("many-rows", "many rows a task", 20, 400, 0.1, 0.1),
        of("noisy", "noise larger than drift", 20, 100, 0.1, 1.0),
    ]
}

impl Setting {
    /// In words.
    pub fn words(&self) -> String {
        let n = match self.rows.as_slice() {
            [first, rest @ ..] if rest.iter().all(|n| n == first) => first.to_string(),
            rows => format!(
                "{} to {}",
                rows.iter().min().unwrap_or(&0),
                rows.iter().max().unwrap_or(&0)
            ),
        };
        format!("d = {}, n = {n}, drift {}, noise {}", self.d, self.drift, self.noise)
    }

    /// Whether all tasks have the same number of rows.
    pub fn even(&self) -> bool {
        self.rows.windows(2).all(|w| w[0] == w[1])
    }

    /// Draws a stream.
    pub fn stream(&self, seed: u64) -> Stream {
        let mut draw = Draw::new(seed);
        let mut theta = draw.normals(self.d);
        let mut stream =
            Stream { d: self.d, train: Vec::new(), test: Vec::new(), truth: Vec::new() };
        for (k, &n) in self.rows.iter().enumerate() {
            if k > 0 {
                theta.iter_mut().for_each(|v| *v += self.drift * draw.normal());
            }
            stream.train.push(self.part(n, &theta, &mut draw));
            stream.test.push(self.part(TEST_ROWS, &theta, &mut draw));
            stream.truth.push(theta.clone());
        }
        stream
    }

    fn part(&self, rows: usize, theta: &[f64], draw: &mut Draw) -> Part {
        let x = draw.normals(rows * self.d);
        let y = x
            .chunks_exact(self.d)
            .map(|row| dot(row, theta) + self.noise * draw.normal())
            .collect();
        Part { x, y }
    }

    /// What joint training on the first `k` tasks has to expect as test error on the `k`-th: noise, its share in the
    /// estimate, and how far the mean of the drifting parameters lies from the last. `None` where a task has other sizes
    /// than the rest or there are too few rows for a mean to exist.
    pub fn expected_current(&self, k: usize) -> Option<f64> {
        let (d, n) = (self.d as f64, self.rows[0] as f64);
        let (kf, spare) = (k as f64, k as f64 * n - d - 1.0);
        let lag = self.drift.powi(2) * d * (kf - 1.0) * (2.0 * kf - 1.0) / (6.0 * kf);
        (self.even() && spare > 0.0).then(|| self.noise.powi(2) * (1.0 + d / spare) + lag)
    }

    /// What least squares on one task of `n` rows alone has to expect as test error.
    pub fn expected_alone(&self, n: usize) -> Option<f64> {
        let (d, n) = (self.d as f64, n as f64);
        (n > d + 1.0).then(|| self.noise.powi(2) * (1.0 + d / (n - d - 1.0)))
    }
}

/// `Σ a_i b_i`
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// One seed out of several numbers.
pub(super) fn seed(parts: &[u64]) -> u64 {
    parts.iter().fold(0x5EED, |s, p| Draw::new(s ^ p.wrapping_mul(0x9E37_79B9_7F4A_7C15)).bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variance(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64
    }

    #[test]
    fn parameters_drift_and_targets_are_noisy_as_much_as_asked() {
        let setting = Setting { d: 400, rows: vec![30; 5], drift: 0.3, ..grid(1)[0].clone() };
        let stream = setting.stream(7);
        let steps: Vec<f64> = stream
            .truth
            .windows(2)
            .flat_map(|w| w[1].iter().zip(&w[0]).map(|(a, b)| a - b).collect::<Vec<_>>())
            .collect();
        // 1600 draws: the variance is known to about 3.5 %; 12 % is over three times that.
        assert!((variance(&steps) / 0.09 - 1.0).abs() < 0.12, "{}", variance(&steps));
        let rest: Vec<f64> = (0..5)
            .flat_map(|t| {
                let (part, truth) = (&stream.test[t], &stream.truth[t]);
                let errors = part.x.chunks_exact(400).zip(&part.y);
                errors.map(|(row, y)| y - dot(row, truth)).collect::<Vec<_>>()
            })
            .collect();
        // 2000 draws: 3.2 %.
        assert!((variance(&rest) / 0.01 - 1.0).abs() < 0.12, "{}", variance(&rest));
        assert!((variance(&stream.train[0].x) - 1.0).abs() < 0.05);
    }

    #[test]
    fn seeds_differ_and_repeat() {
        let setting = &grid(3)[5];
        assert_eq!(setting.stream(1), setting.stream(1));
        assert_ne!(setting.stream(1).train[0], setting.stream(2).train[0]);
        assert_ne!(seed(&[0, 1]), seed(&[1, 0]));
    }

    #[test]
    fn the_formulas_are_those_of_simple_cases() {
        let main = &grid(10)[0];
        // One task: nothing lags.
        let alone = 0.01 * (1.0 + 50.0 / 49.0);
        assert!((main.expected_current(1).unwrap() - alone).abs() < 1e-15);
        assert!((main.expected_alone(100).unwrap() - alone).abs() < 1e-15);
        // Two tasks: the mean lies half a step back, 50 · 0.01 / 4.
        let two = 0.01 * (1.0 + 50.0 / 149.0) + 0.125;
        assert!((main.expected_current(2).unwrap() - two).abs() < 1e-12);
        assert_eq!(grid(10)[4].expected_current(2), None);
        assert_eq!(grid(10)[3].expected_alone(25), None);
    }
}
