//! What a server does not learn, and what clients and server refuse.

use crate::support::{Gone, Masks as _, agreement, client, clients, name, sent, shared, tables};
use pmfcl::summary::Products;
use pmfcl_secagg::{Client, Error, Params, Server};

const D: usize = 3;
const HEADER: usize = 40;
/// In an inbox: a place and what is sealed.
const LETTER: usize = 84;
/// On a roster: one byte of length, nine of name, two keys.
const MEMBER: usize = 1 + 9 + 64;

fn inputs(count: usize) -> Vec<Products> {
    let agreement = agreement(D);
    tables(count, D, 21).iter().map(|t| t.summary(&agreement).products()).collect()
}

fn params(threshold: usize, clients: usize) -> Params {
    Params::new(threshold, clients, D + 1, 1).unwrap()
}

fn is_refused<T>(result: Result<T, Error>, with: &str) {
    let error = result.err().expect("refused").to_string();
    assert!(error.contains(with), "{error}");
}

/// A list of survivors as a server that does not keep to the protocol may write it.
fn list(honest: &[u8], survivors: &[u32], dropped: &[u32]) -> Vec<u8> {
    let mut out = honest[..HEADER].to_vec();
    for places in [survivors, dropped] {
        out.extend((places.len() as u32).to_le_bytes());
        places.iter().for_each(|p| out.extend(p.to_le_bytes()));
    }
    out
}

/// Five clients, four inputs, and the honest list of survivors; client 4 has shared and dropped.
fn before_answers() -> (Vec<Client>, Server, Vec<u8>) {
    let mut gone = [Gone::Never; 5];
    gone[4] = Gone::AfterShares;
    let params = params(3, 5);
    let mut all = clients(5, params, 22);
    let mut server = shared(params, &mut all, &gone).unwrap();
    sent(&mut server, &mut all, &inputs(5), &gone).unwrap();
    let survivors = server.survivors().unwrap();
    (all, server, survivors)
}

