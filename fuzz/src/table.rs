//! A table is the same whole and in pieces of any size, and all its numbers are finite.

use pmfcl_read::{Batch, Column, Field, Form, Missing, Options, ReadError, Source, Wanted};

/// Columns looked at one by one, at most.
const SINGLE: usize = 2;

/// Columns looked at together, at most.
const MOST: usize = 16;

/// Who finds damage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Our own code.
    ByUs,
    /// The decoders of Parquet and Arrow.
    ByOthers,
}

/// How a table is to be read.
pub struct Way {
    options: Options,
    form: Form,
    piece_rows: usize,
    /// Chooses between two formats.
    pub second: bool,
}

/// The way that the first two bytes tell, and the bytes behind them.
pub fn way(bytes: &[u8]) -> Option<(Way, &[u8])> {
    let (&[bits, more], rest) = bytes.split_first_chunk()?;
    let options = Options {
        header: bits & 1 == 0,
        missing: if bits & 2 == 0 { Missing::Refuse } else { Missing::Drop },
        delimiter: [None, Some(b','), Some(b';'), Some(b' ')][usize::from(bits >> 2 & 3)],
        quote: [b'"', b'\''][usize::from(bits >> 4 & 1)],
        ..Options::default()
    };
    let form = [Form::Number, Form::Text, Form::Date, Form::Number][usize::from(more & 3)];
    let piece_rows = usize::from(more >> 2 & 7) + 1;
    Some((Way { options, form, piece_rows, second: bits & 0x40 != 0 }, rest))
}

/// A way to open the table.
pub type Open<'a> = &'a dyn Fn(&Options) -> Result<Source, ReadError>;

/// Opens a table by each way in `open`, which all lead to the same bytes, and goes through it whole and in pieces,
/// one by one and together. Where damage is `found` by the decoders of others, how much is decoded at a time
/// may tell whether they find it; else it must be found either way or not at all.
pub fn go_through(way: &Way, found: Found, open: &[Open<'_>]) {
    let pieces = Options { piece_rows: Some(way.piece_rows), ..way.options.clone() };
    let opened: Vec<Result<Source, ReadError>> =
        open.iter().flat_map(|open| [open(&way.options), open(&pieces)]).collect();
    let fields = |source: &Result<Source, ReadError>| -> Option<Vec<Field>> {
        source.as_ref().ok().map(|source| source.fields().to_vec())
    };
    let Some(first) = opened.first() else { return };
    for other in &opened {
        assert_eq!(fields(first), fields(other), "other columns");
    }
    let Some(fields) = fields(first) else { return };
    let all: Vec<Wanted> =
        fields.iter().take(MOST).map(|field| Wanted::new(&field.name, way.form)).collect();
    let mut lists: Vec<&[Wanted]> = all.chunks(1).take(SINGLE).collect();
    if all.len() > 1 {
        lists.push(&all);
    }
    for wanted in lists {
        let mut whole: Option<Option<Seen>> = None;
        for open in open {
            for options in [&way.options, &pieces] {
                // A pipe can be gone through once.
                let seen = open(options).and_then(|source| see(&source, wanted)).ok();
                match (&whole, &seen) {
                    (None, _) => whole = Some(seen),
                    (Some(Some(_)), None) | (Some(None), Some(_)) if found == Found::ByOthers => {}
                    (Some(whole), seen) => {
                        let pieces = options.piece_rows;
                        assert_eq!(whole, seen, "{wanted:?} in pieces of {pieces:?}");
                    }
                }
            }
        }
    }
}

/// All that is seen of a table.
#[derive(Debug, PartialEq, Default)]
struct Seen {
    /// Where its rows are in the file.
    rows: Vec<u64>,
    dropped: u64,
    numbers: Vec<Vec<u64>>,
    words: Vec<Vec<String>>,
}

fn see(source: &Source, wanted: &[Wanted]) -> Result<Seen, ReadError> {
    let mut seen = Seen {
        numbers: vec![Vec::new(); wanted.len()],
        words: vec![Vec::new(); wanted.len()],
        ..Seen::default()
    };
    let scan = source.scan(wanted)?;
    let mut pieces = 0;
    while let Some(piece) = scan.next()? {
        assert_eq!(piece.index, pieces);
        pieces += 1;
        let (first, rows) = (piece.first_row(), piece.rows() as u64);
        let batch = scan.decode(piece)?;
        assert_eq!(batch.rows as u64 + batch.dropped, rows, "rows are lost");
        assert_eq!((batch.first_row, batch.columns.len()), (first, wanted.len()));
        seen.add(&batch);
    }
    let ascend = seen.rows.windows(2).all(|w| w[0] < w[1]);
    assert!(ascend, "rows out of order");
    if let Some(rows) = source.rows() {
        assert_eq!(rows, seen.rows.len() as u64 + seen.dropped, "fewer rows than were said");
    }
    Ok(seen)
}

impl Seen {
    fn add(&mut self, batch: &Batch) {
        self.rows.extend((0..batch.rows).map(|i| batch.file_row(i)));
        self.dropped += batch.dropped;
        for (c, column) in batch.columns.iter().enumerate() {
            match column {
                Column::Texts(texts) => {
                    assert_eq!(texts.codes.len(), batch.rows);
                    let word = |code: &u32| texts.names[*code as usize].clone();
                    self.words[c].extend(texts.codes.iter().map(word));
                }
                Column::Numbers(numbers) | Column::Block { cells: numbers, .. } => {
                    assert_eq!(numbers.len(), batch.rows * column.width());
                    assert!(numbers.iter().all(|v| v.is_finite()), "a number that is not finite");
                    self.numbers[c].extend(numbers.iter().map(|v| v.to_bits()));
                    let mut out = vec![0.0; numbers.len()];
                    batch.gather(0..batch.rows, &[(c, 0)], &mut out, column.width());
                    assert_eq!(out, **numbers);
                }
            }
        }
    }
}
