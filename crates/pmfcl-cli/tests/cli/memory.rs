//! Rows are discarded as they are read: a file may be far larger than the memory there is.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::program::{Draw, Place};
use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const COLUMNS: usize = 8;
const BATCH: usize = 50_000;

/// Writes the same rows as CSV and as Parquet, of at least `bytes` each, and gives the number of rows. A row
/// group has so many rows.
fn write_both(csv: &Path, parquet: &Path, bytes: u64, group: usize) -> usize {
    let mut text = BufWriter::new(fs::File::create(csv).unwrap());
    let names: Vec<String> = (0..COLUMNS).map(|c| format!("x{c}")).collect();
    writeln!(text, "{},y", names.join(",")).unwrap();
    let mut columnar: Option<ArrowWriter<fs::File>> = None;
    let mut draw = Draw(3);
    let mut rows = 0;
    loop {
        let mut columns = vec![Vec::new(); COLUMNS + 1];
        for _ in 0..BATCH {
            let mut y = 0.0;
            for (c, column) in columns[..COLUMNS].iter_mut().enumerate() {
                // Six digits, so that both files are of about the same size.
                let value = (draw.unit() * 1e6).round() / 1e6;
                y += value * c as f64;
                column.push(value);
                write!(text, "{value},").unwrap();
            }
            writeln!(text, "{y:.4}").unwrap();
            columns[COLUMNS].push(y);
        }
        rows += BATCH;
        let arrays = names.iter().cloned().chain(["y".to_owned()]).zip(columns);
        let batch = RecordBatch::try_from_iter(
            arrays.map(|(name, values)| (name, Arc::new(Float64Array::from(values)) as ArrayRef)),
        )
        .unwrap();
        let writer = columnar.get_or_insert_with(|| {
            let properties =
                WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
            let file = fs::File::create(parquet).unwrap();
            ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap()
        });
        writer.write(&batch).unwrap();
        let written = writer.bytes_written() + writer.in_progress_size();
        if (rows * COLUMNS * 8) as u64 >= bytes && written as u64 >= bytes {
            break;
        }
    }
    text.into_inner().unwrap().sync_all().unwrap();
    columnar.unwrap().close().unwrap();
    rows
}

/// The most memory a process has had at once, in bytes, watched until it ends.
fn peak(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(1024 * kilobytes.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(3));
    }
    most
}

fn size(place: &Place, file: &str) -> u64 {
    fs::metadata(place.path(file)).unwrap().len()
}

/// Memory is at most half of the file, and does not grow with it.
#[test]
fn memory_does_not_grow_with_the_file() {
    let place = Place::new();
    let mut small = Vec::new();
    for (name, megabytes) in [("small", 30), ("large", 120)] {
        let csv = format!("{name}.csv");
        let parquet = format!("{name}.parquet");
        let rows = write_both(&place.path(&csv), &place.path(&parquet), megabytes << 20, 100_000);
        for file in [csv, parquet] {
            let model = format!("{file}.pmf");
            let mut child = place
                .command(&format!("learn {model} {file} --target y --threads 2"))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let most = peak(&mut child);
            assert!(child.wait().unwrap().success());
            println!("{file}: {} MB, peak {} MB", size(&place, &file) >> 20, most >> 20);
            let shown = place.json(&format!("show {model}"));
            assert_eq!(shown["samples"].as_f64().unwrap() as usize, rows);
            assert!(most > 1 << 20, "the peak was seen");
            if name == "small" {
                small.push(most);
            } else {
                let before = small.remove(0);
                assert!(most < size(&place, &file) / 2, "{file}: {most} bytes");
                assert!(most < before * 3 / 2, "{file}: {before} bytes, then {most}");
            }
        }
    }
    let gap = place.show("large.csv.pmf").gap(&place.show("large.parquet.pmf"));
    // The target has four digits in the one and all in the other.
    assert!(gap < 1e-4, "{gap}");
}

/// Files ten times larger than all the address space the program is given.
#[test]
#[ignore = "writes two files of 1.3 GB; run with --ignored in release mode"]
fn a_file_ten_times_larger_than_memory_is_learned() {
    const CAP: u64 = 128 << 20;
    let place = Place::new();
    // As many rows a group as most programs write.
    let rows = write_both(&place.path("a.csv"), &place.path("a.parquet"), 10 * CAP, 1 << 20);
    for file in ["a.csv", "a.parquet"] {
        assert!(size(&place, file) >= 10 * CAP);
        let line = format!(
            "ulimit -v {}; exec \"$PMFCL\" learn {file}.pmf {file} --target y --threads 2",
            CAP / 1024
        );
        let mut child = Command::new("sh")
            .args(["-c", &line])
            .env("PMFCL", crate::PROGRAM)
            .current_dir(place.path(""))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let most = peak(&mut child);
        assert!(child.wait().unwrap().success());
        let shown = place.json(&format!("show {file}.pmf"));
        assert_eq!(shown["samples"].as_f64().unwrap() as usize, rows);
        let megabytes = size(&place, file) >> 20;
        println!("{file}: {megabytes} MB under {} MB, peak {} MB", CAP >> 20, most >> 20);
    }
}
