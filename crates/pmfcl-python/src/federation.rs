//! Federations: what clients and server agree on, and the server that adds up what clients send.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::PyArray2;
use pmfcl::federated::{
    Broadcast, CalibrationAnswer, CalibrationRequest, ClientStep, Receipt, Refused, Rules, Sender,
    Server, Update,
};
use pmfcl::problem::{Agreement, Exactness};
use pmfcl::{Learner, Settings};
use pmfcl_file::{FileError, Model, Register, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::{ModelChangedError, outside, raised, raised_by_file, raised_in};
use crate::check::{NewInput, grown};
use crate::model::PyModel;
use crate::private::{PyAccount, PyNoisySums, PySharedNoise, released};
use crate::summary::PySummary;
use crate::table::{OwnTable, Table, Target, TaskTable, table};

pyo3::create_exception!(
    pmfcl._core,
    RefusedError,
    PyValueError,
    "An upload that was not accepted; `client` names the sender, where that could be read. The server is unchanged."
);

/// The exception for an upload that the server does not accept.
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
    pub(crate) agreement: Agreement,
}

impl PyAgreement {
    fn of(model: Model) -> PyResult<Self> {
        let agreement = model.agreement().map_err(raised_by_file)?;
        Ok(Self { model, agreement })
    }

    /// The exception for an error of the core, with the columns of the table by name.
    fn raised(&self, error: &pmfcl::Error) -> PyErr {
        raised_in(error, &self.model.schema, &self.model.learner)
    }

    /// Refuses a summary in the place of rows, where a loss needs the rows.
    fn check_exact(&self) -> PyResult<()> {
        let problem = self.agreement.problem();
        if problem.exactness() == Exactness::Exact {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{problem} is more than a sum over rows: it looks at the rows of a step several times; use `summarize`"
        )))
    }
}

fn is_diagonal(form: &str) -> PyResult<bool> {
    match form {
        "exact" => Ok(false),
        "diagonal" => Ok(true),
        other => Err(PyValueError::new_err(format!("form is exact or diagonal, not {other}"))),
    }
}

fn is_single(numbers: &str) -> PyResult<bool> {
    match numbers {
        "double" => Ok(false),
        "single" => Ok(true),
        other => Err(PyValueError::new_err(format!("numbers are double or single, not {other}"))),
    }
}

#[pymethods]
impl PyAgreement {
    /// From a model that has learned nothing, and rows all may see where its basis needs some.
    #[new]
    ///
    /// `clip` is the longest features of a row, in learning and in predicting.
    #[pyo3(signature = (model, rows=None, clip=None))]
    fn new(
        py: Python<'_>,
        model: &PyModel,
        rows: Option<Table>,
        clip: Option<f64>,
    ) -> PyResult<Self> {
        let own = rows.map(|rows| rows.whole(py)).transpose()?;
        let rows = own.as_ref().map(OwnTable::rows).transpose()?;
        let mut empty = model.model.clone();
        if clip.is_some() {
            let settings = Settings { clip, ..empty.learner.settings().clone() };
            let problem = empty.learner.problem().clone();
            empty.learner = Learner::new(problem, settings).map_err(raised)?;
        }
        Self::of(outside(py, || empty.founded(rows).map_err(raised_by_file))?)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let model = outside(py, || Model::from_bytes(bytes).map_err(raised_by_file))?;
        if !model.learner.records().is_empty() {
            return Err(PyValueError::new_err(
                "these are the bytes of a model, not of an agreement",
            ));
        }
        Self::of(model)
    }

    /// The agreement that goes on with this one, with inputs behind its own.
    fn extended(&self, new_inputs: Vec<NewInput>) -> PyResult<Self> {
        let schema = grown(&self.model.schema, &new_inputs)?;
        let made = Self::of(self.model.founded_with(schema).map_err(raised_by_file)?)?;
        let agreement = made.agreement.after(&self.agreement).map_err(raised)?;
        Ok(Self { model: made.model, agreement })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = outside(py, || self.model.to_bytes().map_err(raised_by_file))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// A copy of the model that was agreed on, which has learned nothing.
    fn model(&self) -> PyModel {
        PyModel::of(self.model.clone())
    }

    /// SHA-256 of everything a summary depends on: loss, basis, columns, classes.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.agreement.digest().0)
    }

