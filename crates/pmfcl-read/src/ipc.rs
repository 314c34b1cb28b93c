//! Arrow IPC, file and stream: record batches that lie in the file as they lie in memory.
//!
//! The lengths in a file are checked against its size before anything is reserved for them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::SchemaRef;

use crate::columnar::{self, Converter};
use crate::field::Found;
use crate::scan::{Format, Pass, Piece, guarded, piece_rows};
use crate::source::Contents;
use crate::store::Store;
use crate::{Batch, Options, ReadError};

const FORMAT: &str = "Arrow";
const CUT: &str = "it was cut off";
/// No single column of a batch is larger when unpacked.
const LARGEST_BUFFER: i64 = 1 << 31;

/// A message in the file.
#[derive(Clone, Copy, Debug)]
struct Part {
    block: Block,
    /// The rows of a batch; `None` for a dictionary.
    rows: Option<u64>,
}

/// Opens an Arrow file or stream.
pub(crate) fn open(file: &str, store: Store, options: &Options) -> Result<Contents, ReadError> {
    let damaged = |what: String| ReadError::Damaged { file: file.into(), format: FORMAT, what };
    let start = store.start().map_err(|error| ReadError::Io { file: file.into(), error })?;
    let read = if start.starts_with(b"ARROW1") {
        file_parts
    } else if start.starts_with(b"FEA1") {
        return Err(damaged(
            "it is of the old Feather format 1; write it again as Feather 2".into(),
        ));
    } else {
        stream_parts
    };
    let (schema, version, parts) = guarded(|| read(&store)).and_then(|r| r).map_err(damaged)?;
    let fields = columnar::fields(schema.fields());
    let index = columnar::index_columns(&schema);
    let rows = parts.iter().filter_map(|p| p.rows).try_fold(0_u64, u64::checked_add);
    let rows = rows.ok_or_else(|| damaged("it has an impossible number of rows".into()))?;
    let format = Ipc { file: file.into(), store, schema, version, parts, options: options.clone() };
    Ok(Contents { index, ..Contents::new(fields, Some(rows), Box::new(format)) })
}

type Parts = (SchemaRef, MetadataVersion, Vec<Part>);

/// The parts of a file, from the table at its end.
fn file_parts(store: &Store) -> Result<Parts, String> {
    let len = store.len();
    let trailer = len.checked_sub(10).and_then(|at| store.bytes(at, 10).ok()).ok_or(CUT)?;
    if &trailer[4..] != b"ARROW1" {
        return Err("its end is missing; the file was cut off".into());
    }
    let size = i32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]);
    let size = u64::try_from(size).map_err(|_| CUT)?;
    let at = (len - 10).checked_sub(size).ok_or(CUT)?;
    let footer = store.bytes(at, size as usize).map_err(|e| e.to_string())?;
    let footer = root_as_footer(&footer).map_err(|e| format!("its footer is broken: {e}"))?;
    let schema = footer.schema().ok_or("it has no schema")?;
    let mut parts = Vec::new();
    for block in footer.dictionaries().iter().flatten() {
        parts.push(part(store, *block)?);
    }
    for block in footer.recordBatches().iter().flatten() {
        parts.push(part(store, *block)?);
    }
    let schema = try_fb_to_schema(schema).map_err(|e| e.to_string())?;
    Ok((Arc::new(schema), footer.version(), parts))
}

/// The parts of a stream, from message to message.
fn stream_parts(store: &Store) -> Result<Parts, String> {
    let len = store.len();
    let mut at = 0;
    let mut schema = None;
    let mut parts = Vec::new();
    while at + 4 <= len {
        let word = |at: u64| -> Result<u32, String> {
            let b = store.bytes(at, 4).map_err(|_| CUT.to_string())?;
            Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        // Since 2019 a length goes after four bytes of ones.
        let (prefix, size) = match word(at)? {
            u32::MAX => (8, word(at + 4)?),
            size => (4, size),
        };
        if size == 0 {
            break;
        }
        let size = u64::from(size);
        let head = len.checked_sub(at + prefix).filter(|&rest| size <= rest);
        head.ok_or("it does not look like Arrow, or it was cut off")?;
        let meta = store.bytes(at + prefix, size as usize).map_err(|e| e.to_string())?;
        let message = root_as_message(&meta)
            .map_err(|_| "it does not look like Arrow: neither file nor stream".to_string())?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| CUT)?;
        if let Some(found) = message.header_as_schema() {
            let found = try_fb_to_schema(found).map_err(|e| e.to_string())?;
            schema = Some((Arc::new(found), message.version()));
        } else {
            let offset = i64::try_from(at).map_err(|_| CUT)?;
            let head = i32::try_from(prefix + size).map_err(|_| CUT)?;
            parts.push(part(store, Block::new(offset, head, message.bodyLength()))?);
        }
        at = (at + prefix + size).checked_add(body).ok_or(CUT)?;
    }
    let (schema, version) = schema.ok_or("it has no schema")?;
    Ok((schema, version, parts))
}

/// Checks that a message lies in the file, and looks at how many rows it has.
fn part(store: &Store, block: Block) -> Result<Part, String> {
    let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
    let [at, head, body] = parts.map(u64::try_from);
    let (at, head, body) = (at.map_err(|_| CUT)?, head.map_err(|_| CUT)?, body.map_err(|_| CUT)?);
    let end = at.checked_add(head).and_then(|end| end.checked_add(body));
    if end.is_none_or(|end| end > store.len()) {
        return Err(CUT.into());
    }
    let meta = store.bytes(at, head as usize).map_err(|e| e.to_string())?;
    let message = message(&meta)?;
    let rows = match message.header_type() {
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch().ok_or("a batch is broken")?;
            Some(u64::try_from(batch.length()).map_err(|_| "a batch of impossible length")?)
        }
        MessageHeader::DictionaryBatch => None,
        _ => return Err("a part of it is neither a batch nor a dictionary".into()),
    };
    Ok(Part { block, rows })
}

