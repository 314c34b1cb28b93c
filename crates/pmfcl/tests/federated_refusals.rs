//! What a server does not take, and that it is then what it was.

mod support;

use std::collections::BTreeSet;

use pmfcl::federated::{Agreement, Broadcast, Receipt, Refused, Rules, Server, Update};
use pmfcl::{Basis, ClassLoss, ClassifierSettings, Design, Labels, Rows, Settings, Summary};
use pmfcl_oracle::Draw;
use support::{Table, plain};

const D: usize = 3;

fn agreement() -> Agreement {
    let design = Design::new(Basis::default().fix(&[], D).unwrap(), true);
    Agreement::values(Settings { intercept: true, ..plain() }, 1, design).unwrap()
}

fn sent(agreement: &Agreement, client: &str, step: u64, n: usize) -> Update {
    let table = Table::noise(n, D, 1, &mut Draw::new(step + n as u64));
    agreement.summarize(client, step, table.rows(), table.targets()).unwrap()
}

fn rules() -> Rules {
    let roster = ["anna", "ben"].map(String::from).into_iter().collect::<BTreeSet<_>>();
    Rules {
        roster: Some(roster),
        least_samples: 4.0,
        most_samples: 1000.0,
        most_bytes: 4000,
        ..Rules::default()
    }
}

/// A server with two updates.
fn server() -> Server {
    let agreement = agreement();
    let mut server = Server::new(agreement.clone(), rules()).unwrap();
    server.accept(sent(&agreement, "anna", 0, 20)).unwrap();
    server.accept(sent(&agreement, "ben", 0, 30)).unwrap();
    server
}

/// Everything a server holds, as bytes.
fn state(server: &Server) -> Vec<Vec<u8>> {
    let held = server.updates().map(Update::to_bytes);
    held.chain([server.broadcast().unwrap().to_bytes()]).collect()
}

/// Changes bytes and gives them the check number they should have.
fn sealed(bytes: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 4].to_vec();
    change(&mut body);
    let check = !body.iter().fold(!0_u32, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xEDB8_8320 & (c & 1).wrapping_neg()))
    });
    body.extend_from_slice(&check.to_le_bytes());
    body
}

#[test]
fn every_refusal_names_the_client_and_leaves_the_server_as_it_was() {
    let mut server = server();
    let before = state(&server);
    let agreement = agreement();
    let mut refuse = |update: Update, word: &str| {
        let client = update.client().to_owned();
        let error = server.accept_bytes(&update.to_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
        assert!(error.contains(&client) || word == "bytes", "{error} does not name {client}");
        assert_eq!(server.accept(update).unwrap_err().to_string(), error);
        assert_eq!(state(&server), before);
    };
    refuse(sent(&agreement, "zoe", 0, 20), "not on the roster");
    refuse(sent(&agreement, "anna", 0, 21), "another update for step 0");
    refuse(sent(&agreement, "anna", 1, 2), "at least 4");
    refuse(sent(&agreement, "anna", 1, 1001), "at most 1000");
    let wider = Design::new(Basis::default().fix(&[], D + 1).unwrap(), true);
    let wider = Agreement::values(Settings { intercept: true, ..plain() }, 1, wider).unwrap();
    let table = Table::noise(20, D + 1, 1, &mut Draw::new(1));
    refuse(wider.summarize("ben", 1, table.rows(), table.targets()).unwrap(), "another model");
    let huge = Table::noise(20, D, 1, &mut Draw::new(1)).scaled(&[1.0, 1e120, 1.0]);
    refuse(agreement.summarize("ben", 1, huge.rows(), huge.targets()).unwrap(), "1e100");
    // A summary of other rows than the intercept says, as scaling makes it.
    let odd = sent(&agreement, "ben", 1, 20).summary().clone();
    let odd = Summary::from_bytes(&sealed(&odd.to_bytes(), |b| {
        b[20..28].copy_from_slice(&25.0_f64.to_le_bytes());
    }));
    refuse(Update::from_summary(&agreement, "ben", 1, odd.unwrap()).unwrap(), "the intercept");
}

#[test]
fn too_many_bytes_are_not_even_read() {
    let mut server = server();
    let before = state(&server);
    let most = server.rules().most_bytes;
    let error = server.accept_bytes(&vec![0; most + 1]).unwrap_err();
    assert_eq!(error, Refused::TooLarge { bytes: most + 1, most });
    assert_eq!(state(&server), before);
}

#[test]
fn a_small_diagonal_upload_cannot_unpack_to_more_than_the_limit() {
    let d = 600;
    let design = Design::new(Basis::default().fix(&[], d).unwrap(), false);
    let agreement = Agreement::values(plain(), 1, design).unwrap();
    let table = Table::noise(5, d, 1, &mut Draw::new(1));
    let sent = agreement.summarize("anna", 0, table.rows(), table.targets()).unwrap();
    let bytes = sent.in_diagonal(&agreement).unwrap().to_bytes();
    assert!(bytes.len() < 20_000);
    assert!(matches!(Update::from_bytes(&bytes, 100_000), Err(Refused::TooLarge { .. })));
    assert!(Update::from_bytes(&bytes, 2_000_000).is_ok());
}

#[test]
fn every_truncated_or_flipped_update_is_refused() {
    let agreement = agreement();
    for update in [
        sent(&agreement, "anna", 1, 20),
        sent(&agreement, "anna", 1, 20).in_single().unwrap(),
        sent(&agreement, "anna", 1, 20).in_diagonal(&agreement).unwrap(),
    ] {
        let bytes = update.to_bytes();
        assert_eq!(Update::from_bytes(&bytes, 4000), Ok(update));
        for end in 0..bytes.len() {
            assert!(Update::from_bytes(&bytes[..end], 4000).is_err(), "{end}");
        }
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Update::from_bytes(&flipped, 4000).is_err(), "{bit}");
        }
    }
}

