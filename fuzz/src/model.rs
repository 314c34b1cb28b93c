//! Whatever is done to a model file, it is opened as a model or refused.
//!
//! The first byte chooses a model, what happens to it and how it is looked at. Bytes of the file itself: then come places and new
//! bytes, three bytes each. Values in its tables: then come edits (which value, from where, how many bytes go,
//! how many come, and these); afterwards all checksums are made right again, so that what lies behind
//! them is reached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pmfcl::{
    ClassList, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows, Settings, TaskRows,
    TaskSummary,
};
use pmfcl_file::{
    Access, Column, ColumnKind, Input, Model, ModelFile, Schema, TaskRow, assemble, verify,
};
use rusqlite::{Connection, params, types::Value};

use super::crc::crc32;

/// Set in the first byte: opened and loaded. Not set: checked through and through.
const OPEN: u8 = 0x80;

/// The columns of `task`; the one that tells the rows apart comes last.
const TASK: [&str; 14] = [
    "name",
    "samples",
    "rows",
    "rank",
    "weight",
    "least",
    "exactness",
    "outcome",
    "bytes",
    "counts",
    "content",
    "calibration",
    "crc",
    "place",
];

thread_local! {
    static PLACE: Place = Place::new();
}

/// Opens, loads and checks the model that the bytes make.
pub fn run(bytes: &[u8]) {
    let Some((&choice, edits)) = bytes.split_first() else { return };
    PLACE.with(|place| {
        let base = &place.bases[usize::from(choice >> 1 & 15) % place.bases.len()];
        if choice & 1 == 0 {
            let mut image = base.image.clone();
            for edit in edits.chunks_exact(3) {
                let at = usize::from(u16::from_le_bytes([edit[0], edit[1]]));
                let len = image.len();
                image[at % len] ^= edit[2];
            }
            let changed = image.iter().zip(&base.image).filter(|(a, b)| a != b).count();
            let sound = place.look(&image, choice);
            let verified = sound && choice & OPEN == 0;
            assert!(changed != 1 || !verified, "a changed byte goes unseen");
            assert!(changed != 0 || sound, "the model is no model");
        } else if let Ok(image) = place.changed(base, edits) {
            place.look(&image, choice);
        }
    });
}

/// The model that edited values make, without a file: fifty times as fast, for what lies behind the checksums.
pub fn values(bytes: &[u8]) {
    let Some((&choice, edits)) = bytes.split_first() else { return };
    PLACE.with(|place| {
        let base = &place.bases[usize::from(choice >> 1 & 15) % place.bases.len()];
        let model = base.assembled(edits);
        assert!(model.is_some() || !edits.is_empty(), "the model is no model");
        if let Some(model) = model {
            let _ = (model.features(), model.outputs().len(), model.state_bytes());
        }
    });
}

/// A model to start from.
struct Base {
    image: Vec<u8>,
    /// Every cell there is, by how it is reached.
    cells: Vec<Cell>,
}

/// One value of one row.
struct Cell {
    table: &'static str,
    /// Key or place.
    row: String,
    value: Value,
    write: String,
}

