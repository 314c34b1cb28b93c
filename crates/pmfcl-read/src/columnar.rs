//! Columns out of Arrow arrays: what they hold, and their values without a copy where the types
//! agree.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{DataType, Fields, Schema, TimeUnit};

use crate::cells::Words;
use crate::csv::DATE;
use crate::error::cut;
use crate::field::Found;
use crate::gaps::Gaps;
use crate::number::{Reading, Rules};
use crate::scan::Piece;
use crate::{
    Batch, Column, DateFormat, Field, Form, Kind, Missing, Numbers, Options, Place, ReadError,
    Texts, date,
};

/// The columns of a schema.
pub(crate) fn fields(schema: &Fields) -> Vec<Field> {
    schema.iter().map(|f| Field { name: f.name().clone(), kind: kind(f.data_type()) }).collect()
}

/// The columns that pandas wrote as the index of its rows, by the metadata it leaves in Arrow and Parquet schemas. An
/// index that only counts is no column: its entry is an object.
pub(crate) fn index_columns(schema: &Schema) -> Vec<String> {
    let Some(text) = schema.metadata().get("pandas") else { return Vec::new() };
    let Ok(pandas) = serde_json::from_str::<serde_json::Value>(text) else { return Vec::new() };
    let names = pandas["index_columns"].as_array().into_iter().flatten();
    let names = names.filter_map(serde_json::Value::as_str);
    names.filter(|name| schema.column_with_name(name).is_some()).map(str::to_owned).collect()
}

/// What a type holds.
fn kind(data_type: &DataType) -> Kind {
    use DataType as T;
    match data_type {
        t if t.is_numeric() => Kind::Number,
        T::Boolean => Kind::Boolean,
        T::Utf8 | T::LargeUtf8 | T::Utf8View => Kind::Text,
        T::Date32 | T::Date64 | T::Timestamp(_, _) => Kind::Date,
        T::Dictionary(_, value) => match kind(value) {
            Kind::Block { .. } => Kind::Other(data_type.to_string()),
            other => other,
        },
        T::FixedSizeList(item, width) => match (kind(item.data_type()), usize::try_from(*width)) {
            (Kind::Number | Kind::Boolean, Ok(width)) if width > 0 => Kind::Block { width },
            _ => Kind::Other(data_type.to_string()),
        },
        other => Kind::Other(other.to_string()),
    }
}

/// Adds the nulls of a column to the gaps.
fn add_nulls(gaps: &mut Gaps, column: usize, nulls: Option<&NullBuffer>) {
    let Some(nulls) = nulls.filter(|n| n.null_count() > 0) else { return };
    for row in (0..gaps.rows).filter(|&row| nulls.is_null(row)) {
        gaps.mark(row, column, String::new);
    }
}

/// Turns Arrow arrays into columns.
pub(crate) struct Converter {
    pub(crate) file: Arc<str>,
    pub(crate) format: &'static str,
    pub(crate) found: Vec<Found>,
    /// For each of them how its dates are written, where that was said.
    formats: Vec<Option<DateFormat>>,
    rules: Rules,
    pub(crate) missing: Missing,
}

impl Converter {
    /// Checks the forms once, so that converting finds no invalid one.
    pub(crate) fn new(
        file: &Arc<str>,
        format: &'static str,
        found: Vec<Found>,
        options: &Options,
    ) -> Result<Self, ReadError> {
        for f in &found {
            if f.form == Form::Date && f.kind == Kind::Number {
                return Err(ReadError::WrongKind {
                    file: file.to_string(),
                    column: f.name.clone(),
                    kind: f.kind.to_string(),
                    form: "dates",
                });
            }
        }
        let formats = found.iter().map(|f| options.date_format(&f.name).cloned()).collect();
        let (file, rules, missing) = (Arc::clone(file), Rules::of(options), options.missing);
        Ok(Self { file, format, found, formats, rules, missing })
    }

