//! Any bytes may come: they are read or refused, never a panic, and what is read is what was written.

use crate::support::{Gone, Masks as _, agreement, client, clients, name, sent, shared, tables};
use pmfcl::summary::Products;
use pmfcl_oracle::Draw;
use pmfcl_secagg::{Client, Params, Server};
use proptest::prelude::*;

const CLIENTS: usize = 4;

/// A reader of one kind of message, in the state in which it is due.
type Read = Box<dyn FnMut(&[u8]) -> bool>;

fn params() -> Params {
    Params::new(3, CLIENTS, 2, 1).unwrap()
}

fn inputs() -> Vec<Products> {
    let agreement = agreement(1);
    tables(CLIENTS, 1, 41).iter().map(|t| t.summary(&agreement).products()).collect()
}

/// The messages of a round, each with its reader. Readers start from the same state every time.
fn readers() -> Vec<(&'static str, Vec<u8>, Read)> {
    let p = params();
    let inputs = inputs();
    let mut gone = [Gone::Never; CLIENTS];
    gone[3] = Gone::AfterShares;
    let fresh = || client("round", 0, p, 42);
    let server_at = move |stage: usize| -> (Vec<Client>, Server, Vec<Vec<u8>>) {
        let inputs = self::inputs();
        let mut all = clients(CLIENTS, p, 42);
        if stage == 0 {
            return (all, Server::new("round", p).unwrap(), Vec::new());
        }
        let mut at = gone;
        if stage == 1 {
            at[0] = Gone::AfterKeys;
        }
        let mut server = shared(p, &mut all, &at).unwrap();
        if stage == 1 {
            return (all, server, Vec::new());
        }
        if stage == 2 {
            let inbox = server.inbox(&name(0)).unwrap();
            let input = all[0].mask(&inbox, &inputs[0]).unwrap();
            return (all, server, vec![input]);
        }
        sent(&mut server, &mut all, &inputs, &at).unwrap();
        let survivors = server.survivors().unwrap();
        let answer = all[0].unmask(&survivors).unwrap();
        (all, server, vec![answer])
    };
    let mut all = clients(CLIENTS, p, 42);
    let keys = all[0].advertise().unwrap();
    let mut server = shared(p, &mut all, &gone).unwrap();
    let roster = server.roster().unwrap();
    let shares = fresh().share(&roster).unwrap();
    let inbox = server.inbox(&name(0)).unwrap();
    let before_input = all[0].to_bytes().to_vec();
    sent(&mut server, &mut all, &inputs, &gone).unwrap();
    let survivors = server.survivors().unwrap();
    let before_answer = all[0].to_bytes().to_vec();
    let masked = server_at(2).2.remove(0);
    let answer = server_at(3).2.remove(0);
    let fresh_state = fresh().to_bytes().to_vec();
    // Every message meets the same state: one that was taken leaves no trace.
    let to_server = move |stage: usize, take: fn(&mut Server, &[u8]) -> bool| -> Read {
        let server = server_at(stage).1;
        Box::new(move |bytes| take(&mut server.clone(), bytes))
    };
    let to_client = |state: Vec<u8>, take: fn(&mut Client, &[u8]) -> bool| -> Read {
        let mut held = Client::from_bytes(&state).unwrap();
        Box::new(move |bytes| {
            let taken = take(&mut held, bytes);
            if taken {
                held = Client::from_bytes(&state).unwrap();
            }
            taken
        })
    };
    vec![
        ("keys", keys, to_server(0, |s, b| s.collect_keys(b).is_ok())),
        ("roster", roster, to_client(fresh_state.clone(), |c, b| c.share(b).is_ok())),
        ("shares", shares, to_server(1, |s, b| s.collect_shares(b).is_ok())),
        (
            "inbox",
            inbox,
            to_client(before_input.clone(), |c, b| {
                let products = Products {
                    n: 1.0,
                    features: 2,
                    targets: 1,
                    xx: vec![1.0; 3],
                    xy: vec![1.0; 2],
                    yy: vec![1.0],
                    y: vec![1.0],
                };
                c.mask(b, &products).is_ok()
            }),
        ),
        ("masked", masked, to_server(2, |s, b| s.collect_masked(b).is_ok())),
        ("survivors", survivors, to_client(before_answer.clone(), |c, b| c.unmask(b).is_ok())),
        ("answer", answer, to_server(3, |s, b| s.collect_answer(b).is_ok())),
        ("state 0", fresh_state, Box::new(|b| Client::from_bytes(b).is_ok())),
        ("state 1", before_input, Box::new(|b| Client::from_bytes(b).is_ok())),
        ("state 2", before_answer, Box::new(|b| Client::from_bytes(b).is_ok())),
    ]
}

#[test]
fn every_message_is_taken_as_it_is_and_refused_when_cut_or_longer() {
    for (kind, bytes, mut read) in readers() {
        for end in 0..bytes.len() {
            assert!(!read(&bytes[..end]), "{kind} cut to {end} of {}", bytes.len());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(!read(&longer), "{kind} with a byte more");
        assert!(read(&bytes), "{kind}");
    }
}

#[test]
fn a_header_of_anything_else_is_refused() {
    for (kind, bytes, mut read) in readers() {
        for at in 0..40 {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(!read(&changed), "{kind}: bit {bit} of byte {at}");
            }
        }
    }
}

/// 110,000 changed messages: bytes set, inserted, taken out, repeated, and lengths overwritten.
#[test]
fn no_change_makes_a_reader_panic() {
    let mut draw = Draw::new(43);
    let (mut taken, mut changes) = (0_u32, 0_u32);
    for (kind, bytes, mut read) in readers() {
        // A roster is checked key by key, which takes its time.
        let few = ["roster", "state 1", "state 2"].contains(&kind);
        for _ in 0..if few { 2_000 } else { 15_000 } {
            changes += 1;
            let mut changed = bytes.clone();
            for _ in 0..=draw.below(3) {
                if changed.is_empty() {
                    break;
                }
                // Mostly behind the header, where a change is read further.
                let start = if draw.below(4) == 0 { 0 } else { 40.min(changed.len() - 1) };
                let at = start + draw.below(changed.len() - start);
                match draw.below(6) {
                    0 => changed[at] = draw.bits() as u8,
                    1 => changed[at] ^= 1 << draw.below(8),
                    2 => changed.insert(at, draw.bits() as u8),
                    3 => {
                        changed.remove(at);
                    }
                    4 => {
                        let size = [0, 1, 2, 5, 255, 1 << 16, u32::MAX - 1, u32::MAX];
                        let size = size[draw.below(size.len())].to_le_bytes();
                        let end = changed.len().min(at + 4);
                        changed[at..end].copy_from_slice(&size[..end - at]);
                    }
                    _ => {
                        let piece = changed[at..].to_vec();
                        changed.extend(piece);
                    }
                }
            }
            taken += u32::from(read(&changed));
        }
    }
    // Changed numbers of a masked input and changed shares look like others; most changes do not.
    assert!(changes > 110_000 && taken < changes / 2, "{taken} of {changes} were taken");
    println!("{taken} of {changes} were taken");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_no_state(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Client::from_bytes(&bytes).is_err());
    }
}
