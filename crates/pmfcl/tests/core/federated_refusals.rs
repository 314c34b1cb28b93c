//! What a server does not take, and that it is unchanged then.

use std::collections::BTreeSet;

use crate::support::{Table, plain};
use pmfcl::federated::{Broadcast, Receipt, Refused, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::summary::Products;
use pmfcl::{Basis, Design, Labels, Problem, Rows, Settings, Summary, TaskRows};
use pmfcl_oracle::Draw;

const D: usize = 3;

fn agreement() -> Agreement {
    let design = Design::linear(D, true).unwrap();
    agreed(design)
}

fn agreed(design: Design) -> Agreement {
    let settings = Settings { intercept: design.intercept(), ..plain() };
    Agreement::new(Problem::squared(), settings, design, 1).unwrap()
}

fn sent(agreement: &Agreement, client: &str, step: u64, n: usize) -> Update {
    let table = Table::noise(n, D, 1, &mut Draw::new(step + n as u64));
    Update::of_rows(agreement, client, step, table.task()).unwrap()
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

/// Bytes before the name of the client, and of the head of a task summary.
const HEADER: usize = 56;
const TASK_HEAD: usize = 60;

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let crc = !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8)
            .fold(crc ^ u32::from(*byte), |c, _| (c >> 1) ^ (0xEDB8_8320 & (c & 1).wrapping_neg()))
    });
    crc.to_le_bytes()
}

/// Changes bytes and gives them the checksum they should have; of an update also the one of its task summary.
fn sealed(bytes: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = bytes[..bytes.len() - 4].to_vec();
    change(&mut body);
    if bytes.starts_with(b"PMFU") {
        let name = u32::from_le_bytes(bytes[48..52].try_into().unwrap()) as usize;
        let end = body.len() - 4;
        let check = checksum(&body[HEADER + name..end]);
        body[end..].copy_from_slice(&check);
    }
    let check = checksum(&body);
    body.extend_from_slice(&check);
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
    let wider = agreed(wider);
    let table = Table::noise(20, D + 1, 1, &mut Draw::new(1));
    refuse(Update::of_rows(&wider, "ben", 1, table.task()).unwrap(), "another model");
    let huge = Table::noise(20, D, 1, &mut Draw::new(1)).scaled(&[1.0, 1e120, 1.0]);
    refuse(Update::of_rows(&agreement, "ben", 1, huge.task()).unwrap(), "1e100");
    // A summary of other rows than the intercept says, as scaling makes it.
    let odd = sent(&agreement, "ben", 1, 20).task().quadratic.clone();
    let odd = Summary::from_bytes(&sealed(&odd.to_bytes(), |b| {
        b[20..28].copy_from_slice(&25.0_f64.to_le_bytes());
    }));
    refuse(Update::of_quadratic(&agreement, "ben", 1, odd.unwrap()).unwrap(), "the intercept");
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
    let design = Design::linear(d, false).unwrap();
    let agreement = agreed(design);
    let table = Table::noise(5, d, 1, &mut Draw::new(1));
    let sent = Update::of_rows(&agreement, "anna", 0, table.task()).unwrap();
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
    for problem in [Problem::gaussian(), Problem::logistic()] {
        let design = Design::linear(1, true).unwrap();
        let problem = problem.with_classes(["a", "b"].map(String::from).to_vec()).unwrap();
        let bounded = problem.looks_again();
        let agreement = Agreement::new(problem, Settings::default(), design, 0).unwrap();
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        let x = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let labels = Labels::new(&["a", "a", "b", "a", "b", "b"]);
        let rows = TaskRows::new(Rows::new(&x, 1).unwrap(), &labels);
        let good = Update::of_rows(&agreement, "anna", 0, rows).unwrap().to_bytes();
        // The count of the first class behind the head of the task, or the last sum before the two checksums.
        let at = if bounded { HEADER + "anna".len() + TASK_HEAD } else { good.len() - 16 };
        let lie = sealed(&good, |b| b[at..at + 8].copy_from_slice(&1e3_f64.to_le_bytes()));
        let error = server.accept_bytes(&lie).unwrap_err().to_string();
        assert!(error.contains("classes do not sum") && error.contains("anna"), "{error}");
        assert_eq!(server.updates().len(), 0);
        assert_eq!(server.accept_bytes(&good), Ok(Receipt::Accepted));
    }
}

/// Indicators are their own squares, and a class has rows or none. Sums of which that does not hold once made a model that nobody could
/// solve: one upload ended a federation.
#[test]
fn sums_of_classes_that_no_rows_can_have_are_refused() {
    let problem = Problem::gaussian().with_classes(["a", "b"].map(String::from).to_vec()).unwrap();
    let design = Design::linear(1, true).unwrap();
    let agreement = Agreement::new(problem, Settings::default(), design, 0).unwrap();
    let accepted = |counts: [f64; 2], squares: [f64; 2]| {
        let n = counts[0] + counts[1];
        // What the rows of the classes sum to: nothing in all, and nothing where there is one class.
        let sum = if counts[1] > 1.0 { 0.5 } else { 0.0 };
        let products = Products {
            n,
            features: 2,
            targets: 2,
            xx: vec![n, 0.0, 5.0],
            xy: vec![counts[0], counts[1], sum, -sum],
            yy: squares.to_vec(),
            y: counts.to_vec(),
        };
        let summary = Summary::from_products(&products).unwrap();
        let update = Update::of_quadratic(&agreement, "anna", 0, summary).unwrap();
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        let taken = server.accept(update);
        if taken.is_ok() {
            server.joint().unwrap().solution().unwrap();
        }
        taken
    };
    assert_eq!(accepted([6.0, 4.0], [6.0, 4.0]), Ok(Receipt::Accepted));
    for (counts, squares) in [
        ([6.0, 4.0], [60.0, 4.0]),
        ([6.0, 4.0], [6.0, 5.0]),
        ([10.0, 0.0], [10.0, 1.0]),
        ([10.0, 1e-300], [10.0, 1.0]),
        ([10.0, 1e-13], [10.0, 1e-13]),
    ] {
        let refused = accepted(counts, squares);
        assert!(matches!(refused, Err(Refused::Implausible { .. })), "{counts:?}: {refused:?}");
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
    let huge = sealed(&bytes, |b| b[56..64].fill(0xff));
    assert!(Broadcast::from_bytes(&huge, 1000).is_err());
}

#[test]
fn names_that_break_a_line_or_fill_a_page_are_no_names() {
    let agreement = agreement();
    let table = Table::noise(9, D, 1, &mut Draw::new(1));
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(Update::of_rows(&agreement, name, 0, table.task()).is_err());
    }
    assert!(Update::of_rows(&agreement, "Zoë & 李", 0, table.task()).is_ok());
}
