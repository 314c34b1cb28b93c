//! Problem and settings as a JSON object. Every setting is spelled by its `Display`.

use std::fmt::Display;
use std::str::FromStr;

use pmfcl::{Basis, ClassList, MemoryKind, Preference, Problem, Settings, StoredPrecision};
use serde_json::{Map, Value, json};

/// Where a model comes from a loss of the user's own, what knows it by its name and parameters.
pub(crate) type FindLoss<'a> = &'a dyn Fn(&str) -> Option<Problem>;

/// Why settings could not be read.
#[derive(Debug)]
pub(crate) enum SettingsError {
    /// The loss is not one of pmfcl's.
    UnknownLoss(String),
    /// They contradict each other or are invalid.
    Invalid(String),
}

impl<T: Into<String>> From<T> for SettingsError {
    fn from(what: T) -> Self {
        Self::Invalid(what.into())
    }
}

/// Problem and settings, to be written.
pub(crate) fn write(problem: &Problem, settings: &Settings) -> Value {
    let mut document = json!({
        "loss": problem.to_string(),
        "kind": if problem.predicts_classes() { "classification" } else { "regression" },
        "fixed_classes": problem.class_list().and_then(ClassList::names),
        "basis": settings.basis.stored(),
        "intercept": settings.intercept,
        "ridge": settings.ridge.to_string(),
        "standardize": settings.standardize,
        "memory": settings.memory.to_string(),
        "accumulator": settings.accumulator.to_string(),
        "prefer": settings.prefer.to_string(),
    });
    // Not in files of earlier versions, so not written where they would do.
    if settings.store != StoredPrecision::default() {
        document["store"] = settings.store.to_string().into();
    }
    if let Preference::Chosen(list) = &settings.prefer {
        document["chosen"] = list.iter().map(|(name, a)| json!([name, a])).collect();
    }
    if let Some(clip) = settings.clip {
        document["clip"] = clip.into();
    }
    for (name, value) in problem.options() {
        document[name] = value.into();
    }
    document
}

/// The settings that [`write`] or layout 1 wrote.
pub(crate) struct Stored(Map<String, Value>);

impl Stored {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text).map_err(|e| format!("its settings: {e}"))? {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err("its settings are no JSON object".to_owned()),
        }
    }

    /// The memory.
    pub(crate) fn memory(&self) -> Result<MemoryKind, String> {
        self.named("memory")
    }

    /// The settings that do not depend on the problem.
    pub(crate) fn settings(&self) -> Result<Settings, String> {
        Ok(Settings {
            basis: Basis::from_stored(self.text("basis")?)
                .map_err(|error| format!("its setting `basis`: {error}"))?,
            intercept: self.boolean("intercept")?,
            clip: match self.0.get("clip") {
                Some(value) => Some(value.as_f64().ok_or("the setting `clip` is no number")?),
                None => None,
            },
            ridge: self.named("ridge")?,
            standardize: self.boolean("standardize")?,
            memory: self.memory()?,
            accumulator: self.named("accumulator")?,
            store: if self.0.contains_key("store") {
                self.named("store")?
            } else {
                StoredPrecision::default()
            },
            prefer: match self.text("prefer")? {
                "chosen" => Preference::Chosen(self.chosen()?),
                _ => self.named("prefer")?,
            },
            ..Settings::default()
        })
    }

    /// The problem; `find` knows losses of the user's own.
    pub(crate) fn problem(&self, find: FindLoss<'_>) -> Result<Problem, SettingsError> {
        let spec = self.text("loss")?;
        let classes = match self.text("kind")? {
            "regression" => None,
            "classification" => Some(self.class_list()?),
            kind => return Err(format!("it is a model of kind `{kind}`").into()),
        };
        let of_classes = classes.is_some();
        let mut problem = match Problem::parse(spec, classes) {
            Ok(problem) => problem,
            Err(pmfcl::Error::SettingName { .. }) => {
                let unknown = || SettingsError::UnknownLoss(spec.to_owned());
                find(spec).filter(|own| own.to_string() == spec).ok_or_else(unknown)?
            }
            Err(error) => return Err(error.to_string().into()),
        };
        if problem.predicts_classes() != of_classes {
            return Err(format!("the loss `{spec}` does not go with its kind").into());
        }
        for (name, _) in problem.options() {
            // Earlier versions had a `temperature` in its place.
            let name = if name == "calibrate" && !self.0.contains_key(name) {
                "temperature"
            } else {
                name
            };
            let Some(value) = self.0.get(name) else { continue };
            let value = match value {
                Value::String(text) => text.clone(),
                // Layout 1 has `certify` as a boolean.
                Value::Bool(truth) => truth.to_string(),
                _ => return Err(format!("the setting `{name}` is no text").into()),
            };
            problem = problem
                .with_option(name, &value)
                .map_err(|e| format!("the setting `{name}`: {e}"))?;
        }
        Ok(problem)
    }

    fn get(&self, name: &str) -> Result<&Value, String> {
        self.0.get(name).ok_or_else(|| format!("the setting `{name}` is missing"))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.get(name)?.as_str().ok_or_else(|| format!("the setting `{name}` is no text"))
    }

    fn boolean(&self, name: &str) -> Result<bool, String> {
        self.get(name)?
            .as_bool()
            .ok_or_else(|| format!("the setting `{name}` is neither true nor false"))
    }

    fn named<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T, String> {
        self.text(name)?.parse().map_err(|e| format!("the setting `{name}`: {e}"))
    }

    fn chosen(&self) -> Result<Vec<(String, f64)>, String> {
        serde_json::from_value(self.get("chosen")?.clone())
            .map_err(|e| format!("chosen weights: {e}"))
    }

    fn class_list(&self) -> Result<ClassList, String> {
        let names: Option<Vec<String>> = serde_json::from_value(self.get("fixed_classes")?.clone())
            .map_err(|e| format!("fixed classes: {e}"))?;
        Ok(names.map_or(ClassList::Open, ClassList::Fixed))
    }
}
