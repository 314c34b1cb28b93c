//! Numbers, booleans and gaps in text cells.

use crate::{DateFormat, Options, date};

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

/// How cells of text are written: the decimal mark, what groups digits, and words for a missing value.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    decimal: char,
    thousands: Option<char>,
    na: Vec<Vec<u8>>,
    /// Whether numbers are written as programs write them, and no word for a missing value is one.
    pub(crate) plain: bool,
}

impl Rules {
    pub(crate) fn of(options: &Options) -> Self {
        let na: Vec<Vec<u8>> = options.na.iter().map(|word| word.trim().into()).collect();
        let words = na.iter().all(|word| number(word) == Reading::Other || missing(word));
        let plain = options.decimal == b'.' && options.thousands.is_none() && words;
        Self { decimal: options.decimal.into(), thousands: options.thousands, na, plain }
    }

    /// Whether a cell is one of the words that were said to stand for a missing value.
    pub(crate) fn is_missing(&self, cell: &[u8]) -> bool {
        !self.na.is_empty() && self.na.iter().any(|word| word[..] == *cell.trim_ascii())
    }

    /// A whole cell as a number.
    pub(crate) fn number(&self, cell: &[u8]) -> Reading {
        if self.is_missing(cell) {
            return Reading::Missing;
        }
        if self.decimal == '.' && self.thousands.is_none() {
            return number(cell);
        }
        let Ok(text) = std::str::from_utf8(cell) else { return Reading::Other };
        match self.as_written_by_programs(text.trim()) {
            Some(plain) => number(plain.as_bytes()),
            None if missing(cell.trim_ascii()) => Reading::Missing,
            None => Reading::Other,
        }
    }

    /// A number with a point and without separators of thousands; `None` where it is not written by these rules.
    fn as_written_by_programs(&self, text: &str) -> Option<String> {
        let (sign, rest) = match text.strip_prefix(['+', '-', '\u{2212}']) {
            Some(rest) => (if text.starts_with('+') { "" } else { "-" }, rest),
            None => ("", text),
        };
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (whole, fraction) = mantissa.split_once(self.decimal).unwrap_or((mantissa, ""));
        // A space of any width groups digits where one does.
        let same = |c: char| match self.thousands {
            Some(' ') => matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}'),
            Some('\'') => matches!(c, '\'' | '\u{2019}'),
            Some(mark) => c == mark,
            None => false,
        };
        let joined: String = whole.chars().filter(|c| !same(*c)).collect();
        let in_groups = whole.chars().any(same) && {
            let marked: String = whole.chars().map(|c| if same(c) { ' ' } else { c }).collect();
            grouped(&marked, ' ')
        };
        let whole_fits =
            in_groups || joined.len() == whole.len() && (whole.is_empty() || digits(whole));
        let fits = whole_fits
            && (fraction.is_empty() || digits(fraction))
            && !(joined.is_empty() && fraction.is_empty());
        fits.then(|| format!("{sign}{joined}.{fraction}{exponent}"))
    }

    /// A whole cell as a boolean: 1 or 0.
    pub(crate) fn boolean(&self, cell: &[u8]) -> Reading {
        if self.is_missing(cell) { Reading::Missing } else { boolean(cell) }
    }

    /// A whole cell as a date, in this format or as `2024-01-31`.
    pub(crate) fn date(&self, cell: &[u8], format: Option<&DateFormat>) -> Reading {
        match format {
            _ if self.is_missing(cell) => Reading::Missing,
            None => date::date(cell),
            Some(format) => format.read(cell),
        }
    }

    /// What a number should have been, for a message about a cell that is none.
    pub(crate) fn wanted(&self, cell: &[u8]) -> &'static str {
        if self.decimal == '.' { wanted(cell) } else { "a number with a decimal comma" }
    }
}

/// A whole cell as a boolean: 1 or 0.
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

/// What a number in text should have been, for a message about a cell that is none.
pub(crate) fn wanted(cell: &[u8]) -> &'static str {
    if has_comma(cell) {
        "a number with a decimal point (--decimal , reads decimal commas)"
    } else {
        "a number (--na WORD reads a word as a missing value)"
    }
}

