//! Makes pages of several kinds of models, to look at and for the tests in a browser.
//!
//! ```text
//! cargo run -p pmfcl-report --example pages -- DIRECTORY
//! ```

use std::io::Read as _;
use std::path::Path;
use std::{env, error, fs};

use pmfcl::{ClassList, Labels, Learner, MemoryKind, Problem, Rows, Settings, TaskRows};
use pmfcl_report::{Subject, page};

type Result<T> = std::result::Result<T, Box<dyn error::Error>>;

fn main() -> Result<()> {
    let directory = env::args().nth(1).ok_or("say into which directory: pages DIRECTORY")?;
    let directory = Path::new(&directory);
    fs::create_dir_all(directory)?;
    let write = |name: &str, html: String| fs::write(directory.join(name), html);

    let bikes = Bikes::read()?;
    write("bike.html", bikes.page("Bike rentals by quarter", MemoryKind::Ledger)?)?;
    write("compact.html", bikes.page("Bike rentals, compact memory", MemoryKind::Compact)?)?;
    write("gaussian.html", classes("Four classes, gaussian", "gaussian", 4)?)?;
    write("logistic.html", classes("Two classes, logistic", "logistic", 2)?)?;
    write("several.html", several_targets()?)?;
    write("many.html", many_tasks(500)?)?;
    write("one.html", many_tasks(1)?)?;
    write("hostile.html", hostile()?)?;
    Ok(())
}

/// The bundled bike rentals: text columns as one column of zeros and ones for each category.
struct Bikes {
    features: Vec<String>,
    quarters: Vec<(String, Vec<f64>, Vec<f64>)>,
}

impl Bikes {
    fn read() -> Result<Self> {
        let packed: &[u8] = include_bytes!("../../../data/bike_hourly.csv.gz");
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text)?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let headers = reader.headers()?.clone();
        let column = |name: &str| {
            headers.iter().position(|h| h == name).ok_or(format!("no column `{name}`"))
        };
        let records: Vec<csv::StringRecord> =
            reader.records().collect::<std::result::Result<_, _>>()?;
        let mut features = Vec::new();
        let mut categories: Vec<(usize, Vec<String>)> = Vec::new();
        for name in ["hour", "weekday", "weather"] {
            let at = column(name)?;
            let mut values: Vec<String> = records.iter().map(|r| r[at].to_owned()).collect();
            values.sort_unstable();
            values.dedup();
            features.extend(values.iter().map(|value| format!("{name}={value}")));
            categories.push((at, values));
        }
        let mut numbers = Vec::new();
        for name in
            ["holiday", "workingday", "temp", "atemp", "hum", "windspeed", "month_sin", "month_cos"]
        {
            numbers.push(column(name)?);
            features.push(name.to_owned());
        }
        let (quarter, split, rentals) = (column("quarter")?, column("split")?, column("rentals")?);
        let mut quarters: Vec<(String, Vec<f64>, Vec<f64>)> = Vec::new();
        for record in records.iter().filter(|record| &record[split] == "train") {
            if quarters.last().is_none_or(|(name, ..)| *name != record[quarter]) {
                quarters.push((record[quarter].to_owned(), Vec::new(), Vec::new()));
            }
            let Some((_, x, y)) = quarters.last_mut() else { continue };
            for (at, values) in &categories {
                x.extend(values.iter().map(|v| f64::from(u8::from(*v == record[*at]))));
            }
            for at in &numbers {
                x.push(record[*at].parse()?);
            }
            y.push(record[rentals].parse()?);
        }
        Ok(Self { features, quarters })
    }

    fn page(&self, title: &str, memory: MemoryKind) -> Result<String> {
        let mut learner =
            Learner::new(Problem::squared(), Settings { memory, ..Settings::default() })?;
        for (name, x, y) in &self.quarters {
            let x = Rows::new(x, self.features.len())?;
            learner.learn(name, TaskRows::new(x, Rows::new(y, 1)?), 1.0)?;
        }
        Ok(page(&Subject {
            title,
            learner: &learner,
            features: &self.features,
            targets: &["rentals".to_owned()],
            coding: None,
        })?)
    }
}

/// Numbers around zero that look random and are the same every time.
struct Draw(u64);

