//! The weighted sum of task summaries: all that a solution is made from.

use std::borrow::Cow;

use super::moments::Moments;
use super::tails::Tails;
use super::task::{TaskSummary, wide_scatter, without_scatter};
use crate::error::Result;
use crate::summary::{Summary, WIDE_DESIGN, pool};

/// `Σ_t (u_t/n_t) task_t`, with `u_t` the unnormalised weight of a task.
///
/// Pools of disjoint sets of tasks add, in whatever order; the model does not see how tasks were split.
#[derive(Debug, Clone, PartialEq)]
#[doc(hidden)] // for file, read
pub struct Pool {
    /// `Σ (u_t/n_t) quadratic_t`; its sample count is `Σ u_t`.
    pub quadratic: Summary,
    /// `Σ u_t least_t`; `None` where the least loss of a task is unknown.
    pub least: Option<f64>,
    /// Number of tasks.
    pub tasks: u64,
    /// `Σ n_t`.
    pub samples: f64,
    /// Rows of all tasks, where they were counted.
    pub rows: Option<u64>,
    /// `Σ u_t²/n_t`, from which the effective number of samples follows.
    pub spread: f64,
    /// Moments of all tasks, unweighted, where the prior needs them.
    pub moments: Option<Moments>,
    /// `Σ (u_t/n_t) scatter_tk` of each class, where classes have covariances of their own; else empty.
    pub scatters: Vec<Summary>,
    /// Tails of the targets, a task's rows counted `u_t/n_t` times; `None` where those of a task are unknown.
    pub tails: Option<Tails>,
}

/// Whether the quadratic of a pool may be kept as sums of products, where those keep enough digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    /// One triangle.
    Triangles,
    /// Sums, for a wide design: they add, and a ridge is solved from them by one Cholesky decomposition.
    Sums,
}

/// A task on its way into a pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) task: &'a TaskSummary,
    /// `u_t`
    pub(crate) share: f64,
}

