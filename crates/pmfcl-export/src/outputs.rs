//! What the outputs of a model are, in words: the same entries in JSON and in the metadata of safetensors and ONNX.

use pmfcl::loss::Link;
use pmfcl::problem::{ClassDensity, ClassRule, Response};
use serde_json::Value;

use crate::Exported;
use crate::object::{Object, list};

/// An entry about the outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A plain word.
    Word(&'static str),
    /// Anything else, as JSON.
    Json(String),
}

impl Entry {
    /// As a value of a JSON object.
    pub(crate) fn json(&self) -> String {
        match self {
            Self::Word(word) => Value::from(*word).to_string(),
            Self::Json(json) => json.clone(),
        }
    }

    /// As text where all values are text.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Word(word) => word.to_owned(),
            Self::Json(json) => json,
        }
    }
}

/// `targets`, `link` and, where there are any, `limits`, or `classes`, `absent` and `probabilities`.
pub(crate) fn entries(exported: &Exported<'_>) -> Vec<(&'static str, Entry)> {
    let classes = &exported.parameters.classes;
    match &exported.parameters.response {
        Response::Values { link, limits } => {
            let mut entries =
                vec![("targets", names(exported.targets)), ("link", Entry::Word(link_name(*link)))];
            if !limits.is_empty() {
                let pairs = limits.iter().map(|l| Value::from(vec![l.least, l.most]).to_string());
                entries.push(("limits", Entry::Json(list(pairs))));
            }
            entries
        }
        Response::Classes { rule, present, first_is_zero } => {
            // The class without a column is never absent.
            let own = classes.iter().skip(usize::from(*first_is_zero));
            let absent: Vec<String> = own
                .zip(present)
                .filter(|(_, present)| !**present)
                .map(|(class, _)| class.clone())
                .collect();
            vec![
                ("classes", names(classes)),
                ("absent", names(&absent)),
                ("probabilities", Entry::Json(probabilities(rule))),
            ]
        }
    }
}

/// Names as a list.
fn names(names: &[String]) -> Entry {
    Entry::Json(list(names.iter().map(|name| Value::from(name.as_str()).to_string())))
}

/// The name of a link; [`Exported::check`] has refused any other.
fn link_name(link: Link) -> &'static str {
    match link {
        Link::Exp => "exp",
        _ => "identity",
    }
}

/// Logarithms of shares, with null for a class without rows.
fn finite(values: &[f64]) -> Vec<Option<f64>> {
    values.iter().map(|v| v.is_finite().then_some(*v)).collect()
}

/// Numbers of the density of a class.
type DensityPart = fn(&ClassDensity) -> Vec<f64>;

/// How scores become probabilities; [`Exported::check`] has refused any other rule.
fn probabilities(rule: &ClassRule) -> String {
    let object = Object::default();
    match rule {
        ClassRule::Softmax { temperature } => {
            object.with("rule", "softmax").with("temperature", *temperature)
        }
        ClassRule::RowTemperature(rule) => {
            let object = object
                .with("rule", "row-temperature")
                .with("temperature", rule.temperature)
                .with("floor", rule.floor);
            match &rule.nearest {
                None => object,
                Some(nearest) => object
                    .with("shape", rule.shape)
                    .with("usual", nearest.usual)
                    .with("log_shares", finite(&nearest.log_shares))
                    .with("centre", nearest.centre.clone())
                    .with("whitening", nearest.whitening.clone()),
            }
        }
        ClassRule::ClassCovariance(rule) => {
            let mut object = object
                .with("rule", "class-covariance")
                .with("temperature", rule.temperature)
                .with("floor", rule.floor)
                .with("usual", rule.usual);
            if rule.shape.is_finite() {
                object = object.with("shape", rule.shape);
            }
            // Of each class its values in one list; null for a class without rows.
            let parts: [(&str, DensityPart); 4] = [
                ("log_shares", |class| vec![class.log_share]),
                ("log_dets", |class| vec![class.log_det]),
                ("means", |class| class.mean.clone()),
                ("whitenings", |class| class.whitening.clone()),
            ];
            for (name, part) in parts {
                let values: Vec<Option<Vec<f64>>> =
                    rule.classes.iter().map(|class| class.as_ref().map(part)).collect();
                object = object.with(name, values);
            }
            object
        }
        _ => object.with("rule", "clip"),
    }
    .text()
}
