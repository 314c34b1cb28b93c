//! Cutting a file into pieces at record ends.

use std::sync::Arc;

use super::header::{Header, LONGEST};
use super::marks::{Marks, OPEN, Span};
use crate::scan::Piece;
use crate::store::Flow;
use crate::{Options, Place, ReadError};

/// The size of a piece: large enough to amortise its columns, small enough to stay in the cache. The first ones are smaller, so that
/// threads share a small file too.
const BYTES: usize = 2 << 20;
const FIRST: usize = BYTES / 8;

/// The size of a piece by its number: two of each size.
fn size(index: usize) -> usize {
    FIRST << (index / 2).min(3)
}

/// Text of whole records.
pub(super) struct Text {
    pub(super) bytes: Vec<u8>,
    /// The line, from 1, at which it starts.
    pub(super) line: u64,
    /// Whether there is a quote in it.
    pub(super) quoted: bool,
}

pub(super) struct Cutter {
    file: Arc<str>,
    flow: Flow,
    marks: Marks,
    most: usize,
    /// Read and not yet handed out.
    rest: Vec<u8>,
    /// Bytes of header still in the way.
    skip: usize,
    ended: bool,
    index: usize,
    row: u64,
    line: u64,
    passed: u64,
}

impl Cutter {
    pub(super) fn new(
        file: &Arc<str>,
        header: &Header,
        options: &Options,
        read: Vec<u8>,
        flow: Flow,
    ) -> Self {
        Self {
            file: Arc::clone(file),
            flow,
            marks: header.marks,
            most: options.piece_rows.map_or(usize::MAX, |n| n.max(1)),
            rest: read,
            skip: header.data,
            ended: false,
            index: 0,
            row: 0,
            line: header.lines + 1,
            passed: 0,
        }
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, ReadError> {
        let size = size(self.index);
        let mut want = if self.most == usize::MAX { size } else { 4096 };
        loop {
            self.fill(want)?;
            let span = self.marks.span(&self.rest, self.most);
            if span.records < self.most && !self.ended && want < size {
                want *= 2; // more may fit
            } else if span.records > 0 {
                return Ok(Some(self.split(span)));
            } else if span.end > 0 {
                self.rest.drain(..span.end); // nothing but blank lines
                self.line += span.lines;
            } else if self.ended {
                if self.rest.is_empty() {
                    return Ok(None);
                }
                return Err(ReadError::Quoting {
                    file: self.file(),
                    place: self.place(),
                    what: OPEN,
                });
            } else {
                want = want.max(self.rest.len()) * 2;
                if want > LONGEST << 20 {
                    let (file, place) = (self.file(), self.place());
                    return Err(ReadError::LongRecord { file, place, limit: LONGEST });
                }
            }
        }
    }

    /// Reads until `want` bytes wait; the last line gets its end if it has none.
    fn fill(&mut self, want: usize) -> Result<(), ReadError> {
        while !self.ended && (self.rest.len() < want || self.skip > 0) {
            let missing = want.saturating_sub(self.rest.len()).max(4096);
            let n = self.flow.fill(&mut self.rest, missing);
            let n = n.map_err(|error| ReadError::Io { file: self.file(), error })?;
            self.ended = n < missing;
            let header = self.skip.min(self.rest.len());
            self.rest.drain(..header);
            self.skip -= header;
        }
        if self.ended && !self.rest.is_empty() && self.rest.last() != Some(&b'\n') {
            self.rest.push(b'\n');
        }
        Ok(())
    }

    /// Hands out the records of `span`.
    fn split(&mut self, span: Span) -> Piece {
        let rest = self.rest.split_off(span.end);
        let bytes = std::mem::replace(&mut self.rest, rest);
        let passed = self.flow.passed();
        let piece = Piece {
            index: self.index,
            bytes: passed - self.passed,
            first_row: self.row,
            rows: span.records,
            content: Box::new(Text { bytes, line: self.line, quoted: span.quoted }),
        };
        self.index += 1;
        self.row += span.records as u64;
        self.line += span.lines;
        self.passed = passed;
        piece
    }

    fn file(&self) -> String {
        self.file.to_string()
    }

    fn place(&self) -> Place {
        Place { row: self.row + 1, line: Some(self.line) }
    }
}
