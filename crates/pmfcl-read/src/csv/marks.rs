//! Where fields and records end.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memmem, memrchr};

/// The bytes with a meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
}

/// Whole records at the start of some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Where the last of them ends.
    pub(super) end: usize,
    /// How many they are, without blank lines.
    pub(super) records: usize,
    /// How many line ends they contain.
    pub(super) lines: u64,
    /// Whether there is a quote in them.
    pub(super) quoted: bool,
}

/// The contents of a field.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// These bytes as they stand.
    Plain(Range<usize>),
    /// The scratch space: a quote was doubled.
    Scratch,
}

/// What a quoted field can suffer from.
pub(super) const OPEN: &str = "a quoted field does not end; look for a quote without its partner";
const TAIL: &str = "text follows a closing quote; a quote inside a quoted field must be doubled";

impl Marks {
    /// The whole records at the start of `text`, at most `most` of them.
    pub(super) fn span(self, text: &[u8], most: usize) -> Span {
        let quoted = memchr(self.quote, text).is_some();
        if !quoted && most == usize::MAX && !has_blank_lines(text) {
            let end = memrchr(b'\n', text).map_or(0, |at| at + 1);
            let lines = memchr_iter(b'\n', &text[..end]).count();
            return Span { end, records: lines, lines: lines as u64, quoted };
        }
        let mut span = Span::default();
        let (mut start, mut at, mut lines) = (0, 0, 0);
        loop {
            let quote = if quoted { memchr(self.quote, &text[at..]).map(|q| at + q) } else { None };
            let plain = quote.unwrap_or(text.len());
            for i in memchr_iter(b'\n', &text[at..plain]).map(|i| at + i) {
                lines += 1;
                let blank = i == start || (i == start + 1 && text[start] == b'\r');
                start = i + 1;
                span =
                    Span { end: start, records: span.records + usize::from(!blank), lines, quoted };
                if span.records == most {
                    return span;
                }
            }
            let Some(open) = quote else { return span };
            if open == start || text[open - 1] == self.delimiter {
                let Some(close) = self.close(text, open) else { return span };
                lines += memchr_iter(b'\n', &text[open..close]).count() as u64;
                at = close + 1;
            } else {
                at = open + 1;
            }
        }
    }

    /// Where the quoted field that opens at `open` closes.
    fn close(self, text: &[u8], open: usize) -> Option<usize> {
        let mut at = open + 1;
        loop {
            let quote = at + memchr(self.quote, text.get(at..)?)?;
            if text.get(quote + 1) == Some(&self.quote) {
                at = quote + 2;
            } else {
                return Some(quote);
            }
        }
    }

    /// The field at `at` of text that ends with a line end, and the place of the delimiter or line
    /// end behind it.
    #[inline]
    pub(super) fn field(
        self,
        text: &[u8],
        at: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(Cell, usize), &'static str> {
        if text.get(at) == Some(&self.quote) {
            return self.quoted_field(text, at, scratch);
        }
        let end = at + memchr2(self.delimiter, b'\n', &text[at..]).ok_or(OPEN)?;
        let to =
            if text[end] == b'\n' && end > at && text[end - 1] == b'\r' { end - 1 } else { end };
        Ok((Cell::Plain(at..to), end))
    }

    #[cold]
    #[inline(never)]
    fn quoted_field(
        self,
        text: &[u8],
        at: usize,
        scratch: &mut Vec<u8>,
    ) -> Result<(Cell, usize), &'static str> {
        let close = self.close(text, at).ok_or(OPEN)?;
        let end = match text.get(close + 1..).unwrap_or_default() {
            [b'\n', ..] => close + 1,
            [b'\r', b'\n', ..] => close + 2,
            [mark, ..] if *mark == self.delimiter => close + 1,
            [] => return Err(OPEN),
            _ => return Err(TAIL),
        };
        let inner = &text[at + 1..close];
        if memchr(self.quote, inner).is_none() {
            return Ok((Cell::Plain(at + 1..close), end));
        }
        scratch.clear();
        let mut rest = inner;
        while let Some(quote) = memchr(self.quote, rest) {
            scratch.extend_from_slice(&rest[..=quote]);
            rest = rest.get(quote + 2..).unwrap_or_default();
        }
        scratch.extend_from_slice(rest);
        Ok((Cell::Scratch, end))
    }
}

impl Cell {
    #[inline]
    pub(super) fn bytes<'a>(self, text: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Plain(range) => &text[range.clone()],
            Self::Scratch => scratch,
        }
    }
}

fn has_blank_lines(text: &[u8]) -> bool {
    text.starts_with(b"\n")
        || text.starts_with(b"\r\n")
        || memmem::find(text, b"\n\n").is_some()
        || memmem::find(text, b"\n\r\n").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks { delimiter: b',', quote: b'"' };

    #[test]
    fn records_end_at_line_ends_outside_quotes() {
        let span = |text: &str, most| {
            let s = MARKS.span(text.as_bytes(), most);
            (s.end, s.records, s.lines)
        };
        assert_eq!(span("a,b\nc,d\ne", usize::MAX), (8, 2, 2));
        assert_eq!(span("a,b\nc,d\ne", 1), (4, 1, 1));
        assert_eq!(span("a,b\n\r\n\nc,d\n", usize::MAX), (11, 2, 4));
        assert_eq!(span("a,\"b\nc\"\nd", usize::MAX), (8, 1, 2));
        assert_eq!(span("a,\"b\n\"\"c\"\n\"", usize::MAX), (10, 1, 2));
        assert_eq!(span("5\" pipe,\"x\ny\"\n6\",7\n", usize::MAX), (19, 2, 3));
        assert_eq!(span("\"open\n", usize::MAX), (0, 0, 0));
        assert_eq!(span("", usize::MAX), (0, 0, 0));
    }

    #[test]
    fn fields_lose_their_quotes() {
        let mut scratch = Vec::new();
        let text = b"ab,\"c,\"\"d\"\"\",\"e\"\r\n";
        let (cell, end) = MARKS.field(text, 0, &mut scratch).unwrap();
        assert_eq!((cell.bytes(text, &scratch), end), (&b"ab"[..], 2));
        let (cell, end) = MARKS.field(text, 3, &mut scratch).unwrap();
        assert_eq!((cell.bytes(text, &scratch), end), (&b"c,\"d\""[..], 12));
        let (cell, end) = MARKS.field(text, 13, &mut scratch).unwrap();
        assert_eq!((cell.bytes(text, &scratch), end), (&b"e"[..], 17));
        assert_eq!(MARKS.field(b"\"a\"b\n", 0, &mut scratch).unwrap_err(), TAIL);
        assert_eq!(MARKS.field(b"\"a\n", 0, &mut scratch).unwrap_err(), OPEN);
    }
}
