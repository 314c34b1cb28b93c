//! Parquet: column chunks of pages.
//!
//! Writers make row groups of a million rows and pages of a megabyte, so pieces are row ranges that
//! have nothing to do with either. Each wanted column has one reader that goes through the file once;
//! threads that decode neighbouring pieces follow each other from column to column. A thread that
//! comes first to a column puts aside what the earlier piece needs of it, so pieces may be decoded in
//! any order without anybody waiting for anybody.

mod chunks;
mod footer;
mod pages;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

use pages::Groups;

use crate::columnar::{self, Converter};
use crate::field::Found;
use crate::scan::{Format, Pass, Piece, Ranges, guarded, piece_rows};
use crate::source::Contents;
use crate::store::Store;
use crate::{Batch, Options, ReadError};

const FORMAT: &str = "Parquet";

/// Opens a Parquet file by its footer.
pub(crate) fn open(file: &str, store: Store, options: &Options) -> Result<Contents, ReadError> {
    let damaged = |what: String| ReadError::Damaged { file: file.into(), format: FORMAT, what };
    let io = |error| ReadError::Io { file: file.into(), error };
    let len = store.len();
    let start = store.start().map_err(io)?;
    if start.starts_with(b"PARE") {
        return Err(damaged("it is encrypted".into()));
    }
    if !start.starts_with(b"PAR1") {
        return Err(damaged("it does not start with PAR1".into()));
    }
    if len < 12 || store.bytes(len - 4, 4).map_err(io)? != b"PAR1"[..] {
        return Err(damaged("its end is missing; the file was cut off".into()));
    }
    let tail = store.bytes(len - 8, 4).map_err(io)?;
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let at = (len - 8).checked_sub(footer).filter(|at| *at >= 4);
    let at = at.ok_or_else(|| damaged("its footer is longer than the file".into()))?;
    if !footer::is_sound(&store.bytes(at, footer as usize).map_err(io)?) {
        return Err(damaged("its footer is not the one of a Parquet file".into()));
    }
    let meta = guarded(|| ArrowReaderMetadata::load(&store, ArrowReaderOptions::new()))
        .map_err(&damaged)?
        .map_err(|e| damaged(e.to_string()))?;
    let fields = columnar::fields(meta.schema().fields());
    let index = columnar::index_columns(meta.schema());
    let groups = meta.metadata().row_groups();
    let rows = groups
        .iter()
        .try_fold(0_u64, |sum, g| sum.checked_add(u64::try_from(g.num_rows()).ok()?))
        .ok_or_else(|| damaged("a row group of impossible size".into()))?;
    let format = Parquet { file: file.into(), store, meta, rows, options: options.clone() };
    Ok(Contents { index, ..Contents::new(fields, Some(rows), Box::new(format)) })
}

struct Parquet {
    file: Arc<str>,
    store: Store,
    meta: ArrowReaderMetadata,
    rows: u64,
    options: Options,
}

impl Format for Parquet {
    fn scan(&self, found: Vec<Found>) -> Result<Box<dyn Pass>, ReadError> {
        // Never more than there are: readers make room for a whole piece.
        let piece_rows = piece_rows(&self.options, &found).min(self.rows.max(1) as usize);
        let converter = Converter::new(&self.file, FORMAT, found, &self.options)?;
        let roots: Vec<usize> = converter.found.iter().map(|f| f.at).collect();
        let store = guarded(|| self.planned(&roots)).map_err(|what| converter.damaged(what))?;
        let columns = converter
            .found
            .iter()
            .map(|f| {
                let build = || self.reader(&store, f.at, piece_rows);
                let reader = guarded(build)
                    .map_err(|what| converter.damaged(what))?
                    .map_err(|e| converter.damaged(e.to_string()))?;
                Ok(Mutex::new(Progress { reader, next: 0, aside: BTreeMap::new() }))
            })
            .collect::<Result<_, ReadError>>()?;
        Ok(Box::new(ParquetPass {
            converter,
            columns,
            ranges: Ranges::new(self.rows, piece_rows, self.store.len()),
        }))
    }
}

impl Parquet {
    /// The store, prepared for reading the chunks of these columns.
    fn planned(&self, roots: &[usize]) -> Store {
        if !matches!(self.store, Store::Remote(_)) {
            return self.store.clone();
        }
        let schema = self.meta.parquet_schema();
        let leaves: Vec<usize> = (0..schema.num_columns())
            .filter(|&leaf| roots.contains(&schema.get_column_root_idx(leaf)))
            .collect();
        let groups = self.meta.metadata().row_groups().iter();
        let ranges = groups.flat_map(|group| {
            leaves.iter().map(|&leaf| {
                let (start, len) = group.column(leaf).byte_range();
                start..start.saturating_add(len)
            })
        });
        self.store.planned(ranges.collect(), leaves.len())
    }

    /// A reader of one column.
    fn reader(
        &self,
        store: &Store,
        at: usize,
        rows: usize,
    ) -> Result<ParquetRecordBatchReader, ParquetError> {
        let schema = self.meta.parquet_schema();
        let mask = ProjectionMask::roots(schema, [at]);
        let flat = (0..schema.num_columns())
            .filter(|&leaf| schema.get_column_root_idx(leaf) == at)
            .all(|leaf| schema.column(leaf).max_rep_level() == 0);
        let fields = self.meta.schema().fields();
        let levels = parquet_to_arrow_field_levels(schema, mask, Some(fields))?;
        let groups = Groups {
            store: Arc::new(store.clone()),
            meta: Arc::clone(self.meta.metadata()),
            rows: self.rows as usize,
            flat,
        };
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, rows, None)
    }
}

struct ParquetPass {
    converter: Converter,
    columns: Vec<Mutex<Progress>>,
    ranges: Ranges,
}

/// How far a column has been read.
struct Progress {
    reader: ParquetRecordBatchReader,
    /// The piece that comes next.
    next: usize,
    /// What was read for pieces that have not asked yet.
    aside: BTreeMap<usize, ArrayRef>,
}

impl Pass for ParquetPass {
    fn next(&self) -> Result<Option<Piece>, ReadError> {
        Ok(self.ranges.next())
    }

    fn decode(&self, piece: Piece) -> Result<Batch, ReadError> {
        let arrays = self.columns.iter().map(|column| {
            let mut progress = column.lock().unwrap_or_else(PoisonError::into_inner);
            guarded(|| progress.take(piece.index))
                .and_then(|array| array)
                .map_err(|what| self.converter.damaged(what))
        });
        self.converter.batch(&piece, arrays)
    }
}

impl Progress {
    /// The values of piece `index`.
    fn take(&mut self, index: usize) -> Result<ArrayRef, String> {
        if let Some(array) = self.aside.remove(&index) {
            return Ok(array);
        }
        while self.next <= index {
            let batch = self.reader.next().ok_or("it has fewer rows than it says")?;
            let array = batch.map_err(|e| e.to_string())?.column(0).clone();
            self.next += 1;
            if self.next > index {
                return Ok(array);
            }
            self.aside.insert(self.next - 1, array);
        }
        Err("a piece was decoded twice".into())
    }
}
