//! The best arguments of a published grid, and the run with them.

use std::time::Instant;

use pmfcl::report::continual::{Direction, Scores};
use pmfcl_baselines::{Method, Task};

use super::arena::{Goal, Stage};
use super::{Arena, Entrant, Error, Result, Rules};

/// Learning rates that are tried.
const RATES: [f64; 6] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3];

/// Arguments of a method that takes steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arguments {
    /// Learning rate.
    pub rate: f64,
    /// DER: α. DER++: α, β. SI: c, ξ. oEWC: λ, γ.
    pub weights: (f64, f64),
}

impl Arguments {
    /// All that are tried for a method; nothing where there is nothing to choose.
    pub fn grid(entrant: Entrant) -> Vec<Self> {
        let weights: &[(f64, f64)] = match entrant {
            Entrant::Der => &[(0.3, 0.0), (1.0, 0.0)],
            Entrant::DerPlus => &[(0.3, 1.0), (1.0, 0.5)],
            Entrant::Si | Entrant::Ewc => &[(0.1, 1.0), (1.0, 1.0), (10.0, 1.0)],
            Entrant::Sgd
            | Entrant::Er
            | Entrant::Agem
            | Entrant::Projection
            | Entrant::JointSteps => &[(0.0, 0.0)],
            _ => &[],
        };
        let pair = |rate| weights.iter().map(move |&weights| Self { rate, weights });
        RATES.into_iter().flat_map(pair).collect()
    }

    /// In words, for a table.
    pub fn words(self, entrant: Entrant) -> String {
        let (a, b) = self.weights;
        let rest = match entrant {
            Entrant::Der => format!(", α {a}"),
            Entrant::DerPlus => format!(", α {a}, β {b}"),
            Entrant::Si => format!(", c {a}, ξ {b}"),
            Entrant::Ewc => format!(", λ {a}, γ {b}"),
            _ => String::new(),
        };
        format!("rate {}{rest}", self.rate)
    }
}

/// Chooses arguments on rows held out, and runs with them on all.
pub(super) fn best(
    arena: &Arena,
    rules: &Rules,
    entrant: Entrant,
) -> std::result::Result<Result, Error> {
    let grid = Arguments::grid(entrant);
    let mut chosen: Option<(f64, Arguments)> = None;
    for &arguments in &grid {
        let mut method = entrant.start(arena, rules, arguments)?;
        arena.stages.iter().for_each(|stage| method.learn(&stage.part));
        let held = scores(arena, method.as_ref(), |stage| &stage.held);
        let Some(held) = held else { continue };
        let mean = held.iter().sum::<f64>() / held.len() as f64;
        let better = |best: f64| match arena.goal {
            Goal::Values(_) => mean < best,
            Goal::Classes(_) => mean > best,
        };
        if chosen.is_none_or(|(best, _)| better(best)) {
            chosen = Some((mean, arguments));
        }
    }
    let arguments = match chosen {
        Some((_, arguments)) => arguments,
        None if grid.is_empty() => Arguments { rate: 0.0, weights: (0.0, 0.0) },
        None => return Err(Error::Diverged(entrant.name().to_owned())),
    };
    let mut method = entrant.start(arena, rules, arguments)?;
    let diverged = || Error::Diverged(entrant.name().to_owned());
    let on_tests =
        |method: &dyn Method| scores(arena, method, |stage| &stage.test).ok_or_else(diverged);
    let untrained = on_tests(method.as_ref())?;
    let mut table = Vec::with_capacity(arena.stages.len());
    let mut seconds = 0.0;
    for stage in &arena.stages {
        let start = Instant::now();
        method.learn(&stage.train);
        seconds += start.elapsed().as_secs_f64();
        // Those who put off training until they are asked train now.
        let start = Instant::now();
        method.outputs(&vec![0.0; arena.width], 1);
        if entrant == Entrant::JointSteps {
            seconds += start.elapsed().as_secs_f64();
        }
        table.push(on_tests(method.as_ref())?);
    }
    let direction = match arena.goal {
        Goal::Values(_) => Direction::LowerIsBetter,
        Goal::Classes(_) => Direction::HigherIsBetter,
    };
    Ok(Result {
        entrant,
        name: entrant.name().to_owned(),
        arguments: if grid.is_empty() { String::new() } else { arguments.words(entrant) },
        scores: Scores::new(table, direction)?,
        untrained,
        kept: method.kept(),
        seconds,
    })
}

/// The score on every task; nothing where an output is no number.
fn scores(arena: &Arena, method: &dyn Method, of: impl Fn(&Stage) -> &Task) -> Option<Vec<f64>> {
    arena
        .stages
        .iter()
        .map(|stage| {
            let task = of(stage);
            let (rows, width) = (task.x.rows(), task.x.width());
            let mut x = vec![0.0; rows * width];
            x.chunks_exact_mut(width).enumerate().for_each(|(i, row)| task.x.write(i, row));
            arena.score(&method.outputs(&x, rows), &task.y)
        })
        .collect()
}
