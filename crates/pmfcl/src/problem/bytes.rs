//! A task summary as bytes and back: little-endian, versioned, with a checksum.
//!
//! ```text
//! "PMFT" | version u16 | flags u8 | form u8 | samples f64 | rows u64 | least f64 | gap f64
//!        | counts u32 | table u32 | moments u32 | classes u32 | inputs u32
//!        | counts × f64 | table × f64 | moments × f64 | content 32 bytes where flagged
//!        | classes and inputs: length u32, UTF-8
//!        | versions 2 and 3: scatters u32, of each its length u32 and the bytes of a summary
//!        | version 3: tails u32, tails × f64
//!        | quadratic | CRC-32 u32
//! ```
//!
//! Version 3 is written where the tails of the targets are known, version 2 where classes have scatters of their own, version 1
//! elsewhere.
//!
//! The quadratic is either the bytes of [`Summary::to_bytes`] (form 0), or packed: `m u32 | p u32 | r u32 | n f64`, pivots, where zeros are
//! left out a bit for each number of the rows (1 where it is there), the rows, `c` and `Σy`. A row is `R` from its pivot on and
//! `Z`; of a diagonal one the pivot's entry and `Z`. Row 0 is always in double precision. Zeros are left out where that is
//! shorter, as it is with categories, most pairs of which never meet. Nothing else is compressed: the digits of sums are noise,
//! of which no packer makes less, and low rank is short already.

use super::moments::Moments;
use super::tails::Tails;
use super::task::{CalibrationTable, Exactness, FitOutcome, LeastLoss, TaskHead, TaskSummary};
use crate::error::Error;
use crate::summary::{Summary, crc32};

const MAGIC: &[u8; 4] = b"PMFT";
const VERSION: u16 = 1;
/// That of summaries with a scatter for each class.
const WITH_SCATTERS: u16 = 2;
/// That of summaries with tails of the targets.
const WITH_TAILS: u16 = 3;

/// Flags of the header.
const ROWS: u8 = 1;
const CONTENT: u8 = 2;
const BOUND: u8 = 4;
const GUARANTEED: u8 = 8;
const LEAST: u8 = 16;
const CERTIFIED: u8 = 32;
const SEPARABLE: u8 = 64;
const STOPPED: u8 = 128;

/// Forms of the quadratic: packed, and then a diagonal, zeros left out, single precision.
const PACKED: u8 = 1;
const DIAGONAL: u8 = 2;
const SPARSE: u8 = 4;
const SINGLE: u8 = 8;

/// How the numbers of a quadratic are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(hidden)] // for export, file, read
pub enum Encoding {
    /// As in model files: every number, in double precision.
    #[default]
    Plain,
    /// As in messages: zeros left out where that is shorter, in double precision.
    Packed,
    /// The same with numbers in single precision, except those of the first row and the sums.
    PackedSingle,
}

/// Why bytes are not a task summary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[doc(hidden)] // a part of `Error`
pub enum BytesError {
    /// More bytes than are allowed, packed or unpacked.
    #[error("it takes {bytes} bytes; {most} are allowed")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
    /// They are something else, or were changed.
    #[error("{0}")]
    Invalid(String),
}

impl From<Error> for BytesError {
    fn from(error: Error) -> Self {
        match error {
            Error::Bytes { reason } => Self::Invalid(reason),
            other => Self::Invalid(other.to_string()),
        }
    }
}

impl From<BytesError> for Error {
    fn from(error: BytesError) -> Self {
        Self::Bytes { reason: error.to_string() }
    }
}

pub(crate) fn invalid(reason: impl Into<String>) -> BytesError {
    BytesError::Invalid(reason.into())
}

