//! Rows of data files through a model, in order.

use anyhow::{Result, bail};
use pmfcl::Rows;
use pmfcl_file::{ColumnNames, Model};
use pmfcl_ingest::{
    ColumnSelection, Encoder, Files, Flow, Gaps, IngestError, check_columns, check_labels,
};
use pmfcl_read::{Batch, Source, Wanted};
use pmfcl_terminal::Progress;

/// A batch encoded for the model.
pub(crate) struct Part<'a> {
    pub(crate) source: &'a Source,
    pub(crate) batch: &'a Batch,
    pub(crate) encoder: &'a Encoder<'a>,
    pub(crate) x: &'a [f64],
    pub(crate) width: usize,
}

impl Part<'_> {
    pub(crate) fn rows(&self) -> Result<Rows<'_>, IngestError> {
        Ok(Rows::new(self.x, self.width)?)
    }
}

/// How rows reach a model.
#[derive(Debug, Default)]
pub(crate) struct Streaming<'a> {
    /// Columns in addition to the features.
    pub(crate) extra: Vec<Wanted>,
    /// Columns that are compared with the classes of the model.
    pub(crate) labels: &'a [String],
    /// Whether a row that misses one of the extra columns is left out.
    pub(crate) extra_needed: bool,
    /// Whether a category the model does not know is none of those it knows; otherwise it is an error.
    pub(crate) unknown_as_zero: bool,
    /// What becomes of gaps in features.
    pub(crate) gaps: Gaps,
}

/// Runs every batch through `work` on several threads and gives the results to `take` in the order of the rows.
pub(crate) fn stream<T: Send>(
    model: &Model,
    files: &Files,
    how: Streaming<'_>,
    work: &(dyn Fn(Part<'_>) -> Result<T, IngestError> + Sync),
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    if model.learner.records().is_empty() {
        bail!("the model has no task yet; add one with `pmfcl learn`");
    }
    let files = &files.with_formats(&model.schema)?;
    let Streaming { extra, labels, extra_needed, unknown_as_zero, gaps } = how;
    let filled = !matches!(gaps, Gaps::LeftOut);
    let encoder = Encoder::new(&model.schema, extra, false)
        .with_unknown_as_zero(unknown_as_zero)
        .with_gaps(gaps);
    let width = model.schema.inputs.len();
    let progress = Progress::over(files, "rows");
    let mut failed = None;
    let flow = Flow {
        plan: &|source| {
            check_columns(source, &model.schema, &ColumnSelection::default(), false)?;
            check_labels(source, labels, model.learner.classes(), &ColumnSelection::default())?;
            Ok(encoder.wanted())
        },
        work: &|source, batch| {
            let complete;
            let batch = if extra_needed && filled && !batch.gaps.is_empty() {
                complete = batch.complete_in(model.schema.columns.len()..batch.columns.len());
                &complete
            } else {
                batch
            };
            let encoded = encoder.categories(source, batch)?;
            let mut x = Vec::new();
            encoder.write(batch, &encoded, (0, batch.rows), &mut x);
            work(Part { source, batch, encoder: &encoder, x: &x, width }).map_err(|e| match e {
                IngestError::Core(error) => {
                    let names = ColumnNames::of(&model.schema, &model.learner);
                    IngestError::in_batch(source, batch, &error, &names)
                }
                other => other,
            })
        },
        progress: &|step| progress.step(step),
    };
    files.run(&flow, |part| match take(part) {
        Ok(()) => Ok(true),
        Err(error) => {
            failed = Some(error);
            Ok(false)
        }
    })?;
    failed.map_or(Ok(()), Err)
}
