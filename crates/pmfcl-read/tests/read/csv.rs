//! CSV from files, bytes and pipes.

use std::io::Write;

use pmfcl_read::{
    Batch, Column, Field, Form, Kind, Missing, Options, ReadError, Source, Texts, Wanted,
};
use proptest::prelude::*;

fn open(text: &str, options: &Options) -> Result<Source, ReadError> {
    Source::from_bytes("t.csv", text.as_bytes().to_vec(), options)
}

fn batches(source: &Source, wanted: &[Wanted]) -> Result<Vec<Batch>, ReadError> {
    let scan = source.scan(wanted)?;
    let mut out = Vec::new();
    while let Some(piece) = scan.next()? {
        out.push(scan.decode(piece)?);
    }
    Ok(out)
}

/// Every column wanted as text, joined over the pieces.
fn words(source: &Source, wanted: &[Wanted]) -> Result<Vec<Vec<String>>, ReadError> {
    let mut out = vec![Vec::new(); wanted.len()];
    for batch in batches(source, wanted)? {
        for (to, column) in out.iter_mut().zip(&batch.columns) {
            match column {
                Column::Texts(t) => {
                    to.extend(t.codes.iter().map(|&c| t.names[c as usize].clone()));
                }
                Column::Numbers(v) => to.extend(v.iter().map(f64::to_string)),
                Column::Block { .. } => unreachable!("no blocks in CSV"),
            }
        }
    }
    Ok(out)
}

fn numbers(text: &str, column: &str, options: &Options) -> Result<Vec<f64>, ReadError> {
    let source = open(text, options)?;
    let mut out = Vec::new();
    for batch in batches(&source, &[Wanted::new(column, Form::Number)])? {
        match &batch.columns[0] {
            Column::Numbers(v) => out.extend_from_slice(v),
            other => panic!("numbers were wanted, not {other:?}"),
        }
    }
    Ok(out)
}

#[test]
fn columns_are_named_and_guessed() {
    let text = "id;day;ok;town;gap\n1;2024-01-31;true;\"Bern; CH\";\n2;2024-02-01;FALSE;Wien;NA\n";
    let source = open(text, &Options::default()).unwrap();
    let field = |name: &str, kind| Field { name: name.into(), kind };
    assert_eq!(
        source.fields(),
        [
            field("id", Kind::Number),
            field("day", Kind::Date),
            field("ok", Kind::Boolean),
            field("town", Kind::Text),
            field("gap", Kind::Number),
        ]
    );
    let wanted = [
        Wanted::new("town", Form::Text),
        Wanted::new("ok", Form::Number),
        Wanted::new("day", Form::Date),
        Wanted::new("id", Form::Text),
        Wanted::new("id", Form::Number),
    ];
    let batch = &batches(&source, &wanted).unwrap()[0];
    let texts = |names: [&str; 2]| {
        Column::Texts(Texts { names: names.map(String::from).into(), codes: vec![0, 1] })
    };
    assert_eq!(
        batch.columns,
        [
            texts(["Bern; CH", "Wien"]),
            Column::Numbers(vec![1.0, 0.0].into()),
            Column::Numbers(vec![19753.0, 19754.0].into()),
            texts(["1", "2"]),
            Column::Numbers(vec![1.0, 2.0].into()),
        ]
    );
}

#[test]
fn line_ends_marks_and_blank_lines() {
    let two = Options::default();
    for text in [
        "a,b\n1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        "a,b\r\n1,2\r\n3,4\r\n",
        "a,b\r\n1,2\r\n3,4",
        "\u{feff}a,b\n1,2\n3,4\n\n\r\n\n",
        "\n\na,b\n\n1,2\n\r\n\n3,4\n",
        "a\tb\n1\t2\n3\t4\n",
        "a|b\n1|2\n3|4\n",
        "\"a\",\"b\"\n\"1\",\"2\"\n\"3\",4\n",
        " a , b \n 1 , 2\n3, 4 \n",
    ] {
        assert_eq!(numbers(text, "b", &two).unwrap(), [2.0, 4.0], "{text:?}");
        let one = Options { piece_rows: Some(1), ..two.clone() };
        assert_eq!(numbers(text, "a", &one).unwrap(), [1.0, 3.0], "{text:?}");
    }
    let bare = Options { header: false, ..two.clone() };
    assert_eq!(numbers("1,2\n3,4\n", "x2", &bare).unwrap(), [2.0, 4.0]);
    let colon = Options { delimiter: Some(b':'), ..two };
    assert_eq!(numbers("a,b:c\n1:2\n", "c", &colon).unwrap(), [2.0]);
    let tsv = Source::from_bytes("t.tsv", b"a,b\tc\n1\t2\n".to_vec(), &Options::default());
    assert_eq!(tsv.unwrap().fields()[1].name, "c");
}

