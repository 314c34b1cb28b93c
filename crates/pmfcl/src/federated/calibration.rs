//! The second round: clients measure probabilities at the joint model.
//!
//! What a client would measure under a model of its own rows is far too optimistic or too cautious for the joint one. So the server
//! sends the pooled summary, and each client answers with a table of log-losses of its rows, each left out of the model. Tables add;
//! the result depends neither on the order of clients nor on who answers first.
//!
//! ```text
//! request  "PMFC" | version u16 | flags u16 (1: steps count by samples) | agreement 32 bytes | samples f64 | effective f64
//!          | shrinkage u32 | shrinkage, UTF-8 | pooled quadratic, as the bytes of a summary | CRC-32 u32
//! answer   "PMFK" | version u16 | 0 u16 | agreement 32 bytes | SHA-256 of the request 32 bytes | step u64 | name u32 | numbers u32
//!          | name, UTF-8 | numbers × f64 | CRC-32 u32
//! ```
//!
//! The request shows clients the sums over all rows, as the joint model itself does. Under [`super::Rules::most_share`] a row that is
//! left out counts as if its client had its full weight.

use sha2::{Digest as _, Sha256};

use super::refused::Refused;
use super::update::is_name;
use crate::error::{Error, Result};
use crate::learner::FilledPool;
use crate::problem::choice::solve_chosen;
use crate::problem::{
    ADDITIVE, Agreement, AssessInput, CalibrationTable, Digest, Pool, Reader, RowSample, Scored,
    SolveInput, TaskContext, invalid,
};
use crate::rows::TaskRows;
use crate::summary::{Summary, crc32};

const REQUEST: [u8; 4] = *b"PMFC";
const ANSWER: [u8; 4] = *b"PMFK";
const VERSION: u16 = 1;
/// Steps count by samples, and not all the same.
const BY_SAMPLES: u16 = 1;

/// What the server sends for the second round: all that probabilities are measured with.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationRequest {
    pub(super) agreement: Digest,
    pub(super) by_samples: bool,
    pub(super) samples: f64,
    pub(super) effective: f64,
    pub(super) shrinkage: String,
    pub(super) pooled: Summary,
}

/// What a client answers: the table of one of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrationAnswer {
    pub(super) agreement: Digest,
    pub(super) request: Digest,
    pub(super) client: String,
    pub(super) step: u64,
    pub(super) table: CalibrationTable,
}

impl CalibrationRequest {
    /// As bytes; [`CalibrationRequest::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flags = if self.by_samples { BY_SAMPLES } else { 0 };
        let mut out = begin(REQUEST, flags, self.agreement);
        out.extend_from_slice(&self.samples.to_le_bytes());
        out.extend_from_slice(&self.effective.to_le_bytes());
        out.extend_from_slice(&(self.shrinkage.len() as u32).to_le_bytes());
        out.extend_from_slice(self.shrinkage.as_bytes());
        out.extend_from_slice(&self.pooled.to_bytes());
        sealed(out)
    }

    /// Reads what [`CalibrationRequest::to_bytes`] wrote.
    ///
    /// # Errors
    /// On any byte string that is not exactly a request with valid numbers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        let (flags, agreement, mut rest) = opened(bytes, REQUEST, "a request to calibrate")?;
        let (samples, effective) = (rest.double()?, rest.double()?);
        let length = rest.size()?;
        let shrinkage = std::str::from_utf8(rest.take(length)?)
            .map_err(|_| invalid("its shrinkage is not UTF-8"))?
            .to_owned();
        let pooled = Summary::from_bytes(rest.0)?;
        let sound = |v: f64| v > 0.0 && v.is_finite();
        if !sound(samples) || !sound(effective) || flags > BY_SAMPLES {
            return Err(Refused::bytes("as a request to calibrate, its numbers are invalid"));
        }
        let by_samples = flags == BY_SAMPLES;
        Ok(Self { agreement, by_samples, samples, effective, shrinkage, pooled })
    }

    /// The digest of its bytes: answers are of it, and of no other request.
    pub fn digest(&self) -> Digest {
        Digest(Sha256::digest(self.to_bytes()).into())
    }

    /// The answer of a cohort, from the sum of its clients' numbers ([`CalibrationAnswer::numbers`]). It is scaled to the samples of
    /// the cohort's step, so that clients which stayed stand for those that did not.
    ///
    /// # Errors
    /// When steps do not count by samples, and on numbers that no clients have.
    pub fn answer_of_sum(
        &self,
        cohort: &str,
        step: u64,
        numbers: &[f64],
        samples: f64,
    ) -> Result<CalibrationAnswer> {
        if !self.by_samples {
            return Err(Error::Unsupported {
                operation: "measuring probabilities with sums of several clients",
                reason: "a client does not know what a row of the cohort counts unless all count the same; prefer samples"
                    .to_owned(),
            });
        }
        let whole = [&[self.samples][..], numbers].concat();
        let sound = numbers.len() == ADDITIVE && is_name(cohort) && samples > 0.0;
        let table = CalibrationTable::from_numbers(&whole);
        let table = table.filter(|table| sound && table.measured() > 0.0);
        let Some(table) = table else {
            return Err(Error::Bytes { reason: "these are not sums of calibrations".to_owned() });
        };
        let scaled = table.share(samples / table.measured());
        let (agreement, client) = (self.agreement, cohort.to_owned());
        Ok(CalibrationAnswer { agreement, request: self.digest(), client, step, table: scaled })
    }

    /// What a client answers for the rows of one of its steps.
    ///
    /// # Errors
    /// When the request is of another agreement, the rows are invalid, or none of them can be left out.
    pub fn answer(
        &self,
        agreement: &Agreement,
        client: &str,
        step: u64,
        rows: TaskRows<'_>,
    ) -> Result<CalibrationAnswer> {
        if self.agreement != agreement.digest() {
            return Err(Error::Mismatch {
                what: "the model",
                left: format!("{} here", agreement.digest()),
                right: format!("{} in what was sent", self.agreement),
            });
        }
        if !is_name(client) {
            return Err(Error::Unsupported {
                operation: "this name of a client",
                reason: "a name has 1 to 255 bytes and no control characters".to_owned(),
            });
        }
        rows.check()?;
        let context = agreement.context();
        crate::problem::pass::check(&context, &rows)?;
        if let Some((row, column, value)) = rows.x.first_not_finite() {
            return Err(Error::NotFinite { what: "feature", row: row as u64, column, value });
        }
        let mut sample = RowSample::new(rows.x.width(), Vec::new());
        sample.add(&rows);
        let samples = rows.weights.map_or(rows.len() as f64, |weights| weights.iter().sum());
        let factor = if self.by_samples { 1.0 } else { 1.0 / samples };
        let table = self.table(context, &Scored { sample: &sample, samples, factor })?;
        let (client, request) = (client.to_owned(), self.digest());
        Ok(CalibrationAnswer { agreement: self.agreement, request, client, step, table })
    }

    fn table(&self, context: TaskContext<'_>, rows: &Scored<'_>) -> Result<CalibrationTable> {
        let problem = context.problem.with_option("shrinkage", &self.shrinkage)?;
        let context = TaskContext { problem: &problem, ..context };
        let pool = Pool {
            quadratic: self.pooled.clone(),
            least: None,
            tasks: 0,
            samples: self.samples,
            rows: None,
            spread: 0.0,
            moments: None,
            scatters: Vec::new(),
            tails: None,
        };
        let effective = self.effective;
        let filled;
        let (context, pool) = if context.design.fills().is_empty() {
            (context, &pool)
        } else {
            filled = FilledPool::of(context.design, &pool)?;
            (TaskContext { design: &filled.design, ..context }, &*filled.pool)
        };
        let (solved, chosen) = solve_chosen(SolveInput {
            context,
            pool,
            effective,
            tasks: None,
            tables: Vec::new(),
            waiting: Vec::new(),
        })?;
        let input = match &chosen {
            Some(chosen) => {
                let context = TaskContext { design: &chosen.design, ..context };
                AssessInput { context, pool: &chosen.pool, effective, solved: &solved }
            }
            None => AssessInput { context, pool, effective, solved: &solved },
        };
        problem.method().measure(&input, rows)
    }
}

