//! `SecAggClient`, `SecAggServer`: secure aggregation, bytes in and bytes out.

use std::collections::BTreeMap;

use pmfcl::problem::Digest;
use pmfcl_secagg::{Client, Error, FixedPoint, Identity, Input, Params, Server, SysRng};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::call::outside;
use crate::summary::PySummary;

/// What a round says; a call out of turn is the program's mistake, not a value's.
fn raised(error: Error) -> PyErr {
    match error {
        Error::Turn { .. } | Error::Random { .. } => PyRuntimeError::new_err(error.to_string()),
        other => PyValueError::new_err(other.to_string()),
    }
}

fn message(py: Python<'_>, bytes: Result<Vec<u8>, Error>) -> PyResult<Bound<'_, PyBytes>> {
    Ok(PyBytes::new(py, &bytes.map_err(raised)?))
}

/// What all sides agree on; the same arguments at client and server.
#[expect(clippy::too_many_arguments, reason = "as many as there are things to agree on")]
fn params(
    threshold: usize,
    clients: usize,
    width: usize,
    targets: usize,
    of: ([u8; 32], u64),
    scale: u8,
    bound: u8,
    signed: bool,
) -> PyResult<Params> {
    let fixed = FixedPoint::new(scale, bound).map_err(raised)?;
    let params = Params::new(threshold, clients, width, targets).map_err(raised)?;
    let params = params.fixed_point(fixed).map_err(raised)?.of(Digest(of.0), of.1);
    Ok(if signed { params.signed() } else { params })
}

fn identity(
    secret: Option<[u8; 32]>,
    known: BTreeMap<String, [u8; 32]>,
) -> PyResult<Option<Identity>> {
    secret.map(|secret| Identity::new(&secret, &known)).transpose().map_err(raised)
}

/// A client in one round of secure aggregation.
#[pyclass(name = "SecAggClient", module = "pmfcl._core")]
pub(crate) struct PySecAggClient {
    client: Client,
}

#[pymethods]
impl PySecAggClient {
    #[new]
    #[pyo3(signature = (round, name, *, threshold, clients, width, targets=1, agreement=[0; 32], step=0, scale=60, bound=50, secret=None,
        known=BTreeMap::new()))]
    #[expect(clippy::too_many_arguments, reason = "as many as there are things to agree on")]
    fn new(
        round: &str,
        name: &str,
        threshold: usize,
        clients: usize,
        width: usize,
        targets: usize,
        agreement: [u8; 32],
        step: u64,
        scale: u8,
        bound: u8,
        secret: Option<[u8; 32]>,
        known: BTreeMap<String, [u8; 32]>,
    ) -> PyResult<Self> {
        let signed = secret.is_some();
        let params =
            params(threshold, clients, width, targets, (agreement, step), scale, bound, signed)?;
        let client = match identity(secret, known)? {
            Some(identity) => Client::signed(round, name, params, identity, &mut SysRng),
            None => Client::new(round, name, params, &mut SysRng),
        };
        Ok(Self { client: client.map_err(raised)? })
    }

    #[staticmethod]
    #[pyo3(signature = (state, *, secret=None, known=BTreeMap::new()))]
    fn from_bytes(
        state: &[u8],
        secret: Option<[u8; 32]>,
        known: BTreeMap<String, [u8; 32]>,
    ) -> PyResult<Self> {
        let client = match identity(secret, known)? {
            Some(identity) => Client::from_bytes_signed(state, identity),
            None => Client::from_bytes(state),
        };
        Ok(Self { client: client.map_err(raised)? })
    }

    /// The state between two messages. Secret, as the rows are.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.client.to_bytes())
    }

    /// The public half of a secret of 32 random bytes, for `known`.
    #[staticmethod]
    fn public(py: Python<'_>, secret: [u8; 32]) -> Bound<'_, PyBytes> {
        PyBytes::new(py, &Identity::public(&secret))
    }

    /// The digest of the agreement its keys are for.
    #[getter]
    fn agreement<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.client.params().agreement().0)
    }

    /// The step its keys are for.
    #[getter]
    fn step(&self) -> u64 {
        self.client.params().step()
    }

    /// The round.
    #[getter]
    fn round(&self) -> String {
        self.client.round().to_owned()
    }

    /// Clients that must stay to the end.
    #[getter]
    fn threshold(&self) -> usize {
        self.client.params().threshold()
    }

    /// Who takes part, once the roster has been seen and until this client has answered.
    #[getter]
    fn members(&self) -> Vec<String> {
        self.client.members().into_iter().map(str::to_owned).collect()
    }

    fn advertise<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.client.advertise())
    }

    fn share<'py>(&mut self, py: Python<'py>, roster: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = outside(py, || Ok(self.client.share(roster)))?;
        message(py, bytes)
    }

    /// The sums of rows summarized under an agreement, for a step; refused where these are not those of the round.
    #[pyo3(signature = (inbox, summary, *, agreement=[0; 32], step=0))]
    fn masked<'py>(
        &mut self,
        py: Python<'py>,
        inbox: &[u8],
        summary: &PySummary,
        agreement: [u8; 32],
        step: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let products = summary.summary.products();
        let input = Input { agreement: Digest(agreement), step, products: &products };
        let bytes = outside(py, || Ok(self.client.masked(inbox, &input)))?;
        message(py, bytes)
    }

    fn confirm<'py>(&mut self, py: Python<'py>, survivors: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.client.confirm(survivors))
    }

    fn unmask<'py>(&mut self, py: Python<'py>, survivors: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.client.unmask(survivors))
    }
}

