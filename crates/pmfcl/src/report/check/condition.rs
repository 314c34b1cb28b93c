//! Conditions under which rows are not to be learned: `--refuse-if`.

use std::fmt;
use std::str::FromStr;

use super::{Check, FindingKind, Relation};
use crate::error::{Error, Result};

/// A condition: `repeat`, `units`, `drift<0.001`, `shift>2`, `outliers>0.01`, `categories>0.1`, `missing>0.2`, `rows<0.5`, or
/// `any`. Without a number it holds where there is a warning of that kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Condition {
    /// `None` for any warning.
    kind: Option<FindingKind>,
    limit: Option<f64>,
}

impl FromStr for Condition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || Error::SettingName {
            value: text.to_owned(),
            expected: "repeat, units, drift[<P], shift[>SD], outliers[>SHARE], categories[>SHARE], missing[>SHARE], \
                       rows[<SHARE], any",
        };
        let at = text.find(['<', '>']);
        let (name, limit) = at.map_or((text, None), |at| (&text[..at], Some(&text[at..])));
        if name == "any" && limit.is_none() {
            return Ok(Self { kind: None, limit: None });
        }
        let kind: FindingKind = name.parse().map_err(|_| refused())?;
        let limit = match limit {
            None => None,
            Some(limit) => {
                let (mark, number) = limit.split_at(1);
                let below = matches!(kind, FindingKind::Drift | FindingKind::Rows);
                let bare = matches!(kind, FindingKind::Repeat | FindingKind::Units);
                let number: f64 = number.parse().map_err(|_| refused())?;
                if bare || (mark == "<") != below || number.is_nan() || number < 0.0 {
                    return Err(refused());
                }
                Some(number)
            }
        };
        Ok(Self { kind: Some(kind), limit })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(kind) = self.kind else { return f.write_str("any") };
        let below = matches!(kind, FindingKind::Drift | FindingKind::Rows);
        match self.limit {
            None => write!(f, "{kind}"),
            Some(limit) => write!(f, "{kind}{}{limit}", if below { '<' } else { '>' }),
        }
    }
}

impl Condition {
    /// Whether rows that were checked meet the condition.
    pub fn holds(&self, check: &Check) -> bool {
        let warned = |kind| check.warnings().any(|finding| finding.kind == kind);
        let Some(kind) = self.kind else { return check.warnings().next().is_some() };
        let Some(limit) = self.limit else { return warned(kind) };
        let rows = check.found.rows.max(1) as f64;
        match kind {
            FindingKind::Repeat | FindingKind::Units => warned(kind),
            FindingKind::Drift => {
                let drift = check.drift.and_then(|drift| drift.p_value);
                let relation = check.relation.filter(Relation::is_lost).map(|lost| lost.p_value);
                drift.into_iter().chain(relation).any(|p| p < limit)
            }
            FindingKind::Shift => check.largest_shift() > limit,
            FindingKind::Outliers => check.found.beyond as f64 / rows > limit,
            FindingKind::Categories => check.new_share() > limit,
            FindingKind::Missing => check.dropped_share() > limit,
            FindingKind::Rows => {
                check.usual_rows.is_some_and(|usual| (check.rows as f64) < limit * usual)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_as_they_are_written() {
        for text in ["any", "repeat", "drift<0.001", "shift>2", "rows<0.5", "missing>0.25"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        for text in ["", "drift>0.1", "rows>2", "repeat>1", "shift>x", "any>1", "shift>-1", "loss"]
        {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}
