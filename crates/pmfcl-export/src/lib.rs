//! Weights for other runtimes: a learned model as ONNX, safetensors or JSON.
//!
//! | format | what it holds | who reads it |
//! | --- | --- | --- |
//! | [`onnx`] | the whole way from columns to predictions, classes and probabilities | any ONNX runtime |
//! | [`safetensors`] | coefficients and the numbers of the basis as tensors, names as metadata | NumPy and the rest of Python |
//! | [`json`] | the same as text | everything |
//!
//! An [`Exported`] says what goes out; the three functions write it. The same model gives the same bytes, whenever
//! and wherever it is written.
//!
//! ```
//! use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
//! use pmfcl_export::{Exported, Input};
//!
//! let mut learner = Learner::new(Problem::squared(), Settings::default())?;
//! let (x, y) = (Rows::new(&[1.0, 2.0, 3.0], 1)?, Rows::new(&[2.0, 4.1, 5.9], 1)?);
//! learner.learn("spring", TaskRows::new(x, y), 1.0)?;
//!
//! let (inputs, targets) = ([Input::Number("hours".into())], ["cost".to_owned()]);
//! let model = Exported::of("costs", &inputs, &learner, &targets)?;
//! let bytes = pmfcl_export::onnx(&model)?;
//! assert!(bytes.len() > 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! pmfcl refuses inputs that are missing, infinite or without a finite image, by row and column; a graph cannot refuse. It
//! answers such a row with NaN, an infinity, or a class and probabilities that mean nothing: look at the inputs first.

#![warn(clippy::unwrap_used)]
#![expect(clippy::cast_possible_wrap, reason = "numbers of columns fit in 63 bits")]

mod error;
mod exported;
mod json;
mod object;
mod onnx;
mod outputs;
mod safetensors;
mod tensors;

pub use error::ExportError;
pub use exported::{Exported, Input};
pub use json::json;
pub use onnx::{OPSET, OPSETS, onnx, onnx_for};
pub use safetensors::safetensors;
