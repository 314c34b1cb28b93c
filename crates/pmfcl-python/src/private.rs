//! Uploads with differential privacy, and the account of what they have given away.

use pmfcl::Rows;
use pmfcl::federated::Update;
use pmfcl::private::{Account, Bounds, Budget, Clipped, Noise, Released, release};
use pmfcl::problem::Agreement;
use pyo3::prelude::*;

use crate::call::raised;

/// What a client has given away over all its releases, and how much it may.
#[pyclass(name = "PrivacyAccount", module = "pmfcl._core")]
pub(crate) struct PyAccount {
    account: Account,
}

#[pymethods]
impl PyAccount {
    #[new]
    fn new(epsilon: f64, delta: f64) -> PyResult<Self> {
        let total = Budget::new(epsilon, delta).map_err(raised)?;
        Ok(Self { account: Account::new(total).map_err(raised)? })
    }

    /// Records a release that was made elsewhere, or earlier.
    fn spend(&mut self, epsilon: f64, delta: f64) -> PyResult<()> {
        self.account.spend(Budget { epsilon, delta }).map_err(raised)
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
    pub(crate) fn record(&mut self, budget: (f64, f64)) -> PyResult<()> {
        self.spend(budget.0, budget.1)
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