    /// The longest features of a row, where that was agreed.
    #[getter]
    fn clip(&self) -> Option<f64> {
        self.agreement.design().clip()
    }

    /// Design columns.
    #[getter]
    fn width(&self) -> usize {
        self.agreement.design().width()
    }

    /// Columns of the targets of a summary.
    #[getter]
    fn n_targets(&self) -> usize {
        self.agreement.columns()
    }

    /// The summary of rows, where it is all that a client sends.
    fn summary(&self, py: Python<'_>, x: Table, y: Target) -> PyResult<PySummary> {
        self.check_exact()?;
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let task = outside(py, || {
            let made = self.agreement.summarize(rows);
            made.map_err(|e| self.raised(&e))
        })?;
        py.check_signals()?;
        Ok(PySummary { summary: task.quadratic })
    }

    /// The update of a summary made elsewhere.
    fn update<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        summary: PySummary,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let made = Update::of_quadratic(&self.agreement, client, step, summary.summary);
        Ok(PyBytes::new(py, &made.map_err(raised)?.to_bytes()))
    }

    /// Most bytes an update of this form can take.
    fn most_bytes(&self, form: &str, numbers: &str) -> PyResult<usize> {
        Ok(Update::most_bytes(&self.agreement, is_diagonal(form)?, is_single(numbers)?))
    }

    /// What a client sends for the rows of a step.
    #[expect(clippy::too_many_arguments, reason = "one call per step")]
    fn summarize<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        x: Table,
        y: Target,
        form: &str,
        numbers: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (diagonal, single) = (is_diagonal(form)?, is_single(numbers)?);
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let sent = outside(py, || {
            let made = Update::of_rows(&self.agreement, client, step, rows);
            let mut update = made.map_err(|e| self.raised(&e))?;
            if diagonal {
                update = update.in_diagonal(&self.agreement).map_err(raised)?;
            }
            if single {
                update = update.in_single().map_err(raised)?;
            }
            Ok(update.to_bytes())
        })?;
        py.check_signals()?;
        Ok(PyBytes::new(py, &sent))
    }

    /// What a client sends for a step with differential privacy; rows with noise, and the noise of the sums.
    #[expect(clippy::too_many_arguments, reason = "one call per step")]
    fn summarize_private<'py>(
        &self,
        py: Python<'py>,
        client: &str,
        step: u64,
        x: Table,
        y: Target,
        clip: (f64, f64),
        budget: (f64, f64),
        account: Option<PyRefMut<'_, PyAccount>>,
    ) -> PyResult<(Bound<'py, PyBytes>, f64, [f64; 3], f64)> {
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        // Before the account is charged.
        self.check_exact()?;
        if let Some(mut account) = account {
            account.record(budget, &format!("{client}/{step}"))?;
        }
        let (update, told) = outside(py, || {
            let made = released(&self.agreement, (client, step), &rows, clip, budget);
            made.map_err(|e| self.raised(&e))
        })?;
        let bytes = PyBytes::new(py, &update.to_bytes());
        Ok((bytes, told.samples, told.sigma, told.clipped))
    }

    /// How much noise each client of a masked sum adds.
    fn shared_noise(
        &self,
        clip: (f64, f64),
        budget: (f64, f64),
        cohort: (usize, usize),
    ) -> PyResult<PySharedNoise> {
        self.check_exact()?;
        PySharedNoise::new(&self.agreement, clip, budget, cohort).map_err(raised)
    }

    /// The sums of rows with this client's share of the noise.
    fn noisy(
        &self,
        py: Python<'_>,
        x: Table,
        y: Target,
        noise: &PySharedNoise,
    ) -> PyResult<PyNoisySums> {
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let products = outside(py, || {
            let made = noise.noisy(&self.agreement, &rows);
            made.map_err(|e| self.raised(&e))
        })?;
        Ok(PyNoisySums { products })
    }

    /// What a client answers to a request to calibrate, for the rows of a step.
    fn calibrate<'py>(
        &self,
        py: Python<'py>,
        request: &[u8],
        client: &str,
        step: u64,
        x: Table,
        y: Target,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let request = CalibrationRequest::from_bytes(request).map_err(|r| refusal(py, &r))?;
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        let sent = outside(py, || {
            let made = request.answer(&self.agreement, client, step, rows);
            made.map(|answer| answer.to_bytes()).map_err(|e| self.raised(&e))
        })?;
        Ok(PyBytes::new(py, &sent))
    }

    /// The numbers of a client's answer to a request to calibrate, which add up over clients.
    fn calibration_numbers(
        &self,
        py: Python<'_>,
        request: &[u8],
        x: Table,
        y: Target,
    ) -> PyResult<Vec<f64>> {
        let request = CalibrationRequest::from_bytes(request).map_err(|r| refusal(py, &r))?;
        let table = TaskTable::new(py, x, y, None)?;
        let own = table.whole(py)?;
        let rows = own.rows()?;
        outside(py, || {
            let made = request.answer(&self.agreement, "one", 0, rows);
            made.map(|answer| answer.numbers()).map_err(|e| self.raised(&e))
        })
    }

    /// The answer of a cohort from the sums of its clients' numbers, scaled to its samples.
    fn calibration_of_sum<'py>(
        &self,
        py: Python<'py>,
        request: &[u8],
        cohort: &str,
        step: u64,
        numbers: Vec<f64>,
        samples: f64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let request = CalibrationRequest::from_bytes(request).map_err(|r| refusal(py, &r))?;
        let made = request.answer_of_sum(cohort, step, &numbers, samples);
        Ok(PyBytes::new(py, &made.map_err(|e| self.raised(&e))?.to_bytes()))
    }

    /// The digest of a request to calibrate, and how many numbers an answer has.
    #[staticmethod]
    fn calibration_shape<'py>(
        py: Python<'py>,
        request: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let request = CalibrationRequest::from_bytes(request).map_err(|r| refusal(py, &r))?;
        Ok((PyBytes::new(py, &request.digest().0), CalibrationAnswer::NUMBERS))
    }

    /// Predicted values or scores of the classes, `(rows, outputs)`, under parameters the server sent.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        sent: &[u8],
        x: Table,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let sent = Broadcast::from_bytes(sent, usize::MAX).map_err(|r| refusal(py, &r))?;
        let own = x.whole(py)?;
        let x = own.rows()?;
        let cells = outside(py, || {
            let cells = sent.answer(&self.agreement, x);
            cells.map_err(|e| self.raised(&e))
        })?;
        let outputs = cells.len().checked_div(x.len()).unwrap_or(0);
        table(py, cells, outputs)
    }
}

