//! Files that lie elsewhere, such as in an object store. Every read is a request, so few and large ones are made.
//!
//! What is read in order, or here and there, comes in windows that grow while they follow each other. Of a
//! Parquet file the ranges that will be needed are known; those that lie close together are one request.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// A file that is read in ranges, each of which costs a request.
pub trait RemoteFile: Send + Sync + fmt::Debug {
    /// How many bytes it has.
    fn size(&self) -> u64;

    /// What changes whenever the file does, such as its `ETag`; `None` where the server has nothing of the kind.
    fn version(&self) -> Option<String>;

    /// Exactly these bytes.
    ///
    /// # Errors
    /// When they cannot be had, or when the file is no longer the one that was opened.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

/// Opens files by their address.
pub trait RemoteFiles: Send + Sync + fmt::Debug {
    /// The file at an address such as `s3://bucket/file.parquet`.
    ///
    /// # Errors
    /// When the file is not there or cannot be had.
    fn open(&self, address: &str) -> io::Result<Arc<dyn RemoteFile>>;
}

/// The schemes of addresses; everything else is a path.
const SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "abfs", "abfss", "http", "https"];

/// The address that a path really is: `s3://…`, `gs://…`, `az://…`, `https://…`.
pub fn remote_address(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(text)
}

/// An address for messages, without what may be a secret: a query, or a password before the host.
pub(crate) fn shown(address: &str) -> String {
    let plain = address.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("://") else { return plain.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match host.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("{scheme}://…@{host}{path}"),
        _ => plain.to_owned(),
    }
}

/// The first window at a new place: most footers and headers fit in it.
const SMALL: u64 = 64 << 10;
/// The largest window, and the largest part of a plan.
const LARGE: u64 = 8 << 20;
/// Windows that are kept, and how large they may be.
const WINDOWS: usize = 4;
const KEPT: u64 = 16 << 20;
/// Ranges of a plan with less between them are one request: that much costs less than another request.
const GAP: u64 = 256 << 10;
/// Memory that the parts of a plan may take, shared out among its columns.
const PLANNED: u64 = 128 << 20;
/// The least share of a column.
const LEAST: u64 = 256 << 10;

/// A remote file with what has been read of it lately.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    file: Arc<dyn RemoteFile>,
    /// The latest one is the last.
    windows: Arc<Mutex<Vec<Window>>>,
    plan: Option<Arc<Plan>>,
    /// Why a request failed: decoders on the way up turn errors into texts about broken files.
    failure: Arc<Mutex<Option<Failure>>>,
}

#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    what: String,
}

#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Bytes,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn from(&self, at: u64) -> Bytes {
        self.bytes.slice((at - self.start) as usize..)
    }
}

impl Remote {
    pub(crate) fn new(file: Arc<dyn RemoteFile>) -> Self {
        Self { file, windows: Arc::default(), plan: None, failure: Arc::default() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.file.size()
    }

    /// The same file, of which these ranges will be read, by `columns` readers that each go through the file once.
    pub(crate) fn planned(&self, ranges: Vec<Range<u64>>, columns: usize) -> Self {
        let plan = Plan::new(ranges, columns, self.len());
        Self { plan: Some(Arc::new(plan)), ..self.clone() }
    }

    /// The error of the last request that failed.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let failure = lock(&self.failure).clone();
        failure.map(|f| io::Error::new(f.kind, f.what))
    }

    /// `len` bytes at `at`, which the file must have.
    pub(crate) fn bytes(&self, at: u64, len: usize) -> io::Result<Bytes> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let mut first = self.some(at, len as u64)?;
        if first.len() >= len {
            first.truncate(len);
            return Ok(first);
        }
        let mut all = first.to_vec();
        while all.len() < len {
            let missing = len - all.len();
            let more = self.some(at + all.len() as u64, missing as u64)?;
            all.extend_from_slice(&more[..missing.min(more.len())]);
        }
        Ok(all.into())
    }

    /// Reads some bytes at `at`; 0 at the end.
    pub(crate) fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.len() || buf.is_empty() {
            return Ok(0);
        }
        let bytes = self.some(at, 1)?;
        let n = buf.len().min(bytes.len());
        buf[..n].copy_from_slice(&bytes[..n]);
        Ok(n)
    }

    /// Bytes from `at` on, at least one; `want` of them are needed.
    fn some(&self, at: u64, want: u64) -> io::Result<Bytes> {
        if let Some(plan) = &self.plan
            && let Some(part) = plan.find(at)
        {
            return plan.read(part, at, |range| self.fetch(range));
        }
        // Windows are for reading in order: who waits here would wait for the same window.
        let mut windows = lock(&self.windows);
        if let Some(place) = windows.iter().position(|w| (w.start..w.end()).contains(&at)) {
            let window = windows.remove(place);
            let bytes = window.from(at);
            windows.push(window);
            return Ok(bytes);
        }
        let before = windows.iter().find(|w| w.end() == at).map(|w| w.bytes.len() as u64);
        let size = before.map_or(SMALL, |len| (2 * len).clamp(SMALL, LARGE)).max(want);
        let end = at.saturating_add(size).min(self.len());
        // A footer lies before the bytes that end the file.
        let start = if before.is_none() { at.min(end.saturating_sub(size)) } else { at };
        let window = Window { start, bytes: self.fetch(start..end)? };
        let bytes = window.from(at);
        if end - start <= KEPT {
            if windows.len() == WINDOWS {
                windows.remove(0);
            }
            windows.push(window);
        }
        Ok(bytes)
    }

    /// One request.
    fn fetch(&self, range: Range<u64>) -> io::Result<Bytes> {
        let expected = range.end - range.start;
        let bytes = self.file.read(range).and_then(|bytes| {
            if bytes.len() as u64 == expected {
                Ok(bytes)
            } else {
                let what = format!("{} bytes came where {expected} were asked for", bytes.len());
                Err(io::Error::new(io::ErrorKind::InvalidData, what))
            }
        });
        bytes.inspect_err(|error| {
            let failure = Failure { kind: error.kind(), what: error.to_string() };
            *lock(&self.failure) = Some(failure);
        })
    }
}

