//! `pmfcl learn`: every file is a task.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{ArgGroup, Args};
use pmfcl::Ridge;
use pmfcl::report::check::{Condition, Effort, Reference};
use pmfcl_file::{Access, Model, Store};
use pmfcl_ingest::{
    ColumnSelection, Files, Ingest, Learning, NamedTask, Step, TableSchema, add_stated_columns,
    check_doubts, describe_columns,
};
use pmfcl_read::DateFormat;
use pmfcl_terminal::{Progress, Reading, detail, expand, grouped, note, task_name, verbosity};
use serde_json::{Value, json};

use crate::check;
use crate::creation::{Creation, check_same};
use crate::missing;
use crate::outcome::{Done, outcome, report_task};
use crate::schema::{SHOWN, note_columns};
use crate::summarize::Shards;

/// Learn data files, each as a task. Creates MODEL if there is none.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl learn sales.pmf 2024-*.parquet --target revenue
  pmfcl learn sales.pmf 2025-01.csv.gz
  pmfcl learn iris.pmf flowers.csv --target species --task-column site
  pmfcl learn q.pmf 'north/*.csv' 'south/*.csv' --target y --basis spline:8   (two tasks)
  zcat big.csv.gz | pmfcl learn m.pmf - --name big --target y
  pmfcl learn sales.pmf --summaries 'parts/*.pms'",
    group = ArgGroup::new("rows").required(true).args(["data", "summaries"]))]
pub(crate) struct Learn {
    /// The model file.
    model: PathBuf,
    #[command(flatten)]
    table: Table,
    /// Columns the model does not have yet, to be added: 0 in all rows learned before, or COL=VALUE (days since
    /// 1970 for a date, a category for a text).
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    new_columns: Vec<String>,
    /// Shards of task summaries that `pmfcl summarize` made, instead of data files; parts of one task are merged.
    #[arg(long, num_args = 1.., value_name = "FILES", conflicts_with_all = [
        "name", "task_column", "dates", "as_category", "new_columns", "schema", "refuse_if", "exclude",
    ])]
    summaries: Vec<String>,
    /// Weight of the task relative to others.
    #[arg(long, default_value_t = 1.0, value_name = "W")]
    weight: f64,
    /// Read and check everything, print what would be learned, and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Learn nothing if one of these holds: repeat, units, drift[<P], shift[>SD], outliers[>SHARE],
    /// categories[>SHARE], missing[>SHARE], rows[<SHARE], any; see `pmfcl check`.
    #[arg(long, value_delimiter = ',', value_name = "CONDITIONS")]
    refuse_if: Vec<Condition>,
    #[command(flatten)]
    creation: Creation,
    #[command(flatten)]
    reading: Reading,
}

/// Which rows are meant: files, columns, and the tasks in them.
#[derive(Debug, Args)]
pub(crate) struct Table {
    /// Data files: .csv .tsv (.gz .zst), .parquet, .arrow, .feather, .npy, .npz, …-ubyte, `-` for CSV on
    /// stdin. A quoted pattern is one task made of all files that match.
    #[cfg_attr(
        feature = "remote",
        doc = "",
        doc = " Addresses are files too: s3://…, gs://…, az://…, https://…"
    )]
    pub(crate) data: Vec<String>,
    /// Column to predict; several with commas.
    #[arg(long, value_delimiter = ',', value_name = "COL")]
    pub(crate) target: Vec<String>,
    /// Name of the task; all files are then one task. By default the file's name.
    #[arg(long, conflicts_with = "task_column")]
    pub(crate) name: Option<String>,
    /// Column that names the task of every row; tasks in order of appearance.
    #[arg(long, value_name = "COL")]
    pub(crate) task_column: Option<String>,
    /// Columns that are not features.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    pub(crate) exclude: Vec<String>,
    /// The columns that are features; by default all others.
    #[arg(long, value_delimiter = ',', value_name = "COLS", conflicts_with = "exclude")]
    pub(crate) features: Option<Vec<String>>,
    /// Columns of dates, to be used as days since 1970; COL:FORMAT for others than 2024-01-31, such as day:%d.%m.%Y.
    #[arg(long, value_delimiter = ',', value_name = "COLS", value_parser = date_column)]
    pub(crate) dates: Vec<DateColumn>,
    /// Columns of numbers, or of texts such as 1,5, to be used as categories.
    #[arg(long, value_delimiter = ',', value_name = "COLS")]
    pub(crate) as_category: Vec<String>,
    /// What each column is, from a file that `pmfcl schema -o FILE` writes and you correct.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
}

