//! What a client sends for one step.
//!
//! ```text
//! "PMFU" | version u16 | 0 u16 | agreement 32 bytes | step u64 | name u32 | task u32 | name, UTF-8 | task summary | CRC-32 u32
//! ```

use super::refused::Refused;
use crate::error::{Error, Result};
use crate::problem::{
    Agreement, Digest, Encoding, Exactness, LeastLoss, Reader, Tails, TaskSummary, invalid,
};
use crate::rows::TaskRows;
use crate::solve::{Penalty, solve};
use crate::summary::{Summary, crc32};

const MAGIC: &[u8; 4] = b"PMFU";
const VERSION: u16 = 2;
const HEADER: usize = 4 + 2 + 2 + 32 + 8 + 4 + 4;

/// Longest name of a client, in bytes.
const LONGEST_NAME: usize = 255;

/// What a client sends for one step: the task summary of its new rows.
///
/// Made by [`Update::of_rows`]. The square-root form is positive semi-definite whatever its numbers are; sums of products from
/// elsewhere become one through [`Summary::from_products`], which checks them.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    client: String,
    step: u64,
    agreement: Digest,
    single: bool,
    task: TaskSummary,
}

impl Update {
    /// What a client sends for one step of rows.
    ///
    /// # Errors
    /// On bad input (see [`Error`]), on a label outside the classes, and on a name that is none.
    pub fn of_rows(
        agreement: &Agreement,
        client: &str,
        step: u64,
        rows: TaskRows<'_>,
    ) -> Result<Self> {
        if rows.is_empty() {
            return Err(Error::Empty { what: "the step" });
        }
        Self::of_task(agreement, client, step, agreement.summarize(rows)?)
    }

    /// An update of a task summary made elsewhere under the same agreement.
    ///
    /// # Errors
    /// When the summary has another shape or no rows.
    pub fn of_task(
        agreement: &Agreement,
        client: &str,
        step: u64,
        task: TaskSummary,
    ) -> Result<Self> {
        let expected = (agreement.design().width(), agreement.columns());
        let found = (task.quadratic.width(), task.quadratic.targets());
        if found != expected {
            return Err(Error::Mismatch {
                what: "the shape of the summary",
                left: format!("{} × {}", found.0, found.1),
                right: format!("{} × {}", expected.0, expected.1),
            });
        }
        if task.head.samples <= 0.0 {
            return Err(Error::Empty { what: "the step" });
        }
        if !is_name(client) {
            return Err(Error::Unsupported {
                operation: "this name of a client",
                reason: format!("a name has 1 to {LONGEST_NAME} bytes and no control characters"),
            });
        }
        // Rows, hash and calibration stay with the client.
        let mut task = task;
        (task.head.rows, task.head.content, task.head.calibration) = (None, None, None);
        task.quadratic = task.quadratic.with_plain_zeros();
        let (client, agreement) = (client.to_owned(), agreement.digest());
        Ok(Self { client, step, agreement, single: false, task })
    }

    /// An update of a quadratic made elsewhere, for problems whose quadratics are their losses (targets of classes are
    /// indicators).
    ///
    /// # Errors
    /// As [`Update::of_task`], and for a loss that is bounded, which needs the rows.
    pub fn of_quadratic(
        agreement: &Agreement,
        client: &str,
        step: u64,
        quadratic: Summary,
    ) -> Result<Self> {
        if agreement.problem().exactness() != Exactness::Exact {
            return Err(Error::Unsupported {
                operation: "an update from a summary",
                reason: format!(
                    "{} looks at the rows of a step several times; give the rows",
                    agreement.problem()
                ),
            });
        }
        let mut task = TaskSummary::exact(quadratic, None);
        if agreement.problem().predicts_classes() {
            task.head.counts = task.quadratic.target_sums().to_vec();
        }
        Self::of_task(agreement, client, step, task)
    }

