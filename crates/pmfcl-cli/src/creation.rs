//! Settings of a model that is created.

use std::path::Path;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::problem::{Calibrate, Covariance, Curvature, Scheme};
use pmfcl::{
    Accumulator, Basis, ClassList, Learner, MemoryKind, Preference, Problem, Ridge, Settings,
    StoredPrecision,
};
use pmfcl_file::{Coding, Model};
use pmfcl_ingest::{ColumnSelection, Files, choose_columns, shell_option, shell_word};
use pmfcl_terminal::{bytes, detail, note, note_index};

/// Settings that are fixed when a model is created.
#[derive(Debug, Args)]
#[command(next_help_heading = "At creation")]
pub(crate) struct Creation {
    /// squared, huber[:DELTA] or poisson[:CAP] for numbers; gaussian (LDA), logistic (softmax for several
    /// classes) or squared for classes. By default gaussian for text targets, squared for numbers.
    #[arg(long, value_name = "LOSS", value_parser = loss_spec)]
    loss: Option<String>,
    /// auto learns several bases and chooses from the summaries; linear, poly:2, spline:8, rbf:200, rff:1024, relu:2000,
    /// ntk:256; patches:2000 for images; log and power:0.5 for columns of any size, exp for small ones. Options follow after
    /// commas: rff:1024,seed=7.
    #[arg(long, value_name = "SPEC")]
    basis: Option<Basis>,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries, 0 is minimum norm.
    #[arg(long, value_name = "X|auto")]
    ridge: Option<Ridge>,
    /// Multiply the ridge by each feature's variance.
    #[arg(long)]
    standardize: bool,
    /// No intercept.
    #[arg(long)]
    no_intercept: bool,
    /// ledger: one summary per task; compact: one summary of constant size.
    #[arg(long, value_name = "KIND")]
    memory: Option<MemoryKind>,
    /// qr: accurate; gram: up to three times faster, loses twice the digits; mixed: single precision, for
    /// thousands of random features; auto (the default): qr up to 512 columns, gram beyond.
    #[arg(long, value_name = "WAY")]
    accumulator: Option<Accumulator>,
    /// f64, or f32 for half the bytes of every task's summary in the file: its numbers are then off by 6e-8 of
    /// themselves. For squared and gaussian loss.
    #[arg(long, value_name = "PRECISION")]
    store: Option<StoredPrecision>,
    /// samples, equal, or decay:G (each task counts G times as much as the next).
    #[arg(long, value_name = "WAY")]
    prefer: Option<Preference>,
    /// Curvature of logistic bounds: bohning, sharp, hessian, blend, diagonal.
    #[arg(long, value_name = "KIND")]
    curvature: Option<Curvature>,
    /// Where logistic bounds are made: one-shot or sequential.
    #[arg(long, value_name = "WAY")]
    scheme: Option<Scheme>,
    /// Covariance of gaussian: tied (one for all classes), or class (one for each, drawn toward the shared one; K times the memory).
    #[arg(long, value_name = "KIND")]
    covariance: Option<Covariance>,
    /// Probabilities of gaussian: on (measured on the rows of every task), off (temperature 1), or a temperature.
    #[arg(long, value_name = "on|off")]
    calibrate: Option<Calibrate>,
    /// What coefficients of categories are relative to: onehot (nothing), reference (the first category of the column) or sum
    /// (the mean of its categories). Predictions are the same.
    #[arg(long, value_name = "KIND")]
    pub(crate) coding: Option<Coding>,
    /// All classes there will be; needed for logistic where the files of the first command lack some.
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    classes: Option<Vec<String>>,
}

impl Creation {
    /// Whether any of them was given.
    pub(crate) fn is_given(&self) -> bool {
        let Self { loss, basis, ridge, memory, accumulator, store, prefer, classes, .. } = self;
        loss.is_some()
            || basis.is_some()
            || ridge.is_some()
            || self.standardize
            || self.no_intercept
            || memory.is_some()
            || accumulator.is_some()
            || store.is_some()
            || prefer.is_some()
            || classes.is_some()
            || !self.problem_options().is_empty()
    }

    /// Checks that the options given are those the model was made with.
    pub(crate) fn check(&self, model: &Model, path: &Path) -> Result<()> {
        let s = model.learner.settings();
        let same = |flag: &str, ours: String, asked: Option<String>| {
            asked.map_or(Ok(()), |asked| check_same(path, flag, ours, &asked))
        };
        let problem = model.learner.problem();
        // What the first task has settled need not be repeated: `huber` is the model's own `huber:1.35`.
        let loss = self.loss.clone().filter(|asked| asked != problem.name());
        same("--loss", model.loss(), loss)?;
        same("--basis", s.basis.to_string(), text(self.basis.as_ref()))?;
        same("--memory", s.memory.to_string(), text(self.memory.as_ref()))?;
        same("--accumulator", s.accumulator.to_string(), text(self.accumulator.as_ref()))?;
        same("--store", s.store.to_string(), text(self.store.as_ref()))?;
        same("--ridge", s.ridge.to_string(), text(self.ridge.as_ref()))?;
        same("--prefer", s.prefer.to_string(), text(self.prefer.as_ref()))?;
        same("--coding", model.schema.coding.to_string(), text(self.coding.as_ref()))?;
        if self.no_intercept {
            same("--no-intercept", s.intercept.to_string(), Some("false".to_owned()))?;
        }
        if self.standardize && !s.standardize {
            bail!("{}: the model was made without --standardize", path.display());
        }
        for (name, asked) in self.problem_options() {
            let ours = problem.options().into_iter().find(|(own, _)| *own == name);
            match ours {
                Some((_, ours)) => check_same(path, &format!("--{name}"), ours, &asked)?,
                None => drop(problem.with_option(name, &asked)?),
            }
        }
        Ok(())
    }

