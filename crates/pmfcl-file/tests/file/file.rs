//! Models go into a file and come out as they were; one writer at a time; what is damaged is refused.

use std::fs;
use std::path::{Path, PathBuf};

use pmfcl::{
    Accumulator, Basis, ClassList, Labels, Learner, MemoryKind, Preference, Problem, Ridge, Rows,
    Settings, StoredPrecision, TaskRows,
};
use pmfcl_file::{Access, Column, ColumnKind, FileError, Input, Model, ModelFile, Schema, verify};
use pmfcl_oracle::Draw;

const D: usize = 3;

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    Place { path: directory.path().join("model.pmf"), _directory: directory }
}

fn table(rows: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(seed);
    let x = draw.normals(rows * D);
    let y = x.chunks(D).map(|r| r[0] - 2.0 * r[1] + 0.1 * draw.normal()).collect();
    (x, y)
}

fn learn(model: &mut Model, name: &str, seed: u64) {
    let (x, y) = table(40, seed);
    let x = Rows::new(&x, D).unwrap();
    let learner = &mut model.learner;
    if learner.problem().predicts_classes() {
        let class = |v: &f64| {
            if *v > 0.5 {
                "high"
            } else if *v < -0.5 {
                "low"
            } else {
                "mid"
            }
        };
        let labels: Vec<&str> = y.iter().map(class).collect();
        learner.learn(name, TaskRows::new(x, &Labels::new(&labels)), 1.0).unwrap();
    } else {
        // Counts are not negative.
        let counts = learner.problem().name() == "poisson";
        let y: Vec<f64> = y.iter().map(|v| if counts { v.abs().round() } else { *v }).collect();
        learner.learn(name, TaskRows::new(x, Rows::new(&y, 1).unwrap()), 1.0).unwrap();
    }
}

fn regression(settings: Settings) -> Model {
    values("squared", settings)
}

fn values(loss: &str, settings: Settings) -> Model {
    let learner = Learner::new(Problem::parse(loss, None).unwrap(), settings).unwrap();
    let schema = Schema::numbers(&names(&["a", "b", "c"]), &names(&["y"]));
    Model { schema, learner }
}

fn classification(loss: &str, memory: MemoryKind) -> Model {
    let classes = match loss {
        "logistic" => ClassList::Fixed(names(&["high", "low", "mid"])),
        _ => ClassList::Open,
    };
    let mut problem = Problem::parse(loss, Some(classes)).unwrap();
    if loss == "gaussian" {
        // Rows that wait to be measured do not outlast a commit without a solution: see the test of calibration below.
        problem = problem.with_option("calibrate", "off").unwrap();
    }
    let schema = Schema::numbers(&names(&["a", "b", "c"]), &names(&["class"]));
    let learner = Learner::new(problem, Settings { memory, ..Settings::default() }).unwrap();
    Model { schema, learner }
}

fn every_kind() -> Vec<Model> {
    let plain = Settings::default();
    let mut all = Vec::new();
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        for prefer in [Preference::Samples, Preference::Equal, Preference::Decay(0.5)] {
            all.push(regression(Settings { memory, prefer, ..plain.clone() }));
        }
        for loss in ["huber", "huber:0.5", "poisson"] {
            all.push(values(loss, Settings { memory, ..plain.clone() }));
        }
        for loss in ["squared", "gaussian", "logistic"] {
            all.push(classification(loss, memory));
        }
        let mut sequential = classification("logistic", memory);
        sequential.learner.set_option("scheme", "sequential").unwrap();
        all.push(sequential);
    }
    for basis in
        ["spline:4", "rff:16,seed=3", "rbf:5", "ntk:4", "poly:2", "rff:16,scale=range", "auto:30"]
    {
        let basis: Basis = basis.parse().unwrap();
        let ridge = Ridge::Fixed(1e-3);
        let accumulator = Accumulator::Gram;
        all.push(regression(Settings { basis, ridge, accumulator, ..plain.clone() }));
    }
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let (store, accumulator) = (StoredPrecision::F32, Accumulator::Mixed);
        all.push(regression(Settings { store, accumulator, memory, ..plain.clone() }));
    }
    all.push(regression(Settings { ridge: Ridge::LeaveOneTaskOut, intercept: false, ..plain }));
    all
}

