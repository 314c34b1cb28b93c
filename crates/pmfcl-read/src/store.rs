//! Where the bytes of a file come from: the disk, memory, a pipe or another machine.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use crate::remote::{Remote, remote_address};
use crate::{ReadError, RemoteFiles};

/// How gzip files start.
pub(crate) const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How zstd files start.
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes that can be read at any place, by several threads at once.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    /// A file on disk, read with positioned reads: handles that were cloned would share one seat.
    File {
        /// The open file.
        file: Arc<File>,
        /// Its size when it was opened.
        len: u64,
        /// Memory to read into.
        pool: Pool,
    },
    /// Bytes in memory.
    Memory(Bytes),
    /// A packed stretch of another store, unpacked when it is first read.
    Packed(Arc<Packed>),
    /// A file that lies elsewhere.
    Remote(Remote),
}

/// Most bytes that are unpacked into memory out of one file.
pub(crate) const MOST_UNPACKED: u64 = 4 << 30;
/// Deflate makes at most 1032 bytes of one; a member that says more lies.
const LARGEST_RATIO: u64 = 1040;

/// A stretch of deflated bytes.
#[derive(Debug)]
pub(crate) struct Packed {
    store: Store,
    at: u64,
    len: u64,
    whole: u64,
    /// What has been unpacked out of the file so far.
    used: Arc<AtomicU64>,
    bytes: OnceLock<Result<Bytes, String>>,
}

impl Packed {
    /// `len` bytes at `at` that unpack to `whole`. Nothing is unpacked yet.
    pub(crate) fn new(
        store: &Store,
        (at, len): (u64, u64),
        whole: u64,
        used: &Arc<AtomicU64>,
    ) -> Result<Self, String> {
        if whole > len.saturating_mul(LARGEST_RATIO).saturating_add(LARGEST_RATIO) {
            return Err(format!("{len} bytes cannot unpack to {whole}"));
        }
        let (store, used) = (store.clone(), Arc::clone(used));
        Ok(Self { store, at, len, whole, used, bytes: OnceLock::new() })
    }

    fn unpacking(&self) -> impl Read {
        let raw = BufReader::new(self.store.reader(self.at).take(self.len));
        flate2::bufread::DeflateDecoder::new(raw)
    }

    /// The first bytes, at most `most`, without the rest.
    pub(crate) fn start(&self, most: u64) -> Result<Bytes, String> {
        let mut out = Vec::new();
        let read = self.unpacking().take(most.min(self.whole)).read_to_end(&mut out);
        read.map_err(|e| format!("it does not unpack: {e}"))?;
        Ok(out.into())
    }

    fn unpacked(&self) -> io::Result<&Bytes> {
        let bytes = self.bytes.get_or_init(|| {
            let before = self.used.fetch_add(self.whole, Ordering::Relaxed);
            if before.saturating_add(self.whole) > MOST_UNPACKED {
                return Err(format!(
                    "its arrays unpack to more than {MOST_UNPACKED} bytes of memory; save them unpacked (numpy.savez), which \
                     are read piece by piece"
                ));
            }
            let bytes = self.start(self.whole)?;
            if bytes.len() as u64 == self.whole {
                Ok(bytes)
            } else {
                Err("it unpacks to less than the zip says".to_owned())
            }
        });
        bytes.as_ref().map_err(|what| io::Error::new(io::ErrorKind::InvalidData, what.clone()))
    }
}

/// Buffers that come back after use: a new one would be filled with zeros, and the system would have
/// to find its pages, for every page of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer on loan.
struct Lent {
    bytes: Vec<u8>,
    pool: Pool,
}

impl Pool {
    /// How many buffers wait, and how large they may be.
    const WAITING: usize = 4;
    const LARGEST: usize = 4 << 20;

    fn lend(&self, len: usize) -> Lent {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = waiting.pop().unwrap_or_default();
        drop(waiting);
        if bytes.len() < len {
            bytes = vec![0; len];
        }
        Lent { bytes, pool: self.clone() }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut waiting = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < Pool::WAITING && self.bytes.len() <= Pool::LARGEST {
            waiting.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A thing opened: to be read anywhere, or from front to back once.
pub(crate) enum Opened {
    /// A regular file or bytes in memory.
    Store(Store),
    /// A pipe.
    Pipe(Box<dyn Read + Send>),
}

/// Opens a file; `-` is standard input.
pub(crate) fn open(
    path: &Path,
    name: &str,
    remote: Option<&dyn RemoteFiles>,
) -> Result<Opened, ReadError> {
    if path.as_os_str() == "-" {
        return Ok(Opened::Pipe(Box::new(io::stdin())));
    }
    let fail = |error| ReadError::Open { file: name.into(), error };
    if let Some(address) = remote_address(path) {
        let remote = remote.ok_or_else(|| ReadError::NotRemote { file: name.into() })?;
        let file = remote.open(address).map_err(fail)?;
        return Ok(Opened::Store(Store::Remote(Remote::new(file))));
    }
    let meta = std::fs::metadata(path).map_err(fail)?;
    if meta.is_dir() {
        return Err(ReadError::Folder { file: name.into() });
    }
    let file = File::open(path).map_err(fail)?;
    if meta.is_file() {
        Ok(Opened::Store(Store::File {
            file: Arc::new(file),
            len: meta.len(),
            pool: Pool::default(),
        }))
    } else {
        Ok(Opened::Pipe(Box::new(file)))
    }
}

#[cfg(unix)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buf, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buf, offset)
}

impl Store {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Packed(packed) => packed.whole,
            Self::Remote(remote) => remote.len(),
        }
    }

