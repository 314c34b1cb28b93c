//! Predictions as columns: Parquet and Arrow.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::Arc;

use anyhow::Result;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use super::{ColumnarWriter, Columns, Predicted, REASON};

/// A Parquet file.
pub(super) fn parquet(file: File, columns: &Columns) -> Result<Box<dyn ColumnarWriter>> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(group_rows(columns)))
        .build();
    Ok(Box::new(ArrowWriter::try_new(file, schema(columns), Some(properties))?))
}

/// An Arrow file.
pub(super) fn arrow(file: BufWriter<File>, columns: &Columns) -> Result<Box<dyn ColumnarWriter>> {
    Ok(Box::new(FileWriter::try_new(file, &schema(columns))?))
}

impl ColumnarWriter for ArrowWriter<File> {
    fn put(&mut self, columns: &Columns, part: &Predicted) -> Result<()> {
        Ok(self.write(&batch(columns, part)?)?)
    }

    fn end(self: Box<Self>) -> Result<()> {
        self.close()?;
        Ok(())
    }
}

impl ColumnarWriter for FileWriter<BufWriter<File>> {
    fn put(&mut self, columns: &Columns, part: &Predicted) -> Result<()> {
        Ok(self.write(&batch(columns, part)?)?)
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.finish()?;
        Ok(self.get_mut().flush()?)
    }
}

fn schema(columns: &Columns) -> SchemaRef {
    let texts = columns.id.iter().chain(&columns.class);
    let texts = texts.map(|name| Field::new(name, DataType::Utf8, true));
    let numbers = columns.numbers.iter().map(|name| Field::new(name, DataType::Float64, true));
    let reason = columns.reason.then(|| Field::new(REASON, DataType::Utf8, true));
    Arc::new(Schema::new(texts.chain(numbers).chain(reason).collect::<Vec<_>>()))
}

/// Rows in a row group of Parquet, which is held in memory until it is whole: about 32 MB.
fn group_rows(columns: &Columns) -> usize {
    ((1 << 22) / columns.names().count().max(1)).clamp(1, 1 << 20)
}

fn batch(columns: &Columns, part: &Predicted) -> Result<RecordBatch> {
    let (places, width) = (part.places(), columns.numbers.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(width + 3);
    if columns.id.is_some() {
        arrays.push(Arc::new(part.ids.iter().map(Some).collect::<StringArray>()));
    }
    if columns.class.is_some() {
        let classes = places.iter().map(|place| place.map(|at| part.classes[at].as_str()));
        arrays.push(Arc::new(classes.collect::<StringArray>()));
    }
    for k in 0..width {
        let numbers = places.iter().map(|place| place.and_then(|at| part.numbers[at * width + k]));
        arrays.push(Arc::new(numbers.collect::<Float64Array>()));
    }
    if columns.reason {
        let reasons = (0..part.rows).map(|row| part.reasons.get(&row));
        arrays.push(Arc::new(reasons.collect::<StringArray>()));
    }
    Ok(RecordBatch::try_new(schema(columns), arrays)?)
}
