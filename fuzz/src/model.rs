//! Whatever is done to a model file, it is opened as a model or refused.
//!
//! The first byte chooses a model, what happens to it and how it is looked at. Bytes of the file itself: then come places and new
//! bytes, three bytes each. Values in its tables: then come edits (which value, from where, how many bytes go,
//! how many come, and these); afterwards all check numbers are made right again, so that what lies behind
//! them is reached.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pmfcl::learner::TaskRecord;
use pmfcl::{
    ClassLoss, Classifier, ClassifierSettings, Labels, Learner, MemoryKind, Preference, Ridge,
    Rows, Settings, Summary,
};
use pmfcl_file::{
    Access, Change, Column, ColumnKind, Input, Learned, Model, ModelFile, Schema, TaskRow,
    assemble, verify,
};
use rusqlite::{Connection, params, types::Value};

use super::crc::crc32;

/// Set in the first byte: opened and loaded. Not set: checked through and through.
const OPEN: u8 = 0x80;

/// The columns of `task`; the one that tells the rows apart comes last.
const TASK: [&str; 11] = [
    "name", "samples", "rank", "weight", "min_loss", "bytes", "note", "moments", "losses", "crc",
    "place",
];

thread_local! {
    static PLACE: Place = Place::new();
}

/// Opens, loads and checks the model that the bytes make.
pub fn run(bytes: &[u8]) {
    let Some((&choice, edits)) = bytes.split_first() else { return };
    PLACE.with(|place| {
        let base = &place.bases[usize::from(choice >> 1 & 7) % place.bases.len()];
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

/// The model that edited values make, without a file: fifty times as fast, for what lies behind the check numbers.
pub fn values(bytes: &[u8]) {
    let Some((&choice, edits)) = bytes.split_first() else { return };
    PLACE.with(|place| {
        let base = &place.bases[usize::from(choice >> 1 & 7) % place.bases.len()];
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

    /// Removes the file and whatever SQLite put beside it.
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
        file.commit(Change::Solution).expect("a commit");
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

    /// The image with values changed and check numbers right.
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
                        reseal(&mut bytes);
                    }
                    values.insert(cell.row.clone(), bytes);
                }
                ("summary", Value::Blob(mut bytes)) => {
                    reseal(&mut bytes);
                    summaries.push(Summary::from_bytes(&bytes).ok()?);
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
    let [name, samples, rank, weight, min_loss, bytes, note, moments, losses, ..]: [Value;
        TASK.len()] = row.try_into().ok()?;
    let real = |value| if let Value::Real(x) = value { Some(x) } else { None };
    let size = |value| if let Value::Integer(i) = value { usize::try_from(i).ok() } else { None };
    let blob = |value| if let Value::Blob(bytes) = value { Some(bytes) } else { None };
    let text = |value| if let Value::Text(text) = value { Some(text) } else { None };
    let record = TaskRecord {
        name: text(name)?,
        samples: real(samples)?,
        rank: size(rank)?,
        weight: real(weight)?,
        min_loss: real(min_loss)?,
        bytes: size(bytes)?,
    };
    Some(TaskRow { record, note: text(note), moments: blob(moments), losses: blob(losses) })
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

/// Makes every check number right: those inside summaries, those beside them, and the seal. Written from
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
    for (place, mut bytes) in summaries {
        reseal(&mut bytes);
        connection
            .execute("UPDATE summary SET bytes = ?2 WHERE place = ?1", params![place, bytes])?;
        connection.execute(
            "UPDATE task SET crc = ?2 WHERE place = ?1 AND crc IS NOT NULL",
            params![place, crc32(&bytes)],
        )?;
    }
    let pool: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM model WHERE key = 'pool'", [], |row| row.get(0))
        .ok();
    if let Some(mut pool) = pool {
        reseal(&mut pool);
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
        "SELECT name, samples, weight, min_loss, rank, bytes, place, ifnull(crc, -1), ifnull(note, ''), \
         ifnull(moments, x''), ifnull(losses, x'') FROM task ORDER BY place",
    )?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        let mut line = Vec::new();
        for i in 1..4 {
            line.extend(row.get::<_, f64>(i)?.to_le_bytes());
        }
        for i in 4..8 {
            line.extend(row.get::<_, i64>(i)?.to_le_bytes());
        }
        add(&row.get::<_, String>(0)?, &line);
        add("note", row.get::<_, String>(8)?.as_bytes());
        add("moments", &row.get::<_, Vec<u8>>(9)?);
        add("losses", &row.get::<_, Vec<u8>>(10)?);
    }
    let seal = crc32(&all).to_string().into_bytes();
    connection.execute("UPDATE model SET value = ?1 WHERE key = 'seal'", [seal])?;
    // None is a value that is always right.
    connection.execute("UPDATE digest SET value = zeroblob(12)", [])?;
    Ok(())
}

/// The check number at the end of a summary.
fn reseal(summary: &mut [u8]) {
    if let Some(end) = summary.len().checked_sub(4) {
        let check = crc32(&summary[..end]).to_le_bytes();
        summary[end..].copy_from_slice(&check);
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
        classification(ClassLoss::Gaussian, MemoryKind::Ledger),
        classification(ClassLoss::Squared, compact),
        classification(ClassLoss::Logistic, MemoryKind::Ledger),
    ];
    let mut worded = regression(Settings::default());
    worded.schema.columns.push(Column { name: "town".into(), kind: ColumnKind::Text });
    worded.schema.columns[1].kind = ColumnKind::Block(1);
    worded.schema.inputs[1] = Input::Part { column: 1, place: 0 };
    models.push(worded);
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
    let mut learner = Learner::new(settings).expect("settings");
    for (name, x, y) in tasks() {
        let (x, y) = (Rows::new(&x, 2).expect("rows"), Rows::new(&y, 1).expect("rows"));
        learner.learn(name, x, y).expect("a task");
    }
    let schema = Schema::numbers(&["u".into(), "v".into()], &["y".into()]);
    Model { schema, learned: Learned::Regression(Box::new(learner)) }
}

fn classification(loss: ClassLoss, memory: MemoryKind) -> Model {
    let classes = (loss == ClassLoss::Logistic).then(|| vec!["no".into(), "yes".into()]);
    let settings = ClassifierSettings { loss, memory, classes, ..ClassifierSettings::default() };
    let mut classifier = Classifier::new(settings).expect("settings");
    for (name, x, y) in tasks() {
        let labels: Vec<&str> = y.iter().map(|v| if *v > 0.0 { "yes" } else { "no" }).collect();
        classifier
            .learn(name, Rows::new(&x, 2).expect("rows"), &Labels::new(&labels))
            .expect("a task");
    }
    let schema = Schema::numbers(&["u".into(), "v".into()], &["class".into()]);
    Model { schema, learned: Learned::Classification(Box::new(classifier)) }
}
