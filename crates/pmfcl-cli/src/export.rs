//! `pmfcl export`: weights for other runtimes.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl_export::{Exported, Input as ExportInput, json as to_json, onnx, safetensors};
use pmfcl_file::{Access, Input, Store};
use pmfcl_terminal::{answer, ending_in, ending_of, write};
use serde_json::json;

/// The files a model can be exported to.
const EXPORTS: &[&str] = &[".onnx", ".safetensors", ".json"];

/// Export a model as ONNX, safetensors or JSON.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl export sales.pmf -o sales.onnx
  pmfcl export sales.pmf -o sales.safetensors
  pmfcl export sales.pmf -o sales.json")]
pub(crate) struct Export {
    /// The model file.
    model: PathBuf,
    /// F.onnx, F.safetensors or F.json.
    #[arg(short, long, value_name = "FILE", value_parser = ending_in(EXPORTS))]
    output: PathBuf,
}

impl Export {
    pub(crate) fn run(&self) -> Result<()> {
        let (_, model) = Store::open(&self.model, Access::Read)?;
        let features = model.schema.features();
        let column = |at: &usize| model.schema.columns[*at].name.clone();
        let inputs: Vec<ExportInput> = model
            .schema
            .inputs
            .iter()
            .zip(&features)
            .map(|(input, name)| match input {
                Input::Category { column: at, value } => {
                    ExportInput::Category { column: column(at), value: value.clone() }
                }
                Input::Missing { column: at } => ExportInput::Missing { column: column(at) },
                Input::Value { .. } | Input::Part { .. } => ExportInput::Number(name.clone()),
            })
            .collect();
        let name =
            self.model.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        if model.learner.records().is_empty() {
            bail!("{}: the model has learned nothing yet", self.model.display());
        }
        let exported = Exported::of(&name, &inputs, &model.learner, &model.schema.targets)?;
        let bytes = match ending_of(&self.output, EXPORTS) {
            Some(".safetensors") => safetensors(&exported)?,
            Some(".json") => to_json(&exported)?.into_bytes(),
            _ => onnx(&exported)?,
        };
        write(&self.output, &bytes)?;
        let document = json!({ "file": self.output.display().to_string(), "bytes": bytes.len() });
        answer(&document, &format!("{} ({} bytes)\n", self.output.display(), bytes.len()))
    }
}
