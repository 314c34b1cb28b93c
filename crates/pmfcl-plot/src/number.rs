//! Numbers as people read them: `0.05`, `20k`, `3×10⁻⁶`, `10⁻⁹`.

/// Labels of evenly spaced ticks: all with the same unit and the same number of decimals.
///
/// Large numbers take an SI letter (`k`, `M`, `G`, `T`), very small or very large ones a power of
/// ten. Two different ticks never get the same label.
pub(crate) fn labels(ticks: &[f64]) -> Vec<String> {
    let most = ticks.iter().fold(0.0_f64, |most, tick| most.max(tick.abs()));
    let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    if ticks.len() < 2 || step <= 0.0 || most <= 0.0 {
        return ticks.iter().map(|&tick| short(tick)).collect();
    }
    let exponent = |v: f64| (v.log10() + 1e-9).floor() as i32;
    let digits = exponent(most) - exponent(step); // after the first one
    let (power, unit) = match exponent(most) {
        -3..=3 => (0, String::new()),
        4..=5 if digits <= 5 => (3, "k".to_owned()),
        6..=8 if digits <= 8 => (6, "M".to_owned()),
        9..=11 if digits <= 8 => (9, "G".to_owned()),
        12..=14 if digits <= 8 => (12, "T".to_owned()),
        4..=8 => (0, String::new()),
        e => (e, format!("×10{}", superscript(e))),
    };
    let decimals = (power - exponent(step)).max(0);
    ticks
        .iter()
        .map(|&tick| {
            let scaled = over_power(tick, power);
            if scaled.abs() < 0.5 * 0.1_f64.powi(decimals) {
                "0".to_owned()
            } else {
                format!("{}{unit}", minus(&format!("{scaled:.*}", decimals as usize)))
            }
        })
        .collect()
}

/// A power of ten: `10⁻⁹`.
pub(crate) fn power_of_ten(exponent: i32) -> String {
    format!("10{}", superscript(exponent))
}

/// A number on its own, in three digits: for cells, tooltips and descriptions.
pub(crate) fn short(v: f64) -> String {
    if !v.is_finite() {
        return "–".to_owned();
    }
    let size = v.abs();
    if size < f64::MIN_POSITIVE {
        return "0".to_owned();
    }
    if (1e-3..1e4).contains(&size) {
        let decimals = (2 - (size.log10() + 1e-9).floor() as i32).max(0) as usize;
        return minus(trimmed(&format!("{v:.decimals$}")));
    }
    let text = format!("{v:.2e}");
    let (mantissa, exponent) = text.split_once('e').expect("`e` is in the format");
    let exponent: i32 = exponent.parse().expect("an exponent is a whole number");
    match trimmed(mantissa) {
        "1" => power_of_ten(exponent),
        "-1" => format!("−{}", power_of_ten(exponent)),
        mantissa => format!("{}×{}", minus(mantissa), power_of_ten(exponent)),
    }
}

/// `v / 10^power` without overflow on the way and with the rounding of one division.
fn over_power(v: f64, power: i32) -> f64 {
    match power {
        0..=290 => v / 10_f64.powi(power),
        -290..0 => v * 10_f64.powi(-power),
        _ => v / 10_f64.powi(power / 2) / 10_f64.powi(power - power / 2),
    }
}

/// Without zeros at the end of the decimals.
fn trimmed(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// With the minus sign in place of the hyphen.
fn minus(text: &str) -> String {
    text.replace('-', "−")
}

fn superscript(n: i32) -> String {
    n.to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => char::from_u32('⁰' as u32 + (c as u32 - '0' as u32)).unwrap_or(c),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_an_axis_share_their_decimals_and_unit() {
        assert_eq!(labels(&[0.0, 0.05, 0.1]), ["0", "0.05", "0.10"]);
        assert_eq!(labels(&[-1.0, 0.0, 1.0]), ["−1", "0", "1"]);
        assert_eq!(labels(&[0.0, 500.0, 1000.0]), ["0", "500", "1000"]);
        assert_eq!(labels(&[0.0, 5e3, 1e4]), ["0", "5k", "10k"]);
        assert_eq!(labels(&[0.0, 5e5, 1e6]), ["0", "0.5M", "1.0M"]);
        assert_eq!(labels(&[0.0, 2e-6, 4e-6]), ["0", "2×10⁻⁶", "4×10⁻⁶"]);
    }

    #[test]
    fn a_number_on_its_own_has_three_digits() {
        for (v, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.123_456, "0.123"),
            (-12.345, "−12.3"),
            (1234.0, "1234"),
            (1e-9, "10⁻⁹"),
            (2.5e-7, "2.5×10⁻⁷"),
            (-1e300, "−10³⁰⁰"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(v), text);
        }
    }
}
