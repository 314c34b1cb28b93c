//! Figure 2, computed: the front of two log-losses, and the fronts of the quadratics that bound them.

use pmfcl::pareto::PairFront;
use pmfcl::problem::Curvature;
use pmfcl::problem::logistic::{Objective, OneTask};
use pmfcl::{Design, Error, Rows, Summary, Theta};
use pmfcl_oracle::Draw;

use super::classes::{Labelled, plain};

/// Rows of each of the two tasks.
const ROWS: usize = 120;
/// Points of every front.
const POINTS: usize = 61;

/// A path from one task's optimum to the other's.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Which it is.
    pub name: &'static str,
    /// Parameters along it.
    pub thetas: Vec<[f64; 2]>,
    /// True log-losses of the two tasks there.
    pub losses: Vec<(f64, f64)>,
    /// The bounds on them, where the path is that of a bound.
    pub bounds: Option<Vec<(f64, f64)>>,
}

/// A walk along the line through both optima: place, then for both tasks the loss and its two bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// 0 at the first task's optimum, 1 at the second's.
    pub at: f64,
    /// Log-losses.
    pub losses: (f64, f64),
    /// Bounds by Böhning.
    pub bohning: (f64, f64),
    /// Sharp bounds.
    pub sharp: (f64, f64),
}

/// All of the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundFronts {
    /// The true front, that of Böhning's bound, that of the sharp one.
    pub paths: Vec<Path>,
    /// The line between the optima.
    pub slice: Vec<Slice>,
}

struct Pair {
    design: Design,
    tasks: [Labelled; 2],
}

impl Pair {
    fn losses(&self, theta: &[f64]) -> (f64, f64) {
        (self.tasks[0].log_loss(theta), self.tasks[1].log_loss(theta))
    }

    /// The minimizer of `α L_1 + (1 − α) L_2` over the rows of both.
    fn best(&self, alpha: f64) -> Result<Theta, Error> {
        let mut both = self.tasks[0].clone();
        both.x.extend_from_slice(&self.tasks[1].x);
        both.labels.extend_from_slice(&self.tasks[1].labels);
        let weight = |i: usize| if i < ROWS { alpha } else { 1.0 - alpha };
        // Rows of weight zero are no rows, so the ends are fitted on one task alone.
        let keep: Vec<usize> = (0..2 * ROWS).filter(|&i| weight(i) > 0.0).collect();
        let x: Vec<f64> = keep.iter().flat_map(|&i| both.x[2 * i..2 * i + 2].to_vec()).collect();
        let labels: Vec<u32> = keep.iter().map(|&i| both.labels[i]).collect();
        let weights: Vec<f64> = keep.iter().map(|&i| weight(i)).collect();
        let rows = Rows::new(&x, 2)?;
        let mut task = OneTask::new(&self.design, rows, (&labels, 2), Some(&weights), 1)?;
        let objective = Objective { scale: 1.0, past: None, penalty: &[0.0, 0.0] };
        Ok(task.minimize(&objective, None)?.theta)
    }

    fn bound(&self, task: usize, anchor: &Theta, curvature: Curvature) -> Result<Summary, Error> {
        self.tasks[task].one_task(2)?.expand(anchor, curvature)
    }
}

