//! Data files at addresses: the same model as from files on disk, whatever the store; and errors that leave the
//! model as it was.

use crate::program::{Place, Run};

/// What the program is run with: no credentials of whoever runs the tests, and no machine of a cloud to ask for some.
fn command(place: &Place, words: &str, variables: &[(&str, &str)]) -> Run {
    let mut command = place.command(words);
    for (name, _) in std::env::vars() {
        let lower = name.to_ascii_lowercase();
        let known = ["aws_", "google_", "azure_", "azurite_"];
        if known.iter().any(|start| lower.starts_with(start)) || lower.ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).output().unwrap().into()
}

#[cfg(not(feature = "remote"))]
#[test]
fn without_the_feature_addresses_are_refused_with_what_to_do() {
    let place = Place::new();
    for address in ["s3://bucket/a.parquet", "https://host/a.csv?key=secret", "az://box/a-*.csv"] {
        for words in ["learn m.pmf", "summarize -o m.pms", "schema"] {
            let run = command(&place, &format!("{words} {address} --target y"), &[]);
            assert_eq!(run.code, Some(1));
            assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
            assert!(run.stderr.contains("--features remote"), "{}", run.stderr);
            assert!(!run.stderr.contains("secret"), "{}", run.stderr);
            assert!(!place.path("m.pmf").exists() && !place.path("m.pms").exists());
        }
    }
}

#[cfg(feature = "remote")]
mod stores {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use super::command;
    use crate::program::{Place, Table};
    use crate::server::{Reply, Request, Server, honest};

    /// Files in a bucket named `box`, under the addresses of all services, and on disk next to the model.
    fn bucket(files: &[(&str, Vec<u8>)]) -> (Place, Server) {
        let place = Place::new();
        for (name, bytes) in files {
            place.put(name, bytes);
        }
        let files: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        let server = Server::new(move |request| {
            let name = request.path.rsplit('/').next().unwrap_or_default();
            match files.get(name) {
                Some(bytes) if request.path.contains("/box/") => honest(bytes, "\"v1\"", request),
                _ => Reply::status("404 Not Found"),
            }
        });
        (place, server)
    }

    fn tables() -> Vec<(&'static str, Vec<u8>)> {
        let parts: Vec<Table> = Table::bike(7)
            .split("quarter")
            .into_iter()
            .map(|(_, part)| part.without(&["quarter", "split"]))
            .collect();
        vec![
            ("first.parquet", parts[0].parquet()),
            ("second.csv.gz", parts[1].gz()),
            ("third.csv", parts[2].csv().into_bytes()),
        ]
    }

