//! The names of the columns, and a guess at what they hold from the first records.

use memchr::memchr_iter;

use super::marks::{Marks, OPEN};
use crate::error::cut;
use crate::number::{CommaCount, Reading, Rules};
use crate::store::{Flow, Opened, Spring};
use crate::{CommaCell, Field, Kind, Options, Place, ReadError};

/// How much of the file is looked at.
const SAMPLE_BYTES: usize = 1 << 20;
const SAMPLE_RECORDS: usize = 1000;
/// No record may be longer than this many MB.
pub(super) const LONGEST: usize = 64;

/// What was found at the start of the file.
pub(super) struct Header {
    pub(super) fields: Vec<Field>,
    /// For each column the first of its numbers with a comma, if it is a column of such.
    pub(super) commas: Vec<Option<CommaCell>>,
    pub(super) marks: Marks,
    /// Where the data starts: behind the byte order mark and the names.
    pub(super) data: usize,
    /// The lines before the data.
    pub(super) lines: u64,
}

/// Reads the header, and leaves the file ready to be read from the start.
pub(super) fn read(
    file: &str,
    opened: Opened,
    options: &Options,
    delimiter: Option<u8>,
) -> Result<(Header, Spring), ReadError> {
    let io = |error| ReadError::Io { file: file.into(), error };
    let (raw, store) = match opened {
        Opened::Store(store) => (Box::new(store.reader(0)) as Box<_>, Some(store)),
        Opened::Pipe(raw) => (raw, None),
    };
    let mut flow = Flow::new(raw).map_err(io)?;
    let mut text = Vec::new();
    let mut want = SAMPLE_BYTES;
    let header = loop {
        let missing = want - text.len();
        let whole = flow.fill(&mut text, missing).map_err(io)? < missing;
        if let Some(header) = parse(file, &text, whole, options, delimiter)? {
            break header;
        }
        want *= 2;
        if want > LONGEST << 20 {
            let place = Place { row: 0, line: Some(1) };
            return Err(ReadError::LongRecord { file: file.into(), place, limit: LONGEST });
        }
    };
    let spring = match store {
        Some(store) => Spring::Store(store),
        None => Spring::Pipe(std::sync::Mutex::new(Some((text, flow)))),
    };
    Ok((header, spring))
}

/// The header of a text of which this is the start; `None` if its first record is not whole.
fn parse(
    file: &str,
    text: &[u8],
    whole: bool,
    options: &Options,
    delimiter: Option<u8>,
) -> Result<Option<Header>, ReadError> {
    let bom = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut ended;
    let body = if whole && !text.ends_with(b"\n") {
        ended = text[bom..].to_vec();
        ended.push(b'\n');
        &ended
    } else {
        &text[bom..]
    };
    if whole && body.iter().all(u8::is_ascii_whitespace) {
        return Err(ReadError::Empty { file: file.into() });
    }
    let quote = options.quote;
    let delimiter = options.delimiter.or(delimiter).unwrap_or_else(|| sniff(body, quote));
    let clash = delimiter == quote
        || [delimiter, quote]
            .iter()
            .any(|b| matches!(b, b'\n' | b'\r' | b'.' | b'+' | b'-' | 0x80..))
        || delimiter.is_ascii_alphanumeric();
    if clash {
        return Err(ReadError::Delimiter);
    }
    let marks = Marks { delimiter, quote };
    let first = marks.span(body, 1);
    let row0 = Place { row: 0, line: Some(1) };
    if first.records == 0 {
        return if whole {
            Err(ReadError::Quoting { file: file.into(), place: row0, what: OPEN })
        } else {
            Ok(None)
        };
    }
    let mut names = Vec::new();
    let mut scratch = Vec::new();
    // Blank lines before the first record.
    let mut at = body.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(0);
    loop {
        let (cell, end) = marks
            .field(body, at, &mut scratch)
            .map_err(|what| ReadError::Quoting { file: file.into(), place: row0, what })?;
        let number = names.len() + 1;
        let cell = cell.bytes(body, &scratch).trim_ascii();
        let name = if options.header && !cell.is_empty() {
            std::str::from_utf8(cell).map_err(|_| ReadError::NotUtf8 {
                file: file.into(),
                place: row0,
                column: number.to_string(),
            })?
        } else {
            ""
        };
        names.push(if name.is_empty() { format!("x{number}") } else { name.into() });
        at = end + 1;
        if body[end] == b'\n' {
            break;
        }
    }
    let data = if options.header { first.end } else { 0 };
    let lines = if options.header { first.lines } else { 0 };
    let rules = Rules::of(options);
    let (mut kinds, commas) = guess(&body[data..], marks, &rules, names.len(), lines + 1);
    for (kind, name) in kinds.iter_mut().zip(&names) {
        if options.date_format(name).is_some() {
            *kind = Kind::Date;
        }
    }
    let fields = names.into_iter().zip(kinds).map(|(name, kind)| Field { name, kind }).collect();
    Ok(Some(Header { fields, commas, marks, data: data + bom, lines }))
}

