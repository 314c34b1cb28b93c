//! The pages of a column, with dictionaries let go when they have served.
//!
//! Writers start each column chunk with a dictionary and give it up when it grows beyond a megabyte.
//! A reader of the whole chunk would keep that megabyte to the end, for every column. So a chunk is
//! given to the decoder in stretches: pages that need the dictionary, then pages that do not.

use std::collections::VecDeque;
use std::io::BufRead as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::footer::struct_len;
use crate::store::Store;

/// All row groups of a file, column by column.
pub(super) struct Groups {
    pub(super) store: Arc<Store>,
    pub(super) meta: Arc<ParquetMetaData>,
    pub(super) rows: usize,
    /// Whether a row is one value; the decoder looks ahead where it is a list.
    pub(super) flat: bool,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        let stretches = Stretches {
            store: Arc::clone(&self.store),
            meta: Arc::clone(&self.meta),
            column,
            groups: (0..self.meta.num_row_groups()).collect(),
            chunk: None,
        };
        Ok(if self.flat { Box::new(stretches) } else { Box::new(WholeChunks(stretches)) })
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.meta.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.meta
    }
}

/// The stretches of a column through all row groups.
struct Stretches {
    store: Arc<Store>,
    meta: Arc<ParquetMetaData>,
    column: usize,
    groups: VecDeque<usize>,
    /// The chunk being read, and its row group.
    chunk: Option<(Arc<Mutex<Chunk>>, usize)>,
}

/// A column chunk, and the page that was read and belongs to the next stretch.
struct Chunk {
    pages: SerializedPageReader<Checked>,
    ahead: Option<Page>,
}

impl Stretches {
    fn pages(&self, group: usize) -> Result<SerializedPageReader<Checked>> {
        let group = self.meta.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        let store = Arc::new(Checked::new(Arc::clone(&self.store)));
        SerializedPageReader::new(store, group.column(self.column), rows, None)
    }

    fn stretch(&mut self) -> Result<Option<Stretch>> {
        if let Some((chunk, group)) = &self.chunk {
            let ahead = lock(chunk).ahead.as_ref().map(Page::encoding);
            if let Some(encoding) = ahead {
                let needs = needs_dictionary(encoding);
                // A chunk may come back to its dictionary, though no writer is known to do so.
                let first = if needs { self.pages(*group)?.get_next_page()? } else { None };
                return Ok(Some(Stretch { chunk: Arc::clone(chunk), first, needs: Some(needs) }));
            }
        }
        let Some(group) = self.groups.pop_front() else { return Ok(None) };
        let chunk = Arc::new(Mutex::new(Chunk { pages: self.pages(group)?, ahead: None }));
        self.chunk = Some((Arc::clone(&chunk), group));
        Ok(Some(Stretch { chunk, first: None, needs: None }))
    }
}

impl Iterator for Stretches {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stretch().transpose().map(|s| s.map(|s| Box::new(s) as Box<dyn PageReader>))
    }
}

impl PageIterator for Stretches {}

/// The column of a list: each chunk as a whole.
struct WholeChunks(Stretches);