    /// The same in single precision: every number is off by a share of at most 2⁻²⁴, so the summary is that of rows nearby, and a
    /// bound holds except for that rounding.
    ///
    /// # Errors
    /// When a number is outside the range of single precision.
    pub fn in_single(mut self) -> Result<Self> {
        self.task = self.task.in_single()?;
        self.single = true;
        Ok(self)
    }

    /// The diagonal bound of the same step: `H ≼ Diag(Σ_j |H_ij|)` about the step's own minimizer, `2m` numbers for one target. An
    /// upper bound of the loss that is equal to it there, so the bound on forgetting holds; the model is no longer that of
    /// pooled rows.
    ///
    /// # Errors
    /// When the numbers leave the range of double precision; for `gaussian`, whose covariance is no bound.
    pub fn in_diagonal(mut self, agreement: &Agreement) -> Result<Self> {
        agreement.problem().method().check_boundable()?;
        if self.is_diagonal() {
            return Ok(self);
        }
        let s = &self.task.quadratic;
        let (m, p) = (s.width(), s.targets());
        let own = solve(s, agreement.design().intercept(), Penalty::NONE, None)?.theta;
        let products = s.products();
        let mut sums = vec![0.0; m];
        let mut at = 0;
        for i in 0..m {
            for j in i..m {
                let h = products.xx[at].abs();
                at += 1;
                sums[i] += h;
                if j > i {
                    sums[j] += h;
                }
            }
        }
        let mut pivots = Vec::new();
        let mut packed = Vec::new();
        for (j, sum) in sums.iter().enumerate().filter(|(_, sum)| **sum > 0.0) {
            let root = sum.sqrt();
            pivots.push(j as u32);
            packed.push(root);
            packed.resize(packed.len() + m - j - 1, 0.0);
            packed.extend((0..p).map(|k| root * own.column(k)[j]));
        }
        let (c, totals) = (s.residual().to_vec(), s.target_sums().to_vec());
        let quadratic = Summary::from_numbers((s.n(), m, p), pivots, packed, c, totals)?;
        if self.task.head.exactness == Exactness::Exact {
            self.task.head.exactness = Exactness::Bound { guaranteed: true };
            self.task.head.least = LeastLoss::Certified(quadratic.min_loss());
        }
        self.task.quadratic = quadratic;
        self.task.tails = None;
        if self.single { self.in_single() } else { Ok(self) }
    }

    /// Who sends it.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// For which step of that client.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The digest of the agreement it was made under.
    pub fn agreement(&self) -> Digest {
        self.agreement
    }

    /// Samples it stands for.
    pub fn samples(&self) -> f64 {
        self.task.head.samples
    }

    /// The task summary.
    pub fn task(&self) -> &TaskSummary {
        &self.task
    }

    /// Whether its numbers are sent in single precision.
    pub fn is_single(&self) -> bool {
        self.single
    }

    /// Whether its quadratic is a diagonal bound. That of rows whose columns are orthogonal is not one, though it is diagonal.
    pub fn is_diagonal(&self) -> bool {
        let s = &self.task.quadratic;
        let bound = self.task.head.exactness != Exactness::Exact;
        bound && s.width() > 1 && s.iter().all(|(_, r, _)| r[1..].iter().all(|v| *v == 0.0))
    }

    /// The name of its task in the joint model.
    pub(super) fn task_name(&self) -> String {
        format!("{}/{}", self.client, self.step)
    }

    /// An update as it was accepted before, from the task it became.
    pub(super) fn accepted(client: &str, step: u64, agreement: Digest, task: TaskSummary) -> Self {
        Self { client: client.to_owned(), step, agreement, single: false, task }
    }

    /// Whether both stand for the same step in the same numbers, however these were sent. Zeros of either sign are told apart, as
    /// the bytes are.
    pub(super) fn is_same(&self, other: &Update) -> bool {
        self.task.to_bytes(Encoding::Plain) == other.task.to_bytes(Encoding::Plain)
    }

    fn encoding(&self) -> Encoding {
        if self.single { Encoding::PackedSingle } else { Encoding::Packed }
    }

