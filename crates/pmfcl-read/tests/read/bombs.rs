//! Small files that unpack to very much: what is not wanted is not unpacked, and what is wanted has a limit.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder};
use pmfcl_read::{Options, Source};

/// The largest memory this process has had so far, in MiB.
#[cfg(target_os = "linux")]
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

fn header(shape: &str) -> Vec<u8> {
    let text = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.as_bytes());
    out
}

/// An array of so many zeros, deflated.
fn zeros(count: usize) -> (Vec<u8>, usize) {
    let head = header(&format!("({count},)"));
    let mut out = DeflateEncoder::new(Vec::new(), Compression::best());
    out.write_all(&head).unwrap();
    let block = vec![0; 1 << 20];
    let mut left = count;
    while left > 0 {
        let n = left.min(block.len());
        out.write_all(&block[..n]).unwrap();
        left -= n;
    }
    (out.finish().unwrap(), head.len() + count)
}

/// A zip of deflated members: names, which data each has, and the size it claims to unpack to.
fn zip(data: &[Vec<u8>], members: &[(&str, usize, usize)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut places = Vec::new();
    for bytes in data {
        places.push(out.len() as u32);
        out.extend(b"PK\x03\x04\x14\0\0\0\x08\0");
        out.extend([0; 20]);
        out.extend(bytes);
    }
    let start = out.len() as u32;
    for (name, of, whole) in members {
        out.extend(b"PK\x01\x02\x14\0\x14\0\0\0\x08\0");
        out.extend([0; 8]);
        out.extend((data[*of].len() as u32).to_le_bytes());
        out.extend((*whole as u32).to_le_bytes());
        out.extend((name.len() as u16).to_le_bytes());
        out.extend([0; 12]);
        out.extend(places[*of].to_le_bytes());
        out.extend(name.as_bytes());
    }
    let size = out.len() as u32 - start;
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(
        [(members.len() as u16).to_le_bytes(), (members.len() as u16).to_le_bytes()].concat(),
    );
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn error(name: &str, bytes: Vec<u8>) -> String {
    Source::from_bytes(name, bytes, &Options::default()).err().expect("refused").to_string()
}

/// Forty entries that all lie in the same half a megabyte: 20 GiB unpacked.
#[cfg(target_os = "linux")]
#[test]
fn arrays_that_share_bytes_are_refused_before_they_are_unpacked() {
    let (data, whole) = zeros(500 << 20);
    assert!(data.len() < 600_000, "{}", data.len());
    let names: Vec<String> = (0..40).map(|k| format!("a{k}.npy")).collect();
    let members: Vec<_> = names.iter().map(|name| (name.as_str(), 0, whole)).collect();
    let bytes = zip(&[data], &members);
    let before = peak();
    let error = error("a.npz", bytes);
    assert!(error.contains("lie in the same place"), "{error}");
    assert!(peak() - before < 64, "{} MiB", peak() - before);
}

#[cfg(target_os = "linux")]
#[test]
fn opening_unpacks_headers_alone() {
    let (data, whole) = zeros(500 << 20);
    let (more, _) = zeros(500 << 20);
    let bytes = zip(&[data, more], &[("a.npy", 0, whole), ("b.npy", 1, whole)]);
    let before = peak();
    let source = Source::from_bytes("a.npz", bytes, &Options::default()).unwrap();
    assert_eq!(source.fields().len(), 2);
    assert!(peak() - before < 64, "{} MiB", peak() - before);
}

#[test]
fn a_member_that_says_more_than_deflate_can_make_is_refused() {
    let (data, whole) = zeros(1000);
    let bytes = zip(&[data], &[("a.npy", 0, whole + (1 << 30))]);
    let error = error("a.npz", bytes);
    assert!(error.contains("cannot unpack to"), "{error}");
}

/// Images of one pixel, and a gigabyte of zeros after them.
#[cfg(target_os = "linux")]
#[test]
fn of_a_packed_idx_file_only_what_its_shape_says_is_unpacked() {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 5, 6]).unwrap();
    let block = vec![0; 1 << 20];
    for _ in 0..1024 {
        out.write_all(&block).unwrap();
    }
    let bytes = out.finish().unwrap();
    let before = peak();
    let source = Source::from_bytes("t-images-idx3-ubyte.gz", bytes, &Options::default()).unwrap();
    assert_eq!(source.fields().len(), 1);
    assert!(peak() - before < 64, "{} MiB", peak() - before);
    // A shape that takes more than there is.
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(&[0, 0, 8, 3, 0, 0xff, 0xff, 0xff, 0, 0, 0x10, 0, 0, 0, 0x10, 0]).unwrap();
    let error = error("t-images-idx3-ubyte.gz", out.finish().unwrap());
    assert!(error.contains("4 GiB"), "{error}");
}