impl Draw {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Nearly normal, with variance one.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A classifier of drifting classes, one task a month; some months lack a class.
fn classes(title: &str, loss: &str, count: usize) -> Result<String> {
    const FEATURES: usize = 6;
    let names: Vec<String> =
        ["ash", "birch", "cedar", "dogwood"][..count].iter().map(|&n| n.into()).collect();
    let problem = Problem::parse(loss, Some(ClassList::Fixed(names.clone())))?;
    let mut learner = Learner::new(problem, Settings::default())?;
    let mut draw = Draw(7);
    let months = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
    ];
    for (month, name) in months.into_iter().enumerate() {
        let (mut x, mut codes) = (Vec::new(), Vec::new());
        for _ in 0..240 + 40 * (month % 4) {
            let class = ((draw.uniform() * count as f64) as usize).min(count - 1);
            if count > 2 && month < 3 && class == 3 {
                continue;
            }
            for j in 0..FEATURES {
                let centre = if j % count == class { 1.4 } else { 0.0 };
                let drift = if j == month % FEATURES { 0.25 * month as f64 } else { 0.0 };
                x.push(centre + drift + draw.normal());
            }
            codes.push(class as u32);
        }
        let labels = Labels::from_codes(&codes, &names)?;
        learner.learn(name, TaskRows::new(Rows::new(&x, FEATURES)?, &labels), 1.0)?;
    }
    let features: Vec<String> =
        ["height", "girth", "leaf length", "leaf width", "bark depth", "crown spread"]
            .map(String::from)
            .to_vec();
    Ok(page(&Subject {
        title,
        learner: &learner,
        features: &features,
        targets: learner.classes(),
        coding: None,
    })?)
}

fn several_targets() -> Result<String> {
    let mut learner = Learner::new(Problem::squared(), Settings::default())?;
    let mut draw = Draw(11);
    for (t, site) in ["north", "east", "south", "west", "harbour"].into_iter().enumerate() {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..150 {
            let row: Vec<f64> = (0..4).map(|_| draw.normal()).collect();
            let tilt = 0.3 * t as f64;
            y.push(2.0 * row[0] - (1.0 + tilt) * row[1] + 0.5 * draw.normal());
            y.push(30.0 + row[2] * (1.0 - tilt) + draw.normal());
            y.push(0.01 * row[3] + 0.02 * draw.normal());
            x.extend(row);
        }
        learner.learn(site, TaskRows::new(Rows::new(&x, 4)?, Rows::new(&y, 3)?), 1.0)?;
    }
    let names = |list: &[&str]| list.iter().map(|&n| n.to_owned()).collect::<Vec<String>>();
    Ok(page(&Subject {
        title: "Three targets at five sites",
        learner: &learner,
        features: &names(&["wind", "pressure", "humidity", "cloud cover"]),
        targets: &names(&["load (kW)", "temperature (°C)", "rain (mm)"]),
        coding: None,
    })?)
}

fn many_tasks(count: usize) -> Result<String> {
    let mut learner = Learner::new(Problem::squared(), Settings::default())?;
    let mut draw = Draw(3);
    for t in 0..count {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            let row: Vec<f64> = (0..8).map(|_| draw.normal()).collect();
            let slope = 1.0 + 0.4 * (t as f64 / 40.0).sin();
            y.push(slope * row[0] - row[3] + 0.3 * draw.normal());
            x.extend(row);
        }
        let rows = TaskRows::new(Rows::new(&x, 8)?, Rows::new(&y, 1)?);
        learner.learn(&format!("household {:03}", t + 1), rows, 1.0)?;
    }
    let features: Vec<String> = (1..=8).map(|j| format!("meter {j}")).collect();
    Ok(page(&Subject {
        title: if count == 1 { "One household" } else { "Many households" },
        learner: &learner,
        features: &features,
        targets: &["kWh".to_owned()],
    })?)
}

/// Names that try to be more than names.
fn hostile() -> Result<String> {
    let mut learner = Learner::new(Problem::squared(), Settings::default())?;
    let mut draw = Draw(5);
    let tasks = [
        "<img src=x onerror=\"document.title='broken'\">",
        "</script><script>document.title='broken'</script>",
        "\u{202e}reversed & 'quoted' \"twice\"",
        "a name that is long enough to need more room than any chart of this page could ever give to it",
        " ",
    ];
    for (t, name) in tasks.into_iter().enumerate() {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            let row = [draw.normal(), draw.normal()];
            y.push(row[0] * (1.0 + t as f64) + 0.2 * draw.normal());
            x.extend(row);
        }
        learner.learn(name, TaskRows::new(Rows::new(&x, 2)?, Rows::new(&y, 1)?), 1.0)?;
    }
    Ok(page(&Subject {
        title: "</title><script>document.title='broken'</script>",
        learner: &learner,
        features: &["<b>bold</b>".to_owned(), "]]>--><!--".to_owned()],
        targets: &["'\"><script>document.title='broken'</script>".to_owned()],
        coding: None,
    })?)
}