/// A server in one round of secure aggregation.
#[pyclass(name = "SecAggServer", module = "pmfcl._core")]
pub(crate) struct PySecAggServer {
    server: Server,
}

#[pymethods]
impl PySecAggServer {
    #[new]
    #[pyo3(signature = (round, *, threshold, clients, width, targets=1, agreement=[0; 32], step=0, scale=60, bound=50, signed=false))]
    #[expect(clippy::too_many_arguments, reason = "as many as there are things to agree on")]
    fn new(
        round: &str,
        threshold: usize,
        clients: usize,
        width: usize,
        targets: usize,
        agreement: [u8; 32],
        step: u64,
        scale: u8,
        bound: u8,
        signed: bool,
    ) -> PyResult<Self> {
        let params =
            params(threshold, clients, width, targets, (agreement, step), scale, bound, signed)?;
        Ok(Self { server: Server::new(round, params).map_err(raised)? })
    }

    /// Whose message it says it is.
    fn sender(&self, message: &[u8]) -> PyResult<String> {
        self.server.sender(message).map_err(raised)
    }

    fn collect_keys(&mut self, message: &[u8]) -> PyResult<String> {
        self.server.collect_keys(message).map_err(raised)
    }

    fn roster<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.server.roster())
    }

    fn collect_shares(&mut self, message: &[u8]) -> PyResult<String> {
        self.server.collect_shares(message).map_err(raised)
    }

    fn inbox<'py>(&mut self, py: Python<'py>, client: &str) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.server.inbox(client))
    }

    fn collect_masked(&mut self, message: &[u8]) -> PyResult<String> {
        self.server.collect_masked(message).map_err(raised)
    }

    fn survivors<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.server.survivors())
    }

    fn collect_confirmation(&mut self, message: &[u8]) -> PyResult<String> {
        self.server.collect_confirmation(message).map_err(raised)
    }

    fn confirmations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        message(py, self.server.confirmations())
    }

    fn collect_answer(&mut self, message: &[u8]) -> PyResult<String> {
        self.server.collect_answer(message).map_err(raised)
    }

    /// The summary of all rows of the clients that stayed, and their names.
    fn finish(&self, py: Python<'_>) -> PyResult<(PySummary, Vec<String>)> {
        outside(py, || {
            let total = self.server.finish().map_err(raised)?;
            Ok((PySummary { summary: total.summary().map_err(raised)? }, total.clients))
        })
    }
}