impl Iterator for WholeChunks {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.0.groups.pop_front()?;
        Some(self.0.pages(group).map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for WholeChunks {}

/// Pages that all need the dictionary, or all do not.
struct Stretch {
    chunk: Arc<Mutex<Chunk>>,
    /// The dictionary, read again.
    first: Option<Page>,
    /// Whether they need it; unknown before the first data page.
    needs: Option<bool>,
}

impl PageReader for Stretch {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        if let Some(dictionary) = self.first.take() {
            return Ok(Some(dictionary));
        }
        let mut chunk = lock(&self.chunk);
        let page = match chunk.ahead.take() {
            Some(page) => Some(page),
            None => chunk.pages.get_next_page()?,
        };
        match page {
            Some(page) if page.is_data_page() => {
                let needs = needs_dictionary(page.encoding());
                if *self.needs.get_or_insert(needs) == needs {
                    Ok(Some(page))
                } else {
                    chunk.ahead = Some(page);
                    Ok(None)
                }
            }
            other => Ok(other),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Err(ParquetError::General("pages are read in order".into()))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.get_next_page().map(drop)
    }
}

impl Iterator for Stretch {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn lock(chunk: &Mutex<Chunk>) -> std::sync::MutexGuard<'_, Chunk> {
    chunk.lock().unwrap_or_else(PoisonError::into_inner)
}

fn needs_dictionary(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

/// A file whose pages are looked at before they are unpacked: the decoder makes room for all that a page says it holds before it
/// unpacks the first byte. Pages of a column are read in order. A reader begins at the header of a page, or, where the decoder has
/// looked at that header before (it does so for lists, whose rows may go on in the next page), once at the bytes behind it.
struct Checked {
    store: Arc<Store>,
    /// Where the bytes behind the last header begin.
    content: AtomicU64,
}

impl Checked {
    /// Nothing has been read yet.
    fn new(store: Arc<Store>) -> Self {
        Self { store, content: AtomicU64::new(u64::MAX) }
    }

    /// Checks the header at `start`, whose first bytes these are. Headers of lists, which hold numbers, are wholly among them.
    fn check(&self, start: u64, head: &[u8]) -> Result<()> {
        let packed = check_sizes(head)
            .map_err(|what| ParquetError::General(format!("the page at byte {start} {what}")))?;
        // Without bytes behind it, what follows is the next header.
        if let (Some(1..), Some(len)) = (packed, struct_len(head)) {
            self.content.store(start + len as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Length for Checked {
    fn len(&self) -> u64 {
        Store::len(&self.store)
    }
}

impl ChunkReader for Checked {
    type T = <Store as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut reader = self.store.get_read(start)?;
        if self.content.swap(u64::MAX, Ordering::Relaxed) != start {
            self.check(start, reader.fill_buf()?)?;
        }
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.store.get_bytes(start, length)
    }
}

/// The most that a byte unpacks to, in zstd: a block of 128 kB that repeats one byte takes four; and what a page of no bytes may.
const UNPACKED: (i64, i64) = (1 << 15, 1 << 20);

/// Looks at the sizes that the header of a page begins with; gives how many bytes the page has. Types of fields are not looked at, as
/// in the decoder; what is cut off is for it to refuse.
fn check_sizes(head: &[u8]) -> std::result::Result<Option<i32>, String> {
    let mut bytes = head.iter().copied();
    let (mut field, mut sizes) = (0_i64, [None; 2]);
    while let Some(header) = bytes.next() {
        let step = i64::from(header >> 4);
        let next = if step == 0 { varint(&mut bytes) } else { Some(field + step) };
        let Some((next, value)) = next.zip(varint(&mut bytes)) else { return Ok(None) };
        field = next;
        match field {
            1 => {}
            2 => sizes[1] = Some(value as i32),
            3 => sizes[0] = Some(value as i32),
            _ => return Err("does not begin with its sizes".to_owned()),
        }
        if let [Some(packed), Some(unpacked)] = sizes {
            let (ratio, least) = UNPACKED;
            if i64::from(unpacked) > ratio * i64::from(packed.max(0)) + least {
                return Err(format!(
                    "says that {packed} bytes unpack to {unpacked}, which no codec does"
                ));
            }
            return Ok(Some(packed));
        }
    }
    Ok(None)
}

/// The next number, of seven bits a byte and zigzag.
fn varint(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first fields of a page header: type, unpacked and packed size, each zigzag.
    fn header(unpacked: i32, packed: i32) -> Vec<u8> {
        let mut bytes = vec![0x15, 0x04];
        for size in [unpacked, packed] {
            bytes.push(0x15);
            let mut value = (i64::from(size) << 1 ^ i64::from(size) >> 63) as u64;
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
        }
        bytes
    }

    #[test]
    fn a_page_that_cannot_hold_what_it_says_is_refused_before_room_is_made() {
        let checked = |unpacked, packed| check_sizes(&header(unpacked, packed));
        let said = |sizes: std::result::Result<Option<i32>, String>| sizes.unwrap_err();
        assert!(said(checked(1_429_623_194, 11)).contains("11 bytes unpack to 1429623194"));
        assert!(said(checked(i32::MAX, 1000)).contains("which no codec does"));
        // A page of a megabyte that is all the same, and one that is not packed.
        assert_eq!(checked(1 << 20, 30), Ok(Some(30)));
        assert_eq!(checked(1 << 30, 1 << 30), Ok(Some(1 << 30)));
        assert_eq!(checked(0, 0), Ok(Some(0)));
        // Sizes behind another field, by which they would not be seen; what is cut off is for the decoder.
        let hidden = [&[0x45, 0x02][..], &header(1_429_623_194, 11)].concat();
        assert!(said(check_sizes(&hidden)).contains("does not begin with its sizes"));
        assert_eq!(check_sizes(&[]), Ok(None));
        assert_eq!(check_sizes(&[0x15; 3]), Ok(None));
        assert_eq!(check_sizes(&[0xFF; 40]), Ok(None));
        let store = Arc::new(Store::Memory(header(1_429_623_194, 11).into()));
        let message = Checked::new(store).get_read(0).err().expect("refused").to_string();
        assert!(message.contains("the page at byte 0 says"), "{message}");
    }
}