    /// A batch out of the arrays of a piece, one for each column found. Each is converted as soon as it is there, while it is in
    /// the cache.
    pub(crate) fn batch(
        &self,
        piece: &Piece,
        arrays: impl Iterator<Item = Result<ArrayRef, ReadError>>,
    ) -> Result<Batch, ReadError> {
        let mut gaps = Gaps::new(piece.rows);
        let columns = arrays
            .enumerate()
            .map(|(column, array)| {
                let array = &array?;
                if array.len() != piece.rows {
                    return Err(self.damaged("its columns differ in length"));
                }
                self.column(piece, column, array, &mut gaps)
            })
            .collect::<Result<_, _>>()?;
        gaps.finish(&self.file, &self.found, self.missing, piece, columns)
    }

    /// The error for a file that is not what it should be.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> ReadError {
        ReadError::Damaged { file: self.file.to_string(), format: self.format, what: what.into() }
    }

    fn column(
        &self,
        piece: &Piece,
        column: usize,
        array: &ArrayRef,
        gaps: &mut Gaps,
    ) -> Result<Column, ReadError> {
        let form = self.found[column].form;
        let nulls = array.logical_nulls();
        add_nulls(gaps, column, nulls.as_ref());
        match array.data_type() {
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let width = list.value_length() as usize;
                let values = list.values().slice(0, list.len() * width);
                let Some(cells) = numbers(&values) else {
                    return Err(self.damaged("a block of a type without numbers"));
                };
                if let Some(inner) = values.logical_nulls() {
                    for i in (0..inner.len()).filter(|&i| inner.is_null(i)) {
                        gaps.mark(i / width, column, String::new);
                    }
                }
                gaps.infinities(column, &cells, width);
                Ok(Column::Block { width, cells })
            }
            DataType::Dictionary(_, _) => {
                // Each word or number of the dictionary is converted once.
                let dictionary = array.as_any_dictionary();
                let values = dictionary.values();
                let keys = if values.is_empty() {
                    vec![0; array.len()]
                } else {
                    dictionary.normalized_keys()
                };
                let null = |row| nulls.as_ref().is_some_and(|n| n.is_null(row));
                if form == Form::Text {
                    let Some(names) = words(values) else {
                        return Err(self.damaged("a dictionary of a type without words"));
                    };
                    let mut out = Words::with_capacity(keys.len());
                    let mut codes = vec![u32::MAX; names.names.len()];
                    for (row, &key) in keys.iter().enumerate() {
                        if null(row) {
                            out.push_missing();
                            continue;
                        }
                        let name = names.codes[key] as usize;
                        if codes[name] == u32::MAX {
                            codes[name] = out.code(&names.names[name]);
                        }
                        out.push_code(codes[name]);
                    }
                    return Ok(Column::Texts(out.finish()));
                }
                let place = |row| piece.place(row);
                let mut first = vec![0; values.len()];
                for (row, &key) in keys.iter().enumerate().rev() {
                    if !null(row) {
                        first[key] = row;
                    }
                }
                let readings = self.readings(column, values, |key| place(first[key]))?;
                let cells: Vec<f64> = (0..keys.len())
                    .map(|row| if null(row) { 0.0 } else { readings[keys[row]] })
                    .collect();
                gaps.infinities(column, &cells, 1);
                Ok(Column::Numbers(cells.into()))
            }
            _ if form == Form::Text => match words(array) {
                Some(texts) => {
                    for (code, name) in texts.names.iter().enumerate() {
                        if self.rules.is_missing(name.as_bytes()) {
                            let rows = texts.codes.iter().enumerate();
                            rows.filter(|(_, c)| **c as usize == code)
                                .for_each(|(row, _)| gaps.mark(row, column, || name.clone()));
                        }
                    }
                    Ok(Column::Texts(texts))
                }
                None => Err(self.damaged("a column of a type without words")),
            },
            _ => {
                let values = self.readings(column, array, |row| piece.place(row))?;
                gaps.infinities(column, &values, 1);
                Ok(Column::Numbers(values))
            }
        }
    }

    /// The values of an array as numbers or dates; gaps are NaN or have been noted as nulls.
    fn readings(
        &self,
        column: usize,
        array: &ArrayRef,
        place: impl Fn(usize) -> Place,
    ) -> Result<Numbers, ReadError> {
        let found = &self.found[column];
        if let Some(values) = numbers(array) {
            return Ok(values);
        }
        if let Some(values) = days(array) {
            return Ok(values);
        }
        let dated = matches!(found.form, Form::Date);
        let format = self.formats[column].as_ref();
        let read = |text: &[u8]| {
            if dated { self.rules.date(text, format) } else { self.rules.number(text) }
        };
        let wanted = |text: &[u8]| if dated { DATE } else { self.rules.wanted(text) };
        let mut values = Vec::with_capacity(array.len());
        let whole = each_text(array, |row, text| {
            match text.map_or(Reading::Missing, |t| read(t.as_bytes())) {
                Reading::Value(value) => values.push(value),
                Reading::Missing => values.push(f64::NAN),
                Reading::Other => {
                    return Err(ReadError::WrongValue {
                        file: self.file.to_string(),
                        place: place(row),
                        column: found.name.clone(),
                        value: cut(text.unwrap_or_default().as_bytes()),
                        wanted: wanted(text.unwrap_or_default().as_bytes()),
                    });
                }
            }
            Ok(())
        })?;
        if whole { Ok(values.into()) } else { Err(self.damaged("a column of an unexpected type")) }
    }
}

