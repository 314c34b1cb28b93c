//! Many clients, one model: what they agree on, and the server that adds up what they send.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::{PyArray2, PyReadonlyArray1};
use pmfcl::Labels;
use pmfcl::federated::{
    Agreement, Broadcast, ClientStep, Receipt, Refused, Rules, Server, Update, UpdateForm,
};
use pmfcl_file::{FileError, Model, Register, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::{ModelChangedError, outside, raised, raised_by_file, raised_in};
use crate::model::PyModel;
use crate::private::{PyAccount, released};
use crate::summary::PySummary;
use crate::table::{Table, table};

pyo3::create_exception!(
    pmfcl._core,
    RefusedError,
    PyValueError,
    "An upload that was not taken; `client` says whose, where that could be read. The server is what it was."
);

/// What the server says of an upload it does not take.
fn refusal(py: Python<'_>, refused: &Refused) -> PyErr {
    let error = RefusedError::new_err(refused.to_string());
    match error.value(py).setattr("client", refused.client()) {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// What clients and server hold in common.
#[pyclass(name = "Agreement", module = "pmfcl._core", frozen)]
pub(crate) struct PyAgreement {
    model: Model,
    agreement: Agreement,
    features: Vec<String>,
}

impl PyAgreement {
    fn new(model: Model) -> PyResult<Self> {
        let agreement = model.agreement().map_err(raised_by_file)?;
        Ok(Self { features: model.schema.features(), model, agreement })
    }

    /// The bytes of an update in the form that was asked for.
    fn sent<'py>(
        &self,
        py: Python<'py>,
        update: Result<Update, pmfcl::Error>,
        form: &str,
        numbers: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut update = update.map_err(|e| raised_in(e, &self.features))?;
        if form_of(form)? == UpdateForm::Diagonal {
            update = update.in_diagonal(&self.agreement).map_err(raised)?;
        }
        if is_single(numbers)? {
            update = update.in_single().map_err(raised)?;
        }
        Ok(PyBytes::new(py, &update.to_bytes()))
    }
}

fn form_of(word: &str) -> PyResult<UpdateForm> {
    match word {
        "exact" => Ok(UpdateForm::Exact),
        "diagonal" => Ok(UpdateForm::Diagonal),
        other => Err(PyValueError::new_err(format!("form is exact or diagonal, not {other}"))),
    }
}

fn is_single(word: &str) -> PyResult<bool> {
    match word {
        "double" => Ok(false),
        "single" => Ok(true),
        other => Err(PyValueError::new_err(format!("numbers are double or single, not {other}"))),
    }
}

#[pymethods]
impl PyAgreement {
    /// From a model that has learned nothing, and rows all may see where its basis needs some.
    #[staticmethod]
    #[pyo3(signature = (model, rows=None))]
    fn found(model: &PyModel, rows: Option<Table<'_>>) -> PyResult<Self> {
        let rows = rows.as_ref().map(Table::rows).transpose()?;
        let founded = model.model.clone().founded(rows);
        Self::new(founded.map_err(raised_by_file)?)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let model = outside(py, || Model::from_bytes(bytes).map_err(raised_by_file))?;
        if !model.learner().records().is_empty() {
            return Err(PyValueError::new_err(
                "these are the bytes of a model, not of an agreement",
            ));
        }
        Self::new(model)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = outside(py, || self.model.to_bytes().map_err(raised_by_file))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// A copy of the model that was agreed on, which has learned nothing.
    fn model(&self) -> PyModel {
        PyModel::new(self.model.clone())
    }

    /// A number that differs where loss, basis, columns or classes differ.
    #[getter]
    fn fingerprint(&self) -> u64 {
        self.agreement.fingerprint()
    }

    /// Design columns.
    #[getter]
    fn width(&self) -> usize {
        self.agreement.design().width()
    }

    /// Columns of the targets of a summary.
    #[getter]
    fn n_targets(&self) -> usize {
        self.agreement.targets()
    }

    /// The summary in an update of this agreement.
    fn opened(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<PySummary> {
        let update = Update::from_bytes(bytes, usize::MAX).map_err(|r| refusal(py, &r))?;
        if self.agreement.is_bounded() {
            return Err(PyValueError::new_err(
                "log-loss is more than a summary: it looks at a step's rows several times",
            ));
        }
        Ok(PySummary { summary: update.summary().clone() })
    }

    /// The update of a summary made elsewhere.
    fn update<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        summary: PySummary,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = Update::from_summary(&self.agreement, client, step, summary.summary);
        Ok(PyBytes::new(py, &made.map_err(raised)?.to_bytes()))
    }

    /// Most bytes an update of these can take.
    fn most_bytes(&self, form: &str, numbers: &str) -> PyResult<usize> {
        Ok(self.agreement.most_bytes(form_of(form)?, is_single(numbers)?))
    }

    /// What a client sends for a step of numbers.
    #[expect(clippy::too_many_arguments, reason = "one call a step")]
    fn summarize<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        x: Table<'_>,
        y: Table<'_>,
        form: &str,
        numbers: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (x, y) = (x.rows()?, y.rows()?);
        let made = outside(py, || Ok(self.agreement.summarize(client, step, x, y)))?;
        py.check_signals()?;
        self.sent(py, made, form, numbers)
    }

    /// What a client sends for a step of numbers with differential privacy; rows with noise, and the noise of the sums.
    #[expect(clippy::too_many_arguments, reason = "one call a step")]
    fn summarize_private<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        x: Table<'_>,
        y: Table<'_>,
        clip: (f64, f64),
        budget: (f64, f64),
        account: Option<PyRefMut<'_, PyAccount>>,
    ) -> PyResult<(Bound<'py, PyBytes>, f64, [f64; 3])> {
        if !self.agreement.class_names().is_empty() {
            return Err(PyValueError::new_err(
                "noisy counts of classes do not add up; private updates are for numbers",
            ));
        }
        if let Some(mut account) = account {
            account.file(budget)?;
        }
        let (x, y) = (x.rows()?, y.rows()?);
        let made =
            outside(py, || Ok(released(&self.agreement, (client, step), (x, y), clip, budget)))?;
        let (update, released) = made.map_err(|e| raised_in(e, &self.features))?;
        Ok((PyBytes::new(py, &update.to_bytes()), released.samples(), released.sigma()))
    }

    /// What a client sends for a step of classes: a code for each row, a name for each code.
    #[expect(clippy::too_many_arguments, reason = "one call a step")]
    fn summarize_classes<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        x: Table<'_>,
        codes: PyReadonlyArray1<'_, u32>,
        names: Vec<String>,
        form: &str,
        numbers: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let labels = Labels::from_codes(codes.as_slice()?, &names).map_err(raised)?;
        let x = x.rows()?;
        let made = outside(py, || Ok(self.agreement.summarize_labels(client, step, x, &labels)))?;
        py.check_signals()?;
        self.sent(py, made, form, numbers)
    }

    /// Predicted numbers or scores of the classes, `(rows, outputs)`, under parameters the server sent.
    fn decide<'py>(
        &self,
        py: Python<'py>,
        sent: &[u8],
        x: Table<'_>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let sent = Broadcast::from_bytes(sent, usize::MAX).map_err(|r| refusal(py, &r))?;
        let x = x.rows()?;
        let cells = outside(py, || Ok(self.agreement.decide(&sent, x)))?;
        let outputs = self.agreement.class_names().len().max(self.model.schema.targets.len());
        table(py, cells.map_err(|e| raised_in(e, &self.features))?, outputs)
    }
}