#[test]
fn single_precision_halves_the_summaries_and_keeps_six_digits() {
    let saved = |store: StoredPrecision| {
        let place = place();
        let basis: Basis = "rff:30,seed=1".parse().unwrap();
        let ridge = Ridge::Fixed(1e-2);
        let mut model = regression(Settings { basis, ridge, store, ..Settings::default() });
        (0..3).for_each(|seed| learn(&mut model, &seed.to_string(), seed));
        ModelFile::create(&place.path, &model).unwrap();
        let connection = rusqlite::Connection::open(&place.path).unwrap();
        let bytes: i64 = connection
            .query_row("SELECT SUM(LENGTH(bytes)) FROM summary", [], |row| row.get(0))
            .unwrap();
        drop(connection);
        assert!(verify(&place.path).is_ok());
        let mut file = ModelFile::open(&place.path, Access::Read).unwrap();
        file.load().unwrap();
        let (x, _) = table(50, 9);
        let before = model.learner.predict(Rows::new(&x, D).unwrap()).unwrap();
        let after = file.model().learner.predict(Rows::new(&x, D).unwrap()).unwrap();
        assert_eq!(before, after, "what is kept is what was written");
        (bytes, after)
    };
    let ((long, exact), (short, near)) = (saved(StoredPrecision::F64), saved(StoredPrecision::F32));
    // Pivots and heads of so narrow a summary weigh something too.
    assert!((short as f64) < 0.6 * long as f64, "{short} of {long} bytes");
    let gap = exact.iter().zip(&near).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // Numbers off by 6e-8 of themselves, a penalised condition number below 1e3.
    assert!(gap > 0.0 && gap < 1e-4, "{gap:e}");
    let logistic = Problem::parse("logistic", Some(ClassList::Open)).unwrap();
    let settings = Settings { store: StoredPrecision::F32, ..Settings::default() };
    let refused = Learner::new(logistic, settings).unwrap_err().to_string();
    assert!(refused.contains("single precision"), "{refused}");
}

/// Everything a model says of itself.
fn content(model: &Model) -> String {
    // A clone, which is solved where the model is not.
    let learner = model.learner.clone();
    let solution = learner.solution().ok();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        model.schema,
        learner.problem(),
        learner.settings(),
        learner.outputs(),
        learner.records(),
        learner.design().map(|d| d.map().frozen()),
        solution,
        learner.response().ok(),
        learner.is_folded(),
        learner.kept_pool(),
        learner.summaries(),
    )
}

fn loaded(path: &Path) -> Result<String, FileError> {
    let mut file = ModelFile::open(path, Access::Read)?;
    file.load()?;
    Ok(content(file.model()))
}

#[test]
fn every_kind_of_model_comes_back_and_goes_on() {
    for mut model in every_kind() {
        let place = place();
        learn(&mut model, "one", 1);
        let mut file = ModelFile::create(&place.path, &model).unwrap();
        for (i, name) in ["two", "three", "four", "five", "six"].iter().enumerate() {
            if model.learner.settings().ridge == Ridge::LeaveOneTaskOut {
                file.load().unwrap();
            }
            // With and without a solution, which is the same when it is made later.
            for m in [file.model_mut(), &mut model] {
                learn(m, name, 2 + i as u64);
                assert!(!m.learner.is_solved());
                if i % 2 == 0 {
                    m.learner.solution().unwrap();
                }
            }
            file.commit().unwrap();
            drop(file);
            assert_eq!(loaded(&place.path).unwrap(), content(&model), "{name}");
            verify(&place.path).unwrap();
            file = ModelFile::open(&place.path, Access::Write).unwrap();
            assert_eq!(file.model().learner.is_solved(), i % 2 == 0);
        }
        drop(file);
        let verified = verify(&place.path).unwrap();
        assert_eq!(verified.tasks, 6);
        assert_eq!(fs::read_dir(place.path.parent().unwrap()).unwrap().count(), 1, "one file");
    }
}