#[test]
fn bad_inputs_say_what_is_wrong() {
    let default = Options::default();
    let many = "a,b\n".to_string() + &"1,2\n".repeat(1500);
    let number = |text: &str| numbers(text, "b", &default).unwrap_err().to_string();
    let long = format!("a,b\n1,{}\n", "x".repeat(90));
    for (text, message) in [
        ("", "t.csv: is empty"),
        ("\n\r\n \n", "t.csv: is empty"),
        ("a,b,a\n", "t.csv: two columns are named 'a'; rename one of them"),
        ("a,c\n1,2\n", "t.csv: there is no column 'b' (did you mean 'a'?); there are: a, c"),
        ("aa,c3po\n1,2\n", "t.csv: there is no column 'b'; there are: aa, c3po"),
        ("a,b\n1,2\n3\n", "t.csv, row 2 (line 3): has 1 fields where 2 are expected"),
        ("a,b\n1,2\n\n3,4,5\n", "t.csv, row 2 (line 4): has 3 fields where 2 are expected"),
        (
            "a,b\n1,2\n3,\n",
            "t.csv, row 2 (line 3), column 'b': the value is missing or not finite; leave such rows \
             out with --missing drop, or learn them with --missing mean or indicator",
        ),
        (
            "a,b\n\"x\ny\",-INF\n",
            "t.csv, row 1 (line 2), column 'b': '-INF' is missing or not finite; leave such rows out \
             with --missing drop, or learn them with --missing mean or indicator",
        ),
        (
            "a,b\n\"x\ny\",1\n2,x\n",
            "t.csv, row 2 (line 4), column 'b': 'x' is not a number (--na WORD reads a word as a missing value)",
        ),
        ("a,b\n1,2,\n", "t.csv, row 1 (line 2): has 3 fields where 2 are expected"),
        (
            "a,b\n1,\"2\n3,4\n",
            "t.csv, row 1 (line 2): a quoted field does not end; look for a quote without its partner",
        ),
        (
            "a,b\n1,\"2\"3\n",
            "t.csv, row 1 (line 2): text follows a closing quote; a quote inside a quoted field must \
             be doubled",
        ),
        ("a,b\n1,2024-01-31\n", "t.csv: column 'b' holds dates, not numbers; ask for it as dates"),
        (
            "a,b\n1,true\n2,0\n",
            "t.csv, row 1 (line 2), column 'b': 'true' is not a number (--na WORD reads a word as a missing value)",
        ),
        (
            &(many.clone() + "1,two\n"),
            "t.csv, row 1501 (line 1502), column 'b': 'two' is not a number (--na WORD reads a word as a missing value)",
        ),
        (
            &long,
            "t.csv, row 1 (line 2), column 'b': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…' is not a number (--na WORD reads a word as a missing value)",
        ),
    ] {
        assert_eq!(number(text), message, "{text:?}");
    }
    let text = Source::from_bytes("t.csv", b"a\nb\xff\n".to_vec(), &default).unwrap();
    assert_eq!(
        words(&text, &[Wanted::new("a", Form::Text)]).unwrap_err().to_string(),
        "t.csv, row 1 (line 2), column 'a': is not UTF-8 text; convert the file to UTF-8"
    );
    let header = Source::from_bytes("t.csv", b"a,\xff\n1,2\n".to_vec(), &default).err().unwrap();
    assert_eq!(
        header.to_string(),
        "t.csv, row 0 (line 1), column '2': is not UTF-8 text; convert the file to UTF-8"
    );
    let day = open("a\n1\n", &default).unwrap();
    assert_eq!(
        words(&day, &[Wanted::new("a", Form::Date)]).unwrap_err().to_string(),
        "t.csv, row 1 (line 2), column 'a': '1' is not a date like 2024-01-31 or 2024-01-31T12:30; --dates COLUMN:FORMAT reads others"
    );
    for delimiter in [b'"', b'\n', b'5', b'.'] {
        let options = Options { delimiter: Some(delimiter), ..default.clone() };
        assert!(matches!(open("a\n", &options), Err(ReadError::Delimiter)));
    }
}