/// The numbers of an array, without a copy if they are float64.
fn numbers(array: &ArrayRef) -> Option<Numbers> {
    fn plain<T: ArrowPrimitiveType>(array: &ArrayRef) -> Numbers
    where
        T::Native: Real,
    {
        let values = array.as_primitive::<T>().values();
        values.iter().map(|v| v.real()).collect::<Vec<f64>>().into()
    }
    fn decimal<T: ArrowPrimitiveType>(array: &ArrayRef, scale: i8) -> Numbers
    where
        T::Native: Real,
    {
        let values = array.as_primitive::<T>().values();
        // Powers of ten are exact up to 22, so that dividing rounds once.
        let (up, down) =
            (10_f64.powi(i32::from(-scale.min(0))), 10_f64.powi(i32::from(scale.max(0))));
        values.iter().map(|v| v.real() * up / down).collect::<Vec<f64>>().into()
    }
    use DataType as T;
    Some(match array.data_type() {
        T::Float64 => Numbers(array.as_primitive::<Float64Type>().values().clone()),
        T::Float32 => plain::<Float32Type>(array),
        T::Float16 => plain::<Float16Type>(array),
        T::Int8 => plain::<Int8Type>(array),
        T::Int16 => plain::<Int16Type>(array),
        T::Int32 => plain::<Int32Type>(array),
        T::Int64 => plain::<Int64Type>(array),
        T::UInt8 => plain::<UInt8Type>(array),
        T::UInt16 => plain::<UInt16Type>(array),
        T::UInt32 => plain::<UInt32Type>(array),
        T::UInt64 => plain::<UInt64Type>(array),
        T::Decimal32(_, scale) => decimal::<Decimal32Type>(array, *scale),
        T::Decimal64(_, scale) => decimal::<Decimal64Type>(array, *scale),
        T::Decimal128(_, scale) => decimal::<Decimal128Type>(array, *scale),
        T::Decimal256(precision, scale) => array
            .as_primitive::<Decimal256Type>()
            .values()
            .iter()
            .map(|v| {
                let text = Decimal256Type::format_decimal(*v, *precision, *scale);
                text.parse().unwrap_or(f64::NAN)
            })
            .collect::<Vec<f64>>()
            .into(),
        T::Boolean => {
            array.as_boolean().values().iter().map(f64::from).collect::<Vec<f64>>().into()
        }
        _ => return None,
    })
}