/// Scores or values for some rows, as bits.
fn predictions(learner: &Learner) -> Vec<u64> {
    let (x, _) = table(9, 99);
    let x = Rows::new(&x, D).unwrap();
    let classes = learner.problem().predicts_classes();
    let cells = if classes { learner.probabilities(x) } else { learner.predict(x) }.unwrap();
    cells.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn commits_before_the_last_hold_no_solution_and_predict_all_the_same() {
    for mut model in every_kind() {
        let place = place();
        learn(&mut model, "one", 1);
        let mut file = ModelFile::create(&place.path, &model).unwrap();
        file.load().unwrap();
        let solutions = || -> i64 {
            let connection = rusqlite::Connection::open(&place.path).unwrap();
            let sql = "SELECT count(*) FROM model WHERE key IN ('solution', 'theta')";
            connection.query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!(solutions(), 2);
        for (i, name) in ["two", "three", "four", "five"].iter().enumerate() {
            learn(file.model_mut(), name, 2 + i as u64);
            file.commit().unwrap();
            assert_eq!(solutions(), 0);
            learn(&mut model, name, 2 + i as u64);
            // The summaries that the pool lacks come with the model; only leaving tasks out needs the others.
            let mut read = ModelFile::open(&place.path, Access::Read).unwrap();
            assert!(!read.model().learner.is_solved());
            if model.learner.settings().ridge == Ridge::LeaveOneTaskOut {
                read.load().unwrap();
            }
            let expected = predictions(&model.learner.clone());
            assert_eq!(predictions(&read.model().learner), expected, "{name}");
        }
        file.model().learner.solution().unwrap();
        file.commit().unwrap();
        assert_eq!(solutions(), 2);
        drop(file);
        let read = ModelFile::open(&place.path, Access::Read).unwrap();
        assert!(read.model().learner.is_solved());
        assert_eq!(predictions(&read.model().learner), predictions(&model.learner));
        assert_eq!(verify(&place.path).unwrap().tasks, 5);
    }
}

/// The JSON of the solution in a file, as it is written there.
fn stored_solution(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT value FROM model WHERE key = 'solution'";
    let bytes: Vec<u8> = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Wide pools are kept as sums, and nobody makes their triangle for the file.
#[test]
fn sums_of_wide_designs_come_back_and_go_on() {
    let wide = |memory, accumulator| Settings {
        basis: "relu:600".parse().unwrap(),
        ridge: Ridge::Fixed(0.01),
        accumulator,
        memory,
        ..Settings::default()
    };
    for memory in [MemoryKind::Compact, MemoryKind::Ledger] {
        for accumulator in [Accumulator::Gram, Accumulator::Mixed, Accumulator::Qr] {
            let what = format!("{memory:?} {accumulator:?}");
            let place = place();
            let mut model = regression(wide(memory, accumulator));
            // One task of many rows, others of few.
            let many = |m: &mut Model| {
                let (x, y) = table(1500, 7);
                let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
                m.learner.learn("many", rows, 1.0).unwrap();
            };
            learn(&mut model, "one", 1);
            let mut file = ModelFile::create(&place.path, &model).unwrap();
            for step in 0..3 {
                for m in [file.model_mut(), &mut model] {
                    if step == 1 {
                        many(m);
                    } else {
                        learn(m, &format!("few {step}"), 2 + step);
                    }
                    m.learner.solution().unwrap();
                }
                file.commit().unwrap();
                drop(file);
                // A ledger has triangles of its tasks, which are added up as sums only where that loses no digits.
                if memory == MemoryKind::Compact || accumulator == Accumulator::Qr {
                    let waits = stored_solution(&place.path).contains("\"rank\":null");
                    let summed = accumulator != Accumulator::Qr;
                    assert_eq!(waits, summed, "{what}: a rank is made when it is asked for");
                }
                verify(&place.path).unwrap();
                file = ModelFile::open(&place.path, Access::Write).unwrap();
                assert_eq!(
                    predictions(&file.model().learner),
                    predictions(&model.learner),
                    "{what}"
                );
            }
            let rank = |m: &Model| m.learner.solution().unwrap().rank();
            assert_eq!(rank(file.model()), rank(&model), "{what}");
            let mut read = ModelFile::open(&place.path, Access::Read).unwrap();
            read.load().unwrap();
            // Asked for here as well: what a summary has found out is part of what is compared.
            assert_eq!(rank(read.model()), rank(&model), "{what}");
            assert_eq!(content(read.model()), content(&model), "{what}");
        }
    }
}

/// The rows a task was measured with are gone once it is closed; what was measured is in the file.
#[test]
fn what_was_measured_is_in_the_file_and_no_rows_are() {
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let place = place();
        let mut model = classification("gaussian", memory);
        model.learner.set_option("calibrate", "on").unwrap();
        let tables = || -> Vec<Option<Vec<u8>>> {
            let connection = rusqlite::Connection::open(&place.path).unwrap();
            let mut rows =
                connection.prepare("SELECT calibration FROM task ORDER BY place").unwrap();
            rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        learn(&mut model, "one", 1);
        let mut file = ModelFile::create(&place.path, &model).unwrap();
        file.load().unwrap();
        // A commit without a solution measures nothing; the next one with a solution writes the tables of both tasks.
        learn(file.model_mut(), "two", 2);
        file.commit().unwrap();
        assert_eq!(tables().iter().map(Option::is_some).collect::<Vec<_>>(), [true, false]);
        learn(file.model_mut(), "three", 3);
        file.model().learner.solution().unwrap();
        file.commit().unwrap();
        assert_eq!(tables().iter().flatten().map(Vec::len).collect::<Vec<_>>(), [8 * 587; 3]);
        let expected = predictions(&file.model().learner);
        drop(file);
        verify(&place.path).unwrap();
        let mut file = ModelFile::open(&place.path, Access::Write).unwrap();
        assert_eq!(predictions(&file.model().learner), expected);
        // Measured anew, all tables are replaced.
        let (x, y) = table(200, 9);
        let labels: Vec<&str> = y.iter().map(|v| if *v > 0.5 { "high" } else { "low" }).collect();
        let labels = Labels::new(&labels);
        let rows = TaskRows::new(Rows::new(&x, D).unwrap(), &labels);
        let before = tables();
        file.model_mut().learner.calibrate(rows, false).unwrap();
        file.model().learner.solution().unwrap();
        file.commit().unwrap();
        let expected = predictions(&file.model().learner);
        drop(file);
        assert!(tables().iter().zip(&before).all(|(now, then)| now.is_some() && now != then));
        verify(&place.path).unwrap();
        let file = ModelFile::open(&place.path, Access::Read).unwrap();
        assert_eq!(predictions(&file.model().learner), expected);
    }
}

#[test]
fn a_change_of_mind_is_kept_and_the_unlearned_is_wiped() {
    let place = place();
    let mut model = regression(Settings::default());
    for (i, name) in ["keep", "patient-4711", "last"].iter().enumerate() {
        learn(&mut model, name, i as u64);
    }
    let secret = model.learner.summaries().unwrap()[1].to_bytes();
    let mut file = ModelFile::create(&place.path, &model).unwrap();
    let holds = |needle: &[u8]| {
        let bytes = fs::read(&place.path).unwrap();
        bytes.windows(needle.len()).any(|w| w == needle)
    };
    // A run of its numbers short enough to lie within a page.
    assert!(holds(b"patient-4711") && holds(&secret[40..72]));
    file.load().unwrap();
    let chosen = vec![("keep".to_owned(), 0.75), ("last".to_owned(), 0.25)];
    for m in [file.model_mut(), &mut model] {
        m.learner.prefer(Preference::Chosen(chosen.clone())).unwrap();
    }
    file.commit().unwrap();
    assert_eq!(loaded(&place.path).unwrap(), content(&model));
    for m in [file.model_mut(), &mut model] {
        m.learner.unlearn("patient-4711").unwrap();
    }
    file.commit().unwrap();
    // One file, also while it is open.
    assert_eq!(fs::read_dir(place.path.parent().unwrap()).unwrap().count(), 1);
    drop(file);
    assert_eq!(loaded(&place.path).unwrap(), content(&model));
    assert!(!holds(b"patient-4711") && !holds(&secret[40..72]), "traces are left");
    verify(&place.path).unwrap();
}

#[test]
fn categories_and_classes_are_kept() {
    let place = place();
    let column = |name: &str, kind| Column { name: name.to_owned(), kind, format: None };
    let mut schema = Schema::new(
        vec![column("age", ColumnKind::Number), column("colour", ColumnKind::Text)],
        names(&["y"]),
    );
    for value in ["red", "blue; \"quoted\""] {
        schema.inputs.push(Input::Category { column: 1, value: value.to_owned() });
    }
    let mut learner = Learner::new(Problem::squared(), Settings::default()).unwrap();
    let (x, y) = table(30, 1);
    let rows = TaskRows::new(Rows::new(&x, 3).unwrap(), Rows::new(&y, 1).unwrap());
    learner.learn("ünïcode 'task'", rows, 1.0).unwrap();
    let model = Model { schema, learner };
    drop(ModelFile::create(&place.path, &model).unwrap());
    assert_eq!(loaded(&place.path).unwrap(), content(&model));
    assert_eq!(model.features(), ["age", "colour=red", "colour=blue; \"quoted\""]);
}

#[test]
fn a_second_writer_is_told_and_readers_go_on() {
    let place = place();
    let mut model = regression(Settings::default());
    learn(&mut model, "one", 1);
    let mut first = ModelFile::create(&place.path, &model).unwrap();
    let refused = ModelFile::open(&place.path, Access::Write).unwrap_err();
    assert!(matches!(refused, FileError::Locked(_)), "{refused}");
    assert!(refused.to_string().contains("another process is changing"));
    assert_eq!(
        ModelFile::open(&place.path, Access::Read).unwrap().model().learner.records().len(),
        1
    );
    learn(first.model_mut(), "two", 2);
    first.commit().unwrap();
    assert_eq!(
        ModelFile::open(&place.path, Access::Read).unwrap().model().learner.records().len(),
        2
    );
    assert!(matches!(ModelFile::open(&place.path, Access::Write), Err(FileError::Locked(_))));
    drop(first);
    ModelFile::open(&place.path, Access::Write).unwrap();
}

#[test]
fn what_is_no_model_is_refused_by_name() {
    let place = place();
    let refused = |path: &Path, part: &str| {
        let text = ModelFile::open(path, Access::Read).unwrap_err().to_string();
        assert!(text.contains(part) && text.contains(&path.display().to_string()), "{text}");
    };
    refused(&place.path, "no such model");
    refused(place.path.parent().unwrap(), "directory");
    fs::write(&place.path, b"").unwrap();
    refused(&place.path, "empty");
    fs::write(&place.path, vec![7u8; 4096]).unwrap();
    refused(&place.path, "not a pmfcl model");
    fs::remove_file(&place.path).unwrap();
    rusqlite::Connection::open(&place.path).unwrap().execute_batch("CREATE TABLE a (b)").unwrap();
    refused(&place.path, "something else");
    fs::remove_file(&place.path).unwrap();
    let mut model = regression(Settings::default());
    learn(&mut model, "one", 1);
    drop(ModelFile::create(&place.path, &model).unwrap());
    assert!(matches!(ModelFile::create(&place.path, &model), Err(FileError::Exists(_))));
    let raw =
        |sql: &str| rusqlite::Connection::open(&place.path).unwrap().execute_batch(sql).unwrap();
    raw("PRAGMA user_version = 9");
    refused(&place.path, "newer pmfcl (file version 9, this program knows 2)");
    raw("PRAGMA user_version = 3");
    let bytes = fs::read(&place.path).unwrap();
    let newer = "newer pmfcl (file version 3, this program knows 2); update pmfcl";
    refused(&place.path, newer);
    for error in [
        ModelFile::open(&place.path, Access::Write).unwrap_err(),
        verify(&place.path).unwrap_err(),
        Model::from_bytes(&bytes).unwrap_err(),
        model.save(&place.path, pmfcl_file::Replace::Any).unwrap_err(),
    ] {
        assert!(matches!(error, FileError::Newer(_, 3, 2)), "{error}");
        assert!(error.to_string().contains(newer), "{error}");
    }
    assert!(fs::read(&place.path).unwrap() == bytes, "a newer file is left alone");
    raw(
        "PRAGMA user_version = 2; CREATE TRIGGER t AFTER DELETE ON task BEGIN DELETE FROM model; END",
    );
    refused(&place.path, "tables are not those of a model");
    raw("DROP TRIGGER t; PRAGMA journal_mode = WAL");
    refused(&place.path, "write-ahead log");
    raw("PRAGMA journal_mode = DELETE; INSERT INTO summary SELECT 99, bytes FROM summary");
    // The digest is that of the file before; a row too many is found without it as well.
    raw("UPDATE digest SET value = zeroblob(12)");
    let text = verify(&place.path).unwrap_err().to_string();
    assert!(text.contains("2 summaries for 1 tasks"), "{text}");
    raw("DELETE FROM summary WHERE place = 99; UPDATE task SET samples = 41");
    refused(&place.path, "bytes were changed");
    let nowhere = place.path.parent().unwrap().join("not/there.pmf");
    let text = ModelFile::create(&nowhere, &model).unwrap_err().to_string();
    assert!(text.contains("no directory"), "{text}");
}

/// Whichever byte is changed, the file is refused.
#[test]
fn a_changed_byte_anywhere_is_found() {
    let place = place();
    let mut model = classification("logistic", MemoryKind::Ledger);
    for i in 0..4 {
        learn(&mut model, &format!("task {i}"), i);
    }
    drop(ModelFile::create(&place.path, &model).unwrap());
    let good = fs::read(&place.path).unwrap();
    let truth = content(&model);
    let (mut refused, mut harmless) = (0, 0);
    for at in (0..good.len()).filter(|at| *at < 128 || at % 11 == 0) {
        for flip in [0x01u8, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            fs::write(&place.path, &bad).unwrap();
            match verify(&place.path).and_then(|_| loaded(&place.path)) {
                Err(_) => refused += 1,
                Ok(found) => {
                    harmless += 1;
                    assert_eq!(found, truth, "byte {at} of {}", good.len());
                }
            }
        }
    }
    assert_eq!(harmless, 0, "{refused} refused");
}

/// Opening does not read the summaries.
#[test]
fn exchanged_summaries_are_found() {
    for loss in ["squared", "gaussian", "logistic"] {
        let place = place();
        let mut model = match loss {
            "squared" => regression(Settings::default()),
            other => classification(other, MemoryKind::Ledger),
        };
        learn(&mut model, "one", 1);
        learn(&mut model, "two", 2);
        drop(ModelFile::create(&place.path, &model).unwrap());
        verify(&place.path).unwrap();
        let exchanged = "UPDATE digest SET value = zeroblob(12); UPDATE summary SET place = 9 WHERE place = 0; \
                         UPDATE summary SET place = 0 WHERE place = 1; UPDATE summary SET place = 1 WHERE place = 9";
        rusqlite::Connection::open(&place.path).unwrap().execute_batch(exchanged).unwrap();
        let text = verify(&place.path).unwrap_err().to_string();
        assert!(text.contains("`one` has changed bytes"), "{loss}: {text}");
    }
}

#[test]
fn ten_thousand_tasks_open_at_once() {
    let place = place();
    let mut model = regression(Settings::default());
    for i in 0..10_000 {
        let (x, y) = table(4, i);
        let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
        model.learner.learn(&format!("t{i}"), rows, 1.0).unwrap();
    }
    drop(ModelFile::create(&place.path, &model).unwrap());
    let mut file = ModelFile::open(&place.path, Access::Write).unwrap();
    assert_eq!(file.model().learner.unloaded(), 10_000);
    learn(file.model_mut(), "one more", 1);
    file.commit().unwrap();
    let learner = &file.model().learner;
    let here = (0..10_001).filter(|at| learner.task_summary_at(*at).is_some()).count();
    assert_eq!((learner.unloaded(), here), (10_000, 1));
    drop(file);
    learn(&mut model, "one more", 1);
    assert_eq!(loaded(&place.path).unwrap(), content(&model));
}

#[test]
fn bytes_are_a_file_and_come_back_whole() {
    let place = place();
    let schema = Schema::numbers(&names(&["a", "b", "c"]), &names(&["y"]));
    let settings = Settings { ridge: Ridge::Fixed(0.1), ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let mut model = Model { schema, learner };
    learn(&mut model, "first", 1);
    learn(&mut model, "second", 2);
    let bytes = model.to_bytes().unwrap();
    let back = Model::from_bytes(&bytes).unwrap();
    assert_eq!(back.learner.summaries(), model.learner.summaries());
    assert_eq!(back.learner.solution(), model.learner.solution());
    assert!(back.to_bytes().unwrap() == bytes, "the model did not come back whole");
    fs::write(&place.path, &bytes).unwrap();
    assert_eq!(verify(&place.path).unwrap().tasks, 2);
    let mut opened = ModelFile::open(&place.path, Access::Read).unwrap();
    assert!(matches!(
        opened.model().to_bytes(),
        Err(FileError::Core(pmfcl::Error::Unloaded { .. }))
    ));
    opened.load().unwrap();
    assert!(opened.model().to_bytes().unwrap() == bytes);
    for damaged in [&bytes[..0], &b"no model"[..], &bytes[..bytes.len() / 2]] {
        assert!(Model::from_bytes(damaged).is_err());
    }
}
