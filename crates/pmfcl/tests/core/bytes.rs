//! A reader of bytes is tested with hostile hands.

use crate::support::Table;
use pmfcl::{Error, Summary, Theta};
use pmfcl_oracle::Draw;
use proptest::prelude::*;

fn sample(seed: u64) -> Summary {
    let mut draw = Draw::new(seed);
    let (n, d, p) = (1 + draw.below(12), 1 + draw.below(6), 1 + draw.below(3));
    Table::awkward(n, d, p, &mut draw).summary()
}

/// CRC-32 bit by bit, from its polynomial.
fn crc(bytes: &[u8]) -> u32 {
    let mut c = !0u32;
    for b in bytes {
        c ^= u32::from(*b);
        for _ in 0..8 {
            c = if c & 1 == 1 { (c >> 1) ^ 0xEDB8_8320 } else { c >> 1 };
        }
    }
    !c
}

/// Bytes with a valid checksum around any content.
fn craft(m: u32, p: u32, n: f64, pivots: &[u32], numbers: &[f64]) -> Vec<u8> {
    let mut out = b"PMFS\x01\0\0\0".to_vec();
    for size in [m, p, pivots.len() as u32] {
        out.extend(size.to_le_bytes());
    }
    out.extend(n.to_le_bytes());
    out.extend(pivots.iter().flat_map(|j| j.to_le_bytes()));
    out.extend(numbers.iter().flat_map(|v| v.to_le_bytes()));
    sealed(out)
}

fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    body.extend(crc(&body).to_le_bytes());
    body
}

fn refused(bytes: &[u8], why: &str) {
    match Summary::from_bytes(bytes) {
        Err(Error::Bytes { reason }) => assert!(!reason.is_empty()),
        other => panic!("{why}: {other:?}"),
    }
}

