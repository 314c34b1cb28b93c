//! Numbers as people read them.

/// Three digits: `0.0123`, `12.3`, `13 903`, `2.5×10⁻⁷`.
pub(crate) fn short(v: f64) -> String {
    if !v.is_finite() {
        return "–".to_owned();
    }
    let size = v.abs();
    if size < f64::MIN_POSITIVE {
        return "0".to_owned();
    }
    let text = if (999.5..1e7).contains(&size) {
        grouped(v.round())
    } else if (1e-4..1e7).contains(&size) {
        let decimals = (2 - (size.log10() + 1e-9).floor() as i32).max(0) as usize;
        trimmed(&format!("{v:.decimals$}")).to_owned()
    } else {
        let text = format!("{v:.2e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let power: String = exponent.chars().map(superscript).collect();
        format!("{}×10{power}", trimmed(mantissa))
    };
    text.replace('-', "−")
}

/// A whole number with narrow spaces between thousands.
pub(crate) fn grouped(v: f64) -> String {
    let digits = format!("{:.0}", v.abs());
    let mut text = if v < 0.0 { "−".to_owned() } else { String::new() };
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(c);
    }
    text
}

/// `1 task`, `13 903 rows`.
pub(crate) fn count(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n as f64), if n == 1 { one } else { many })
}

/// Bytes with a unit.
pub(crate) fn bytes(n: f64) -> String {
    let units = [("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.into_iter().find(|(_, size)| n >= *size) {
        Some((unit, size)) => format!("{} {unit}", short(n / size)),
        None => format!("{} bytes", short(n)),
    }
}

/// A share of one in per cent.
pub(crate) fn percent(share: f64) -> String {
    if !share.is_finite() {
        return "–".to_owned();
    }
    let v = 100.0 * share;
    match v.abs() {
        size if size < f64::MIN_POSITIVE => "0 %".to_owned(),
        size if size < 0.01 => "below 0.01 %".to_owned(),
        size if size < 1.0 => format!("{} %", trimmed(&format!("{v:.2}")).replace('-', "−")),
        size if size < 10.0 => format!("{} %", trimmed(&format!("{v:.1}")).replace('-', "−")),
        _ => format!("{} %", grouped(v.round())),
    }
}

/// A p-value; very small ones only by their limit.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else if p < 0.1 {
        format!("{p:.3}")
    } else {
        format!("{p:.2}")
    }
}

/// Six digits: what the page carries for its own arithmetic.
pub(crate) fn six_digits(v: f64) -> f64 {
    format!("{v:.5e}").parse().unwrap_or(v)
}

fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn superscript(c: char) -> char {
    match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        c => c.to_digit(10).and_then(|d| char::from_u32('⁰' as u32 + d)).unwrap_or(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (v, text) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (-12.345, "−12.3"),
            (999.7, "1\u{202f}000"),
            (13_903.0, "13\u{202f}903"),
            (2.5e-7, "2.5×10⁻⁷"),
            (-1.0e12, "−1×10¹²"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(v), text);
        }
    }

    #[test]
    fn shares_and_sizes_have_their_units() {
        assert_eq!(percent(0.031), "3.1 %");
        assert_eq!(percent(0.5), "50 %");
        assert_eq!(percent(0.000_001), "below 0.01 %");
        assert_eq!(bytes(512.0), "512 bytes");
        assert_eq!(bytes(63_704.0), "63.7 kB");
        assert_eq!(bytes(4.89e6), "4.89 MB");
        assert_eq!(p_value(1e-9), "< 0.001");
        assert_eq!(p_value(0.0312), "0.031");
    }

    #[test]
    fn six_digits_are_kept() {
        assert!((six_digits(1.234_567_89) - 1.234_57).abs() < 1e-12);
        assert!((six_digits(-9.876_543_21e-30) + 9.876_54e-30).abs() < 1e-42);
    }
}
