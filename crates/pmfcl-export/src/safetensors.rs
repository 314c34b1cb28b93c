//! A model as a safetensors file: the length of a header, the header as JSON, and the numbers as they lie in memory.
//!
//! Everything is eight bytes wide, so with a header padded to a multiple of eight all numbers are aligned.

use serde_json::Value;

use crate::json::inputs;
use crate::object::Object;
use crate::outputs::entries;
use crate::tensors::{self, Cells};
use crate::{ExportError, Exported};

/// The longest header the format's readers accept.
const MOST: usize = 100_000_000;

/// The model as a safetensors file.
///
/// Tensors: `coef` (columns of θ × features), `intercept` where there is one, and the numbers of the basis as
/// `basis.…` (see [`pmfcl::Parts`]). Metadata: what [`json`](crate::json()) holds in addition to numbers, under the same names; all
/// but plain words is JSON.
///
/// # Errors
/// When the parts of the model do not fit together, or names fill more than 100 MB.
pub fn safetensors(exported: &Exported<'_>) -> Result<Vec<u8>, ExportError> {
    exported.check()?;
    let mut header = Object::default().with_text("__metadata__", &metadata(exported));
    let mut data: Vec<u8> = Vec::new();
    for tensor in tensors::parameters(exported).into_iter().chain(tensors::basis(exported)) {
        let from = data.len();
        let kind = match tensor.cells {
            Cells::Floats(cells) => {
                data.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
                "F64"
            }
            Cells::Whole(cells) => {
                data.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
                "I64"
            }
        };
        let entry = Object::default()
            .with("dtype", kind)
            .with("shape", tensor.shape)
            .with("data_offsets", vec![from, data.len()]);
        header = header.with_text(&tensor.name, &entry.text());
    }
    let mut header = header.text().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    if header.len() > MOST {
        let model = exported.name.to_owned();
        return Err(ExportError::TooLarge { model, format: "safetensors header", most: MOST });
    }
    let length = (header.len() as u64).to_le_bytes();
    Ok([&length, header.as_slice(), &data].concat())
}

/// Names and settings: text by text, as the format wants it.
fn metadata(exported: &Exported<'_>) -> String {
    let mut object = Object::default()
        .with("format", "pmfcl-model")
        .with("producer", concat!("pmfcl ", env!("CARGO_PKG_VERSION")))
        .with("name", exported.name)
        .with("loss", exported.loss.as_str())
        .with("basis", exported.design.map().basis().to_string())
        .with("inputs", inputs(exported.inputs))
        .with("features", Value::from(exported.features()).to_string());
    for (name, entry) in entries(exported) {
        object = object.with(name, entry.text());
    }
    object.text()
}
