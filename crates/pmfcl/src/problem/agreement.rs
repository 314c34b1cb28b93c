//! What everyone who summarizes rows of one model holds in common before the first row.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::{InMemory, Outputs, Past, Problem, TaskContext, TaskSummary};
use crate::basis::Design;
use crate::error::{Error, Result};
use crate::problem::pass::Passes as _;
use crate::rows::TaskRows;
use crate::settings::{MemoryKind, Preference, Settings};

/// SHA-256 of everything a task summary depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[doc(hidden)] // for secagg
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// That of a problem and a design, whatever targets and open classes there are: both meet by name.
    pub fn of(problem: &Problem, design: &Design) -> Self {
        digest(problem, design, &problem.method().outputs())
    }
}

impl fmt::Display for Digest {
    /// The first eight bytes in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// What clients and server, or the workers of a cluster, hold in common: problem, settings, design, outputs.
///
/// The design is fixed once, by the server or from rows all may see: a basis that takes its ranges from rows
/// ([`crate::Basis::needs_rows`]) must not take them at every client anew.
#[derive(Debug, Clone)]
pub struct Agreement {
    problem: Problem,
    settings: Settings,
    design: Design,
    outputs: Outputs,
    digest: Digest,
    /// Agreements that this one has more inputs than, and how many design columns each has.
    earlier: Vec<(Digest, usize)>,
}

impl Agreement {
    /// An agreement; `targets` is the number of values that are predicted, and is not asked for classes.
    ///
    /// # Errors
    /// When a setting is out of range, depends on the order of tasks or does not go with the design, or classes are not named.
    pub fn new(
        problem: Problem,
        settings: Settings,
        design: Design,
        targets: usize,
    ) -> Result<Self> {
        let settings = Settings { memory: MemoryKind::Ledger, ..settings };
        problem.check(&settings)?;
        problem.method().check_order_free()?;
        let outputs = match problem.method().outputs() {
            Outputs::Values(_) if targets == 0 => {
                return Err(Error::Empty { what: "the list of targets" });
            }
            Outputs::Values(_) => Outputs::Values(targets),
            Outputs::Classes(classes) if classes.is_empty() => {
                return Err(Error::Unsupported {
                    operation: "a federation without a list of classes",
                    reason: "clients see some of the classes each; name all of them".to_owned(),
                });
            }
            classes @ Outputs::Classes(_) => classes,
        };
        if !matches!(settings.prefer, Preference::Samples | Preference::Equal) {
            return Err(Error::Preference {
                reason: "clients have no order: weigh them by samples, or all the same".to_owned(),
            });
        }
        if design.map().basis() != &settings.basis || design.intercept() != settings.intercept {
            return Err(Error::Mismatch {
                what: "the design",
                left: format!("{} in the settings", settings.basis),
                right: format!("{} in the design", design.map().basis()),
            });
        }
        if design.clip() != settings.clip {
            return Err(Error::Mismatch {
                what: "the clip",
                left: format!("{:?} in the settings", settings.clip),
                right: format!("{:?} in the design", design.clip()),
            });
        }
        let digest = digest(&problem, &design, &outputs);
        Ok(Self { problem, settings, design, outputs, digest, earlier: Vec::new() })
    }

    /// The same agreement, which says that it goes on with an earlier one: it has all its inputs, and behind them others that
    /// have been zero in all rows so far. What was made under the earlier one holds under this.
    ///
    /// # Errors
    /// When it has other inputs, or anything else differs.
    pub fn after(mut self, earlier: &Self) -> Result<Self> {
        let more = self.design.inputs().checked_sub(earlier.design.inputs());
        let grown = more.and_then(|more| earlier.design.with_inputs(more).ok());
        let same = grown.is_some_and(|grown| grown.has_columns_of(&self.design))
            && digest(&self.problem, &earlier.design, &self.outputs) == earlier.digest
            && self.settings == earlier.settings;
        if !same {
            return Err(Error::Mismatch {
                what: "the agreement",
                left: self.to_string(),
                right: format!(
                    "{earlier}, which it should go on with: only inputs at the end may be new"
                ),
            });
        }
        self.earlier.clone_from(&earlier.earlier);
        if earlier.digest != self.digest {
            self.earlier.push((earlier.digest, earlier.design.width()));
        }
        Ok(self)
    }

