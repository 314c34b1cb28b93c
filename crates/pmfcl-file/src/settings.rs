//! Settings as a JSON document of words and numbers.

use pmfcl::{ClassifierSettings, Preference, Settings};
use serde_json::{Map, Value, json};

use crate::model::Model;
use crate::words::Word;

/// The settings of a model, to be written.
pub(crate) fn write(model: &Model) -> Value {
    let s = model.learner().settings();
    let mut document = json!({
        "loss": model.loss(),
        "kind": if model.classifier().is_some() { "classification" } else { "regression" },
        "basis": s.basis.word(),
        "intercept": s.intercept,
        "ridge": s.ridge.word(),
        "standardize": s.standardize,
        "memory": s.memory.word(),
        "accumulator": s.accumulator.word(),
        "prefer": s.prefer.word(),
    });
    if let Preference::Chosen(list) = &s.prefer {
        document["chosen"] = list.iter().map(|(name, a)| json!([name, a])).collect();
    }
    if let Some(classifier) = model.classifier() {
        let c = classifier.settings();
        document["shrinkage"] = c.shrinkage.word().into();
        document["curvature"] = c.curvature.word().into();
        document["scheme"] = c.scheme.word().into();
        document["certify"] = c.certify.into();
        document["temperature"] = c.temperature.word().into();
        document["fixed_classes"] = json!(c.classes);
    }
    document
}

/// Settings as they were found.
pub(crate) enum Found {
    Regression(Settings),
    Classification(ClassifierSettings),
}

/// The settings that [`write`] wrote.
pub(crate) fn read(text: &str) -> Result<Found, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| format!("its settings: {e}"))?;
    let fields = Fields(value.as_object().ok_or("its settings are no JSON object")?);
    let plain = Settings {
        basis: fields.word("basis")?,
        intercept: fields.truth("intercept")?,
        ridge: fields.word("ridge")?,
        standardize: fields.truth("standardize")?,
        memory: fields.word("memory")?,
        accumulator: fields.word("accumulator")?,
        prefer: match fields.text("prefer")? {
            "chosen" => Preference::Chosen(fields.chosen()?),
            word => Preference::parse(word)?,
        },
        ..Settings::default()
    };
    match (fields.text("kind")?, fields.text("loss")?) {
        ("regression", "squared") => Ok(Found::Regression(plain)),
        ("classification", _) => {
            let settings = ClassifierSettings {
                loss: fields.word("loss")?,
                basis: plain.basis,
                intercept: plain.intercept,
                ridge: plain.ridge,
                standardize: plain.standardize,
                shrinkage: fields.word("shrinkage")?,
                curvature: fields.word("curvature")?,
                scheme: fields.word("scheme")?,
                certify: fields.truth("certify")?,
                temperature: fields.word("temperature")?,
                memory: plain.memory,
                accumulator: plain.accumulator,
                prefer: plain.prefer,
                classes: fields.classes()?,
                threads: plain.threads,
            };
            Ok(Found::Classification(settings))
        }
        (kind, loss) => Err(format!("it holds a {kind} with {loss} loss")),
    }
}

struct Fields<'a>(&'a Map<String, Value>);

impl Fields<'_> {
    fn get(&self, name: &str) -> Result<&Value, String> {
        self.0.get(name).ok_or_else(|| format!("the setting `{name}` is missing"))
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.get(name)?.as_str().ok_or_else(|| format!("the setting `{name}` is no text"))
    }

    fn truth(&self, name: &str) -> Result<bool, String> {
        self.get(name)?
            .as_bool()
            .ok_or_else(|| format!("the setting `{name}` is neither true nor false"))
    }

    fn word<W: Word>(&self, name: &str) -> Result<W, String> {
        W::parse(self.text(name)?).map_err(|e| format!("the setting `{name}`: {e}"))
    }

    fn chosen(&self) -> Result<Vec<(String, f64)>, String> {
        serde_json::from_value(self.get("chosen")?.clone())
            .map_err(|e| format!("chosen weights: {e}"))
    }

    fn classes(&self) -> Result<Option<Vec<String>>, String> {
        serde_json::from_value(self.get("fixed_classes")?.clone())
            .map_err(|e| format!("fixed classes: {e}"))
    }
}
