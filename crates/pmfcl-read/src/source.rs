//! An opened data file of any format.

use std::io::Read;
use std::path::Path;

use crate::error::cut;
use crate::number::CommaCount;
use crate::remote::{self, Remote, remote_address};
use crate::scan::Format;
use crate::store::{self, Opened, Store};
use crate::{
    Column, Field, Form, Kind, Options, Place, ReadError, Scan, Wanted, csv, field, idx, numpy,
};

/// One opened data file.
pub struct Source {
    label: String,
    fields: Vec<Field>,
    rows: Option<u64>,
    bytes: Option<u64>,
    index: Vec<String>,
    commas: Option<Vec<Option<CommaCell>>>,
    format: Box<dyn Format>,
    remote: Option<Remote>,
}

/// A cell of a text column that holds a number written with a comma.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommaCell {
    /// Where it is.
    pub place: Place,
    /// What it holds, cut short.
    pub value: String,
}

/// What a format found in a file it opened.
pub(crate) struct Contents {
    /// The columns on offer.
    pub(crate) fields: Vec<Field>,
    /// How many rows there are, where the format says.
    pub(crate) rows: Option<u64>,
    /// The columns that are the index of a pandas table.
    pub(crate) index: Vec<String>,
    /// For each column the first of its numbers with a comma, where the format has looked.
    pub(crate) commas: Option<Vec<Option<CommaCell>>>,
    /// The way to read them.
    pub(crate) format: Box<dyn Format>,
}

impl Contents {
    /// Contents of a format that knows nothing more.
    pub(crate) fn new(fields: Vec<Field>, rows: Option<u64>, format: Box<dyn Format>) -> Self {
        Self { fields, rows, index: Vec::new(), commas: None, format }
    }
}

/// The formats by file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Csv,
    Tsv,
    Parquet,
    Arrow,
    Npy,
    Npz,
    Idx,
}

impl Name {
    fn of(file: &str) -> Option<Self> {
        let lower = file.to_ascii_lowercase();
        let unpacked = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst"));
        let bare = unpacked.unwrap_or(&lower);
        let ends = |endings: &[&str]| endings.iter().any(|e| bare.ends_with(e));
        if bare == "-" || ends(&[".csv", ".txt"]) {
            Some(Self::Csv)
        } else if ends(&[".tsv", ".tab"]) {
            Some(Self::Tsv)
        } else if ends(&[".parquet", ".pq"]) {
            Some(Self::Parquet)
        } else if ends(&[".arrow", ".feather", ".arrows", ".ipc"]) {
            Some(Self::Arrow)
        } else if ends(&[".npy"]) {
            Some(Self::Npy)
        } else if ends(&[".npz"]) {
            Some(Self::Npz)
        } else if ends(&["-ubyte", ".idx", ".ubyte"]) {
            Some(Self::Idx)
        } else {
            None
        }
    }
}

impl Source {
    /// Opens a file; its format is found from its name. `-` is CSV on standard input, and an address such as
    /// `s3://bucket/file.parquet` is opened by [`Options::remote`].
    ///
    /// # Errors
    /// When the file does not open, is not what its name says, or its columns cannot be found.
    pub fn open(path: &Path, options: &Options) -> Result<Self, ReadError> {
        let label = match path.file_name() {
            _ if let Some(address) = remote_address(path) => remote::shown(address),
            Some(_) if path.as_os_str() == "-" => "standard input".to_string(),
            Some(name) => name.to_string_lossy().into_owned(),
            None => path.to_string_lossy().into_owned(),
        };
        let name = path.to_string_lossy();
        let opened = store::open(path, &label, options.remote.as_deref())?;
        Self::new(&name, label, opened, Some(path), options)
    }

