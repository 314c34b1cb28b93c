//! What a round costs, on one thread: time of a client and of the server, bytes each way.
//!
//! `cargo run --release -p pmfcl-secagg --example cost`

#![allow(clippy::print_stdout, reason = "an example that prints")]

use std::time::{Duration, Instant};

use pmfcl::summary::Products;
use pmfcl_secagg::{Client, Input, Params, Result, Server, SysRng};

const CLIENTS: usize = 20;
const THRESHOLD: usize = 14;

fn main() -> Result<()> {
    println!("{CLIENTS} clients, threshold {THRESHOLD}, one target; milliseconds and bytes");
    println!("columns  dropped  client ms  server ms  client sends  client gets  plain sums");
    for features in [100, 1000] {
        for dropped in [0, CLIENTS - THRESHOLD] {
            round(features, dropped)?;
        }
    }
    Ok(())
}

/// One round; the last `dropped` clients share their keys and are gone.
fn round(features: usize, dropped: usize) -> Result<()> {
    let params = Params::new(THRESHOLD, CLIENTS, features, 1)?;
    let sums = Products {
        n: 1.0,
        features,
        targets: 1,
        xx: vec![0.5; features * (features + 1) / 2],
        xy: vec![0.25; features],
        yy: vec![1.0],
        y: vec![1.0],
    };
    let of_round = Input { agreement: params.agreement(), step: params.step(), products: &sums };
    let mut server = Server::new("cost", params)?;
    let (mut by_client, mut by_server) = (Duration::ZERO, Duration::ZERO);
    let (mut sent, mut got) = (0, 0);
    let mut clients = Vec::new();
    for i in 0..CLIENTS {
        let (client, keys) = timed(&mut by_client, || {
            let client = Client::new("cost", &format!("{i:02}"), params, &mut SysRng)?;
            let keys = client.advertise()?;
            Ok((client, keys))
        })?;
        sent += keys.len();
        timed(&mut by_server, || server.collect_keys(&keys))?;
        clients.push(client);
    }
    let roster = timed(&mut by_server, || server.roster())?;
    for client in &mut clients {
        let shares = timed(&mut by_client, || client.share(&roster))?;
        got += roster.len();
        sent += shares.len();
        timed(&mut by_server, || server.collect_shares(&shares))?;
    }
    let there = CLIENTS - dropped;
    for (i, client) in clients.iter_mut().enumerate().take(there) {
        let inbox = timed(&mut by_server, || server.inbox(&format!("{i:02}")))?;
        let input = timed(&mut by_client, || client.masked(&inbox, &of_round))?;
        got += inbox.len();
        sent += input.len();
        timed(&mut by_server, || server.collect_masked(&input))?;
    }
    let survivors = timed(&mut by_server, || server.survivors())?;
    for client in &mut clients[..there] {
        let answer = timed(&mut by_client, || client.unmask(&survivors))?;
        got += survivors.len();
        sent += answer.len();
        timed(&mut by_server, || server.collect_answer(&answer))?;
    }
    let total = timed(&mut by_server, || server.finish())?;
    assert_eq!(total.clients.len(), there);
    assert!((total.products.n - there as f64).abs() < 1e-9, "the sum is right before it is timed");
    println!(
        "{features:>7}  {dropped:>7}  {:>9.1}  {:>9.1}  {:>12}  {:>11}  {:>10}",
        by_client.as_secs_f64() * 1e3 / there as f64,
        by_server.as_secs_f64() * 1e3,
        sent / there,
        got / there,
        8 * params.numbers()
    );
    Ok(())
}

fn timed<T>(sum: &mut Duration, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let result = work();
    *sum += start.elapsed();
    result
}
