//! One file, held to the version that was opened.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use pmfcl_read::RemoteFile;
use tokio::runtime::Runtime;

use crate::explain::{CHANGED, Service, broken};

/// A file in a store.
#[derive(Debug)]
pub(crate) struct Object {
    runtime: Arc<Runtime>,
    store: Arc<dyn ObjectStore>,
    path: Path,
    service: Service,
    /// What the first answer said of it.
    meta: ObjectMeta,
}

impl Object {
    /// Asks for size and version.
    pub(crate) fn open(
        runtime: Arc<Runtime>,
        store: Arc<dyn ObjectStore>,
        path: Path,
        service: Service,
    ) -> io::Result<Self> {
        let meta = wait(&runtime, store.head(&path))?.map_err(|error| service.explain(&error))?;
        Ok(Self { runtime, store, path, service, meta })
    }

    /// The `ETag`, if the server compares it byte for byte: a weak one never matches by the rules of HTTP.
    fn strong_tag(&self) -> Option<String> {
        self.meta.e_tag.clone().filter(|tag| !tag.starts_with("W/"))
    }

    /// Whether an answer is about the version that was opened. Servers may ignore `If-Match`.
    fn is_same(&self, meta: &ObjectMeta) -> bool {
        let same_date = self.meta.last_modified == meta.last_modified;
        self.meta.size == meta.size
            && self.meta.e_tag == meta.e_tag
            && (self.meta.e_tag.is_some() || same_date)
    }

    async fn get(&self, range: Range<u64>) -> io::Result<Bytes> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.strong_tag(),
            ..GetOptions::default()
        };
        let answer = self.store.get_opts(&self.path, options).await;
        let answer = answer.map_err(|error| self.service.explain(&error))?;
        if !self.is_same(&answer.meta) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, CHANGED));
        }
        if answer.range != range {
            return Err(broken("it sends another part of the file than was asked for"));
        }
        let expected = range.end - range.start;
        let mut stream = answer.into_stream();
        // Nothing is reserved on the word of the server.
        let mut all = BytesMut::new();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| self.service.explain(&error))?;
            if all.is_empty() && part.len() as u64 == expected {
                return Ok(part);
            }
            all.extend_from_slice(&part);
            if all.len() as u64 > expected {
                return Err(broken("it sends more than was asked for"));
            }
        }
        if (all.len() as u64) < expected {
            return Err(broken("its answer ends too early"));
        }
        Ok(all.freeze())
    }
}

impl RemoteFile for Object {
    fn size(&self) -> u64 {
        self.meta.size
    }

    fn version(&self) -> Option<String> {
        self.meta.e_tag.clone()
    }

    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        wait(&self.runtime, self.get(range))?
    }
}

/// Waits for a request on this thread. A dependency that panics over an answer has found it broken.
fn wait<T>(runtime: &Runtime, request: impl Future<Output = T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(request)))
        .map_err(|_| broken("its answer contradicts itself"))
}