/// The delimiter that occurs most in the first line outside of quotes.
fn sniff(body: &[u8], quote: u8) -> u8 {
    let candidates = *b",;\t|";
    let mut counts = [0_usize; 4];
    let mut inside = false;
    let mut seen = false;
    for &b in body {
        if b == quote {
            inside = !inside;
        } else if b == b'\n' && !inside {
            if seen {
                break;
            }
        } else if !inside && let Some(c) = candidates.iter().position(|&c| c == b) {
            counts[c] += 1;
        }
        seen |= !matches!(b, b'\r' | b'\n');
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    // The first of equals: the comma, if there is none of them.
    let at = counts.iter().position(|&c| c == most).unwrap_or(0);
    candidates[at]
}

/// What the first records hold: numbers, booleans, dates, or else text. Gaps say nothing. And where a column holds
/// numbers with a comma, the first of them; `line` is the line of the first record.
fn guess(
    data: &[u8],
    marks: Marks,
    rules: &Rules,
    columns: usize,
    line: u64,
) -> (Vec<Kind>, Vec<Option<CommaCell>>) {
    const KINDS: [Kind; 3] = [Kind::Number, Kind::Boolean, Kind::Date];
    let span = marks.span(data, SAMPLE_RECORDS);
    let data = &data[..span.end];
    let mut fits = vec![[true; 3]; columns];
    let mut commas: Vec<(CommaCount, Option<CommaCell>)> = vec![Default::default(); columns];
    let (mut at, mut column, mut row, mut scratch) = (0, 0, 0, Vec::new());
    while at < data.len() {
        if column == 0 && matches!(data[at], b'\n' | b'\r') {
            at += 1; // a blank line
            continue;
        }
        // A broken field ends the guessing; decoding will name it.
        let Ok((cell, end)) = marks.field(data, at, &mut scratch) else { break };
        if column < columns {
            let cell = cell.bytes(data, &scratch);
            let [number, boolean, date] = &mut fits[column];
            let read = rules.number(cell);
            *number = *number && read != Reading::Other;
            *boolean = *boolean && rules.boolean(cell) != Reading::Other;
            *date = *date && rules.date(cell, None) != Reading::Other;
            let (count, first) = &mut commas[column];
            // Where commas are read as they are meant, they are no surprise.
            if rules.plain && matches!(read, Reading::Value(_)) {
                count.add_plain();
            } else if count.add(cell, 1) && first.is_none() && read == Reading::Other {
                let place = Place { row: row + 1, line: Some(self::line(data, at, line)) };
                *first = Some(CommaCell { place, value: cut(cell.trim_ascii()) });
            }
        }
        column = if data[end] == b'\n' { 0 } else { column + 1 };
        row += u64::from(column == 0);
        at = end + 1;
    }
    let kinds = fits.iter().map(|fit| {
        let first = fit.iter().position(|&f| f);
        first.map_or(Kind::Text, |i| KINDS[i].clone())
    });
    let commas = commas.into_iter().map(|(count, first)| first.filter(|_| count.mostly_numbers()));
    (kinds.collect(), commas.collect())
}

/// The line, from 1, of the byte at `at` in text whose first line is `first`.
pub(super) fn line(text: &[u8], at: usize, first: u64) -> u64 {
    first + memchr_iter(b'\n', &text[..at.min(text.len())]).count() as u64
}
