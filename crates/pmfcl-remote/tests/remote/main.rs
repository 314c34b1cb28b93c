//! Files on a web server, read through the same code as those in object stores: which requests are made, and what
//! becomes of servers that fail or lie.

mod server;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use pmfcl_read::{Form, Options, ReadError, Source, Wanted};
use pmfcl_remote::ObjectStores;
use server::{Reply, Request, Server, honest};

/// A table of numbers that do not compress.
fn table(columns: usize, rows: usize) -> RecordBatch {
    let mut state = 1_u64;
    let mut number = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let columns = (0..columns).map(|c| {
        let values: Vec<f64> = (0..rows).map(|_| number()).collect();
        (format!("x{c}"), Arc::new(Float64Array::from(values)) as ArrayRef)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet(batch: &RecordBatch, group: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group))
        .set_dictionary_enabled(false)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn csv(batch: &RecordBatch) -> Vec<u8> {
    let column = |c: usize| batch.column(c).as_any().downcast_ref::<Float64Array>().unwrap();
    let columns: Vec<_> = (0..batch.num_columns()).map(column).collect();
    let names: Vec<String> = (0..columns.len()).map(|c| format!("x{c}")).collect();
    let mut text = names.join(",") + "\n";
    for row in 0..batch.num_rows() {
        let cells: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
        text += &(cells.join(",") + "\n");
    }
    text.into_bytes()
}

fn options() -> Options {
    Options { remote: Some(Arc::new(ObjectStores::new())), ..Options::default() }
}

/// All values of some columns, row by row, decoded by several threads.
fn values(source: &Source, names: &[&str]) -> Result<Vec<f64>, ReadError> {
    let wanted: Vec<Wanted> = names.iter().map(|name| Wanted::new(*name, Form::Number)).collect();
    let scan = source.scan(&wanted)?;
    let places: Vec<(usize, usize)> = (0..names.len()).map(|c| (c, c)).collect();
    let work = || -> Result<Vec<(usize, Vec<f64>)>, ReadError> {
        let mut done = Vec::new();
        while let Some(piece) = scan.next()? {
            let batch = scan.decode(piece)?;
            let mut rows = vec![0.0; batch.rows * names.len()];
            batch.gather(0..batch.rows, &places, &mut rows, names.len());
            done.push((batch.index, rows));
        }
        Ok(done)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(index, _)| *index);
    Ok(all.into_iter().flat_map(|(_, rows)| rows).collect())
}

/// The same of an address, opened anew.
fn fetched(url: &str, names: &[&str]) -> Result<Vec<f64>, ReadError> {
    values(&Source::open(Path::new(url), &options())?, names)
}

fn local(name: &str, bytes: &[u8], names: &[&str]) -> Vec<f64> {
    values(&Source::from_bytes(name, bytes.to_vec(), &Options::default()).unwrap(), names).unwrap()
}

/// The message of a read that must fail.
fn message(url: &str) -> String {
    fetched(url, &["x0"]).expect_err("refused").to_string()
}

#[test]
fn two_columns_of_twenty_cost_two_columns() {
    let bytes = parquet(&table(20, 300_000), 60_000);
    let names = ["x3", "x16"];
    let expected = local("t.parquet", &bytes, &names);
    let server = Server::of(bytes.clone());
    assert_eq!(fetched(&server.url("t.parquet"), &names).unwrap(), expected);
    let (requests, sent) = (server.requests(), server.sent());
    println!("{} bytes of {} in {} requests", sent, bytes.len(), requests.len());
    assert!(sent < bytes.len() as u64 * 11 / 100, "{sent} of {}", bytes.len());
    // One for the size, two for start and end, one for each chunk.
    assert!(requests.len() <= 3 + 2 * 5, "{requests:#?}");
    let held = |r: &Request| r.headers.get("if-match").is_some_and(|tag| tag == "\"v1\"");
    assert!(requests.iter().all(|r| r.is_head() || (r.range().is_some() && held(r))));
}

#[test]
fn thousands_of_small_chunks_are_few_requests() {
    let bytes = parquet(&table(300, 2_000), 100);
    let all: Vec<String> = (0..300).map(|c| format!("x{c}")).collect();
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    let server = Server::of(bytes.clone());
    assert_eq!(
        fetched(&server.url("t.parquet"), &names).unwrap(),
        local("t.parquet", &bytes, &names)
    );
    println!("{} bytes of {} in {} requests", server.sent(), bytes.len(), server.requests().len());
    assert!(server.requests().len() < 40, "{}", server.requests().len());
    assert!(server.sent() < bytes.len() as u64 * 5 / 4, "each byte about once");
}

#[test]
fn every_format_has_the_same_values_as_on_disk() {
    let batch = table(3, 50_000);
    let text = csv(&batch);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&text).unwrap();
    let mut arrow = Vec::new();
    let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut arrow, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let files = [
        ("t.parquet", parquet(&batch, 7_000)),
        ("t.csv", text),
        ("t.csv.gz", packed.finish().unwrap()),
        ("t.arrow", arrow),
    ];
    let names = ["x2", "x0"];
    for (name, bytes) in files {
        let expected = local(name, &bytes, &names);
        let server = Server::of(bytes);
        assert_eq!(fetched(&server.url(name), &names).unwrap(), expected, "{name}");
        assert!(server.requests().len() < 15, "{name}: {}", server.requests().len());
    }
    let head = "{'descr': '<f8', 'fortran_order': True, 'shape': (9000,), }";
    let mut npy = b"\x93NUMPY\x01\x00".to_vec();
    npy.extend((head.len() as u16 + 1).to_le_bytes());
    npy.extend(head.bytes().chain([b'\n']));
    npy.extend((0..9000).flat_map(|i| f64::from(i).to_le_bytes()));
    let server = Server::of(npy.clone());
    let source = Source::open(Path::new(&server.url("t.npy")), &options()).unwrap();
    let name = source.fields()[0].name.clone();
    assert_eq!(values(&source, &[&name]).unwrap(), local("t.npy", &npy, &[&name]));
    let empty = Server::of(Vec::new());
    assert!(message(&empty.url("t.parquet")).ends_with("/t.parquet: is empty"));
    assert!(message(&empty.url("t.csv")).ends_with("/t.csv: is empty"));
}

#[test]
fn failures_that_pass_are_waited_for() {
    let bytes = parquet(&table(2, 40_000), 10_000);
    let expected = local("t.parquet", &bytes, &["x0", "x1"]);
    for status in ["500 Oops", "503 Slow Down", "429 Too Many Requests"] {
        let copy = bytes.clone();
        // The first two of every three.
        let server = Server::new(move |request| match request.index % 3 {
            2 => honest(&copy, "\"v1\"", request),
            _ => Reply::status(status),
        });
        let read = fetched(&server.url("t.parquet"), &["x0", "x1"]);
        assert_eq!(read.unwrap(), expected, "{status}");
    }
    let copy = bytes.clone();
    let server = Server::new(move |request| {
        let cut = !request.is_head() && request.index % 2 == 0;
        Reply { cut, ..honest(&copy, "\"v1\"", request) }
    });
    let read = fetched(&server.url("t.parquet"), &["x0", "x1"]);
    assert_eq!(read.unwrap(), expected, "connections that break off");
}

#[test]
fn a_file_that_cannot_be_had_is_one_clear_error() {
    for (status, said) in [
        ("403 Forbidden", "access is denied (403)"),
        ("401 Unauthorized", "a credential is missing or has expired (401)"),
        ("404 Not Found", "there is no such file (404)"),
        ("400 Bad Request", "the request failed: "),
        ("503 Slow Down", "the request failed: "),
        ("301 Moved", "the request failed: "),
    ] {
        let server = Server::new(move |_| Reply::status(status));
        let url = server.url("dir/t.parquet");
        let text = message(&url);
        assert!(text.starts_with(&format!("{url}: cannot be opened: {said}")), "{text}");
        assert!(!text.contains('\n'));
        let most = if status.starts_with("503") { 6 } else { 1 };
        assert_eq!(server.requests().len(), most, "{status}");
    }
}

#[test]
fn a_server_that_is_not_there_is_reported_within_seconds() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let started = Instant::now();
    let text = message(&format!("http://{address}/t.parquet"));
    assert!(text.contains("cannot be opened: the server does not answer"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let server = Server::new(|_| Reply { silent: true, ..Reply::status("200 OK") });
    let started = Instant::now();
    let text = message(&server.url("t.parquet"));
    assert!(text.contains("the server does not answer"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[test]
fn a_file_that_is_replaced_while_it_is_read_is_refused() {
    type Change = fn(&[u8], bool, &Request) -> Reply;
    let old = parquet(&table(20, 60_000), 20_000);
    let new = {
        let mut new = old.clone();
        new[1000..300_000].reverse();
        new
    };
    // After the size, the start and the end.
    let server = |reply: Change| {
        let (old, new) = (old.clone(), new.clone());
        Server::new(move |request| {
            let replaced = request.index >= 3;
            reply(if replaced { &new } else { &old }, replaced, request)
        })
    };
    let cases: [(&str, Change); 4] = [
        ("If-Match is honoured", |bytes, replaced, request| {
            honest(bytes, if replaced { "\"v2\"" } else { "\"v1\"" }, request)
        }),
        ("If-Match is ignored", |bytes, replaced, request| {
            let mut request = request.clone();
            request.headers.remove("if-match");
            honest(bytes, if replaced { "\"v2\"" } else { "\"v1\"" }, &request)
        }),
        ("weak tags", |bytes, replaced, request| {
            assert!(!request.headers.contains_key("if-match"), "a weak tag never matches");
            honest(bytes, if replaced { "W/\"v2\"" } else { "W/\"v1\"" }, request)
        }),
        ("a date alone", |bytes, replaced, request| {
            let reply = honest(bytes, "", request).without("ETag");
            let hour = if replaced { 11 } else { 10 };
            reply.with("Last-Modified", format!("Wed, 04 Mar 2026 {hour}:00:00 GMT"))
        }),
    ];
    for (case, reply) in cases {
        let server = server(reply);
        let text = message(&server.url("t.parquet"));
        assert!(text.contains("reading broke off: the file was replaced"), "{case}: {text}");
    }
    // Also between two times it is opened, with the same stores.
    let server = server(cases[0].1);
    let (url, options) = (server.url("t.parquet"), options());
    Source::open(Path::new(&url), &options).unwrap();
    let error = Source::open(Path::new(&url), &options).err().expect("refused").to_string();
    assert!(error.contains("the file was replaced"), "{error}");
}

#[test]
fn a_weak_tag_that_stays_is_read() {
    let bytes = parquet(&table(2, 1_000), 500);
    let expected = local("t.parquet", &bytes, &["x1"]);
    let server = Server::new(move |request| {
        assert!(!request.headers.contains_key("if-match"), "a weak tag never matches");
        honest(&bytes, "W/\"v1\"", request)
    });
    assert_eq!(fetched(&server.url("t.parquet"), &["x1"]).unwrap(), expected);
}

/// Whatever a server says, the numbers are right or there is an error.
#[test]
fn servers_that_lie_are_found_out() {
    type Lie = fn(Reply, &Request, usize) -> Reply;
    let lies: [(&str, Lie); 17] = [
        ("sends the whole file", |reply, _, _| Reply {
            status: if reply.status.starts_with("206") { "200 OK" } else { reply.status },
            ..reply
        }),
        ("leaves Content-Range out", |reply, _, _| reply.without("Content-Range")),
        ("another start", |reply, request, len| match request.range() {
            Some(r) => {
                reply.with("Content-Range", format!("bytes {}-{}/{len}", r.start + 1, r.end))
            }
            None => reply,
        }),
        ("another end", |reply, request, len| match request.range() {
            Some(r) => reply.with("Content-Range", format!("bytes {}-{}/{len}", r.start, r.end)),
            None => reply,
        }),
        ("an end beyond all numbers", |reply, request, len| match request.range() {
            Some(r) => reply.with("Content-Range", format!("bytes {}-{}/{len}", r.start, u64::MAX)),
            None => reply,
        }),
        ("an end before the start", |reply, request, len| match request.range() {
            Some(r) => reply.with("Content-Range", format!("bytes {}-0/{len}", r.start)),
            None => reply,
        }),
        ("another size in Content-Range", |reply, request, len| match request.range() {
            Some(r) => {
                let shown = format!("bytes {}-{}/{}", r.start, r.end.min(len) - 1, len + 1);
                reply.with("Content-Range", shown)
            }
            None => reply,
        }),
        ("no number in Content-Range", |reply, request, _| match request.range() {
            Some(_) => reply.with("Content-Range", "bytes a-b/*"),
            None => reply,
        }),
        ("a smaller size at first", |reply, request, len| {
            if request.is_head() { reply.with("Content-Length", len - 10) } else { reply }
        }),
        ("a larger size at first", |reply, request, len| {
            if request.is_head() { reply.with("Content-Length", len + 10) } else { reply }
        }),
        ("an enormous size at first", |reply, request, _| {
            if request.is_head() { reply.with("Content-Length", u64::MAX - 1) } else { reply }
        }),
        ("no size at first", |reply, request, _| {
            if request.is_head() { reply.without("Content-Length") } else { reply }
        }),
        ("no number as size", |reply, request, _| {
            if request.is_head() { reply.with("Content-Length", "many") } else { reply }
        }),
        ("a body that ends early", |reply, request, _| Reply {
            cut: !request.is_head(),
            ..reply.without("ETag")
        }),
        ("a shorter body that says so", |mut reply, request, _| {
            if !request.is_head() {
                reply.body.truncate(reply.body.len() / 2);
                let len = reply.body.len();
                reply = reply.with("Content-Length", len);
            }
            reply
        }),
        ("a longer body that says so", |mut reply, request, _| {
            if !request.is_head() {
                reply.body.extend([7; 100]);
                let len = reply.body.len();
                reply = reply.with("Content-Length", len);
            }
            reply
        }),
        ("a date that is none", |reply, _, _| reply.with("Last-Modified", "yesterday")),
    ];
    let batch = table(4, 20_000);
    for (name, bytes) in [("t.parquet", parquet(&batch, 5_000)), ("t.csv", csv(&batch))] {
        for (case, lie) in lies {
            let copy = bytes.clone();
            let server = Server::new(move |request| {
                lie(honest(&copy, "\"v1\"", request), request, copy.len())
            });
            let url = server.url(name);
            let error = fetched(&url, &["x0", "x3"]).expect_err(case).to_string();
            println!("{case}: {error}");
            assert!(error.starts_with(&format!("{url}: ")), "{case}: {error}");
            assert!(!error.contains("not a readable"), "{case}: {error}");
        }
    }
}

#[test]
fn addresses_that_cannot_be_used_are_refused_without_a_request() {
    for (address, said) in [
        ("https://host/t.parquet?token=secret", "credentials come from the environment"),
        ("https://host/t.parquet#part", "written %3F and %23"),
        ("https://me:secret@host/t.parquet", "not from the address"),
        ("https://me@host/t.parquet", "not from the address"),
        ("s3://bucket", "names no file"),
        ("s3://bucket/folder/", "names no file"),
        ("s3:///t.parquet", "names no bucket"),
        ("https:///", "is no address"),
        ("s3://bucket//t.parquet", "is not usable"),
    ] {
        let error = pmfcl_read::RemoteFiles::open(&ObjectStores::new(), address).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(said), "{address}: {text}");
        assert!(!text.contains("secret"), "{text}");
        let text = message(address);
        assert!(!text.contains("secret"), "{text}");
    }
}