impl CalibrationAnswer {
    /// How many numbers of an answer add up over clients.
    pub const NUMBERS: usize = ADDITIVE;

    /// The client it says it is of.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// The numbers that add up over clients, none negative.
    pub fn numbers(&self) -> Vec<f64> {
        self.table.to_numbers()[1..].to_vec()
    }

    /// As bytes; [`CalibrationAnswer::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = begin(ANSWER, 0, self.agreement);
        out.extend_from_slice(&self.request.0);
        out.extend_from_slice(&self.step.to_le_bytes());
        let numbers = self.table.to_numbers();
        for size in [self.client.len(), numbers.len()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(self.client.as_bytes());
        numbers.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        sealed(out)
    }

    /// Reads what [`CalibrationAnswer::to_bytes`] wrote.
    ///
    /// # Errors
    /// On any byte string that is not exactly an answer with valid numbers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Refused> {
        let (_, agreement, mut rest) = opened(bytes, ANSWER, "a calibration")?;
        let request = Digest(rest.take(32)?.try_into().expect("thirty-two bytes"));
        let step = rest.word()?;
        let (name, numbers) = (rest.size()?, rest.size()?);
        let client = std::str::from_utf8(rest.take(name)?)
            .ok()
            .filter(|name| is_name(name))
            .ok_or_else(|| invalid("the name of the client is invalid"))?
            .to_owned();
        let table = CalibrationTable::from_numbers(&rest.doubles(numbers)?);
        match table {
            Some(table) if rest.0.is_empty() => {
                Ok(Self { agreement, request, client, step, table })
            }
            _ => Err(Refused::bytes("as a calibration, its numbers are invalid")),
        }
    }
}

fn begin(magic: [u8; 4], flags: u16, agreement: Digest) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&agreement.0);
    out
}

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    let check = crc32(&out);
    out.extend_from_slice(&check.to_le_bytes());
    out
}

/// Flags, agreement, and what follows.
fn opened<'a>(
    bytes: &'a [u8],
    magic: [u8; 4],
    what: &str,
) -> Result<(u16, Digest, Reader<'a>), Refused> {
    let refuse = |reason: &str| Err(Refused::bytes(format!("as {what}, {reason}")));
    if bytes.len() < 44 || bytes[..4] != magic {
        return refuse("it does not begin as one");
    }
    if bytes[4..6] != VERSION.to_le_bytes() {
        return refuse("it is of another version");
    }
    let (body, check) = bytes.split_at(bytes.len() - 4);
    if crc32(body).to_le_bytes() != check {
        return refuse("its checksum does not match: bytes were changed or cut off");
    }
    let flags = u16::from_le_bytes([bytes[6], bytes[7]]);
    let mut rest = Reader(&body[8..]);
    let agreement = Digest(rest.take(32)?.try_into().expect("thirty-two bytes"));
    Ok((flags, agreement, rest))
}