#[test]
fn every_truncated_summary_is_refused() {
    for seed in 0..8 {
        let bytes = sample(seed).to_bytes();
        for cut in 0..bytes.len() {
            refused(&bytes[..cut], "truncated");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        refused(&longer, "one byte too many");
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for seed in 0..8 {
        let mut bytes = sample(seed).to_bytes();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            refused(&bytes, "flipped");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_crafted_summary_that_is_valid_is_read() {
    // 1 pivot at column 1 of 2, one target: R = (0 3), Z = 4, c = 5, Σy = 6.
    let s = Summary::from_bytes(&craft(2, 1, 7.0, &[1], &[3.0, 4.0, 5.0, 6.0])).unwrap();
    assert_eq!((s.width(), s.targets(), s.rank()), (2, 1, 1));
    let at = s.loss(&pmfcl::Theta::from_slice(&[100.0, 2.0])).unwrap();
    assert!((at - ((3.0 * 2.0 - 4.0f64).powi(2) + 5.0) / 14.0).abs() < 1e-15);
}

#[test]
fn what_overflows_is_an_error_and_no_infinity() {
    // Valid numbers whose squares are not: found by fuzzing.
    let huge = craft(2, 1, 2.0, &[0, 1], &[2.0, 1e200, 1e200, 2.0, 1e200, 0.25, 1.0]);
    let huge = Summary::from_bytes(&huge).unwrap();
    for theta in [Theta::zeros(2, 1), Theta::from_slice(&[1.0, 1.0])] {
        assert!(matches!(huge.loss(&theta), Err(Error::Range { what: "the forgetting", .. })));
        assert!(huge.gradient(&theta).map_or(true, |g| g.is_finite()));
    }
    assert!(huge.gradient(&Theta::from_slice(&[1.0, 1e200])).is_err());
    let full = craft(1, 1, 2.0, &[0], &[1e308, 1e308, 1e308, 1e308]);
    let full = Summary::from_bytes(&full).unwrap();
    assert_eq!(full.merge(&full), Err(Error::Overflow { column: 1 }));
    assert!(matches!(full.scale(4.0), Err(Error::Range { what: "scale", .. })));
    let few = Summary::from_bytes(&craft(1, 1, 5e-324, &[0], &[1.0, 1.0, 1.0, 1.0])).unwrap();
    assert!(matches!(few.scale(0.25), Err(Error::Range { what: "scale", .. })));
}

#[test]
fn a_shape_whose_product_overflows_is_no_shape() {
    let side = 1 << (usize::BITS / 2);
    assert!(Theta::from_columns(side, side, Vec::new()).is_err());
}

#[test]
fn crafted_headers_are_refused_without_large_allocations() {
    const MOST: u32 = u32::MAX;
    let ok = [3.0, 4.0, 5.0, 6.0];
    refused(&craft(0, 1, 1.0, &[], &[0.0, 0.0]), "no columns");
    refused(&craft(2, 0, 1.0, &[], &[]), "no targets");
    refused(&craft(2, MOST, 7.0, &[1], &ok), "targets beyond the bytes");
    refused(&craft(MOST, 1, 7.0, &[1], &ok), "columns beyond the bytes");
    refused(&craft(MOST, MOST, 7.0, &[MOST - 1], &ok), "both");
    refused(&craft(2, 1, 7.0, &[2], &ok), "a pivot beyond the columns");
    refused(&craft(2, 1, 7.0, &[1, 0], &[1.0; 8]), "pivots that descend");
    refused(&craft(2, 1, 7.0, &[1, 1], &[1.0; 6]), "a pivot twice");
    refused(&craft(2, 1, 7.0, &[0, 1], &[1.0; 6]), "a number missing");
    refused(&craft(2, 1, -7.0, &[1], &ok), "negative samples");
    refused(&craft(2, 1, 0.0, &[1], &ok), "rows of no samples");
    refused(&craft(2, 1, f64::NAN, &[1], &ok), "samples not a number");
    refused(&craft(2, 1, f64::INFINITY, &[1], &ok), "infinite samples");
    refused(&craft(2, 1, 7.0, &[1], &[-3.0, 4.0, 5.0, 6.0]), "a negative pivot");
    refused(&craft(2, 1, 7.0, &[1], &[0.0, 4.0, 5.0, 6.0]), "a pivot of zero");
    for at in 0..4 {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut numbers = ok;
            numbers[at] = bad;
            refused(&craft(2, 1, 7.0, &[1], &numbers), "not finite");
        }
    }
    // No rows at all, so that no byte need back up the width: a vector of it would be 34 GB.
    refused(&craft(MOST, 1, 7.0, &[], &[5.0, 6.0]), "a width no memory holds");
    // More rows than columns, claimed by the header alone.
    let mut body = craft(2, 1, 7.0, &[1], &ok);
    body.truncate(body.len() - 4);
    body[16..20].copy_from_slice(&MOST.to_le_bytes());
    refused(&sealed(body.clone()), "rank beyond the columns");
    body[8..12].copy_from_slice(&MOST.to_le_bytes());
    refused(&sealed(body), "rank beyond the bytes");
    // Another version, reserved bytes in use, other magic.
    for (at, value) in [(4, 2), (5, 1), (6, 1), (7, 1), (0, b'Q')] {
        let mut body = craft(2, 1, 7.0, &[1], &ok);
        body.truncate(body.len() - 4);
        body[at] = value;
        refused(&sealed(body), "header byte");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn bytes_come_back_bit_for_bit(seed in any::<u64>()) {
        let summary = sample(seed);
        let bytes = summary.to_bytes();
        let back = Summary::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&back, &summary);
        prop_assert_eq!(back.to_bytes(), bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        prop_assert!(Summary::from_bytes(&bytes).is_err());
    }

    /// A right beginning and a right checksum around noise: only the inner checks are left.
    #[test]
    fn sealed_noise_never_panics(
        m in prop_oneof![1u32..5, any::<u32>()], p in prop_oneof![1u32..3, any::<u32>()],
        n in prop_oneof![Just(1.0), any::<f64>()],
        pivots in prop::collection::vec(prop_oneof![0u32..5, any::<u32>()], 0..4),
        numbers in prop::collection::vec(any::<f64>(), 0..12),
    ) {
        if let Ok(s) = Summary::from_bytes(&craft(m, p, n, &pivots, &numbers)) {
            prop_assert!(s.n() >= 0.0 && s.rank() <= s.width());
        }
    }
}
