//! A summary as bytes and back: little-endian, versioned, with a checksum.
//!
//! ```text
//! "PMFS" | version u16 | reserved u16 = 0 | m u32 | p u32 | r u32 | n f64
//!        | pivots r × u32 | rows of R and Z, packed, f64 | c p × f64 | Σy p × f64 | CRC-32 u32
//! ```
//!
//! Equal summaries give equal bytes. Reading checks every length before it allocates, and every
//! invariant before it returns.

use super::{Echelon, Form, Summary};
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"PMFS";
const VERSION: u16 = 1;
/// Wider than any summary that fits a memory (a full one would be 70 TB): a width is not backed up by
/// bytes where there are no rows, so it is bounded before anything is made of that size.
const MOST_COLUMNS: usize = 1 << 22;
const HEADER: usize = 4 + 2 + 2 + 4 + 4 + 4 + 8;

impl Summary {
    /// The summary as bytes; [`Summary::from_bytes`] gives it back bit for bit.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + 4 + self.padded_nbytes());
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        for size in [self.m, self.p, self.rank()] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.n.to_le_bytes());
        for pivot in &self.echelon().pivots {
            out.extend_from_slice(&pivot.to_le_bytes());
        }
        for v in (0..self.rank()).flat_map(|i| self.padded_row(i)) {
            out.extend_from_slice(&v.to_le_bytes());
        }
        for v in self.residual().iter().chain(&self.target_sum) {
            out.extend_from_slice(&v.to_le_bytes());
        }
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`Summary::to_bytes`] wrote.
    ///
    /// # Errors
    /// On any byte string that is not exactly a valid summary: truncated, altered, of a newer
    /// version, with numbers that are not finite or rows that are not in echelon form.
    pub fn from_bytes(bytes: &[u8]) -> Result<Summary> {
        let refuse = |reason: &str| Err(Error::Bytes { reason: reason.to_owned() });
        if bytes.len() < HEADER + 4 {
            return refuse("too short for a header");
        }
        if &bytes[..4] != MAGIC {
            return refuse("it does not begin with PMFS");
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return refuse(&format!("version {version}; this program reads version {VERSION}"));
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return refuse("the checksum does not match: bytes were changed or cut off");
        }
        let size = |at: usize| {
            u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let (m, p, r) = (size(8), size(12), size(16));
        let n = f64::from_le_bytes(body[20..28].try_into().expect("eight bytes"));
        if body[6..8] != [0, 0] || m == 0 || m > MOST_COLUMNS || p == 0 || r > m {
            return refuse("its sizes are impossible");
        }
        let rest = &body[HEADER..];
        let Some((head, numbers)) = r.checked_mul(4).and_then(|at| rest.split_at_checked(at))
        else {
            return refuse("it is shorter than its header says");
        };
        let pivots: Vec<u32> = head
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")))
            .collect();
        if pivots.windows(2).any(|w| w[0] >= w[1])
            || pivots.last().is_some_and(|&j| j as usize >= m)
        {
            return refuse("its pivot columns do not ascend");
        }
        let Some(length) = packed_length(m, p, &pivots).filter(|l| *l <= numbers.len() / 8) else {
            return refuse("it is shorter than its header says");
        };
        if length.checked_add(2 * p).and_then(|l| l.checked_mul(8)) != Some(numbers.len()) {
            return refuse("its length is not the one its header says");
        }
        let mut numbers =
            numbers.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes")));
        let packed: Vec<f64> = numbers.by_ref().take(length).collect();
        let c: Vec<f64> = numbers.by_ref().take(p).collect();
        let target_sum: Vec<f64> = numbers.collect();
        Self::from_numbers((n, m, p), pivots, packed, c, target_sum)
    }

    /// A summary from its numbers, if they are one: `packed` holds row after row from its pivot on, or, where each has a
    /// single entry, that entry and `Z`.
    pub(crate) fn from_numbers(
        (n, m, p): (f64, usize, usize),
        pivots: Vec<u32>,
        packed: Vec<f64>,
        c: Vec<f64>,
        target_sum: Vec<f64>,
    ) -> Result<Summary> {
        let refuse = |reason: &str| Err(Error::Bytes { reason: reason.to_owned() });
        if m == 0 || m > MOST_COLUMNS || p == 0 || (c.len(), target_sum.len()) != (p, p) {
            return refuse("its sizes are impossible");
        }
        if pivots.windows(2).any(|w| w[0] >= w[1])
            || pivots.last().is_some_and(|&j| j as usize >= m)
        {
            return refuse("its pivot columns do not ascend");
        }
        let single = pivots.len().checked_mul(1 + p) == Some(packed.len());
        if !single && packed_length(m, p, &pivots) != Some(packed.len()) {
            return refuse("its length is not the one its header says");
        }
        let mut end = 0;
        let starts = pivots.iter().map(|&j| {
            let start = end;
            end += if single { 1 } else { m - j as usize } + p;
            start
        });
        let starts = starts.collect();
        let form = Form::Triangle(Echelon { pivots, packed, starts, c });
        let summary = Self { n, m, p, target_sum, form };
        if !summary.is_finite() {
            return refuse("it holds numbers that are not finite");
        }
        if summary.n < 0.0 || (summary.n == 0.0 && summary.rank() > 0) {
            return refuse("its sample count is not positive");
        }
        if summary.iter().any(|(_, r, _)| r[0] <= 0.0) {
            return refuse("a pivot is not positive");
        }
        Ok(summary.compacted())
    }
}

/// How many numbers rows with these ascending pivots have.
fn packed_length(m: usize, p: usize, pivots: &[u32]) -> Option<usize> {
    pivots.iter().try_fold(0usize, |sum, &j| sum.checked_add(m - j as usize)?.checked_add(p))
}

/// CRC-32 (IEEE 802.3), the one of zip and PNG: finds every error of up to 32 bits in a row.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    // Table `k` has what a byte does to the checksum with `k` more bytes behind it: eight bytes are looked up at once.
    const TABLES: [[u32; 256]; 8] = {
        let mut tables = [[0; 256]; 8];
        let mut i = 0;
        while i < 256 {
            let mut c = i as u32;
            let mut bit = 0;
            while bit < 8 {
                c = if c & 1 == 1 { 0xEDB8_8320 ^ (c >> 1) } else { c >> 1 };
                bit += 1;
            }
            tables[0][i] = c;
            i += 1;
        }
        let mut k = 1;
        while k < 8 {
            let mut i = 0;
            while i < 256 {
                let before = tables[k - 1][i];
                tables[k][i] = tables[0][(before & 0xFF) as usize] ^ (before >> 8);
                i += 1;
            }
            k += 1;
        }
        tables
    };
    let (eights, rest) = bytes.as_chunks::<8>();
    let mut c = !0_u32;
    for eight in eights {
        let word = u64::from_le_bytes(*eight) ^ u64::from(c);
        c = (0..8).fold(0, |c, k| c ^ TABLES[7 - k][(word >> (8 * k) & 0xFF) as usize]);
    }
    let next = |c: u32, b: &u8| TABLES[0][((c ^ u32::from(*b)) & 0xFF) as usize] ^ (c >> 8);
    !rest.iter().fold(c, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_number_is_the_one_of_zip_and_png() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
    }
}
