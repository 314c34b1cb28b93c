//! Budgets: weights under which some tasks lose no more than they may.
//!
//! A model follows from the weights of its tasks and from the ridge, which itself may be chosen under these weights. So weights are
//! what is searched, and every trial is solved exactly as the model will be solved: what a trial loses is what a report will say.
//!
//! The budgeted tasks get more weight and the others keep their proportions. Without a ridge that is the optimum of the convex
//! problem «`min Σ α_t L_t` with `F_i ≤ ε_i`», whose multipliers are the weight added. With a ridge on the mean loss a task can lose
//! something even when it is all that counts, and its forgetting need not fall with its weight; then the least of the line is
//! looked for, and reported where it is above the budget.

use faer::Mat;
use faer::linalg::solvers::Solve as _;

use super::{check, scalarized};
use crate::error::{Error, Result, listing};
use crate::learner::{Learner, TaskReport};
use crate::pareto::Chosen;
use crate::settings::Preference;
use crate::summary::Summary;

/// Weight that a budgeted task without any begins with, where the others sum to one.
const TRACE: f64 = 1e-9;
/// Logarithm of the largest weight next to such a sum: more would leave nothing but rounding of the others.
const CEILING: f64 = 25.0;
/// Logarithms of forgetting over budget aim this far below zero, so that rounding does not end above it.
const AIM: f64 = 1e-10;

/// The model that minimises `Σ α_t L_t` without a penalty, while each budgeted task loses at most its budget, `F_t(θ) ≤ ε_t`.
///
/// Cost: one pool and one solve for every trial: some ten for one budget, some ten for each of several.
///
/// # Errors
/// When the preference is not on the simplex, a budget is negative or names a task twice, or no weights were found that meet all of
/// them.
pub fn budget(
    tasks: &[&Summary],
    alpha: &[f64],
    budgets: &[(usize, f64)],
    intercept: bool,
) -> Result<Chosen> {
    check(tasks, alpha)?;
    let name = |task: usize| format!("task number {task}");
    check_budgets(budgets, tasks.len(), &name)?;
    let lost = |weights: &[f64]| {
        let theta = scalarized(tasks, weights, intercept)?;
        budgets.iter().map(|(task, _)| tasks[*task].forgetting(&theta)).collect()
    };
    let weights = Search { alpha, budgets, lost }.run()?.map_err(|least| {
        refusal(budgets.iter().map(|(task, epsilon)| (name(*task), *epsilon)), &least)
    })?;
    Chosen::at(tasks, weights, intercept, 0.0)
}

impl Learner {
    /// Weighs the tasks so that each task named loses at most its budget: raises their weights as far as needed, the others
    /// keep their proportions. The ridge is chosen as ever, and what [`Learner::tasks`] reports afterwards is within the budgets; for
    /// a loss that is only bounded, the bound is. Where it is so already, nothing changes.
    ///
    /// Cost: one solution for every trial, some ten to thirty for each budget.
    ///
    /// # Errors
    /// [`Error::Infeasible`] with the least the tasks can lose, when no such weights were found; when a budget is negative, a
    /// task is unknown or named twice, or compact memory has folded the tasks. The learner is then unchanged.
    pub fn prefer_budgets(&mut self, budgets: &[(String, f64)]) -> Result<()> {
        self.solution()?;
        self.every_task("a budget")?;
        let names: Vec<String> = self.names().map(str::to_owned).collect();
        let places = budgets
            .iter()
            .map(|(name, epsilon)| match names.iter().position(|known| known == name) {
                Some(task) => Ok((task, *epsilon)),
                None => {
                    Err(Error::UnknownTask { name: name.clone(), known: listing(self.names()) })
                }
            })
            .collect::<Result<Vec<_>>>()?;
        check_budgets(&places, names.len(), &|task| format!("`{}`", names[task]))?;
        let lost = |reports: &[TaskReport]| -> Vec<f64> {
            let one =
                |report: &TaskReport| report.forgetting.or(report.bound).unwrap_or(f64::INFINITY);
            places.iter().map(|(task, _)| one(&reports[*task])).collect()
        };
        let present = self.tasks()?;
        if lost(&present).iter().zip(&places).all(|(lost, (_, epsilon))| lost <= epsilon) {
            return Ok(());
        }
        let alpha: Vec<f64> = present.iter().map(|report| report.weight).collect();
        let chosen = |weights: &[f64]| {
            Preference::Chosen(names.iter().cloned().zip(weights.iter().copied()).collect())
        };
        let mut trial = self.clone();
        let search = Search {
            alpha: &alpha,
            budgets: &places,
            lost: |weights: &[f64]| {
                trial.prefer(chosen(weights))?;
                Ok(lost(&trial.tasks()?))
            },
        };
        let weights = search.run()?.map_err(|least| {
            refusal(budgets.iter().map(|(n, e)| (format!("`{n}`"), *e)), &least)
        })?;
        self.prefer(chosen(&weights))
    }
}

