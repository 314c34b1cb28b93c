//! Rows of clients, and a round between a server and clients whose every message is sent as bytes.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use pmfcl::problem::{Agreement, Problem};
use pmfcl::summary::Products;
use pmfcl::{Design, Ridge, Rows, Settings, Summary, TaskRows};
use pmfcl_oracle::Draw;
use pmfcl_secagg::{Client, Input, Params, Result, Server, Total};

/// Raw rows of a client.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub x: Vec<f64>,
    pub y: Vec<f64>,
    pub d: usize,
}

impl Table {
    /// Normal features and targets `x·truth + noise`.
    pub fn linear(n: usize, truth: &[f64], draw: &mut Draw) -> Self {
        let d = truth.len();
        let x = draw.normals(n * d);
        let inner = |row: &[f64]| row.iter().zip(truth).map(|(a, b)| a * b).sum::<f64>();
        let y = x.chunks_exact(d).map(|row| inner(row) + 0.3 * draw.normal()).collect();
        Self { x, y, d }
    }

    pub fn stack<'a>(tables: impl IntoIterator<Item = &'a Table>) -> Self {
        let mut all = Self::default();
        for table in tables {
            all.d = table.d;
            all.x.extend(&table.x);
            all.y.extend(&table.y);
        }
        all
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows::new(&self.x, self.d).unwrap()
    }

    pub fn summary(&self, agreement: &Agreement) -> Summary {
        let targets = Rows::new(&self.y, 1).unwrap();
        agreement.summarize(TaskRows::new(self.rows(), targets)).unwrap().quadratic
    }
}

/// Linear features, an intercept, one target, no ridge.
pub fn agreement(d: usize) -> Agreement {
    let settings = Settings { ridge: Ridge::Fixed(0.0), ..Settings::default() };
    let design = Design::linear(d, settings.intercept).unwrap();
    Agreement::new(Problem::squared(), settings, design, 1).unwrap()
}

/// Clients of unequal size.
pub fn tables(clients: usize, d: usize, seed: u64) -> Vec<Table> {
    let mut draw = Draw::new(seed);
    let truth = draw.normals(d);
    (0..clients).map(|i| Table::linear(8 + 7 * i * i, &truth, &mut draw)).collect()
}

/// When a client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gone {
    AfterKeys,
    AfterShares,
    /// Its input is made, and lost or late.
    InputLost,
    AfterInput,
    Never,
}

pub fn name(i: usize) -> String {
    format!("client {i:02}")
}

pub fn client(round: &str, i: usize, params: Params, seed: u64) -> Client {
    let mut random = ChaCha20Rng::seed_from_u64(seed * 1000 + i as u64);
    Client::new(round, &name(i), params, &mut random).unwrap()
}

pub fn clients(count: usize, params: Params, seed: u64) -> Vec<Client> {
    (0..count).map(|i| client("round", i, params, seed)).collect()
}

/// As between two processes.
pub fn moved(client: &mut Client) {
    *client = Client::from_bytes(&client.to_bytes()).unwrap();
}

/// Rounds 0 and 1: the server has the shares of those who are there, and their names.
pub fn shared(params: Params, all: &mut [Client], gone: &[Gone]) -> Result<Server> {
    let mut server = Server::new("round", params)?;
    for client in all.iter_mut().rev() {
        server.collect_keys(&client.advertise()?)?;
        moved(client);
    }
    let roster = server.roster()?;
    for (client, _) in all.iter_mut().zip(gone).filter(|(_, g)| **g > Gone::AfterKeys) {
        server.collect_shares(&client.share(&roster)?)?;
        moved(client);
    }
    Ok(server)
}

/// Round 2.
pub fn sent(
    server: &mut Server,
    all: &mut [Client],
    inputs: &[Products],
    gone: &[Gone],
) -> Result<()> {
    for (i, client) in all.iter_mut().enumerate().filter(|(i, _)| gone[*i] > Gone::AfterShares) {
        let input = client.mask(&server.inbox(&name(i))?, &inputs[i])?;
        moved(client);
        if gone[i] > Gone::InputLost {
            server.collect_masked(&input)?;
        }
    }
    Ok(())
}

/// The whole round.
pub fn round(params: Params, inputs: &[Products], gone: &[Gone], seed: u64) -> Result<Total> {
    let mut all = clients(inputs.len(), params, seed);
    let mut server = shared(params, &mut all, gone)?;
    sent(&mut server, &mut all, inputs, gone)?;
    let survivors = server.survivors()?;
    for (client, _) in all.iter_mut().zip(gone).filter(|(_, g)| **g == Gone::Never) {
        server.collect_answer(&client.unmask(&survivors)?)?;
        moved(client);
    }
    server.finish()
}

/// Masks sums as those of the agreement and step the client's keys are for.
pub trait Masks {
    fn mask(&mut self, inbox: &[u8], products: &Products) -> Result<Vec<u8>>;
}

impl Masks for Client {
    fn mask(&mut self, inbox: &[u8], products: &Products) -> Result<Vec<u8>> {
        let (agreement, step) = (self.params().agreement(), self.params().step());
        self.masked(inbox, &Input { agreement, step, products })
    }
}