/// Whether a cell is a number written with a comma: `12,0`, `1.234,56`, `1 234,5`, `1,5E-3`, or `1,234.5`.
pub(crate) fn has_comma(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let text = text.trim();
    let text = text.strip_prefix(['+', '-', '\u{2212}']).unwrap_or(text);
    let (text, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if !text.contains(',') || !digits(power) {
        return false;
    }
    // A decimal comma behind digits, which may stand in groups of three; or commas between such groups.
    let decimal = text.split_once(',').is_some_and(|(whole, fraction)| {
        let separators = ['.', ' ', '\'', '\u{a0}', '\u{202f}', '\u{2019}'];
        digits(fraction)
            && (whole.is_empty()
                || digits(whole)
                || separators.iter().any(|&separator| grouped(whole, separator)))
    });
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    decimal || (grouped(whole, ',') && digits(fraction))
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether text is digits in groups of three.
fn grouped(text: &str, separator: char) -> bool {
    let mut groups = text.split(separator);
    let first = groups.next().unwrap_or_default();
    digits(first) && first.len() <= 3 && groups.all(|group| digits(group) && group.len() == 3)
}

/// How the cells of a text column read as numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommaCount {
    comma: usize,
    plain: usize,
    other: usize,
}

impl CommaCount {
    /// Counts `rows` cells that hold this; says whether it is a number with a comma. Gaps are not counted.
    pub(crate) fn add(&mut self, cell: &[u8], rows: usize) -> bool {
        let comma = has_comma(cell);
        match number(cell) {
            _ if comma => self.comma += rows,
            Reading::Value(_) => self.plain += rows,
            Reading::Missing => {}
            Reading::Other => self.other += rows,
        }
        comma
    }

    /// Counts a cell that is a number without a comma.
    pub(crate) fn add_plain(&mut self) {
        self.plain += 1;
    }

    /// Whether the column is one of numbers with commas: some have one, and at least nine in ten cells are numbers.
    pub(crate) fn mostly_numbers(self) -> bool {
        self.comma > 0 && self.other * 9 <= self.comma + self.plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_commas_are_known() {
        for cell in [
            "12,0",
            "-3,5",
            "+0,25",
            ",5",
            " 7,125 ",
            "1.234,56",
            "1.234.567,8",
            "1 234,5",
            "1'234,5",
            "1\u{a0}234,5",
            "1\u{202f}234,5",
            "\u{2212}1,5",
            "1,5E-05",
            "2,5e3",
            "1,234",
            "1,234,567",
            "1,234.5",
            "12,345,678.90",
        ] {
            assert!(has_comma(cell.as_bytes()), "{cell}");
        }
        for cell in [
            "",
            ",",
            "12",
            "12.5",
            "12,",
            "a,b",
            "1,2,3",
            "1,2 kg",
            "1.23,4",
            "12.3456,7",
            "1,5e",
            "1,5e,2",
            "1,,5",
            "1234,567.8",
            "Bern, BE",
            "1.234.56,7",
            "--1,5",
            "1,2345,678",
        ] {
            assert!(!has_comma(cell.as_bytes()), "{cell}");
        }
        assert!(!has_comma(b"1,5\xff"));
    }

    #[test]
    fn a_column_is_of_numbers_where_nine_in_ten_cells_are() {
        let count = |cells: &[(&str, usize)]| {
            let mut count = CommaCount::default();
            for (cell, rows) in cells {
                count.add(cell.as_bytes(), *rows);
            }
            count.mostly_numbers()
        };
        assert!(count(&[("1,5", 1)]));
        assert!(count(&[("1,5", 2), ("7", 7), ("NA", 50), ("?", 1)]));
        assert!(!count(&[("1,5", 2), ("7", 6), ("?", 1)]));
        assert!(!count(&[("7", 9)]));
        assert!(!count(&[("red", 9), ("1,5", 9)]));
        assert!(!count(&[]));
    }

    #[test]
    fn decimal_commas_and_thousands_are_read_as_said() {
        let rules = |decimal, thousands, na: &[&str]| {
            let na = na.iter().map(|word| (*word).to_owned()).collect();
            Rules::of(&Options { decimal, thousands, na, ..Options::default() })
        };
        let german = rules(b',', Some('.'), &["-", "n/k"]);
        for (cell, value) in [
            ("12,0", 12.0),
            ("-3,5", -3.5),
            ("1.234,56", 1234.56),
            ("12.345.678", 12_345_678.0),
            ("1,5E-3", 1.5e-3),
            (" ,5 ", 0.5),
            ("7", 7.0),
            ("\u{2212}1,5", -1.5),
        ] {
            assert_eq!(german.number(cell.as_bytes()), Reading::Value(value), "{cell}");
        }
        for cell in ["1.5", "1.23,4", "12.3456", "1,2,3", "x", ",", "1..000"] {
            assert_eq!(german.number(cell.as_bytes()), Reading::Other, "{cell}");
        }
        for cell in ["", "-", " n/k ", "NA"] {
            assert_eq!(german.number(cell.as_bytes()), Reading::Missing, "{cell}");
        }
        assert!(!german.plain);
        let english = rules(b'.', Some(','), &[]);
        assert_eq!(english.number(b"1,234.5"), Reading::Value(1234.5));
        assert_eq!(english.number(b"1,23"), Reading::Other);
        let french = rules(b',', Some(' '), &[]);
        assert_eq!(french.number("1\u{202f}234,5".as_bytes()), Reading::Value(1234.5));
        // A number that stands for a missing value must not be taken for one.
        let coded = rules(b'.', None, &["-999"]);
        assert!(!coded.plain);
        assert_eq!(coded.number(b"-999"), Reading::Missing);
        assert_eq!(coded.number(b"-99"), Reading::Value(-99.0));
        assert!(rules(b'.', None, &["-", "n/k"]).plain);
    }

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
