//! Pieces of files come back in order and add up to the same model, however small they are and whoever reads them.

use std::path::PathBuf;

use pmfcl::{Learner, Ridge, Settings};
use pmfcl_file::{Learned, Model};
use pmfcl_ingest::{
    Files, Flow, IngestError, Learning, Wish, choose_columns, learn_tasks, summarize_again,
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

fn wish() -> Wish {
    Wish { targets: vec!["y".to_owned()], reserved: vec!["task".to_owned()], ..Wish::default() }
}

/// A model of the tasks, and their names as they were told.
fn learned(files: &Files) -> (Model, Vec<String>) {
    let wish = wish();
    let schema = choose_columns(&files.first().unwrap(), &wish).unwrap().schema;
    let settings = Settings { ridge: Ridge::Fixed(0.01), ..Settings::default() };
    let learner = Learner::new(settings).unwrap();
    let mut model = Model { schema, learned: Learned::Regression(Box::new(learner)) };
    let mut told = Vec::new();
    let learning = Learning {
        files,
        wish: &wish,
        task: Some("task"),
        name: "",
        weight: 1.0,
        progress: &|_| {},
    };
    let read = learn_tasks(&mut model, &learning, &mut |_| Ok(()), &mut |_, name, _| {
        told.push(name.to_owned());
        Ok(())
    });
    assert_eq!(read.unwrap().rows as usize, ROWS);
    (model, told)
}

fn coefficients(model: &Model) -> Vec<(String, f64)> {
    let theta = &model.learner().model().unwrap().theta;
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
                m.learner().model().unwrap().theta.cells().iter().map(|v| v.to_bits()).collect()
            };
            assert_eq!(bits(&model), bits(&again));
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
    let summary = summarize_again(&model, &files(&[again], None, 1), &wish()).unwrap();
    let kept = &model.learner().summaries().unwrap()[1];
    let theta = &model.learner().model().unwrap().theta;
    let (a, b) = (summary.loss(theta).unwrap(), kept.loss(theta).unwrap());
    assert!((a - b).abs() < 1e-12, "{a} and {b}");
    // Rows with a category the model has never met are not those of a task.
    let other = place.put("other.csv", "task,kind,x,y\nt1,pink,0.5,1\n");
    let error = summarize_again(&model, &files(&[other], None, 1), &wish()).unwrap_err();
    assert!(error.to_string().contains("'pink'"), "{error}");
}
