//! Masks: a key becomes a stream of numbers modulo 2¹²⁸ that is added to a vector, or taken from it.

use chacha20::cipher::StreamCipher;
use chacha20::{ChaCha20, KeyIvInit};
use zeroize::Zeroizing;

/// Bytes of keystream made at a time: fits in a cache.
const PIECE: usize = 1 << 14;

/// Which way a mask is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Add,
    Take,
}

/// Applies the `ChaCha20` stream of `key` to all numbers. A key masks one vector only, so the nonce is zero; the counter of 32
/// bits lasts for 2³⁴ numbers, above the 2²⁸ the parameters allow.
pub(crate) fn apply(key: &[u8; 32], way: Way, numbers: &mut [u128]) {
    let mut cipher = ChaCha20::new(key.into(), &[0; 12].into());
    let mut stream = Zeroizing::new([0_u8; PIECE]);
    for piece in numbers.chunks_mut(PIECE / 16) {
        let stream = &mut stream[..16 * piece.len()];
        stream.fill(0);
        cipher.apply_keystream(stream);
        for (number, mask) in piece.iter_mut().zip(stream.chunks_exact(16)) {
            let mask = u128::from_le_bytes(mask.try_into().expect("sixteen bytes"));
            *number = match way {
                Way::Add => number.wrapping_add(mask),
                Way::Take => number.wrapping_sub(mask),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_rfc_8439() {
        // Appendix A.1, test vector 1: key, nonce and counter zero.
        let mut numbers = [0; 2];
        apply(&[0; 32], Way::Add, &mut numbers);
        let first = [
            0x76, 0xb8, 0xe0, 0xad, 0xa0, 0xf1, 0x3d, 0x90, 0x40, 0x5d, 0x6a, 0xe5, 0x53, 0x86,
            0xbd, 0x28,
        ];
        assert_eq!(numbers[0].to_le_bytes(), first);
    }

    #[test]
    fn a_mask_taken_is_a_mask_gone_whatever_the_length() {
        for length in [0, 1, 1023, 1024, 1025, 5000] {
            let plain: Vec<u128> = (0..length).map(|i| u128::MAX - i * i).collect();
            let mut masked = plain.clone();
            apply(&[9; 32], Way::Add, &mut masked);
            assert!(masked.iter().zip(&plain).all(|(a, b)| a != b));
            apply(&[9; 32], Way::Take, &mut masked);
            assert_eq!(masked, plain);
        }
    }
}
