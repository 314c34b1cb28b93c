//! Bytes that are accepted as an update are one: they come back as they were, a server takes them or says why not and is
//! then what it was, and what it makes of them is finite.

use pmfcl::federated::{Broadcast, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::{Basis, Design, Problem, Ridge, Settings};

use super::crc::crc32;

const MOST: usize = 1 << 16;

/// Where the lengths of name and task stand, and where the header ends.
const LENGTHS: usize = 48;
const HEADER: usize = 56;

/// The bytes as they are; with the checksums they should have; and with the agreement of each server as well.
pub fn run(bytes: &[u8]) {
    look(bytes, None);
    look(&sealed(bytes), None);
    look(&sealed(&task_sealed(bytes)), None);
    accepted(bytes);
}

/// How many servers accept the bytes, with the checksums and the agreement they should have.
pub fn accepted(bytes: &[u8]) -> usize {
    let mut count = 0;
    for agreement in agreements() {
        let mut body = task_sealed(bytes);
        if let Some(model) = body.get_mut(8..40) {
            model.copy_from_slice(&agreement.digest().0);
        }
        count += usize::from(look(&sealed(&body), Some(agreement)));
    }
    count
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32(bytes).to_le_bytes());
    sealed
}

/// The same with a checksum after the task summary, and its length in the header.
fn task_sealed(bytes: &[u8]) -> Vec<u8> {
    let Some(name) = bytes.get(LENGTHS..LENGTHS + 4) else { return bytes.to_vec() };
    let name = u32::from_le_bytes(name.try_into().expect("four bytes")) as usize;
    let Some(task) = bytes.get(HEADER.saturating_add(name)..) else { return bytes.to_vec() };
    let mut sealed = [bytes, &crc32(task).to_le_bytes()].concat();
    let length = (task.len() + 4) as u32;
    sealed[LENGTHS + 4..HEADER].copy_from_slice(&length.to_le_bytes());
    sealed
}

/// One of each kind: values with an intercept by squares and by a bounded loss, classes by discriminants and by log-loss.
fn agreements() -> Vec<Agreement> {
    let design = || Design::new(Basis::default().fix(&[], 2).expect("linear"), true);
    let values = Settings { ridge: Ridge::Fixed(0.1), threads: 1, ..Settings::default() };
    let others = Settings { threads: 1, ..Settings::default() };
    let names = || ["a", "b", "c"].map(String::from).to_vec();
    let classes = |problem: Problem| problem.with_classes(names()).expect("three classes");
    let agreed = |problem, settings: &Settings| {
        Agreement::new(problem, settings.clone(), design(), 1).expect("sound")
    };
    vec![
        agreed(Problem::squared(), &values),
        agreed(classes(Problem::gaussian()), &others),
        agreed(classes(Problem::logistic()), &others),
        agreed(Problem::parse("huber:1", None).expect("a loss"), &others),
    ]
}

/// Checks what the bytes are taken for; whether a server accepts them.
fn look(bytes: &[u8], agreement: Option<Agreement>) -> bool {
    if let Ok(broadcast) = Broadcast::from_bytes(bytes, MOST) {
        assert_eq!(broadcast.to_bytes(), bytes, "other bytes come back");
    }
    let Ok(update) = Update::from_bytes(bytes, MOST) else { return false };
    assert_eq!(update.to_bytes(), bytes, "other bytes come back");
    assert_eq!(update.nbytes(), bytes.len(), "another size than was said");
    if update.task().quadratic.width() <= 64
        && let Ok(single) = update.clone().in_single()
    {
        assert_eq!(Update::from_bytes(&single.to_bytes(), 2 * MOST), Ok(single), "not single");
    }
    let Some(agreement) = agreement else { return false };
    let mut server = Server::new(agreement, Rules::default()).expect("the rules by default");
    if server.accept(update.clone()).is_err() {
        assert_eq!(server.updates().len(), 0, "a refused update is in the register");
        return false;
    }
    if let Ok(joint) = server.joint() {
        // Numbers at the end of the range, which no agreed bound keeps away here, may have no finite solution: an error says so.
        if let Ok(solution) = joint.solution() {
            assert!(solution.theta.is_finite(), "a model that is not finite");
        }
        let _ = server.report_of(&joint);
    }
    if server.agreement().class_names().len() != 3
        && let Ok(diagonal) = update.in_diagonal(server.agreement())
    {
        let back = Update::from_bytes(&diagonal.to_bytes(), 2 * MOST);
        assert_eq!(back, Ok(diagonal), "not diagonal");
    }
    true
}
