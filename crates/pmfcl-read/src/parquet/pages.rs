//! The pages of a column, with dictionaries let go when they have served.
//!
//! Writers start each column chunk with a dictionary and give it up when it grows beyond a megabyte.
//! A reader of the whole chunk would keep that megabyte to the end, for every column. So a chunk is
//! given to the decoder in stretches: pages that need the dictionary, then pages that do not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::store::Store;

/// All row groups of a file, column by column.
pub(super) struct Groups {
    pub(super) store: Arc<Store>,
    pub(super) meta: Arc<ParquetMetaData>,
    pub(super) rows: usize,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(Stretches {
            store: Arc::clone(&self.store),
            meta: Arc::clone(&self.meta),
            column,
            groups: (0..self.meta.num_row_groups()).collect(),
            chunk: None,
        }))
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
    pages: SerializedPageReader<Store>,
    ahead: Option<Page>,
}

impl Stretches {
    fn pages(&self, group: usize) -> Result<SerializedPageReader<Store>> {
        let group = self.meta.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        SerializedPageReader::new(Arc::clone(&self.store), group.column(self.column), rows, None)
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
