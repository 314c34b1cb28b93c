//! Growing: merging with a memory made elsewhere, and inputs in other places.

use std::sync::Arc;

use super::Learner;
use super::memory::Memory;
use crate::basis::{Design, Fill};
use crate::error::{Error, Result};
use crate::problem::{Outputs, Pool, TaskSummary, moved_scatters, widened};
use crate::settings::Preference;
use crate::summary::Summary;

impl Learner {
    /// Merges with a memory made elsewhere: afterwards this learner has learned both. The classes are those of both.
    ///
    /// # Errors
    /// When problems, settings or designs differ, or a task name occurs in both.
    pub fn merge(&mut self, other: &Learner) -> Result<()> {
        self.check_mergeable(other)?;
        for side in [&*self, other] {
            let missing = side.unloaded();
            if missing > 0 {
                return Err(Error::Unloaded { operation: "a merger", missing });
            }
        }
        if other.records.is_empty() {
            return Ok(());
        }
        if let Some(twice) = other.names().find(|name| self.contains(name)) {
            return Err(Error::DuplicateTask { name: twice.to_owned() });
        }
        if self.records.is_empty() {
            // Nothing to merge with: in every memory and under every preference this is the other's.
            let (settings, edits) = (self.settings.clone(), self.edits + 1);
            let generation = self.generation + 1;
            *self = Self { settings, generation, edits, ..other.clone() };
            return Ok(());
        }
        let mut both = self.clone();
        both.unite_fills(other)?;
        let places = both.unite_outputs(&other.outputs);
        both.settle();
        let file = |both: &mut Learner, at: usize, record: &super::TaskRecord| {
            let place = both.records.len();
            both.index.insert(record.name.clone(), place);
            let mut record = record.clone();
            record.head.calibration = other.calibration(at).cloned();
            if let Some(held) = other.held_sample(at) {
                both.samples.insert(place, held);
            }
            if let Some(places) = &places {
                record.head.counts = spread(&record.head.counts, places);
            }
            both.records.push(record);
        };
        match other.every_task("a merger") {
            Ok(tasks) if !both.is_folded() => {
                for (at, (record, task)) in other.records.iter().zip(tasks).enumerate() {
                    let task = Arc::new(placed(task, places.as_deref())?);
                    // In other places a summary may have other zeros to leave out.
                    let (rank, bytes) = (task.quadratic.rank(), task.nbytes());
                    file(&mut both, at, &super::TaskRecord { rank, bytes, ..record.clone() });
                    both.remember(task);
                }
            }
            _ => {
                for (at, record) in other.records.iter().enumerate() {
                    file(&mut both, at, record);
                }
                both.fold_with(other, places.as_deref())?;
            }
        }
        both.generation += 1;
        both.edits += 1;
        *self = both;
        Ok(())
    }

