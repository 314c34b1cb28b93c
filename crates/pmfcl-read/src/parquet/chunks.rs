//! A store as the Parquet decoder reads it.

use std::io::{self, BufReader, Read};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::store::{Store, StoreReader};

impl Length for Store {
    fn len(&self) -> u64 {
        Store::len(self)
    }
}

/// Reads a store in which more must come: at its end is an error. The parser of page headers skips bytes that
/// are not there without noticing, as often as a broken header says.
pub(crate) struct More(StoreReader);

impl Read for More {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 if !buf.is_empty() => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a page is cut off"))
            }
            n => Ok(n),
        }
    }
}

impl ChunkReader for Store {
    type T = BufReader<More>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        // Page headers are some dozens of bytes.
        Ok(BufReader::with_capacity(512, More(self.reader(start))))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.bytes(start, length).map_err(|e| ParquetError::External(Box::new(e)))
    }
}