/// The message behind its length.
fn message(meta: &[u8]) -> Result<arrow_ipc::Message<'_>, String> {
    let skip = if meta.starts_with(&[0xff; 4]) { 8 } else { 4 };
    let body = meta.get(skip..).ok_or(CUT)?;
    root_as_message(body).map_err(|e| format!("a message is broken: {e}"))
}

/// Refuses packed columns that claim to be larger than any column is.
fn check_buffers(buf: &[u8], head: usize) -> Result<(), String> {
    let message = message(buf.get(..head).ok_or(CUT)?)?;
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|d| d.data()));
    let Some(batch) = batch.filter(|b| b.compression().is_some()) else { return Ok(()) };
    let body = &buf[head..];
    for buffer in batch.buffers().iter().flatten() {
        let start = usize::try_from(buffer.offset()).map_err(|_| CUT)?;
        if buffer.length() < 8 {
            continue;
        }
        let prefix = start.checked_add(8).and_then(|end| body.get(start..end)).ok_or(CUT)?;
        let size = i64::from_le_bytes(prefix.try_into().map_err(|_| CUT)?);
        if size > LARGEST_BUFFER {
            return Err("a packed column claims an impossible size".into());
        }
    }
    Ok(())
}

struct Ipc {
    file: Arc<str>,
    store: Store,
    schema: SchemaRef,
    version: MetadataVersion,
    parts: Vec<Part>,
    options: Options,
}

impl Format for Ipc {
    fn scan(&self, found: Vec<Found>) -> Result<Box<dyn Pass>, ReadError> {
        let piece_rows = piece_rows(&self.options, &found);
        let mut projection: Vec<usize> = found.iter().map(|f| f.at).collect();
        projection.sort_unstable();
        projection.dedup();
        let places = found
            .iter()
            .map(|f| projection.binary_search(&f.at).expect("every column found is projected"))
            .collect();
        let decoder =
            FileDecoder::new(Arc::clone(&self.schema), self.version).with_projection(projection);
        let converter = Converter::new(&self.file, FORMAT, found, &self.options)?;
        let cutter = Cutter {
            store: self.store.clone(),
            decoder,
            parts: self.parts.clone().into(),
            piece_rows,
            waiting: None,
            index: 0,
            row: 0,
            passed: 0,
        };
        Ok(Box::new(IpcPass { converter, places, cutter: Mutex::new(cutter) }))
    }
}

struct IpcPass {
    converter: Converter,
    /// Where among the columns read each wanted one is.
    places: Vec<usize>,
    cutter: Mutex<Cutter>,
}

struct Cutter {
    store: Store,
    decoder: FileDecoder,
    parts: VecDeque<Part>,
    piece_rows: usize,
    /// A batch of which rows from some row on are to be handed out, and where its bytes end.
    waiting: Option<(RecordBatch, usize, u64)>,
    index: usize,
    row: u64,
    passed: u64,
}

impl Pass for IpcPass {
    fn next(&self) -> Result<Option<Piece>, ReadError> {
        let mut cutter = self.cutter.lock().unwrap_or_else(PoisonError::into_inner);
        guarded(|| cutter.next())
            .and_then(|piece| piece)
            .map_err(|what| self.converter.damaged(what))
    }

    fn decode(&self, mut piece: Piece) -> Result<Batch, ReadError> {
        let content = std::mem::replace(&mut piece.content, Box::new(()));
        let batch = content.downcast::<RecordBatch>().expect("a piece of this scan");
        let arrays = self.places.iter().map(|&c| Ok(batch.column(c).clone()));
        guarded(|| self.converter.batch(&piece, arrays))
            .map_err(|what| self.converter.damaged(what))?
    }
}

impl Cutter {
    fn next(&mut self) -> Result<Option<Piece>, String> {
        loop {
            if let Some((batch, start, end)) = self.waiting.take() {
                let rows = (batch.num_rows() - start).min(self.piece_rows);
                if rows > 0 {
                    let piece = Piece {
                        index: self.index,
                        bytes: end.saturating_sub(self.passed),
                        first_row: self.row,
                        rows,
                        content: Box::new(batch.slice(start, rows)),
                    };
                    self.passed = end;
                    self.index += 1;
                    self.row += rows as u64;
                    self.waiting = Some((batch, start + rows, end));
                    return Ok(Some(piece));
                }
            }
            let Some(part) = self.parts.pop_front() else { return Ok(None) };
            let block = part.block;
            let head = block.metaDataLength() as usize;
            let at = block.offset() as u64;
            let bytes = self
                .store
                .bytes(at, head + block.bodyLength() as usize)
                .map_err(|e| e.to_string())?;
            check_buffers(&bytes, head)?;
            let end =
                if self.parts.is_empty() { self.store.len() } else { at + bytes.len() as u64 };
            let buffer = Buffer::from(bytes);
            if part.rows.is_none() {
                self.decoder.read_dictionary(&block, &buffer).map_err(|e| e.to_string())?;
                continue;
            }
            let batch =
                self.decoder.read_record_batch(&block, &buffer).map_err(|e| e.to_string())?;
            let batch = batch.ok_or("a batch is missing")?;
            if batch.columns().iter().any(|c| c.len() != batch.num_rows()) {
                return Err("its columns differ in length".into());
            }
            self.waiting = Some((batch, 0, end));
        }
    }
}
