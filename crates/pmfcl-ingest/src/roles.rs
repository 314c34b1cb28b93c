//! What each column of a table is taken for, why, and whether that may be wrong.
//!
//! A guess that would do harm without a word is a [`ColumnRole::doubt`]: an error that names the option which settles it.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use pmfcl_read::{DateFormat, Field, Kind, Missing, Options, Profile, Source};

use crate::columns::ColumnSelection;
use crate::flow::Files;
use crate::{IngestError, Result, shell_option, shell_word};

/// What a column is used as. Spelled in schema files as `number`, `boolean`, `category`, `date`, `date:%d.%m.%Y`, `block`,
/// `target`, `task`, `ignore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// A number is one input.
    Number,
    /// 1 where it is true.
    Boolean,
    /// One input for each of its texts.
    Category,
    /// Days since 1970, written in this format where it is not `2024-01-31`.
    Date(Option<DateFormat>),
    /// Several numbers in each row.
    Block,
    /// To be predicted.
    Target,
    /// Names the task of a row.
    Task,
    /// Left out.
    Ignore,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => f.write_str("number"),
            Self::Boolean => f.write_str("boolean"),
            Self::Category => f.write_str("category"),
            Self::Date(None) => f.write_str("date"),
            Self::Date(Some(format)) => write!(f, "date:{format}"),
            Self::Block => f.write_str("block"),
            Self::Target => f.write_str("target"),
            Self::Task => f.write_str("task"),
            Self::Ignore => f.write_str("ignore"),
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "category" => Self::Category,
            "date" => Self::Date(None),
            "block" => Self::Block,
            "target" => Self::Target,
            "task" => Self::Task,
            "ignore" => Self::Ignore,
            other => match other.strip_prefix("date:") {
                Some(format) => Self::Date(Some(format.parse()?)),
                None => {
                    return Err(format!(
                        "'{other}' is none of number, boolean, category, date, date:FORMAT, block, target, task, ignore"
                    ));
                }
            },
        })
    }
}

/// A column, what it is taken for, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRole {
    /// Its name.
    pub name: String,
    /// What it is taken for.
    pub role: Role,
    /// Why, from the first rows.
    pub reason: String,
    /// What may surprise, though it does no harm.
    pub remark: Option<String>,
    /// Why the guess is probably wrong, and which options settle it.
    pub doubt: Option<String>,
}

/// Describes every column of the first file, by its first rows and what was said of it. Of columns that are numbers by their type,
/// `numbers` are looked at, and the targets: nothing about the others could be doubted.
///
/// # Errors
/// When the file cannot be read.
pub fn describe_columns(
    files: &Files,
    selection: &ColumnSelection,
    numbers: usize,
) -> Result<Vec<ColumnRole>> {
    let options =
        Options { missing: Missing::Keep, piece_rows: Some(1000), ..files.options.clone() };
    let source = Source::open(&files.paths[0], &options)?;
    let index = source.index_columns().to_vec();
    let of_numbers = source.fields().iter().filter(|field| field.kind == Kind::Number);
    let passed: HashSet<&str> = of_numbers.skip(numbers).map(|field| field.name.as_str()).collect();
    let look = |field: &Field| {
        !passed.contains(field.name.as_str()) || selection.targets.contains(&field.name)
    };
    let profiles = source.profiles(&options, files.threads, &look)?;
    Ok(profiles.iter().map(|profile| describe(profile, selection, &index)).collect())
}

/// The first doubt about columns that are used, as an error.
///
/// # Errors
/// That doubt.
pub fn check_doubts(file: &str, columns: &[ColumnRole]) -> Result<()> {
    match columns.iter().find_map(|column| column.doubt.clone()) {
        Some(what) => Err(IngestError::Column { file: file.to_owned(), what }),
        None => Ok(()),
    }
}

fn describe(profile: &Profile, selection: &ColumnSelection, index: &[String]) -> ColumnRole {
    let name = profile.name.clone();
    let has = |list: &[String]| list.contains(&name);
    let target = has(&selection.targets);
    let listed = selection.features.as_ref().is_none_or(|features| has(features));
    let stated = has(&selection.categories) || has(&selection.numbers);
    let dated = selection.dates.iter().find(|(column, _)| *column == name);
    let from_index =
        index.contains(&name) && selection.features.is_none() && !stated && dated.is_none();
    let (role, reason) = if target {
        (Role::Target, said(profile))
    } else if has(&selection.reserved) {
        (Role::Task, "names the task of a row".to_owned())
    } else if has(&selection.exclude) || !listed {
        (Role::Ignore, if listed { "--exclude" } else { "not among --features" }.to_owned())
    } else if from_index {
        (Role::Ignore, "the index of a pandas table".to_owned())
    } else if let Some((_, format)) = dated {
        (Role::Date(format.clone()), said(profile))
    } else if has(&selection.categories) {
        (Role::Category, said(profile))
    } else if has(&selection.numbers) {
        (Role::Number, said(profile))
    } else {
        let role = match &profile.kind {
            Kind::Number => Role::Number,
            Kind::Boolean => Role::Boolean,
            Kind::Text => match &profile.formats[..] {
                [format] => Role::Date(Some(format.clone())),
                _ => Role::Category,
            },
            Kind::Date => Role::Date(None),
            Kind::Block { .. } => Role::Block,
            Kind::Other(_) => Role::Ignore,
        };
        (role, said(profile))
    };
    let used = !matches!(role, Role::Ignore | Role::Task);
    let doubt = if used && !stated && dated.is_none() { doubt(profile, target) } else { None };
    let remark = used.then(|| remark(profile, target, &role)).flatten();
    ColumnRole { name, role, reason, remark, doubt }
}