#[test]
fn rows_with_gaps_are_left_out_and_counted() {
    let options = Options { missing: Missing::Drop, piece_rows: Some(4), ..Options::default() };
    let source = open("a,t\n1,x\n,y\n3,\n4,z\nNaN,z\n6,z\n", &options).unwrap();
    let wanted = [Wanted::new("t", Form::Text), Wanted::new("a", Form::Number)];
    let found = batches(&source, &wanted).unwrap();
    assert_eq!(found.iter().map(|b| (b.rows, b.dropped)).collect::<Vec<_>>(), [(2, 2), (1, 1)]);
    assert_eq!(found[0].columns[1], Column::Numbers(vec![1.0, 4.0].into()));
    let texts = Texts { names: vec!["x".into(), "z".into()], codes: vec![0, 1] };
    assert_eq!(found[0].columns[0], Column::Texts(texts));
    assert_eq!([found[0].file_row(1), found[1].first_row, found[1].file_row(0)], [3, 4, 5]);
    // A gap in a column that is not wanted does not matter.
    assert_eq!(words(&source, &[Wanted::new("t", Form::Text)]).unwrap()[0].len(), 5);
}

#[test]
fn packed_files_and_pipes() {
    let mut text = "a,b\n".to_string();
    (0..20_000).for_each(|i| text += &format!("{i},{}\n", i % 7));
    let dir = tempfile::tempdir().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&text.as_bytes()[..1000]).unwrap();
    let mut packed = gz.finish().unwrap();
    // A second member, as `cat a.gz b.gz` makes them.
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&text.as_bytes()[1000..]).unwrap();
    packed.extend(gz.finish().unwrap());
    let zst = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (name, bytes) in
        [("t.csv", text.as_bytes()), ("t.csv.gz", &packed), ("t.csv.zst", &zst), ("u.csv", &packed)]
    {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let source = Source::open(&path, &Options::default()).unwrap();
        assert_eq!(source.bytes(), Some(bytes.len() as u64));
        assert_eq!(source.label(), name);
        for _ in 0..2 {
            let scan = source.scan(&[Wanted::new("a", Form::Number)]).unwrap();
            let (mut rows, mut passed) = (0, 0);
            while let Some(piece) = scan.next().unwrap() {
                passed += piece.bytes;
                let batch = scan.decode(piece).unwrap();
                let Column::Numbers(values) = &batch.columns[0] else { panic!("numbers") };
                assert!(values.iter().enumerate().all(|(i, v)| *v as usize == rows + i));
                rows += batch.rows;
            }
            assert_eq!((rows, passed), (20_000, bytes.len() as u64));
        }
    }
    let cut =
        Source::from_bytes("t.csv.gz", packed[..packed.len() - 100].to_vec(), &Options::default());
    let error = match cut {
        Err(e) => e,
        Ok(source) => batches(&source, &[Wanted::new("a", Form::Number)]).unwrap_err(),
    };
    assert!(error.to_string().starts_with("t.csv.gz: reading broke off: "), "{error}");

    let pipe = Source::from_reader("-", Box::new(std::io::Cursor::new(text)), &Options::default())
        .unwrap();
    assert_eq!(pipe.bytes(), None);
    assert_eq!(words(&pipe, &[Wanted::new("b", Form::Text)]).unwrap()[0].len(), 20_000);
    let again = pipe.scan(&[]).err().unwrap();
    assert_eq!(again.to_string(), "-: can be read once only; save it to a file to read it again");
}