/// A file to put models in, in memory where there is such a place.
struct Place {
    path: PathBuf,
    bases: Vec<Base>,
    scratch: RefCell<Connection>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let thread = format!("{:?}", std::thread::current().id());
        let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
        let path = directory.join(format!("pmfcl-fuzz-{}-{thread}.pmf", std::process::id()));
        let scratch = RefCell::new(Connection::open_in_memory().expect("a database in memory"));
        let mut place = Self { path, bases: Vec::new(), scratch };
        place.bases = models().iter().map(|model| place.base(model)).collect();
        place.clear();
        place
    }

    /// Removes the file and whatever SQLite put next to it.
    fn clear(&self) {
        for end in ["", "-journal", "-wal", "-shm"] {
            let mut name = self.path.clone().into_os_string();
            name.push(end);
            let _ = std::fs::remove_file(name);
        }
    }

    fn base(&self, model: &Model) -> Base {
        self.clear();
        let mut file = ModelFile::create(&self.path, model).expect("a new model");
        file.commit().expect("a commit");
        drop(file);
        let image = std::fs::read(&self.path).expect("the file just written");
        let mut scratch = self.scratch.borrow_mut();
        open_image(&mut scratch, &image).expect("a database");
        let mut cells = Vec::new();
        let mut list = |table: &'static str, key: &str, columns: &[&'static str]| {
            let sql = format!("SELECT quote({key}) FROM {table} ORDER BY {key}");
            let mut keys = scratch.prepare(&sql).expect("a table of the model");
            let keys = keys.query_map([], |row| row.get::<_, String>(0)).expect("its rows");
            for row in keys.map(|row| row.expect("a row")) {
                if row == "'seal'" {
                    continue;
                }
                for column in columns {
                    let read = format!("SELECT {column} FROM {table} WHERE {key} = {row}");
                    let value = scratch.query_row(&read, [], |row| row.get(0)).expect("a value");
                    let write = format!("UPDATE {table} SET {column} = ?1 WHERE {key} = {row}");
                    let row = row.trim_matches('\'').to_owned();
                    cells.push(Cell { table, row, value, write });
                }
            }
        };
        list("model", "key", &["value"]);
        list("task", "place", &TASK);
        list("summary", "place", &["bytes"]);
        Base { image, cells }
    }

    /// The image with values changed and checksums right.
    fn changed(&self, base: &Base, edits: &[u8]) -> rusqlite::Result<Vec<u8>> {
        let mut scratch = self.scratch.borrow_mut();
        open_image(&mut scratch, &base.image)?;
        scratch.execute_batch("BEGIN")?;
        for (cell, value) in base.cells.iter().zip(base.edited(edits)) {
            if value != cell.value {
                scratch.execute(&cell.write, [value])?;
            }
        }
        seal(&scratch)?;
        scratch.execute_batch("COMMIT")?;
        Ok(scratch.serialize("main")?.to_vec())
    }

    /// Whether an image is a model that opens, or one that passes every check.
    fn look(&self, image: &[u8], choice: u8) -> bool {
        std::fs::write(&self.path, image).expect("room for a model");
        let sound = if choice & OPEN == 0 { verify(&self.path).is_ok() } else { open(&self.path) };
        self.clear();
        sound
    }
}

fn open(path: &Path) -> bool {
    let Ok(mut file) = ModelFile::open(path, Access::Read) else { return false };
    if file.load().is_err() {
        return false;
    }
    let model = file.model();
    let _ = (model.features(), model.outputs().len(), model.state_bytes());
    true
}

fn open_image(connection: &mut Connection, image: &[u8]) -> rusqlite::Result<()> {
    if !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    connection.deserialize_read_exact("main", image, image.len(), false)
}

impl Base {
    /// The values of all cells after the edits.
    fn edited(&self, edits: &[u8]) -> Vec<Value> {
        let mut values: Vec<Value> = self.cells.iter().map(|cell| cell.value.clone()).collect();
        let mut rest = edits;
        while let Some((&[which, low, high, gone, come], tail)) = rest.split_first_chunk() {
            let (new, tail) = tail.split_at(tail.len().min(usize::from(come)));
            rest = tail;
            let value = &mut values[usize::from(which) % self.cells.len()];
            let at = usize::from(u16::from_le_bytes([low, high]));
            edit(value, at, usize::from(gone), new);
        }
        values
    }

    /// What the tables hold after the edits, and the model made of it without a file.
    fn assembled(&self, edits: &[u8]) -> Option<Model> {
        let mut values = BTreeMap::new();
        let mut tasks: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        let mut summaries = Vec::new();
        for (cell, value) in self.cells.iter().zip(self.edited(edits)) {
            match (cell.table, value) {
                ("model", Value::Blob(mut bytes)) => {
                    if cell.row == "pool" {
                        reseal_pool(&mut bytes);
                    }
                    values.insert(cell.row.clone(), bytes);
                }
                ("summary", Value::Blob(mut bytes)) => {
                    reseal_summary(&mut bytes);
                    summaries.push(TaskSummary::from_bytes(&bytes, bytes.len()).ok()?);
                }
                (_, value) => tasks.entry(&cell.row).or_default().push(value),
            }
        }
        let tasks = tasks.into_values().map(task).collect::<Option<_>>()?;
        assemble(values, tasks, summaries).ok()
    }
}

/// A row of `task` from its values, in the order of [`TASK`].
fn task(row: Vec<Value>) -> Option<TaskRow> {
    let [
        name,
        samples,
        rows,
        rank,
        weight,
        least,
        exactness,
        outcome,
        bytes,
        counts,
        content,
        calibration,
        ..,
    ]: [Value; TASK.len()] = row.try_into().ok()?;
    let real = |value| if let Value::Real(x) = value { Some(x) } else { None };
    let integer = |value| if let Value::Integer(i) = value { Some(i) } else { None };
    let blob = |value| if let Value::Blob(bytes) = value { Some(bytes) } else { None };
    let text = |value| if let Value::Text(text) = value { Some(text) } else { None };
    Some(TaskRow {
        name: text(name)?,
        samples: real(samples)?,
        rows: integer(rows),
        rank: integer(rank)?,
        weight: real(weight)?,
        least: real(least),
        exactness: text(exactness)?,
        outcome: text(outcome)?,
        bytes: integer(bytes)?,
        counts: text(counts),
        content: blob(content),
        calibration: blob(calibration),
    })
}