#[test]
fn a_masked_input_alone_is_uniform() {
    // One design of many columns, an input of zeros except for n: 80,601 numbers, all but one the same in the clear.
    let params = Params::new(2, 3, 400, 1).unwrap();
    let mut all = clients(3, params, 23);
    let mut server = shared(params, &mut all, &[Gone::Never; 3]).unwrap();
    let nothing = Products {
        n: 1.0,
        features: 400,
        targets: 1,
        xx: vec![0.0; 80_200],
        xy: vec![0.0; 400],
        yy: vec![0.0],
        y: vec![0.0],
    };
    let sent: Vec<Vec<u8>> = all
        .iter_mut()
        .enumerate()
        .map(|(i, c)| c.mask(&server.inbox(&name(i)).unwrap(), &nothing).unwrap())
        .collect();
    let body = |bytes: &[u8]| bytes[HEADER + 8..].to_vec();
    let mut looks = sent.iter().map(|bytes| body(bytes)).collect::<Vec<_>>();
    // The sum of all inputs has lost the pair masks, and is still hidden by the own ones.
    let numbers = |bytes: &[u8]| -> Vec<u128> {
        bytes.chunks_exact(16).map(|b| u128::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let all: Vec<Vec<u128>> = looks.iter().map(|bytes| numbers(bytes)).collect();
    let sum = |of: &[usize]| -> Vec<u8> {
        let at = |k: usize| of.iter().fold(0_u128, |s, i| s.wrapping_add(all[*i][k]));
        (0..all[0].len()).flat_map(|k| at(k).to_le_bytes()).collect()
    };
    looks.push(sum(&[0, 1]));
    looks.push(sum(&[0, 1, 2]));
    for bytes in looks {
        // χ² over the 256 values in each of the 16 bytes of a number: mean 255, standard deviation 22.6.
        for lane in 0..16 {
            let mut counts = [0_f64; 256];
            bytes.iter().skip(lane).step_by(16).for_each(|b| counts[usize::from(*b)] += 1.0);
            let expected = bytes.len() as f64 / 16.0 / 256.0;
            let chi: f64 = counts.iter().map(|c| (c - expected) * (c - expected) / expected).sum();
            assert!((255.0 - 120.0..255.0 + 120.0).contains(&chi), "byte {lane}: {chi}");
        }
        let mut seen = numbers(&bytes);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 80_603, "no number comes twice");
    }
}

#[test]
fn a_client_answers_one_list_once() {
    let (mut all, mut server, survivors) = before_answers();
    let first = all[0].unmask(&survivors).unwrap();
    server.collect_answer(&first).unwrap();
    is_refused(all[0].unmask(&survivors), "answers once");
    is_refused(all[0].unmask(&list(&survivors, &[0, 1, 2], &[3, 4])), "answers once");
    // Nor after a move to another process.
    crate::support::moved(&mut all[0]);
    is_refused(all[0].unmask(&survivors), "answers once");
    is_refused(all[0].advertise(), "answers once");
    is_refused(server.collect_answer(&first), "already");
}

#[test]
fn lists_of_survivors_no_honest_server_sends_are_refused() {
    let (mut all, mut server, honest) = before_answers();
    for (survivors, dropped, why) in [
        (&[0, 1, 2, 3][..], &[3, 4][..], "both as survivor and as dropped"),
        (&[0, 1, 2, 3, 4], &[0, 1, 2, 3, 4], "both as survivor and as dropped"),
        (&[0, 1], &[2, 3, 4], "nothing is revealed"),
        (&[], &[0, 1, 2, 3, 4], "nothing is revealed"),
        (&[0, 1, 2, 3], &[], "leaves out"),
        (&[1, 2, 3], &[0, 4], "says this client sent no input"),
        (&[0, 1, 2, 2, 3], &[4], "do not ascend"),
        (&[3, 2, 1, 0], &[4], "do not ascend"),
        (&[0, 1, 2, 5], &[4], "not on it"),
    ] {
        is_refused(all[0].unmask(&list(&honest, survivors, dropped)), why);
    }
    let mut longer = honest.clone();
    longer.push(0);
    is_refused(all[0].unmask(&longer), "left over");
    // None of them cost the client its one answer.
    for client in &mut all[..3] {
        server.collect_answer(&client.unmask(&honest).unwrap()).unwrap();
    }
    assert_eq!(server.finish().unwrap().clients.len(), 4);
}

#[test]
fn an_answer_has_one_share_a_peer_of_the_right_kind() {
    let (mut all, ..) = before_answers();
    let (mut twin, _, honest) = before_answers();
    let state = all[0].to_bytes().to_vec();
    let answer = all[0].unmask(&honest).unwrap();
    let other = twin[0].unmask(&list(&honest, &[0, 1, 2], &[3, 4])).unwrap();
    assert_eq!(answer.len(), HEADER + 8 + 5 * 36, "one share for each of five");
    let share = |bytes: &[u8], of: usize| bytes[HEADER + 8 + 36 * of + 4..][..32].to_vec();
    for of in 0..5 {
        // The kind depends on the list and nothing else.
        assert_eq!(share(&answer, of) == share(&other, of), of != 3);
        // In the state the mask key's share comes first.
        let at = state.len() - (5 - of) * 68 + 4;
        let kind = if of == 4 { &state[at..at + 32] } else { &state[at + 32..at + 64] };
        assert_eq!(share(&answer, of), kind);
    }
}

#[test]
fn one_who_shared_nothing_is_neither_survivor_nor_dropped() {
    let mut gone = [Gone::Never; 5];
    gone[4] = Gone::AfterKeys;
    let params = params(3, 5);
    let mut all = clients(5, params, 24);
    let mut server = shared(params, &mut all, &gone).unwrap();
    sent(&mut server, &mut all, &inputs(5), &gone).unwrap();
    let honest = server.survivors().unwrap();
    for (survivors, dropped) in [(&[0, 1, 2, 3, 4][..], &[][..]), (&[0, 1, 2, 3], &[4])] {
        is_refused(all[0].unmask(&list(&honest, survivors, dropped)), "has shared nothing");
    }
    is_refused(server.inbox(&name(4)), "out of this round");
}

#[test]
fn letters_changed_swapped_or_replayed_are_refused() {
    let params = params(3, 4);
    let inputs = inputs(4);
    let mut all = clients(4, params, 25);
    let mut server = shared(params, &mut all, &[Gone::Never; 4]).unwrap();
    let inbox = server.inbox(&name(0)).unwrap();
    let letter = |i: usize| HEADER + 8 + LETTER * i + 4..HEADER + 8 + LETTER * (i + 1);
    // One bit anywhere in a letter.
    for at in letter(1) {
        let mut changed = inbox.clone();
        changed[at] ^= 1;
        is_refused(all[0].mask(&changed, &inputs[0]), "`client 02`: its letter");
    }
    // Two letters to the same client under each other's name.
    let mut swapped = inbox.clone();
    let (first, second) = (inbox[letter(0)].to_vec(), inbox[letter(1)].to_vec());
    swapped[letter(0)].copy_from_slice(&second);
    swapped[letter(1)].copy_from_slice(&first);
    is_refused(all[0].mask(&swapped, &inputs[0]), "`client 01`: its letter");
    // A letter of the same sender to someone else.
    let mut astray = inbox.clone();
    astray[letter(1)].copy_from_slice(&server.inbox(&name(1)).unwrap()[letter(1)]);
    is_refused(all[0].mask(&astray, &inputs[0]), "`client 02`: its letter");
    is_refused(all[0].mask(&server.inbox(&name(1)).unwrap(), &inputs[0]), "another client's");
    // A letter of another round between the same clients, the rest as it should be.
    let mut before = clients(4, params, 26);
    let mut old = shared(params, &mut before, &[Gone::Never; 4]).unwrap();
    let old = old.inbox(&name(0)).unwrap();
    let mut replayed = inbox.clone();
    replayed[letter(2)].copy_from_slice(&old[letter(2)]);
    is_refused(all[0].mask(&replayed, &inputs[0]), "`client 03`: its letter");
    is_refused(all[0].mask(&old, &inputs[0]), "another round");
    // The honest one still does, once.
    all[0].mask(&inbox, &inputs[0]).unwrap();
    is_refused(all[0].mask(&inbox, &inputs[1]), "has sent its input");
}

#[test]
fn small_cohorts_are_refused_by_clients_whatever_the_server_says() {
    // A server with a lower threshold makes a roster of two; a client that agreed on three sees that it is another round.
    let two = Params::new(2, 3, D + 1, 1).unwrap();
    let three = Params::new(3, 3, D + 1, 1).unwrap();
    let mut lax = Server::new("round", two).unwrap();
    let mut all = clients(3, three, 27);
    for c in &clients(3, two, 27)[..2] {
        lax.collect_keys(&c.advertise().unwrap()).unwrap();
    }
    is_refused(lax.collect_keys(&all[0].advertise().unwrap()), "another round");
    let roster = lax.roster().unwrap();
    is_refused(all[0].share(&roster), "another round");
    // Even under the right hash.
    let mut forged = all[0].advertise().unwrap()[..HEADER].to_vec();
    forged[6] = 2;
    forged.extend(&roster[HEADER..]);
    is_refused(all[0].share(&forged), "2 clients on the roster, the threshold is 3");
    // Too few letters.
    let mut server = shared(three, &mut all, &[Gone::Never; 3]).unwrap();
    let inbox = server.inbox(&name(0)).unwrap();
    let mut short = inbox[..HEADER + 8 + 84].to_vec();
    short[HEADER + 4] = 1;
    is_refused(all[0].mask(&short, &inputs(1)[0]), "nothing is revealed");
}

#[test]
fn rosters_no_honest_server_sends_are_refused() {
    let params = params(3, 4);
    let all = clients(4, params, 28);
    let mut server = Server::new("round", params).unwrap();
    for c in &all {
        server.collect_keys(&c.advertise().unwrap()).unwrap();
    }
    is_refused(server.collect_keys(&all[0].advertise().unwrap()), "already");
    let roster = server.roster().unwrap();
    let member = |i: usize| HEADER + 4 + MEMBER * i..HEADER + 4 + MEMBER * (i + 1);
    let key = |i: usize| member(i).start + 10;
    let try_with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut changed = roster.clone();
        change(&mut changed);
        client("round", 0, params, 28).share(&changed)
    };
    is_refused(try_with(&|r| r[key(0)] ^= 1), "other keys than its own");
    is_refused(try_with(&|r| r[key(0) + 32] ^= 1), "other keys than its own");
    is_refused(
        try_with(&|r| {
            let second = r[member(1)].to_vec();
            r[member(2)].copy_from_slice(&second);
        }),
        "twice on the roster",
    );
    // Someone's key under another name, and own keys as someone else's.
    for (of, to) in [(1, 2), (0, 3)] {
        is_refused(
            try_with(&|r| {
                let stolen = r[key(of)..key(of) + 32].to_vec();
                r[key(to) + 32..key(to) + 64].copy_from_slice(&stolen);
            }),
            "a key of",
        );
    }
    is_refused(
        try_with(&|r| {
            let keys = r[member(0)].to_vec();
            r[member(0).start + 9] = b'5';
            r.drain(member(0));
            r.extend(keys);
        }),
        "out of order",
    );
    is_refused(
        try_with(&|r| {
            r.drain(member(0));
            r[HEADER] = 3;
        }),
        "not on the roster",
    );
    // A point of order one: the secret would be known to all.
    is_refused(try_with(&|r| r[key(2)..key(2) + 32].fill(0)), "small order");
    is_refused(try_with(&|r| r.push(0)), "left over");
    let other = client("other round", 0, params, 28).share(&roster);
    is_refused(other, "another round");
    // Whoever was shown another roster cannot be played off against the rest: letters do not open.
    client("round", 0, params, 28).share(&roster).unwrap();
}