    /// The options of single losses that were given.
    fn problem_options(&self) -> Vec<(&'static str, String)> {
        let given = [
            ("curvature", text(self.curvature.as_ref())),
            ("scheme", text(self.scheme.as_ref())),
            ("covariance", text(self.covariance.as_ref())),
            ("calibrate", text(self.calibrate.as_ref())),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// A model that has learned nothing, for the columns of the first file.
    pub(crate) fn model(
        &self,
        files: &Files,
        selection: &ColumnSelection,
        path: &Path,
    ) -> Result<Model> {
        if selection.targets.is_empty() {
            bail!(
                "{}: there is no such model yet; name the column it is to predict with --target COLUMN",
                path.display()
            );
        }
        if path.is_dir() {
            return Err(pmfcl_file::FileError::Directory(path.to_path_buf()).into());
        }
        let chosen = choose_columns(&files.first()?, selection)?;
        note_index(&chosen.index);
        if !chosen.index.is_empty() {
            detail("name it with --features, --dates or --as-category to use it");
        }
        let problem = self.problem(chosen.text_target)?;
        if problem.predicts_classes() && chosen.schema.targets.len() > 1 {
            bail!("a classifier has one target; --target names {}", chosen.schema.targets.len());
        }
        let settings = Settings {
            basis: self.basis.clone().unwrap_or_default(),
            intercept: !self.no_intercept,
            ridge: self.ridge.clone().unwrap_or_default(),
            standardize: self.standardize,
            memory: self.memory.unwrap_or_default(),
            accumulator: self.accumulator.unwrap_or_default(),
            store: self.store.unwrap_or_default(),
            prefer: self.prefer.clone().unwrap_or_default(),
            clip: None,
            threads: files.threads,
        };
        Ok(Model { schema: chosen.schema, learner: Learner::new(problem, settings)? })
    }

    /// Says what class covariances take, before they are used.
    pub(crate) fn note_memory(&self, model: &Model) {
        if self.covariance == Some(Covariance::Class) {
            let m = model.schema.inputs.len() + 1;
            note(&format!(
                "a covariance for each class takes {} per class in every task ({} inputs before the basis and new categories)",
                bytes(8 * m * (m + 1) / 2),
                m - 1
            ));
        }
    }

    /// What is predicted, and by which loss.
    fn problem(&self, text_target: bool) -> Result<Problem> {
        let default = if text_target { "gaussian" } else { "squared" };
        let list = match &self.classes {
            Some(names) => ClassList::Fixed(names.clone()),
            None => ClassList::Open,
        };
        let mut problem = Problem::parse(
            self.loss.as_deref().unwrap_or(default),
            text_target.then(|| list.clone()),
        )?;
        if !problem.predicts_classes() {
            let options = self.problem_options();
            let flags = options.iter().map(|(name, _)| *name);
            if let Some(flag) = flags.chain(self.classes.is_some().then_some("classes")).next() {
                bail!("--{flag} is for classes; this is a regression (the target holds numbers)");
            }
        }
        if let Some(names) = list.names() {
            problem = problem.with_classes(names.to_vec())?;
        }
        for (name, value) in self.problem_options() {
            problem = problem.with_option(name, &value)?;
        }
        Ok(problem)
    }
}

/// A setting as it is spelled.
fn text(setting: Option<&impl ToString>) -> Option<String> {
    setting.map(ToString::to_string)
}

/// A loss by its name, checked.
fn loss_spec(text: &str) -> Result<String, pmfcl::Error> {
    Problem::parse(text, None).map(|_| text.to_owned())
}

/// Refuses an option that says something else than what the model was made with.
pub(crate) fn check_same(path: &Path, flag: &str, ours: String, asked: &str) -> Result<()> {
    if ours == asked {
        return Ok(());
    }
    let advice = match flag {
        "--ridge" | "--coding" => "change it with `pmfcl set`",
        "--prefer" => "change it with `pmfcl prefer`",
        _ => "make another model",
    };
    bail!(
        "{}: the model was made with {}, not {}; leave {flag} out, or {advice}",
        path.display(),
        shell_option(flag, &[ours]),
        shell_word(asked)
    )
}