/// Replaces `gone` bytes of a value from `at` on.
fn edit(value: &mut Value, at: usize, gone: usize, new: &[u8]) {
    let splice = |bytes: &[u8]| {
        let at = at % (bytes.len() + 1);
        let end = bytes.len().min(at + gone);
        [&bytes[..at], new, &bytes[end..]].concat()
    };
    match value {
        Value::Null => *value = Value::Blob(new.to_vec()),
        Value::Integer(i) => *i = i64::from_le_bytes(fixed(&splice(&i.to_le_bytes()))),
        Value::Real(x) => *x = f64::from_le_bytes(fixed(&splice(&x.to_le_bytes()))),
        Value::Text(text) => {
            if let Ok(new) = String::from_utf8(splice(text.as_bytes())) {
                *text = new;
            }
        }
        Value::Blob(bytes) => *bytes = splice(bytes),
    }
}

fn fixed(bytes: &[u8]) -> [u8; 8] {
    let mut out = [0; 8];
    out.iter_mut().zip(bytes).for_each(|(o, b)| *o = *b);
    out
}

/// Makes every checksum right: those inside summaries, those next to them, and the seal. Written from
/// `docs/model-file.md`, not from the code that it checks.
fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let mut summaries: Vec<(i64, Vec<u8>)> = Vec::new();
    {
        let mut rows = connection.prepare("SELECT place, bytes FROM summary")?;
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            summaries.push((row.get(0)?, row.get(1)?));
        }
    }
    let layout: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for (place, mut bytes) in summaries {
        reseal_summary(&mut bytes);
        // Layout 1 takes the checksum at the end of a blob into the one next to it.
        let end = if layout == 1 { bytes.len() } else { bytes.len().saturating_sub(4) };
        connection
            .execute("UPDATE summary SET bytes = ?2 WHERE place = ?1", params![place, bytes])?;
        connection.execute(
            "UPDATE task SET crc = ?2 WHERE place = ?1 AND crc IS NOT NULL",
            params![place, crc32(&bytes[..end])],
        )?;
    }
    let pool: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM model WHERE key = 'pool'", [], |row| row.get(0))
        .ok();
    if let Some(mut pool) = pool {
        reseal_pool(&mut pool);
        connection.execute("UPDATE model SET value = ?1 WHERE key = 'pool'", [pool])?;
    }
    let mut all = Vec::new();
    let mut add = |name: &str, value: &[u8]| {
        for part in [name.as_bytes(), value] {
            all.extend((part.len() as u64).to_le_bytes());
            all.extend(part);
        }
    };
    let mut rows =
        connection.prepare("SELECT key, value FROM model WHERE key <> 'seal' ORDER BY key")?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        add(&row.get::<_, String>(0)?, &row.get::<_, Vec<u8>>(1)?);
    }
    let mut rows = connection.prepare(
        "SELECT name, samples, weight, rank, bytes, place, ifnull(crc, -1), ifnull(rows, -1), least, exactness, outcome, \
         ifnull(counts, ''), ifnull(content, x''), ifnull(calibration, x'') FROM task ORDER BY place",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let mut line = Vec::new();
        for i in 1..3 {
            line.extend(row.get::<_, f64>(i)?.to_le_bytes());
        }
        for i in 3..8 {
            line.extend(row.get::<_, i64>(i)?.to_le_bytes());
        }
        add(&row.get::<_, String>(0)?, &line);
        let least: Option<f64> = row.get(8)?;
        add("least", &least.map_or_else(Vec::new, |least| least.to_le_bytes().to_vec()));
        for (i, name) in [(9, "exactness"), (10, "outcome"), (11, "counts")] {
            add(name, row.get::<_, String>(i)?.as_bytes());
        }
        for (i, name) in [(12, "content"), (13, "calibration")] {
            add(name, &row.get::<_, Vec<u8>>(i)?);
        }
    }
    // The table `audit` is empty, and adds nothing.
    let seal = crc32(&all).to_string().into_bytes();
    connection.execute("UPDATE model SET value = ?1 WHERE key = 'seal'", [seal])?;
    // None is a value that is always right.
    connection.execute("UPDATE digest SET value = zeroblob(12)", [])?;
    Ok(())
}