impl TaskSummary {
    /// The task summary as bytes; [`TaskSummary::from_bytes`] gives it back bit for bit. Single precision loses digits first:
    /// see `Update::in_single`.
    pub fn to_bytes(&self, encoding: Encoding) -> Vec<u8> {
        let head = &self.head;
        let mut flags = 0;
        for (flag, set) in [
            (ROWS, head.rows.is_some()),
            (CONTENT, head.content.is_some()),
            (BOUND, head.exactness != Exactness::Exact),
            (GUARANTEED, head.exactness.guaranteed()),
            (LEAST, head.least != LeastLoss::Unknown),
            (CERTIFIED, matches!(head.least, LeastLoss::Certified(_))),
            (SEPARABLE, head.outcome == FitOutcome::Separable),
            (STOPPED, matches!(head.outcome, FitOutcome::Stopped { .. })),
        ] {
            flags |= if set { flag } else { 0 };
        }
        let form = self.form(encoding);
        let gap = match head.outcome {
            FitOutcome::Stopped { gap } => gap,
            FitOutcome::Converged | FitOutcome::Separable => 0.0,
        };
        let table = head.calibration.as_ref().map_or_else(Vec::new, CalibrationTable::to_numbers);
        let moments = self.moments.as_ref().map_or_else(Vec::new, Moments::to_numbers);
        let mut out = Vec::with_capacity(128 + self.nbytes());
        out.extend_from_slice(MAGIC);
        let version = match (&self.tails, self.scatters.is_empty()) {
            (Some(_), _) => WITH_TAILS,
            (None, false) => WITH_SCATTERS,
            (None, true) => VERSION,
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(&[flags, form]);
        let numbers = [head.samples.to_bits(), head.rows.unwrap_or(0)];
        let more = [head.least.value().unwrap_or(0.0).to_bits(), gap.to_bits()];
        numbers.iter().chain(&more).for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        for count in [
            head.counts.len(),
            table.len(),
            moments.len(),
            self.classes.len(),
            self.new_inputs.len(),
        ] {
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
        for v in head.counts.iter().chain(&table).chain(&moments) {
            out.extend_from_slice(&v.to_le_bytes());
        }
        out.extend_from_slice(head.content.as_ref().map_or(&[][..], |hash| hash));
        for name in self.classes.iter().chain(&self.new_inputs) {
            out.extend_from_slice(&(name.len() as u32).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        if version != VERSION {
            out.extend_from_slice(&(self.scatters.len() as u32).to_le_bytes());
            for bytes in self.scatters.iter().map(Summary::to_bytes) {
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(&bytes);
            }
        }
        if let Some(numbers) = self.tails.as_ref().map(Tails::to_numbers) {
            out.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
            numbers.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        }
        self.write_quadratic(form, &mut out);
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Bytes of [`TaskSummary::to_bytes`].
    pub fn encoded_len(&self, encoding: Encoding) -> usize {
        self.to_bytes(encoding).len()
    }

    /// The form of the quadratic under an encoding.
    fn form(&self, encoding: Encoding) -> u8 {
        let packed = match encoding {
            Encoding::Plain => return 0,
            Encoding::Packed => PACKED,
            Encoding::PackedSingle => PACKED | SINGLE,
        };
        let diagonal = self.quadratic.rank() > 0 && self.quadratic.width() > 1 && {
            let zero = |(_, r, _): (usize, &[f64], &[f64])| r[1..].iter().all(|v| is_zero(*v));
            self.quadratic.iter().all(zero)
        };
        let form = if diagonal { packed | DIAGONAL } else { packed };
        let (mut cells, mut zeros) = (0, 0);
        self.sent(form, |i, v| {
            cells += 1;
            zeros += if is_zero(v) { number(form, i) } else { 0 };
        });
        if zeros > usize::div_ceil(cells, 8) { form | SPARSE } else { form }
    }

    /// Calls `f` with every number of the rows that is written, and its row.
    fn sent(&self, form: u8, mut f: impl FnMut(usize, f64)) {
        let m = self.quadratic.width();
        for (i, (pivot, r, z)) in self.quadratic.iter().enumerate() {
            let length = if form & DIAGONAL > 0 { 1 } else { m - pivot };
            let padded = r.iter().copied().chain(std::iter::repeat(0.0)).take(length);
            padded.chain(z.iter().copied()).for_each(|v| f(i, v));
        }
    }

    fn write_quadratic(&self, form: u8, out: &mut Vec<u8>) {
        let s = &self.quadratic;
        if form & PACKED == 0 {
            out.extend_from_slice(&s.to_bytes());
            return;
        }
        for size in [s.width(), s.targets(), s.rank()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(&s.n().to_le_bytes());
        for pivot in s.pivots() {
            out.extend_from_slice(&(pivot as u32).to_le_bytes());
        }
        let sparse = form & SPARSE > 0;
        if sparse {
            let mut bits = Vec::new();
            let mut at = 0;
            self.sent(form, |_, v| {
                if at % 8 == 0 {
                    bits.push(0_u8);
                }
                bits[at / 8] |= u8::from(!is_zero(v)) << (at % 8);
                at += 1;
            });
            out.extend_from_slice(&bits);
        }
        self.sent(form, |i, v| {
            if sparse && is_zero(v) {
                return;
            }
            if number(form, i) == 4 {
                out.extend_from_slice(&(v as f32).to_le_bytes());
            } else {
                out.extend_from_slice(&v.to_le_bytes());
            }
        });
        for v in s.residual().iter().chain(s.target_sums()) {
            out.extend_from_slice(&v.to_le_bytes());
        }
    }

    /// Reads what [`TaskSummary::to_bytes`] wrote. `most` bounds the bytes, and the numbers they unpack to.
    ///
    /// # Errors
    /// On any byte string that is not exactly a valid task summary: truncated, altered, too large, of a newer version, or with
    /// invalid numbers. Every length is checked before anything of that size is allocated.
    pub fn from_bytes(bytes: &[u8], most: usize) -> Result<Self, BytesError> {
        if bytes.len() > most {
            return Err(BytesError::TooLarge { bytes: bytes.len(), most });
        }
        if bytes.len() < 12 || &bytes[..4] != MAGIC {
            return Err(invalid("it does not begin with PMFT"));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if !(VERSION..=WITH_TAILS).contains(&version) {
            return Err(invalid(format!(
                "version {version}; this program reads versions {VERSION} to {WITH_TAILS}"
            )));
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return Err(invalid("the checksum does not match: bytes were changed or cut off"));
        }
        let mut rest = Reader(&body[6..]);
        let (flags, form) = (rest.byte()?, rest.byte()?);
        let has = |flag: u8| flags & flag > 0;
        let (samples, rows) = (rest.double()?, rest.word()?);
        let (least, gap) = (rest.double()?, rest.double()?);
        let [counts, table, moments, classes, inputs] =
            [rest.size()?, rest.size()?, rest.size()?, rest.size()?, rest.size()?];
        let (counts, table) = (rest.doubles(counts)?, rest.doubles(table)?);
        let moments = match rest.doubles(moments)? {
            none if none.is_empty() => None,
            numbers => Some(
                Moments::from_numbers(&numbers)
                    .ok_or_else(|| invalid("the moments of the features are invalid"))?,
            ),
        };
        let content = if has(CONTENT) {
            Some(rest.take(32)?.try_into().expect("thirty-two bytes"))
        } else {
            None
        };
        let (classes, new_inputs) = (rest.names(classes)?, rest.names(inputs)?);
        let calibration = if table.is_empty() {
            None
        } else {
            let wrong = || invalid("its log-losses at temperatures are invalid");
            Some(CalibrationTable::from_numbers(&table).ok_or_else(wrong)?)
        };
        let finite = [samples, least, gap].iter().chain(&counts).all(|v| v.is_finite());
        if !finite || samples <= 0.0 || gap < 0.0 {
            return Err(invalid("it holds numbers that are not finite, or no samples"));
        }
        let head = TaskHead {
            samples,
            rows: has(ROWS).then_some(rows),
            counts,
            least: match (has(LEAST), has(CERTIFIED)) {
                (false, _) => LeastLoss::Unknown,
                (true, false) => LeastLoss::Exact(least),
                (true, true) => LeastLoss::Certified(least),
            },
            exactness: if has(BOUND) {
                Exactness::Bound { guaranteed: has(GUARANTEED) }
            } else {
                Exactness::Exact
            },
            outcome: match (has(SEPARABLE), has(STOPPED)) {
                (true, _) => FitOutcome::Separable,
                (_, true) => FitOutcome::Stopped { gap },
                _ => FitOutcome::Converged,
            },
            calibration,
            content,
        };
        let mut scatters = Vec::new();
        if version != VERSION {
            for _ in 0..rest.size()? {
                let length = rest.size()?;
                scatters.push(Summary::from_bytes(rest.take(length)?)?);
            }
            if version == WITH_SCATTERS && scatters.is_empty() {
                return Err(invalid("it has no scatters, and says that it has"));
            }
        }
        let tails = if version == WITH_TAILS {
            let count = rest.size()?;
            let wrong = || invalid("the tails of its targets are invalid");
            Some(Tails::from_numbers(&rest.doubles(count)?).ok_or_else(wrong)?)
        } else {
            None
        };
        let quadratic = read_quadratic(&mut rest, form, most)?;
        let task = Self { head, quadratic, moments, scatters, tails, classes, new_inputs };
        let (m, p) = (task.quadratic.width(), task.quadratic.targets());
        let sound = task.moments.as_ref().is_none_or(|own| own.columns() <= m)
            && task.new_inputs.len() < m.max(1)
            && (task.classes.is_empty() || task.classes.len() == task.head.counts.len())
            && (task.head.counts.is_empty() || task.head.counts.len() == p || p == 1)
            && task.tails.as_ref().is_none_or(|tails| tails.targets() == p)
            && task.scatters.len() <= p
            && task.scatters.iter().all(|s| (s.width(), s.targets()) == (m, 1));
        if !sound {
            return Err(invalid("its parts are of different shapes"));
        }
        // One task summary, one string of bytes.
        let encoding = match (form & PACKED > 0, form & SINGLE > 0) {
            (false, _) => Encoding::Plain,
            (true, false) => Encoding::Packed,
            (true, true) => Encoding::PackedSingle,
        };
        if encoding != Encoding::Plain
            && (task.form(encoding) != form || task.to_bytes(encoding) != bytes)
        {
            return Err(invalid("it is not written as it should be"));
        }
        Ok(task)
    }
}

fn read_quadratic(rest: &mut Reader<'_>, form: u8, most: usize) -> Result<Summary, BytesError> {
    if form & PACKED == 0 {
        if form != 0 {
            return Err(invalid(format!("there is no form {form}")));
        }
        let summary = Summary::from_bytes(rest.0)?;
        rest.0 = &[];
        return Ok(summary);
    }
    if form > 15 {
        return Err(invalid(format!("there is no form {form}")));
    }
    let (m, p, r) = (rest.size()?, rest.size()?, rest.size()?);
    let n = rest.double()?;
    if r > m || p == 0 {
        return Err(invalid("its sizes are invalid"));
    }
    let pivots: Vec<u32> = rest
        .take(r.saturating_mul(4))?
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
        .collect();
    if pivots.iter().any(|&j| j as usize >= m) {
        return Err(invalid("its pivot columns do not ascend"));
    }
    // What the rows unpack to; a diagonal form is small in the message and square here.
    let unpacked = pivots.iter().try_fold(0_usize, |sum, &j| {
        sum.checked_add(m - j as usize)?.checked_add(p).filter(|all| *all <= most / 8)
    });
    let Some(unpacked) = unpacked else {
        return Err(BytesError::TooLarge { bytes: usize::MAX, most });
    };
    let diagonal = form & DIAGONAL > 0;
    let mut there = if form & SPARSE > 0 {
        let cells = if diagonal { r * (1 + p) } else { unpacked };
        Some(Bits::new(rest.take(cells.div_ceil(8))?, cells)?)
    } else {
        None
    };
    let mut packed = Vec::with_capacity(unpacked.min(rest.0.len().saturating_mul(m.min(64))));
    for (i, &j) in pivots.iter().enumerate() {
        let length = m - j as usize;
        let sent = if diagonal { 1 } else { length };
        for (count, zeros) in [(sent, length - sent), (p, 0)] {
            for _ in 0..count {
                let written = there.as_mut().is_none_or(Bits::next);
                let value = if written { rest.number(number(form, i))? } else { 0.0 };
                if written && there.is_some() && is_zero(value) {
                    return Err(invalid("a zero that is left out is there"));
                }
                packed.push(value);
            }
            packed.resize(packed.len() + zeros, 0.0);
        }
    }
    let (c, totals) = (rest.doubles(p)?, rest.doubles(p)?);
    if !rest.0.is_empty() {
        return Err(invalid("its length is not the one its header says"));
    }
    Ok(Summary::from_numbers((n, m, p), pivots, packed, c, totals)?)
}

/// Whether a number can be left out and come back bit for bit: a zero, but not a negative one.
fn is_zero(v: f64) -> bool {
    v.to_bits() == 0
}

/// Bytes of a number of row `i`.
fn number(form: u8, i: usize) -> usize {
    if i > 0 && form & SINGLE > 0 { 4 } else { 8 }
}

/// Which numbers are there.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8], count: usize) -> Result<Self, BytesError> {
        let spare = 8 * bytes.len() - count;
        if bytes.last().is_some_and(|last| last.leading_zeros() < spare as u32) {
            return Err(invalid("bits are set beyond its numbers"));
        }
        Ok(Self { bytes, at: 0 })
    }

    fn next(&mut self) -> bool {
        let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }
}

/// What is still to be read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], BytesError> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return Err(invalid("it is shorter than its header says"));
        };
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BytesError> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn size(&mut self) -> Result<usize, BytesError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")) as usize)
    }

    pub(crate) fn word(&mut self) -> Result<u64, BytesError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(crate) fn double(&mut self) -> Result<f64, BytesError> {
        Ok(f64::from_bits(self.word()?))
    }

    pub(crate) fn doubles(&mut self, count: usize) -> Result<Vec<f64>, BytesError> {
        let bytes = self.take(count.saturating_mul(8))?.chunks_exact(8);
        Ok(bytes.map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect())
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Result<f64, BytesError> {
        if bytes == 4 {
            let four = self.take(4)?.try_into().expect("four bytes");
            return Ok(f64::from(f32::from_le_bytes(four)));
        }
        self.double()
    }

    fn names(&mut self, count: usize) -> Result<Vec<String>, BytesError> {
        let mut names = Vec::new();
        for _ in 0..count {
            let length = self.size()?;
            let name = std::str::from_utf8(self.take(length)?)
                .map_err(|_| invalid("a name is not UTF-8"))?;
            names.push(name.to_owned());
        }
        Ok(names)
    }
}