    /// The update as bytes; [`Update::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let task = self.task.to_bytes(self.encoding());
        let mut out = Vec::with_capacity(HEADER + self.client.len() + task.len() + 4);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&self.agreement.0);
        out.extend_from_slice(&self.step.to_le_bytes());
        for size in [self.client.len(), task.len()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(self.client.as_bytes());
        out.extend_from_slice(&task);
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Bytes of [`Update::to_bytes`].
    pub fn nbytes(&self) -> usize {
        HEADER + self.client.len() + self.task.encoded_len(self.encoding()) + 4
    }

    /// Most bytes an update can take under an agreement, that of rows of full rank: known before any row is looked at.
    pub fn most_bytes(agreement: &Agreement, diagonal: bool, single: bool) -> usize {
        // The head of a task summary, the sizes of its quadratic, and its checksum.
        const TASK: usize = 60 + 20 + 4;
        let (m, p) = (agreement.design().width(), agreement.columns());
        let (cells, first) = if diagonal { (m, 1) } else { (m * (m + 1) / 2, m) };
        let width = if single { 4 } else { 8 };
        // The first row is always in double precision.
        let rows = width * (cells + m * p) + (8 - width) * (first + p);
        let classes = agreement.class_names().len();
        let moments = match agreement.problem().exactness() {
            Exactness::Exact => 0,
            Exactness::Bound { .. } => {
                8 * (1 + 2 * (m - usize::from(agreement.design().intercept())))
            }
        };
        // Behind the sizes of two lists.
        let portfolio = agreement.design().map().basis().is_portfolio();
        let tails = if portfolio { 8 + Tails::none(p).nbytes() } else { 0 };
        HEADER + LONGEST_NAME + TASK + 8 * classes + moments + tails + 4 * m + rows + 16 * p + 4
    }

    /// Reads what [`Update::to_bytes`] wrote. `most` bounds the bytes, and the numbers they unpack to.
    ///
    /// # Errors
    /// On any byte string that is not exactly a valid update: truncated, altered, too large, of another version, or with numbers that
    /// are no task summary. Every length is checked before anything of that size is allocated.
    pub fn from_bytes(bytes: &[u8], most: usize) -> Result<Update, Refused> {
        if bytes.len() > most {
            return Err(Refused::TooLarge { bytes: bytes.len(), most });
        }
        if bytes.len() < HEADER + 4 {
            return Err(Refused::bytes("too short for a header"));
        }
        if &bytes[..4] != MAGIC {
            return Err(Refused::bytes("it does not begin with PMFU"));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION || bytes[6..8] != [0, 0] {
            return Err(Refused::bytes(format!(
                "version {version}; this program reads version {VERSION}"
            )));
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return Err(Refused::bytes(
                "the checksum does not match: bytes were changed or cut off",
            ));
        }
        let mut rest = Reader(&body[8..]);
        let agreement = Digest(rest.take(32)?.try_into().expect("thirty-two bytes"));
        let step = rest.word()?;
        let (name, length) = (rest.size()?, rest.size()?);
        let client = std::str::from_utf8(rest.take(name)?)
            .ok()
            .filter(|name| is_name(name))
            .ok_or_else(|| invalid("the name of the client is invalid"))?;
        let task = rest.take(length)?;
        if !rest.0.is_empty() {
            return Err(Refused::bytes("its length is not the one its header says"));
        }
        let task = TaskSummary::from_bytes(task, most)?;
        let packed = task.to_bytes(Encoding::Packed);
        let single = packed.len() != length || packed != body[body.len() - length..];
        let update = Self { client: client.to_owned(), step, agreement, single, task };
        // One update, one string of bytes; nothing but the summary is sent.
        let plain = update.task.head.rows.is_none()
            && update.task.head.content.is_none()
            && update.task.head.calibration.is_none()
            && update.task.classes.is_empty()
            && update.task.new_inputs.is_empty();
        if !plain || update.to_bytes() != bytes {
            return Err(Refused::bytes("it is not written as it should be"));
        }
        Ok(update)
    }
}

/// Whether a client may be called so.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && !name.chars().any(char::is_control)
}
