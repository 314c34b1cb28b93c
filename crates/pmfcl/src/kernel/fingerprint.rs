//! Sums over the cells of rows that tell rows apart, for [`crate::Content`].
//!
//! The bits of a cell are two halves of 32 bits; each is added to half of the key of its column, and the product of the two is summed
//! over the row (NH: Black, Halevi, Krawczyk, Krovetz and Rogaway, 1999). Rows that differ in any cell have the same sum for about
//! one key in 2³¹ at most (a zero adds nothing, whatever its key: that costs one bit), and both sums with independent keys for one in
//! 2⁶². The product of two numbers of 32 bits is what vector registers have.

use pulp::{Simd, WithSimd};

use super::instructions::dispatch;

/// The two keys of each column.
#[derive(Debug, Clone, Default)]
pub(crate) struct CellKeys([Vec<u64>; 2]);

impl FromIterator<[u64; 2]> for CellKeys {
    fn from_iter<I: IntoIterator<Item = [u64; 2]>>(keys: I) -> Self {
        Self(keys.into_iter().map(|[one, two]| (one, two)).unzip().into())
    }
}

/// The sums of one cell. Zero, of either sign, gives 0.
///
/// Written out: `map` with a closure is a call for every cell where the compiler does not inline it.
#[inline(always)]
pub(crate) fn cell_sums(value: f64, keys: [u64; 2]) -> [u64; 2] {
    const HALF: u64 = 0xffff_ffff;
    let bits = value.to_bits();
    let (low, high) = (bits & HALF, bits >> 32);
    let keep = if bits << 1 == 0 { 0 } else { HALF };
    let one = ((low + (keys[0] & HALF)) & keep) * ((high + (keys[0] >> 32)) & HALF);
    let two = ((low + (keys[1] & HALF)) & keep) * ((high + (keys[1] >> 32)) & HALF);
    [one, two]
}

/// Calls `each` with the number and the sums of every row of `values`, `width` cells each, for which there are keys.
pub(crate) fn row_sums(
    values: &[f64],
    width: usize,
    keys: &CellKeys,
    each: impl FnMut(usize, [u64; 2]),
) {
    struct Work<'a, F>(&'a [f64], usize, &'a CellKeys, F);
    impl<F: FnMut(usize, [u64; 2])> WithSimd for Work<'_, F> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let Self(values, width, CellKeys(keys), mut each) = self;
            for (i, row) in values.chunks_exact(width).enumerate() {
                let mut sums = [0_u64; 2];
                for ((value, one), two) in row.iter().zip(&keys[0]).zip(&keys[1]) {
                    let cell = cell_sums(*value, [*one, *two]);
                    sums = [sums[0].wrapping_add(cell[0]), sums[1].wrapping_add(cell[1])];
                }
                each(i, sums);
            }
        }
    }
    dispatch(Work(values, width, keys, each));
}
