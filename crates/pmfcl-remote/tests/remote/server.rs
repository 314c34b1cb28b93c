//! A small web server for tests: it sends parts of files, counts what is asked of it, and misbehaves on request.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a client asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// How many there were before.
    pub(crate) index: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    /// By their names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    /// The range asked for, with its end.
    pub(crate) fn range(&self) -> Option<Range<usize>> {
        let (start, end) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some(start.parse().ok()?..end.parse::<usize>().ok()? + 1)
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }
}

/// What is sent back.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: &'static str,
    pub(crate) headers: BTreeMap<&'static str, String>,
    pub(crate) body: Vec<u8>,
    /// Closes the connection in the middle of the body.
    pub(crate) cut: bool,
    /// Never answers.
    pub(crate) silent: bool,
}

impl Reply {
    /// No body and nothing else.
    pub(crate) fn status(status: &'static str) -> Self {
        let headers = [("Content-Length", "0".to_owned())].into();
        Self { status, headers, body: Vec::new(), cut: false, silent: false }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.headers.insert(name, value.to_string());
        self
    }

    pub(crate) fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }
}

/// What an honest server sends of a file.
pub(crate) fn honest(bytes: &[u8], tag: &str, request: &Request) -> Reply {
    if request.headers.get("if-match").is_some_and(|wanted| wanted != tag) {
        return Reply::status("412 Precondition Failed");
    }
    let mut reply = Reply::status("200 OK")
        .with("ETag", tag)
        .with("Last-Modified", "Tue, 03 Mar 2026 10:00:00 GMT");
    let part = match request.range() {
        Some(range) if range.start < bytes.len() => {
            let end = range.end.min(bytes.len());
            reply.status = "206 Partial Content";
            let shown = format!("bytes {}-{}/{}", range.start, end - 1, bytes.len());
            reply = reply.with("Content-Range", shown);
            range.start..end
        }
        Some(_) => return Reply::status("416 Range Not Satisfiable"),
        None => 0..bytes.len(),
    };
    reply = reply.with("Content-Length", part.len());
    if !request.is_head() {
        reply.body = bytes[part].to_vec();
    }
    reply
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

struct State {
    handler: Box<Handler>,
    requests: Mutex<Vec<Request>>,
    sent: Mutex<u64>,
    stop: AtomicBool,
}

/// The server; it stops when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn new(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            handler: Box::new(handler),
            requests: Mutex::default(),
            sent: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                let shared = Arc::clone(&shared);
                // A client may go away at any time.
                std::thread::spawn(move || stream.map(|stream| shared.serve(&stream)));
            }
        });
        Self { address, state }
    }

    /// A server with one honest file.
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self::new(move |request| honest(&bytes, "\"v1\"", request))
    }

    /// `http://…` of a file.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.state.requests.lock().unwrap().clone()
    }

    /// Bytes of bodies that were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        *self.state.sent.lock().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        while let Some(mut request) = read(&mut reader)? {
            let reply = {
                let mut requests = self.requests.lock().unwrap();
                request.index = requests.len();
                requests.push(request.clone());
                drop(requests);
                (self.handler)(&request)
            };
            if reply.silent {
                // Until the client gives up.
                let _ = reader.read(&mut [0]);
                return Ok(());
            }
            let mut head = format!("HTTP/1.1 {}\r\n", reply.status);
            for (name, value) in &reply.headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            head.push_str("\r\n");
            let body = if reply.cut { &reply.body[..reply.body.len() / 2] } else { &reply.body };
            let mut out = stream;
            out.write_all(head.as_bytes())?;
            out.write_all(body)?;
            out.flush()?;
            *self.sent.lock().unwrap() += body.len() as u64;
            if reply.cut {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or("").into();
    let path = decoded(words.next().unwrap_or(""));
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Ok(Some(Request { index: 0, method, path, headers }))
}

/// A path without its `%2E`.
fn decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (code, rest) = part.split_at(2);
        out.push(u8::from_str_radix(code, 16).unwrap().into());
        out.push_str(rest);
    }
    out
}