/// A server; with a path its memory is a model file.
#[pyclass(name = "FederatedServer", module = "pmfcl._core", frozen)]
pub(crate) struct PyServer {
    // One call at a time: an open file cannot be shared between threads.
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

    /// Goes on under an agreement with more inputs.
    fn extend(&self, py: Python<'_>, agreement: &PyAgreement) -> PyResult<()> {
        self.with(py, |kept| match kept {
            Kept::File(register) => register.extend(&agreement.model).map_err(raised_by_file),
            Kept::Memory(server, schema) => {
                let next = agreement.agreement.clone().after(server.agreement());
                server.extend(next.map_err(raised)?).map_err(raised)?;
                schema.clone_from(&agreement.model.schema);
                Ok(())
            }
        })
    }

    /// Accepts an upload: client, step, samples, and whether it is new. One that is refused raises, and changes nothing.
    ///
    /// `sender` is the client the transport knows it comes from, `last_step` the last one that was asked for.
    #[pyo3(signature = (bytes, sender=None, last_step=None))]
    fn accept(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        sender: Option<String>,
        last_step: Option<u64>,
    ) -> PyResult<(String, u64, f64, bool)> {
        let taken = self.with(py, |kept| {
            let server = kept.server();
            let read = Update::from_bytes(bytes, server.rules().most_bytes);
            Ok(read.and_then(|update| {
                let (client, step) = (update.client().to_owned(), update.step());
                let samples = update.samples();
                let sender = Sender { client: sender.as_deref(), last_step };
                let receipt = server.accept_from(&sender, update)?;
                Ok((client, step, samples, receipt == Receipt::Accepted))
            }))
        })?;
        taken.map_err(|refused| refusal(py, &refused))
    }

