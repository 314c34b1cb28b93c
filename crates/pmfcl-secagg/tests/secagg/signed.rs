//! Signed rounds: the same sum, and a server that lies is found out.

use std::collections::BTreeMap;

use crate::support::{Gone, Masks as _, agreement, name, round, sent, tables};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use pmfcl::summary::Products;
use pmfcl_oracle::Draw;
use pmfcl_secagg::{Client, Error, Identity, Params, Server};

const HEADER: usize = 40;
const CLIENTS: usize = 5;

/// Whether bytes are taken.
type Read<'a> = &'a dyn Fn(&[u8]) -> bool;

fn secret(i: usize) -> [u8; 32] {
    [i as u8 + 1; 32]
}

fn known() -> BTreeMap<String, [u8; 32]> {
    (0..CLIENTS).map(|i| (name(i), Identity::public(&secret(i)))).collect()
}

fn identity(i: usize) -> Identity {
    Identity::new(&secret(i), &known()).unwrap()
}

fn params() -> Params {
    Params::new(3, CLIENTS, 3, 1).unwrap().signed()
}

fn client_as(i: usize, identity: Identity, seed: u64) -> Client {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    Client::signed("round", &name(i), params(), identity, &mut random).unwrap()
}

fn inputs() -> Vec<Products> {
    let agreement = agreement(2);
    tables(CLIENTS, 2, 51).iter().map(|t| t.summary(&agreement).products()).collect()
}

fn moved(client: &mut Client, i: usize) {
    *client = Client::from_bytes_signed(&client.to_bytes(), identity(i)).unwrap();
}

fn is_refused<T>(result: Result<T, Error>, with: &str) {
    let error = result.err().expect("refused").to_string();
    assert!(error.contains(with), "{error}");
}

/// Inputs of all but client 4, which has shared its keys.
fn before_signatures() -> (Vec<Client>, Server, Vec<u8>) {
    let mut server = Server::new("round", params()).unwrap();
    let mut all: Vec<Client> = (0..CLIENTS).map(|i| client_as(i, identity(i), i as u64)).collect();
    all.iter().for_each(|c| {
        server.collect_keys(&c.advertise().unwrap()).unwrap();
    });
    let roster = server.roster().unwrap();
    for (i, c) in all.iter_mut().enumerate() {
        server.collect_shares(&c.share(&roster).unwrap()).unwrap();
        moved(c, i);
    }
    let inputs = inputs();
    for (i, c) in all.iter_mut().enumerate().take(4) {
        let inbox = server.inbox(&name(i)).unwrap();
        server.collect_masked(&c.mask(&inbox, &inputs[i]).unwrap()).unwrap();
        moved(c, i);
    }
    let list = server.survivors().unwrap();
    (all, server, list)
}

/// A list as a lying server may write it.
fn list(honest: &[u8], survivors: &[u32], dropped: &[u32]) -> Vec<u8> {
    let mut out = honest[..HEADER].to_vec();
    for places in [survivors, dropped] {
        out.extend((places.len() as u32).to_le_bytes());
        places.iter().for_each(|p| out.extend(p.to_le_bytes()));
    }
    out
}

#[test]
fn the_sum_is_that_of_a_round_without_signatures() {
    let (mut all, mut server, list) = before_signatures();
    for (i, c) in all.iter_mut().enumerate().take(3) {
        is_refused(c.unmask(&list), "call `confirm`");
        server.collect_confirmation(&c.confirm(&list).unwrap()).unwrap();
        moved(c, i);
        is_refused(c.confirm(&list), "has signed a list");
    }
    let signatures = server.confirmations().unwrap();
    for (i, c) in all.iter_mut().enumerate().take(3) {
        server.collect_answer(&c.unmask(&signatures).unwrap()).unwrap();
        moved(c, i);
        is_refused(c.unmask(&signatures), "answers once");
    }
    let plain = Params::new(3, CLIENTS, 3, 1).unwrap();
    let mut gone = [Gone::Never; CLIENTS];
    gone[4] = Gone::AfterShares;
    assert_eq!(server.finish(), round(plain, &inputs(), &gone, 52));
}

#[test]
fn a_server_that_tells_clients_different_lists_gets_no_shares() {
    let (mut all, mut server, honest) = before_signatures();
    // To two of four it says that client 2 is gone.
    let other = list(&honest, &[0, 1, 3], &[2, 4]);
    for (i, shown) in [(0, &other), (1, &other), (2, &honest), (3, &honest)] {
        server.collect_confirmation(&all[i].confirm(shown).unwrap()).unwrap();
    }
    let signatures = server.confirmations().unwrap();
    for c in &mut all[..4] {
        let error = c.unmask(&signatures).unwrap_err();
        assert!(matches!(error, Error::TooFew { found: 2, threshold: 3, .. }), "{error}");
    }
    // Nor by repeating a signature, nor with one that is not of the list.
    let signature = signatures[HEADER + 4 + 4..][..64].to_vec();
    let mut forged = signatures[..HEADER].to_vec();
    forged.extend(4_u32.to_le_bytes());
    for place in 0..4_u32 {
        forged.extend(place.to_le_bytes());
        forged.extend(&signature);
    }
    is_refused(all[0].unmask(&forged), "threshold is 3");
}