    /// Merges where one of the memories has been folded.
    fn fold_with(&mut self, other: &Learner, places: Option<&[usize]>) -> Result<()> {
        if !matches!(self.settings.prefer, Preference::Samples | Preference::Equal) {
            return Err(Error::Unsupported {
                operation: "merging compact memories under decay",
                reason: "the order of the tasks is gone; use the ledger".to_owned(),
            });
        }
        let (m, p) = self.shape()?;
        let pool = other.shared_pool()?;
        let quadratic = match places {
            Some(places) => pool.quadratic.rearrange_targets(places, p)?,
            None => pool.quadratic.clone(),
        };
        let mut theirs = pool.with_quadratic(widened(&quadratic, m, p)?.into_owned());
        if let Some(places) = places {
            theirs.scatters = moved_scatters(&theirs.scatters, places, p);
        }
        let ours: Option<Pool> = match &self.memory {
            Memory::Empty => None,
            Memory::Held(held) => {
                let own = self.records.len() - other.records.len();
                let shares = self.settings.prefer.shares(&self.weighed()[..own])?;
                let part = |(task, share): (&Arc<TaskSummary>, &f64)| (task.clone(), *share);
                let tasks: Vec<(Arc<TaskSummary>, f64)> =
                    held.iter().zip(&shares).map(part).collect();
                let parts: Vec<crate::problem::Part<'_>> = tasks
                    .iter()
                    .map(|(task, share)| crate::problem::Part { task, share: *share })
                    .collect();
                Some(Pool::with_tasks(None, (m, p), &parts, self.pooling())?)
            }
            Memory::Folded { base, waiting } => {
                let mut pool = (**base).clone();
                if !waiting.is_empty() {
                    let own = self.records.len() - other.records.len();
                    let shares = self.settings.prefer.shares(&self.weighed()[..own])?;
                    let first = own - waiting.len();
                    let parts: Vec<crate::problem::Part<'_>> = waiting
                        .iter()
                        .zip(&shares[first..])
                        .map(|(task, share)| crate::problem::Part { task, share: *share })
                        .collect();
                    pool = Pool::with_tasks(Some((&pool, 1.0)), (m, p), &parts, self.pooling())?;
                }
                Some(pool)
            }
            Memory::Ledger { .. } => {
                return Err(Error::State { reason: "a ledger cannot be folded".to_owned() });
            }
        };
        let pool = match ours {
            Some(ours) => ours.merge(&theirs)?,
            None => theirs,
        };
        self.memory = Memory::Folded { base: Arc::new(pool), waiting: Vec::new() };
        self.pooled = super::Lazy::default();
        self.forget_solution();
        Ok(())
    }

    /// Fills the gaps that either of both has.
    fn unite_fills(&mut self, other: &Learner) -> Result<()> {
        let (Some(own), Some(theirs)) = (&self.design, &other.design) else { return Ok(()) };
        let mut fills = own.fills().to_vec();
        fills.extend(theirs.fills().iter().filter(|fill| !own.fills().contains(fill)));
        self.set_fills(fills)
    }

    /// Adds the classes of another learner; for each of its places the place here, `None` where nothing moves.
    fn unite_outputs(&mut self, theirs: &Outputs) -> Option<Vec<usize>> {
        let (Outputs::Classes(ours), Outputs::Classes(theirs)) = (&self.outputs, theirs) else {
            return None;
        };
        let all = ours.with(theirs.by_place());
        let place = |name: &String| all.place(name).map(|at| at as usize);
        let places: Option<Vec<usize>> = theirs.by_place().iter().map(place).collect();
        let places = places.filter(|p| p.iter().enumerate().any(|(k, place)| k != *place));
        self.outputs = Outputs::Classes(all);
        places
    }