#[test]
fn two_threads_give_the_batches_of_one() {
    let mut text = "a,b,t\n".to_string();
    (0..200_000).for_each(|i| text += &format!("{},{}e-3,w{}\n", f64::from(i) / 7.0, i, i % 100));
    let source = open(&text, &Options::default()).unwrap();
    let wanted = [
        Wanted::new("t", Form::Text),
        Wanted::new("b", Form::Number),
        Wanted::new("a", Form::Number),
    ];
    let one = batches(&source, &wanted).unwrap();
    assert!(one.len() > 1);
    let scan = source.scan(&wanted).unwrap();
    let mut two: Vec<Batch> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            while let Some(piece) = scan.next().unwrap() {
                mine.push(scan.decode(piece).unwrap());
            }
            mine
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().flat_map(|w| w.join().unwrap()).collect()
    });
    two.sort_by_key(|b| b.index);
    assert_eq!(one, two);
}

/// A table of numbers and words, and how to write it.
fn table() -> impl Strategy<Value = (Vec<(f64, String)>, Vec<u8>, bool)> {
    let number = prop_oneof![
        any::<f64>().prop_filter("finite", |v| v.is_finite()),
        (-1000..1000_i32).prop_map(f64::from),
        (0_u64..1 << 60).prop_map(|n| n as f64 / 1e9),
    ];
    let word = "[a-z ,;\n\r\"é]{0,6}".prop_map(|w| format!("w{w}"));
    let rows = proptest::collection::vec((number, word), 1..40);
    (rows, proptest::collection::vec(any::<u8>(), 40), any::<bool>())
}

proptest! {
    #[test]
    fn what_was_written_is_read((rows, style, crlf) in table()) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("n,t{end}");
        let mut plain = format!("n{end}");
        for ((number, word), style) in rows.iter().zip(&style) {
            let digits = match style % 3 { 0 => format!("{number}"), 1 => format!("{number:e}"), _ => format!("{number:?}") };
            let must = word.contains(['"', ',', '\n', '\r']);
            let word = if must || style & 8 != 0 { format!("\"{}\"", word.replace('"', "\"\"")) } else { word.clone() };
            let cell = if style & 16 != 0 { format!("\"{digits}\"") } else { digits.clone() };
            text += &format!("{cell},{word}{end}");
            plain += &format!("{digits}{end}");
        }
        if style[0] & 32 != 0 {
            text.truncate(text.len() - end.len());
        }
        let wanted = [Wanted::new("t", Form::Text), Wanted::new("n", Form::Number)];
        for piece_rows in [Some(1), Some(2), Some(7), None] {
            let options = Options { piece_rows, ..Options::default() };
            let source = open(&text, &options).unwrap();
            let found = batches(&source, &wanted).unwrap();
            let mut row = 0;
            for (index, batch) in found.iter().enumerate() {
                prop_assert_eq!((batch.index, batch.first_row), (index, row as u64));
                let (Column::Texts(texts), Column::Numbers(values)) = (&batch.columns[0], &batch.columns[1]) else {
                    panic!("text and numbers")
                };
                for i in 0..batch.rows {
                    prop_assert_eq!(&texts.names[texts.codes[i] as usize], &rows[row].1);
                    prop_assert_eq!(values[i].to_bits(), rows[row].0.to_bits());
                    row += 1;
                }
            }
            prop_assert_eq!(row, rows.len());
            // The same numbers without a quote in the file.
            let fast = numbers(&plain, "n", &options).unwrap();
            let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&fast), rows.iter().map(|r| r.0.to_bits()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_text_is_read_or_refused(bytes in proptest::collection::vec(prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(b'1'), any::<u8>()], 0..200)) {
        for piece_rows in [Some(1), None] {
            let options = Options { piece_rows, missing: Missing::Drop, ..Options::default() };
            if let Ok(source) = Source::from_bytes("x.csv", bytes.clone(), &options) {
                for form in [Form::Number, Form::Text, Form::Date] {
                    let wanted: Vec<Wanted> = source.fields().iter().map(|f| Wanted::new(&f.name, form)).collect();
                    let _ = batches(&source, &wanted);
                }
            }
        }
    }
}
