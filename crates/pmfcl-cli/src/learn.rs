//! `pmfcl learn`: every file a task.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use pmfcl::classify::Scheme;
use pmfcl::loss::logistic::Curvature;
use pmfcl::{
    Accumulator, Basis, ClassLoss, Classifier, ClassifierSettings, Learner, MemoryKind, Preference,
    Ridge, Settings,
};
use pmfcl_file::{Access, Change, Learned, Model, Store, Word};
use pmfcl_ingest::{
    Files, IngestError, Learning, Plan, Step, Wish, choose_columns, learn_prepared, prepare,
};
use serde_json::{Value, json};

use crate::data::{Reading, expand, note_index, task_name};
use crate::terminal::{Progress, answer, closed_pipe, detail, grouped, note, print, short, voice};

/// Learn data files, each as a task. Creates MODEL if there is none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl learn sales.pmf 2024-*.parquet --target revenue
  pmfcl learn sales.pmf 2025-01.csv.gz
  pmfcl learn iris.pmf flowers.csv --target species --task-column site
  pmfcl learn q.pmf 'north/*.csv' 'south/*.csv' --target y --basis spline:8   (two tasks)
  zcat big.csv.gz | pmfcl learn m.pmf - --name big --target y")]
pub(crate) struct Learn {
    /// The model file.
    model: PathBuf,
    /// Data files: .csv .tsv (.gz .zst), .parquet, .arrow, .feather, .npy, .npz, …-ubyte, `-` for CSV on
    /// stdin. A quoted pattern is one task made of all files that match.
    #[arg(required = true)]
    data: Vec<String>,
    /// Column to predict; several with commas.
    #[arg(long, value_delimiter = ',', value_name = "COL")]
    target: Vec<String>,
    /// Name of the task; all files are then one task. By default the file's name.
    #[arg(long, conflicts_with = "task_column")]
    name: Option<String>,
    /// Column that names the task of every row; tasks in order of appearance.
    #[arg(long, value_name = "COL")]
    task_column: Option<String>,
    /// Columns that are no features.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    exclude: Vec<String>,
    /// The columns that are features; by default all others.
    #[arg(long, value_delimiter = ',', value_name = "COLS", conflicts_with = "exclude")]
    features: Option<Vec<String>>,
    /// Columns of dates, to be used as days since 1970.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    dates: Vec<String>,
    /// Columns of numbers that are categories; also of texts such as 1,5 that are no decimals.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    categories: Vec<String>,
    /// Weight of the task beside others.
    #[arg(long, default_value_t = 1.0, value_name = "W")]
    weight: f64,
    #[command(flatten)]
    creation: Creation,
    #[command(flatten)]
    reading: Reading,
}

/// What a model is made with.
#[derive(Debug, Args)]
#[command(next_help_heading = "At creation")]
pub(crate) struct Creation {
    /// squared, logistic (softmax for several classes) or gaussian (LDA). By default gaussian for text
    /// targets, squared for numbers.
    #[arg(long, value_name = "LOSS", value_parser = <ClassLoss as Word>::parse)]
    loss: Option<ClassLoss>,
    /// linear, poly:2, log, exp, power:A, spline:8, rbf:200, rff:1024, relu:2000, ntk:256; options
    /// after commas (rff:1024,gamma=0.1,seed=7).
    #[arg(long, value_name = "SPEC", value_parser = <Basis as Word>::parse)]
    basis: Option<Basis>,
    /// (X/2)·‖θ‖² on the mean loss, intercept free; auto chooses it from the summaries, 0 is minimum norm.
    #[arg(long, value_name = "X|auto", value_parser = <Ridge as Word>::parse)]
    ridge: Option<Ridge>,
    /// Multiply the ridge by each feature's variance.
    #[arg(long)]
    standardize: bool,
    /// No intercept.
    #[arg(long)]
    no_intercept: bool,
    /// ledger: a summary a task; compact: one of constant size.
    #[arg(long, value_name = "KIND", value_parser = <MemoryKind as Word>::parse)]
    memory: Option<MemoryKind>,
    /// qr: accurate; gram: up to three times faster, loses twice the digits.
    #[arg(long, value_name = "WAY", value_parser = <Accumulator as Word>::parse)]
    accumulator: Option<Accumulator>,
    /// samples, equal, or decay:G (each task counts G times as much as the next).
    #[arg(long, value_name = "WAY", value_parser = <Preference as Word>::parse)]
    prefer: Option<Preference>,
    /// Curvature of logistic bounds: bohning, sharp, hessian, blend, diagonal.
    #[arg(long, value_name = "KIND", value_parser = <Curvature as Word>::parse)]
    curvature: Option<Curvature>,
    /// Where logistic bounds are made: one-shot or sequential.
    #[arg(long, value_name = "WAY", value_parser = <Scheme as Word>::parse)]
    scheme: Option<Scheme>,
    /// All classes there will be; needed for logistic where the first task lacks some.
    #[arg(long, value_delimiter = ',', value_name = "A,B,…")]
    classes: Option<Vec<String>>,
}

