//! Which client has which rows in which step, who is there, and what is tested on.

use anyhow::{Context as _, Result, bail};
use pmfcl::{Labels, Rows, TaskRows};
use pmfcl_baselines::Random;
use pmfcl_ingest::{Gathered, GatheredTargets};

/// What is to be predicted.
pub(super) enum Targets {
    /// Numbers, row after row.
    Values { cells: Vec<f64>, width: usize },
    /// A class for each row, and all their names.
    Classes { codes: Vec<u32>, names: Vec<String> },
}

/// Rows, each of one client and step.
pub(super) struct Stage {
    pub(super) width: usize,
    x: Vec<f64>,
    pub(super) y: Targets,
    pub(super) clients: Vec<String>,
    client: Vec<usize>,
    pub(super) steps: Vec<String>,
    step: Vec<usize>,
    test: Vec<bool>,
    /// Whether a client is there, step by step.
    present: Vec<Vec<bool>>,
}

/// Some rows with their targets.
pub(super) struct StepRows<'a> {
    x: Vec<f64>,
    width: usize,
    /// Names of classes are in `names`.
    y: Targets,
    names: &'a [String],
}

impl StepRows<'_> {
    /// The rows as the library takes them.
    pub(super) fn rows(&self) -> pmfcl::Result<TaskRows<'_>> {
        let y = match &self.y {
            Targets::Values { cells, width } => pmfcl::Targets::Values(Rows::new(cells, *width)?),
            Targets::Classes { codes, .. } => pmfcl::Targets::Classes { codes, names: self.names },
        };
        Ok(TaskRows { x: Rows::new(&self.x, self.width)?, y, weights: None })
    }
}

/// Where the steps come from.
pub(super) enum Cut {
    /// A column of the table, in order of appearance.
    Column,
    /// Each client's rows in order, in this many parts.
    Parts(usize),
}

/// One row in so many is tested on, where the table does not say which.
const HELD_OUT: f64 = 0.25;

impl Stage {
    /// `all.keys` are client, then task where steps are a column, then split where there is one.
    pub(super) fn new(
        all: Gathered,
        targets: usize,
        cut: &Cut,
        split: bool,
        (absent, seed): (f64, u64),
    ) -> Result<Self> {
        let mut keys = all.keys.into_iter();
        let clients = keys.next().context("the client column was not read")?;
        let client: Vec<usize> = clients.codes.iter().map(|&c| c as usize).collect();
        let tasks = if matches!(cut, Cut::Column) { keys.next() } else { None };
        let mut draws = Random::of(seed, "test");
        let test: Vec<bool> = if split {
            let split = keys.next().context("the split column was not read")?;
            let learn = |n: &String| matches!(n.as_str(), "0" | "0.0" | "train" | "false");
            let learn: Vec<bool> = split.names.iter().map(learn).collect();
            split.codes.iter().map(|&c| !learn[c as usize]).collect()
        } else {
            client.iter().map(|_| draws.uniform() < HELD_OUT).collect()
        };
        let (steps, step) = match cut {
            Cut::Column => {
                let tasks = tasks.context("the task column was not read")?;
                (tasks.names, tasks.codes.iter().map(|&c| c as usize).collect())
            }
            Cut::Parts(parts) => {
                let names = (1..=*parts).map(|k| k.to_string()).collect();
                (names, in_parts(&client, &test, clients.names.len(), *parts))
            }
        };
        if !test.contains(&true) || !test.contains(&false) {
            bail!("there must be rows to learn from and rows to test on");
        }
        let y = match all.y {
            GatheredTargets::Values(cells) => Targets::Values { cells, width: targets },
            GatheredTargets::Classes(words) => {
                let names: Vec<&str> =
                    words.codes.iter().map(|&c| words.names[c as usize].as_str()).collect();
                // Numbers by value, then text: the order the library keeps them in.
                let labels = Labels::new(&names);
                if labels.names().len() < 2 {
                    bail!("the target has one class; there is nothing to tell apart");
                }
                let names = labels.names().to_vec();
                Targets::Classes { codes: labels.codes().to_vec(), names }
            }
        };
        let mut stage = Self {
            width: all.inputs.len(),
            x: all.x,
            y,
            clients: clients.names,
            client,
            steps,
            step,
            test,
            present: Vec::new(),
        };
        stage.draw_attendance(absent, seed);
        Ok(stage)
    }

    /// A client without rows in a step is not there; of the others a share is absent, but never all.
    fn draw_attendance(&mut self, absent: f64, seed: u64) {
        let mut draws = Random::of(seed, "absent");
        for step in 0..self.steps.len() {
            let mut has = vec![false; self.clients.len()];
            for row in 0..self.test.len() {
                has[self.client[row]] |= self.step[row] == step && !self.test[row];
            }
            let mut there: Vec<bool> =
                has.iter().map(|has| draws.uniform() >= absent && *has).collect();
            if let (false, Some(first)) = (there.contains(&true), has.iter().position(|h| *h)) {
                there[first] = true;
            }
            self.present.push(there);
        }
    }

