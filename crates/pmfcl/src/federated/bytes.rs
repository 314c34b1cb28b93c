//! An update as bytes and back: little-endian, versioned, with a check number.
//!
//! ```text
//! "PMFU" | version u16 | form u8 (+ 2: zeros left out) | bytes a number u8 | model u64 | step u64 | name u32 | classes u32 | moments u32
//!        | m u32 | p u32 | r u32 | n f64 | name, UTF-8
//!        | log-loss only: least f64, separable u64 (0 or 1), classes × f64, moments × f64
//!        | pivots r × u32 | zeros left out: a bit for each number of the rows, 1 where it is there | rows | c p × f64 | Σy p × f64 | CRC-32 u32
//! ```
//!
//! A row is `R` from its pivot on and `Z`; of form `diagonal` the pivot's entry and `Z`. Row 0 is always in double precision.
//!
//! Zeros are left out where that is shorter, as it is with categories, most pairs of which never meet. Nothing else is compressed:
//! the digits of sums are noise, of which no packer makes less, and low rank is short already.

use super::refused::Refused;
use super::update::{Bound, LONGEST_NAME, Numbers, Update, UpdateForm, is_name};
use crate::summary::{Summary, crc32};

const MAGIC: &[u8; 4] = b"PMFU";
const VERSION: u16 = 1;
/// Beside the form: zeros are left out.
const SPARSE: u8 = 2;
const HEADER: usize = 4 + 2 + 1 + 1 + 8 + 8 + 4 * 6 + 8;

