//! Figure 1, computed: where every method ends on the Pareto front of two tasks, when they conflict and when they share
//! a minimizer.

use pmfcl::pareto::PairFront;
use pmfcl::{Accumulator, Error, Rows, Summarizer, Summary, Theta};
use pmfcl_oracle::Draw;

use super::classes::plain;
use super::drift::{Part, dot};
use super::roster::{Arguments, STEPS, Shape, Who};
use super::trial::task_of;

/// Points of a front.
const POINTS: usize = 80;

/// The methods shown, with the arguments they run with.
const SHOWN: [(Who, f64, f64); 7] = [
    (Who::Pmf, 0.0, 0.0),
    (Who::Joint, 0.0, 0.0),
    (Who::Icl, 0.0, 0.0),
    (Who::Projection, 0.03, 1.0),
    (Who::Sgd, 0.03, 0.0),
    (Who::Er, 0.03, 0.0),
    (Who::Last, 0.0, 0.0),
];

/// A pair of tasks with their front and the methods' ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Corner {
    /// Losses of both tasks along the front.
    pub front: Vec<(f64, f64)>,
    /// Losses of both tasks at a method's end.
    pub ends: Vec<End>,
}

/// Where a method ends.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// Its name, or a preference's.
    pub name: String,
    /// Losses of both tasks.
    pub at: (f64, f64),
    /// How far above the front it lies: the least both losses must fall to reach it.
    pub above: f64,
}

/// Rows of two tasks.
struct Pair {
    d: usize,
    tasks: [Part; 2],
}

fn part(rows: usize, theta: &[f64], noise: f64, draw: &mut Draw) -> Part {
    let x = draw.normals(rows * theta.len());
    let y = x.chunks_exact(theta.len()).map(|r| dot(r, theta) + noise * draw.normal()).collect();
    Part { x, y }
}

fn summary(part: &Part, d: usize) -> Result<Summary, Error> {
    let mut summarizer = Summarizer::new(plain(d)?, 1, Accumulator::default())?.threads(1);
    summarizer.add(Rows::new(&part.x, d)?, Rows::new(&part.y, 1)?, None)?;
    summarizer.finish()
}

/// Two tasks that pull apart, the first with twice as many rows.
///
/// # Errors
/// When the solver refuses the rows.
pub fn conflicting(seed: u64) -> Result<Corner, Error> {
    let mut draw = Draw::new(seed);
    let tasks =
        [part(60, &[1.0, -0.5, 0.3], 0.2, &mut draw), part(30, &[-0.2, 0.8, 0.5], 0.2, &mut draw)];
    Pair { d: 3, tasks }.corner(seed, true)
}

/// Two tasks without noise, each with fewer rows than parameters, that one model solves both: the setting in which the
/// ideal continual learner is ideal.
///
/// # Errors
/// When the solver refuses the rows.
pub fn shared(seed: u64) -> Result<Corner, Error> {
    let mut draw = Draw::new(seed);
    let theta = [1.0, -0.5, 0.3, 0.8, -0.6, 0.4];
    let tasks = [part(4, &theta, 0.0, &mut draw), part(4, &theta, 0.0, &mut draw)];
    Pair { d: 6, tasks }.corner(seed, false)
}

impl Pair {
    fn corner(&self, seed: u64, preferences: bool) -> Result<Corner, Error> {
        let (a, b) = (summary(&self.tasks[0], self.d)?, summary(&self.tasks[1], self.d)?);
        let pair = PairFront::new(&a, &b, false)?;
        let front: Vec<(f64, f64)> =
            pair.points(POINTS).into_iter().map(|p| (p.loss_a, p.loss_b)).collect();
        let mut found: Vec<(String, (f64, f64))> = Vec::new();
        for (who, rate, strength) in SHOWN {
            let rows = self.tasks.iter().map(|t| t.y.len() as f64).sum::<f64>() / 2.0;
            let shape = Shape { d: self.d, outputs: 1, rows, steps: STEPS, seed };
            let mut method = who.build(shape, Arguments { rate, strength });
            for part in &self.tasks {
                method.learn(&task_of(part, self.d));
            }
            let theta = method.linear().unwrap_or_default();
            let theta = Theta::from_slice(&theta[..self.d]);
            found.push((who.name().to_owned(), (a.loss(&theta)?, b.loss(&theta)?)));
        }
        if preferences {
            let equal = pair.at(0.5)?;
            found.push(("PMF-CL, equal preference".to_owned(), (equal.loss_a, equal.loss_b)));
            let fair = pair.equal_forgetting();
            found.push(("PMF-CL, both forget the same".to_owned(), (fair.loss_a, fair.loss_b)));
        }
        let ends = found
            .into_iter()
            .map(|(name, at)| Ok(End { above: above(&pair, at)?, name, at }))
            .collect::<Result<_, Error>>()?;
        Ok(Corner { front, ends })
    }
}

/// The least both losses must fall to reach the front. With `h(w)` the least `w L_a + (1 − w) L_b` any model has, a point is on
/// or above the front of convex losses when its own weighted losses are at least `h(w)` for every `w`; so the height is the
/// least of their differences. It is convex in `w`: a sweep, then golden section between the neighbours of its best.
fn above(pair: &PairFront, at: (f64, f64)) -> Result<f64, Error> {
    const SWEEP: u32 = 200;
    let excess = |w: f64| -> Result<f64, Error> {
        let point = pair.at(w)?;
        Ok(w * (at.0 - point.loss_a) + (1.0 - w) * (at.1 - point.loss_b))
    };
    let (mut best, mut least) = (0.0, f64::INFINITY);
    for i in 0..=SWEEP {
        let w = f64::from(i) / f64::from(SWEEP);
        let found = excess(w)?;
        if found < least {
            (best, least) = (w, found);
        }
    }
    let step = 1.0 / f64::from(SWEEP);
    let (mut low, mut high) = ((best - step).max(0.0), (best + step).min(1.0));
    let share = (5.0_f64.sqrt() - 1.0) / 2.0;
    for _ in 0..60 {
        let (a, b) = (high - share * (high - low), low + share * (high - low));
        let (at_a, at_b) = (excess(a)?, excess(b)?);
        least = least.min(at_a).min(at_b);
        if at_a < at_b {
            high = b;
        } else {
            low = a;
        }
    }
    Ok(least.max(0.0))
}

impl Corner {
    /// The end of a method by name.
    pub fn end(&self, name: &str) -> Option<&End> {
        self.ends.iter().find(|end| end.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_lies_on_the_front_and_replay_does_not() {
        let corner = conflicting(0).unwrap();
        let at = |name: &str| corner.end(name).unwrap();
        assert!(at("PMF-CL").above < 1e-12 && at("joint").above < 1e-12);
        assert!(at("ER").above > 1e-4);
        // The ideal continual learner never leaves the first task's minimum.
        assert!((at("ICL").at.0 - corner.front.last().unwrap().0).abs() < 1e-9);
        assert!(at("ICL").at.1 > at("PMF-CL").at.1);
    }

    #[test]
    fn a_shared_minimizer_makes_the_front_a_point() {
        let corner = shared(0).unwrap();
        assert!(corner.front.iter().all(|p| p.0 < 1e-20 && p.1 < 1e-20));
        for name in ["PMF-CL", "joint", "ICL"] {
            let at = corner.end(name).unwrap().at;
            assert!(at.0 < 1e-20 && at.1 < 1e-20, "{name}: {at:?}");
        }
        assert!(corner.end("last task only").unwrap().at.0 > 1e-3);
    }
}