/// The ranges of a file that will be read, cut into parts that are one request each.
#[derive(Debug)]
struct Plan {
    /// In order, without overlap.
    parts: Vec<Part>,
    /// The parts in memory.
    live: Mutex<Vec<usize>>,
    /// Bytes that may be in memory: readers that go side by side never read a part twice.
    kept: u64,
    clock: AtomicU64,
}

#[derive(Debug)]
struct Part {
    range: Range<u64>,
    bytes: Mutex<Option<Bytes>>,
    /// When it was last read.
    used: AtomicU64,
}

impl Plan {
    fn new(mut ranges: Vec<Range<u64>>, columns: usize, len: u64) -> Self {
        let columns = columns.max(1) as u64;
        let largest = (PLANNED / columns).clamp(LEAST, LARGE);
        ranges.retain_mut(|range| {
            range.end = range.end.min(len);
            range.start < range.end
        });
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for mut range in ranges {
            if let Some(last) = joined.last_mut() {
                let end = last.end.max(range.end);
                if range.start <= last.end.saturating_add(GAP) && end - last.start <= largest {
                    last.end = end;
                    continue;
                }
                range.start = range.start.max(last.end);
            }
            if range.start < range.end {
                joined.push(range);
            }
        }
        let parts = joined.into_iter().flat_map(|range| {
            let len = range.end - range.start;
            let size = len.div_ceil(len.div_ceil(largest));
            (0..len.div_ceil(size)).map(move |i| {
                let start = range.start + i * size;
                start..range.end.min(start + size)
            })
        });
        let part = |range| Part { range, bytes: Mutex::default(), used: AtomicU64::new(0) };
        Self {
            parts: parts.map(part).collect(),
            live: Mutex::default(),
            kept: largest * (columns + 2),
            clock: AtomicU64::new(0),
        }
    }

    /// The part in which a byte lies.
    fn find(&self, at: u64) -> Option<usize> {
        let part = self.parts.partition_point(|part| part.range.end <= at);
        self.parts.get(part).filter(|p| p.range.contains(&at)).map(|_| part)
    }

    /// The bytes of a part from `at` on. Threads that need the same part share one request.
    fn read(
        &self,
        part: usize,
        at: u64,
        fetch: impl FnOnce(Range<u64>) -> io::Result<Bytes>,
    ) -> io::Result<Bytes> {
        let Part { range, bytes, used } = &self.parts[part];
        used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let (whole, fetched) = {
            let mut bytes = lock(bytes);
            match &*bytes {
                Some(whole) => (whole.clone(), false),
                None => (bytes.insert(fetch(range.clone())?).clone(), true),
            }
        };
        if fetched {
            for part in self.superseded(part) {
                *lock(&self.parts[part].bytes) = None;
            }
        }
        Ok(whole.slice((at - range.start) as usize..))
    }

