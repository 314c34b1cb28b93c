//! The bundled data: bike rentals per hour, two years, a task for every quarter.

use std::io::Read as _;

use anyhow::{Context as _, Result, bail};

const PACKED: &[u8] = include_bytes!("../data/bike_hourly.csv.gz");

/// Text columns and the categories they hold, one column of zeros and ones for each.
const CATEGORIES: [(&str, &[&str]); 3] = [
    (
        "hour",
        &[
            "h00", "h01", "h02", "h03", "h04", "h05", "h06", "h07", "h08", "h09", "h10", "h11",
            "h12", "h13", "h14", "h15", "h16", "h17", "h18", "h19", "h20", "h21", "h22", "h23",
        ],
    ),
    ("weekday", &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
    ("weather", &["clear", "mist", "rain", "storm"]),
];
const NUMBERS: [&str; 8] =
    ["holiday", "workingday", "temp", "atemp", "hum", "windspeed", "month_sin", "month_cos"];

/// Rows of one quarter.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) x: Vec<f64>,
    pub(crate) y: Vec<f64>,
    /// The rows as they stand in the file, without quarter and split.
    pub(crate) lines: String,
}

/// One quarter: rows to learn from and rows held out.
#[derive(Debug)]
pub(crate) struct Quarter {
    pub(crate) name: String,
    pub(crate) train: Part,
    pub(crate) test: Part,
}

/// Number of features.
pub(crate) fn width() -> usize {
    CATEGORIES.iter().map(|(_, values)| values.len()).sum::<usize>() + NUMBERS.len()
}

/// Names of the features, as a model made from the files calls them.
pub(crate) fn features() -> Vec<String> {
    let hot = CATEGORIES
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |v| format!("{name}={v}")));
    hot.chain(NUMBERS.iter().map(|n| (*n).to_owned())).collect()
}

/// The columns of [`Part::lines`].
pub(crate) fn header() -> String {
    let text = CATEGORIES.iter().map(|(name, _)| *name).chain(NUMBERS);
    text.chain(["rentals"]).collect::<Vec<_>>().join(",")
}

/// Unpacks the bundled file.
pub(crate) fn quarters() -> Result<Vec<Quarter>> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(PACKED).read_to_string(&mut text).context("bundled data")?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers()?.clone();
    let column = |name: &str| {
        headers.iter().position(|h| h == name).with_context(|| format!("no column `{name}`"))
    };
    let categories: Vec<(usize, &[&str])> = CATEGORIES
        .iter()
        .map(|(name, values)| Ok((column(name)?, *values)))
        .collect::<Result<_>>()?;
    let numbers: Vec<usize> = NUMBERS.iter().map(|n| column(n)).collect::<Result<_>>()?;
    let (quarter, split, rentals) = (column("quarter")?, column("split")?, column("rentals")?);
    let mut quarters: Vec<Quarter> = Vec::new();
    for record in reader.records() {
        let record = record?;
        let name = &record[quarter];
        if quarters.last().is_none_or(|q| q.name != name) {
            quarters.push(Quarter {
                name: name.to_owned(),
                train: Part::default(),
                test: Part::default(),
            });
        }
        let Some(last) = quarters.last_mut() else { bail!("no quarter") };
        let part = if &record[split] == "train" { &mut last.train } else { &mut last.test };
        for (at, values) in &categories {
            part.x.extend(values.iter().map(|v| f64::from(u8::from(*v == &record[*at]))));
        }
        for at in &numbers {
            part.x.push(record[*at].parse()?);
        }
        part.y.push(record[rentals].parse()?);
        let cells = categories.iter().map(|(at, _)| *at).chain(numbers.iter().copied());
        let line: Vec<&str> = cells.chain([rentals]).map(|at| &record[at]).collect();
        part.lines.push_str(&line.join(","));
        part.lines.push('\n');
    }
    Ok(quarters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_file_has_eight_quarters_of_17379_hours() {
        let quarters = quarters().unwrap();
        let rows = |p: &Part| p.y.len();
        assert_eq!(quarters.len(), 8);
        assert_eq!(quarters.iter().map(|q| rows(&q.train) + rows(&q.test)).sum::<usize>(), 17_379);
        assert!(quarters.iter().all(|q| q.train.x.len() == rows(&q.train) * width()));
        // Every row has one hour, one weekday, one weather.
        for row in quarters[0].train.x.chunks_exact(width()) {
            assert!((row[..35].iter().sum::<f64>() - 3.0).abs() < 1e-12);
        }
    }
}
