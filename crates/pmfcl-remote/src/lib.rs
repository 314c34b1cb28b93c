//! Data files in object stores and on web servers: `s3://`, `gs://`, `az://`, `http://` and `https://`.
//!
//! The Arrow project's `object_store` makes the requests. It signs them with the credentials it finds in the
//! environment and repeats those that fail for a passing reason. This crate gives it the sequential face that
//! [`pmfcl_read`] reads through, holds a file to the version that was opened, and says what went wrong.

mod explain;
mod object;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use pmfcl_read::{RemoteFile, RemoteFiles};
use tokio::runtime::Runtime;
use url::Url;

use explain::{Service, invalid};
use object::Object;

/// How long to wait for a connection, and for the next bytes of an answer.
const CONNECT: &str = "3s";
const SILENCE: &str = "8s";
/// How long one answer may take in all; it is 8 MB in most cases.
const ANSWER: &str = "300s";

/// Repeats soon and gives up soon: a server that is not there is reported within seconds.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(4),
            base: 2.0,
        },
        max_retries: 5,
        retry_timeout: Duration::from_secs(15),
    }
}

/// What is set for every client, whatever the environment says about the rest.
const CLIENT: [(ClientConfigKey, &str); 3] = [
    (ClientConfigKey::ConnectTimeout, CONNECT),
    (ClientConfigKey::ReadTimeout, SILENCE),
    (ClientConfigKey::Timeout, ANSWER),
];

/// Files by their address, with one connection pool for each store.
///
/// A file that was opened once stays the version it was: if it changes, later reads fail.
#[derive(Default)]
pub struct ObjectStores {
    runtime: OnceLock<Arc<Runtime>>,
    stores: Mutex<BTreeMap<String, Arc<dyn ObjectStore>>>,
    files: Mutex<BTreeMap<String, Arc<Object>>>,
}

/// Without the connections: what is printed is the same in every run.
impl fmt::Debug for ObjectStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectStores")
    }
}

impl ObjectStores {
    /// No connection is made before a file is opened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs requests on the threads that make them.
    fn runtime(&self) -> io::Result<Arc<Runtime>> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(Arc::clone(runtime));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Arc::clone(self.runtime.get_or_init(|| Arc::new(runtime))))
    }

    /// The store of an address.
    fn store(&self, url: &Url, service: Service) -> io::Result<Arc<dyn ObjectStore>> {
        let key = url[..url::Position::BeforePath].to_owned();
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&key) {
            return Ok(Arc::clone(store));
        }
        // Another part of the program may have installed one before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = connect(url, service).map_err(|error| service.explain(&error))?;
        stores.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

fn connect(url: &Url, service: Service) -> object_store::Result<Arc<dyn ObjectStore>> {
    Ok(match service {
        Service::S3 => {
            let builder = AmazonS3Builder::from_env().with_url(url.as_str()).with_retry(retries());
            let set = |b: AmazonS3Builder, (key, value)| {
                b.with_config(AmazonS3ConfigKey::Client(key), value)
            };
            Arc::new(CLIENT.into_iter().fold(builder, set).build()?)
        }
        Service::Google => {
            let builder =
                GoogleCloudStorageBuilder::from_env().with_url(url.as_str()).with_retry(retries());
            let set = |b: GoogleCloudStorageBuilder, (key, value)| {
                b.with_config(GoogleConfigKey::Client(key), value)
            };
            Arc::new(CLIENT.into_iter().fold(builder, set).build()?)
        }
        Service::Azure => {
            let builder =
                MicrosoftAzureBuilder::from_env().with_url(url.as_str()).with_retry(retries());
            let set = |b: MicrosoftAzureBuilder, (key, value)| {
                b.with_config(AzureConfigKey::Client(key), value)
            };
            Arc::new(CLIENT.into_iter().fold(builder, set).build()?)
        }
        Service::Web => {
            let options = ClientOptions::new().with_allow_http(true);
            let options = CLIENT
                .into_iter()
                .fold(options, |options, (key, value)| options.with_config(key, value));
            let builder = HttpBuilder::new().with_url(&url[..url::Position::BeforePath]);
            Arc::new(builder.with_client_options(options).with_retry(retries()).build()?)
        }
    })
}

/// An address, taken apart.
fn parse(address: &str) -> io::Result<(Url, Service, Path)> {
    let url = Url::parse(address).map_err(|error| invalid(format!("is no address: {error}")))?;
    let service = match url.scheme() {
        "s3" | "s3a" => Service::S3,
        "gs" => Service::Google,
        "az" | "abfs" | "abfss" => Service::Azure,
        _ => Service::Web,
    };
    // What stands there is a secret in most cases, so it is not repeated.
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid(
            "an address ends with the name of the file; `?` and `#` in a name are written %3F and %23, and credentials \
             come from the environment",
        ));
    }
    if url.password().is_some() || (service != Service::Azure && !url.username().is_empty()) {
        return Err(invalid("credentials come from the environment, not from the address"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(invalid("the address names no bucket or host"));
    }
    let path = Path::from_url_path(url.path())
        .map_err(|error| invalid(format!("the address is not usable: {error}")))?;
    if path.as_ref().is_empty() || url.path().ends_with('/') {
        return Err(invalid("the address names no file; name a file in it"));
    }
    Ok((url, service, path))
}

impl RemoteFiles for ObjectStores {
    fn open(&self, address: &str) -> io::Result<Arc<dyn RemoteFile>> {
        let (url, service, path) = parse(address)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(url.as_str()) {
            return Ok(Arc::<Object>::clone(file));
        }
        let file = Object::open(self.runtime()?, self.store(&url, service)?, path, service)?;
        let file = Arc::new(file);
        files.insert(url.into(), Arc::clone(&file));
        Ok(file)
    }
}
