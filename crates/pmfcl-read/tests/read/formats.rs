//! Parquet, Arrow, NumPy and IDX: round trips, pieces, threads, and what broken files are told.

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float16Array, Float32Array, Float64Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StringViewArray, TimestampMillisecondArray, UInt8Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use pmfcl_read::{Batch, Column, Form, Kind, Missing, Options, ReadError, Source, Wanted};

const ROWS: usize = 100;

/// A batch with a column of every type that can be used, and one that cannot.
fn table() -> RecordBatch {
    let range = || 0..100_i32;
    let mut blocks = FixedSizeListBuilder::new(Float64Builder::new(), 3);
    for i in range() {
        blocks.values().append_slice(&[f64::from(i), f64::from(i) + 0.25, -f64::from(i)]);
        blocks.append(true);
    }
    let word = |i: i32| format!("w{}", i % 5);
    let dictionary: DictionaryArray<Int32Type> =
        range().map(word).collect::<Vec<_>>().iter().map(|w| Some(w.as_str())).collect();
    let decimal = Decimal128Array::from_iter_values(range().map(|i| i128::from(i) * 5))
        .with_precision_and_scale(10, 2)
        .unwrap();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("f64", Arc::new(Float64Array::from_iter_values(range().map(|i| f64::from(i) / 3.0)))),
        ("f32", Arc::new(Float32Array::from_iter_values(range().map(|i| i as f32 / 4.0)))),
        (
            "f16",
            Arc::new(Float16Array::from_iter_values(
                range().map(|i| half::f16::from_f32(i as f32)),
            )),
        ),
        ("i64", Arc::new(Int64Array::from_iter_values(range().map(|i| i64::from(i) - 50)))),
        ("u8", Arc::new(UInt8Array::from_iter_values(range().map(|i| i as u8)))),
        ("bool", Arc::new(range().map(|i| Some(i % 3 == 0)).collect::<BooleanArray>())),
        ("decimal", Arc::new(decimal)),
        ("block", Arc::new(blocks.finish())),
        ("day", Arc::new(Date32Array::from_iter_values(range()))),
        (
            "moment",
            Arc::new(TimestampMillisecondArray::from_iter_values(
                range().map(|i| i64::from(i) * 43_200_000),
            )),
        ),
        ("utf8", Arc::new(StringArray::from_iter_values(range().map(word)))),
        ("large", Arc::new(LargeStringArray::from_iter_values(range().map(word)))),
        ("view", Arc::new(StringViewArray::from_iter_values(range().map(word)))),
        ("dictionary", Arc::new(dictionary)),
        ("bytes", Arc::new(BinaryArray::from_iter_values(range().map(|i| [i as u8])))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet_bytes(batch: &RecordBatch, compression: Compression, group: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(group))
        .set_data_page_row_count_limit(11)
        .set_write_batch_size(4)
        // Given up after some rows, as writers do with dictionaries that grow too large.
        .set_dictionary_page_size_limit(if group == 40 { 100 } else { 1 << 20 })
        .build();
    let mut out = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut out, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    out
}

fn ipc_bytes(batch: &RecordBatch, stream: bool, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut out = Vec::new();
    let parts = [batch.slice(0, 30), batch.slice(30, 0), batch.slice(30, ROWS - 30)];
    if stream {
        let mut writer =
            StreamWriter::try_new_with_options(&mut out, &batch.schema(), options).unwrap();
        parts.iter().for_each(|p| writer.write(p).unwrap());
        writer.finish().unwrap();
    } else {
        let mut writer =
            FileWriter::try_new_with_options(&mut out, &batch.schema(), options).unwrap();
        parts.iter().for_each(|p| writer.write(p).unwrap());
        writer.finish().unwrap();
    }
    out
}

/// Threads share the columns, and what nobody asks for is not read.
#[test]
fn profiles_do_not_depend_on_threads_and_leave_out_what_is_turned_down() {
    let options = Options { missing: Missing::Keep, piece_rows: Some(1000), ..Options::default() };
    let bytes = parquet_bytes(&table(), Compression::SNAPPY, 40);
    let source = Source::from_bytes("a.parquet", bytes, &options).unwrap();
    let all = source.profiles(&options, 1, &|_| true).unwrap();
    assert_eq!(all.len(), source.fields().len());
    for threads in [2, 3, 50] {
        assert_eq!(source.profiles(&options, threads, &|_| true).unwrap(), all);
    }
    let some = source.profiles(&options, 2, &|field| field.kind != Kind::Number).unwrap();
    for (profile, whole) in some.iter().zip(&all) {
        if profile.kind == Kind::Number {
            assert_eq!((profile.rows, profile.range, profile.counting), (0, None, false));
            assert!(whole.range.is_some() && whole.rows > 0, "{}", whole.name);
        } else {
            assert_eq!(profile, whole);
        }
    }
}

fn batches(source: &Source, wanted: &[Wanted]) -> Result<Vec<Batch>, ReadError> {
    let scan = source.scan(wanted)?;
    let mut out = Vec::new();
    let mut passed = 0;
    while let Some(piece) = scan.next()? {
        passed += piece.bytes;
        out.push(scan.decode(piece)?);
    }
    assert_eq!(Some(passed), source.bytes());
    Ok(out)
}

/// The cells of every column as text, row after row, joined over the batches.
fn cells(batches: &[Batch]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut row = 0;
    for (index, batch) in batches.iter().enumerate() {
        assert_eq!((batch.index, batch.first_row), (index, row));
        row += batch.rows as u64 + batch.dropped;
        for i in 0..batch.rows {
            let cell = |column: &Column| match column {
                Column::Numbers(values) => values[i].to_string(),
                Column::Texts(texts) => texts.names[texts.codes[i] as usize].clone(),
                Column::Block { width, cells } => {
                    format!("{:?}", &cells[i * width..(i + 1) * width])
                }
            };
            out.push(batch.columns.iter().map(cell).collect());
        }
    }
    out
}

fn everything() -> Vec<Wanted> {
    let wanted =
        |names: &[&str], form| names.iter().map(|n| Wanted::new(*n, form)).collect::<Vec<_>>();
    let numbers = ["block", "decimal", "bool", "u8", "i64", "f16", "f32", "f64"];
    let mut all = wanted(&numbers, Form::Number);
    all.extend(wanted(
        &["utf8", "large", "view", "dictionary", "i64", "bool", "day", "moment"],
        Form::Text,
    ));
    all.extend(wanted(&["day", "moment"], Form::Date));
    all
}

fn expected(i: usize) -> Vec<String> {
    let x = i as f64;
    let word = format!("w{}", i % 5);
    let day = format!(
        "1970-{:02}-{:02}",
        [1, 2, 3, 4][usize::from(i >= 31) + usize::from(i >= 59) + usize::from(i >= 90)],
        [i + 1, i.wrapping_sub(30), i.wrapping_sub(58), i.wrapping_sub(89)]
            [usize::from(i >= 31) + usize::from(i >= 59) + usize::from(i >= 90)]
    );
    let half = i / 2;
    let moment_day = if half < 31 {
        format!("1970-01-{:02}", half + 1)
    } else {
        format!("1970-02-{:02}", half - 30)
    };
    let moment = if i.is_multiple_of(2) { moment_day } else { moment_day + "T12:00:00" };
    vec![
        format!("{:?}", [x, x + 0.25, -x]),
        (x * 5.0 / 100.0).to_string(),
        u8::from(i.is_multiple_of(3)).to_string(),
        i.to_string(),
        (x - 50.0).to_string(),
        i.to_string(),
        (x / 4.0).to_string(),
        (x / 3.0).to_string(),
        word.clone(),
        word.clone(),
        word.clone(),
        word,
        (x - 50.0).to_string(),
        i.is_multiple_of(3).to_string(),
        day,
        moment,
        i.to_string(),
        (x / 2.0).to_string(),
    ]
}

/// Every way to write the table.
fn written() -> Vec<(&'static str, Vec<u8>)> {
    let table = table();
    vec![
        ("a.parquet", parquet_bytes(&table, Compression::UNCOMPRESSED, 1000)),
        ("b.parquet", parquet_bytes(&table, Compression::SNAPPY, 37)),
        (
            "c.parquet",
            parquet_bytes(&table, Compression::ZSTD(parquet::basic::ZstdLevel::default()), 40),
        ),
        ("d.parquet", parquet_bytes(&table, Compression::LZ4_RAW, 100)),
        ("a.arrow", ipc_bytes(&table, false, None)),
        ("b.feather", ipc_bytes(&table, false, Some(CompressionType::LZ4_FRAME))),
        ("c.arrow", ipc_bytes(&table, true, Some(CompressionType::ZSTD))),
        ("d.arrow", ipc_bytes(&table, true, None)),
    ]
}

#[test]
fn every_type_comes_back_in_pieces_of_any_size() {
    let whole: Vec<Vec<String>> = (0..ROWS).map(expected).collect();
    for (name, bytes) in written() {
        for piece_rows in [Some(1), Some(2), Some(7), Some(1_000_000), None] {
            let options = Options { piece_rows, ..Options::default() };
            let source = Source::from_bytes(name, bytes.clone(), &options).unwrap();
            assert_eq!(source.rows(), Some(ROWS as u64));
            let kind = |n: &str| source.fields().iter().find(|f| f.name == n).unwrap().kind.clone();
            assert_eq!(kind("block"), Kind::Block { width: 3 });
            assert_eq!(kind("dictionary"), Kind::Text);
            assert_eq!(kind("moment"), Kind::Date);
            assert_eq!(kind("bytes"), Kind::Other("Binary".into()));
            let found = cells(&batches(&source, &everything()).unwrap());
            assert_eq!(found.len(), ROWS, "{name}");
            for (i, (found, expected)) in found.iter().zip(&whole).enumerate() {
                assert_eq!(found, expected, "{name}, row {i}");
            }
        }
    }
}

#[test]
fn pieces_may_be_decoded_in_any_order_and_on_two_threads() {
    for (name, bytes) in written() {
        let options = Options { piece_rows: Some(7), ..Options::default() };
        let source = Source::from_bytes(name, bytes, &options).unwrap();
        let one = batches(&source, &everything()).unwrap();
        let scan = source.scan(&everything()).unwrap();
        let mut pieces = Vec::new();
        while let Some(piece) = scan.next().unwrap() {
            pieces.push(piece);
        }
        let mut back: Vec<Batch> =
            pieces.into_iter().rev().map(|p| scan.decode(p).unwrap()).collect();
        back.reverse();
        assert_eq!(one, back, "{name}");
        let scan = source.scan(&everything()).unwrap();
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
        assert_eq!(one, two, "{name}");
    }
}

#[test]
fn nulls_and_infinities_are_missing() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "n",
            Arc::new(Float64Array::from(vec![
                Some(1.0),
                None,
                Some(f64::NAN),
                Some(4.0),
                Some(5.0),
            ])),
        ),
        ("t", Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("c"), None, Some("a")]))),
    ];
    let table = RecordBatch::try_from_iter(columns).unwrap();
    let bytes = parquet_bytes(&table, Compression::SNAPPY, 100);
    let wanted = [Wanted::new("n", Form::Number), Wanted::new("t", Form::Text)];
    let refuse = Source::from_bytes("n.parquet", bytes.clone(), &Options::default()).unwrap();
    assert_eq!(
        batches(&refuse, &wanted).unwrap_err().to_string(),
        "n.parquet, row 2, column 'n': the value is missing or not finite; leave such rows out with \
         --missing drop, or learn them with --missing mean or indicator"
    );
    let options = Options { missing: Missing::Drop, ..Options::default() };
    let drop = Source::from_bytes("n.parquet", bytes, &options).unwrap();
    let found = batches(&drop, &wanted).unwrap();
    assert_eq!((found[0].rows, found[0].dropped), (2, 3));
    assert_eq!(cells(&found), [["1", "a"], ["5", "a"]]);
    assert_eq!(found[0].file_row(1), 4);
}

