//! What the first rows of a file hold, column by column: enough to see what a column is taken for and whether that may be
//! wrong.

use std::collections::HashMap;

use crate::number::Reading;
use crate::number::Rules;
use crate::{
    Batch, Column, DateFormat, Field, Form, Kind, Options, Place, ReadError, Source, Wanted,
};

/// Rows that are looked at.
const ROWS: usize = 1000;
/// Values that are shown.
const SHOWN: usize = 5;

/// What the first rows of one column hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it holds by its type, or by the cells of the first rows.
    pub kind: Kind,
    /// Rows that were looked at.
    pub rows: usize,
    /// Rows without a value.
    pub missing: usize,
    /// Rows whose text is a number.
    pub numbers: usize,
    /// Different values.
    pub levels: usize,
    /// The first of them.
    pub examples: Vec<String>,
    /// The least and the greatest number.
    pub range: Option<(f64, f64)>,
    /// Whether all numbers are whole.
    pub whole: bool,
    /// Whether every number is the one before plus one.
    pub counting: bool,
    /// The first words in a column of numbers.
    pub words: Vec<String>,
    /// Where the first of them is.
    pub first_word: Option<Place>,
    /// The formats in which all texts are dates.
    pub formats: Vec<DateFormat>,
}

impl Profile {
    /// Whether this is text in which nine in ten cells are numbers: words were meant as missing values.
    pub fn is_numbers_with_words(&self) -> bool {
        let words = self.rows - self.missing - self.numbers;
        self.kind == Kind::Text && words > 0 && self.numbers >= 9 * words
    }

    /// Whether its texts name rows instead of grouping them: more than a third of the rows have a text of their own. Of a few dozen
    /// texts nearly all must be: the hours of a day in fifty rows are no identifiers.
    pub fn is_identifier(&self) -> bool {
        const FEW: usize = 20;
        const MANY: usize = 50;
        let there = self.rows - self.missing;
        let many = self.levels >= MANY && 3 * self.levels > there;
        let nearly_all = self.levels > FEW && 10 * self.levels >= 9 * there;
        self.kind == Kind::Text && (many || nearly_all)
    }

    /// Whether all rows that have a value have the same one.
    pub fn is_constant(&self) -> bool {
        self.levels == 1 && self.rows > self.missing + 1
    }
}

impl Source {
    /// Looks at the first rows of all columns. Rows that miss a value count where the file was opened with
    /// [`Missing::Keep`](crate::Missing::Keep). A pipe cannot be read afterwards. The result does not depend on `threads`.
    ///
    /// Where columns are stored one by one, those that `look` turns down are not read, and their profile is that of no rows: the
    /// first rows of a Parquet column cost a page of it.
    ///
    /// # Errors
    /// When the first rows cannot be read.
    pub fn profiles(
        &self,
        options: &Options,
        threads: usize,
        look: &dyn Fn(&Field) -> bool,
    ) -> Result<Vec<Profile>, ReadError> {
        let rules = Rules::of(options);
        let columnar = self.rows().is_some();
        let readable = |field: &Field| {
            !matches!(field.kind, Kind::Block { .. } | Kind::Other(_)) && (!columnar || look(field))
        };
        let read: Vec<bool> = self.fields().iter().map(readable).collect();
        let wanted: Vec<Wanted> = self
            .fields()
            .iter()
            .zip(&read)
            .filter(|(_, read)| **read)
            .map(|(field, _)| Wanted::new(field.name.clone(), Form::Text))
            .collect();
        let (rows, batches) = self.first_rows(&wanted, threads)?;
        let empty = |(field, read): (&Field, &bool)| Profile {
            name: field.name.clone(),
            kind: field.kind.clone(),
            rows: if *read { rows } else { 0 },
            missing: 0,
            numbers: 0,
            levels: 0,
            examples: Vec::new(),
            range: None,
            whole: *read && rows > 0,
            counting: *read && rows > 0,
            words: Vec::new(),
            first_word: None,
            formats: Vec::new(),
        };
        let mut profiles: Vec<Profile> = self.fields().iter().zip(&read).map(empty).collect();
        let read = profiles.iter_mut().zip(&read).filter(|(_, read)| **read).map(|(p, _)| p);
        let columns = batches.iter().flat_map(|b| b.columns.iter().map(move |column| (b, column)));
        for (profile, (batch, column)) in read.zip(columns) {
            let Column::Texts(texts) = column else { continue };
            let mut last: Option<f64> = None;
            let mut seen: HashMap<u32, Reading> = HashMap::new();
            for (row, code) in texts.codes[..rows].iter().enumerate() {
                let text = texts.names[*code as usize].as_str();
                if text.is_empty() {
                    profile.missing += 1;
                    continue;
                }
                let new = !seen.contains_key(code);
                let reading = *seen.entry(*code).or_insert_with(|| rules.number(text.as_bytes()));
                if new {
                    profile.levels += 1;
                    if profile.examples.len() < SHOWN {
                        profile.examples.push(text.to_owned());
                    }
                }
                match reading {
                    Reading::Value(value) => {
                        profile.numbers += 1;
                        let (low, high) = profile.range.unwrap_or((value, value));
                        profile.range = Some((low.min(value), high.max(value)));
                        profile.whole &= value.fract() == 0.0;
                        profile.counting &=
                            last.is_none_or(|last| (value - last - 1.0).abs() < 1e-9);
                        last = Some(value);
                    }
                    // Text that is read as missing where numbers are wanted is missing.
                    Reading::Missing if profile.kind == Kind::Number => profile.missing += 1,
                    Reading::Missing | Reading::Other => {
                        if new && profile.words.len() < SHOWN {
                            profile.words.push(text.to_owned());
                        }
                        let place = Place { row: batch.file_row(row) + 1, line: None };
                        profile.first_word.get_or_insert(place);
                    }
                }
            }
            profile.whole &= profile.numbers > 0;
            profile.counting &= profile.numbers > 2 && profile.whole;
            if profile.kind == Kind::Text && profile.levels > 0 {
                let words = texts.names.iter().map(String::as_str).filter(|name| !name.is_empty());
                profile.formats = DateFormat::fitting(&words);
            }
        }
        Ok(profiles)
    }

    /// The first rows of the wanted columns, and how many they are. Where columns can be read on their own, every thread reads
    /// some of them: the first page of a Parquet column is a megabyte, however few rows of it are looked at.
    fn first_rows(
        &self,
        wanted: &[Wanted],
        threads: usize,
    ) -> Result<(usize, Vec<Batch>), ReadError> {
        let shares = if self.rows().is_some() { threads.clamp(1, wanted.len().max(1)) } else { 1 };
        let first = |wanted: &[Wanted]| {
            let scan = self.scan(wanted)?;
            scan.next()?.map(|piece| scan.decode(piece)).transpose()
        };
        let batches: Vec<Result<Option<Batch>, ReadError>> = std::thread::scope(|scope| {
            let shares: Vec<&[Wanted]> =
                wanted.chunks(wanted.len().div_ceil(shares).max(1)).collect();
            let others = shares.iter().skip(1).map(|share| scope.spawn(|| first(share)));
            let others: Vec<_> = others.collect();
            let own = shares.first().map(|share| first(share));
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(resume));
            own.into_iter().chain(others).collect()
        });
        let batches = batches.into_iter().filter_map(Result::transpose);
        let batches: Vec<Batch> = batches.collect::<Result<_, _>>()?;
        let rows = batches.iter().map(|batch| batch.rows).min().unwrap_or(0);
        Ok((rows.min(ROWS), batches))
    }
}

/// A panic of another thread goes on in this one.
fn resume<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}
