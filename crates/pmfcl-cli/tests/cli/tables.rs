//! Tables that go in and out: files are what their names say, rows stay where they are, and nothing that is no feature
//! becomes one unsaid.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::program::{Draw, Place, Run, Table};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::Schema;
use pmfcl_read::{Column, Form, Missing, Options, Source, Wanted};

const ENDINGS: [&str; 7] = ["csv", "csv.gz", "csv.zst", "parquet", "arrow", "feather", "jsonl"];

/// A model of numbers `m.pmf`, one of classes `c.pmf`, and the table `t.csv` both are asked about.
fn made() -> Place {
    let place = Place::new();
    let mut draw = Draw(3);
    let mut table = Table::new(&["x", "z", "y", "k"]);
    for _ in 0..80 {
        let (x, z) = (draw.unit() - 0.5, draw.unit());
        let y = 3.0 * x - z + 0.2 * draw.unit();
        // Names that every format has to quote.
        let k = if x > 0.1 { "a \"b\"; c" } else { "größer" };
        table.rows.push(vec![x.to_string(), z.to_string(), y.to_string(), k.to_owned()]);
    }
    place.put("t.csv", table.csv());
    place.ok("learn m.pmf t.csv --target y --exclude k");
    place.ok("learn c.pmf t.csv --target k --exclude y");
    place
}

fn listing(place: &Place) -> BTreeSet<String> {
    let entries = fs::read_dir(place.path("")).unwrap();
    entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The cells of a CSV text without line ends in its cells.
fn cells(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let records = reader.records().map(|r| r.unwrap());
    records.map(|r| r.iter().map(str::to_owned).collect()).collect()
}

/// What a reader that was there before the writer finds in a file: column by column and row by row, `None` where
/// a row has no value.
fn read(path: &Path, columns: &[(&str, Form)], rows: usize) -> Vec<Vec<Option<String>>> {
    let options = Options { missing: Missing::Drop, ..Options::default() };
    let source = Source::open(path, &options).unwrap();
    let names: Vec<&str> = source.fields().iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, columns.iter().map(|c| c.0).collect::<Vec<_>>(), "{}", path.display());
    // Column by column: rows that miss a value in one are left out.
    let one = |(name, form): &(&str, Form)| {
        let scan = source.scan(&[Wanted::new(*name, *form)]).unwrap();
        let (mut found, mut count) = (vec![None; rows], 0);
        while let Some(piece) = scan.next().unwrap() {
            count += piece.rows();
            let batch = scan.decode(piece).unwrap();
            for i in 0..batch.rows {
                found[batch.file_row(i) as usize] = Some(match &batch.columns[0] {
                    Column::Numbers(values) => values[i].to_string(),
                    Column::Texts(texts) => texts.names[texts.codes[i] as usize].clone(),
                    Column::Block { .. } => panic!("no blocks are written"),
                });
            }
        }
        assert_eq!(count, rows, "{}", path.display());
        found
    };
    columns.iter().map(one).collect()
}

/// As [`read`], of JSON lines.
fn read_lines(text: &str, columns: &[(&str, Form)]) -> Vec<Vec<Option<String>>> {
    let mut found = vec![Vec::new(); columns.len()];
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(row.as_object().unwrap().len(), columns.len());
        for ((name, form), found) in columns.iter().zip(&mut found) {
            found.push(match form {
                _ if row[name].is_null() => None,
                Form::Text => Some(row[name].as_str().unwrap().to_owned()),
                _ => Some(row[name].as_f64().unwrap().to_string()),
            });
        }
    }
    found
}

