//! What a learner remembers: every task's summary, or one sum of constant size.
//!
//! Both forms give the same model. The pooled summary is `Σ_t (u_t/n_t) summary_t`, `u_t` the unnormalised
//! weight of the task, so that its loss is the preference-weighted mean loss.

use crate::error::Result;
use crate::summary::{Summary, pool};

/// Which memory to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// One summary a task: any preference in hindsight, per-task forgetting, exact unlearning.
    #[default]
    Ledger,
    /// One merged summary of constant size.
    Compact,
}

/// The pooled summary and the pooled least loss `Σ u_t min L_t`, from which the weighted mean
/// forgetting is exact even where the tasks themselves are gone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pool {
    pub(crate) summary: Summary,
    pub(crate) floor: f64,
}

impl Pool {
    /// Pools whole summaries, each with its unnormalised weight and least loss.
    pub(crate) fn of<'a>(
        m: usize,
        p: usize,
        parts: impl Iterator<Item = (&'a Summary, f64, f64)> + Clone,
    ) -> Result<Self> {
        let counted = parts.clone().filter(|(_, u, _)| *u > 0.0);
        let summary = pool(m, p, counted.map(|(s, u, _)| (s, u / s.n())))?;
        Ok(Self { summary, floor: parts.map(|(_, u, least)| u * least).sum() })
    }

    /// Adds a task of weight `u`, with everything before it multiplied by `fade`.
    pub(crate) fn add(&self, task: &Summary, u: f64, least: f64, fade: f64) -> Result<Self> {
        let unscaled = |s: &Summary, f: f64| {
            if (f - 1.0).abs() == 0.0 { Ok(s.clone()) } else { s.scale(f) }
        };
        let before = unscaled(&self.summary, fade)?;
        let summary = before.merge(&unscaled(task, u / task.n())?)?;
        Ok(Self { summary, floor: fade * self.floor + u * least })
    }
}

/// The memory of a learner.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Memory {
    /// Every task's summary, and their pool so that the next task costs the same as the first. The
    /// summaries of the first `away` tasks lie in a file; the list goes on from there.
    Ledger { away: usize, summaries: Vec<Summary>, pool: Pool },
    /// Phase one of Algorithm 3: the factors, while together they are smaller than the triangle.
    Held(Vec<Summary>),
    /// Phase two: one triangle. `tasks` of the register have gone into it.
    Folded(Pool),
}

impl Memory {
    /// The summaries of single tasks, where all of them are at hand.
    pub(crate) fn summaries(&self) -> Option<&[Summary]> {
        match self {
            Self::Ledger { away: 0, summaries, .. } | Self::Held(summaries) => Some(summaries),
            Self::Ledger { .. } | Self::Folded(_) => None,
        }
    }

    /// How many tasks' summaries lie elsewhere.
    pub(crate) fn away(&self) -> usize {
        match self {
            Self::Ledger { away, .. } => *away,
            Self::Held(_) | Self::Folded(_) => 0,
        }
    }

    /// Bytes of the summaries at hand.
    pub(crate) fn nbytes(&self) -> usize {
        match self {
            Self::Ledger { summaries, .. } | Self::Held(summaries) => {
                summaries.iter().map(Summary::nbytes).sum()
            }
            Self::Folded(pool) => pool.summary.nbytes() + 8,
        }
    }
}

/// Whether factors of these many numbers are still smaller than the packed triangle they fold into.
///
/// Paper: Algorithm 3 (`alg:linreg-cl`), the switch at `Σ r_t ≥ d`, corrected for packed storage.
pub(crate) fn worth_holding(numbers: usize, m: usize, p: usize) -> bool {
    numbers < m * (m + 1) / 2 + m * p
}
