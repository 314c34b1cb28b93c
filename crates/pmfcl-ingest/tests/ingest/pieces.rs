//! Pieces of files come back in order and add up to the same model, however small they are and whoever reads them.

use std::path::PathBuf;

use pmfcl::{ClassList, Labels, Learner, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_file::Model;
use pmfcl_ingest::{
    ColumnSelection, Files, Flow, Ingest, IngestError, Learning, choose_columns, summarize_again,
};
use pmfcl_read::{Column, Form, Options, ReadError, Wanted};

const ROWS: usize = 500;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Three tasks that take turns; categories that come up one after the other.
fn table() -> String {
    let mut text = "task,kind,x,y\n".to_owned();
    for i in 0..ROWS {
        let x = (i * 37 % 101) as f64 / 101.0;
        let kind = ["red", "green", "blue", "grey"][(i * i / 400) % (1 + i / 130).min(4)];
        let y = 3.0 * x + kind.len() as f64 + (i * 7919 % 13) as f64 / 100.0;
        text.push_str(&format!("t{},{kind},{x},{y}\n", i % 3));
    }
    text
}

fn files(paths: &[PathBuf], piece_rows: Option<usize>, threads: usize) -> Files {
    let options = Options { piece_rows, ..Options::default() };
    Files { paths: paths.to_vec(), options, threads }
}

fn selection() -> ColumnSelection {
    ColumnSelection {
        targets: vec!["y".to_owned()],
        reserved: vec!["task".to_owned()],
        ..ColumnSelection::default()
    }
}

/// A model of the tasks, and their names as they were told.
fn learned(files: &Files) -> (Model, Vec<String>) {
    let selection = selection();
    let schema = choose_columns(&files.first().unwrap(), &selection).unwrap().schema;
    let settings = Settings { ridge: Ridge::Fixed(0.01), ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let mut model = Model { schema, learner };
    let mut told = Vec::new();
    let learning = Learning {
        files,
        selection: &selection,
        task: Some("task"),
        name: "",
        weight: 1.0,
        reference: None,
        progress: &|_| {},
    };
    let mut ingest = Ingest::new(&model);
    assert_eq!(ingest.read(&model, &learning).unwrap().rows as usize, ROWS);
    assert!(!model.learner.names().any(|_| true), "reading does not change the model");
    while let Some(task) = ingest.next(&model).unwrap() {
        told.push(task.name().to_owned());
        task.insert(&mut model).unwrap();
    }
    (model, told)
}

fn coefficients(model: &Model) -> Vec<(String, f64)> {
    let theta = &model.learner.solution().unwrap().theta;
    let mut list: Vec<(String, f64)> =
        model.features().into_iter().zip(theta.column(0)[1..].iter().copied()).collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    list
}

#[test]
fn pieces_add_up_to_the_same_model() {
    let place = Place::new();
    let paths = [place.put("a.csv", &table())];
    let (whole, told) = learned(&files(&paths, None, 1));
    assert_eq!(told, ["t0", "t1", "t2"]);
    let expected = coefficients(&whole);
    assert_eq!(expected.len(), 5, "{expected:?}");
    for rows in [1, 7, 64] {
        for threads in [1, 2, 5] {
            let (model, names) = learned(&files(&paths, Some(rows), threads));
            assert_eq!(names, told);
            for (a, b) in coefficients(&model).iter().zip(&expected) {
                assert_eq!(a.0, b.0);
                assert!((a.1 - b.1).abs() < 1e-11, "{rows} rows: {a:?} and {b:?}");
            }
            // Threads change no bit.
            let (again, _) = learned(&files(&paths, Some(rows), 1));
            let bits = |m: &Model| -> Vec<u64> {
                m.learner.solution().unwrap().theta.cells().iter().map(|v| v.to_bits()).collect()
            };
            assert_eq!(bits(&model), bits(&again));
        }
    }
}

/// Three tasks that take turns: numbers to learn from, a count, and one of three classes.
fn counts_and_classes() -> String {
    let mut text = "task,u,v,count,class\n".to_owned();
    for i in 0..240_usize {
        let (u, v) = ((i * 37 % 101) as f64 / 101.0, (i * i % 89) as f64 / 89.0 - 0.5);
        let noise = (i * 7919 % 13) as f64 / 6.5 - 1.0;
        let count = (1.5 + 2.0 * u - v + noise).max(0.0).round();
        let class = ["low", "mid", "high"][((1.5 + u - v + 0.8 * noise).clamp(0.0, 2.9)) as usize];
        text.push_str(&format!("t{},{u},{v},{count},{class}\n", i % 3));
    }
    text
}

/// A model of the tasks in a file, and the same learned from rows in memory.
fn both_ways(problem: &Problem, files: &Files, text: &str) -> [Learner; 2] {
    let classes = problem.predicts_classes();
    let (target, other) = if classes { ("class", "count") } else { ("count", "class") };
    let selection = ColumnSelection {
        targets: vec![target.to_owned()],
        reserved: vec!["task".to_owned(), other.to_owned()],
        ..ColumnSelection::default()
    };
    let schema = choose_columns(&files.first().unwrap(), &selection).unwrap().schema;
    let empty = Learner::new(problem.clone(), Settings::default()).unwrap();
    let mut model = Model { schema, learner: empty.clone() };
    let (task, name, progress) = (Some("task"), "", &|_| {});
    let learning = Learning {
        files,
        selection: &selection,
        task,
        name,
        weight: 1.0,
        reference: None,
        progress,
    };
    let mut ingest = Ingest::new(&model);
    ingest.read(&model, &learning).unwrap();
    while let Some(task) = ingest.next(&model).unwrap() {
        task.insert(&mut model).unwrap();
    }
    let mut learner = empty;
    for task in ["t0", "t1", "t2"] {
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|cells| cells[0] == task)
            .collect();
        let number = |text: &&str| text.parse::<f64>().unwrap();
        let x: Vec<f64> = rows.iter().flat_map(|cells| cells[1..3].iter().map(number)).collect();
        let y: Vec<f64> = rows.iter().map(|cells| number(&cells[3])).collect();
        let labels = Labels::new(&rows.iter().map(|cells| cells[4]).collect::<Vec<_>>());
        let x = Rows::new(&x, 2).unwrap();
        let rows = if classes {
            TaskRows::new(x, &labels)
        } else {
            TaskRows::new(x, Rows::new(&y, 1).unwrap())
        };
        learner.learn(task, rows, 1.0).unwrap();
    }
    [model.learner, learner]
}

/// Whatever a loss asks of the rows, and however often.
#[test]
fn every_loss_learns_from_files_what_it_learns_from_rows() {
    let place = Place::new();
    let text = counts_and_classes();
    let paths = [place.put("a.csv", &text)];
    let classes = ClassList::Fixed(["high", "low", "mid"].map(str::to_owned).to_vec());
    let with = |loss: &str| Problem::parse(loss, Some(classes.clone())).unwrap();
    let values = ["squared", "huber", "huber:0.5", "poisson"];
    let mut problems: Vec<Problem> =
        values.iter().map(|loss| Problem::parse(loss, None).unwrap()).collect();
    problems.extend(["squared", "gaussian", "logistic"].map(with));
    problems.push(with("logistic").with_option("scheme", "sequential").unwrap());
    for problem in problems {
        let mut bits: Option<Vec<u64>> = None;
        for (rows, threads) in [(None, 1), (Some(7), 1), (Some(7), 2), (Some(7), 5)] {
            let [read, learned] = both_ways(&problem, &files(&paths, rows, threads), &text);
            assert_eq!(read.problem().name(), learned.problem().name());
            assert_eq!(read.classes(), learned.classes());
            let (a, b) = (read.parameters().unwrap().theta, learned.parameters().unwrap().theta);
            // Partial sums of pieces are added in another order than in memory.
            let apart = a.distance(&b) / b.norm();
            assert!(apart < 1e-8, "{problem}, pieces of {rows:?} rows: {apart:e}");
            for (one, other) in read.records().iter().zip(learned.records()) {
                assert_eq!((&one.name, &one.head.counts), (&other.name, &other.head.counts));
                assert_eq!(one.head.rows, other.head.rows);
            }
            if rows.is_some() {
                // Threads change no bit.
                let now: Vec<u64> = a.cells().iter().map(|v| v.to_bits()).collect();
                assert_eq!(bits.get_or_insert_with(|| now.clone()), &now, "{problem}");
            }
        }
    }
}

/// The value of `x` of every row, as the results come.
fn seen(files: &Files, stop: usize) -> Result<Vec<f64>, IngestError> {
    let flow = Flow {
        plan: &|_| Ok(vec![Wanted::new("x", Form::Number)]),
        work: &|_, batch| match &batch.columns[0] {
            Column::Numbers(values) => Ok(values.clone()),
            other => panic!("{other:?}"),
        },
        progress: &|_| {},
    };
    let mut all = Vec::new();
    files.run(&flow, |part| {
        all.extend(part.iter().copied());
        Ok(all.len() < stop)
    })?;
    Ok(all)
}

#[test]
fn results_come_in_order() {
    let place = Place::new();
    let text = |from: usize| {
        let rows: Vec<String> = (from..from + 300).map(|i| i.to_string()).collect();
        format!("x\n{}\n", rows.join("\n"))
    };
    let paths = [place.put("a.csv", &text(0)), place.put("b.csv", &text(300))];
    for threads in [1, 3, 8] {
        let all = seen(&files(&paths, Some(7), threads), usize::MAX).unwrap();
        assert_eq!(all.len(), 600);
        assert!(all.iter().enumerate().all(|(i, v)| *v as usize == i));
        // And they stop when enough is there.
        let some = seen(&files(&paths, Some(7), threads), 100).unwrap();
        assert_eq!(some.len(), 105);
    }
}

#[test]
fn the_first_error_is_the_one_told() {
    let place = Place::new();
    let mut rows: Vec<String> = (0..400).map(|i| i.to_string()).collect();
    "first".clone_into(&mut rows[200]);
    "second".clone_into(&mut rows[210]);
    let bad = place.put("bad.csv", &format!("x\n{}\n", rows.join("\n")));
    for threads in [1, 2, 8] {
        for _ in 0..5 {
            let error =
                seen(&files(std::slice::from_ref(&bad), Some(3), threads), usize::MAX).unwrap_err();
            match error {
                IngestError::Read(ReadError::WrongValue { place, value, .. }) => {
                    assert_eq!((place.row, value.as_str()), (201, "first"));
                }
                other => panic!("{other}"),
            }
        }
    }
}

#[test]
fn a_summary_made_again_is_that_of_the_task() {
    let place = Place::new();
    let (header, rows) = {
        let text = table();
        let (header, rows) = text.split_once('\n').unwrap();
        (header.to_owned(), rows.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let paths = [place.put("a.csv", &table())];
    let (model, _) = learned(&files(&paths, None, 2));
    let own: Vec<&String> = rows.iter().filter(|r| r.starts_with("t1,")).collect();
    let text = own.iter().fold(header + "\n", |text, row| text + row + "\n");
    let again = place.put("t1.csv", &text);
    let summary = summarize_again(&model, &files(&[again], None, 1), &selection()).unwrap();
    let kept = &model.learner.summaries().unwrap()[1];
    let theta = &model.learner.solution().unwrap().theta;
    let (a, b) = (summary.quadratic.loss(theta).unwrap(), kept.loss(theta).unwrap());
    assert!((a - b).abs() < 1e-12, "{a} and {b}");
    // Rows with a category the model has never met are not those of a task.
    let other = place.put("other.csv", "task,kind,x,y\nt1,pink,0.5,1\n");
    let error = summarize_again(&model, &files(&[other], None, 1), &selection()).unwrap_err();
    assert!(error.to_string().contains("'pink'"), "{error}");
}