/// A task to be learned: its name and files.
type Job = (String, Files);

/// What a run of `learn` has done.
pub(crate) struct Done {
    document: Value,
    words: String,
}

impl Done {
    /// Says it in words, where words are wanted.
    pub(crate) fn tell(&self) {
        if !voice().json && !voice().quiet {
            // A closed pipe is no reason to fail after the work is done.
            let _ = print(&self.words);
        }
    }
}

impl Learn {
    pub(crate) fn run(&self) -> Result<()> {
        let done = self.learn()?;
        answer(&done.document, &done.words)
    }

    /// Learns all tasks.
    pub(crate) fn learn(&self) -> Result<Done> {
        let mut jobs = self.jobs()?;
        let wish = self.wish();
        // A new model looks at its first file more than once.
        let _spooled = if self.model.exists() { None } else { spool(&mut jobs[0].1)? };
        let (mut store, mut model) = if self.model.exists() {
            let (store, model) = Store::open(&self.model, Access::Write)?;
            self.check(&model)?;
            (Some(store), model)
        } else {
            (None, self.creation.model(&jobs[0].1, &wish, &self.model)?)
        };
        if self.task_column.is_none() {
            check_names(&jobs, &model)?;
        }
        let again = model.classifier().is_some_and(|c| c.settings().loss == ClassLoss::Logistic);
        let mut spooled = Vec::new();
        for (_, files) in &mut jobs {
            // Log-loss looks at its rows more than once.
            spooled.extend(if again { spool(files)? } else { None });
        }
        // All files are read before the first is learned: a fault in the last leaves the model as it was.
        let mut plan = Plan::of(&model);
        let mut prepared = Vec::with_capacity(jobs.len());
        for (name, files) in &jobs {
            let progress = Progress::over(files, name);
            let step = |step| progress.step(step);
            prepared.push(prepare(&model, &mut plan, &self.learning(&wish, name, files, &step))?);
        }
        let mut told: Vec<Value> = Vec::new();
        for ((name, files), prepared) in jobs.iter().zip(prepared) {
            let before = model.learner().records().len();
            let shelf = std::cell::RefCell::new(&mut store);
            let read = learn_prepared(
                &mut model,
                &plan,
                prepared,
                &self.learning(&wish, name, files, &|_| {}),
                &mut |model| match &mut **shelf.borrow_mut() {
                    Some(store) => Ok(store.load(model)?),
                    None => Ok(()),
                },
                &mut |model, name, grown| {
                    keep(&mut shelf.borrow_mut(), &self.model, model, grown)?;
                    told.push(tell(model, name).map_err(|e| IngestError::Column {
                        file: self.model.display().to_string(),
                        what: e.to_string(),
                    })?);
                    Ok(())
                },
            )?;
            if read.dropped > 0 {
                note(&format!(
                    "{name}: {} rows with missing values were dropped",
                    grouped(read.dropped as f64)
                ));
            }
            detail(&format!(
                "{name}: {} rows, {} tasks",
                grouped(read.rows as f64),
                model.learner().records().len() - before
            ));
        }
        let learner = model.learner();
        let forgetting = mean_forgetting(&model);
        let document = json!({
            "model": self.model.display().to_string(),
            "learned": told,
            "tasks": learner.records().len(),
            "samples": learner.samples(),
            "state_bytes": model.state_bytes(),
            "mean_forgetting": forgetting,
        });
        let words = format!(
            "{}: {} tasks, {} samples, {} of memory{}\n",
            self.model.display(),
            learner.records().len(),
            grouped(learner.samples()),
            crate::terminal::bytes(model.state_bytes()),
            forgetting.map_or_else(String::new, |f| format!(", mean forgetting {}", short(f))),
        );
        Ok(Done { document, words })
    }

