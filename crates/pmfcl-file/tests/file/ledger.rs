//! A privacy ledger: what was spent stays spent, whatever happens to the process.

use pmfcl::private::Budget;
use pmfcl_faults::{Fault, fail, heal, install};
use pmfcl_file::{FileError, Ledger};

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

#[test]
fn a_restart_does_not_refill_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("privacy.ledger");
    let mut spent = 0;
    loop {
        // A new process for each release.
        let mut ledger = Ledger::open(&path, budget(1.0)).unwrap();
        match ledger.spend(budget(0.25), &format!("clinic/{spent}")) {
            Ok(account) => assert_eq!(account.releases(), spent + 1),
            Err(error) => {
                assert!(error.to_string().contains("13 releases have been made"), "{error}");
                break;
            }
        }
        spent += 1;
    }
    assert_eq!(spent, 13); // as one account in memory allows
    let ledger = Ledger::open(&path, budget(1.0)).unwrap();
    assert_eq!(ledger.releases().unwrap()[12].what, "clinic/12");
    assert!(ledger.account().unwrap().spent().epsilon <= 1.0);
    // A larger total is not to be had by asking.
    let error = Ledger::open(&path, budget(2.0)).unwrap_err();
    assert!(matches!(error, FileError::OtherTotal(..)), "{error}");
}

#[test]
fn two_processes_do_not_both_spend_the_last_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("privacy.ledger");
    let mut one = Ledger::open(&path, budget(1.0)).unwrap();
    let mut two = Ledger::open(&path, budget(1.0)).unwrap();
    one.spend(budget(0.9), "first").unwrap();
    let error = two.spend(budget(0.9), "second").unwrap_err().to_string();
    assert!(error.contains("1 releases have been made"), "{error}");
}

#[test]
fn whatever_fails_nothing_is_released_without_a_note() {
    install();
    for fault in [Fault::Once, Fault::Lasting] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("privacy.ledger");
        let mut noted = 0;
        for k in 0.. {
            fail(k, fault);
            let done = Ledger::open(&path, budget(100.0))
                .and_then(|mut ledger| ledger.spend(budget(0.01), "a release").map(|_| ()));
            let hit = heal();
            noted += u64::from(done.is_ok());
            let found = Ledger::open(&path, budget(100.0)).unwrap().releases().unwrap().len();
            // One that was said to have failed may be noted all the same, never the other way round.
            assert!(found as u64 >= noted, "{fault:?} {k}: {found} of {noted} acknowledged");
            noted = found as u64;
            if !hit {
                assert!(k > 10, "the faults are not there");
                break;
            }
        }
    }
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    std::fs::write(&path, "not a database, but long enough to be looked at as one, surely")
        .unwrap();
    assert!(Ledger::open(&path, budget(1.0)).is_err());
    let other = directory.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    let error = Ledger::open(&other, budget(1.0)).unwrap_err().to_string();
    assert!(error.contains("nor a privacy ledger"), "{error}");
    assert!(Ledger::open(&directory.path().join("no/such/place"), budget(1.0)).is_err());
}

#[cfg(unix)]
#[test]
fn it_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("privacy.ledger");
    drop(Ledger::open(&path, budget(1.0)).unwrap());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
