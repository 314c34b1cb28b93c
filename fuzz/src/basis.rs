//! A spec that is read is written and read again as the same; the map it leads to gives finite numbers or an
//! error, the same for a row alone and among others.
//!
//! The first byte tells the number of inputs, then comes the spec up to a zero byte, then numbers.

use pmfcl::{Basis, Map};

/// Inputs at most.
const MOST: u8 = 4;

/// Reads, fixes, applies.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let d = usize::from(first % MOST) + 1;
    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    let Ok(spec) = std::str::from_utf8(&rest[..end]) else { return };
    let Ok(basis) = spec.parse::<Basis>() else { return };
    let text = basis.to_string();
    assert_eq!(text.parse::<Basis>().as_ref(), Ok(&basis), "`{text}` is read as something else");
    assert_eq!(text.parse::<Basis>().expect("just read").to_string(), text);
    if is_large(&text) {
        return;
    }
    let numbers: Vec<f64> = rest[end..]
        .get(1..)
        .unwrap_or_default()
        .chunks_exact(8)
        .take(usize::from(MOST) * 4)
        .map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes")))
        .collect();
    let given = &numbers[..numbers.len() / d * d];
    let small: Vec<f64> = (0..3 * d).map(|i| [0.5, -1.0, 2.0, 0.25, 3.0][i % 5]).collect();
    for rows in [given, &small] {
        let Ok(map) = basis.fix(rows, d) else { continue };
        assert_eq!(Map::thaw(&basis, d, &map.frozen()).as_ref(), Ok(&map), "thawed to another map");
        assert_eq!(map.names(&[]).len(), map.width());
        let _ = map.parts();
        apply(&map, &small);
        apply(&map, given);
    }
}

/// Whether a map of it takes long to draw.
fn is_large(text: &str) -> bool {
    let head = text.split(',').next().unwrap_or_default();
    match head.split_once(':') {
        Some(("power", _)) | None => false,
        Some(("poly", degree)) => degree.parse::<usize>().is_ok_and(|degree| degree > 12),
        Some((_, count)) => count.len() > 2,
    }
}

fn apply(map: &Map, rows: &[f64]) {
    let (d, m) = (map.inputs(), map.width());
    let mut together = vec![0.0; rows.len() / d * m];
    if map.apply(rows, &mut together, m, 0).is_err() {
        return;
    }
    assert!(together.iter().all(|v| v.is_finite()), "a column that is not finite");
    for (row, expected) in rows.chunks_exact(d).zip(together.chunks_exact(m)) {
        let mut alone = vec![0.0; m];
        map.apply(row, &mut alone, m, 0).expect("it went among others");
        let same = alone.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "a row alone: {alone:?}, among others: {expected:?}");
    }
}
