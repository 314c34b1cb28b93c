//! A model as an ONNX file: columns in, predictions or classes and probabilities out, in double precision throughout.
//!
//! Only operators of the standard domain are used, all of which onnxruntime's CPU provider has for doubles.

mod basis;
mod columns;
mod graph;
mod outputs;
mod proto;

use std::ops::RangeInclusive;

use serde_json::Value;

use crate::json::inputs;
use crate::object::{Object, list};
use crate::outputs::entries;
use crate::{ExportError, Exported};
use columns::{Columns, NUMBERS, columns};
use graph::Graph;
use outputs::{LABEL, PROBABILITIES, TARGETS, outputs};
use proto::Message;

/// The opset [`onnx()`] writes: the newest that onnxruntime 1.31 knows (onnx 1.23 knows 28).
pub const OPSET: u32 = 26;

/// The opsets [`onnx_for`] writes. Comparing text came with 19; the operators used have not changed their meaning since.
pub const OPSETS: RangeInclusive<u32> = 19..=OPSET;

/// Version of the file layout: that of opset 19. What later ones added is not used, so older readers are not shut out.
const IR_VERSION: i64 = 9;

/// Protocol buffers end at 2 GiB.
const MOST: usize = i32::MAX as usize;

/// The model as an ONNX file of opset [`OPSET`].
///
/// | input | type | |
/// | --- | --- | --- |
/// | `X` | double, rows × columns of numbers | left out where there are none; NaN is a missing value in columns that missed some when the model learned, and makes the result NaN in others |
/// | name of a text column | string, rows × 1 | a value that is no category of the model ends the run with an error, as in `pmfcl predict` |
///
/// | output | type | |
/// | --- | --- | --- |
/// | `Y` | double, rows × targets | values; rates where the link is `exp` |
/// | `label` | string, rows | classes: the one of the largest score |
/// | `probabilities` | double, rows × classes | classes |
///
/// A text column whose name the graph needs itself (`X`, `label`, …) gets a number behind its name. Metadata holds the
/// names: `numbers` (columns of `X`), `texts` (input and column of each), `inputs`, `features`, `targets` and `link` or
/// `classes`, `absent` and `probabilities`, and `basis`, `loss`; all but plain words is JSON. Where there is text, `unknown_category` is `error`: the graph then asks
/// `Gather` for a place that does not exist, in a node `unknown_category_in_…` that the runtime names. The standard declares
/// that an error and onnxruntime's CPU kernels check it; a runtime that does not would count the category as none.
///
/// # Errors
/// When the parts of the model do not fit together, or the file would be larger than 2 GiB.
pub fn onnx(exported: &Exported<'_>) -> Result<Vec<u8>, ExportError> {
    onnx_for(exported, OPSET)
}

/// As [`onnx()`], for a runtime that knows opsets up to an older one only. The graph is the same.
///
/// # Errors
/// As [`onnx()`]; also when the opset is not one of [`OPSETS`].
pub fn onnx_for(exported: &Exported<'_>, opset: u32) -> Result<Vec<u8>, ExportError> {
    exported.check()?;
    if !OPSETS.contains(&opset) {
        return Err(ExportError::Opset { opset, least: *OPSETS.start(), most: *OPSETS.end() });
    }
    let mut graph = Graph::new(&[NUMBERS, TARGETS, LABEL, PROBABILITIES]);
    let columns = columns(&mut graph, exported.inputs);
    let value = filled(&mut graph, &columns.value, exported);
    let features = basis::basis(&mut graph, &value, &exported.design.map().parts());
    outputs(&mut graph, &features, exported);
    let name = if exported.name.is_empty() { "model" } else { exported.name };
    let doc = describe(exported, &columns);
    let metadata: Vec<Message> = metadata(exported, &columns)
        .into_iter()
        // field: 1 key, 2 value
        .map(|(key, value)| Message::default().text(1, key).text(2, &value))
        .collect();
    // field: 1 domain, 2 version; the standard domain has no name
    let operators = Message::default().text(1, "").whole(2, i64::from(opset));
    // field: 1 ir_version, 2 producer_name, 3 producer_version, 6 doc_string, 7 graph, 8 opset_import,
    // 14 metadata_props
    let bytes = Message::default()
        .whole(1, IR_VERSION)
        .text(2, "pmfcl")
        .text(3, env!("CARGO_PKG_VERSION"))
        .text(6, &doc)
        .message(7, &graph.finish(name))
        .message(8, &operators)
        .messages(14, &metadata)
        .finish();
    if bytes.len() > MOST {
        let model = exported.name.to_owned();
        return Err(ExportError::TooLarge { model, format: "ONNX", most: MOST });
    }
    Ok(bytes)
}

/// The model's inputs with means in their gaps, where it has any: a matrix that adds them, and drops the indicators.
fn filled(graph: &mut Graph, value: &str, exported: &Exported<'_>) -> String {
    let fills = exported.design.fills();
    if fills.is_empty() {
        return value.to_owned();
    }
    let count = exported.inputs.len();
    let mut cells = vec![0.0; count * count];
    (0..count).for_each(|j| cells[j * count + j] = 1.0);
    for fill in fills {
        cells[fill.indicator * count + fill.indicator] = 0.0;
        cells[fill.indicator * count + fill.value] = exported.means[fill.value];
    }
    let matrix = graph.numbers("means", &[count, count], &cells);
    columns::product(graph, value, &matrix, count)
}

/// A sentence or two for people.
fn describe(exported: &Exported<'_>, columns: &Columns<'_>) -> String {
    let classes = &exported.parameters.classes;
    let mut doc = if classes.is_empty() {
        format!("Predicts {}.", exported.targets.join(", "))
    } else {
        format!("Tells apart {}.", classes.join(", "))
    };
    if !columns.numbers.is_empty() {
        doc += &format!(" Columns of {NUMBERS}: {}.", columns.numbers.join(", "));
    }
    for text in &columns.texts {
        doc += &format!(" Text {}: the column {}.", text.input, text.column);
    }
    if !columns.texts.is_empty() {
        doc += " A category the model does not know is an error.";
    }
    doc + &format!(" Basis {}, loss {}.", exported.design.map().basis(), exported.loss)
}

/// Names and settings for programs.
fn metadata(exported: &Exported<'_>, columns: &Columns<'_>) -> Vec<(&'static str, String)> {
    let texts = columns.texts.iter().map(|text| {
        Object::default().with("input", text.input.as_str()).with("column", text.column).text()
    });
    let mut all = vec![
        ("basis", exported.design.map().basis().to_string()),
        ("loss", exported.loss.clone()),
        ("numbers", Value::from(columns.numbers.clone()).to_string()),
        ("texts", list(texts)),
        ("inputs", inputs(exported.inputs)),
        ("features", Value::from(exported.features()).to_string()),
    ];
    if !columns.texts.is_empty() {
        all.push(("unknown_category", "error".to_owned()));
    }
    all.extend(entries(exported).into_iter().map(|(name, entry)| (name, entry.text())));
    all
}
