//! Numbers as they stand in text.

/// Three digits: `0.0123`, `12.3`, `13903`, `2.5e-7`.
pub(super) fn short(v: f64) -> String {
    if v.is_nan() {
        return "–".to_owned();
    }
    if v.is_infinite() {
        return if v > 0.0 { "∞" } else { "−∞" }.to_owned();
    }
    let size = v.abs();
    if size < f64::MIN_POSITIVE {
        return "0".to_owned();
    }
    if (1e-3..1e5).contains(&size) {
        let decimals = (2 - (size.log10() + 1e-9).floor() as i32).max(0) as usize;
        return format!("{v:.decimals$}").replace('-', "−");
    }
    let text = format!("{v:.1e}");
    text.replacen('-', "−", usize::from(v < 0.0))
}

/// Full precision, as a file holds it.
pub(super) fn exact(v: f64) -> String {
    if v.is_infinite() { "inf".to_owned() } else { format!("{v:e}") }
}

/// `3 of 8 settings`
pub(super) fn of(count: usize, all: usize, what: &str) -> String {
    format!("{count} of {all} {what}")
}

/// Milliseconds.
pub(super) fn milliseconds(seconds: f64) -> String {
    format!("{} ms", short(1e3 * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_files_have_all() {
        for (v, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (-12.345, "−12.3"),
            (1300.4, "1300"),
            (4.76e-31, "4.8e-31"),
            (-2.5e-7, "−2.5e-7"),
            (f64::INFINITY, "∞"),
        ] {
            assert_eq!(short(v), text);
        }
        let back: f64 = exact(0.1 + 0.2).parse().unwrap();
        assert_eq!(back.to_bits(), (0.1_f64 + 0.2).to_bits());
        assert!(exact(f64::INFINITY).parse::<f64>().unwrap().is_infinite());
    }
}