#[test]
fn sealed_lies_never_panic_and_never_allocate_what_they_claim() {
    let agreement = agreement();
    let bytes = sent(&agreement, "anna", 1, 20).in_diagonal(&agreement).unwrap().to_bytes();
    let mut draw = Draw::new(6);
    let mut read = 0;
    for _ in 0..20_000 {
        let at = 6 + draw.below(bytes.len() - 10);
        let byte = draw.bits() as u8;
        let lie = sealed(&bytes, |body| body[at] = byte);
        if let Ok(update) = Update::from_bytes(&lie, 4000) {
            assert_eq!(update.to_bytes(), lie);
            read += 1;
        }
    }
    assert!(read > 0, "no lie was well formed");
}

#[test]
fn classes_that_do_not_sum_to_the_samples_are_refused() {
    for loss in [ClassLoss::Gaussian, ClassLoss::Logistic] {
        let design = Design::new(Basis::default().fix(&[], 1).unwrap(), true);
        let classes = Some(["a", "b"].map(String::from).to_vec());
        let settings = ClassifierSettings { loss, classes, ..ClassifierSettings::default() };
        let agreement = Agreement::classes(settings, design).unwrap();
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let labels = Labels::new(&["a", "a", "b", "a", "b", "b"]);
        let rows = Rows::new(&x, 1).unwrap();
        let good = agreement.summarize_labels("anna", 0, rows, &labels).unwrap().to_bytes();
        // The last sum of a summary, or the count of the first class behind least and separable.
        let at = match loss {
            ClassLoss::Logistic => 56 + "anna".len() + 16,
            _ => good.len() - 12,
        };
        let lie = sealed(&good, |b| b[at..at + 8].copy_from_slice(&1e3_f64.to_le_bytes()));
        let error = server.accept_bytes(&lie).unwrap_err().to_string();
        assert!(error.contains("classes do not sum") && error.contains("anna"), "{error}");
        assert_eq!(server.updates().len(), 0);
        assert_eq!(server.accept_bytes(&good), Ok(Receipt::Accepted));
    }
}

#[test]
fn a_broadcast_comes_back_bit_for_bit_or_not_at_all() {
    let sent = server().broadcast().unwrap();
    let bytes = sent.to_bytes();
    assert_eq!(bytes.len(), sent.nbytes());
    assert_eq!(Broadcast::from_bytes(&bytes, 1000), Ok(sent));
    assert!(Broadcast::from_bytes(&bytes, 10).is_err());
    for end in 0..bytes.len() {
        assert!(Broadcast::from_bytes(&bytes[..end], 1000).is_err());
    }
    for bit in 0..8 * bytes.len() {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Broadcast::from_bytes(&flipped, 1000).is_err());
    }
    let huge = sealed(&bytes, |b| b[32..40].fill(0xff));
    assert!(Broadcast::from_bytes(&huge, 1000).is_err());
}

#[test]
fn names_that_break_a_line_or_fill_a_page_are_no_names() {
    let agreement = agreement();
    let table = Table::noise(9, D, 1, &mut Draw::new(1));
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(agreement.summarize(name, 0, table.rows(), table.targets()).is_err());
    }
    assert!(agreement.summarize("Zoë & 李", 0, table.rows(), table.targets()).is_ok());
}