    /// Design columns of what was made under this agreement, or under one it goes on with; `None` for any other.
    pub(crate) fn width_under(&self, digest: Digest) -> Option<usize> {
        let earlier = self.earlier.iter().find(|(known, _)| *known == digest);
        let own = (digest == self.digest).then(|| self.design.width());
        own.or_else(|| earlier.map(|(_, width)| *width))
    }

    /// What is predicted, and by which loss.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The settings of the joint learner.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The design.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The outputs.
    pub fn outputs(&self) -> &Outputs {
        &self.outputs
    }

    /// What tasks are summarized under.
    pub fn context(&self) -> TaskContext<'_> {
        TaskContext {
            problem: &self.problem,
            settings: &self.settings,
            design: &self.design,
            outputs: &self.outputs,
        }
    }

    /// SHA-256 of everything a task summary depends on: loss with its parameters, basis, what the basis was fixed to,
    /// intercept, targets or classes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Columns of parameters.
    pub fn columns(&self) -> usize {
        self.problem.method().columns(&self.outputs)
    }

    /// The classes in sorted order; none for values.
    pub fn class_names(&self) -> &[String] {
        self.outputs.classes().map_or(&[], |classes| classes.names())
    }

    /// The task summary of rows.
    ///
    /// # Errors
    /// On bad input (see [`Error`]), and on a label outside the classes.
    pub fn summarize(&self, rows: TaskRows<'_>) -> Result<TaskSummary> {
        if rows.is_empty() {
            return Err(Error::Empty { what: "the task" });
        }
        let mut passes = InMemory::new(self.context(), rows)?;
        let first = passes.run(&self.problem.first_pass())?;
        let past = Past { pool: None, start: None, weight: 1.0, generation: 0 };
        let draft = self.problem.method().fit(&self.context(), &past, first, &mut passes)?;
        if let Some(settled) = draft.settled {
            return Err(Error::Unsupported {
                operation: "a summary under this agreement",
                reason: format!(
                    "{} leaves open what the first task settles; name it, for instance {settled}",
                    self.problem
                ),
            });
        }
        match self.outputs.classes() {
            Some(classes) => draft.summary.aligned(classes),
            None => Ok(draft.summary),
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} inputs ({})", self.problem, self.design.inputs(), self.digest)
    }
}

/// SHA-256 over everything a summary depends on, each item with its length.
fn digest(problem: &Problem, design: &Design, outputs: &Outputs) -> Digest {
    let mut hash = Sha256::new();
    let mut take = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    take(b"pmfcl agreement 2");
    take(problem.to_string().as_bytes());
    for (name, value) in problem.options() {
        // A covariance for each class takes a summary for each.
        let wider = name == "covariance" && value != "tied";
        if ["curvature", "scheme"].contains(&name) || wider {
            take(name.as_bytes());
            take(value.as_bytes());
        }
    }
    match outputs {
        Outputs::Values(count) => take(&(*count as u64).to_le_bytes()),
        Outputs::Classes(classes) => {
            take(b"classes");
            classes.by_place().iter().for_each(|class| take(class.as_bytes()));
        }
    }
    take(design.map().basis().stored().as_bytes());
    take(&[u8::from(design.intercept())]);
    take(&(design.inputs() as u64).to_le_bytes());
    let frozen: Vec<u8> = design.map().frozen().iter().flat_map(|v| v.to_le_bytes()).collect();
    take(&frozen);
    if let Some(clip) = design.clip() {
        take(b"clip");
        take(&clip.to_le_bytes());
    }
    Digest(hash.finalize().into())
}