/// What the first rows hold.
fn said(profile: &Profile) -> String {
    let missing = match profile.missing {
        0 => String::new(),
        count => format!(", {count} of {} rows have none", profile.rows),
    };
    let some = || {
        let more = if profile.levels > profile.examples.len() { ", …" } else { "" };
        format!("{}{more}", profile.examples.join(", "))
    };
    let plural = if profile.levels == 1 { "" } else { "s" };
    let what = match (&profile.kind, profile.range) {
        _ if profile.levels == 0 && profile.rows > 0 && profile.missing > 0 => "empty".to_owned(),
        (Kind::Number, Some((low, high))) => {
            let what = if profile.whole { "whole numbers" } else { "numbers" };
            format!("{what} from {} to {}", short(low), short(high))
        }
        (Kind::Text, _) => format!("{} level{plural}: {}", profile.levels, some()),
        (Kind::Date, _) => format!("dates: {}", some()),
        (kind, _) => kind.to_string(),
    };
    format!("{what}{missing}")
}

/// A number in about four digits.
fn short(v: f64) -> String {
    let rounded: f64 = format!("{v:.3e}").parse().unwrap_or(v);
    let size = v.abs();
    if size > 0.0 && !(1e-4..1e9).contains(&size) {
        format!("{v:.3e}")
    } else if v.fract() == 0.0 {
        v.to_string()
    } else {
        rounded.to_string()
    }
}

/// Why a column is probably not what it would be taken for.
fn doubt(profile: &Profile, target: bool) -> Option<String> {
    let name = &profile.name;
    let exclude = || {
        if target { "name another --target".to_owned() } else { shell_option("--exclude", &[name]) }
    };
    let category = shell_option("--as-category", &[name]);
    if profile.is_numbers_with_words()
        && let Some(place) = profile.first_word
    {
        let words: Vec<&str> = profile.words.iter().map(String::as_str).collect();
        return Some(format!(
            "{place}, column '{name}': '{}' stands among numbers ({} of the first {} rows hold one), so all of them would be \
             categories; read it as a missing value with {} and --missing, or take the column as categories with {category}",
            words.first().copied().unwrap_or_default(),
            profile.numbers,
            profile.rows,
            shell_option("--na", &words),
        ));
    }
    if profile.kind == Kind::Text && !profile.formats.is_empty() {
        let ways: Vec<String> = profile
            .formats
            .iter()
            .map(|format| format!("--dates {}", shell_word(&format!("{name}:{format}"))))
            .collect();
        return Some(format!(
            "row 1, column '{name}': '{}' is a date, and every date would be a category; use it as days since 1970 with {}, \
             leave it out with {}, or take it as categories with {category}",
            profile.examples.first().map_or("", String::as_str),
            ways.join(" or "),
            exclude(),
        ));
    }
    if profile.is_identifier() {
        let what = if target { "as many classes" } else { "an input each" };
        return Some(format!(
            "row 1, column '{name}': '{}' is one of {} different texts in the first {} rows, which would be {what}: this looks \
             like an identifier; leave it out with {}, or take it as it is with {category}",
            profile.examples.first().map_or("", String::as_str),
            profile.levels,
            profile.rows,
            exclude(),
        ));
    }
    None
}

/// What may surprise about a column.
fn remark(profile: &Profile, target: bool, role: &Role) -> Option<String> {
    const FEW: usize = 10;
    let name = &profile.name;
    if target && profile.kind == Kind::Number && profile.whole && profile.levels <= FEW {
        let mut values = profile.examples.clone();
        if profile.levels > values.len() {
            values.push("…".to_owned());
        }
        return Some(format!(
            "the target '{name}' has {} different whole numbers ({}) and is predicted as a number unless --loss says \
             classes: --loss gaussian or --loss logistic",
            profile.levels,
            values.join(", "),
        ));
    }
    if !target && *role == Role::Number && profile.counting {
        return Some(format!(
            "'{name}' counts the rows and is used as a number; leave it out with {}",
            shell_option("--exclude", &[name])
        ));
    }
    if profile.is_constant() {
        let value = profile.examples.first().map_or("", String::as_str);
        return Some(format!("'{name}' is {value} in all {} rows looked at", profile.rows));
    }
    None
}
