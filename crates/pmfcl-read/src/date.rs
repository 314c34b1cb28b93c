//! Dates as days since 1970-01-01 in the Gregorian calendar.

use std::str::FromStr;

use crate::number::{self, Reading};

/// How dates are written, in the directives of `strptime`: `%d.%m.%Y`, `%m/%d/%y %H:%M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateFormat(String);

/// The formats that [`DateFormat::fitting`] tries, each also followed by a time of day.
const USUAL: [&str; 7] =
    ["%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%y"];
const TIMES: [&str; 3] = ["", " %H:%M", " %H:%M:%S"];

impl FromStr for DateFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut directives = text.split('%').skip(1).map(|part| part.chars().next());
        if let Some(other) = directives.find(|d| !d.is_some_and(|d| "YymdHMSfz".contains(d))) {
            let other = other.map(String::from).unwrap_or_default();
            return Err(format!("'%{other}' in '{text}' is none of %Y %y %m %d %H %M %S %f %z"));
        }
        let year = text.contains("%Y") || text.contains("%y");
        if !(year && text.contains("%m") && text.contains("%d")) {
            return Err(format!("'{text}' needs a year (%Y or %y), a month (%m) and a day (%d)"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Display for DateFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl DateFormat {
    /// The usual formats that all these cells are written in.
    pub(crate) fn fitting<'a>(cells: &(impl Iterator<Item = &'a str> + Clone)) -> Vec<Self> {
        let all = USUAL.iter().flat_map(|day| TIMES.map(|time| Self(format!("{day}{time}"))));
        let fits = |format: &Self| cells.clone().all(|cell| format.days(cell.trim()).is_some());
        all.filter(fits).collect()
    }

    /// A whole cell as a date.
    pub(crate) fn read(&self, cell: &[u8]) -> Reading {
        let cell = cell.trim_ascii();
        match std::str::from_utf8(cell).ok().and_then(|text| self.days(text)) {
            Some(days) => Reading::Value(days),
            None if number::missing(cell) => Reading::Missing,
            None => Reading::Other,
        }
    }

    fn days(&self, text: &str) -> Option<f64> {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        let (mut seconds, mut shift) = (0.0, 0.0);
        let mut rest = text.as_bytes();
        let mut pattern = self.0.bytes();
        while let Some(mark) = pattern.next() {
            if mark != b'%' {
                rest = rest.strip_prefix(&[mark])?;
                continue;
            }
            let directive = pattern.next()?;
            if directive == b'z' {
                shift = offset(rest)?;
                rest = &[];
                continue;
            }
            let most = match directive {
                b'Y' => 4,
                b'f' => 9,
                _ => 2,
            };
            let found = rest.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
            let (number, behind) = rest.split_at(found);
            if number.is_empty() || (directive == b'Y' && found < 4) {
                return None;
            }
            let value = digits(number)?;
            rest = behind;
            match directive {
                b'Y' => year = value,
                // As Python and C: 69 to 99 are of the last century.
                b'y' => year = if value < 69 { 2000 + value } else { 1900 + value },
                b'm' => month = value,
                b'd' => day = value,
                b'H' if value <= 24 => seconds += (value * 3600) as f64,
                b'M' if value < 60 => seconds += (value * 60) as f64,
                b'S' if value <= 60 => seconds += value as f64,
                b'f' => seconds += value as f64 / 10_f64.powf(found as f64),
                _ => return None,
            }
        }
        let there = rest.is_empty()
            && (1..=12).contains(&month)
            && (1..=month_length(year, month)).contains(&day);
        there.then(|| days_from_civil(year, month, day) as f64 + (seconds - shift) / 86_400.0)
    }
}

/// A whole cell as a date: `2024-01-31`, then optionally `T` or a space and `12:30[:05[.25]]`, then
/// optionally `Z` or an offset like `+01:00`.
pub(crate) fn date(cell: &[u8]) -> Reading {
    let cell = cell.trim_ascii();
    match parse(cell) {
        Some(days) => Reading::Value(days),
        None if number::missing(cell) => Reading::Missing,
        None => Reading::Other,
    }
}

fn parse(cell: &[u8]) -> Option<f64> {
    let (day, rest) = cell.split_at_checked(10)?;
    if day[4] != b'-' || day[7] != b'-' {
        return None;
    }
    let (year, month, dom) = (digits(&day[..4])?, digits(&day[5..7])?, digits(&day[8..])?);
    if !(1..=12).contains(&month) || dom == 0 || dom > month_length(year, month) {
        return None;
    }
    let days = days_from_civil(year, month, dom) as f64;
    let Some((mark, time)) = rest.split_first() else { return Some(days) };
    if !matches!(mark, b'T' | b't' | b' ') {
        return None;
    }
    let (clock, zone) = match time.iter().position(|b| matches!(b, b'Z' | b'z' | b'+' | b'-')) {
        Some(at) => time.split_at(at),
        None => (time, &[][..]),
    };
    Some(days + (seconds(clock)? - offset(zone)?) / 86_400.0)
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.fraction` in seconds.
fn seconds(clock: &[u8]) -> Option<f64> {
    let (hour, minute) = hour_and_minute(clock.get(..5)?, true)?;
    let second = match clock[5..].split_first() {
        None => 0.0,
        Some((b':', rest)) => {
            let whole = digits(rest.get(..2)?)?;
            let fraction = match rest[2..].split_first() {
                None => 0.0,
                Some((b'.', tail)) if !tail.is_empty() && tail.iter().all(u8::is_ascii_digit) => {
                    number::prefix(&rest[2..])?.0
                }
                _ => return None,
            };
            if whole > 60 {
                return None;
            }
            whole as f64 + fraction
        }
        _ => return None,
    };
    Some((hour * 3600 + minute * 60) as f64 + second)
}

/// `Z`, `+HH:MM`, `-HHMM`, `+HH` or nothing, in seconds.
fn offset(zone: &[u8]) -> Option<f64> {
    let (sign, rest) = match zone.split_first() {
        None | Some((b'Z' | b'z', [])) => return Some(0.0),
        Some((b'+', rest)) => (1.0, rest),
        Some((b'-', rest)) => (-1.0, rest),
        Some(_) => return None,
    };
    let (hour, minute) = match rest.len() {
        2 => (digits(rest)?, 0),
        4 => hour_and_minute(rest, false)?,
        5 => hour_and_minute(rest, true)?,
        _ => return None,
    };
    Some(sign * (hour * 3600 + minute * 60) as f64)
}

fn hour_and_minute(text: &[u8], colon: bool) -> Option<(i64, i64)> {
    if colon && text[2] != b':' {
        return None;
    }
    let (hour, minute) = (digits(&text[..2])?, digits(&text[2 + usize::from(colon)..])?);
    (hour <= 24 && minute < 60).then_some((hour, minute))
}

fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
}

fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are counted from March, so that the leap day is the last of its year.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (153 * month + 2) / 5; // months from March: 31 30 31 30 31, twice, and the rest
    365 * year + leap_days + before_month + day - 1 - 719_468
}

/// The other way round: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let from_march = days + 719_468;
    let era = from_march.div_euclid(146_097);
    let in_era = from_march.rem_euclid(146_097);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + era * 400, month, day)
}

/// Seconds since 1970 as text: `2024-01-31T12:30:00`, or `2024-01-31` at midnight.
pub fn moment(seconds: i64) -> String {
    text(seconds, 1)
}

/// A moment in text, given in `units` per second since 1970: `2024-01-31`, with the time of day if
/// it is not midnight.
pub(crate) fn text(moment: i64, units: i64) -> String {
    let seconds = moment.div_euclid(units);
    let fraction = moment.rem_euclid(units);
    let (year, month, day) = civil_from_days(seconds.div_euclid(86_400));
    let clock = seconds.rem_euclid(86_400);
    let mut out = format!("{year:04}-{month:02}-{day:02}");
    if clock != 0 || fraction != 0 {
        out += &format!("T{:02}:{:02}:{:02}", clock / 3600, clock / 60 % 60, clock % 60);
    }
    if fraction != 0 {
        let digits = units.ilog10() as usize;
        out += format!(".{fraction:0digits$}").trim_end_matches('0');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (text, days) in [
            ("1970-01-01", 0.0),
            ("1969-12-31", -1.0),
            ("2000-03-01", 11017.0),
            ("2024-02-29", 19782.0),
            ("2024-01-31T12:00", 19753.5),
            ("2024-01-31 06:00:00", 19753.25),
            ("2024-01-31T00:00:00.5Z", 19753.0 + 0.5 / 86400.0),
            ("2024-01-31T01:00:00+01:00", 19753.0),
            ("2024-01-30T23:00-0100", 19753.0),
            ("2024-01-31T02:00+02", 19753.0),
        ] {
            assert_eq!(date(text.as_bytes()), Reading::Value(days), "{text}");
        }
        for text in [
            "2023-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "24-01-01",
            "2024-01-31T",
            "2024-01-31T12",
            "2024-01-31T12:60",
            "2024-01-31T12:00:00.",
            "2024-01-31T12:00+1",
            "2024/01/31",
            "2024-01-31x",
            "2024-01-3",
            "ä024-01-31",
            "2024-01-31T25:00",
        ] {
            assert_eq!(date(text.as_bytes()), Reading::Other, "{text}");
        }
        assert_eq!(date(b" NA "), Reading::Missing);
    }

    #[test]
    fn dates_are_read_in_the_format_given() {
        for (format, text, days) in [
            ("%d.%m.%Y", "31.01.2024", 19753.0),
            ("%d.%m.%Y", "1.2.1970", 31.0),
            ("%m/%d/%y", "01/31/24", 19753.0),
            ("%m/%d/%y", "12/31/69", -1.0),
            ("%Y/%m/%d %H:%M", "2024/01/31 12:00", 19753.5),
            ("%d-%m-%Y %H:%M:%S%z", "31-01-2024 01:00:00+01:00", 19753.0),
            ("%Y%m%d", "20240131", 19753.0),
        ] {
            let format: DateFormat = format.parse().unwrap();
            assert_eq!(format.read(text.as_bytes()), Reading::Value(days), "{text}");
        }
        let german: DateFormat = "%d.%m.%Y".parse().unwrap();
        for text in ["30.02.2024", "31.13.2024", "31.01.24", "31.01.2024 ", "x", "31.01."] {
            let read = german.read(text.as_bytes());
            assert_eq!(read == Reading::Other, text != "31.01.2024 ", "{text}");
        }
        for wrong in ["%d.%m", "%Q%d%m%Y", "%d.%m.%Y %", "day"] {
            assert!(wrong.parse::<DateFormat>().is_err(), "{wrong}");
        }
        let fits = |cells: &[&str]| -> Vec<String> {
            DateFormat::fitting(&cells.iter().copied()).iter().map(ToString::to_string).collect()
        };
        assert_eq!(fits(&["31.01.2024", "1.2.2023"]), ["%d.%m.%Y"]);
        assert_eq!(fits(&["01/02/2024"]), ["%d/%m/%Y", "%m/%d/%Y"]);
        assert_eq!(fits(&["01/02/2024", "12/31/2024"]), ["%m/%d/%Y"]);
        assert!(fits(&["a"]).is_empty());
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-800_000..800_000).step_by(37) {
            let (y, m, d) = civil_from_days(days);
            assert_eq!(days_from_civil(y, m, d), days);
        }
        assert_eq!(text(0, 1), "1970-01-01");
        assert_eq!(text(-1, 1000), "1969-12-31T23:59:59.999");
        assert_eq!(text(1_706_659_200_000_000, 1_000_000), "2024-01-31");
        assert_eq!(text(1_706_659_200_500_000, 1_000_000), "2024-01-31T00:00:00.5");
    }
}