fn check_budgets(
    budgets: &[(usize, f64)],
    tasks: usize,
    name: &dyn Fn(usize) -> String,
) -> Result<()> {
    if budgets.is_empty() {
        return Err(Error::Preference {
            reason: "no task is named; give at least one a budget".to_owned(),
        });
    }
    for (i, (task, epsilon)) in budgets.iter().enumerate() {
        if !(*epsilon >= 0.0 && epsilon.is_finite()) {
            return Err(Error::Range {
                what: "budget",
                value: *epsilon,
                must: "0 or more, and finite",
            });
        }
        if *task >= tasks || budgets[..i].iter().any(|(other, _)| other == task) {
            return Err(Error::Preference {
                reason: format!("{} is unknown or has two budgets; give it one", name(*task)),
            });
        }
    }
    Ok(())
}

/// What is said of budgets that cannot be met, with the least that was found.
fn refusal(budgets: impl ExactSizeIterator<Item = (String, f64)>, least: &[f64]) -> Error {
    let alone = budgets.len() == 1;
    let lines: Vec<String> = budgets
        .zip(least)
        .map(|((name, epsilon), least)| {
            if alone {
                format!(
                    "the least {name} can lose is {least}, and {epsilon} is allowed (the other tasks \
                     keep their proportions, the ridge is chosen as ever); allow at least that \
                     much, or set a smaller ridge"
                )
            } else {
                format!("{name} loses {least} of the {epsilon} allowed")
            }
        })
        .collect();
    let reason = if alone {
        lines.concat()
    } else {
        format!("at best {}; allow more, or set a smaller ridge", lines.join(", "))
    };
    Error::Infeasible { reason }
}

/// A search for weights. `lost` is the forgetting of the budgeted tasks under weights that sum to one.
struct Search<'a, F: FnMut(&[f64]) -> Result<Vec<f64>>> {
    alpha: &'a [f64],
    budgets: &'a [(usize, f64)],
    lost: F,
}

/// A trial.
#[derive(Debug, Clone)]
struct Point {
    /// Logarithms of the budgeted tasks' weights, where the others have those of `α`.
    logs: Vec<f64>,
    weights: Vec<f64>,
    lost: Vec<f64>,
    /// `ln F_i/ε_i`
    over: Vec<f64>,
}

impl Point {
    fn worst(&self) -> f64 {
        self.over.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    fn met(&self) -> bool {
        self.worst() <= 0.0
    }

    /// What is wrong with each budget: all of `over` where the task has been given weight, what is above zero where not.
    fn residual(&self, floor: &[f64]) -> Vec<f64> {
        let one = |i: usize| {
            let over = self.over[i] + AIM;
            if self.logs[i] > floor[i] { over } else { over.max(0.0) }
        };
        (0..floor.len()).map(one).collect()
    }
}

impl<F: FnMut(&[f64]) -> Result<Vec<f64>>> Search<'_, F> {
    /// Weights that meet the budgets, or the least losses found.
    fn run(mut self) -> Result<Result<Vec<f64>, Vec<f64>>> {
        let floor: Vec<f64> =
            self.budgets.iter().map(|(task, _)| self.alpha[*task].max(TRACE).ln()).collect();
        let start = self.at(floor.clone())?;
        if start.met() {
            return Ok(Ok(start.weights));
        }
        let direction = self.direction()?;
        let line = Line { floor: &floor, direction: &direction };
        let bracket = self.along(&line, &start)?;
        if self.budgets.len() == 1 {
            return Ok(match bracket {
                Ok((short, far)) => Ok(self.between(&short, far, Point::worst)?.weights),
                Err(best) => Err(best.lost),
            });
        }
        let end = match bracket {
            Ok((short, far)) => match self.newton(far.clone(), &floor)? {
                Some(settled) => settled,
                None => match self.sweep(start, &floor)? {
                    Some(settled) => settled,
                    None => self.between(&short, far, Point::worst)?,
                },
            },
            // A ridge that is chosen can make the straight way fail where another does not.
            Err(best) => {
                let mut lowest = self.descend(start.clone())?;
                if !lowest.met() {
                    let other = self.descend(best)?;
                    if other.worst() < lowest.worst() {
                        lowest = other;
                    }
                }
                if !lowest.met() {
                    return Ok(Err(lowest.lost));
                }
                self.between(&start, lowest, Point::worst)?
            }
        };
        Ok(Ok(end.weights))
    }