/// The checksum of a task summary, and before it that of the quadratic inside.
fn reseal_summary(task: &mut [u8]) {
    if let Some(end) = task.len().checked_sub(4) {
        reseal_quadratic(&mut task[..end]);
        reseal(task);
    }
}

/// The checksum of the quadratic a pool ends in.
fn reseal_pool(pool: &mut [u8]) {
    reseal_quadratic(pool);
}

/// The checksum of a quadratic at the end of these bytes, where they have one.
fn reseal_quadratic(bytes: &mut [u8]) {
    if let Some(start) = bytes.windows(4).rposition(|four| four == b"PMFS") {
        reseal(&mut bytes[start..]);
    }
}

/// The checksum at the end of bytes.
fn reseal(bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(4) {
        let check = crc32(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&check);
    }
}

/// Small models of every kind.
fn models() -> Vec<Model> {
    let plain = Settings::default();
    let compact = MemoryKind::Compact;
    let fixed = Ridge::Fixed(0.1);
    let mut models = vec![
        regression(plain.clone()),
        regression(Settings { memory: compact, prefer: Preference::Decay(0.5), ..plain.clone() }),
        regression(Settings {
            basis: "spline:4".parse().expect("a basis"),
            ridge: fixed,
            prefer: Preference::Equal,
            ..plain.clone()
        }),
        regression(Settings {
            basis: "rff:3".parse().expect("a basis"),
            intercept: false,
            ..plain
        }),
        classification("gaussian", MemoryKind::Ledger),
        classification("squared", compact),
        classification("logistic", MemoryKind::Ledger),
    ];
    let mut worded = regression(Settings::default());
    worded.schema.columns.push(Column {
        name: "town".into(),
        kind: ColumnKind::Text,
        format: None,
    });
    worded.schema.columns[1].kind = ColumnKind::Block(1);
    worded.schema.inputs[1] = Input::Part { column: 1, place: 0 };
    models.push(worded);
    models.push(of_values("huber", Settings::default()));
    models.push(of_values("poisson", Settings { memory: compact, ..Settings::default() }));
    models
}

/// Three tasks of five rows: inputs and a target.
fn tasks() -> impl Iterator<Item = (&'static str, [f64; 10], [f64; 5])> {
    ["a", "b", "c"].into_iter().enumerate().map(|(t, name)| {
        let x = std::array::from_fn(|i| f64::from(((i * i * 3 + i + 5 * t) % 7) as u8) / 2.0 - 1.0);
        let y = std::array::from_fn(|i| x[2 * i] - 0.5 * x[2 * i + 1] + 0.1 * f64::from(i as u8));
        (name, x, y)
    })
}

fn regression(settings: Settings) -> Model {
    of_values("squared", settings)
}

fn of_values(loss: &str, settings: Settings) -> Model {
    let problem = Problem::parse(loss, None).expect("a loss");
    let mut learner = Learner::new(problem, settings).expect("settings");
    for (name, x, y) in tasks() {
        // Counts are not negative.
        let y = if loss == "poisson" { y.map(|v| v.abs().round()) } else { y };
        let (x, y) = (Rows::new(&x, 2).expect("rows"), Rows::new(&y, 1).expect("rows"));
        learner.learn(name, TaskRows::new(x, y), 1.0).expect("a task");
    }
    let schema = Schema::numbers(&["u".into(), "v".into()], &["y".into()]);
    Model { schema, learner }
}

fn classification(loss: &str, memory: MemoryKind) -> Model {
    let classes = match loss {
        "logistic" => ClassList::Fixed(vec!["no".into(), "yes".into()]),
        _ => ClassList::Open,
    };
    let problem = Problem::parse(loss, Some(classes)).expect("a loss");
    let settings = Settings { memory, ..Settings::default() };
    let mut learner = Learner::new(problem, settings).expect("settings");
    for (name, x, y) in tasks() {
        let labels: Vec<&str> = y.iter().map(|v| if *v > 0.0 { "yes" } else { "no" }).collect();
        let labels = Labels::new(&labels);
        let rows = TaskRows::new(Rows::new(&x, 2).expect("rows"), &labels);
        learner.learn(name, rows, 1.0).expect("a task");
    }
    let schema = Schema::numbers(&["u".into(), "v".into()], &["class".into()]);
    Model { schema, learner }
}
