//! Batches of files through several threads, with the results in order.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};

use pmfcl_file::Schema;
use pmfcl_read::{Batch, Missing, Options, Piece, Scan, Source, Wanted};

use crate::{IngestError, Result};

/// Files that are read one after the other, as one table.
#[derive(Debug, Clone)]
pub struct Files {
    /// Their paths; `-` is CSV on standard input.
    pub paths: Vec<PathBuf>,
    /// How to read them.
    pub options: Options,
    /// Threads to use; the results do not depend on it.
    pub threads: usize,
}

/// A piece has been taken in.
#[derive(Debug, Clone, Copy, Default)]
pub struct Step {
    /// Rows of it.
    pub rows: u64,
    /// Bytes of the file it accounts for.
    pub bytes: u64,
}

/// What to do with every file and every batch.
pub struct Flow<'a, T> {
    /// Checks a file when it is opened and names the columns to read.
    pub plan: &'a (dyn Fn(&Source) -> Result<Vec<Wanted>> + Sync),
    /// The heavy part, on any thread.
    pub work: &'a (dyn Fn(&Source, &Batch) -> Result<T> + Sync),
    /// Called after every piece.
    pub progress: &'a (dyn Fn(Step) + Sync),
}

/// A piece, and the open file it was cut from.
type Cut = (Arc<(Source, Scan)>, Piece);

/// Where pieces come from.
struct Feed<'a> {
    paths: std::slice::Iter<'a, PathBuf>,
    open: Option<Arc<(Source, Scan)>>,
    /// Number of the next piece over all files.
    next: usize,
    /// Pieces whose results have been taken.
    taken: usize,
    ended: bool,
}

impl Files {
    /// Opens the first file, to look at its columns.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn first(&self) -> Result<Source> {
        Ok(Source::open(&self.paths[0], &self.options)?)
    }

    /// The same files, with dates read as the columns of a model say, and rows that miss a value kept where it learns them and
    /// nothing else was said.
    ///
    /// # Errors
    /// When a column has a format that is none.
    pub fn with_formats(&self, schema: &Schema) -> Result<Self> {
        let mut files = self.clone();
        if files.options.missing == Missing::Unstated && schema.missing.are_learned() {
            files.options.missing = Missing::Keep;
        }
        for column in &schema.columns {
            let Some(format) = &column.format else { continue };
            let format = format.parse().map_err(|what| IngestError::Column {
                file: "the model".to_owned(),
                what: format!("column '{}': {what}", column.name),
            })?;
            files.options.dates.push((column.name.clone(), format));
        }
        Ok(files)
    }

    /// Bytes of all files, where they are known.
    pub fn bytes(&self) -> Option<u64> {
        self.paths.iter().map(|p| std::fs::metadata(p).ok().map(|m| m.len())).sum()
    }

    /// Runs all batches through `flow.work` and gives the results to `take`, in order, until it returns `false`.
    ///
    /// # Errors
    /// The first error in the order of the files, whichever thread met it when.
    pub fn run<T: Send>(
        &self,
        flow: &Flow<'_, T>,
        mut take: impl FnMut(T) -> Result<bool>,
    ) -> Result<()> {
        let threads = self.threads.max(1);
        let feed = Feed { paths: self.paths.iter(), open: None, next: 0, taken: 0, ended: false };
        let (feed, room) = (Mutex::new(feed), Condvar::new());
        // So many pieces may wait for a slower one before them.
        let window = 2 * threads + 1;
        std::thread::scope(|scope| {
            let (sender, results) = mpsc::channel::<(usize, Result<(T, Step)>)>();
            for _ in 0..threads {
                let (sender, feed, room) = (sender.clone(), &feed, &room);
                scope.spawn(move || {
                    while let Some((at, piece)) = self.next_piece(flow, feed, room, window) {
                        let done = piece.and_then(|(open, piece)| {
                            let step = Step { rows: piece.rows() as u64, bytes: piece.bytes };
                            let batch = open.1.decode(piece)?;
                            Ok(((flow.work)(&open.0, &batch)?, step))
                        });
                        if sender.send((at, done)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let stop = || {
                lock(&feed).ended = true;
                room.notify_all();
            };
            let mut waiting = BTreeMap::new();
            let mut next = 0;
            for (at, done) in results {
                waiting.insert(at, done);
                while let Some(done) = waiting.remove(&next) {
                    let goes_on = done.and_then(|(result, step)| {
                        (flow.progress)(step);
                        take(result)
                    });
                    next += 1;
                    lock(&feed).taken = next;
                    room.notify_all();
                    match goes_on {
                        Ok(true) => {}
                        Ok(false) => {
                            stop();
                            return Ok(());
                        }
                        Err(error) => {
                            stop();
                            return Err(error);
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// The next piece and its number; `None` when there are no more.
    fn next_piece<T>(
        &self,
        flow: &Flow<'_, T>,
        feed: &Mutex<Feed<'_>>,
        room: &Condvar,
        window: usize,
    ) -> Option<(usize, Result<Cut>)> {
        let mut feed = lock(feed);
        while !feed.ended && feed.next >= feed.taken + window {
            feed = room.wait(feed).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if feed.ended {
            return None;
        }
        let found = self.cut(flow, &mut feed);
        let found = match found {
            Ok(None) => {
                feed.ended = true;
                return None;
            }
            Ok(Some(piece)) => Ok(piece),
            Err(error) => {
                feed.ended = true;
                Err(error)
            }
        };
        let at = feed.next;
        feed.next += 1;
        Some((at, found))
    }

    fn cut<T>(&self, flow: &Flow<'_, T>, feed: &mut Feed<'_>) -> Result<Option<Cut>> {
        loop {
            let open = match &feed.open {
                Some(open) => open.clone(),
                None => {
                    let Some(path) = feed.paths.next() else { return Ok(None) };
                    let source = Source::open(path, &self.options)?;
                    let scan = source.scan(&(flow.plan)(&source)?)?;
                    feed.open.insert(Arc::new((source, scan))).clone()
                }
            };
            match open.1.next()? {
                Some(piece) => return Ok(Some((open, piece))),
                None => feed.open = None,
            }
        }
    }
}

fn lock<'a, 'b>(feed: &'a Mutex<Feed<'b>>) -> MutexGuard<'a, Feed<'b>> {
    feed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
