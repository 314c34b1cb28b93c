//! What can stand in the way of an export.

/// A model that cannot be written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// Two counts that must agree do not.
    #[error("the model `{model}` has {expected} {what}, but {found} were given: give one for each")]
    Count {
        /// The model's name.
        model: String,
        /// What is counted: names of inputs, of targets, …
        what: &'static str,
        /// As many as the model has.
        expected: usize,
        /// As many as there are.
        found: usize,
    },
    /// A parameter that is NaN or infinite.
    #[error("parameter {row} of column {column} in the model `{model}` is {value}: learn it again")]
    NotFinite {
        /// The model's name.
        model: String,
        /// Row of θ, from 0.
        row: usize,
        /// Column of θ, from 0.
        column: usize,
        /// The value.
        value: f64,
    },
    /// A way to predict that the formats do not know.
    #[error(
        "the model `{model}` predicts by {response}, which cannot be written: use a newer version of pmfcl-export"
    )]
    Response {
        /// The model's name.
        model: String,
        /// How it predicts.
        response: String,
    },
    /// A model that scales long rows down before it predicts.
    #[error(
        "the model `{model}` scales rows down to the bound it was learned under, which the formats do not write: predict with pmfcl"
    )]
    Clipped {
        /// The model's name.
        model: String,
    },
    /// Larger than the format allows.
    #[error(
        "the model `{model}` would take more than {most} bytes of {format}: take a smaller basis, or another format"
    )]
    TooLarge {
        /// The model's name.
        model: String,
        /// Name of the format, or of the part of it that is limited.
        format: &'static str,
        /// The limit.
        most: usize,
    },
    /// An ONNX opset this crate does not write.
    #[error("opset {opset} cannot be written: choose one from {least} to {most}")]
    Opset {
        /// What was asked for.
        opset: u32,
        /// The oldest.
        least: u32,
        /// The newest.
        most: u32,
    },
    /// The model itself has nothing to give.
    #[error(transparent)]
    Model(#[from] pmfcl::Error),
}