#[test]
fn clients_the_server_invents_are_not_believed() {
    // The server knows names, not secrets: it signs with a key of its own, or with none that fits.
    let stranger = Identity::new(&[99; 32], &known()).unwrap();
    let mut server = Server::new("round", params()).unwrap();
    let mut real = client_as(0, identity(0), 1);
    server.collect_keys(&real.advertise().unwrap()).unwrap();
    for i in 1..CLIENTS {
        let fake = client_as(i, stranger.clone(), 60 + i as u64);
        server.collect_keys(&fake.advertise().unwrap()).unwrap();
    }
    is_refused(real.share(&server.roster().unwrap()), "`client 01`: its keys are not signed");
    // A name nobody knows is nobody.
    let mut few = known();
    few.remove(&name(3));
    let mut real = client_as(0, Identity::new(&secret(0), &few).unwrap(), 10);
    let mut server = Server::new("round", params()).unwrap();
    server.collect_keys(&real.advertise().unwrap()).unwrap();
    for i in 1..CLIENTS {
        server.collect_keys(&client_as(i, identity(i), i as u64).advertise().unwrap()).unwrap();
    }
    is_refused(real.share(&server.roster().unwrap()), "`client 03`: its keys are not signed");
}

#[test]
fn keys_signed_for_another_round_are_not_believed() {
    let mut random = ChaCha20Rng::seed_from_u64(70);
    let old = Client::signed("old round", &name(1), params(), identity(1), &mut random).unwrap();
    let mut server = Server::new("round", params()).unwrap();
    let mut all: Vec<Client> =
        [0, 2, 3].map(|i| client_as(i, identity(i), i as u64)).into_iter().collect();
    all.iter().for_each(|c| {
        server.collect_keys(&c.advertise().unwrap()).unwrap();
    });
    let old = old.advertise().unwrap();
    is_refused(server.collect_keys(&old), "another round");
    let mut forged = all[0].advertise().unwrap()[..HEADER].to_vec();
    forged.extend(&old[HEADER..]);
    server.collect_keys(&forged).unwrap();
    is_refused(all[0].share(&server.roster().unwrap()), "`client 01`: its keys are not signed");
}

#[test]
fn identities_and_signed_rounds_go_together() {
    let mut random = ChaCha20Rng::seed_from_u64(80);
    is_refused(Client::new("round", "a", params(), &mut random), "give the client an identity");
    let plain = Params::new(3, CLIENTS, 3, 1).unwrap();
    let signed = Client::signed("round", "a", plain, identity(0), &mut random);
    is_refused(signed, "agree on signed parameters");
    let state = client_as(0, identity(0), 1).to_bytes();
    is_refused(Client::from_bytes(&state), "give the client an identity");
    let mut weak = known();
    weak.insert("weak".to_owned(), [0; 32]);
    is_refused(Identity::new(&secret(0), &weak), "`weak`");
    assert!(!format!("{:?}", identity(0)).contains("SigningKey"));
    // And a plain round asks for no signatures.
    let mut all = crate::support::clients(CLIENTS, plain, 81);
    let mut server = crate::support::shared(plain, &mut all, &[Gone::Never; CLIENTS]).unwrap();
    sent(&mut server, &mut all, &inputs(), &[Gone::Never; CLIENTS]).unwrap();
    let list = server.survivors().unwrap();
    is_refused(all[0].confirm(&list), "call `unmask`");
}

/// What the other tests of bytes do, for what signed rounds add: 12,000 changes, cuts and additions.
#[test]
fn no_change_makes_a_reader_panic() {
    let (mut all, mut server, list) = before_signatures();
    let first = all[0].confirm(&list).unwrap();
    let state = all[0].to_bytes().to_vec();
    let at_first = server.clone();
    server.collect_confirmation(&first).unwrap();
    for c in &mut all[1..4] {
        server.collect_confirmation(&c.confirm(&list).unwrap()).unwrap();
    }
    let signatures = server.confirmations().unwrap();
    let resumed = |bytes: &[u8]| Client::from_bytes_signed(bytes, identity(0));
    let to_server = |bytes: &[u8]| at_first.clone().collect_confirmation(bytes).is_ok();
    let to_client = |bytes: &[u8]| resumed(&state).unwrap().unmask(bytes).is_ok();
    let from_state = |bytes: &[u8]| resumed(bytes).is_ok();
    let readers: [(&[u8], Read<'_>, usize); 3] = [
        (&first, &to_server, 10_000),
        (&signatures, &to_client, 1_000),
        (&state, &from_state, 1_000),
    ];
    let mut draw = Draw::new(90);
    for (bytes, read, changes) in readers {
        assert!(read(bytes));
        assert!((0..bytes.len()).step_by(7).all(|end| !read(&bytes[..end])));
        assert!(!read(&[bytes, &[0]].concat()));
        for _ in 0..changes {
            let mut changed = bytes.to_vec();
            for _ in 0..=draw.below(3) {
                let at = draw.below(changed.len());
                match draw.below(3) {
                    0 => changed[at] = draw.bits() as u8,
                    1 => changed.insert(at, draw.bits() as u8),
                    _ => changed.truncate(at.max(1)),
                }
            }
            read(&changed);
        }
    }
}
