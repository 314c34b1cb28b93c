//! A privacy ledger: what was spent stays spent, whatever happens to the process, in a model file as in one of its own.

use std::path::{Path, PathBuf};

use pmfcl::private::Budget;
use pmfcl_faults::{Fault, fail, heal, install};
use pmfcl_file::{Access, FileError, Ledger, Model, ModelFile, Replace, verify};

use crate::stateful::{empty, learn, schema};

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

/// A model of one task.
fn model() -> Model {
    let mut learner = empty();
    learn(&mut learner, "t0", 0);
    Model { schema: schema(), learner }
}

/// Where a ledger can be: in a file of its own, which is not there yet, or in a model.
fn homes(directory: &Path) -> [PathBuf; 2] {
    let (alone, within) = (directory.join("privacy.ledger"), directory.join("m.pmf"));
    drop(ModelFile::create(&within, &model()).unwrap());
    [alone, within]
}

#[test]
fn a_restart_does_not_refill_it() {
    let directory = tempfile::tempdir().unwrap();
    for path in homes(directory.path()) {
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
        assert_eq!(Ledger::look(&path).unwrap().unwrap().releases(), 13);
    }
}

#[test]
fn two_processes_do_not_both_spend_the_last_of_it() {
    let directory = tempfile::tempdir().unwrap();
    for path in homes(directory.path()) {
        let mut one = Ledger::open(&path, budget(1.0)).unwrap();
        let mut two = Ledger::open(&path, budget(1.0)).unwrap();
        one.spend(budget(0.9), "first").unwrap();
        let error = two.spend(budget(0.9), "second").unwrap_err().to_string();
        assert!(error.contains("1 releases have been made"), "{error}");
    }
}

#[test]
fn a_budget_that_is_none_buys_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for path in homes(directory.path()) {
        let mut ledger = Ledger::open(&path, budget(1.0)).unwrap();
        for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ledger.spend(Budget { epsilon, delta: 1e-6 }, "false").is_err(), "{epsilon}");
        }
        for delta in [0.0, -1.0, f64::NAN, 1.0] {
            assert!(ledger.spend(Budget { epsilon: 0.1, delta }, "false").is_err(), "{delta}");
        }
        assert_eq!(ledger.releases().unwrap(), []);
    }
}

/// Learning, unlearning, rewriting and replacing the model leave its ledger, and the ledger leaves the model.
#[test]
fn the_model_around_it_changes_and_the_ledger_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    drop(ModelFile::create(&path, &model()).unwrap());
    let mut ledger = Ledger::open(&path, budget(1.0)).unwrap();
    let mut count = 0;
    let mut spend = |ledger: &mut Ledger| {
        ledger.spend(budget(0.1), "a release").unwrap();
        count += 1;
        assert_eq!(Ledger::look(&path).unwrap().unwrap().releases(), count);
        verify(&path).unwrap();
    };
    spend(&mut ledger);
    // Whoever has read the model before a release may write it after.
    let (store, mut kept) = ModelFile::open(&path, Access::Read).unwrap().into_parts();
    let version = store.version().clone();
    drop(store);
    spend(&mut ledger);
    learn(&mut kept.learner, "t1", 1);
    kept.save(&path, Replace::Known(&[version])).unwrap();
    spend(&mut ledger);
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    file.load().unwrap();
    file.model_mut().learner.unlearn("t0").unwrap();
    file.commit().unwrap();
    // Who writes the model keeps others from the file; the ledger says so, and nothing is noted.
    let error = ledger.spend(budget(0.1), "meanwhile").unwrap_err();
    assert!(matches!(error, FileError::Locked(_)), "{error}");
    drop(file);
    spend(&mut ledger);
    model().save(&path, Replace::Any).unwrap();
    spend(&mut ledger);
    drop(ledger);
    let checked = verify(&path).unwrap();
    let said = checked.checks.join("\n");
    assert!(said.contains("checksum of the whole file"), "{said}");
    assert!(said.contains("a privacy ledger of 5 releases"), "{said}");
    assert_eq!(checked.tasks, 1);
}

#[test]
fn a_row_that_was_changed_is_noticed() {
    for change in [
        "UPDATE release SET epsilon = 0.001 WHERE place = 2",
        "UPDATE release SET epsilon = 100 WHERE place = 0",
        "UPDATE release SET what = 'nothing' WHERE place = 1",
        "DELETE FROM release WHERE place = 1",
        "DELETE FROM release",
    ] {
        let directory = tempfile::tempdir().unwrap();
        for path in homes(directory.path()) {
            let mut ledger = Ledger::open(&path, budget(1.0)).unwrap();
            for step in 0..3 {
                ledger.spend(budget(0.2), &format!("clinic/{step}")).unwrap();
            }
            drop(ledger);
            rusqlite::Connection::open(&path).unwrap().execute_batch(change).unwrap();
            let error = Ledger::open(&path, budget(1.0)).unwrap_err().to_string();
            assert!(error.contains("privacy ledger"), "{change}: {error}");
            if path.ends_with("m.pmf") {
                assert!(verify(&path).is_err(), "{change}");
            }
        }
    }
}

#[test]
fn whatever_fails_nothing_is_released_without_a_note() {
    install();
    for fault in [Fault::Once, Fault::Lasting] {
        let directory = tempfile::tempdir().unwrap();
        for path in homes(directory.path()) {
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
                if path.ends_with("m.pmf") {
                    assert_eq!(verify(&path).unwrap().tasks, 1, "{fault:?} {k}");
                }
                if !hit {
                    assert!(k > 10, "the faults are not there");
                    break;
                }
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
    // A model is not begun as a ledger: the name would be taken when the model comes.
    let error = Ledger::open(&directory.path().join("later.pmf"), budget(1.0)).unwrap_err();
    assert!(matches!(error, FileError::NotFound(_)), "{error}");
}

/// A model of layout 1 has no room for it until it is written once.
#[test]
fn a_model_of_an_earlier_version_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.pmf");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/layout_1/federated-diagonal.pmf");
    std::fs::copy(old, &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Ledger::open(&path, budget(1.0)).unwrap_err().to_string();
    assert!(error.contains("earlier version") && error.contains("pmfcl set"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let mut file = ModelFile::open(&path, Access::Write).unwrap();
    file.load().unwrap();
    file.commit().unwrap();
    drop(file);
    Ledger::open(&path, budget(1.0)).unwrap().spend(budget(0.5), "now").unwrap();
    verify(&path).unwrap();
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