/// Draws two conflicting two-class tasks and computes their fronts.
///
/// # Errors
/// When a solver refuses the rows.
pub fn compute(seed: u64) -> Result<BoundFronts, Error> {
    let mut draw = Draw::new(seed);
    let tasks = [[4.0, 0.5], [0.5, 3.0]].map(|theta| Labelled::draw(ROWS, &theta, &mut draw));
    let pair = Pair { design: plain(2)?, tasks };
    let two = |theta: &Theta| [theta.column(0)[0], theta.column(0)[1]];

    let mut truth =
        Path { name: "true front", thetas: Vec::new(), losses: Vec::new(), bounds: None };
    for i in 0..POINTS {
        // Evenly in the logit, so that both ends are reached.
        let t = -6.0 + 12.0 * i as f64 / (POINTS - 1) as f64;
        let alpha = match i {
            0 => 0.0,
            i if i == POINTS - 1 => 1.0,
            _ => 1.0 / (1.0 + (-t).exp()),
        };
        let theta = pair.best(alpha)?;
        truth.losses.push(pair.losses(theta.column(0)));
        truth.thetas.push(two(&theta));
    }

    let ends = [pair.best(1.0)?, pair.best(0.0)?];
    let mut paths = vec![truth];
    let mut summaries = Vec::new();
    for (name, curvature) in
        [("Böhning's bound", Curvature::Bohning), ("sharp bound", Curvature::Sharp)]
    {
        let (a, b) = (pair.bound(0, &ends[0], curvature)?, pair.bound(1, &ends[1], curvature)?);
        let front = PairFront::new(&a, &b, false)?;
        let mut path =
            Path { name, thetas: Vec::new(), losses: Vec::new(), bounds: Some(Vec::new()) };
        for point in front.points(POINTS) {
            let theta = front.theta(point.weight)?;
            path.losses.push(pair.losses(theta.column(0)));
            path.thetas.push(two(&theta));
            path.bounds.iter_mut().for_each(|b| b.push((point.loss_a, point.loss_b)));
        }
        paths.push(path);
        summaries.push((a, b));
    }
    let mut slice = Vec::new();
    for i in 0..POINTS {
        let at = -0.4 + 1.8 * i as f64 / (POINTS - 1) as f64;
        let between = |j: usize| {
            let (a, b) = (ends[0].column(0)[j], ends[1].column(0)[j]);
            a + at * (b - a)
        };
        let theta = Theta::from_slice(&[between(0), between(1)]);
        let bound = |s: &(Summary, Summary)| -> Result<(f64, f64), Error> {
            Ok((s.0.loss(&theta)?, s.1.loss(&theta)?))
        };
        slice.push(Slice {
            at,
            losses: pair.losses(theta.column(0)),
            bohning: bound(&summaries[0])?,
            sharp: bound(&summaries[1])?,
        });
    }
    Ok(BoundFronts { paths, slice })
}

impl BoundFronts {
    /// By how much a path's true losses lie above the true front at most, as a share of the front's own range: for every
    /// point of the path the least rise of both losses that reaches it from the front.
    pub fn above_front(&self, path: usize) -> f64 {
        let truth = &self.paths[0].losses;
        let range = truth.iter().map(|p| p.0).fold(0.0, f64::max)
            - truth.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let gap = |p: &(f64, f64)| {
            let reach = |t: &(f64, f64)| (p.0 - t.0).min(p.1 - t.1);
            truth.iter().map(reach).fold(f64::NEG_INFINITY, f64::max)
        };
        self.paths[path].losses.iter().map(gap).fold(0.0, f64::max) / range
    }

    /// How often a bound lies below the loss it bounds.
    pub fn violations(&self) -> usize {
        let below = |bound: (f64, f64), loss: (f64, f64)| {
            usize::from(bound.0 < loss.0 - 1e-12) + usize::from(bound.1 < loss.1 - 1e-12)
        };
        let on_paths = self.paths.iter().flat_map(|path| {
            let bounds = path.bounds.iter().flatten();
            bounds.zip(&path.losses).map(|(b, l)| below(*b, *l))
        });
        let on_slice =
            self.slice.iter().map(|s| below(s.bohning, s.losses) + below(s.sharp, s.losses));
        on_paths.chain(on_slice).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_lie_above_and_no_path_beats_the_front() {
        let figure = compute(0).unwrap();
        assert_eq!(figure.violations(), 0);
        // A point below the front would be better in both losses than some point of it.
        let truth = &figure.paths[0].losses;
        for path in &figure.paths[1..] {
            for p in &path.losses {
                assert!(!truth.iter().any(|t| p.0 < t.0 - 1e-9 && p.1 < t.1 - 1e-9));
            }
        }
        assert!(figure.above_front(1) >= 0.0 && figure.above_front(0) < 1e-12);
    }
}
