//! The pool as bytes.
//!
//! ```text
//! "PMFP" | version u16 | flags u16 | tasks u64 | samples f64 | rows u64 | spread f64 | least f64
//!        | moments u32 | moments × f64
//!        | versions 2 and 3: scatters u32, of each its length u32 and the bytes of a summary
//!        | version 3: tails u32, tails × f64
//!        | quadratic, as the bytes of a summary: a triangle, or sums of products
//! ```
//!
//! Version 3 is written where the tails of the targets are known, version 2 where classes have scatters of their own, version 1
//! elsewhere.

use pmfcl::Summary;
use pmfcl::problem::{Moments, Pool, Tails};

const MAGIC: &[u8; 4] = b"PMFP";
const VERSION: u16 = 1;
const WITH_SCATTERS: u16 = 2;
const WITH_TAILS: u16 = 3;
/// Rows were counted.
const ROWS: u16 = 1;
/// The least loss of every task is known.
const LEAST: u16 = 2;

/// The bytes of a pool.
pub(crate) fn to_bytes(pool: &Pool) -> Vec<u8> {
    let flags =
        if pool.rows.is_some() { ROWS } else { 0 } | if pool.least.is_some() { LEAST } else { 0 };
    let moments = pool.moments.as_ref().map_or_else(Vec::new, Moments::to_numbers);
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    let tails = pool.tails.as_ref().map_or_else(Vec::new, Tails::to_numbers);
    let version = match (tails.is_empty(), pool.scatters.is_empty()) {
        (false, _) => WITH_TAILS,
        (true, false) => WITH_SCATTERS,
        (true, true) => VERSION,
    };
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    for word in [
        pool.tasks,
        pool.samples.to_bits(),
        pool.rows.unwrap_or(0),
        pool.spread.to_bits(),
        pool.least.unwrap_or(0.0).to_bits(),
    ] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&(moments.len() as u32).to_le_bytes());
    out.extend_from_slice(&crate::layout::to_bytes(&moments));
    if version != VERSION {
        out.extend_from_slice(&(pool.scatters.len() as u32).to_le_bytes());
        for bytes in pool.scatters.iter().map(Summary::to_bytes) {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(&bytes);
        }
    }
    if version == WITH_TAILS {
        out.extend_from_slice(&(tails.len() as u32).to_le_bytes());
        out.extend_from_slice(&crate::layout::to_bytes(&tails));
    }
    out.extend_from_slice(&pool.quadratic.to_kept_bytes());
    out
}

/// The pool of bytes.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Pool, String> {
    let mut rest = bytes;
    let (magic, version) = (take(&mut rest)?, u16::from_le_bytes(take(&mut rest)?));
    if magic != *MAGIC || !(VERSION..=WITH_TAILS).contains(&version) {
        return Err("it does not begin with PMFP and version 1, 2 or 3".to_owned());
    }
    let flags = u16::from_le_bytes(take(&mut rest)?);
    let mut word = || take(&mut rest).map(u64::from_le_bytes);
    let (tasks, samples, rows) = (word()?, f64::from_bits(word()?), word()?);
    let (spread, least) = (f64::from_bits(word()?), f64::from_bits(word()?));
    let count = u32::from_le_bytes(take(&mut rest)?) as usize;
    let Some((moments, quadratic)) = rest.split_at_checked(count.saturating_mul(8)) else {
        return Err("its moments are cut off".to_owned());
    };
    let moments = match crate::layout::from_bytes(moments) {
        Some(numbers) if numbers.is_empty() => None,
        numbers => Some(
            numbers
                .and_then(|numbers| Moments::from_numbers(&numbers))
                .ok_or("its moments are invalid")?,
        ),
    };
    let mut quadratic = quadratic;
    let mut scatters = Vec::new();
    if version != VERSION {
        for _ in 0..u32::from_le_bytes(take(&mut quadratic)?) {
            let length = u32::from_le_bytes(take(&mut quadratic)?) as usize;
            let Some((bytes, after)) = quadratic.split_at_checked(length) else {
                return Err("its scatters are cut off".to_owned());
            };
            scatters.push(Summary::from_bytes(bytes).map_err(|e| e.to_string())?);
            quadratic = after;
        }
    }
    let mut tails = None;
    if version == WITH_TAILS {
        let count = u32::from_le_bytes(take(&mut quadratic)?) as usize;
        let Some((numbers, after)) = quadratic.split_at_checked(count.saturating_mul(8)) else {
            return Err("its tails are cut off".to_owned());
        };
        let numbers = crate::layout::from_bytes(numbers);
        tails = Some(
            numbers
                .and_then(|numbers| Tails::from_numbers(&numbers))
                .ok_or("its tails are invalid")?,
        );
        quadratic = after;
    }
    Ok(Pool {
        scatters,
        tails,
        quadratic: Summary::from_kept_bytes(quadratic).map_err(|e| e.to_string())?,
        least: (flags & LEAST > 0).then_some(least),
        tasks,
        samples,
        rows: (flags & ROWS > 0).then_some(rows),
        spread,
        moments,
    })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let Some((taken, after)) = rest.split_first_chunk() else {
        return Err("it is cut off".to_owned());
    };
    *rest = after;
    Ok(*taken)
}
