//! Bytes that are accepted as an update are one: they come back as they were, a server takes them or says why not and is
//! then what it was, and what it makes of them is finite.

use pmfcl::federated::{Agreement, Broadcast, Rules, Server, Update};
use pmfcl::{Basis, ClassLoss, ClassifierSettings, Design, Ridge, Settings};

use super::crc::crc32;

const MOST: usize = 1 << 16;

/// The bytes as they are; with the check number they should have; and with the model of each server as well.
pub fn run(bytes: &[u8]) {
    look(bytes, None);
    look(&sealed(bytes), None);
    for agreement in agreements() {
        let mut body = bytes.to_vec();
        if let Some(model) = body.get_mut(8..16) {
            model.copy_from_slice(&agreement.fingerprint().to_le_bytes());
        }
        look(&sealed(&body), Some(agreement));
    }
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32(bytes).to_le_bytes());
    sealed
}

/// One of each kind: values with an intercept, and classes by discriminants and by log-loss.
fn agreements() -> Vec<Agreement> {
    let design = || Design::new(Basis::default().fix(&[], 2).expect("linear"), true);
    let values = Settings { ridge: Ridge::Fixed(0.1), threads: 1, ..Settings::default() };
    let classes = |loss| ClassifierSettings {
        loss,
        classes: Some(["a", "b", "c"].map(String::from).to_vec()),
        threads: 1,
        ..ClassifierSettings::default()
    };
    vec![
        Agreement::values(values, 1, design()).expect("sound"),
        Agreement::classes(classes(ClassLoss::Gaussian), design()).expect("sound"),
        Agreement::classes(classes(ClassLoss::Logistic), design()).expect("sound"),
    ]
}

fn look(bytes: &[u8], agreement: Option<Agreement>) {
    if let Ok(broadcast) = Broadcast::from_bytes(bytes, MOST) {
        assert_eq!(broadcast.to_bytes(), bytes, "other bytes come back");
    }
    let Ok(update) = Update::from_bytes(bytes, MOST) else { return };
    assert_eq!(update.to_bytes(), bytes, "other bytes come back");
    assert_eq!(update.nbytes(), bytes.len(), "another size than was said");
    if update.summary().width() <= 64
        && let Ok(single) = update.clone().in_single()
    {
        assert_eq!(Update::from_bytes(&single.to_bytes(), 2 * MOST), Ok(single), "not single");
    }
    let Some(agreement) = agreement else { return };
    let mut server = Server::new(agreement, Rules::default()).expect("the rules by default");
    if server.accept(update.clone()).is_err() {
        assert_eq!(server.updates().len(), 0, "a refused update is in the register");
        return;
    }
    if let Ok(joint) = server.joint() {
        let theta = &joint.model().expect("it is solved").theta;
        assert!(theta.is_finite(), "a model that is not finite");
        let _ = server.report_of(&joint);
    }
    if server.agreement().class_names().len() != 3
        && let Ok(diagonal) = update.in_diagonal(server.agreement())
    {
        let back = Update::from_bytes(&diagonal.to_bytes(), 2 * MOST);
        assert_eq!(back, Ok(diagonal), "not diagonal");
    }
}