    fn learning<'a>(
        &'a self,
        wish: &'a Wish,
        name: &'a str,
        files: &'a Files,
        progress: &'a (dyn Fn(Step) + Sync),
    ) -> Learning<'a> {
        let task = self.task_column.as_deref();
        Learning { files, wish, task, name, weight: self.weight, progress }
    }

    fn jobs(&self) -> Result<Vec<Job>> {
        let mut jobs: Vec<Job> = Vec::new();
        if self.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            bail!("--name is empty; a task is called by its name, give it one");
        }
        for argument in &self.data {
            let paths = expand(argument)?;
            match jobs.last_mut() {
                // One name, or a column of names: all files are read as one table.
                Some((_, files)) if self.name.is_some() || self.task_column.is_some() => {
                    files.paths.extend(paths);
                }
                _ => {
                    let name = self.name.clone().unwrap_or_else(|| task_name(argument));
                    jobs.push((name, self.reading.files(paths)?));
                }
            }
        }
        Ok(jobs)
    }

    fn wish(&self) -> Wish {
        Wish {
            targets: self.target.clone(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
            reserved: self.task_column.iter().cloned().collect(),
            dates: self.dates.clone(),
            categories: self.categories.clone(),
        }
    }

    /// What was given must be what the model was made with.
    fn check(&self, model: &Model) -> Result<()> {
        let differs = |flag: &str, ours: String, asked: String| -> Result<()> {
            if ours == asked {
                return Ok(());
            }
            bail!(
                "{}: the model was made with {flag} {ours}, not {asked}; leave {flag} out, or make another model",
                self.model.display()
            )
        };
        if !self.target.is_empty() {
            differs("--target", model.schema.targets.join(","), self.target.join(","))?;
        }
        if let Some(features) = &self.features {
            let mut ours: Vec<&str> =
                model.schema.columns.iter().map(|c| c.name.as_str()).collect();
            let mut asked: Vec<&str> = features.iter().map(String::as_str).collect();
            ours.sort_unstable();
            asked.sort_unstable();
            differs("--features", ours.join(","), asked.join(","))?;
        }
        let (s, c) = (model.learner().settings(), &self.creation);
        let word = |flag: &str, ours: String, asked: Option<String>| {
            asked.map_or(Ok(()), |asked| differs(flag, ours, asked))
        };
        word("--loss", model.loss().to_owned(), c.loss.map(|v| v.word()))?;
        word("--basis", s.basis.word(), c.basis.as_ref().map(Word::word))?;
        word("--memory", s.memory.word(), c.memory.as_ref().map(Word::word))?;
        word("--accumulator", s.accumulator.word(), c.accumulator.as_ref().map(Word::word))?;
        let hint = "(`pmfcl prefer` changes it)";
        word("--ridge", s.ridge.word(), c.ridge.as_ref().map(Word::word))
            .map_err(|e| e.context(hint))?;
        word("--prefer", s.prefer.word(), c.prefer.as_ref().map(Word::word))
            .map_err(|e| e.context(hint))?;
        if c.no_intercept {
            word("--no-intercept", s.intercept.to_string(), Some("false".to_owned()))?;
        }
        if c.standardize && !s.standardize {
            bail!("{}: the model was made without --standardize", self.model.display());
        }
        if let Some(classifier) = model.classifier() {
            let s = classifier.settings();
            word("--curvature", s.curvature.word(), c.curvature.as_ref().map(Word::word))?;
            word("--scheme", s.scheme.word(), c.scheme.as_ref().map(Word::word))?;
        }
        Ok(())
    }
}