/// An `.npy` file.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(data);
    out
}

/// A zip of files, packed or not.
fn zip(files: &[(&str, Vec<u8>)], pack: bool) -> Vec<u8> {
    let (mut out, mut table) = (Vec::new(), Vec::new());
    for (name, whole) in files {
        let data = if pack {
            let mut packer =
                flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(whole).unwrap();
            packer.finish().unwrap()
        } else {
            whole.clone()
        };
        let mut common = vec![20, 0, 0, 0, if pack { 8 } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend((data.len() as u32).to_le_bytes());
        common.extend((whole.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let at = out.len() as u32;
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(data);
        table.extend(b"PK\x01\x02\x14\x00");
        table.extend(&common);
        table.extend([0; 10]);
        table.extend(at.to_le_bytes());
        table.extend(name.as_bytes());
    }
    let at = out.len() as u32;
    out.extend(&table);
    out.extend(b"PK\x05\x06\x00\x00\x00\x00");
    out.extend([(files.len() as u16).to_le_bytes(); 2].concat());
    out.extend((table.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

/// A small number in some type.
type Spell = fn(u8) -> Vec<u8>;

#[test]
fn numpy_arrays_of_every_type_and_order() {
    // The 2-D array [[1, 2, 3], [4, 5, 6]] in each type, row by row and column by column.
    let by_row: [u8; 6] = [1, 2, 3, 4, 5, 6];
    let by_column: [u8; 6] = [1, 4, 2, 5, 3, 6];
    let types: [(&str, Spell); 14] = [
        ("|u1", |v| vec![v]),
        ("|i1", |v| vec![v]),
        ("<u2", |v| u16::from(v).to_le_bytes().into()),
        (">i2", |v| i16::from(v).to_be_bytes().into()),
        ("<u4", |v| u32::from(v).to_le_bytes().into()),
        (">i4", |v| i32::from(v).to_be_bytes().into()),
        (">u8", |v| u64::from(v).to_be_bytes().into()),
        ("<i8", |v| i64::from(v).to_le_bytes().into()),
        ("<f2", |v| half::f16::from(v).to_le_bytes().into()),
        (">f2", |v| half::f16::from(v).to_be_bytes().into()),
        ("<f4", |v| f32::from(v).to_le_bytes().into()),
        (">f4", |v| f32::from(v).to_be_bytes().into()),
        ("<f8", |v| f64::from(v).to_le_bytes().into()),
        (">f8", |v| f64::from(v).to_be_bytes().into()),
    ];
    let wanted = ["x3", "x1", "x2"].map(|n| Wanted::new(n, Form::Number));
    for (name, write) in types {
        for (fortran, values) in [(false, by_row), (true, by_column)] {
            let data: Vec<u8> = values.iter().flat_map(|&v| write(v)).collect();
            for piece_rows in [Some(1), None] {
                let options = Options { piece_rows, ..Options::default() };
                let source =
                    Source::from_bytes("a.npy", npy(name, fortran, "(2, 3)", &data), &options)
                        .unwrap();
                let found = cells(&batches(&source, &wanted).unwrap());
                assert_eq!(found, [["3", "1", "2"], ["6", "4", "5"]], "{name} {fortran}");
            }
        }
    }
    let source =
        Source::from_bytes("b.npy", npy("|b1", false, "(3,)", &[1, 0, 1]), &Options::default())
            .unwrap();
    assert_eq!(source.fields()[0].kind, Kind::Boolean);
    let wanted = [Wanted::new("x1", Form::Number), Wanted::new("x1", Form::Text)];
    assert_eq!(
        cells(&batches(&source, &wanted).unwrap()),
        [["1", "true"], ["0", "false"], ["1", "true"]]
    );
}

#[test]
fn numpy_zips_stored_and_packed() {
    let y: Vec<u8> = [7.5_f64, 8.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    let files = [
        ("x.npy", npy("|u1", false, "(2, 3)", &[1, 2, 3, 4, 5, 6])),
        ("y.npy", npy("<f8", false, "(2,)", &y)),
        ("names.npy", npy("<U1", false, "(2,)", b"a\0\0\0b\0\0\0")),
        ("note.npy", npy("<f8", false, "()", &[0; 8])),
    ];
    for pack in [false, true] {
        let source = Source::from_bytes("a.npz", zip(&files, pack), &Options::default()).unwrap();
        let kinds: Vec<String> =
            source.fields().iter().map(|f| format!("{}: {}", f.name, f.kind)).collect();
        assert_eq!(
            kinds,
            [
                "x: blocks of 3 numbers",
                "y: numbers",
                "names: values of type <U1",
                "note: values of type scalar"
            ]
        );
        let wanted = [Wanted::new("y", Form::Number), Wanted::new("x", Form::Number)];
        let found = cells(&batches(&source, &wanted).unwrap());
        assert_eq!(found, [["7.5", "[1.0, 2.0, 3.0]"], ["8.5", "[4.0, 5.0, 6.0]"]]);
    }
}

#[test]
fn images_bring_their_labels() {
    let dir = tempfile::tempdir().unwrap();
    let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2][..], &[1, 2, 3, 255]].concat();
    let labels = [0, 0, 8, 1, 0, 0, 0, 2, 9, 7];
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&images).unwrap();
    let path = dir.path().join("train-images-idx3-ubyte.gz");
    std::fs::write(&path, gz.finish().unwrap()).unwrap();
    let alone = Source::open(&path, &Options::default()).unwrap();
    assert_eq!(alone.fields().len(), 1);
    std::fs::write(dir.path().join("train-labels-idx1-ubyte"), labels).unwrap();
    let source = Source::open(&path, &Options::default()).unwrap();
    let wanted = [Wanted::new("label", Form::Number), Wanted::new("pixels", Form::Number)];
    let found = cells(&batches(&source, &wanted).unwrap());
    assert_eq!(found, [["9", "[1.0, 2.0]"], ["7", "[3.0, 255.0]"]]);
    std::fs::write(dir.path().join("train-labels-idx1-ubyte"), [0, 0, 8, 1, 0, 0, 0, 1, 9])
        .unwrap();
    assert_eq!(
        Source::open(&path, &Options::default()).err().unwrap().to_string(),
        "train-images-idx3-ubyte.gz: not a readable IDX file: it has 2 images and \
         train-labels-idx1-ubyte has 1 labels"
    );
}

#[test]
fn broken_files_are_told_what_is_wrong() {
    let parquet = parquet_bytes(&table(), Compression::SNAPPY, 100);
    let arrow = ipc_bytes(&table(), false, None);
    let stream = ipc_bytes(&table(), true, None);
    let far = npy("<f8", false, "(99999999999999999, 9)", &[0; 8]);
    let unequal = zip(
        &[
            ("a.npy", npy("|u1", false, "(1,)", &[1])),
            ("b.npy", npy("|u1", false, "(2,)", &[1, 2])),
        ],
        false,
    );
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "a.xls",
            vec![1],
            "a.xls: unknown kind of file; the name must end in .csv or .tsv (also .gz, .zst), .parquet, .arrow, .feather, .npy, .npz or -ubyte",
        ),
        ("a.parquet", vec![], "a.parquet: is empty"),
        (
            "a.parquet",
            b"a,b\n1,2\n".to_vec(),
            "a.parquet: not a readable Parquet file: it does not start with PAR1",
        ),
        (
            "a.parquet",
            parquet[..parquet.len() - 9].to_vec(),
            "a.parquet: not a readable Parquet file: its end is missing; the file was cut off",
        ),
        (
            "a.parquet.gz",
            vec![0x1f, 0x8b, 8, 0],
            "a.parquet.gz: Parquet inside a compressed file cannot be read; unpack it first",
        ),
        (
            "a.arrow",
            arrow[..arrow.len() - 9].to_vec(),
            "a.arrow: not a readable Arrow file: its end is missing; the file was cut off",
        ),
        (
            "a.arrow",
            stream[..stream.len() - 99].to_vec(),
            "a.arrow: not a readable Arrow file: it was cut off",
        ),
        (
            "a.arrow",
            b"a,b\n1,2\n".to_vec(),
            "a.arrow: not a readable Arrow file: it does not look like Arrow, or it was cut off",
        ),
        (
            "a.npy",
            b"a,b\n1,2\n3,4\n".to_vec(),
            "a.npy: not a readable NumPy file: it does not start with \\x93NUMPY",
        ),
        (
            "a.npy",
            npy("<f8", false, "(2,)", &[0; 15]),
            "a.npy: not a readable NumPy file: it is shorter than its shape says; the file was cut off",
        ),
        (
            "a.npy",
            far,
            "a.npy: not a readable NumPy file: it is shorter than its shape says; the file was cut off",
        ),
        (
            "a.npy",
            npy("|O", false, "(2,)", &[0; 16]),
            "a.npy: not a readable NumPy file: its values are of type |O, not numbers",
        ),
        (
            "a.npy",
            npy("<f8", false, "(1, 1, 1)", &[0; 8]),
            "a.npy: not a readable NumPy file: it has 3 dimensions; 1 or 2 are wanted",
        ),
        (
            "a.npz",
            b"nothing".to_vec(),
            "a.npz: not a readable NumPy zip file: it is not a zip file, or it was cut off",
        ),
        (
            "a.npz",
            unequal,
            "a.npz: not a readable NumPy zip file: array 'b' has 2 rows and array 'a' has 1",
        ),
        (
            "a-ubyte",
            vec![1, 2, 3, 4, 5],
            "a-ubyte: not a readable IDX file: it does not start like an IDX file",
        ),
        (
            "a-ubyte",
            vec![0, 0, 8, 1, 0, 0, 0, 3, 1],
            "a-ubyte: not a readable IDX file: it is shorter than its shape says; the file was cut off",
        ),
    ];
    for (name, bytes, message) in cases {
        let error = Source::from_bytes(name, bytes, &Options::default()).err();
        assert_eq!(error.map(|e| e.to_string()).as_deref(), Some(message));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("folder.csv");
    std::fs::create_dir(&path).unwrap();
    let error =
        |path: &std::path::Path| Source::open(path, &Options::default()).err().unwrap().to_string();
    assert_eq!(error(&path), "folder.csv: is a folder; name a file in it");
    let gone = error(&dir.path().join("gone.csv"));
    assert!(gone.starts_with("gone.csv: cannot be opened: No such file"), "{gone}");
    let source = Source::from_bytes("a.parquet", parquet, &Options::default()).unwrap();
    let ask = |name: &str, form| source.scan(&[Wanted::new(name, form)]).err().unwrap().to_string();
    assert_eq!(
        ask("bytes", Form::Number),
        "a.parquet: column 'bytes' holds values of type Binary, which cannot be read as numbers"
    );
    assert_eq!(
        ask("day", Form::Number),
        "a.parquet: column 'day' holds dates, not numbers; ask for it as dates"
    );
    assert_eq!(
        ask("f64", Form::Date),
        "a.parquet: column 'f64' holds numbers, which cannot be read as dates"
    );
    assert_eq!(
        ask("momnet", Form::Date),
        "a.parquet: there is no column 'momnet' (did you mean 'moment'?); there are: f64, f32, f16, i64, u8, bool, decimal, block, day, moment, utf8, large, … (15 in all)"
    );
    let words = batches(&source, &[Wanted::new("utf8", Form::Number)]).unwrap_err();
    assert_eq!(
        words.to_string(),
        "a.parquet, row 1, column 'utf8': 'w0' is not a number (--na WORD reads a word as a missing value)"
    );
}

/// Files with some bytes changed are read or refused, never worse.
#[test]
fn damage_is_survived() {
    let mut files = written();
    files.push(("a.npy", npy("<f8", false, "(2, 1)", &[0; 16])));
    files.push(("a.npz", zip(&[("a.npy", npy("|u1", false, "(1,)", &[1]))], true)));
    files.push(("a-ubyte", vec![0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3]));
    let mut seed = 1_u64;
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let options = Options { missing: Missing::Drop, ..Options::default() };
    for (name, bytes) in files {
        for round in 0..60 {
            let mut broken = bytes.clone();
            for _ in 0..=random(4) {
                let at = random(broken.len());
                broken[at] = random(256) as u8;
            }
            if round % 4 == 0 {
                broken.truncate(random(broken.len()));
            }
            let Ok(source) = Source::from_bytes(name, broken, &options) else { continue };
            for field in source.fields() {
                for form in [Form::Number, Form::Text] {
                    let Ok(scan) = source.scan(&[Wanted::new(&field.name, form)]) else { continue };
                    let mut pieces = 0;
                    while let Ok(Some(piece)) = scan.next() {
                        if scan.decode(piece).is_err() || pieces > 10 {
                            break;
                        }
                        pieces += 1;
                    }
                }
            }
        }
    }
}

/// A page says in its header that it unpacks to 1.4 GB; the decoder would make room for that at once.
#[test]
fn a_page_that_cannot_hold_what_it_says_is_refused_in_every_kind_of_column() {
    // 1,429,623,194 as the header has it: zigzag, seven bits per byte.
    const HUGE: [u8; 5] = [0xB4, 0xC6, 0xB2, 0xD3, 0x0A];
    for (name, form) in [("f64", Form::Number), ("block", Form::Number), ("utf8", Form::Text)] {
        let whole = table();
        let one = whole.project(&[whole.schema().index_of(name).unwrap()]).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, one.schema(), Some(properties)).unwrap();
        writer.write(&one).unwrap();
        writer.close().unwrap();
        let read = |bytes: Vec<u8>| {
            let source = Source::from_bytes("a.parquet", bytes, &Options::default()).unwrap();
            let scan = source.scan(&[Wanted::new(name, form)])?;
            scan.decode(scan.next()?.unwrap())
        };
        assert_eq!(read(bytes.clone()).unwrap().rows, ROWS);
        // The first page follows the four letters at the start of the file: type, size unpacked, size packed.
        assert_eq!((bytes[4], bytes[6]), (0x15, 0x15), "{name}");
        let size = bytes[7..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
        bytes.splice(7..7 + size, HUGE);
        let message = read(bytes).unwrap_err().to_string();
        assert!(message.contains("unpack to 1429623194, which no codec does"), "{name}: {message}");
    }
}