/// A task to be learned: its name and files.
pub(crate) type Job = (String, Files);

impl Learn {
    pub(crate) fn run(&self) -> Result<()> {
        self.learn()?.answer()
    }

    /// Learns all tasks.
    pub(crate) fn learn(&self) -> Result<Done> {
        if !self.summaries.is_empty() {
            let Self { model, summaries, weight, dry_run, .. } = self;
            let shards = Shards { paths: summaries, weight: *weight, dry_run: *dry_run };
            return shards.learn(model, &|model| self.check(model));
        }
        let stated = self.table.stated()?;
        let mut jobs = self.table.jobs(stated.as_ref(), &self.reading)?;
        let mut selection = self.table.selection(stated.as_ref());
        // A new model looks at its first file more than once, and so does one that gets new columns.
        let once = self.model.exists() && self.new_columns.is_empty();
        let _spooled = if once { None } else { spool(&mut jobs[0].1)? };
        let mut described = None;
        if !self.new_columns.is_empty() && !self.model.exists() {
            bail!("--new-columns is for a model that has learned something; leave it out");
        }
        let (mut store, mut model) = if self.model.exists() {
            let (mut store, mut model) = Store::open(&self.model, Access::Write)?;
            self.check(&model)?;
            if model.learner.settings().ridge == Ridge::LeaveOneTaskOut {
                // The ridge is chosen anew, from the summaries of all tasks.
                store.load(&mut model)?;
            }
            (Some(store), model)
        } else {
            let files = &jobs[0].1;
            if let Some(stated) = &stated {
                stated.check(&files.first()?)?;
            }
            let mut model = self.creation.model(files, &selection, &self.model)?;
            let said = stated.as_ref().and_then(|schema| schema.coding);
            model.schema.coding = self.creation.coding.or(said).unwrap_or_default();
            model.check_coding()?;
            let columns = describe_columns(files, &selection, SHOWN)?;
            check_doubts(&label(files), &columns)?;
            described = Some((label(files), columns));
            self.creation.note_memory(&model);
            (None, model)
        };
        if let (Some(store), false) = (&mut store, self.new_columns.is_empty()) {
            let source = jobs[0].1.first()?;
            for given in &self.new_columns {
                // A column of the file may have such a name itself.
                let named = source.fields().iter().any(|field| field.name == *given);
                match given.split_once('=').filter(|_| !named) {
                    Some((name, value)) => {
                        selection.past.push((name.to_owned(), value.to_owned()));
                        selection.new.push(name.to_owned());
                    }
                    None => selection.new.push(given.clone()),
                }
            }
            if !selection.past.is_empty() {
                // Every summary says what the rows before had in these columns.
                store.load(&mut model)?;
                add_stated_columns(&mut model, &source, &mut selection)?;
            }
        }
        let said = stated.as_ref().and_then(|schema| schema.missing).map(missing::way);
        missing::set(&mut model, self.reading.missing().or(said))?;
        if selection.reserved.is_empty() {
            check_names(&jobs, &model)?;
        }
        let reference = if model.learner.records().is_empty() {
            None
        } else {
            Some(Reference::of(&model.learner, &model.schema.features())?)
        };
        // All files are read before the first is learned: an error in the last leaves the model unchanged.
        let mut ingest = Ingest::new(&model);
        for (name, files) in &jobs {
            let progress = Progress::over(files, name);
            let step = |step| progress.step(step);
            let learning = Learning {
                reference: reference.as_ref(),
                ..self.learning(&selection, name, files, &step)
            };
            let read = ingest.read(&model, &learning)?;
            if read.dropped > 0 {
                let what = if model.schema.missing.are_learned() && !self.reading.drops_missing() {
                    "without a target"
                } else {
                    "with missing values"
                };
                note(&format!("{name}: {} rows {what} were dropped", grouped(read.dropped as f64)));
            }
            detail(&format!("{name}: {} rows", grouped(read.rows as f64)));
        }
        let mut learned: Vec<Value> = Vec::new();
        // Where a check may refuse the last task, none is committed before it.
        let at_once = self.dry_run || !self.refuse_if.is_empty();
        let effort = if at_once { Effort::Full } else { Effort::Cheap };
        let (mut names, mut crossed, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        let mut waiting = Waiting::default();
        while !ingest.is_empty() {
            // The last commit holds the solution, and if there is none, the tasks before are safe; those need none. Where a commit takes
            // long, all that waits goes into one.
            if ingest.len() == 1 && !waiting.is_slow(&model) || waiting.is_due(&model) {
                waiting.commit(&mut store, &self.model, &mut model, &mut learned)?;
            }
            let next = fitted(&mut ingest, &model).and_then(|task| match task {
                Some(task) => Ok(Some((task.check(&model, effort)?, task))),
                None => Ok(None),
            });
            let Some((check, task)) = (match next {
                Ok(next) => next,
                Err(error) => {
                    waiting.commit(&mut store, &self.model, &mut model, &mut learned)?;
                    return Err(error);
                }
            }) else {
                break;
            };
            let name = task.name().to_owned();
            let mut told = Vec::new();
            if let Some(check) = check {
                told = check::lines(&name, &check, 2);
                crossed.extend(check::refusals(&self.refuse_if, &name, &check));
                if verbosity().json {
                    checks.push(check::document(&model, &name, &check));
                }
            }
            if let Err(error) = task.insert(&mut model) {
                waiting.commit(&mut store, &self.model, &mut model, &mut learned)?;
                return Err(error.into());
            }
            if ingest.is_empty() {
                if let Some(store) = &mut store
                    && model.learner.tables_need_summaries()
                {
                    // Classes were added: what was measured with earlier tasks is corrected by their summaries.
                    store.load(&mut model)?;
                }
                model.learner.solution()?;
            }
            if at_once {
                told.iter().for_each(|line| note(line));
                names.push(name);
            } else {
                waiting.add(name, told);
            }
        }
        waiting.commit(&mut store, &self.model, &mut model, &mut learned)?;
        check::refused(&crossed)?;
        if !names.is_empty() && !self.dry_run {
            commit(&mut store, &self.model, &mut model)?;
        }
        for name in &names {
            let done = if self.dry_run { "would learn" } else { "learned" };
            learned.push(report_task(&model, name, done)?);
        }
        if let Some((file, columns)) = &described {
            note_columns(file, columns);
        }
        let mut done = outcome(&self.model, &model, self.dry_run, &learned);
        done.add("checks", json!(checks));
        if let Some((_, columns)) = &described {
            done.add("columns", crate::schema::document(columns)["columns"].clone());
        }
        Ok(done)
    }

    fn learning<'a>(
        &'a self,
        selection: &'a ColumnSelection,
        name: &'a str,
        files: &'a Files,
        progress: &'a (dyn Fn(Step) + Sync),
    ) -> Learning<'a> {
        let task = selection.reserved.first().map(String::as_str);
        Learning { files, selection, task, name, weight: self.weight, reference: None, progress }
    }

    /// Checks that the options given are those the model was made with.
    fn check(&self, model: &Model) -> Result<()> {
        let path = &self.model;
        let Table { target, features, .. } = &self.table;
        if !target.is_empty() {
            check_same(path, "--target", model.schema.targets.join(","), &target.join(","))?;
        }
        if let Some(features) = features {
            let mut ours: Vec<&str> =
                model.schema.columns.iter().map(|c| c.name.as_str()).collect();
            let mut asked: Vec<&str> = features.iter().map(String::as_str).collect();
            ours.sort_unstable();
            asked.sort_unstable();
            check_same(path, "--features", ours.join(","), &asked.join(","))?;
        }
        self.creation.check(model, path)
    }
}

