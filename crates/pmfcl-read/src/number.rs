//! Numbers, truth values and gaps in text cells.

/// What a cell turned out to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    /// A finite value.
    Value(f64),
    /// Nothing, one of the words for nothing, or a value that is not finite.
    Missing,
    /// Something else.
    Other,
}

/// The number at the start of `text` and its length, if it is finite.
#[inline]
pub(crate) fn prefix(text: &[u8]) -> Option<(f64, usize)> {
    match fast_float2::parse_partial::<f64, _>(text) {
        Ok((value, length)) if value.is_finite() => Some((value, length)),
        _ => None,
    }
}

/// A whole cell as a number.
pub(crate) fn number(cell: &[u8]) -> Reading {
    let cell = cell.trim_ascii();
    match fast_float2::parse::<f64, _>(cell) {
        Ok(value) if value.is_finite() => Reading::Value(value),
        Ok(_) => Reading::Missing,
        Err(_) if missing(cell) => Reading::Missing,
        Err(_) => Reading::Other,
    }
}

/// A whole cell as a truth value: 1 or 0.
pub(crate) fn boolean(cell: &[u8]) -> Reading {
    let cell = cell.trim_ascii();
    if cell.eq_ignore_ascii_case(b"true") {
        Reading::Value(1.0)
    } else if cell.eq_ignore_ascii_case(b"false") {
        Reading::Value(0.0)
    } else if missing(cell) {
        Reading::Missing
    } else {
        Reading::Other
    }
}

/// Whether a trimmed cell says that there is no value.
pub(crate) fn missing(cell: &[u8]) -> bool {
    const WORDS: [&[u8]; 7] = [b"", b"na", b"n/a", b"#n/a", b"nan", b"null", b"none"];
    cell.len() <= 4 && WORDS.iter().any(|word| cell.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_gaps_or_neither() {
        for (cell, value) in [("1", 1.0), (" -2.5e3 ", -2500.0), ("+.5", 0.5), ("7.", 7.0)] {
            assert_eq!(number(cell.as_bytes()), Reading::Value(value), "{cell}");
        }
        for cell in ["", " ", "NA", "NaN", "null", "None", "inf", "-Infinity", "1e999", "nan"] {
            assert_eq!(number(cell.as_bytes()), Reading::Missing, "{cell}");
        }
        for cell in ["x", "1x", "0x10", "1,5", "1 2", "--1", "e5", ".", "true", "1_000"] {
            assert_eq!(number(cell.as_bytes()), Reading::Other, "{cell}");
        }
        assert_eq!(boolean(b"TRUE"), Reading::Value(1.0));
        assert_eq!(boolean(b" False"), Reading::Value(0.0));
        assert_eq!(boolean(b"1"), Reading::Other);
    }
}
