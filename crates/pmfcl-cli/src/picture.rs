//! `pmfcl report` and `pmfcl front`: pictures and pages.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use pmfcl_file::{Access, Model, Store};
use pmfcl_plot::Theme;
use pmfcl_report::{Coded, FrontPoint, Pair, Subject, page};
use pmfcl_terminal::{Table, answer, cut, ending_in, ending_of, maybe, note, short, write};
use serde_json::{Value, json};

/// The files a front can be written to.
const FRONTS: &[&str] =
    if cfg!(feature = "png") { &[".svg", ".png", ".csv"] } else { &[".svg", ".csv"] };

/// Write one HTML page that shows what was learned, forgotten and traded off.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  pmfcl report sales.pmf -o report.html")]
pub(crate) struct Report {
    /// The model file.
    model: PathBuf,
    /// The page to write.
    #[arg(
        short,
        long,
        default_value = "report.html",
        value_name = "FILE",
        value_parser = ending_in(&[".html", ".htm"]),
    )]
    output: PathBuf,
}

impl Report {
    pub(crate) fn run(&self) -> Result<()> {
        let bytes = self.write()?;
        let document = json!({ "report": self.output.display().to_string(), "bytes": bytes });
        answer(&document, &format!("report in {}\n", self.output.display()))
    }

    /// Writes the page; gives its size.
    pub(crate) fn write(&self) -> Result<usize> {
        let (mut store, mut model) = Store::open(&self.model, Access::Read)?;
        store.load(&mut model)?;
        let title =
            self.model.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let html = html(&model, &title)?;
        write(&self.output, html.as_bytes())?;
        Ok(html.len())
    }
}

/// The page of a model whose summaries are loaded.
fn html(model: &Model, title: &str) -> Result<String> {
    let (contrasts, words) = (model.contrasts(), model.coding_words());
    let coding = words.as_deref().map(|words| Coded { contrasts: contrasts.as_deref(), words });
    Ok(page(&Subject {
        title,
        learner: &model.learner,
        features: &model.features(),
        targets: model.outputs(),
        coding,
    })?)
}

/// Draw the Pareto front of two tasks, or of two groups of tasks.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pmfcl front sales.pmf january july -o front.svg
  pmfcl front sales.pmf january,february july,august -o front.csv
  pmfcl front sales.pmf january,february:july,august --json")]
pub(crate) struct FrontOf {
    /// The model file.
    model: PathBuf,
    /// A task, or several with commas; or both groups at once, a colon between them.
    a: String,
    /// The other task, or group.
    b: Option<String>,
    /// Write F.svg, F.png or F.csv.
    #[arg(short, long, value_name = "FILE", value_parser = ending_in(FRONTS))]
    output: Option<PathBuf>,
    /// How many points.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(2..=10_000), value_name = "N")]
    points: u16,
}

impl FrontOf {
    pub(crate) fn run(&self) -> Result<()> {
        let (mut store, mut model) = Store::open(&self.model, Access::Read)?;
        store.load(&mut model)?;
        let (a, b) = self.groups(&model)?;
        let (a, b): (Vec<&str>, Vec<&str>) =
            (a.iter().map(String::as_str).collect(), b.iter().map(String::as_str).collect());
        let pair = Pair::of(&model.learner, &a, &b, usize::from(self.points))?;
        if let Some(path) = &self.output {
            let svg = || pair.chart().svg(Theme::Light);
            match ending_of(path, FRONTS) {
                Some(".csv") => write(path, pair.csv().as_bytes())?,
                #[cfg(feature = "png")]
                Some(".png") => write(path, &pmfcl_plot::png(&svg(), 2.0)?)?,
                _ => write(path, svg().as_bytes())?,
            }
            note(&format!("front in {}", path.display()));
        }
        let point =
            |p: &FrontPoint| json!({ "weight": p.weight, "loss_a": p.loss_a, "loss_b": p.loss_b });
        let document = json!({
            "a": pair.a,
            "b": pair.b,
            "points": pair.points.iter().map(point).collect::<Vec<Value>>(),
            "current": { "loss_a": pair.current.0, "loss_b": pair.current.1 },
            "knee": point(&pair.knee),
            "minmax": point(&pair.minmax),
        });
        answer(&document, &words(&pair))
    }

    /// The two groups; a name that is a task as it stands is not taken apart.
    fn groups(&self, model: &Model) -> Result<(Vec<String>, Vec<String>)> {
        let known = |name: &str| model.learner.names().any(|n| n == name);
        let group = |text: &str| -> Vec<String> {
            if known(text) {
                return vec![text.to_owned()];
            }
            text.split(',').map(|name| name.trim().to_owned()).filter(|n| !n.is_empty()).collect()
        };
        match &self.b {
            Some(b) => Ok((group(&self.a), group(b))),
            None => match self.a.split_once(':') {
                Some((a, b)) => Ok((group(a), group(b))),
                None => bail!("name two tasks, or two groups as a,b:c,d"),
            },
        }
    }
}

fn words(pair: &Pair) -> String {
    let mut table = Table::new(
        &format!("Front of {} and {}", cut(&pair.a, 32), cut(&pair.b, 32)),
        &["point", "weight of the first", "its loss", "loss of the second"],
    );
    let mut row = |name: &str, weight: Option<f64>, a: f64, b: f64| {
        table.row([name.to_owned(), maybe(weight), short(a), short(b)]);
    };
    row("current", None, pair.current.0, pair.current.1);
    for (name, p) in [("knee", &pair.knee), ("min-max", &pair.minmax)] {
        row(name, Some(p.weight), p.loss_a, p.loss_b);
    }
    if pair.points.len() > 1 {
        let ends = [
            ("all for the second", pair.points.first()),
            ("all for the first", pair.points.last()),
        ];
        for (name, p) in ends {
            if let Some(p) = p {
                row(name, Some(p.weight), p.loss_a, p.loss_b);
            }
        }
    } else {
        table.note("One model is best for both: the front is a single point, whatever the weight.");
    }
    table.text()
}