    /// The client an upload says it is of.
    fn client_of(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<String> {
        let read =
            self.with(py, |kept| Ok(Update::from_bytes(bytes, kept.server().rules().most_bytes)))?;
        Ok(read.map_err(|refused| refusal(py, &refused))?.client().to_owned())
    }

    /// Everything accepted: client, step, samples, bytes.
    fn updates(&self, py: Python<'_>) -> PyResult<Vec<(String, u64, f64, usize)>> {
        let line = |u: &Update| (u.client().to_owned(), u.step(), u.samples(), u.nbytes());
        self.with(py, |kept| Ok(kept.server().updates().map(line).collect()))
    }

    /// Removes a client; returns how many updates it had.
    fn remove_client(&self, py: Python<'_>, client: &str) -> PyResult<usize> {
        self.with(py, |kept| Ok(kept.server().remove_client(client)))
    }

    /// Removes one step of a client.
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

    /// What to send to all clients, so that they measure probabilities at the joint model.
    fn calibration_request<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let request = self.with(py, |kept| kept.server().calibration_request().map_err(raised))?;
        Ok(PyBytes::new(py, &request.to_bytes()))
    }

    /// Accepts the answer of a client to a request to calibrate; of `sender`, where a transport knows who that is.
    #[pyo3(signature = (bytes, sender=None))]
    fn accept_calibration(
        &self,
        py: Python<'_>,
        bytes: &[u8],
        sender: Option<&str>,
    ) -> PyResult<()> {
        let taken = self.with(py, |kept| {
            let read = CalibrationAnswer::from_bytes(bytes);
            Ok(read.and_then(|answer| {
                if let Some(sender) = sender.filter(|sender| *sender != answer.client()) {
                    let (client, sender) = (answer.client().to_owned(), sender.to_owned());
                    return Err(Refused::OtherSender { client, sender });
                }
                kept.server().accept_calibration(answer)
            }))
        })?;
        taken.map_err(|refused| refusal(py, &refused))
    }

    /// Which node each client's uploads come from, as it was last set or read from the file.
    fn nodes(&self, py: Python<'_>) -> PyResult<BTreeMap<String, u64>> {
        self.with(py, |kept| match kept {
            Kept::File(register) => Ok(register.nodes().clone()),
            Kept::Memory(..) => Ok(BTreeMap::new()),
        })
    }

    /// Notes it, to be written with the next commit.
    fn set_nodes(&self, py: Python<'_>, nodes: BTreeMap<String, u64>) -> PyResult<()> {
        self.with(py, |kept| {
            if let Kept::File(register) = kept {
                register.set_nodes(nodes);
            }
            Ok(())
        })
    }

    /// The joint model.
    fn model(&self, py: Python<'_>) -> PyResult<PyModel> {
        let model = self.with(py, |kept| match kept {
            Kept::File(register) => register.model().map_err(raised_by_file),
            Kept::Memory(server, schema) => {
                Ok(Model { schema: schema.clone(), learner: server.joint().map_err(raised)? })
            }
        })?;
        Ok(PyModel::of(model))
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
        Ok(PyModel::of(model))
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
            "most_updates" => rules.most_updates = value.extract()?,
            "most_total_bytes" => rules.most_total_bytes = value.extract()?,
            "largest_feature" => rules.largest_feature = value.extract()?,
            "largest_target" => rules.largest_target = value.extract()?,
            "most_share" => rules.most_share = value.extract()?,
            other => return Err(PyTypeError::new_err(format!("there is no rule `{other}`"))),
        }
    }
    Ok(rules)
}