#[test]
fn a_wrong_share_is_found_and_costs_a_share_not_the_round() {
    let (mut all, mut server, honest) = before_answers();
    for (i, client) in all.iter_mut().enumerate().take(3) {
        let mut answer = client.unmask(&honest).unwrap();
        if i == 1 {
            answer[HEADER + 8 + 36 * 2 + 4] ^= 1;
        }
        server.collect_answer(&answer).unwrap();
    }
    // Three answers, of which three are needed: no sum is given.
    is_refused(server.finish(), "do not fit together");
    server.collect_answer(&all[3].unmask(&honest).unwrap()).unwrap();
    let total = server.finish().unwrap();
    let honest: Vec<f64> = inputs(5).iter().take(4).map(|p| p.n).collect();
    assert_eq!(total.products.n.to_bits(), honest.iter().sum::<f64>().to_bits());
}

#[test]
fn a_changed_input_does_not_pass_as_a_sum() {
    let params = params(3, 3);
    let mut all = clients(3, params, 29);
    let mut server = shared(params, &mut all, &[Gone::Never; 3]).unwrap();
    let inputs = inputs(3);
    for (i, c) in all.iter_mut().enumerate() {
        let mut input = c.mask(&server.inbox(&name(i)).unwrap(), &inputs[i]).unwrap();
        if i == 1 {
            let at = HEADER + 8 + 15;
            input[at] ^= 0x40; // the top of the number of samples
        }
        server.collect_masked(&input).unwrap();
    }
    let survivors = server.survivors().unwrap();
    for c in &mut all {
        server.collect_answer(&c.unmask(&survivors).unwrap()).unwrap();
    }
    assert_eq!(server.finish(), Err(Error::Sum));
}

#[test]
fn a_late_input_is_refused_and_stays_hidden() {
    let params = params(3, 4);
    let mut all = clients(4, params, 30);
    let mut server = shared(params, &mut all, &[Gone::Never; 4]).unwrap();
    let inputs = inputs(4);
    let sent: Vec<Vec<u8>> = (0..4)
        .map(|i| all[i].mask(&server.inbox(&name(i)).unwrap(), &inputs[i]).unwrap())
        .collect();
    for input in &sent[..3] {
        server.collect_masked(input).unwrap();
        is_refused(server.collect_masked(input), "already");
    }
    let survivors = server.survivors().unwrap();
    is_refused(server.collect_masked(&sent[3]), "before the list of survivors");
    // The late client gives nothing away either.
    is_refused(all[3].unmask(&survivors), "says this client sent no input");
}

#[test]
fn the_state_of_a_client_shows_no_secret_in_debug_output() {
    let c = client("round", 0, params(3, 4), 31);
    assert_eq!(format!("{c:?}").matches("seed").count(), 0);
    is_refused(Client::from_bytes(b"PMFS"), "cut off");
}