impl Creation {
    /// A model that has learned nothing, for the columns of the first file.
    fn model(&self, files: &Files, wish: &Wish, path: &Path) -> Result<Model> {
        if wish.targets.is_empty() {
            bail!(
                "{}: there is no such model yet; --target COLUMN says what it is to predict",
                path.display()
            );
        }
        if path.is_dir() {
            return Err(pmfcl_file::FileError::Directory(path.to_path_buf()).into());
        }
        let chosen = choose_columns(&files.first()?, wish)?;
        note_index(&chosen.index);
        if !chosen.index.is_empty() {
            detail("name it with --features, --dates or --categories to use it");
        }
        let classes = match self.loss {
            None | Some(ClassLoss::Squared) => chosen.text_target,
            Some(ClassLoss::Gaussian | ClassLoss::Logistic) => true,
        };
        let plain = Settings {
            basis: self.basis.clone().unwrap_or_default(),
            intercept: !self.no_intercept,
            ridge: self.ridge.unwrap_or_default(),
            standardize: self.standardize,
            memory: self.memory.unwrap_or_default(),
            accumulator: self.accumulator.unwrap_or_default(),
            prefer: self.prefer.clone().unwrap_or_default(),
            threads: files.threads,
        };
        if !classes {
            for (flag, given) in [
                ("--curvature", self.curvature.is_some()),
                ("--scheme", self.scheme.is_some()),
                ("--classes", self.classes.is_some()),
            ] {
                if given {
                    bail!("{flag} is for classes; this is a regression (the target holds numbers)");
                }
            }
            let learner = Learner::new(plain)?;
            let learned = Learned::Regression(Box::new(learner));
            return Ok(Model { schema: chosen.schema, learned });
        }
        if chosen.schema.targets.len() > 1 {
            bail!("a classifier has one target; --target names {}", chosen.schema.targets.len());
        }
        let settings = ClassifierSettings {
            loss: self.loss.unwrap_or_default(),
            basis: plain.basis,
            intercept: plain.intercept,
            ridge: plain.ridge,
            standardize: plain.standardize,
            curvature: self.curvature.unwrap_or_default(),
            scheme: self.scheme.unwrap_or_default(),
            memory: plain.memory,
            accumulator: plain.accumulator,
            prefer: plain.prefer,
            classes: self.classes.clone(),
            threads: plain.threads,
            ..ClassifierSettings::default()
        };
        let learned = Learned::Classification(Box::new(Classifier::new(settings)?));
        Ok(Model { schema: chosen.schema, learned })
    }
}

/// A name that is taken is told before anything is read.
fn check_names(jobs: &[Job], model: &Model) -> Result<()> {
    for (i, (name, _)) in jobs.iter().enumerate() {
        if jobs[..i].iter().any(|(other, _)| other == name) {
            bail!(
                "two of the files would be the task `{name}`; learn one of them alone with --name"
            );
        }
        if model.learner().names().any(|known| known == name) {
            return Err(pmfcl::Error::DuplicateTask { name: name.clone() }.into());
        }
    }
    Ok(())
}

/// Puts what comes on stdin into a file that lasts as long as the directory given back.
fn spool(files: &mut Files) -> Result<Option<tempfile::TempDir>> {
    let Some(pipe) = files.paths.iter_mut().find(|p| p.as_os_str() == "-") else { return Ok(None) };
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("standard-input.csv");
    std::io::copy(&mut std::io::stdin().lock(), &mut std::fs::File::create(&path)?)?;
    *pipe = path;
    Ok(Some(directory))
}

/// Puts the newest task into the file.
fn keep(
    store: &mut Option<Store>,
    path: &Path,
    model: &mut Model,
    grown: bool,
) -> Result<(), IngestError> {
    match store {
        Some(store) => {
            let change = if grown { Change::All } else { Change::Task };
            store.commit_and_follow(model, change)?;
        }
        None => *store = Some(Store::create_first(path, model)?),
    }
    Ok(())
}

/// Says that a task is safe.
fn tell(model: &Model, name: &str) -> Result<Value> {
    let learner = model.learner();
    // Somebody else may have learned a task since.
    let Some(record) = learner.records().iter().rfind(|r| r.name == name) else {
        return Ok(Value::Null);
    };
    let exact = model.classifier().is_none();
    let newest = learner.records().last().is_some_and(|r| r.name == name);
    let loss = match learner.at_hand().last() {
        Some(summary) if exact && newest => Some(summary.loss(&learner.model()?.theta)?),
        _ => None,
    };
    if !voice().json && !voice().quiet {
        let tail = loss.map_or_else(String::new, |l| {
            format!(", loss {} (its own best {})", short(l), short(record.min_loss))
        });
        let told = print(&format!(
            "learned {name}: {} samples, rank {}{tail}\n",
            grouped(record.samples),
            record.rank
        ));
        // Where nobody listens any more, learning goes on.
        told.or_else(|error| if closed_pipe(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(json!({ "name": name, "samples": record.samples, "rank": record.rank, "loss": loss }))
}

/// The weighted mean forgetting, or its bound, where the summaries at hand tell it.
pub(crate) fn mean_forgetting(model: &Model) -> Option<f64> {
    match &model.learned {
        Learned::Regression(learner) => learner.mean_forgetting().ok(),
        Learned::Classification(classifier) => classifier.mean_forgetting().ok(),
    }
}