#[test]
fn predictions_are_the_same_in_every_format() {
    let place = made();
    // Some rows miss a value, the first and the last among them.
    let text = place.text("t.csv");
    let gap = |(i, line): (usize, &str)| match i {
        1 | 31 | 80 => line.replacen(line.split(',').next().unwrap(), "", 1),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().enumerate().map(gap).collect();
    place.put("gaps.csv", lines.join("\n"));
    let proba = ["k", "proba_a \"b\"; c", "proba_größer", "reason"];
    for (model, flags, columns) in [
        ("m", "", &["y", "reason"][..]),
        ("m", "--interval 0.8", &["y", "y_low", "y_high", "reason"]),
        ("c", "", &["k", "reason"]),
        ("c", "--proba", &proba),
    ] {
        for (table, empty) in [("t", &[][..]), ("gaps", &[0, 30, 79])] {
            let words = format!("predict {model}.pmf {table}.csv {flags} --missing drop");
            let csv = cells(&place.ok(&words));
            assert_eq!(csv[0], columns);
            assert_eq!(csv.len(), 81);
            let text = |name: &str| ["k", "reason"].contains(&name);
            let form = |name: &str| if text(name) { Form::Text } else { Form::Number };
            let typed: Vec<(&str, Form)> = columns.iter().map(|n| (*n, form(n))).collect();
            let expected: Vec<Vec<Option<String>>> = (0..columns.len())
                .map(|c| {
                    csv[1..].iter().map(|r| Some(r[c].clone()).filter(|v| !v.is_empty())).collect()
                })
                .collect();
            // A row has a prediction or a reason.
            let (reasons, predicted) = expected.split_last().unwrap();
            let with: Vec<usize> = (0..80).filter(|&i| reasons[i].is_some()).collect();
            assert_eq!(with, empty, "{words}");
            for column in predicted {
                let without: Vec<usize> = (0..80).filter(|&i| column[i].is_none()).collect();
                assert_eq!(without, empty, "{words}");
            }
            for ending in ENDINGS {
                let name = format!("out.{ending}");
                let run = place.run(&format!("{words} -o {name}"));
                assert_eq!(run.code, Some(0), "{}", run.stderr);
                let found = if ending == "jsonl" {
                    read_lines(&place.text(&name), &typed)
                } else {
                    read(&place.path(&name), &typed, 80)
                };
                assert_eq!(found, expected, "{words} -o {name}");
                fs::remove_file(place.path(&name)).unwrap();
            }
        }
    }
}

/// More rows than a batch and a row group hold; and without any row.
#[test]
fn long_and_empty_tables_are_whole() {
    let place = made();
    let mut draw = Draw(9);
    let mut table = Table::new(&["x", "z"]);
    table.rows.resize_with(50_000, || vec![draw.unit().to_string(), draw.unit().to_string()]);
    place.put("long.csv", table.csv());
    table.rows.clear();
    place.put("none.csv", table.csv());
    let columns = [("y", Form::Number)];
    for (name, rows) in [("long", 50_000), ("none", 0)] {
        let csv = cells(&place.ok(&format!("predict m.pmf {name}.csv --threads 3")));
        // Small numbers are written with an exponent; the same number is expected, not the same text.
        let number = |cell: &String| cell.parse::<f64>().unwrap().to_string();
        let expected: Vec<Option<String>> = csv[1..].iter().map(|r| Some(number(&r[0]))).collect();
        assert_eq!(expected.len(), rows);
        for ending in ["csv.gz", "csv.zst", "parquet", "arrow"] {
            let out = format!("{name}-out.{ending}");
            place.ok(&format!("predict m.pmf {name}.csv -o {out}"));
            assert!(read(&place.path(&out), &columns, rows) == [expected.clone()], "{out}");
        }
    }
}

#[test]
fn a_file_whose_name_does_not_fit_is_wrong_usage() {
    let place = made();
    let before = listing(&place);
    for (words, told) in [
        // Before anything is read: there are no such models or tables.
        (
            "predict no.pmf no.csv -o p.xlsx",
            ".csv, .csv.gz, .csv.zst, .parquet, .arrow, .feather or",
        ),
        ("predict no.pmf no.csv -o p", ".parquet"),
        ("predict no.pmf no.csv -o p.csv.bz2", ".parquet"),
        ("predict no.pmf no.csv -o p.parquet.gz", ".parquet"),
        ("report no.pmf -o r.pdf", ".html"),
        ("front no.pmf a b -o f.pdf", ".svg, .png or .csv"),
        ("export no.pmf -o m.pkl", ".onnx, .safetensors or .json"),
    ] {
        let run = place.run(words);
        assert_eq!(run.code, Some(2), "{words}\n{}", run.stderr);
        assert!(run.stderr.contains("the name must end in"), "{words}\n{}", run.stderr);
        assert!(run.stderr.contains(told), "{words}\n{}", run.stderr);
    }
    assert_eq!(before, listing(&place));
    place.ok("predict m.pmf t.csv -o P.Parquet");
    assert_eq!(&place.bytes("P.Parquet")[..4], b"PAR1");
}

#[test]
fn a_file_that_is_not_there_is_told_once() {
    let place = made();
    for words in ["predict m.pmf none.csv", "learn n.pmf none.parquet --target y"] {
        let run = place.run(words);
        assert_eq!(run.code, Some(1), "{words}");
        assert_eq!(run.stderr.matches("os error 2").count(), 1, "{}", run.stderr);
    }
}

#[test]
fn a_prediction_that_fails_leaves_no_file() {
    let place = made();
    let text = place.text("t.csv");
    let (head, last) = text.trim_end().rsplit_once('\n').unwrap();
    let rest: Vec<String> = (0..40_000).map(|_| last.to_owned()).collect();
    place.put("bad.csv", format!("{head}\n{}\noops,1,2,3\n", rest.join("\n")));
    place.put("old.parquet", "what was there");
    let before = listing(&place);
    for ending in ENDINGS {
        for name in [format!("p.{ending}"), "old.parquet".to_owned(), format!("no/dir/p.{ending}")]
        {
            let run = place.run(&format!("predict m.pmf bad.csv -o {name}"));
            assert_eq!(run.code, Some(1), "{name}");
            assert_eq!(before, listing(&place), "{name}");
        }
    }
    assert_eq!(place.text("old.parquet"), "what was there");
}

#[test]
fn rows_that_miss_a_value_keep_their_place() {
    let place = Place::new();
    // The prediction of a row tells its number: y = 2·row. So many rows that there are several batches.
    let (rows, every) = (60_000, 7);
    let mut table = Table::new(&["x", "w", "y"]);
    for i in 0..rows {
        let w = (i * i % 11).to_string();
        table.rows.push(vec![i.to_string(), w, (2 * i).to_string()]);
    }
    place.put("whole.csv", table.csv());
    place.ok("learn m.pmf whole.csv --target y --ridge 0");
    for (i, row) in table.rows.iter_mut().enumerate() {
        // The target plays no part, present or not.
        row[2].clear();
        if i % every == 3 {
            let at = usize::from(i % 2 == 0);
            ["", "NaN", "inf", "null"][i % 4].clone_into(&mut row[at]);
        }
    }
    place.put("gaps.csv", table.csv());
    for words in ["", "--threads 5"] {
        let run = place.run(&format!("predict m.pmf gaps.csv --missing drop {words}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let lines: Vec<&str> = run.stdout.lines().collect();
        assert_eq!((lines.len(), lines[0]), (rows + 1, "y,reason"));
        for (i, line) in lines[1..].iter().enumerate() {
            if i % every == 3 {
                let column = if i % 2 == 0 { "w" } else { "x" };
                assert_eq!(*line, format!(",{column} is missing"), "row {i}");
            } else {
                let value = line.strip_suffix(',').unwrap();
                assert!(
                    (value.parse::<f64>().unwrap() - 2.0 * i as f64).abs() < 1e-3,
                    "row {i}: {line}"
                );
            }
        }
        // Rows 3, 10, 17, … of 0 to 59,999, counted from 1.
        assert_eq!(
            run.stderr,
            "8,571 rows miss a value and got an empty prediction: gaps.csv row 4, 11, 18, 25, 32, …\n"
        );
    }
    // Rows of several files are named with their file; JSON has null.
    place.put("one.csv", "x,w\n1,1\n,2\n");
    place.put("two.csv", "x,w\nNA,1\n2,4\n3,\n");
    let run = place.run("predict m.pmf one.csv two.csv --missing drop --json");
    let found: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    let empty: Vec<bool> =
        found["predictions"].as_array().unwrap().iter().map(|row| row[0].is_null()).collect();
    assert_eq!(empty, [false, true, true, false, true]);
    assert_eq!(
        run.stderr,
        "3 rows miss a value and got an empty prediction: one.csv row 2; two.csv row 1, 3\n"
    );
    // A table in which every row misses one.
    place.put("three.csv", "x,w\n,1\n");
    let text = place.ok("predict m.pmf three.csv --missing drop");
    assert_eq!(text, "y,reason\n,x is missing\n");
}

/// A table as pandas writes it: what it says of its index is in the metadata.
fn of_pandas(index: &str, entry: &str, seed: u64) -> RecordBatch {
    let mut draw = Draw(seed);
    let x: Vec<f64> = (0..40).map(|_| draw.unit()).collect();
    let k: Vec<&str> = x.iter().map(|x| if *x > 0.5 { "p" } else { "q" }).collect();
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(Float64Array::from(x))),
        ("k", Arc::new(StringArray::from(k))),
        (index, Arc::new(Int64Array::from_iter_values((0..40).map(|i| i * 37 % 40)))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let pandas =
        format!(r#"{{"index_columns": [{entry}], "columns": [], "pandas_version": "3.1.1"}}"#);
    let metadata = HashMap::from([("pandas".to_owned(), pandas)]);
    let schema: Schema = batch.schema().as_ref().clone().with_metadata(metadata);
    RecordBatch::try_new(Arc::new(schema), batch.columns().to_vec()).unwrap()
}

fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut out, batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

fn arrow(batch: &RecordBatch) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut out, &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    out
}

fn features(place: &Place, model: &str) -> Vec<String> {
    let list = place.json(&format!("show {model}"))["features"].clone();
    list.as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_index_of_a_pandas_table_is_no_feature() {
    let place = Place::new();
    let range = r#"{"kind": "range", "name": null, "start": 0, "stop": 40, "step": 1}"#;
    for (i, (index, entry, used)) in [
        ("__index_level_0__", r#""__index_level_0__""#, &["x"][..]),
        ("customer", r#""customer""#, &["x"]),
        // A range is no column, and a column of that name is one of data.
        ("customer", range, &["x", "customer"]),
        ("customer", "", &["x", "customer"]),
    ]
    .into_iter()
    .enumerate()
    {
        let batch = of_pandas(index, entry, 1);
        for (ending, bytes) in
            [("parquet", parquet(&batch)), ("arrow", arrow(&batch)), ("feather", arrow(&batch))]
        {
            let name = format!("t{i}.{ending}");
            place.put(&name, bytes);
            let run = place.run(&format!("learn {i}-{ending}.pmf {name} --target k"));
            assert_eq!(run.code, Some(0), "{}", run.stderr);
            assert_eq!(features(&place, &format!("{i}-{ending}.pmf")), used);
            let told = format!("column '{index}' is the index of a pandas table");
            assert_eq!(run.stderr.contains(&told), used.len() == 1, "{}", run.stderr);
        }
    }
    // Later tables: with the index, without it, and of a kind that says nothing of it.
    place.put("more.parquet", parquet(&of_pandas("customer", r#""customer""#, 2)));
    place.put("bare.csv", "x,k\n0.1,p\n0.7,q\n");
    place.put("told.csv", "x,k,customer\n0.1,p,1\n0.7,q,2\n");
    place.ok("learn 1-parquet.pmf more.parquet bare.csv told.csv");
    place.ok("score 1-parquet.pmf more.parquet");
    place.put("first.csv", "x,k\n0.1,p\n0.7,q\n0.2,p\n");
    place.ok("learn other.pmf first.csv --target k");
    place.ok("learn other.pmf more.parquet");
    assert_eq!(features(&place, "other.pmf"), ["x"]);
    // Whoever names the column has it.
    for (flags, used) in [
        ("--target k --features x,customer", &["x", "customer"][..]),
        ("--target customer --features x", &["x"]),
        ("--target customer", &["x", "k=p", "k=q"]),
        ("--target x --exclude k --task-column customer", &[]),
        ("--target x --exclude k --as-category customer", &["customer=0"]),
    ] {
        place.put("once.parquet", parquet(&of_pandas("customer", r#""customer""#, 3)));
        let run = place.run(&format!("learn named.pmf once.parquet {flags}"));
        if used.is_empty() {
            // The index was the last column left.
            assert_eq!(run.code, Some(1), "{flags}");
            assert!(run.stderr.contains("no column is left to be a feature"), "{}", run.stderr);
            continue;
        }
        assert_eq!(run.code, Some(0), "{flags}: {}", run.stderr);
        let mut found = features(&place, "named.pmf");
        if found.len() < 10 {
            found.sort_by_key(|name| used.iter().position(|u| u == name));
        }
        assert_eq!(found[..used.len()], *used, "{flags}");
        fs::remove_file(place.path("named.pmf")).unwrap();
    }
}

#[track_caller]
fn assert_refusal(run: &Run, told: &[&str]) {
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    for part in told {
        assert!(run.stderr.contains(part), "no `{part}` in\n{}", run.stderr);
    }
}

/// German and French tables: without a word, every number would be a class or a category of its own.
#[test]
fn numbers_with_a_comma_are_no_text() {
    let place = Place::new();
    place.put("target.csv", "x;y\n1;10,0\n2;100,0\n3;20,5\n");
    place.put("quoted.csv", "x,y\n1,\"10,0\"\n2,\"1.100,5\"\n3,7\n4,NA\n");
    place.put("feature.tsv", "x\tw\ty\n\n1\t7\t1\n2\t1 234,5\t2\n3\t,5\t3\n");
    let mut table = Table::new(&["w", "y"]);
    for i in 0..200 {
        let w = if i == 150 { "?".to_owned() } else { format!("{},{}", i % 7, i % 10) };
        table.rows.push(vec![w, i.to_string()]);
    }
    place.put("text.parquet", table.parquet());
    place.put("text.arrow", table.arrow());
    for (words, told) in [
        ("target.csv --target y", ["target.csv, row 1 (line 2), column 'y'", "'10,0'"]),
        ("target.csv --target y --loss gaussian", ["row 1 (line 2), column 'y'", "'10,0'"]),
        ("target.csv --target x", ["row 1 (line 2), column 'y'", "'10,0'"]),
        ("target.csv --target x --basis poly:2", ["row 1 (line 2), column 'y'", "'10,0'"]),
        ("quoted.csv --target y", ["quoted.csv, row 1 (line 2), column 'y'", "'10,0'"]),
        ("feature.tsv --target y", ["feature.tsv, row 2 (line 4), column 'w'", "'1 234,5'"]),
        ("text.parquet --target y", ["text.parquet, row 1, column 'w'", "'0,0'"]),
        ("text.arrow --target y", ["text.arrow, row 1, column 'w'", "'0,0'"]),
        ("text.arrow --target w", ["text.arrow, row 1, column 'w'", "'0,0'"]),
    ] {
        let run = place.run(&format!("learn m.pmf {words}"));
        assert_refusal(&run, &[told[0], told[1], "--decimal ,"]);
        assert!(!place.path("m.pmf").exists(), "{words}");
    }
    // Columns that are not used do not matter, and categories that are named as such are taken as they are.
    place.put("three.csv", "x;w;y\n1;0,5;1\n2;1,5;2\n3;0,5;4\n");
    place.ok("learn without.pmf three.csv --target y --exclude w");
    place.ok("learn with.pmf three.csv --target y --as-category w");
    assert_eq!(features(&place, "with.pmf"), ["x", "w=0,5", "w=1,5"]);
    place.put("four.csv", "x;w;y\n1;2,5;1\n2;1,5;2\n");
    place.ok("learn with.pmf four.csv");
    place.put("five.csv", "x;k\n1;1,2\n2;3,4\n3;1,2\n");
    place.ok("learn classes.pmf five.csv --target k --as-category k");
    place.put("six.csv", "x;k\n1;1,2\n2;5,6\n");
    place.ok("learn classes.pmf six.csv");
    place.ok("score classes.pmf six.csv");
    // Text with commas in it is text.
    place.put("towns.csv", "town;y\nBern, BE;1\nGenf, GE;2\n1,5;3\n");
    place.ok("learn towns.pmf towns.csv --target y");
    assert_eq!(features(&place, "towns.pmf"), ["town=Bern, BE", "town=Genf, GE", "town=1,5"]);
    // A model that is there already: numbers, and classes that are numbers.
    place.put("numbers.csv", "x,w,y\n1,0.5,1\n2,1.5,2\n3,0.5,4\n");
    place.ok("learn numbers.pmf numbers.csv --target y");
    place.put("labels.csv", "x,k\n1,0\n2,1\n3,0\n4,1\n");
    place.ok("learn labels.pmf labels.csv --target k --loss gaussian");
    place.ok("learn log.pmf labels.csv --target k --loss logistic");
    place.put("comma.csv", "x;k\n1;0,0\n2;1,0\n");
    let told = ["row 1 (line 2)", "'0,5'", "decimal point"];
    for command in ["learn", "predict", "score"] {
        assert_refusal(&place.run(&format!("{command} numbers.pmf three.csv")), &told);
    }
    for model in ["labels.pmf", "log.pmf"] {
        let before = place.bytes(model);
        for command in ["learn", "score"] {
            let run = place.run(&format!("{command} {model} comma.csv"));
            assert_refusal(&run, &["comma.csv, row 1 (line 2), column 'k'", "'0,0'"]);
        }
        assert!(before == place.bytes(model));
    }
}
