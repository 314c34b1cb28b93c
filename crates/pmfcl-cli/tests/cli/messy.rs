//! Messy files, and what becomes of each: learned as it is meant, or refused with one line that says where and what to do.
//! `tests/messy/table.py` makes `docs/messy.md` of this list. With `PMFCL_MESSY` set to a folder, the test leaves the files there.

use std::path::{Path, PathBuf};

use crate::program::Place;

/// What becomes of a file.
enum Outcome {
    /// Learned: so many samples.
    Rows(u32),
    /// Refused: the message has these words.
    Refused(&'static [&'static str]),
}

use Outcome::{Refused, Rows};

/// What is messy about a file, its content, the options it is learned with, and what becomes of it.
type Case = (&'static str, &'static [u8], &'static str, Outcome);

/// Rows of a table that is in order, to be spoilt.
macro_rules! plain {
    () => {
        "x,k,y\n1,a,1\n2,b,2.5\n3,a,3\n4,b,4.5\n"
    };
}

fn cases() -> Vec<Case> {
    vec![
        ("in order", plain!().as_bytes(), "", Rows(4)),
        // Encodings and line ends.
        ("UTF-8 with a byte order mark", b"\xef\xbb\xbfx,y\n1,1\n2,2\n3,4\n", "", Rows(3)),
        ("UTF-16", b"\xff\xfex\0,\0y\0\n\0", "", Refused(&["UTF-8"])),
        (
            "Latin-1 in a text column",
            b"x,k,y\n1,K\xf6ln,1\n2,Ulm,2\n",
            "",
            Refused(&["row 1", "'k'", "UTF-8"]),
        ),
        ("Latin-1 in the header", b"x,\xf6,y\n1,1,1\n", "", Refused(&["UTF-8"])),
        ("line ends of Windows", b"x,y\r\n1,1\r\n2,2\r\n3,4\r\n", "", Rows(3)),
        ("no line end at the end", b"x,y\n1,1\n2,2\n3,4", "", Rows(3)),
        ("blank lines between rows", b"\n\nx,y\n1,1\n\n\n2,2\n3,4\n\n", "", Rows(3)),
        (
            "zero bytes",
            b"x,y\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,9\n\0,2\n",
            "",
            Refused(&["row 10", "'x'"]),
        ),
        ("empty file", b"", "", Refused(&["is empty"])),
        ("a header and no rows", b"x,y\n", "", Refused(&["no rows"])),
        // Quotes and delimiters.
        (
            "quotes around everything",
            b"\"x\",\"y\"\n\"1\",\"1\"\n\"2\",\"2\"\n\"3\",\"4\"\n",
            "",
            Rows(3),
        ),
        ("a delimiter inside quotes", b"k,y\n\"a,b\",1\nc,2\n\"a,b\",3\n", "", Rows(3)),
        ("a line end inside quotes", b"k,y\n\"a\nb\",1\nc,2\n\"a\nb\",3\n", "", Rows(3)),
        ("a quote that is not closed", b"k,y\n\"a,1\nc,2\n", "", Refused(&["quote"])),
        ("text behind a quote", b"k,y\n\"a\"b,1\nc,2\n", "", Refused(&["row 1"])),
        ("semicolons", b"x;y\n1;1\n2;2\n3;4\n", "", Rows(3)),
        ("tabs in a .csv", b"x\ty\n1\t1\n2\t2\n3\t4\n", "", Rows(3)),
        ("bars", b"x|y\n1|1\n2|2\n3|4\n", "", Rows(3)),
        ("blanks around cells", b"x, y\n 1 , 1\n2 ,2\n 3, 4\n", "", Rows(3)),
        // Shapes.
        ("a row too short", b"x,w,y\n1,1,1\n2,2\n", "", Refused(&["row 2", "2 fields where 3"])),
        ("a row too long", b"x,y\n1,1\n2,2,2\n", "", Refused(&["row 2", "3 fields where 2"])),
        ("two columns of one name", b"x,x,y\n1,1,1\n", "", Refused(&["two columns are named 'x'"])),
        ("a column without a name", b"x,,y\n1,5,1\n2,6,2\n3,8,4\n", "", Rows(3)),
        ("no header", b"1,1\n2,2\n3,4\n", "--no-header --target x2", Rows(3)),
        (
            "no such target",
            plain!().as_bytes(),
            "--target z",
            Refused(&["no column 'z'", "x, k, y"]),
        ),
        // Numbers.
        (
            "decimal commas in the target",
            b"x;y\n1;1,0\n2;2,5\n3;4,0\n",
            "",
            Refused(&["'1,0'", "--decimal ,"]),
        ),
        ("decimal commas, said so", b"x;y\n1;1,0\n2;2,5\n3;4,0\n", "--decimal ,", Rows(3)),
        (
            "decimal commas in quotes",
            b"x,y\n1,\"1,0\"\n2,\"2,5\"\n3,\"4,0\"\n",
            "--decimal ,",
            Rows(3),
        ),
        (
            "a decimal point where commas are said",
            b"x;y\n1;1,0\n2;2\n3;3\n4;4\n5;5\n6;6\n7;7\n8;8\n9;9\n10;2.5\n",
            "--decimal ,",
            Refused(&["'y'"]),
        ),
        ("thousands with a comma", b"x;y\n1;1,000.5\n2;2,000\n3;4\n", "--thousands ,", Rows(3)),
        (
            "thousands with a point",
            b"x;y\n1;1.000,5\n2;2.000\n3;4\n",
            "--decimal , --thousands .",
            Rows(3),
        ),
        (
            "thousands in wrong groups",
            b"x;y\n1;1\n2;2\n3;3\n4;4\n5;5\n6;6\n7;7\n8;8\n9;9\n10;1,00.5\n",
            "--thousands ,",
            Refused(&["'y'"]),
        ),
        ("huge and tiny numbers", b"x,y\n1e300,1\n2e-300,2\n3,4\n", "", Rows(3)),
        (
            "numbers beyond double precision",
            b"x,y\n1e999,1\n2,2\n",
            "",
            Refused(&["row 1", "'1e999'", "--missing drop"]),
        ),
        ("signs and exponents", b"x,y\n+1,1\n-2e0,2\n.5,4\n", "", Rows(3)),
        ("percent signs", b"x,y\n1%,1\n2%,2\n3%,4\n", "", Rows(3)),
        (
            "currency among numbers",
            b"x,y\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,9\n$10,3\n",
            "",
            Refused(&["row 10", "'$10'", "--na"]),
        ),
        ("hexadecimal numbers", b"x,y\n0x10,1\n0x11,2\n0x10,4\n", "", Rows(3)),
        // Missing values.
        ("an empty cell", b"x,y\n1,1\n,2\n3,4\n", "", Refused(&["row 2", "'x'", "--missing drop"])),
        ("an empty cell, dropped", b"x,y\n1,1\n,2\n3,4\n", "--missing drop", Rows(2)),
        ("an empty cell, as the mean", b"x,y\n1,1\n,2\n3,4\n", "--missing mean", Rows(3)),
        ("an empty category", b"k,y\na,1\n,2\nb,4\n", "--missing indicator", Rows(3)),
        (
            "NA, NaN, null, none, inf",
            b"x,y\n1,1\nNA,1\nnan,1\nNULL,1\nNone,1\ninf,1\nn/a,1\n3,4\n",
            "--missing drop",
            Rows(2),
        ),
        (
            "words for missing among numbers",
            b"x,y\n1,1\n2,2\n3,3\n4,4\n5,5\n6,6\n7,7\n8,8\n9,9\nn/k,3\n",
            "",
            Refused(&["row 10", "'n/k'", "--na n/k"]),
        ),
        (
            "words for missing, said so",
            b"x,y\n1,1\n2,2\n-,3\n3,4\n",
            "--na=- --missing drop",
            Rows(3),
        ),
        ("-999 for missing", b"x,y\n1,1\n-999,2\n3,4\n", "--na=-999 --missing drop", Rows(2)),
        ("a missing target", b"x,y\n1,1\n2,\n3,4\n", "", Refused(&["row 2", "'y'"])),
        ("a missing category", b"k,y\na,1\n,2\nb,4\n", "", Refused(&["row 2", "'k'"])),
        (
            "only missing values",
            b"x,y\n,1\n,2\n",
            "--missing drop",
            Refused(&["no rows", "2 were dropped"]),
        ),
        // Kinds.
        ("a word late among numbers", b"x,y\n1,1\n2,2\n3,3\n", "--schema s.toml", Rows(3)),
        ("true and false", b"x,y\ntrue,1\nFALSE,2\nTrue,4\n", "", Rows(3)),
        ("yes and no are categories", b"x,y\nyes,1\nno,2\nyes,4\n", "", Rows(3)),
        (
            "dates",
            b"d,y\n2024-01-31,1\n2024-02-01,2\n2024-02-03,4\n",
            "",
            Refused(&["'d'", "--dates d"]),
        ),
        (
            "dates, said so",
            b"d,y\n2024-01-31,1\n2024-02-01,2\n2024-02-03,4\n",
            "--dates d",
            Rows(3),
        ),
        (
            "dates with time zones",
            b"d,y\n2024-01-31T12:00+01:00,1\n2024-02-01T00:00Z,2\n2024-02-03T00:00-0500,4\n",
            "--dates d",
            Rows(3),
        ),
        (
            "German dates",
            b"d,y\n31.01.2024,1\n01.02.2024,2\n03.02.2024,4\n",
            "",
            Refused(&["'31.01.2024'", "--dates d:%d.%m.%Y"]),
        ),
        (
            "German dates, said so",
            b"d,y\n31.01.2024,1\n01.02.2024,2\n03.02.2024,4\n",
            "--dates d:%d.%m.%Y",
            Rows(3),
        ),
        (
            "dates that could be read two ways",
            b"d,y\n01/02/2024,1\n03/04/2024,2\n",
            "",
            Refused(&["%d/%m/%Y", "%m/%d/%Y"]),
        ),
        (
            "no such day",
            b"d,y\n30.02.2024,1\n01.02.2024,2\n",
            "--dates d:%d.%m.%Y",
            Refused(&["row 1", "'30.02.2024'"]),
        ),
        ("a text target", b"x,y\n1,low\n2,high\n3,high\n4,low\n", "", Rows(4)),
        ("a constant column", b"x,c,y\n1,5,1\n2,5,2\n3,5,4\n", "", Rows(3)),
        ("the same row twice", b"x,y\n1,1\n1,1\n3,4\n", "", Rows(3)),
        ("capital and small letters", b"k,y\nA,1\na,2\nA,4\n", "", Rows(3)),
        ("emoji and right-to-left text", "k,y\n😀,1\nשלום,2\n😀,4\n".as_bytes(), "", Rows(3)),
    ]
}

#[test]
fn every_messy_file_is_learned_as_meant_or_refused_with_a_place_and_advice() {
    let place = Place::new();
    place.put("s.toml", "[columns]\nx = \"number\"\ny = \"target\"\n");
    let cases = cases();
    assert!(cases.len() >= 60, "{}", cases.len());
    let mut wrong = Vec::new();
    for (at, (what, bytes, options, outcome)) in cases.iter().enumerate() {
        let (file, model) = (format!("f{at}.csv"), format!("m{at}.pmf"));
        place.put(&file, bytes);
        let target = if options.contains("--target") || options.contains("--schema") {
            ""
        } else {
            "--target y"
        };
        let run = place.run(&format!("learn {model} {file} {target} {options}"));
        match outcome {
            Rows(rows) => {
                let found = run.code == Some(0)
                    && place.json(&format!("show {model}"))["samples"] == f64::from(*rows);
                if !found {
                    wrong.push(format!("{what}: not {rows} rows: {}{}", run.stdout, run.stderr));
                }
            }
            Refused(told) => {
                let one = run.code == Some(1) && run.stderr.lines().count() == 1;
                if !one || told.iter().any(|part| !run.stderr.contains(part)) {
                    wrong.push(format!("{what}: not {told:?}: {}{}", run.stdout, run.stderr));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if let Some(folder) = std::env::var_os("PMFCL_MESSY") {
        leave(&PathBuf::from(folder), &cases);
    }
}

/// Leaves the files and what became of each, for `tests/messy/table.py`.
fn leave(folder: &Path, cases: &[Case]) {
    std::fs::create_dir_all(folder).unwrap();
    let mut list = Vec::new();
    for (at, (what, bytes, options, outcome)) in cases.iter().enumerate() {
        let file = format!("f{at}.csv");
        std::fs::write(folder.join(&file), bytes).unwrap();
        let outcome = match outcome {
            Rows(rows) => format!("{rows} rows"),
            Refused(told) => format!("refused: {}", told.join(" … ")),
        };
        list.push(serde_json::json!({ "what": what, "file": file, "options": options, "outcome": outcome }));
    }
    std::fs::write(folder.join("cases.json"), serde_json::Value::from(list).to_string()).unwrap();
}