    /// Clients that are there in a step.
    pub(super) fn there(&self, step: usize) -> Vec<usize> {
        (0..self.clients.len()).filter(|&c| self.present[step][c]).collect()
    }

    /// Whether a client has taken part by the end of a step.
    pub(super) fn known(&self, client: usize, step: usize) -> bool {
        self.present[..=step].iter().any(|there| there[client])
    }

    /// Rows a client learns from in a step.
    pub(super) fn learned(&self, client: usize, step: usize) -> Vec<usize> {
        let own = |row: &usize| {
            (self.client[*row], self.step[*row]) == (client, step) && !self.test[*row]
        };
        (0..self.test.len()).filter(own).collect()
    }

    /// Rows tested on after a step: of all steps so far, of the clients that have taken part.
    pub(super) fn tested(&self, step: usize) -> Vec<usize> {
        let counts = |row: &usize| {
            self.test[*row] && self.step[*row] <= step && self.known(self.client[*row], step)
        };
        (0..self.test.len()).filter(counts).collect()
    }

    pub(super) fn client_of(&self, row: usize) -> usize {
        self.client[row]
    }

    /// Inputs of some rows.
    pub(super) fn inputs(&self, rows: &[usize]) -> Vec<f64> {
        let d = self.width;
        rows.iter().flat_map(|&row| &self.x[row * d..(row + 1) * d]).copied().collect()
    }

    /// All inputs.
    pub(super) fn all_inputs(&self) -> &[f64] {
        &self.x
    }

    /// Values of some rows; the codes of classes as numbers.
    pub(super) fn values(&self, rows: &[usize]) -> Vec<f64> {
        match &self.y {
            Targets::Values { cells, width } => {
                rows.iter().flat_map(|&r| &cells[r * width..(r + 1) * width]).copied().collect()
            }
            Targets::Classes { codes, .. } => rows.iter().map(|&r| f64::from(codes[r])).collect(),
        }
    }

    /// Inputs and targets of some rows, to learn from.
    pub(super) fn step_rows(&self, rows: &[usize]) -> StepRows<'_> {
        let y = match &self.y {
            Targets::Values { width, .. } => {
                Targets::Values { cells: self.values(rows), width: *width }
            }
            Targets::Classes { codes, .. } => Targets::Classes {
                codes: rows.iter().map(|&row| codes[row]).collect(),
                names: Vec::new(),
            },
        };
        let names = match &self.y {
            Targets::Values { .. } => &[][..],
            Targets::Classes { names, .. } => names,
        };
        StepRows { x: self.inputs(rows), width: self.width, y, names }
    }

    /// [`Self::error`] of those outputs that are for rows of one step; not a number where there are none.
    pub(super) fn error_of_step(&self, outputs: &[f64], rows: &[usize], step: usize) -> f64 {
        let width = outputs.len() / rows.len().max(1);
        let of_step = rows.iter().enumerate().filter(|(_, row)| self.step[**row] == step);
        let (places, rows): (Vec<usize>, Vec<usize>) = of_step.unzip();
        let outputs: Vec<f64> =
            places.iter().flat_map(|&i| &outputs[i * width..(i + 1) * width]).copied().collect();
        self.error(&outputs, &rows)
    }

    /// The error of outputs: root of the mean square, or the share of rows of another class. Outputs of classes are codes.
    pub(super) fn error(&self, outputs: &[f64], rows: &[usize]) -> f64 {
        let truth = self.values(rows);
        let pairs = outputs.iter().zip(&truth);
        let sum: f64 = match &self.y {
            Targets::Values { .. } => pairs.map(|(a, b)| (a - b) * (a - b)).sum(),
            Targets::Classes { .. } => {
                pairs.filter(|(a, b)| (**a - **b).abs() > 0.5).count() as f64
            }
        };
        let mean = sum / truth.len() as f64;
        if matches!(self.y, Targets::Values { .. }) { mean.sqrt() } else { mean }
    }
}

/// The part of each row when each client's rows are cut in order into parts of nearly equal size: those to learn from and those
/// to test on apart, so that a table that keeps its last rows for testing has some in every part.
fn in_parts(client: &[usize], test: &[bool], clients: usize, parts: usize) -> Vec<usize> {
    let pile = |row: usize| 2 * client[row] + usize::from(test[row]);
    let mut counts = vec![0; 2 * clients];
    (0..client.len()).for_each(|row| counts[pile(row)] += 1);
    let mut seen = vec![0; 2 * clients];
    let part = |row: usize| {
        let pile = pile(row);
        let part = seen[pile] * parts / counts[pile];
        seen[pile] += 1;
        part
    };
    (0..client.len()).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clients_rows_are_cut_in_order() {
        let client = [0, 1, 0, 0, 1, 0, 0, 0];
        assert_eq!(in_parts(&client, &[false; 8], 2, 3), [0, 0, 0, 1, 1, 1, 2, 2]);
        assert_eq!(in_parts(&client, &[false; 8], 2, 1), [0; 8]);
        let last = [false, false, false, false, true, false, true, true];
        assert_eq!(in_parts(&client, &last, 2, 2), [0, 0, 0, 1, 0, 1, 0, 1]);
    }
}