impl Update {
    /// The update as bytes; [`Update::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let s = &self.summary;
        let mut out = Vec::with_capacity(self.nbytes());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let (cells, sparse) = (self.cells().0, self.is_sparse());
        out.push(u8::from(self.form == UpdateForm::Diagonal) + if sparse { SPARSE } else { 0 });
        out.push(width(self.numbers) as u8);
        out.extend_from_slice(&self.model.to_le_bytes());
        out.extend_from_slice(&self.step.to_le_bytes());
        let (classes, moments) =
            self.bound.as_ref().map_or((0, 0), |b| (b.counts.len(), b.moments.len()));
        for size in [self.client.len(), classes, moments, s.width(), s.targets(), s.rank()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(&s.n().to_le_bytes());
        out.extend_from_slice(self.client.as_bytes());
        let put = |out: &mut Vec<u8>, v: f64, single: bool| {
            if single {
                out.extend_from_slice(&(v as f32).to_le_bytes());
            } else {
                out.extend_from_slice(&v.to_le_bytes());
            }
        };
        if let Some(bound) = &self.bound {
            put(&mut out, bound.least, false);
            out.extend_from_slice(&u64::from(bound.separable).to_le_bytes());
            bound.counts.iter().chain(&bound.moments).for_each(|v| put(&mut out, *v, false));
        }
        for pivot in s.pivots() {
            out.extend_from_slice(&(pivot as u32).to_le_bytes());
        }
        if sparse {
            let mut bits = vec![0_u8; cells.div_ceil(8)];
            for (at, (_, v)) in self.sent().enumerate() {
                bits[at / 8] |= u8::from(!is_zero(v)) << (at % 8);
            }
            out.extend_from_slice(&bits);
        }
        for (i, v) in self.sent().filter(|(_, v)| !sparse || !is_zero(*v)) {
            put(&mut out, v, number(self.numbers, i) == 4);
        }
        s.residual().iter().chain(s.target_sums()).for_each(|v| put(&mut out, *v, false));
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// The numbers of the rows that are sent, each with its row.
    fn sent(&self) -> impl Iterator<Item = (usize, f64)> {
        self.summary.iter().enumerate().flat_map(|(i, (_, r, z))| {
            let sent = if self.form == UpdateForm::Diagonal { 1 } else { r.len() };
            r[..sent].iter().chain(z).map(move |v| (i, *v))
        })
    }

    /// How many numbers the rows have, and bytes of the zeros among them.
    fn cells(&self) -> (usize, usize) {
        self.sent().fold((0, 0), |(cells, zeros), (i, v)| {
            (cells + 1, zeros + if is_zero(v) { number(self.numbers, i) } else { 0 })
        })
    }

    /// Whether it is shorter without its zeros.
    fn is_sparse(&self) -> bool {
        let (cells, zeros) = self.cells();
        zeros > cells.div_ceil(8)
    }

    /// Bytes of [`Update::to_bytes`], without making them.
    pub fn nbytes(&self) -> usize {
        let s = &self.summary;
        let bound = self.bound.as_ref().map_or(0, |b| 16 + 8 * (b.counts.len() + b.moments.len()));
        let (cells, zeros) = self.cells();
        let all: usize = self.sent().map(|(i, _)| number(self.numbers, i)).sum();
        let rows = all.min(all - zeros + cells.div_ceil(8));
        HEADER + self.client.len() + bound + 4 * s.rank() + rows + 16 * s.targets() + 4
    }

    /// Most bytes an update can take under an agreement: that of rows of full rank.
    pub(super) fn most_bytes(
        (m, p): (usize, usize),
        bound: usize,
        form: UpdateForm,
        numbers: Numbers,
    ) -> usize {
        let cells = match form {
            UpdateForm::Exact => m * (m + 1) / 2,
            UpdateForm::Diagonal => m,
        };
        // The first row is always in double precision.
        let rows = width(numbers) * (cells + m * p) + (8 - width(numbers)) * (m + p);
        HEADER + LONGEST_NAME + bound + 4 * m + rows + 16 * p + 4
    }

    /// Reads what [`Update::to_bytes`] wrote. `most` bounds the bytes, and the numbers they unpack to.
    ///
    /// # Errors
    /// On any byte string that is not exactly a valid update: truncated, altered, too large, of a newer version, or with
    /// numbers that are no summary. Every length is checked before anything is made of that size.
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
        if version != VERSION {
            return Err(Refused::bytes(format!(
                "version {version}; this program reads version {VERSION}"
            )));
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return Err(Refused::bytes(
                "the check number does not match: bytes were changed or cut off",
            ));
        }
        let mut rest = Rest(&body[6..]);
        let (form, sparse) = match rest.byte()? {
            0 => (UpdateForm::Exact, false),
            1 => (UpdateForm::Diagonal, false),
            2 => (UpdateForm::Exact, true),
            3 => (UpdateForm::Diagonal, true),
            other => return Err(Refused::bytes(format!("there is no form {other}"))),
        };
        let numbers = match rest.byte()? {
            8 => Numbers::Double,
            4 => Numbers::Single,
            other => return Err(Refused::bytes(format!("there are no numbers of {other} bytes"))),
        };
        let (model, step) = (rest.word()?, rest.word()?);
        let [name, classes, moments, m, p, r] =
            [rest.size()?, rest.size()?, rest.size()?, rest.size()?, rest.size()?, rest.size()?];
        let n = rest.double()?;
        let client = std::str::from_utf8(rest.take(name)?)
            .ok()
            .filter(|name| is_name(name))
            .ok_or_else(|| Refused::bytes("the name of the client makes no sense"))?;
        let bound = match (classes, moments) {
            (0, 0) => None,
            _ => {
                let least = rest.double()?;
                let separable = match rest.word()? {
                    0 => false,
                    1 => true,
                    _ => return Err(Refused::bytes("separable is neither 0 nor 1")),
                };
                let (counts, moments) = (rest.doubles(classes)?, rest.doubles(moments)?);
                if !counts.iter().chain(&moments).chain([&least]).all(|v| v.is_finite()) {
                    return Err(Refused::bytes("it holds numbers that are not finite"));
                }
                Some(Bound { least, separable, counts, moments })
            }
        };
        if r > m || p == 0 {
            return Err(Refused::bytes("its sizes make no sense"));
        }
        let pivots: Vec<u32> = rest
            .take(r.saturating_mul(4))?
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
            .collect();
        if pivots.iter().any(|&j| j as usize >= m) {
            return Err(Refused::bytes("its pivot columns do not ascend"));
        }
        // What the rows unpack to; a diagonal form is small on the way and square here.
        let unpacked = pivots.iter().try_fold(0_usize, |sum, &j| {
            sum.checked_add(m - j as usize)?.checked_add(p).filter(|all| *all <= most / 8)
        });
        let Some(unpacked) = unpacked else {
            return Err(Refused::TooLarge { bytes: usize::MAX, most });
        };
        let mut there = if sparse {
            let cells = if form == UpdateForm::Diagonal { r * (1 + p) } else { unpacked };
            Some(Bits::new(rest.take(cells.div_ceil(8))?, cells)?)
        } else {
            None
        };
        let mut packed = Vec::with_capacity(unpacked.min(rest.0.len().saturating_mul(m.min(64))));
        for (i, &j) in pivots.iter().enumerate() {
            let length = m - j as usize;
            let sent = if form == UpdateForm::Diagonal { 1 } else { length };
            for (count, zeros) in [(sent, length - sent), (p, 0)] {
                match &mut there {
                    None => packed.extend(rest.numbers(number(numbers, i), count)?),
                    Some(bits) => {
                        for _ in 0..count {
                            let there = usize::from(bits.next());
                            let value = rest.numbers(number(numbers, i), there)?.pop();
                            if value.is_some_and(is_zero) {
                                return Err(Refused::bytes("a zero that is left out is there"));
                            }
                            packed.push(value.unwrap_or(0.0));
                        }
                    }
                }
                packed.resize(packed.len() + zeros, 0.0);
            }
        }
        let (c, totals) = (rest.doubles(p)?, rest.doubles(p)?);
        if !rest.0.is_empty() {
            return Err(Refused::bytes("its length is not the one its header says"));
        }
        let summary = Summary::from_numbers((n, m, p), pivots, packed, c, totals)?;
        if summary.n() <= 0.0 {
            return Err(Refused::bytes("its sample count is not positive"));
        }
        let client = client.to_owned();
        let update = Self { client, step, model, form, numbers, summary, bound };
        // One update, one string of bytes.
        if update.is_sparse() != sparse {
            return Err(Refused::bytes("its zeros are not packed as they should be"));
        }
        Ok(update)
    }
}

