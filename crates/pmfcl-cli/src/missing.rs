//! What becomes of values that rows miss: as a model was made, or as the command says.

use anyhow::{Result, bail};
use pmfcl_file::{MissingValues, Model};
use pmfcl_ingest::Gaps;
use pmfcl_terminal::{OnMissing, Reading};

/// What a command asks for, where it asks for rows with gaps to be learned.
pub(crate) fn asked(way: Option<OnMissing>) -> Option<MissingValues> {
    match way {
        Some(OnMissing::Mean) => Some(MissingValues::Mean),
        Some(OnMissing::Indicator) => Some(MissingValues::Indicator),
        Some(OnMissing::Error | OnMissing::Drop) | None => None,
    }
}

/// The option that a schema file stands for.
pub(crate) fn way(missing: MissingValues) -> OnMissing {
    match missing {
        MissingValues::Refused => OnMissing::Error,
        MissingValues::Mean => OnMissing::Mean,
        MissingValues::Indicator => OnMissing::Indicator,
    }
}

/// Lets a model learn rows with gaps, where that is asked for: from the start, or later, since the rows before had none.
pub(crate) fn set(model: &mut Model, way: Option<OnMissing>) -> Result<()> {
    match asked(way) {
        Some(wanted) => Ok(model.set_missing(wanted)?),
        None => Ok(()),
    }
}

/// What becomes of gaps in rows to be predicted or scored.
pub(crate) fn gaps(model: &Model, reading: &Reading) -> Result<Gaps> {
    let known = model.schema.missing;
    let way = reading.missing();
    let means = || model.learner.input_means();
    match (asked(way), way) {
        (Some(wanted), _) if wanted == known => Ok(Gaps::Filled(means().ok())),
        (Some(MissingValues::Mean), _) if !known.are_learned() => Ok(Gaps::Filled(Some(means()?))),
        (Some(wanted), _) => bail!(
            "the model was made with --missing {known}, not {wanted}; leave it out, or use --missing drop"
        ),
        (None, None) if known.are_learned() => Ok(Gaps::Filled(means().ok())),
        (None, _) => Ok(Gaps::LeftOut),
    }
}

/// Refuses to read rows in another way than the model learned them.
pub(crate) fn check(model: &Model, reading: &Reading) -> Result<()> {
    match asked(reading.missing()) {
        Some(wanted) if wanted != model.schema.missing => bail!(
            "the model was made with --missing {}, not {wanted}; leave it out",
            model.schema.missing
        ),
        _ => Ok(()),
    }
}
