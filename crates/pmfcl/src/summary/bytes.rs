//! A summary as bytes and back: little-endian, versioned, with a checksum.
//!
//! ```text
//! "PMFS" | version u16 = 1 | reserved u16 = 0 | m u32 | p u32 | r u32 | n f64
//!        | pivots r × u32 | rows of R and Z, packed, f64 | c p × f64 | Σy p × f64 | CRC-32 u32
//! ```
//!
//! A model file keeps sums of products as they are ([`Summary::to_kept_bytes`]), since a triangle of thousands of columns takes longer
//! to make than to write:
//!
//! ```text
//! "PMFS" | version u16 = 2 | flags u16 | m u32 | p u32 | reserved u32 = 0 | n f64 | rows u64
//!        | first row m + p | products of features, row after row from the diagonal on, m(m + 1)/2
//!        | products with targets, feature after feature, m p | squares of targets p | Σy p | CRC-32 u32
//! ```
//!
//! Flags: 1 where rows were counted, 2 where the triangle is made largest pivot first.
//!
//! Equal summaries give equal bytes. Reading checks every length before it allocates, and every
//! invariant before it returns.

use super::sums::Sums;
use super::{Echelon, Form, Summary};
use crate::error::{Error, Result};
use crate::kernel::Gram;

const MAGIC: &[u8; 4] = b"PMFS";
const VERSION: u16 = 1;
/// Sums of products in the place of a triangle.
const SUMS: u16 = 2;
/// Rows were counted.
const COUNTED: u16 = 1;
/// The triangle is made by pivots, the largest first.
const LARGEST_FIRST: u16 = 2;
/// Products may be larger than the norms of their columns allow by this share of the columns' sizes: they were rounded.
const ROUNDED: f64 = 1e-6;
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

    /// The summary as bytes in the form it is kept in, sums of products or a triangle; [`Summary::from_kept_bytes`] gives it back bit
    /// for bit.
    #[doc(hidden)] // for file
    pub fn to_kept_bytes(&self) -> Vec<u8> {
        let Some(sums) = self.sums() else { return self.to_bytes() };
        let (m, p) = (self.m, self.p);
        let count = packed_sums(m, p).expect("it is in memory");
        let mut out = Vec::with_capacity(HEADER + 8 + 8 * count + 4);
        let flags = if sums.rows().is_some() { COUNTED } else { 0 }
            | if sums.is_shrunk() { LARGEST_FIRST } else { 0 };
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&SUMS.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        for size in [m, p, 0] {
            out.extend_from_slice(&(size as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.n.to_le_bytes());
        out.extend_from_slice(&sums.rows().unwrap_or(0).to_le_bytes());
        let mut put = |numbers: &[f64]| {
            if cfg!(target_endian = "little") {
                return out.extend_from_slice(pulp::bytemuck::cast_slice(numbers));
            }
            numbers.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
        };
        put(sums.first());
        let rest = sums.rest();
        let mut row = vec![0.0; m.max(p)];
        for i in 0..m {
            rest.xx_from(i, &mut row[..m - i]);
            put(&row[..m - i]);
        }
        for i in 0..m {
            (0..p).for_each(|k| row[k] = rest.xy(i, k));
            put(&row[..p]);
        }
        (0..p).for_each(|k| row[k] = rest.yy(k));
        put(&row[..p]);
        put(&self.target_sum);
        let check = crc32(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Reads what [`Summary::to_kept_bytes`] wrote.
    ///
    /// # Errors
    /// As [`Summary::from_bytes`], and where sums are not those of any rows.
    #[doc(hidden)] // for file
    pub fn from_kept_bytes(bytes: &[u8]) -> Result<Summary> {
        let refuse = |reason: &str| Err(Error::Bytes { reason: reason.to_owned() });
        let version = bytes.get(4..6).map(|v| u16::from_le_bytes([v[0], v[1]]));
        if bytes.get(..4) != Some(&MAGIC[..]) || version != Some(SUMS) {
            return Self::from_bytes(bytes);
        }
        if bytes.len() < HEADER + 8 + 4 {
            return refuse("too short for a header");
        }
        let (body, check) = bytes.split_at(bytes.len() - 4);
        if crc32(body).to_le_bytes() != check {
            return refuse("the checksum does not match: bytes were changed or cut off");
        }
        let size = |at: usize| {
            u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let word =
            |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
        let flags = u16::from_le_bytes([body[6], body[7]]);
        let (m, p, n) = (size(8), size(12), f64::from_bits(word(20)));
        let known = COUNTED | LARGEST_FIRST;
        if flags & !known != 0 || m == 0 || m > MOST_COLUMNS || p == 0 || size(16) != 0 {
            return refuse("its sizes are impossible");
        }
        let numbers = &body[HEADER + 8..];
        let count = packed_sums(m, p).and_then(|count| count.checked_mul(8));
        if count != Some(numbers.len()) {
            return refuse("its length is not the one its header says");
        }
        let mut numbers =
            numbers.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes")));
        let mut take = |count: usize| numbers.by_ref().take(count).collect::<Vec<f64>>();
        let (first, xx) = (take(m + p), take(m * (m + 1) / 2));
        let (xy, yy, target_sum) = (take(m * p), take(p), take(p));
        if !(n > 0.0 && n.is_finite()) {
            return refuse("its sample count is not positive");
        }
        let all = first.iter().chain(&xx).chain(&xy).chain(&yy).chain(&target_sum);
        if !all.copied().all(f64::is_finite) {
            return refuse("it holds numbers that are not finite");
        }
        let rest = Gram::from_upper(m, p, &xx, &xy, &yy);
        if first[0] < 0.0 || !is_of_rows(&first, &rest, &xx) {
            return refuse("its sums of products are not those of any rows");
        }
        let rows = (flags & COUNTED > 0).then(|| word(HEADER));
        let sums = Sums::kept(first, rest, rows, flags & LARGEST_FIRST > 0);
        Self::of_sums(n, target_sum, sums)
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

/// How many numbers sums of these sizes have.
fn packed_sums(m: usize, p: usize) -> Option<usize> {
    let products = m.checked_mul(m + 1)? / 2;
    products.checked_add(m.checked_mul(p)?)?.checked_add(m)?.checked_add(p.checked_mul(3)?)
}

/// Whether no product is larger than the norms of its columns and rounding allow, and column 0 is zero; `xx` is the upper half of the
/// products.
fn is_of_rows(first: &[f64], sums: &Gram, xx: &[f64]) -> bool {
    let (m, p) = sums.shape();
    let squares: Vec<f64> =
        (0..m).map(|j| sums.xx(j, j)).chain((0..p).map(|k| sums.yy(k))).collect();
    if squares[0] != 0.0 || squares.iter().any(|s| *s < 0.0) {
        return false;
    }
    let norms: Vec<f64> = squares.iter().map(|s| s.sqrt()).collect();
    // Products of centred columns are rounded as those of the columns themselves.
    let sizes: Vec<f64> = norms.iter().zip(first).map(|(s, f)| libm::hypot(*s, *f)).collect();
    let within = |product: f64, i: usize, j: usize| {
        product.abs() <= norms[i] * norms[j] + ROUNDED * sizes[i] * sizes[j]
    };
    let mut rest = xx;
    for i in 0..m {
        let (row, below) = rest.split_at(m - i);
        if !row.iter().enumerate().all(|(at, v)| within(*v, i, i + at)) {
            return false;
        }
        rest = below;
    }
    (0..m).all(|j| (0..p).all(|k| within(sums.xy(j, k), j, m + k)))
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
    fn the_checksum_is_the_one_of_zip_and_png() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"The quick brown fox jumps over the lazy dog"), 0x414F_A339);
    }
}
