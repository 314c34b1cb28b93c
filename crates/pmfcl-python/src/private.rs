//! Uploads and masked sums with differential privacy, and the account of what they have given away.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pmfcl::federated::Update;
use pmfcl::private::{
    Account, Bounds, Budget, Clipped, ClippedClasses, Cohort, Noise, SharedNoise, release,
};
use pmfcl::problem::{Agreement, Digest};
use pmfcl::summary::{Products, Summary};
use pmfcl::{Error, Targets, TaskRows};
use pmfcl_file::Ledger;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::{raised, raised_by_file};

/// What a client has given away over all its releases, and how much it may.
#[pyclass(name = "PrivacyAccount", module = "pmfcl._core")]
pub(crate) struct PyAccount {
    account: Account,
    /// Where it is kept: in a model file or one of its own; without, a restart forgets it.
    ledger: Option<Mutex<Ledger>>,
}

#[pymethods]
impl PyAccount {
    #[new]
    #[pyo3(signature = (epsilon, delta, path))]
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

/// What is told of a release next to its bytes.
pub(crate) struct Told {
    /// Rows, with noise.
    pub(crate) samples: f64,
    /// Of the noise on `XᵀX`, `XᵀY` and `Σy²`, which for classes is their counts.
    pub(crate) sigma: [f64; 3],
    /// Share of the rows that the clips have scaled down, with noise.
    pub(crate) clipped: f64,
}

/// Exact sums of rows of values or classes.
enum Sums {
    Values(Clipped),
    Classes(ClippedClasses),
}

impl Sums {
    /// Of no rows.
    fn empty(agreement: &Agreement, (clip_x, clip_y): (f64, f64)) -> Result<Self, Error> {
        let (design, columns) = (agreement.design().clone(), agreement.columns());
        if agreement.problem().predicts_classes() {
            return Ok(Self::Classes(ClippedClasses::new(design, columns, clip_x)?));
        }
        Ok(Self::Values(Clipped::new(design, columns, Bounds::new(clip_x, clip_y)?)?))
    }

    fn of(agreement: &Agreement, rows: &TaskRows<'_>, clip: (f64, f64)) -> Result<Self, Error> {
        let mut sums = Self::empty(agreement, clip)?;
        match (&mut sums, &rows.y) {
            (Self::Values(sums), Targets::Values(values)) => sums.add(rows.x, *values)?,
            (Self::Classes(sums), Targets::Classes { codes, names }) => {
                // A label that is no class has no place, and its row is left out: an error would show it.
                let classes = agreement.outputs().classes();
                let place = |name: &String| classes.and_then(|of| of.place(name));
                let places: Vec<u32> =
                    names.iter().map(|name| place(name).unwrap_or(u32::MAX)).collect();
                let at = |code: &u32| places.get(*code as usize).copied().unwrap_or(u32::MAX);
                let labels: Vec<u32> = codes.iter().map(at).collect();
                sums.add(rows.x, &labels)?;
            }
            _ => {
                return Err(Error::Unsupported {
                    operation: "a private sum",
                    reason: "values are for a model of values, labels for one of classes"
                        .to_owned(),
                });
            }
        }
        Ok(sums)
    }
}

/// A release of clipped rows as an update, and what it is made of.
pub(crate) fn released(
    agreement: &Agreement,
    (client, step): (&str, u64),
    rows: &TaskRows<'_>,
    clip: (f64, f64),
    (epsilon, delta): (f64, f64),
) -> Result<(Update, Told), Error> {
    let (budget, mut noise) = (Budget::new(epsilon, delta)?, Noise::from_system()?);
    let (summary, told) = match Sums::of(agreement, rows, clip)? {
        Sums::Values(sums) => {
            let made = release(&sums, budget, &mut noise)?;
            let (samples, sigma, clipped) = (made.samples(), made.sigma(), made.clipped_share());
            (made.summary()?, Told { samples, sigma, clipped })
        }
        Sums::Classes(sums) => {
            let made = sums.release(budget, &mut noise)?;
            let [products, counts] = made.sigma();
            let (samples, clipped) = (made.samples(), made.clipped_share());
            (made.summary()?, Told { samples, sigma: [products, counts, counts], clipped })
        }
    };
    Ok((Update::of_quadratic(agreement, client, step, summary)?, told))
}

/// How much noise each client of a masked sum adds.
#[pyclass(name = "SharedNoise", module = "pmfcl._core", frozen)]
pub(crate) struct PySharedNoise {
    shared: SharedNoise,
    clip: (f64, f64),
}

impl PySharedNoise {
    pub(crate) fn new(
        agreement: &Agreement,
        clip: (f64, f64),
        (epsilon, delta): (f64, f64),
        (threshold, colluding): (usize, usize),
    ) -> Result<Self, Error> {
        let (budget, cohort) = (Budget::new(epsilon, delta)?, Cohort { threshold, colluding });
        let shared = match Sums::empty(agreement, clip)? {
            Sums::Values(sums) => sums.shared_noise(budget, cohort)?,
            Sums::Classes(sums) => sums.shared_noise(budget, cohort)?,
        };
        Ok(Self { shared, clip })
    }

    /// The sums of rows with this client's share of the noise.
    pub(crate) fn noisy(
        &self,
        agreement: &Agreement,
        rows: &TaskRows<'_>,
    ) -> Result<Products, Error> {
        let mut noise = Noise::from_system()?;
        match Sums::of(agreement, rows, self.clip)? {
            Sums::Values(sums) => sums.with_noise(&self.shared, &mut noise),
            Sums::Classes(sums) => sums.with_noise(&self.shared, &mut noise),
        }
    }

    /// The summary a sum over clients releases, without a ridge: there is no noisy eigenvalue to choose one by.
    pub(crate) fn released(
        &self,
        agreement: &Agreement,
        total: &Products,
    ) -> Result<(Summary, Told), Error> {
        if agreement.problem().predicts_classes() {
            let made = self.shared.released_classes(total)?;
            let [products, counts] = made.sigma();
            let (samples, clipped) = (made.samples(), made.clipped_share());
            let told = Told { samples, sigma: [products, counts, counts], clipped };
            return Ok((made.summary()?, told));
        }
        let made = self.shared.released(total)?;
        let (samples, sigma, clipped) = (made.samples(), made.sigma(), made.clipped_share());
        Ok((made.with_ridge(0.0)?, Told { samples, sigma, clipped }))
    }
}

#[pymethods]
impl PySharedNoise {
    /// What a round is bound to: an agreement with this noise.
    fn digest<'py>(&self, py: Python<'py>, agreement: [u8; 32]) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.shared.digest(Digest(agreement)).0)
    }

    /// ε of a sum with the noise of so many clients that nobody else knows.
    fn guarantee(&self, honest: usize) -> f64 {
        self.shared.guarantee(honest).epsilon
    }

    /// Standard deviation of one client's noise on the diagonal of `XᵀX`, and on `XᵀY`.
    #[getter]
    fn sigma(&self) -> [f64; 2] {
        self.shared.sigma()
    }
}

/// Sums with one client's share of the noise, to be masked. They have no other use: a share is a fraction of the noise.
#[pyclass(name = "NoisySums", module = "pmfcl._core", frozen)]
pub(crate) struct PyNoisySums {
    pub(crate) products: Products,
}
