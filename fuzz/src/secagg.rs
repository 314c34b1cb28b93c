//! Messages of secure aggregation, and a client's state: whatever bytes come, a side takes them or refuses them and is unchanged then.
//!
//! The first byte chooses a message of a round that is otherwise honest. Then come edits of it, three bytes each: a place (two bytes)
//! and the byte that goes there; with the first byte's highest bit set they are the message themselves, behind an honest header.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use pmfcl::summary::Products;
use pmfcl_secagg::{Client, Identity, Input, Params, Server, SysRng};

const CLIENTS: usize = 3;
const HEADER: usize = 40;

/// An honest signed round: both sides before each message, and the message.
struct Round {
    clients: Vec<Vec<Vec<u8>>>,
    servers: Vec<Server>,
    messages: Vec<Vec<u8>>,
}

fn name(i: usize) -> String {
    format!("c{i}")
}

fn identity(i: usize) -> Identity {
    let secret = |i: usize| [i as u8 + 1; 32];
    let known: BTreeMap<_, _> =
        (0..CLIENTS).map(|i| (name(i), Identity::public(&secret(i)))).collect();
    Identity::new(&secret(i), &known).expect("keys")
}

fn params() -> Params {
    Params::new(2, CLIENTS, 2, 1).expect("two of three").signed()
}

fn products() -> Products {
    Products {
        n: 4.0,
        features: 2,
        targets: 1,
        xx: vec![4.0, 1.0, 2.0],
        xy: vec![1.0, 3.0],
        yy: vec![5.0],
        y: vec![1.0],
    }
}

fn states(clients: &[Client]) -> Vec<Vec<u8>> {
    clients.iter().map(|client| client.to_bytes().to_vec()).collect()
}

fn read(state: &[u8], i: usize) -> Client {
    Client::from_bytes_signed(state, identity(i)).expect("an honest state")
}

fn round() -> Round {
    let mut server = Server::new("r", params()).expect("a round");
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|i| {
            Client::signed("r", &name(i), params(), identity(i), &mut SysRng).expect("a client")
        })
        .collect();
    let mut round = Round { clients: Vec::new(), servers: Vec::new(), messages: Vec::new() };
    let mut note = |clients: &[Client], server: &Server, message: &[u8]| {
        round.clients.push(states(clients));
        round.servers.push(server.clone());
        round.messages.push(message.to_vec());
    };
    let keys: Vec<_> = clients.iter().map(|c| c.advertise().expect("keys")).collect();
    note(&clients, &server, &keys[0]);
    keys.iter().for_each(|k| drop(server.collect_keys(k).expect("honest")));
    let roster = server.roster().expect("all");
    note(&clients, &server, &roster);
    let shares: Vec<_> = clients.iter_mut().map(|c| c.share(&roster).expect("honest")).collect();
    note(&clients, &server, &shares[0]);
    shares.iter().for_each(|s| drop(server.collect_shares(s).expect("honest")));
    let inboxes: Vec<_> = (0..CLIENTS).map(|i| server.inbox(&name(i)).expect("all")).collect();
    note(&clients, &server, &inboxes[0]);
    let sums = products();
    let masked: Vec<_> = clients
        .iter_mut()
        .zip(&inboxes)
        .map(|(c, inbox)| c.masked(inbox, &input(&sums)).expect("honest"))
        .collect();
    note(&clients, &server, &masked[0]);
    masked.iter().for_each(|m| drop(server.collect_masked(m).expect("honest")));
    let survivors = server.survivors().expect("all");
    note(&clients, &server, &survivors);
    let signed: Vec<_> =
        clients.iter_mut().map(|c| c.confirm(&survivors).expect("honest")).collect();
    note(&clients, &server, &signed[0]);
    signed.iter().for_each(|s| drop(server.collect_confirmation(s).expect("honest")));
    let confirmed = server.confirmations().expect("all");
    note(&clients, &server, &confirmed);
    let answers: Vec<_> =
        clients.iter_mut().map(|c| c.unmask(&confirmed).expect("honest")).collect();
    note(&clients, &server, &answers[0]);
    round
}

fn input(products: &Products) -> Input<'_> {
    Input { agreement: params().agreement(), step: params().step(), products }
}

thread_local! {
    static ROUND: OnceCell<Round> = const { OnceCell::new() };
}

/// Gives the bytes to whoever waits for that message.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    ROUND.with(|cell| {
        let round = cell.get_or_init(round);
        let (raw, choice) = (*first >= 128, usize::from(*first & 127));
        let turn = choice % (round.messages.len() + 1);
        if turn == round.messages.len() {
            let state = &round.clients[choice / 10 % round.clients.len()][0];
            look_at_state(&changed(state, rest, raw));
            return;
        }
        give(round, turn, &changed(&round.messages[turn], rest, raw));
    });
}

fn changed(honest: &[u8], edits: &[u8], raw: bool) -> Vec<u8> {
    if raw {
        return [&honest[..HEADER], edits].concat();
    }
    let mut out = honest.to_vec();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % out.len();
        out[at] = edit[2];
    }
    out
}

fn look_at_state(bytes: &[u8]) {
    if let Ok(client) = Client::from_bytes_signed(bytes, identity(0)) {
        assert_eq!(&client.to_bytes()[..], bytes, "one state, one string of bytes");
    }
}

fn give(round: &Round, turn: usize, message: &[u8]) {
    let mut server = round.servers[turn].clone();
    let _ = server.sender(message);
    let mut client = read(&round.clients[turn][0], 0);
    let before = client.to_bytes();
    let sums = products();
    let to_client = match turn {
        1 => Some(client.share(message)),
        3 => Some(client.masked(message, &input(&sums))),
        5 => Some(client.confirm(message)),
        7 => Some(client.unmask(message)),
        _ => None,
    };
    if let Some(answer) = to_client {
        if answer.is_err() {
            assert_eq!(client.to_bytes()[..], before[..], "a refusal changed the client");
        }
        return;
    }
    let taken = match turn {
        0 => server.collect_keys(message),
        2 => server.collect_shares(message),
        4 => server.collect_masked(message),
        6 => server.collect_confirmation(message),
        _ => server.collect_answer(message),
    };
    if taken.is_err() {
        let again = match turn {
            0 => server.collect_keys(&round.messages[0]),
            2 => server.collect_shares(&round.messages[2]),
            4 => server.collect_masked(&round.messages[4]),
            6 => server.collect_confirmation(&round.messages[6]),
            _ => server.collect_answer(&round.messages[8]),
        };
        again.expect("a refusal changed the server");
    }
}
