//! CSV: records of fields in text.
//!
//! [`marks`] knows where fields and records end, [`header`] names the columns and guesses their
//! kinds, [`cut`] cuts a file into pieces at record ends, [`decode`] parses a piece. Blank lines are
//! passed over wherever they stand. A quote means something at the start of a field only.

mod cut;
mod decode;
mod header;
mod marks;

use std::sync::Arc;

use crate::field::Found;
use crate::scan::{Format, Pass};
use crate::source::Contents;
use crate::store::{Opened, Spring};
use crate::{Options, ReadError};

pub(crate) use decode::DATE;
use header::Header;

/// Opens CSV text, packed or not.
pub(crate) fn open(
    file: &str,
    opened: Opened,
    options: &Options,
    delimiter: Option<u8>,
) -> Result<Contents, ReadError> {
    let (header, spring) = header::read(file, opened, options, delimiter)?;
    let (fields, commas) = (header.fields.clone(), Some(header.commas.clone()));
    let format =
        Csv { file: file.into(), header: Arc::new(header), spring, options: options.clone() };
    Ok(Contents { commas, ..Contents::new(fields, None, Box::new(format)) })
}

struct Csv {
    file: Arc<str>,
    header: Arc<Header>,
    spring: Spring,
    options: Options,
}

impl Format for Csv {
    fn scan(&self, found: Vec<Found>) -> Result<Box<dyn Pass>, ReadError> {
        let (read, flow) = self.spring.flow(&self.file)?;
        let cutter = cut::Cutter::new(&self.file, &self.header, &self.options, read, flow);
        let decoder = decode::Decoder::new(&self.file, &self.header, &self.options, found);
        Ok(Box::new(decode::CsvPass { cutter: std::sync::Mutex::new(cutter), decoder }))
    }
}
