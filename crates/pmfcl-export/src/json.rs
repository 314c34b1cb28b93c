//! A model as one JSON object.
//!
//! Floating-point numbers are written with as many digits as bring back the same bits.

use serde_json::Value;

use crate::object::{Object, list};
use crate::tensors::{self, Cells, Tensor};
use crate::{ExportError, Exported, Input, Output, Rule};

/// Version of the layout below.
const VERSION: u32 = 1;

/// The model as JSON text.
///
/// | entry | holds |
/// | --- | --- |
/// | `format`, `version`, `producer` | `pmfcl-model`, 1, and the version of pmfcl |
/// | `name`, `loss`, `basis` | as given; the basis as its canonical spec, such as `poly:2` |
/// | `inputs` | in order, `{"number": column}` or `{"column": …, "value": …}` for 1 where a text column holds a value |
/// | `features` | names of the columns of the basis |
/// | `targets`, or `classes`, `absent`, `probabilities` | names of outputs; classes without rows; the rule, by name, and its temperature |
/// | `intercept`, `coef` | a number and a list along `features`; a list of each where θ has several columns. No intercept is `null` |
/// | `map` | the numbers of the basis: see [`pmfcl::Parts`] |
///
/// Two classes of a `logistic` model have one list: the log-odds of the second against the first.
///
/// # Errors
/// When the parts of the model do not fit together.
pub fn json(exported: &Exported<'_>) -> Result<String, ExportError> {
    exported.check()?;
    let mut object = Object::default()
        .with("format", "pmfcl-model")
        .with("version", VERSION)
        .with("producer", concat!("pmfcl ", env!("CARGO_PKG_VERSION")))
        .with("name", exported.name)
        .with("loss", exported.loss)
        .with("basis", exported.design.map().basis().to_string())
        .with_text("inputs", &inputs(exported.inputs))
        .with("features", exported.features());
    object = match exported.output {
        Output::Targets(targets) => object.with("targets", targets),
        Output::Classes { classes, rule } => object
            .with("classes", classes)
            .with("absent", absent(exported, classes))
            .with_text("probabilities", &probabilities(rule)),
    };
    if !exported.design.intercept() {
        object = object.with("intercept", Value::Null);
    }
    for tensor in tensors::parameters(exported).iter().rev() {
        let cells = cells(tensor);
        // One column of θ stands by itself.
        object = match cells.as_slice() {
            [one] => object.with_text(tensor.name, one),
            several => object.with_text(tensor.name, &list(several)),
        };
    }
    let mut map = Object::default();
    for tensor in tensors::basis(exported) {
        let name = tensor.name.trim_start_matches("basis.");
        map = map.with_text(name, &list(cells(&tensor)));
    }
    Ok(object.with_text("map", &map.text()).lines())
}

/// Inputs as a list of objects.
pub(crate) fn inputs(inputs: &[Input]) -> String {
    list(inputs.iter().map(|input| match input {
        Input::Number(name) => Object::default().with("number", name.as_str()).text(),
        Input::Category { column, value } => {
            Object::default().with("column", column.as_str()).with("value", value.as_str()).text()
        }
    }))
}

/// Names of the classes without rows.
pub(crate) fn absent(exported: &Exported<'_>, classes: &[String]) -> Vec<String> {
    // Where two classes share a column, neither is absent and the pairs end early.
    let pairs = classes.iter().zip(exported.absent());
    pairs.filter(|(_, absent)| *absent).map(|(class, _)| class.clone()).collect()
}

/// How scores become probabilities.
pub(crate) fn probabilities(rule: Rule) -> String {
    let object = Object::default();
    match rule {
        Rule::Squared => object.with("rule", "clip"),
        Rule::Gaussian { temperature } => {
            object.with("rule", "softmax").with("temperature", temperature)
        }
        Rule::Logistic => object.with("rule", "softmax").with("temperature", 1.0),
    }
    .text()
}

/// The entries along the first dimension, each as JSON.
fn cells(tensor: &Tensor) -> Vec<String> {
    match &tensor.cells {
        Cells::Whole(cells) => cells.iter().map(ToString::to_string).collect(),
        Cells::Floats(cells) => match tensor.shape[..] {
            [_, width] => {
                cells.chunks_exact(width).map(|row| Value::from(row).to_string()).collect()
            }
            _ => cells.iter().map(|cell| Value::from(*cell).to_string()).collect(),
        },
    }
}