    /// Puts inputs elsewhere: input `j` becomes input `places[j]` of `count`, the others have been zero so far. For memories
    /// that met the same columns or categories in another order.
    ///
    /// # Errors
    /// When the basis mixes inputs, or `places` is no such list.
    pub fn rearrange_inputs(&mut self, places: &[usize], count: usize) -> Result<()> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        let wider = design.with_inputs(count.saturating_sub(design.inputs()))?;
        let offset = usize::from(design.intercept());
        let columns: Vec<usize> =
            (0..offset).chain(places.iter().map(|place| place + offset)).collect();
        if places.len() != design.inputs() {
            return Err(super::shape(
                "the list of places",
                "columns",
                design.inputs(),
                places.len(),
            ));
        }
        let mut next = self.clone();
        let width = count + offset;
        next.transform(&|task| task.rearranged(&columns[..task.quadratic.width()], width))?;
        let moved =
            |fill: &Fill| Fill { value: places[fill.value], indicator: places[fill.indicator] };
        let fills = wider.fills().iter().map(moved).collect();
        next.design = Some(wider.with_fills(fills)?);
        for held in next.samples.values_mut() {
            held.move_inputs(places, count);
        }
        *self = next;
        Ok(())
    }

    /// Inputs that are zero in every row in memory: a category that no row has any more. None where memory does not say it, for
    /// tasks that were merged, losses that are bounded, and bases that are not linear.
    pub fn unused_inputs(&self) -> Vec<usize> {
        let Some(design) = &self.design else { return Vec::new() };
        let Ok(tasks) = self.every_task("looking for unused inputs") else { return Vec::new() };
        if !design.map().is_identity() || !self.problem.description().exact || tasks.is_empty() {
            return Vec::new();
        }
        let first = usize::from(design.intercept());
        let mut used = vec![false; design.inputs()];
        for task in tasks {
            let squares = task.quadratic.column_squares();
            for (used, square) in used.iter_mut().zip(&squares[first..]) {
                *used |= *square > 0.0;
            }
        }
        (0..used.len()).filter(|&j| !used[j]).collect()
    }

    /// Drops inputs that are zero in every row in memory; predictions of rows that are zero there too stay as they are.
    ///
    /// # Errors
    /// When an input is not one of [`Learner::unused_inputs`], or all of them would go.
    pub fn drop_inputs(&mut self, dropped: &[usize]) -> Result<()> {
        let Some(design) = self.design.clone() else { return Err(Error::NotLearned) };
        let unused = self.unused_inputs();
        let kept: Vec<usize> = (0..design.inputs()).filter(|j| !dropped.contains(j)).collect();
        if kept.is_empty() || dropped.iter().any(|j| !unused.contains(j)) {
            return Err(Error::Unsupported {
                operation: "dropping inputs",
                reason: "rows in memory have them, or none would be left".to_owned(),
            });
        }
        if dropped.is_empty() {
            return Ok(());
        }
        let first = usize::from(design.intercept());
        let columns: Vec<usize> = (0..first).chain(kept.iter().map(|j| j + first)).collect();
        let mut next = self.clone();
        next.transform(&|task| {
            let own = |s: &Summary| {
                let there: Vec<usize> =
                    columns.iter().copied().filter(|&j| j < s.width()).collect();
                s.without_zero_columns(&there)
            };
            let scatters = task.scatters.iter().map(own).collect();
            Ok(TaskSummary { quadratic: own(&task.quadratic), scatters, ..task.clone() })
        })?;
        let place = |j: usize| kept.binary_search(&j).ok();
        let fills = design.fills().iter().filter_map(|fill| {
            Some(Fill { value: place(fill.value)?, indicator: place(fill.indicator)? })
        });
        let narrow = Design::linear(kept.len(), design.intercept())?.with_clip(design.clip());
        next.design = Some(narrow.with_fills(fills.collect())?);
        // Samples wait for a solution with inputs that are zero in all their rows.
        next.samples.clear();
        *self = next;
        Ok(())
    }

    /// Adds `count` inputs at the end whose past values are zero: categories unseen before. Nothing in memory changes.
    ///
    /// # Errors
    /// When the basis mixes inputs, so that a new one would change columns already summarized.
    pub fn extend_inputs(&mut self, count: usize) -> Result<()> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        let wider = design.with_inputs(count)?;
        if count > 0 {
            self.settle();
            self.design = Some(wider);
            self.generation += 1;
        }
        Ok(())
    }

    /// Adds inputs at the end that have had one value each in all rows so far: columns whose past is stated. Every summary is made
    /// anew, so those of a file must be loaded.
    ///
    /// # Errors
    /// When the basis mixes inputs, a value is not finite, not 0 without an intercept or for a loss that is bounded, or summaries
    /// are still in a file. The learner is then unchanged.
    pub fn extend_inputs_with(&mut self, values: &[f64]) -> Result<()> {
        let Some(design) = &self.design else { return Err(Error::NotLearned) };
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            let what = "the value of a column before it came";
            return Err(Error::Range { what, value: *value, must: "finite" });
        }
        if values.iter().all(|value| *value == 0.0) {
            return self.extend_inputs(values.len());
        }
        let refused = |reason: &str| {
            let operation = "a column that has had one value other than 0 so far";
            Err(Error::Unsupported { operation, reason: format!("{reason}; let it be 0") })
        };
        if !self.settings.intercept {
            return refused("without an intercept memory does not hold the sums it takes");
        }
        if !self.is_exact() {
            // The point at which a loss was expanded would have been another one.
            return refused("this loss is known near one point only, which the column would move");
        }
        let wider = design.with_inputs(values.len())?;
        let (width, inputs) = (design.width(), design.inputs());
        let mut next = self.clone();
        next.transform(&|task| task.with_constants(width, values))?;
        next.design = Some(wider);
        for held in next.samples.values_mut() {
            held.extend_constants(inputs, values);
        }
        *self = next;
        Ok(())
    }

    fn check_mergeable(&self, other: &Learner) -> Result<()> {
        let differ = |what, left: String, right: String| {
            if left == right { Ok(()) } else { Err(Error::Mismatch { what, left, right }) }
        };
        let (a, b) = (&self.settings, &other.settings);
        let described = |learner: &Learner| {
            let kind = if learner.problem.predicts_classes() { "classes" } else { "values" };
            let options: Vec<String> =
                learner.problem.options().iter().map(|(k, v)| format!("{k}={v}")).collect();
            format!("{} of {kind} {}", learner.problem, options.join(" ")).trim_end().to_owned()
        };
        if !self.same_problem(&other.problem) {
            differ("loss", described(self), described(other))?;
            let named = |learner: &Learner| format!("{:?}", learner.problem.class_list());
            differ("fixed classes", named(self), named(other))?;
        }
        differ("basis", a.basis.to_string(), b.basis.to_string())?;
        differ("clip", format!("{:?}", a.clip), format!("{:?}", b.clip))?;
        differ("intercept", a.intercept.to_string(), b.intercept.to_string())?;
        differ("memory", a.memory.to_string(), b.memory.to_string())?;
        if a.prefer != b.prefer {
            differ("preference", format!("{:?}", a.prefer), format!("{:?}", b.prefer))?;
        }
        differ("ridge", a.ridge.to_string(), b.ridge.to_string())?;
        differ("standardize", a.standardize.to_string(), b.standardize.to_string())?;
        if let (Outputs::Classes(ours), Outputs::Classes(theirs)) = (&self.outputs, &other.outputs)
            && !self.problem.description().exact
            && !ours.is_empty()
            && !theirs.is_empty()
        {
            differ("classes", ours.names().join(", "), theirs.names().join(", "))?;
        }
        if let (Some(a), Some(b)) = (&self.design, &other.design) {
            differ("number of inputs", a.inputs().to_string(), b.inputs().to_string())?;
            if let (Outputs::Values(a), Outputs::Values(b)) = (&self.outputs, &other.outputs)
                && *a > 0
                && *b > 0
            {
                differ("number of targets", a.to_string(), b.to_string())?;
            }
            if !a.has_columns_of(b) {
                return Err(Error::Mismatch {
                    what: "what the basis was fixed to by its first rows",
                    left: "here".to_owned(),
                    right: "there; fix it once, and start both learners from it".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// A task summary with its targets in other places.
fn placed(task: &TaskSummary, places: Option<&[usize]>) -> Result<TaskSummary> {
    let Some(places) = places else { return Ok(task.clone()) };
    let own = task.quadratic.targets();
    let count = places.iter().max().map_or(0, |most| most + 1);
    let mut moved = task.clone();
    moved.quadratic = task.quadratic.rearrange_targets(&places[..own], count)?;
    moved.head.counts = spread(&task.head.counts, places);
    moved.scatters = moved_scatters(&task.scatters, places, count);
    Ok(moved)
}

/// Numbers by place, in other places.
fn spread(values: &[f64], places: &[usize]) -> Vec<f64> {
    let mut wide = vec![0.0; places.iter().max().map_or(0, |most| most + 1)];
    for (value, place) in values.iter().zip(places) {
        wide[*place] = *value;
    }
    wide
}