impl Table {
    /// What is said of the rows except where they are: not where the files lie, but what is in them decides a summary.
    pub(crate) fn without_data(&self) -> impl std::fmt::Debug {
        let Self { target, name, task_column, exclude, features, dates, as_category, .. } = self;
        let stated = self.schema.as_ref().and_then(|path| std::fs::read(path).ok());
        format!("{:?}", (target, name, task_column, exclude, features, dates, as_category, stated))
    }

    /// What was stated of the columns.
    pub(crate) fn stated(&self) -> Result<Option<TableSchema>> {
        Ok(self.schema.as_deref().map(TableSchema::read).transpose()?)
    }

    pub(crate) fn jobs(&self, stated: Option<&TableSchema>, reading: &Reading) -> Result<Vec<Job>> {
        let mut jobs: Vec<Job> = Vec::new();
        if self.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            bail!("--name is empty; a task is called by its name, give it one");
        }
        for argument in &self.data {
            let paths = expand(argument)?;
            match jobs.last_mut() {
                // One name, or a column of names: all files are read as one table.
                Some((_, files)) if self.name.is_some() || self.task_column(stated).is_some() => {
                    files.paths.extend(paths);
                }
                _ => {
                    let name = self.name.clone().unwrap_or_else(|| task_name(argument));
                    let mut files = reading.files(paths)?;
                    if let Some(stated) = stated {
                        stated.apply(&mut files.options);
                    }
                    let formats = self
                        .dates
                        .iter()
                        .filter_map(|date| Some((date.column.clone(), date.format.clone()?)));
                    files.options.dates.extend(formats);
                    jobs.push((name, files));
                }
            }
        }
        Ok(jobs)
    }

    /// The column that names the task of a row: as given, or as the schema says.
    fn task_column(&self, stated: Option<&TableSchema>) -> Option<String> {
        let stated = stated.and_then(TableSchema::task).filter(|_| self.name.is_none());
        self.task_column.clone().or_else(|| stated.map(str::to_owned))
    }

    pub(crate) fn selection(&self, stated: Option<&TableSchema>) -> ColumnSelection {
        let mut selection = ColumnSelection {
            targets: self.target.clone(),
            features: self.features.clone(),
            exclude: self.exclude.clone(),
            reserved: self.task_column(stated).into_iter().collect(),
            dates: self.dates.iter().map(|d| (d.column.clone(), d.format.clone())).collect(),
            categories: self.as_category.clone(),
            ..ColumnSelection::default()
        };
        if let Some(stated) = stated {
            stated.select(&mut selection);
        }
        selection
    }
}