impl Pool {
    /// Adds tasks to a pool whose weights are multiplied by `fade`, in one factorisation. With `base` absent, pools the tasks.
    ///
    /// Cost: `2 Σr_t m²` flops.
    pub(crate) fn with_tasks(
        base: Option<(&Pool, f64)>,
        (m, p): (usize, usize),
        parts: &[Part<'_>],
        pooling: Pooling,
    ) -> Result<Self> {
        #[cfg(test)]
        tests::POOLED.with(|count| count.set(count.get() + parts.len()));
        let wide = parts
            .iter()
            .filter(|part| part.share > 0.0)
            .map(|part| Ok((part.task.widened(m, p)?, part.share / part.task.quadratic.n())))
            .collect::<Result<Vec<_>>>()?;
        let before = base.map(|(pool, _)| widened(&pool.quadratic, m, p)).transpose()?;
        let all = before.iter().map(|s| (&**s, base.map_or(1.0, |(_, fade)| fade)));
        let all = all.chain(wide.iter().map(|(s, factor)| (&**s, *factor)));
        let mut sum = match base {
            Some((pool, fade)) => Self {
                quadratic: Summary::empty(m, p),
                least: pool.least.map(|least| fade * least),
                spread: fade * fade * pool.spread,
                moments: pool.moments.clone(),
                scatters: Vec::new(),
                tails: pool.tails.as_ref().map(|tails| tails.scaled(fade)),
                ..*pool
            },
            None => Self {
                quadratic: Summary::empty(m, p),
                least: Some(0.0),
                tasks: 0,
                samples: 0.0,
                rows: Some(0),
                spread: 0.0,
                moments: None,
                scatters: Vec::new(),
                tails: Some(Tails::none(p)),
            },
        };
        let has = parts.iter().any(|part| !part.task.scatters.is_empty());
        if has || base.is_some_and(|(pool, _)| !pool.scatters.is_empty()) {
            sum.scatters = pooled_scatters(base, (m, p), parts)?;
        }
        // Products of fewer rows than columns are singular: no triangle could be made of them again.
        let rows: usize = all.clone().map(|(s, _)| s.rank_at_most()).sum();
        let by_sums = pooling == Pooling::Sums
            && m > WIDE_DESIGN
            && rows > m
            && all.clone().all(|(s, _)| s.may_be_summed());
        sum.quadratic = match (&before, &wide[..], base) {
            _ if by_sums => Summary::added_up(None, (m, p), all)?,
            // One task more: the larger one at the bottom of the factorisation keeps more digits.
            (Some(before), [(task, factor)], Some((_, fade))) => {
                scaled(before, fade)?.merge(&*scaled(task, *factor)?)?
            }
            _ => pool(m, p, all)?,
        };
        sum.count(parts);
        Ok(sum)
    }

    /// Adds tasks to a pool that is kept as sums, which are changed where they are. Both have the same columns and targets, and classes
    /// share one covariance.
    pub(crate) fn add_tasks(mut self, fade: f64, parts: &[Part<'_>]) -> Result<Self> {
        #[cfg(test)]
        tests::POOLED.with(|count| count.set(count.get() + parts.len()));
        let shape = (self.quadratic.width(), self.quadratic.targets());
        let mut quadratic = std::mem::replace(&mut self.quadratic, Summary::empty(1, 1));
        if (fade - 1.0).abs() > 0.0 {
            quadratic = quadratic.scale(fade)?;
        }
        let positive = parts.iter().filter(|part| part.share > 0.0);
        let tasks =
            positive.map(|part| (&part.task.quadratic, part.share / part.task.quadratic.n()));
        self.quadratic = Summary::added_up(Some(quadratic), shape, tasks)?;
        self.least = self.least.map(|least| fade * least);
        self.spread *= fade * fade;
        self.tails = self.tails.map(|tails| tails.scaled(fade));
        self.count(parts);
        Ok(self)
    }

    /// Counts tasks that were added to the quadratic.
    fn count(&mut self, parts: &[Part<'_>]) {
        let sum = self;
        for Part { task, share } in parts {
            let head = &task.head;
            sum.least = sum.least.zip(head.least.value()).map(|(sum, least)| sum + share * least);
            sum.tasks += 1;
            sum.samples += head.samples;
            sum.rows = sum.rows.zip(head.rows).map(|(a, b)| a + b);
            sum.spread += share * share / head.samples;
            let tails = task.tails.as_ref().map(|own| own.scaled(share / task.quadratic.n()));
            sum.tails = Tails::united(sum.tails.as_ref(), tails.as_ref());
            sum.moments = match (&sum.moments, &task.moments) {
                (Some(a), Some(b)) => Some(a.plus(b, 1.0)),
                (a, b) => a.as_ref().or(b.as_ref()).cloned(),
            };
        }
    }

    /// The pool of both.
    pub(crate) fn merge(&self, other: &Self) -> Result<Self> {
        let m = self.quadratic.width().max(other.quadratic.width());
        let p = self.quadratic.targets().max(other.quadratic.targets());
        let quadratic =
            widened(&self.quadratic, m, p)?.merge(&*widened(&other.quadratic, m, p)?)?;
        Ok(Self {
            quadratic,
            least: self.least.zip(other.least).map(|(a, b)| a + b),
            tasks: self.tasks + other.tasks,
            samples: self.samples + other.samples,
            rows: self.rows.zip(other.rows).map(|(a, b)| a + b),
            spread: self.spread + other.spread,
            moments: match (&self.moments, &other.moments) {
                (Some(a), Some(b)) => Some(a.plus(b, 1.0)),
                (a, b) => a.as_ref().or(b.as_ref()).cloned(),
            },
            scatters: (0..self.scatters.len().max(other.scatters.len()))
                .map(|k| {
                    wide_scatter(&self.scatters, k, m)?.merge(&wide_scatter(&other.scatters, k, m)?)
                })
                .collect::<Result<Vec<_>>>()?,
            tails: Tails::united(self.tails.as_ref(), other.tails.as_ref()),
        })
    }

    /// Removes a task of weight `share`.
    ///
    /// # Errors
    /// When the task was never added, or too few digits would remain.
    pub(crate) fn without(&self, task: &TaskSummary, share: f64) -> Result<Self> {
        let (m, p) = (self.quadratic.width(), self.quadratic.targets());
        let part = task.widened(m, p)?.scale(share / task.quadratic.n())?;
        let head = &task.head;
        Ok(Self {
            quadratic: self.quadratic.remove(&part)?,
            least: self.least.zip(head.least.value()).map(|(sum, least)| sum - share * least),
            tasks: self.tasks - 1,
            samples: self.samples - head.samples,
            rows: self.rows.zip(head.rows).map(|(a, b)| a.saturating_sub(b)),
            spread: self.spread - share * share / head.samples,
            moments: self.moments.as_ref().map(|all| {
                task.moments.as_ref().map_or_else(|| all.clone(), |m| all.plus(m, -1.0))
            }),
            scatters: (0..self.scatters.len())
                .map(|k| {
                    let out =
                        wide_scatter(&task.scatters, k, m)?.scale(share / task.quadratic.n())?;
                    without_scatter(wide_scatter(&self.scatters, k, m)?, &out)
                })
                .collect::<Result<Vec<_>>>()?,
            tails: {
                let own = task.tails.as_ref().map(|own| own.scaled(share / task.quadratic.n()));
                Tails::apart(self.tails.as_ref(), own.as_ref())
            },
        })
    }

    /// Effective samples `(Σ u_t)² / Σ u_t²/n_t` (Kish); `None` where squares of the weights are beyond the range of double
    /// precision.
    pub(crate) fn effective(&self) -> Option<f64> {
        let squares = 1e-280..1e280;
        let total = self.quadratic.n() * self.quadratic.n();
        (squares.contains(&self.spread) && squares.contains(&total)).then(|| total / self.spread)
    }

    /// The same with every quadratic replaced.
    pub(crate) fn with_quadratic(&self, quadratic: Summary) -> Self {
        Self { quadratic, ..self.clone() }
    }
}

/// The scatters of `p` classes, each with those of the tasks added.
fn pooled_scatters(
    base: Option<(&Pool, f64)>,
    (m, p): (usize, usize),
    parts: &[Part<'_>],
) -> Result<Vec<Summary>> {
    (0..p)
        .map(|k| {
            let mut all = Vec::new();
            if let Some((pool, fade)) = base {
                all.push((wide_scatter(&pool.scatters, k, m)?, fade));
            }
            for part in parts.iter().filter(|part| part.share > 0.0) {
                let factor = part.share / part.task.quadratic.n();
                all.push((wide_scatter(&part.task.scatters, k, m)?, factor));
            }
            pool(m, 1, all.iter().filter(|(s, _)| s.n() > 0.0).map(|(s, factor)| (s, *factor)))
        })
        .collect()
}

/// A summary over `m` columns and `p` targets; those it lacks have been zero.
pub(crate) fn widened(s: &Summary, m: usize, p: usize) -> Result<Cow<'_, Summary>> {
    if (s.width(), s.targets()) == (m, p) {
        return Ok(Cow::Borrowed(s));
    }
    let wider = s.extend_features(s.width(), m.saturating_sub(s.width()))?;
    Ok(Cow::Owned(wider.extend_targets(s.targets(), p.saturating_sub(s.targets()))?))
}

fn scaled(s: &Summary, factor: f64) -> Result<Cow<'_, Summary>> {
    Ok(if (factor - 1.0).abs() == 0.0 { Cow::Borrowed(s) } else { Cow::Owned(s.scale(factor)?) })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Tasks that this thread has added to pools.
        pub(crate) static POOLED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn weights_too_large_or_small_to_be_squared_are_reported() {
        let task = TaskSummary::exact(Summary::diagonal(1, 1, [(0, 1.0, 1.0)].into_iter()), None);
        let mut task = task;
        task.quadratic.recount(30.0, 0.0);
        task.head.samples = 30.0;
        for (share, known) in [(1e200, false), (1e-200, false), (1.0, true)] {
            let pool =
                Pool::with_tasks(None, (1, 1), &[Part { task: &task, share }], Pooling::Sums)
                    .unwrap();
            assert_eq!(pool.effective().is_some(), known, "{share}");
        }
    }
}