/// Dates and moments as days since 1970-01-01.
fn days(array: &ArrayRef) -> Option<Numbers> {
    let (ticks, units) = ticks(array)?;
    let per_day = 86_400.0 * units as f64;
    Some(match array.data_type() {
        DataType::Date32 => ticks.iter().map(|&t| t as f64 / 86_400.0).collect::<Vec<f64>>().into(),
        _ => ticks
            .iter()
            .map(|&t| {
                // Whole days apart from the rest: nanoseconds since 1970 are beyond 53 bits.
                let day = 86_400 * units;
                t.div_euclid(day) as f64 + t.rem_euclid(day) as f64 / per_day
            })
            .collect::<Vec<f64>>()
            .into(),
    })
}

/// Dates and moments as ticks since 1970-01-01, and how many ticks are a second.
fn ticks(array: &ArrayRef) -> Option<(Vec<i64>, i64)> {
    fn plain<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> Vec<i64> {
        array.as_primitive::<T>().values().to_vec()
    }
    Some(match array.data_type() {
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>().values();
            (values.iter().map(|&d| i64::from(d) * 86_400).collect(), 1)
        }
        DataType::Date64 => (plain::<Date64Type>(array), 1000),
        DataType::Timestamp(TimeUnit::Second, _) => (plain::<TimestampSecondType>(array), 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            (plain::<TimestampMillisecondType>(array), 1000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            (plain::<TimestampMicrosecondType>(array), 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            (plain::<TimestampNanosecondType>(array), 1_000_000_000)
        }
        _ => return None,
    })
}

/// Goes through the words of an array; false if it has none.
fn each_text(
    array: &ArrayRef,
    mut each: impl FnMut(usize, Option<&str>) -> Result<(), ReadError>,
) -> Result<bool, ReadError> {
    match array.data_type() {
        DataType::Utf8 => {
            array.as_string::<i32>().iter().enumerate().try_for_each(|(i, t)| each(i, t))?;
        }
        DataType::LargeUtf8 => {
            array.as_string::<i64>().iter().enumerate().try_for_each(|(i, t)| each(i, t))?;
        }
        DataType::Utf8View => {
            array.as_string_view().iter().enumerate().try_for_each(|(i, t)| each(i, t))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The values of an array as words: text as it stands, numbers and dates written out.
fn words(array: &ArrayRef) -> Option<Texts> {
    let mut out = Words::with_capacity(array.len());
    let text = each_text(array, |_, text| {
        out.push(text.unwrap_or_default());
        Ok(())
    });
    if matches!(text, Ok(true)) {
        return Some(out.finish());
    }
    match array.data_type() {
        DataType::Boolean => {
            array
                .as_boolean()
                .values()
                .iter()
                .for_each(|v| out.push(if v { "true" } else { "false" }));
        }
        // Whole numbers beyond 2^53 are written from their own digits.
        DataType::Int64 => written::<Int64Type>(array, &mut out),
        DataType::UInt64 => written::<UInt64Type>(array, &mut out),
        _ => {
            if let Some((ticks, units)) = ticks(array) {
                ticks.iter().for_each(|&t| out.push(&date::text(t, units)));
            } else {
                numbers(array)?.iter().for_each(|v| out.push(&v.to_string()));
            }
        }
    }
    Some(out.finish())
}

fn written<T: ArrowPrimitiveType>(array: &ArrayRef, out: &mut Words)
where
    T::Native: ToString,
{
    let array: &PrimitiveArray<T> = array.as_primitive();
    array.values().iter().for_each(|v| out.push(&v.to_string()));
}

/// A value of any width as float64.
trait Real: ArrowNativeType {
    fn real(self) -> f64;
}

macro_rules! real {
    ($($native:ty: $way:expr),*) => {
        $(impl Real for $native {
            #[inline]
            fn real(self) -> f64 {
                let way: fn($native) -> f64 = $way;
                way(self)
            }
        })*
    };
}

real!(
    f32: f64::from, i8: f64::from, i16: f64::from, i32: f64::from, u8: f64::from, u16: f64::from,
    u32: f64::from, i64: |v| v as f64, u64: |v| v as f64, i128: |v| v as f64,
    half::f16: f64::from
);