/// Tasks that are in the model and not yet in its file. Many small ones are committed together: a commit waits for the disk.
#[derive(Debug, Default)]
struct Waiting {
    /// Names, and what the check of each says.
    tasks: Vec<(String, Vec<String>)>,
    since: Option<Instant>,
    /// How long the last commit took.
    last: Duration,
}

impl Waiting {
    /// How many times as long as a commit takes a task waits for others, and the longest it does: a tenth of the time goes to commits.
    const PATIENCE: (u32, Duration) = (10, Duration::from_secs(30));
    /// Bytes that a disk surely takes in a second, for commits that were not made yet.
    const DISK: f64 = 2e8;
    /// A commit that takes longer is worth waiting for the solution, so that there is one in place of two.
    const SLOW: Duration = Duration::from_millis(50);

    fn add(&mut self, name: String, told: Vec<String>) {
        self.tasks.push((name, told));
        self.since.get_or_insert_with(Instant::now);
    }

    /// How long the next commit may take.
    fn expected(&self, model: &Model) -> Duration {
        let columns = model.learner.design().map_or(0, pmfcl::Design::width) as f64;
        // Half a square of numbers is written at least.
        self.last.max(Duration::from_secs_f64(4.0 * columns * columns / Self::DISK))
    }

    /// Whether the tasks have waited long enough.
    fn is_due(&self, model: &Model) -> bool {
        let (times, longest) = Self::PATIENCE;
        let patience = longest.min(times * self.expected(model)).max(self.last);
        self.since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// Whether a commit takes so long that tasks which are not due wait for the last one.
    fn is_slow(&self, model: &Model) -> bool {
        self.expected(model) > Self::SLOW
    }

    /// Commits the tasks, and says of each that it is safe.
    fn commit(
        &mut self,
        store: &mut Option<Store>,
        path: &Path,
        model: &mut Model,
        learned: &mut Vec<Value>,
    ) -> Result<()> {
        if self.tasks.is_empty() {
            return Ok(());
        }
        let start = Instant::now();
        commit(store, path, model)?;
        (self.last, self.since) = (start.elapsed(), None);
        for (name, told) in self.tasks.drain(..) {
            told.iter().for_each(|line| note(line));
            learned.push(report_task(model, &name, "learned")?);
        }
        Ok(())
    }
}

/// Fits the next task; a fit of many passes shows how many it has made.
fn fitted(ingest: &mut Ingest, model: &Model) -> Result<Option<NamedTask>> {
    let progress = Progress::of_a_fit();
    Ok(ingest.next_watched(model, &|task, passes| progress.pass(task, passes))?)
}

/// A column of dates, and how they are written where that is said.
#[derive(Debug, Clone)]
pub(crate) struct DateColumn {
    column: String,
    format: Option<DateFormat>,
}

/// `COL` or `COL:FORMAT`; a format begins with a directive, so that names may hold a colon.
fn date_column(text: &str) -> Result<DateColumn, String> {
    match text.find(":%") {
        None => Ok(DateColumn { column: text.to_owned(), format: None }),
        Some(at) => {
            let format = text[at + 1..].parse()?;
            Ok(DateColumn { column: text[..at].to_owned(), format: Some(format) })
        }
    }
}

/// The first file, for messages.
pub(crate) fn label(files: &Files) -> String {
    files.paths[0].file_name().map_or_else(
        || files.paths[0].display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// A name that is taken is reported before anything is read.
pub(crate) fn check_names(jobs: &[Job], model: &Model) -> Result<()> {
    let mut seen = HashSet::with_capacity(jobs.len());
    for (name, _) in jobs {
        if !seen.insert(name) {
            bail!(
                "two of the files would be the task `{name}`; learn one of them alone with --name"
            );
        }
        if model.learner.contains(name) {
            return Err(pmfcl::Error::DuplicateTask { name: name.clone() }.into());
        }
    }
    Ok(())
}

/// Puts what comes on stdin into a file that lasts as long as the directory given back.
pub(crate) fn spool(files: &mut Files) -> Result<Option<tempfile::TempDir>> {
    let Some(pipe) = files.paths.iter_mut().find(|p| p.as_os_str() == "-") else { return Ok(None) };
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("standard-input.csv");
    std::io::copy(&mut std::io::stdin().lock(), &mut std::fs::File::create(&path)?)?;
    *pipe = path;
    Ok(Some(directory))
}

/// Writes the newest task to the file, which the first one creates.
pub(crate) fn commit(store: &mut Option<Store>, path: &Path, model: &mut Model) -> Result<()> {
    match store {
        Some(store) => store.commit_and_follow(model)?,
        None => *store = Some(Store::create_first(path, model)?),
    }
    Ok(())
}