    fn at(&mut self, mut logs: Vec<f64>) -> Result<Point> {
        logs.iter_mut().for_each(|log| *log = log.min(CEILING));
        let mut weights = self.alpha.to_vec();
        for ((task, _), log) in self.budgets.iter().zip(&logs) {
            weights[*task] = log.exp();
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= sum);
        let lost = (self.lost)(&weights)?;
        let over = lost.iter().zip(self.budgets).map(|(lost, (_, epsilon))| {
            // Logarithms of nothing and of what is not a number stay in a range that can be compared.
            if lost <= epsilon && *lost <= 0.0 {
                -700.0
            } else {
                let ratio = (lost / epsilon).ln();
                if ratio.is_nan() { 700.0 } else { ratio.clamp(-700.0, 700.0) }
            }
        });
        let over = over.collect();
        Ok(Point { logs, weights, lost, over })
    }

    /// Proportions of the budgeted tasks at which the worst of them, measured by its budget, is about as well off as can be
    /// while nothing else counts.
    fn direction(&mut self) -> Result<Vec<f64>> {
        const FAR: f64 = 1e6;
        const LEAST: f64 = 1e-9;
        let count = self.budgets.len();
        let mut shares = vec![1.0 / count as f64; count];
        if count == 1 {
            return Ok(shares);
        }
        let mut best: Option<(f64, Vec<f64>)> = None;
        for _ in 0..100 {
            let point = self.at(shares.iter().map(|s| (FAR * s).ln()).collect())?;
            let worst = point.worst();
            if best.as_ref().is_none_or(|(least, _)| worst < *least) {
                best = Some((worst, shares.clone()));
            }
            // A task that counts twice as much loses about a quarter.
            let before = shares.clone();
            for (share, over) in shares.iter_mut().zip(&point.over) {
                *share = (*share * ((over - worst) / 2.0).exp()).max(LEAST);
            }
            let sum: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|s| *s /= sum);
            let still = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-9;
            if worst <= 0.0 || shares.iter().zip(&before).all(still) {
                break;
            }
        }
        Ok(best.map_or(shares, |(_, shares)| shares))
    }

    /// The first two trials along the line of which one misses the budgets and the next meets them, or the best of all.
    fn along(&mut self, line: &Line<'_>, start: &Point) -> Result<Result<(Point, Point), Point>> {
        let mut best = (0.0, start.clone());
        for (steps, sign) in [(Line::UP, 1.0), (Line::DOWN, -1.0)] {
            let mut before = start.clone();
            for step in 1..=steps {
                let place = sign * f64::from(step);
                let next = self.at(line.at(place))?;
                if next.met() {
                    return Ok(Ok((before, next)));
                }
                if next.worst() < best.1.worst() {
                    best = (place, next.clone());
                }
                before = next;
            }
        }
        // Between two trials it may still be less, also far from the best: a ridge that is chosen can jump.
        for step in 0..Line::UP + Line::DOWN {
            let place = f64::from(step) - f64::from(Line::DOWN) + 0.5;
            let next = self.at(line.at(place))?;
            if next.met() {
                return Ok(Ok((best.1, next)));
            }
            if next.worst() < best.1.worst() {
                best = (place, next);
            }
        }
        // Golden section.
        let ratio = (5f64.sqrt() - 1.0) / 2.0;
        let (mut a, mut b) = (best.0 - 0.5, best.0 + 0.5);
        let (mut c, mut d) = (b - ratio * (b - a), a + ratio * (b - a));
        let (mut at_c, mut at_d) = (self.at(line.at(c))?, self.at(line.at(d))?);
        for _ in 0..40 {
            for tried in [&at_c, &at_d] {
                if tried.worst() < best.1.worst() {
                    if tried.met() {
                        return Ok(Ok((best.1, tried.clone())));
                    }
                    best.1 = tried.clone();
                }
            }
            if at_c.worst() <= at_d.worst() {
                (b, d, at_d) = (d, c, at_c);
                c = b - ratio * (b - a);
                at_c = self.at(line.at(c))?;
            } else {
                (a, c, at_c) = (c, d, at_d);
                d = a + ratio * (b - a);
                at_d = self.at(line.at(d))?;
            }
        }
        Ok(Err(best.1))
    }

    /// From a trial whose gap is above zero and one whose gap is not, one whose gap is just below.
    fn between(
        &mut self,
        misses: &Point,
        mut meets: Point,
        gap: impl Fn(&Point) -> f64,
    ) -> Result<Point> {
        let (from, to) = (misses.logs.clone(), meets.logs.clone());
        let (mut low, mut high) = (0.0, 1.0);
        let (mut above, mut below) = (gap(misses), gap(&meets));
        let mut last_met = None;
        for turn in 0..100 {
            if gap(&meets) >= -2.0 * AIM || high - low <= 1e-15 {
                break;
            }
            // Regula falsi with the value of an end that stays halved (Illinois); every third step halves the interval.
            let aim = low + (high - low) * (above + AIM) / (above - below);
            let inside = aim > low && aim < high && turn % 3 != 2;
            let place = if inside { aim } else { f64::midpoint(low, high) };
            let next = self.at(from.iter().zip(&to).map(|(a, b)| a + place * (b - a)).collect())?;
            let met = gap(&next) <= 0.0;
            let again = last_met == Some(met);
            if met {
                (high, below, meets) = (place, gap(&next), next);
                above *= if again { 0.5 } else { 1.0 };
            } else {
                (low, above) = (place, gap(&next));
                below *= if again { 0.5 } else { 1.0 };
            }
            last_met = Some(met);
        }
        Ok(meets)
    }

    /// Several budgets, one after the other and again, from the start: that climbs the dual of the convex problem. Newton's method
    /// takes over where it can. Ends where every task loses its budget, or counts as it did before and loses less; `None` where
    /// the budgets are not met soon.
    fn sweep(&mut self, start: Point, floor: &[f64]) -> Result<Option<Point>> {
        const SWEEPS: usize = 12;
        let mut here = start;
        let mut met = None;
        for _ in 0..SWEEPS {
            for i in 0..floor.len() {
                here = self.least_weight(here, i, floor[i])?;
            }
            let settled = self.newton(here.clone(), floor)?;
            if settled.is_some() {
                return Ok(settled);
            }
            if here.met() {
                if size(&here.residual(floor)) <= 8.0 * AIM {
                    return Ok(Some(here));
                }
                met = Some(here.clone());
            }
        }
        Ok(met)
    }

    /// Changes one weight at a time, in steps that are halved where none helps, as long as the worst of the budgets gets better.
    fn descend(&mut self, from: Point) -> Result<Point> {
        const LARGEST: f64 = 4.0;
        const SMALLEST: f64 = 0.02;
        let mut here = from;
        let mut step = LARGEST;
        while step > SMALLEST && !here.met() {
            let mut best: Option<Point> = None;
            for i in 0..here.logs.len() {
                for by in [step, -step] {
                    let mut logs = here.logs.clone();
                    logs[i] += by;
                    let next = self.at(logs)?;
                    if next.worst() < best.as_ref().unwrap_or(&here).worst() {
                        best = Some(next);
                    }
                }
            }
            match best {
                Some(better) => here = better,
                None => step /= 2.0,
            }
        }
        Ok(here)
    }

    /// The least weight of one task at which it keeps its budget, the others as they are.
    fn least_weight(&mut self, from: Point, i: usize, floor: f64) -> Result<Point> {
        const STEPS: u32 = 30;
        let gap = |point: &Point| point.over[i] + AIM;
        let mut logs = from.logs.clone();
        logs[i] = floor;
        let mut misses = self.at(logs)?;
        if gap(&misses) <= 0.0 {
            return Ok(misses);
        }
        let mut next = from;
        for step in 0..STEPS {
            if next.logs[i] > floor && gap(&next) <= 0.0 {
                return self.between(&misses, next, gap);
            }
            if next.logs[i] > floor {
                misses = next;
            }
            // A task that counts twice as much loses about a quarter: half of what is missing is enough, or nearly.
            let mut logs = misses.logs.clone();
            logs[i] += (0.6 * gap(&misses)).max(0.1 * f64::from(step + 1)).min(3.0);
            next = self.at(logs)?;
        }
        Ok(next)
    }

    /// Newton's method on [`Point::residual`], with slopes by differences. `None` where it comes no nearer.
    fn newton(&mut self, from: Point, floor: &[f64]) -> Result<Option<Point>> {
        const STEPS: usize = 30;
        const HALVINGS: i32 = 8;
        const DIFFERENCE: f64 = 1e-4;
        const LONGEST: f64 = 3.0;
        let mut here = from;
        for _ in 0..STEPS {
            let off = here.residual(floor);
            if size(&off) <= AIM / 2.0 {
                return Ok(Some(here));
            }
            let free: Vec<usize> = (0..floor.len())
                .filter(|&i| here.logs[i] > floor[i] || here.over[i] + AIM > 0.0)
                .collect();
            let mut slopes = Mat::<f64>::zeros(free.len(), free.len());
            for (j, &moved) in free.iter().enumerate() {
                let mut logs = here.logs.clone();
                logs[moved] += DIFFERENCE;
                let shifted = self.at(logs)?;
                for (i, &seen) in free.iter().enumerate() {
                    slopes[(i, j)] = (shifted.over[seen] - here.over[seen]) / DIFFERENCE;
                }
            }
            // Least squares with a trace of damping: tasks that are alike move alike.
            let mut normal = slopes.transpose() * &slopes;
            let trace: f64 = (0..free.len()).map(|i| normal[(i, i)]).sum();
            for i in 0..free.len() {
                normal[(i, i)] += 1e-12 * trace + f64::MIN_POSITIVE;
            }
            let mut step = slopes.transpose() * Mat::from_fn(free.len(), 1, |i, _| -off[free[i]]);
            normal.partial_piv_lu().solve_in_place(step.as_mut());
            let longest = (0..free.len()).map(|i| step[(i, 0)].abs()).fold(0.0, f64::max);
            if !longest.is_finite() {
                return Ok(None);
            }
            let mut nearer = None;
            for halvings in 0..HALVINGS {
                let length = 0.5f64.powi(halvings);
                let by = length * (LONGEST / longest).min(1.0);
                let mut logs = here.logs.clone();
                for (i, &moved) in free.iter().enumerate() {
                    logs[moved] = (logs[moved] + by * step[(i, 0)]).max(floor[moved]);
                }
                let next = self.at(logs)?;
                if size(&next.residual(floor)) < size(&off) * (1.0 - 0.1 * length) {
                    nearer = Some(next);
                    break;
                }
            }
            match nearer {
                Some(next) => here = next,
                None => return Ok(None),
            }
        }
        Ok(None)
    }
}

fn size(list: &[f64]) -> f64 {
    list.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Weights from those of `α` (at 0) up along a direction, and below zero down to nothing; logarithms, so that tenfold steps are alike.
struct Line<'a> {
    floor: &'a [f64],
    direction: &'a [f64],
}

impl Line<'_> {
    /// Steps up, to ten billion times all others.
    const UP: u32 = 24;
    /// Steps down, to a millionth.
    const DOWN: u32 = 12;

    fn at(&self, x: f64) -> Vec<f64> {
        let tens = |x: f64| 10f64.powf(x / 2.0);
        let raised = |(floor, share): (&f64, &f64)| {
            if x > 0.0 {
                (floor.exp() + share * (tens(x) - 1.0) / 100.0).ln()
            } else {
                floor + tens(x).ln()
            }
        };
        self.floor.iter().zip(self.direction).map(raised).collect()
    }
}
