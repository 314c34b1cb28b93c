//! Whether a design fits into memory.

use crate::error::{Error, Result};

/// Most arrays of `m × (m + p)` numbers that are alive at once, while two triangles are joined: the rows of both side by side, which
/// are two, and half an array for each of the summaries; then the triangle of both, twice, and the summaries.
const ARRAYS: u128 = 3;

/// A design that needs fewer bytes is not looked at.
const PLENTY: u128 = 1 << 28;

/// Refuses a design whose triangles do not fit into memory, before any row is read. The allocator is asked for all of it at once;
/// systems that promise memory before it is used still refuse more than they have.
pub(super) fn check_memory(m: usize, p: usize) -> Result<()> {
    let bytes = |m: usize| ARRAYS * 8 * m as u128 * (m as u128 + p as u128);
    let fits = |m: usize| {
        let bytes = usize::try_from(bytes(m)).unwrap_or(usize::MAX);
        let mut room = Vec::<u8>::new();
        let granted = room.try_reserve_exact(bytes).is_ok();
        // A compiler that sees nobody use the memory would not ask for it.
        std::hint::black_box(&room);
        granted
    };
    if bytes(m) < PLENTY || fits(m) {
        return Ok(());
    }
    // The largest width that would do, to two digits.
    let (mut least, mut most) = (0, m);
    while most - least > least / 64 + 1 {
        let middle = least.midpoint(most);
        if fits(middle) { least = middle } else { most = middle }
    }
    Err(Error::Unsupported {
        operation: "so wide a design",
        reason: format!(
            "{m} columns need {:.1} GB of memory, which this machine does not have; up to about {least} columns would fit",
            bytes(m) as f64 / 1e9
        ),
    })
}