    /// Enters a part that was read, and names those that were not used for longest and are too many.
    fn superseded(&self, part: usize) -> Vec<usize> {
        let len = |part: usize| self.parts[part].range.end - self.parts[part].range.start;
        let mut live = lock(&self.live);
        if !live.contains(&part) {
            live.push(part);
        }
        let mut total: u64 = live.iter().map(|&part| len(part)).sum();
        let mut out = Vec::new();
        while total > self.kept && live.len() > 1 {
            let used = |&place: &usize| self.parts[live[place]].used.load(Ordering::Relaxed);
            let oldest = (0..live.len()).min_by_key(used).unwrap_or(0);
            let part = live.swap_remove(oldest);
            total -= len(part);
            out.push(part);
        }
        out
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in memory that count what is asked of them.
    #[derive(Debug)]
    struct Counted {
        bytes: Bytes,
        requests: Mutex<Vec<Range<u64>>>,
    }

    impl RemoteFile for Counted {
        fn size(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn version(&self) -> Option<String> {
            None
        }

        fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
            lock(&self.requests).push(range.clone());
            Ok(self.bytes.slice(range.start as usize..range.end as usize))
        }
    }

    fn counted(len: usize) -> (Arc<Counted>, Remote) {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let file = Arc::new(Counted { bytes: bytes.into(), requests: Mutex::default() });
        (Arc::clone(&file), Remote::new(file))
    }

    #[test]
    fn addresses_are_told_from_paths() {
        for address in ["s3://b/a.csv", "GS://b/a", "az://c@a/x", "https://h/x.parquet"] {
            assert_eq!(remote_address(Path::new(address)), Some(address));
        }
        for path in ["a.csv", "/s3/a.csv", "-", "ftp://h/a.csv", "s3:/b/a.csv", "c:\\a.csv"] {
            assert_eq!(remote_address(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(shown("https://me:secret@host/a.csv?key=secret"), "https://…@host/a.csv");
        assert_eq!(shown("az://box@account/a.csv"), "az://box@account/a.csv");
        assert_eq!(shown("https://me:secret@host"), "https://…@host");
    }

    #[test]
    fn reading_in_order_makes_few_requests_and_each_byte_comes_once() {
        let len = 100 << 20;
        let (file, remote) = counted(len);
        let mut buf = vec![0; 1000];
        let mut at = 0;
        loop {
            let n = remote.read_at(&mut buf, at).unwrap();
            if n == 0 {
                break;
            }
            assert_eq!(buf[..n], file.bytes[at as usize..at as usize + n]);
            at += n as u64;
        }
        let requests = lock(&file.requests);
        assert!(requests.len() < 25, "{}", requests.len());
        assert_eq!(requests.iter().map(|r| r.end - r.start).sum::<u64>(), len as u64);
    }

    #[test]
    fn the_end_of_a_file_is_one_request() {
        let (file, remote) = counted(1 << 20);
        let len = remote.len();
        for at in [len - 4, len - 8, len - 40_000] {
            assert_eq!(remote.bytes(at, 4).unwrap(), file.bytes[at as usize..at as usize + 4]);
        }
        assert_eq!(lock(&file.requests).len(), 1);
        assert_eq!(remote.read_at(&mut [0; 4], len).unwrap(), 0);
        assert_eq!(remote.read_at(&mut [0; 4], u64::MAX).unwrap(), 0);
    }

    #[test]
    fn a_plan_joins_what_lies_close_and_cuts_what_is_long() {
        let len = 64 << 20;
        let ranges = |plan: &Plan| -> Vec<Range<u64>> {
            plan.parts.iter().map(|part| part.range.clone()).collect()
        };
        let small = (0..1000).map(|i| i * 1000..i * 1000 + 100).collect();
        let joined = Plan::new(small, 1, len);
        assert_eq!((joined.parts.len(), joined.parts[0].range.clone()), (1, 0..999_100));
        let far = vec![5_000_000..5_000_010, 0..10];
        assert_eq!(ranges(&Plan::new(far, 2, len)), [0..10, 5_000_000..5_000_010]);
        let long = Plan::new(std::iter::once(7..LARGE * 2 + 8).collect(), 1, len);
        assert_eq!(long.parts.len(), 3);
        // Ranges of a broken footer: empty, beyond the end, on top of each other.
        let broken = vec![9..9, len + 1..len + 9, 0..LARGE, 100..LARGE + 100, 3..len * 9];
        let plan = Plan::new(broken, 1, len);
        let parts = ranges(&plan);
        assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start), "{parts:?}");
        assert_eq!((parts[0].start, parts.last().unwrap().end), (0, len));
        assert_eq!(plan.find(len), None);
    }

    #[test]
    fn planned_reads_are_right_and_forget_what_they_have_passed() {
        let len = 40 << 20;
        let (file, remote) = counted(len as usize);
        let columns = 400;
        let width = len / columns;
        let ranges = (0..columns).map(|c| c * width..(c + 1) * width).collect();
        let planned = remote.planned(ranges, columns as usize);
        // All columns side by side, with reads across the ends of parts.
        for step in 0..width / 5000 {
            for column in 0..columns {
                let at = (column * width + step * 5000) as usize;
                let read = planned.bytes(at as u64, 5000).unwrap();
                assert_eq!(read, file.bytes[at..at + 5000]);
            }
        }
        let requests = lock(&file.requests);
        assert!(requests.len() <= 140, "{}", requests.len());
        assert!(requests.iter().map(|r| r.end - r.start).sum::<u64>() <= len);
    }
}
