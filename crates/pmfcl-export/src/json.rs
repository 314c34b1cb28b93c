//! A model as one JSON object.
//!
//! Floating-point numbers are written with as many digits as bring back the same bits.

use serde_json::Value;

use crate::object::{Object, list};
use crate::outputs::entries;
use crate::tensors::{self, Cells, Tensor};
use crate::{ExportError, Exported, Input};

/// Version of the layout below; 2 has `link`.
const VERSION: u32 = 2;

/// The model as JSON text.
///
/// | entry | holds |
/// | --- | --- |
/// | `format`, `version`, `producer` | `pmfcl-model`, 2, and the version of pmfcl |
/// | `name`, `loss`, `basis` | the model's name; loss and basis with their parameters, such as `huber:1.5` and `poly:2` |
/// | `inputs` | in order, `{"number": column}`, `{"column": …, "value": …}` for 1 where a text column holds a value, or `{"missing": column}` for 1 where a column holds nothing and its other inputs are 0 |
/// | `features` | names of the columns of the basis |
/// | `targets`, `link` | names of the values; `identity`, or `exp` where a value is the exponential of its linear predictor |
/// | `limits` | for `auto`: the smallest and the largest predictor of each value; one beyond counts as the nearer of the two |
/// | or `classes`, `absent`, `probabilities` | their names; those without rows, which score −∞; the rule, `clip` or `softmax`, and its temperature |
/// | `intercept`, `coef` | a number and a list along `features`; a list of each where θ has several columns. No intercept is `null` |
/// | `map` | the numbers of the basis: see [`pmfcl::Parts`] |
///
/// Two classes of a `logistic` model have one list: the log-odds of the second against the first, which scores 0.
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
        .with("loss", exported.loss.as_str())
        .with("basis", exported.design.map().basis().to_string())
        .with_text("inputs", &inputs(exported.inputs))
        .with("features", exported.features());
    for (name, entry) in entries(exported) {
        object = object.with_text(name, &entry.json());
    }
    if !exported.design.intercept() {
        object = object.with("intercept", Value::Null);
    }
    for tensor in tensors::parameters(exported).iter().rev() {
        let cells = cells(tensor);
        // One column of θ stands by itself.
        object = match cells.as_slice() {
            [one] => object.with_text(&tensor.name, one),
            several => object.with_text(&tensor.name, &list(several)),
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
        Input::Missing { column } => Object::default().with("missing", column.as_str()).text(),
    }))
}

/// The entries along the first dimension, each as JSON.
fn cells(tensor: &Tensor) -> Vec<String> {
    match &tensor.cells {
        Cells::Whole(cells) => match tensor.shape[..] {
            [_, width] => {
                let row = |row: &[i64]| list(row.iter().map(ToString::to_string));
                cells.chunks_exact(width).map(row).collect()
            }
            _ => cells.iter().map(ToString::to_string).collect(),
        },
        Cells::Floats(cells) => match tensor.shape[..] {
            [_, width] => {
                cells.chunks_exact(width).map(|row| Value::from(row).to_string()).collect()
            }
            _ => cells.iter().map(|cell| Value::from(*cell).to_string()).collect(),
        },
    }
}