    /// How each service is told where its server is.
    fn services(server: &Server) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
        let base = server.url("").trim_end_matches('/').to_owned();
        let account = format!(
            r#"{{"gcs_base_url":"{base}","disable_oauth":true,"client_email":"","private_key":"","private_key_id":""}}"#
        );
        vec![
            (
                "s3://box/",
                vec![
                    ("AWS_ENDPOINT_URL", base.clone()),
                    ("AWS_ALLOW_HTTP", "true".into()),
                    ("AWS_ACCESS_KEY_ID", "key".into()),
                    ("AWS_SECRET_ACCESS_KEY", "secret".into()),
                ],
            ),
            ("gs://box/", vec![("GOOGLE_SERVICE_ACCOUNT_KEY", account)]),
            (
                "az://box/",
                vec![
                    ("AZURE_STORAGE_USE_EMULATOR", "true".into()),
                    ("AZURITE_BLOB_STORAGE_URL", base.clone()),
                ],
            ),
        ]
    }

    #[test]
    fn every_store_gives_the_model_of_the_files_on_disk() {
        let (place, server) = bucket(&tables());
        let names = ["first.parquet", "second.csv.gz", "third.csv"];
        place.ok(&format!("learn local.pmf {} --target rentals", names.join(" ")));
        place.ok("predict local.pmf first.parquet -o expected.csv");
        let shown = place.show("local.pmf").names();
        let mut all = services(&server);
        all.push(("http", Vec::new()));
        for (start, variables) in all {
            let start = if start == "http" { server.url("box/") } else { start.to_owned() };
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let ok = |words: &str| {
                let run = command(&place, words, &variables);
                assert_eq!(run.code, Some(0), "{words}\n{}", run.stderr);
                run.stdout
            };
            let model = format!("{}.pmf", &start[..2]);
            let addresses = names.map(|name| format!("{start}{name}")).join(" ");
            ok(&format!("learn {model} {addresses} --target rentals"));
            assert_eq!(place.show(&model).names(), shown, "tasks are named after files");
            ok(&format!("predict {model} {start}first.parquet -o predicted.csv"));
            assert_eq!(place.bytes("predicted.csv"), place.bytes("expected.csv"), "{start}");
            for words in ["score MODEL FILE", "check MODEL FILE", "schema FILE --target rentals"] {
                let remote = ok(&words
                    .replace("MODEL", &model)
                    .replace("FILE", &format!("{start}third.csv")));
                let local =
                    place.ok(&words.replace("MODEL", "local.pmf").replace("FILE", "third.csv"));
                assert_eq!(
                    remote.replace(&start, "").replace(&model, "local.pmf"),
                    local,
                    "{words}"
                );
            }
            ok(&format!("summarize {start}first.parquet --target rentals -o part.pms"));
            let before = server.requests().len();
            ok(&format!("summarize {start}first.parquet --target rentals -o part.pms"));
            // The shard is there: its source is recognized by its version, and no byte of it is read.
            assert!(server.requests()[before..].iter().all(Request::is_head), "{start}");
            ok("learn shards.pmf --summaries part.pms");
            std::fs::remove_file(place.path("shards.pmf")).unwrap();
            std::fs::remove_file(place.path("part.pms")).unwrap();
        }
    }

    #[test]
    fn secrets_in_an_address_are_not_printed() {
        let place = Place::new();
        for words in ["learn m.pmf", "summarize -o m.pms", "schema"] {
            let words = format!("{words} https://me:secret@host/t.csv?key=secret --target y");
            let run = command(&place, &words, &[]);
            assert_eq!(run.code, Some(1));
            assert!(
                run.stderr.contains("https://…@host/t.csv: cannot be opened"),
                "{}",
                run.stderr
            );
            assert!(!run.stderr.contains("secret"), "{}", run.stderr);
        }
    }

    #[test]
    fn pipes_and_patterns_work_next_to_addresses() {
        let (place, server) = bucket(&tables());
        let rows = place.text("third.csv");
        let words = format!(
            "learn m.pmf - {} second*.gz --target rentals",
            server.url("box/first.parquet")
        );
        let run = place.feed(&words, &rows);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert_eq!(place.show("m.pmf").names(), ["stdin", "first", "second*"]);
    }

    /// The model is the same bytes, and the error is one line that names the address and what to do.
    #[test]
    fn failures_leave_the_model_as_it_was() {
        let (place, server) = bucket(&tables());
        place.ok("learn m.pmf first.parquet --target rentals");
        let before = place.bytes("m.pmf");
        let refused = Server::new(|_| Reply::status("403 Forbidden"));
        let expired = Server::new(|_| Reply::status("400 Bad Request"));
        let closed_port = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            format!("http://{}", listener.local_addr().unwrap())
        };
        let keys = [
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        let at = |url: String| -> Vec<(&str, String)> {
            let keys = keys.iter().map(|(name, value)| (*name, (*value).to_owned()));
            keys.chain([("AWS_ENDPOINT_URL", url)]).collect()
        };
        let base = |server: &Server| server.url("").trim_end_matches('/').to_owned();
        let without_keys = vec![
            ("AWS_ENDPOINT_URL", base(&server)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_METADATA_ENDPOINT", closed_port.clone()),
        ];
        let cases = [
            (at(base(&server)), "s3://box/none.parquet", "there is no such file (404)"),
            (at(base(&server)), "s3://box/*.parquet", "patterns such as * are not expanded"),
            (at(base(&refused)), "s3://box/third.csv", "access is denied (403)"),
            (
                at(base(&expired)),
                "s3://box/third.csv",
                "no credential was found that the server accepts",
            ),
            (at(closed_port.clone()), "s3://box/third.csv", "the server does not answer"),
            (without_keys, "s3://box/third.csv", "no credential was found that the server accepts"),
            (Vec::new(), "az://box/third.csv", "AZURE_STORAGE_ACCOUNT_NAME"),
        ];
        for (variables, address, said) in cases {
            let variables: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let started = std::time::Instant::now();
            let run = command(&place, &format!("learn m.pmf {address}"), &variables);
            println!("{:?} {}", started.elapsed(), run.stderr);
            assert_eq!(run.code, Some(1), "{address}");
            assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
            assert!(run.stderr.contains(address), "{}", run.stderr);
            assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
            assert!(!run.stderr.contains("secret"), "{}", run.stderr);
            assert_eq!(place.bytes("m.pmf"), before, "{address}");
        }
    }

    /// Opened by one pass and replaced before the next.
    #[test]
    fn a_file_that_is_replaced_between_passes_is_not_learned() {
        let place = Place::new();
        let old = Table::bike(40).without(&["quarter", "split"]).parquet();
        let count = Arc::new(Mutex::new(0));
        let server = Server::new(move |request| {
            let mut count = count.lock().unwrap();
            *count += 1;
            honest(&old, if *count > 4 { "\"v2\"" } else { "\"v1\"" }, request)
        });
        let run = command(
            &place,
            &format!("learn m.pmf {} --target rentals", server.url("t.parquet")),
            &[],
        );
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains("the file was replaced while it was read"), "{}", run.stderr);
        assert!(!place.path("m.pmf").exists());
    }
}
