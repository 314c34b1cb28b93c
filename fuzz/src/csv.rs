//! CSV text, from memory and from a pipe that gives little at a time. The first two bytes choose the options.

use std::io::{Cursor, Read};

use pmfcl_read::{Options, Source};

use super::table;

/// Reads it in every way.
pub fn run(bytes: &[u8]) {
    let Some((way, text)) = table::way(bytes) else { return };
    let name = if way.second { "x.tsv" } else { "x.csv" };
    let at_once = |options: &Options| Source::from_bytes(name, text.to_vec(), options);
    let trickle = |options: &Options| {
        let pipe = Box::new(Trickle(Cursor::new(text.to_vec())));
        Source::from_reader(name, pipe, options)
    };
    table::go_through(&way, table::Found::ByUs, &[&at_once, &trickle]);
}

/// Seven bytes at a time.
struct Trickle(Cursor<Vec<u8>>);

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(7);
        self.0.read(&mut buffer[..n])
    }
}
