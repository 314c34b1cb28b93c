//! Bytes that are accepted as a broadcast are one: they come back as they were, and answer rows or say why not.

use pmfcl::federated::Broadcast;
use pmfcl::problem::Agreement;
use pmfcl::{Basis, Design, Problem, Rows, Settings};

use super::crc::crc32;

const MOST: usize = 1 << 16;

/// The bytes as they are; with the checksum they should have; and with the agreement of a client as well.
pub fn run(bytes: &[u8]) {
    look(bytes);
    look(&sealed(bytes));
    let mut of_client = bytes.to_vec();
    if let Some(digest) = of_client.get_mut(8..40) {
        digest.copy_from_slice(&agreement().digest().0);
    }
    look(&sealed(&of_client));
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32(bytes).to_le_bytes()].concat()
}

fn agreement() -> Agreement {
    let design = Design::new(Basis::default().fix(&[], 2).expect("linear"), true);
    let settings = Settings { threads: 1, ..Settings::default() };
    Agreement::new(Problem::squared(), settings, design, 1).expect("an agreement")
}

fn look(bytes: &[u8]) {
    let Ok(sent) = Broadcast::from_bytes(bytes, MOST) else { return };
    assert_eq!(sent.to_bytes(), bytes, "one broadcast, one string of bytes");
    assert_eq!(sent.nbytes(), bytes.len());
    let x = [0.5, -1.0, 3.0, 2.0];
    if let Ok(cells) = sent.answer(&agreement(), Rows::new(&x, 2).expect("two rows")) {
        assert_eq!(cells.len(), 2);
    }
}