/// A server, its memory a model file where it has a path.
#[pyclass(name = "FederatedServer", module = "pmfcl._core", frozen)]
pub(crate) struct PyServer {
    // One call at a time: an open file is not for several threads.
    kept: Mutex<Kept>,
}

enum Kept {
    File(Box<Register>),
    Memory(Box<Server>, Schema),
}

impl Kept {
    fn server(&mut self) -> &mut Server {
        match self {
            Self::File(register) => register.server_mut(),
            Self::Memory(server, _) => server,
        }
    }
}

impl PyServer {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Kept) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        outside(py, || work(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl PyServer {
    #[new]
    #[pyo3(signature = (agreement, path, rules))]
    fn new(
        py: Python<'_>,
        agreement: &PyAgreement,
        path: Option<PathBuf>,
        rules: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let rules = ruled(rules)?;
        let kept = match path {
            Some(path) => Kept::File(Box::new(outside(py, || {
                Register::open(&path, &agreement.model, rules).map_err(raised_by_file)
            })?)),
            None => {
                let server = Server::new(agreement.agreement.clone(), rules).map_err(raised)?;
                Kept::Memory(Box::new(server), agreement.model.schema.clone())
            }
        };
        Ok(Self { kept: Mutex::new(kept) })
    }

    /// Takes an upload: client, step, samples, and whether it is new. What is refused raises, and changes nothing.
    fn accept(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<(String, u64, f64, bool)> {
        let taken = self.with(py, |kept| {
            let server = kept.server();
            let read = Update::from_bytes(bytes, server.rules().most_bytes);
            Ok(read.and_then(|update| {
                let (client, step) = (update.client().to_owned(), update.step());
                let samples = update.samples();
                Ok((client, step, samples, server.accept(update)? == Receipt::Accepted))
            }))
        })?;
        taken.map_err(|refused| refusal(py, &refused))
    }

    /// Everything accepted: client, step, samples, bytes.
    fn updates(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, f64, usize)>> {
        let line = |u: &Update| (u.client().to_owned(), u.step(), u.samples(), u.nbytes());
        self.with(py, |kept| Ok(kept.server().updates().map(line).collect()))
    }

    /// Takes a client out; how many updates went.
    fn remove_client(&self, py: Python<'_>, client: &str) -> PyResult<usize> {
        self.with(py, |kept| Ok(kept.server().remove_client(client)))
    }

    /// Takes one step of a client out.
    fn remove(&self, py: Python<'_>, client: &str, step: u64) -> PyResult<bool> {
        self.with(py, |kept| Ok(kept.server().remove(client, step)))
    }

    /// Whether no update is a diagonal bound.
    #[getter]
    fn is_exact(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |kept| Ok(kept.server().is_exact()))
    }

    /// The parameters, to be sent to all.
    fn broadcast<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let sent = self.with(py, |kept| kept.server().broadcast().map_err(raised))?;
        Ok(PyBytes::new(py, &sent.to_bytes()))
    }

    /// The joint model.
    fn model(&self, py: Python<'_>) -> PyResult<PyModel> {
        let model = self.with(py, |kept| match kept {
            Kept::File(register) => register.model().map_err(raised_by_file),
            Kept::Memory(server, schema) => {
                Ok(Model::joint(schema.clone(), server.joint().map_err(raised)?))
            }
        })?;
        Ok(PyModel::new(model))
    }

    /// Writes register and model to the file.
    fn commit(&self, py: Python<'_>) -> PyResult<PyModel> {
        let model = self.with(py, |kept| match kept {
            Kept::File(register) => register.commit().map_err(|error| match error {
                FileError::Changed(path, changes) => ModelChangedError::new_err(format!(
                    "{}: another process has changed this model since the server read or wrote it ({changes}); nothing was written; make the server again, Server(agreement, path), and let it accept again what it does not hold",
                    path.display()
                )),
                other => raised_by_file(other),
            }),
            Kept::Memory(..) => {
                Err(PyTypeError::new_err("this server has no file; give it a path"))
            }
        })?;
        Ok(PyModel::new(model))
    }

    /// Every client and step: what it has lost under the joint model, or a bound on that.
    fn report(&self, py: Python<'_>) -> PyResult<Vec<Line>> {
        let entries = self.with(py, |kept| kept.server().report().map_err(raised))?;
        let line = |entry: ClientStep| {
            let report = entry.report;
            (entry.client, entry.step, report.samples, report.forgetting, report.bound)
        };
        Ok(entries.into_iter().map(line).collect())
    }
}

/// Client, step, samples, forgetting, bound.
type Line = (String, u64, f64, Option<f64>, Option<f64>);

fn ruled(given: &Bound<'_, PyDict>) -> PyResult<Rules> {
    let mut rules = Rules::default();
    for (name, value) in given.iter() {
        let name: String = name.extract()?;
        match name.as_str() {
            "most_bytes" => rules.most_bytes = value.extract()?,
            "least_samples" => rules.least_samples = value.extract()?,
            "most_samples" => rules.most_samples = value.extract()?,
            "weighted" => rules.weighted = value.extract()?,
            "roster" => {
                let roster: Option<Vec<String>> = value.extract()?;
                rules.roster = roster.map(|names| names.into_iter().collect());
            }
            "most_share" => rules.most_share = value.extract()?,
            other => return Err(PyTypeError::new_err(format!("there is no rule `{other}`"))),
        }
    }
    Ok(rules)
}