    /// Reads some bytes at `offset`; 0 at the end.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Self::File { file, .. } => loop {
                match read_at(file, buf, offset) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            },
            Self::Packed(packed) => Self::Memory(packed.unpacked()?.clone()).read_at(buf, offset),
            Self::Remote(remote) => remote.read_at(buf, offset),
            Self::Memory(bytes) => {
                let from = (offset.min(bytes.len() as u64)) as usize;
                let n = buf.len().min(bytes.len() - from);
                buf[..n].copy_from_slice(&bytes[from..from + n]);
                Ok(n)
            }
        }
    }

    /// `len` bytes at `offset`. Never allocates more than the file holds.
    pub(crate) fn bytes(&self, offset: u64, len: usize) -> io::Result<Bytes> {
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.len());
        let Some(end) = end else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("bytes {offset}..{} lie beyond the end", offset.saturating_add(len as u64)),
            ));
        };
        match self {
            Self::Memory(bytes) => Ok(bytes.slice(offset as usize..end as usize)),
            Self::Packed(packed) => Ok(packed.unpacked()?.slice(offset as usize..end as usize)),
            Self::Remote(remote) => remote.bytes(offset, len),
            Self::File { pool, .. } => {
                let mut lent = pool.lend(len);
                let mut done = 0;
                while done < len {
                    match self.read_at(&mut lent.bytes[done..len], offset + done as u64)? {
                        0 => {
                            return Err(io::Error::new(
                                io::ErrorKind::UnexpectedEof,
                                "the file became shorter while it was read",
                            ));
                        }
                        n => done += n,
                    }
                }
                Ok(Bytes::from_owner(lent).slice(..len))
            }
        }
    }

    /// The same bytes, of which these ranges will be read, by `columns` readers that each go through them once.
    pub(crate) fn planned(&self, ranges: Vec<Range<u64>>, columns: usize) -> Self {
        match self {
            Self::Remote(remote) => Self::Remote(remote.planned(ranges, columns)),
            other => other.clone(),
        }
    }

    /// Reads from `offset` on.
    pub(crate) fn reader(&self, offset: u64) -> StoreReader {
        StoreReader { store: self.clone(), at: offset }
    }

    /// The first bytes, at most 16: enough to tell formats apart.
    pub(crate) fn start(&self) -> io::Result<Bytes> {
        self.bytes(0, self.len().min(16) as usize)
    }
}

/// Reads a store from front to back.
pub(crate) struct StoreReader {
    store: Store,
    at: u64,
}

impl Read for StoreReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.store.read_at(buf, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Counts the bytes that pass.
pub(crate) struct Counting<R> {
    inner: R,
    passed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.passed.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Text that comes out of a file from front to back, unpacked on the way.
pub(crate) struct Flow {
    reader: Box<dyn Read + Send>,
    passed: Arc<AtomicU64>,
}

impl Flow {
    /// Unpacks gzip and zstd, recognized by their first bytes.
    pub(crate) fn new(raw: Box<dyn Read + Send>) -> io::Result<Self> {
        let passed = Arc::new(AtomicU64::new(0));
        let mut raw = Counting { inner: raw, passed: Arc::clone(&passed) };
        let mut start = Vec::with_capacity(4);
        (&mut raw).take(4).read_to_end(&mut start)?;
        let magic: [u8; 4] = start.as_slice().try_into().unwrap_or_default();
        let whole = Cursor::new(start).chain(raw);
        let reader: Box<dyn Read + Send> = if magic[..2] == GZIP {
            Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 16, whole)))
        } else if magic == ZSTD {
            zstd_reader(whole)?
        } else {
            Box::new(whole)
        };
        Ok(Self { reader, passed })
    }

    /// Appends up to `most` bytes of what is left, as they come: nothing is allocated on the word of a header.
    pub(crate) fn read_up_to(&mut self, buf: &mut Vec<u8>, most: u64) -> io::Result<usize> {
        (&mut self.reader).take(most).read_to_end(buf)
    }

    /// How many bytes of the file itself have been read.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Appends up to `n` bytes; fewer only at the end.
    pub(crate) fn fill(&mut self, buf: &mut Vec<u8>, n: usize) -> io::Result<usize> {
        buf.reserve(n);
        (&mut self.reader).take(n as u64).read_to_end(buf)
    }
}

#[cfg(feature = "formats")]
fn zstd_reader(packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Ok(Box::new(zstd::stream::read::Decoder::new(packed)?))
}

#[cfg(not(feature = "formats"))]
fn zstd_reader(_: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    Err(io::Error::other(crate::error::NotBuilt("zstd").to_string()))
}

/// Where a flow comes from: a store can be read again, a pipe once.
pub(crate) enum Spring {
    /// Read from the start each time.
    Store(Store),
    /// What was read to look at it, and the rest.
    Pipe(Mutex<Option<(Vec<u8>, Flow)>>),
}

impl Spring {
    /// The flow from its start, with what has been read of it already.
    pub(crate) fn flow(&self, file: &str) -> Result<(Vec<u8>, Flow), ReadError> {
        match self {
            Self::Store(store) => Flow::new(Box::new(store.reader(0)))
                .map(|flow| (Vec::new(), flow))
                .map_err(|error| ReadError::Io { file: file.into(), error }),
            Self::Pipe(once) => once
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| ReadError::Once { file: file.into() }),
        }
    }
}
