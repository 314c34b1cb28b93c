//! `pmfcl summarize`: shards of task summaries, made anywhere; and `pmfcl learn --summaries`, which merges them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args};
use pmfcl::TaskSummary;
use pmfcl::problem::Encoding;
use pmfcl_file::{Access, FileError, Model, Shard, Store};
use pmfcl_ingest::{ColumnSelection, Ingest, Learning, check_doubts, describe_columns};
use pmfcl_read::{Options, remote_address};
use pmfcl_terminal::{
    Progress, Reading, answer, bytes, detail, ending_in, expand, grouped, note, write,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::creation::Creation;
use crate::learn::{Job, Table, check_names, commit, label, spool};
use crate::outcome::{Done, outcome, report_task};

const ENDINGS: &[&str] = &[".pms"];

/// Summarize data files on any machine: a shard, which `pmfcl learn --summaries` merges with others and learns.
///
/// A shard holds what would be learned of its rows, never the rows. Parts of one task may be in many shards. All shards of a
/// model need the same columns, loss and basis: name them by the same options every time, or take them with --like from the
/// model, or from one shard made beforehand (a basis such as rbf:200 is fixed by the rows of one shard). A shard that is there
/// and was made from the same bytes by the same command is left as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl summarize 2024-01-part7.parquet --name 2024-01 --target revenue -o part7.pms
  pmfcl summarize 2025-02.csv --like sales.pmf -o 2025-02.pms
  pmfcl summarize sample.csv --target y --basis rbf:200 --recipe -o recipe.pms
  ls rows/*.csv | parallel pmfcl summarize {} --name q1 --like recipe.pms -o parts/{/.}.pms
  pmfcl learn sales.pmf --summaries 'parts/*.pms'",
    group = ArgGroup::new("rows").required(true).args(["data"]))]
pub(crate) struct Summarize {
    #[command(flatten)]
    table: Table,
    /// The shard to write, .pms.
    #[arg(short, long, value_name = "FILE", value_parser = ending_in(ENDINGS))]
    output: PathBuf,
    /// A model, or a shard, whose columns, settings and basis are taken.
    #[arg(long, value_name = "MODEL|SHARD")]
    like: Option<PathBuf>,
    /// Write columns, settings and the basis as these rows fix it, and no summary: for --like.
    #[arg(long, conflicts_with = "like")]
    recipe: bool,
    #[command(flatten)]
    creation: Creation,
    #[command(flatten)]
    reading: Reading,
}

impl Summarize {
    pub(crate) fn run(&self) -> Result<()> {
        let stated = self.table.stated()?;
        let mut jobs = self.table.jobs(stated.as_ref(), &self.reading)?;
        let selection = self.table.selection(stated.as_ref());
        let source = self.source(&jobs)?;
        if let Some(source) = source
            && self.finished(source)?
        {
            return self.answer(&Shard::read(&self.output)?, true);
        }
        let _spooled = if self.like.is_some() { None } else { spool(&mut jobs[0].1)? };
        let model = match &self.like {
            Some(like) => self.taken(like)?,
            None => {
                if selection.targets.is_empty() {
                    bail!(
                        "name the column to predict with --target COLUMN, or take it with --like from a model or a shard"
                    );
                }
                let files = &jobs[0].1;
                if let Some(stated) = &stated {
                    stated.check(&files.first()?)?;
                }
                let model = self.creation.model(files, &selection, &self.output)?;
                check_doubts(&label(files), &describe_columns(files, &selection, 0)?)?;
                model
            }
        };
        let problem = model.learner.problem();
        if problem.looks_again() {
            bail!(
                "{problem} looks at the rows of a task several times, so shards of it do not add up; take --loss squared or \
                 gaussian, learn the files with `pmfcl learn`, or use pmfcl.spark, pmfcl.ray or pmfcl.dask"
            );
        }
        if selection.reserved.is_empty() {
            check_names(&jobs, &model)?;
        }
        let mut shard = self.read(&model, &selection, &jobs)?;
        shard.source = source;
        write(&self.output, &shard.to_bytes())?;
        self.answer(&shard, false)
    }

    /// Reads the files; the shard of their tasks.
    fn read(&self, model: &Model, selection: &ColumnSelection, jobs: &[Job]) -> Result<Shard> {
        let mut ingest = Ingest::new(model);
        let (mut rows, mut dropped) = (0, 0);
        for (name, files) in jobs {
            let progress = Progress::over(files, name);
            let learning = Learning {
                files,
                selection,
                task: selection.reserved.first().map(String::as_str),
                name,
                weight: 1.0,
                reference: None,
                progress: &|step| progress.step(step),
            };
            if self.recipe {
                ingest.settle(model, &learning)?;
                break;
            }
            let read = ingest.read(model, &learning)?;
            rows += read.rows;
            dropped += read.dropped;
            detail(&format!("{name}: {} rows", grouped(read.rows as f64)));
        }
        if dropped > 0 {
            note(&format!("{} rows with missing values were dropped", grouped(dropped as f64)));
        }
        let (template, parts) = ingest.into_parts(model)?;
        let of = |(name, part): (String, TaskSummary)| (name, part.to_bytes(Encoding::Packed));
        Ok(Shard {
            recipe: template.recipe_digest()?,
            source: None,
            rows,
            dropped,
            template: Some(template.to_bytes()?),
            tasks: parts.into_iter().map(of).collect(),
        })
    }

    /// A model that has learned nothing, as the one or the shard given is.
    fn taken(&self, like: &Path) -> Result<Model> {
        if self.creation.is_given() {
            bail!(
                "{}: columns, loss and basis are its own; leave the settings out",
                like.display()
            );
        }
        let model = if ENDINGS.iter().any(|ending| like.to_string_lossy().ends_with(ending)) {
            Shard::read(like)?.model().with_context(|| like.display().to_string())?
        } else {
            Store::open(like, Access::Read)?.1
        };
        let targets = &self.table.target;
        if !targets.is_empty() && *targets != model.schema.targets {
            let own = model.schema.targets.join(",");
            bail!("{}: it predicts '{own}'; leave --target out", like.display());
        }
        Ok(model.template()?)
    }

    /// A digest of the bytes of all files and of what is to be done with them; none where they come once.
    fn source(&self, jobs: &[Job]) -> Result<Option<[u8; 32]>> {
        let mut hash = Sha256::new();
        let Self { table, recipe, creation, like, .. } = self;
        let options = Options { remote: None, ..jobs[0].1.options.clone() };
        hash.update(format!("{:?} {recipe} {creation:?} {options:?}", table.without_data()));
        if let Some(like) = like {
            if ENDINGS.iter().any(|ending| like.to_string_lossy().ends_with(ending)) {
                hash.update(Shard::read(like)?.recipe);
            } else {
                hash.update(Store::open(like, Access::Read)?.1.recipe_digest()?);
            }
        }
        let mut room = vec![0; 1 << 20];
        for (name, files) in jobs {
            hash.update(format!("{name:?}"));
            for path in &files.paths {
                if path.as_os_str() == "-" {
                    return Ok(None);
                }
                if let Some(address) = remote_address(path) {
                    // Its version stands for its bytes, which are not read twice. A file that does not open is reported
                    // when it is read.
                    let remote = files.options.remote.as_ref();
                    let file = remote.and_then(|remote| remote.open(address).ok());
                    let Some(file) = file else { return Ok(None) };
                    let Some(version) = file.version() else { return Ok(None) };
                    hash.update(format!("{address:?} {} {version:?}", file.size()));
                    continue;
                }
                let wrong = || format!("{}: cannot be read", path.display());
                let mut file = File::open(path).with_context(wrong)?;
                hash.update(file.metadata().with_context(wrong)?.len().to_le_bytes());
                loop {
                    let count = file.read(&mut room).with_context(wrong)?;
                    if count == 0 {
                        break;
                    }
                    hash.update(&room[..count]);
                }
            }
        }
        Ok(Some(hash.finalize().into()))
    }

    /// Whether the shard is there already; something else under its name is not replaced.
    fn finished(&self, source: [u8; 32]) -> Result<bool> {
        let mut start = Vec::new();
        let Ok(file) = File::open(&self.output) else { return Ok(false) };
        file.take(4).read_to_end(&mut start)?;
        if !start.is_empty() && start != b"PMFD" {
            bail!(
                "{}: there is a file that is no shard; choose another name",
                self.output.display()
            );
        }
        Ok(Shard::read(&self.output).is_ok_and(|shard| shard.source == Some(source)))
    }

    fn answer(&self, shard: &Shard, kept: bool) -> Result<()> {
        let size = shard.to_bytes().len();
        let document = json!({
            "shard": self.output.display().to_string(),
            "tasks": shard.tasks.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "rows": shard.rows,
            "dropped": shard.dropped,
            "bytes": size,
            "recipe": hex(&shard.recipe),
            "kept": kept,
        });
        let words = format!(
            "{}: {} tasks, {} rows, {}{}\n",
            self.output.display(),
            shard.tasks.len(),
            grouped(shard.rows as f64),
            bytes(size),
            if kept { "; it was finished already" } else { "" },
        );
        answer(&document, &words)
    }
}

fn hex(bytes: &[u8]) -> String {
    let first = bytes[..8].iter().fold(0_u64, |first, byte| first << 8 | u64::from(*byte));
    format!("{first:016x}")
}

/// Shards to be merged and learned.
pub(crate) struct Shards<'a> {
    /// Files, or patterns of them.
    pub(crate) paths: &'a [String],
    /// The weight of each task.
    pub(crate) weight: f64,
    /// Whether nothing is to be written.
    pub(crate) dry_run: bool,
}

/// Parts of a task that have been merged, and the shard each content was first seen in.
struct Merged {
    summary: TaskSummary,
    contents: HashMap<Vec<u8>, PathBuf>,
}

impl Shards<'_> {
    /// The files in the order of their names: the same shards give the same bits, however they were listed.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for argument in self.paths {
            files.extend(expand(argument)?);
        }
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Learns all tasks of all shards at once, or nothing.
    pub(crate) fn learn(&self, path: &Path, check: &dyn Fn(&Model) -> Result<()>) -> Result<Done> {
        let files = self.files()?;
        let (mut store, mut model) = if path.exists() {
            let (mut store, mut model) = Store::open(path, Access::Write)?;
            store.load(&mut model)?;
            (Some(store), model)
        } else {
            (None, Self::first_model(path, &files)?)
        };
        check(&model)?;
        let new = store.is_none().then_some(&files[0]);
        let (order, mut tasks) = Self::merged(&model, &files, new)?;
        let (mut learned, mut names, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for name in order {
            let Some(Merged { summary, .. }) = tasks.remove(&name) else { continue };
            let record = model.learner.records().iter().find(|record| record.name == name);
            if record
                .is_some_and(|r| r.head.content.is_some() && r.head.content == summary.head.content)
            {
                repeated.push(name);
                continue;
            }
            model.learner.check_new(&name, self.weight)?;
            let fitted = model.fit_part(&summary, self.weight)?;
            model.learner.insert(&name, &fitted.design, fitted.draft, self.weight)?;
            model.schema = fitted.schema;
            names.push(name);
        }
        for name in &repeated {
            note(&format!("{name} was learned from the same rows already; it is left as it is"));
        }
        if !names.is_empty() {
            model.learner.solution()?;
            if !self.dry_run {
                commit(&mut store, path, &mut model)?;
            }
        }
        for name in &names {
            let done = if self.dry_run { "would learn" } else { "learned" };
            learned.push(report_task(&model, name, done)?);
        }
        let measured = |(option, value): &(&str, String)| *option == "calibrate" && value == "on";
        if !names.is_empty() && model.learner.problem().options().iter().any(measured) {
            note(
                "probabilities are measured on rows, which shards do not hold: measure them with `pmfcl calibrate MODEL DATA --learned`",
            );
        }
        let mut done = outcome(path, &model, self.dry_run, &learned);
        done.add("shards", json!(files.len()));
        done.add("repeated", json!(repeated));
        Ok(done)
    }

    /// The model that the first shard was made for.
    fn first_model(path: &Path, files: &[PathBuf]) -> Result<Model> {
        if path.is_dir() {
            return Err(FileError::Directory(path.to_path_buf()).into());
        }
        let first = &files[0];
        Shard::read(first)?.model().with_context(|| format!("{}: its columns", first.display()))
    }

    /// The parts of each task, merged in the order of the files; and the tasks in order of appearance. `new` is the shard a new
    /// model has its settings from.
    fn merged(
        model: &Model,
        files: &[PathBuf],
        new: Option<&PathBuf>,
    ) -> Result<(Vec<String>, HashMap<String, Merged>)> {
        let (mut order, mut tasks): (Vec<String>, HashMap<String, Merged>) = Default::default();
        let mut first: Option<(&Path, [u8; 32])> = None;
        for file in files {
            let shard = Shard::read(file)?;
            let template =
                shard.model().with_context(|| format!("{}: its columns", file.display()))?;
            if let Err(what) = model.check_template(&template) {
                bail!("{}: {what}; make it again with --like", file.display());
            }
            if let Some(new) = new
                && settings(&template) != settings(model)
            {
                bail!("{}: it was made with other settings than {}", file.display(), new.display());
            }
            match first {
                Some((before, recipe)) if recipe != shard.recipe => bail!(
                    "{}: it was made by another recipe than {} (other columns, categories known from the start, or basis); \
                     make both with the same --like",
                    file.display(),
                    before.display()
                ),
                _ => first = Some((file, shard.recipe)),
            }
            for (name, part) in shard.tasks {
                let wrong = || format!("{}: task '{name}'", file.display());
                let summary = TaskSummary::from_bytes(&part, usize::MAX).with_context(wrong)?;
                let content = summary.head.content.map_or_else(|| hash(&part), |c| c.to_vec());
                let Some(task) = tasks.get_mut(&name) else {
                    let contents = HashMap::from([(content, file.clone())]);
                    order.push(name.clone());
                    tasks.insert(name, Merged { summary, contents });
                    continue;
                };
                if let Some(before) = task.contents.insert(content, file.clone()) {
                    bail!(
                        "{} and {} hold the same rows of the task '{name}'; name one of them",
                        before.display(),
                        file.display()
                    );
                }
                task.summary = task.summary.merge(&summary).with_context(wrong)?;
            }
        }
        if tasks.is_empty() {
            bail!("the shards hold no task; make some with `pmfcl summarize`");
        }
        Ok((order, tasks))
    }
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// Settings that a model has from its first shard, whatever machine made it.
fn settings(model: &Model) -> Value {
    let settings = pmfcl::Settings { threads: 1, ..model.learner.settings().clone() };
    json!([format!("{settings:?}"), model.learner.problem().options(), model.loss()])
}