    /// The same with bytes in memory; the format is found from `name`.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: &Options) -> Result<Self, ReadError> {
        let store = Store::Memory(bytes.into());
        Self::new(name, name.to_string(), Opened::Store(store), None, options)
    }

    /// The same with bytes that come once, from front to back; CSV only.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &Options,
    ) -> Result<Self, ReadError> {
        Self::new(name, name.to_string(), Opened::Pipe(reader), None, options)
    }

    fn new(
        name: &str,
        label: String,
        opened: Opened,
        path: Option<&Path>,
        options: &Options,
    ) -> Result<Self, ReadError> {
        let format =
            Name::of(name).ok_or_else(|| ReadError::UnknownFormat { file: label.clone() })?;
        let bytes = match &opened {
            Opened::Store(store) => Some(store.len()),
            Opened::Pipe(_) => None,
        };
        let remote = match &opened {
            Opened::Store(Store::Remote(remote)) => Some(remote.clone()),
            _ => None,
        };
        let store = |opened, format| match opened {
            Opened::Store(store) if store.len() == 0 => {
                Err(ReadError::Empty { file: label.clone() })
            }
            Opened::Store(store) if format != "IDX" && packed(&label, &store)? => {
                Err(ReadError::Packed { file: label.clone(), format })
            }
            Opened::Store(store) => Ok(store),
            Opened::Pipe(_) => Err(ReadError::Pipe { file: label.clone(), format }),
        };
        let open = || match format {
            Name::Csv => csv::open(&label, opened, options, None),
            Name::Tsv => csv::open(&label, opened, options, Some(b'\t')),
            #[cfg(feature = "formats")]
            Name::Parquet => crate::parquet::open(&label, store(opened, "Parquet")?, options),
            #[cfg(feature = "formats")]
            Name::Arrow => crate::ipc::open(&label, store(opened, "Arrow")?, options),
            #[cfg(not(feature = "formats"))]
            Name::Parquet => Err(ReadError::NotBuilt { file: label.clone(), format: "Parquet" }),
            #[cfg(not(feature = "formats"))]
            Name::Arrow => Err(ReadError::NotBuilt { file: label.clone(), format: "Arrow" }),
            Name::Npy => numpy::open_npy(&label, &store(opened, "NumPy")?, options),
            Name::Npz => numpy::open_npz(&label, &store(opened, "NumPy zip")?, options),
            Name::Idx => idx::open(&label, &store(opened, "IDX")?, path, options),
        };
        let contents = open().map_err(|error| error.or_failed_request(remote.as_ref()))?;
        let Contents { fields, rows, index, commas, format } = contents;
        field::unique(&label, &fields)?;
        Ok(Self { label, fields, rows, bytes, index, commas, format, remote })
    }

    /// The columns on offer.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The file's name, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// How many rows there are, where the format says.
    pub fn rows(&self) -> Option<u64> {
        self.rows
    }

    /// How many bytes there are to go through; `None` for a pipe.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// The columns that are the index of a pandas table and no data, by what pandas wrote about them into the file.
    pub fn index_columns(&self) -> &[String] {
        &self.index
    }

    /// The first number with a comma in a text column whose first rows hold nothing but such numbers, or nearly: `12,0` is
    /// text here, and hardly meant as such.
    pub fn comma_numbers(&self, column: &str) -> Option<CommaCell> {
        let at = self.fields.iter().position(|f| f.name == column)?;
        if self.fields[at].kind != Kind::Text {
            return None;
        }
        if let Some(commas) = &self.commas {
            return commas[at].clone();
        }
        // What cannot be read here is reported when it is read for good.
        let scan = self.scan(&[Wanted::new(column, Form::Text)]).ok()?;
        let batch = scan.decode(scan.next().ok()??).ok()?;
        let Column::Texts(texts) = &batch.columns[0] else { return None };
        let mut rows = vec![0; texts.names.len()];
        texts.codes.iter().for_each(|&code| rows[code as usize] += 1);
        let mut count = CommaCount::default();
        let names = texts.names.iter().zip(rows);
        let commas: Vec<bool> =
            names.map(|(name, rows)| count.add(name.as_bytes(), rows)).collect();
        let first = texts.codes.iter().position(|&code| commas[code as usize])?;
        let value = cut(texts.names[texts.codes[first] as usize].as_bytes());
        let place = Place { row: batch.file_row(first) + 1, line: None };
        count.mostly_numbers().then_some(CommaCell { place, value })
    }

    /// Starts a pass over the wanted columns. A file can be scanned again and again, a pipe once.
    ///
    /// # Errors
    /// When a column is not there or cannot be had in the form wanted.
    pub fn scan(&self, wanted: &[Wanted]) -> Result<Scan, ReadError> {
        let found = field::find(&self.label, &self.fields, wanted)?;
        let remote = self.remote.clone();
        match self.format.scan(found) {
            Ok(pass) => Ok(Scan { pass, remote }),
            Err(error) => Err(error.or_failed_request(remote.as_ref())),
        }
    }
}

/// Whether a file is wrapped in gzip or zstd.
fn packed(file: &str, store: &Store) -> Result<bool, ReadError> {
    let start = store.start().map_err(|error| ReadError::Io { file: file.into(), error })?;
    Ok(start.starts_with(&store::GZIP) || start.starts_with(&store::ZSTD))
}
