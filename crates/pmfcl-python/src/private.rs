//! Uploads with differential privacy, and the account of what they have given away.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pmfcl::Rows;
use pmfcl::federated::Update;
use pmfcl::private::{Account, Bounds, Budget, Clipped, Noise, Released, release};
use pmfcl::problem::Agreement;
use pmfcl_file::Ledger;
use pyo3::prelude::*;

use crate::call::{raised, raised_by_file};

/// What a client has given away over all its releases, and how much it may.
#[pyclass(name = "PrivacyAccount", module = "pmfcl._core")]
pub(crate) struct PyAccount {
    account: Account,
    /// Where it is kept; without, a restart forgets it.
    ledger: Option<Mutex<Ledger>>,
}

#[pymethods]
impl PyAccount {
    #[new]
    #[pyo3(signature = (epsilon, delta, path=None))]
    fn new(epsilon: f64, delta: f64, path: Option<PathBuf>) -> PyResult<Self> {
        let total = Budget::new(epsilon, delta).map_err(raised)?;
        let Some(path) = path else {
            return Ok(Self { account: Account::new(total).map_err(raised)?, ledger: None });
        };
        let ledger = Ledger::open(&path, total).map_err(raised_by_file)?;
        let account = ledger.account().map_err(raised_by_file)?;
        Ok(Self { account, ledger: Some(Mutex::new(ledger)) })
    }

    /// Records a release that was made elsewhere, or earlier.
    #[pyo3(signature = (epsilon, delta, what="elsewhere"))]
    fn spend(&mut self, epsilon: f64, delta: f64, what: &str) -> PyResult<()> {
        let budget = Budget { epsilon, delta };
        let Some(ledger) = &self.ledger else {
            return self.account.spend(budget).map_err(raised);
        };
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        self.account = ledger.spend(budget, what).map_err(raised_by_file)?;
        Ok(())
    }

    /// ε spent so far, at the agreed δ.
    #[getter]
    fn spent(&self) -> (f64, f64) {
        let spent = self.account.spent();
        (spent.epsilon, spent.delta)
    }

    /// How many releases were recorded.
    #[getter]
    fn releases(&self) -> u64 {
        self.account.releases()
    }
}

impl PyAccount {
    /// Records a release that is about to be made.
    pub(crate) fn record(&mut self, budget: (f64, f64), what: &str) -> PyResult<()> {
        self.spend(budget.0, budget.1, what)
    }
}

/// A release of clipped rows as an update, and what it is made of.
pub(crate) fn released(
    agreement: &Agreement,
    (client, step): (&str, u64),
    (x, y): (Rows<'_>, Rows<'_>),
    (clip_x, clip_y): (f64, f64),
    (epsilon, delta): (f64, f64),
) -> Result<(Update, Released), pmfcl::Error> {
    let bounds = Bounds::new(clip_x, clip_y)?;
    let mut clipped = Clipped::new(agreement.design().clone(), agreement.columns(), bounds)?;
    clipped.add(x, y)?;
    let made = release(&clipped, Budget::new(epsilon, delta)?, &mut Noise::from_system()?)?;
    Ok((Update::of_quadratic(agreement, client, step, made.summary()?)?, made))
}
