//! What the outputs of a model are, in words: the same entries in JSON and in the metadata of safetensors and ONNX.

use pmfcl::loss::Link;
use pmfcl::problem::{ClassRule, Response};
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

/// `targets` and `link`, or `classes`, `absent` and `probabilities`.
pub(crate) fn entries(exported: &Exported<'_>) -> Vec<(&'static str, Entry)> {
    let classes = &exported.parameters.classes;
    match &exported.parameters.response {
        Response::Values(link) => {
            vec![("targets", names(exported.targets)), ("link", Entry::Word(link_name(*link)))]
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

/// How scores become probabilities; [`Exported::check`] has refused any other rule.
fn probabilities(rule: &ClassRule) -> String {
    let object = Object::default();
    match rule {
        ClassRule::Softmax { temperature } => {
            object.with("rule", "softmax").with("temperature", *temperature)
        }
        _ => object.with("rule", "clip"),
    }
    .text()
}