/// Whether a number can be left out and come back bit for bit: a zero, but not a negative one.
fn is_zero(v: f64) -> bool {
    v.to_bits() == 0
}

/// Which numbers are there.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8], count: usize) -> Result<Self, Refused> {
        let spare = 8 * bytes.len() - count;
        if bytes.last().is_some_and(|last| last.leading_zeros() < spare as u32) {
            return Err(Refused::bytes("bits are set beyond its numbers"));
        }
        Ok(Self { bytes, at: 0 })
    }

    fn next(&mut self) -> bool {
        let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
        self.at += 1;
        bit == 1
    }
}

/// Bytes of a number.
fn width(numbers: Numbers) -> usize {
    match numbers {
        Numbers::Double => 8,
        Numbers::Single => 4,
    }
}

/// Bytes of a number of row `i`.
fn number(numbers: Numbers, i: usize) -> usize {
    if i == 0 { 8 } else { width(numbers) }
}

/// What is still to be read.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Refused> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return Err(Refused::bytes("it is shorter than its header says"));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Refused> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn size(&mut self) -> Result<usize, Refused> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")) as usize)
    }

    pub(super) fn word(&mut self) -> Result<u64, Refused> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(super) fn double(&mut self) -> Result<f64, Refused> {
        Ok(f64::from_bits(self.word()?))
    }

    pub(super) fn doubles(&mut self, count: usize) -> Result<Vec<f64>, Refused> {
        let bytes = self.take(count.saturating_mul(8))?.chunks_exact(8);
        Ok(bytes.map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect())
    }

    /// Numbers of so many bytes.
    fn numbers(&mut self, bytes: usize, count: usize) -> Result<Vec<f64>, Refused> {
        if bytes == 4 { self.singles(count) } else { self.doubles(count) }
    }

    fn singles(&mut self, count: usize) -> Result<Vec<f64>, Refused> {
        let bytes = self.take(count.saturating_mul(4))?.chunks_exact(4);
        Ok(bytes
            .map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("four bytes"))))
            .collect())
    }
}
