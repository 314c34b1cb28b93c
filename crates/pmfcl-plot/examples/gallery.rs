//! Draws every chart, easy and hard cases, as SVG and PNG, light and dark.
//!
//! ```text
//! cargo run -p pmfcl-plot --features png --example gallery -- DIRECTORY
//! ```

use std::path::Path;
use std::{env, error, fs};

use pmfcl_plot::{
    Axis, BarGroup, Bars, CellText, Chart, Dash, Front, Grid, HeatMap, Legend, Lines, Mark, Paint,
    Ramp, Rule, Series, Size, Theme, png,
};

fn main() -> Result<(), Box<dyn error::Error>> {
    let directory = env::args().nth(1).ok_or("say into which directory: gallery DIRECTORY")?;
    let directory = Path::new(&directory);
    fs::create_dir_all(directory)?;
    for (name, chart) in charts() {
        for (theme, kind) in [(Theme::Auto, "auto"), (Theme::Light, "light"), (Theme::Dark, "dark")]
        {
            let svg = chart.svg(theme);
            fs::write(directory.join(format!("{name}-{kind}.svg")), &svg)?;
            if theme != Theme::Auto {
                fs::write(directory.join(format!("{name}-{kind}.png")), png(&svg, 1.5)?)?;
            }
        }
    }
    Ok(())
}

/// Deviations larger than the values, on a logarithmic axis.
fn cut_band() -> Lines {
    let values: Vec<f64> = (0..12).map(|k| 3.0 * 0.6_f64.powi(k)).collect();
    let halves: Vec<f64> =
        values.iter().enumerate().map(|(k, v)| v * (0.1 + 0.12 * k as f64)).collect();
    Lines {
        title: "Loss, mean and deviation over ten seeds".into(),
        x: Axis::linear("pass"),
        y: Axis::log("loss"),
        series: vec![Series::from_values("pmfcl", values).with_band(halves)],
        rules: vec![Rule::at_x(6.0, "drift")],
        ..Lines::default()
    }
}

fn cut_whisker() -> Bars {
    Bars {
        title: "Time to learn a task".into(),
        names: vec!["small".into(), "large".into()],
        y: Axis::log("seconds"),
        groups: vec![
            BarGroup::new("pmfcl", [0.1, 2.0]).with_spread([0.2, 0.3]),
            BarGroup::new("others", [1.0, 20.0]).with_spread([0.1, 30.0]),
        ],
        ..Bars::default()
    }
}

fn charts() -> Vec<(&'static str, Chart)> {
    vec![
        ("lines", forgetting().into()),
        ("lines-log", federated().into()),
        ("lines-wide-log", wide_log().into()),
        ("lines-cut-band", cut_band().into()),
        ("bars-cut-whisker", cut_whisker().into()),
        ("lines-42-tasks", many_tasks().into()),
        ("lines-12-series", many_series().into()),
        ("lines-one-point", one_point().into()),
        ("lines-gaps", gaps().into()),
        ("lines-no-data", Lines { title: "Nothing yet".into(), ..Lines::default() }.into()),
        ("front", front().into()),
        ("front-log", front_log().into()),
        ("heat-forgetting", heat_forgetting().into()),
        ("heat-conflict", heat_conflict().into()),
        ("heat-42-tasks", heat_large().into()),
        ("heat-log", heat_log().into()),
        ("bars", bars().into()),
        ("bars-log", bars_log().into()),
        ("bars-signed", bars_signed().into()),
        ("grid", grid().into()),
        ("grid-mixed", grid_mixed().into()),
    ]
}

/// Numbers between 0 and 1 that look random and are the same every time.
fn noise(n: usize) -> f64 {
    let n = (n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (n >> 11) as f64 / (1_u64 << 53) as f64
}

fn forgetting() -> Lines {
    let tasks = ["spring", "summer", "autumn", "winter", "spring again", "summer again"];
    let line = |k: usize, from: f64, slope: f64| {
        (0..6).map(move |i| from + slope * i as f64 + 0.02 * noise(10 * k + i))
    };
    let band = |k: usize| (0..6).map(move |i| 0.01 + 0.02 * noise(100 + 10 * k + i));
    Lines {
        title: "Mean loss over all tasks seen so far".into(),
        x: Axis::names("task", tasks),
        y: Axis::linear("loss (kWh²)"),
        series: vec![
            Series::from_values("pmfcl", line(0, 0.28, 0.002)).with_band(band(0)),
            Series::from_values("joint", line(0, 0.28, 0.002)).with_dash(Dash::Long),
            Series::from_values("fine-tuned", line(2, 0.29, 0.06)).with_band(band(2)),
            Series::from_values("EWC", line(3, 0.30, 0.03)).with_band(band(3)),
        ],
        rules: vec![Rule::at_y(0.42, "target of the operator")],
        ..Lines::default()
    }
}

fn federated() -> Lines {
    let gap = |rate: f64| (1..=60).map(move |i| (f64::from(i), (-rate * f64::from(i)).exp()));
    Lines {
        title: "Gap to pooled training".into(),
        x: Axis::whole("step"),
        y: Axis::log("largest difference (standard deviations)"),
        series: vec![
            Series::new("3 clients", gap(0.35)),
            Series::new("10 clients", gap(0.2)),
            Series::new("100 clients", gap(0.08)),
        ],
        rules: vec![
            Rule::at_x(18.0, "client 7 leaves"),
            Rule::at_x(21.0, "client 9 joins"),
            Rule::at_y(1e-6, "rounding"),
        ],
        ..Lines::default()
    }
}

fn wide_log() -> Lines {
    let points = (0..40).map(|i| {
        let n = 10_f64.powf(1.0 + f64::from(i) / 8.0);
        (n, 1e3 * (n / 10.0).powf(-2.45))
    });
    Lines {
        title: "From 10⁻⁹ to 10³ on two logarithmic axes".into(),
        x: Axis::log("rows"),
        y: Axis::log("error"),
        series: vec![Series::new("", points)],
        ..Lines::default()
    }
}

fn many_tasks() -> Lines {
    let names = (1..=42).map(|i| format!("household {i:02} in the northern district"));
    let line = |k: usize, slope: f64| {
        (0..42).map(move |i| 0.2 + slope * i as f64 + 0.1 * noise(100 * k + i))
    };
    Lines {
        title: "Loss after each of 42 tasks with long names".into(),
        size: Size::new(720.0, 480.0),
        x: Axis::names("task", names),
        y: Axis::linear("loss").from_zero(),
        series: vec![
            Series::from_values("pmfcl with a ledger of all summaries", line(1, 0.0)),
            Series::from_values("fine-tuned on the last task only", line(2, 0.01)),
        ],
        ..Lines::default()
    }
}

fn many_series() -> Lines {
    let line = |k: usize| {
        (0..25_usize).map(move |i| {
            (i as f64, (k as f64 + 1.0) * (0.2 + (i as f64 / 6.0 + k as f64).sin().abs()))
        })
    };
    Lines {
        title: "Twelve series".into(),
        size: Size::new(720.0, 440.0),
        x: Axis::whole("step"),
        y: Axis::linear("loss"),
        series: (0..12).map(|k| Series::new(format!("task {}", k + 1), line(k))).collect(),
        ..Lines::default()
    }
}

fn one_point() -> Lines {
    Lines {
        title: "A single point".into(),
        x: Axis::linear("x"),
        y: Axis::linear("y"),
        series: vec![Series::new("alone", [(3.0, 0.125)]).with_band([0.01])],
        ..Lines::default()
    }
}

fn gaps() -> Lines {
    let values = [2.1e-5, 2.4e-5, f64::NAN, 3.0e-5, f64::INFINITY, 2.2e-5, 2.8e-5, 2.6e-5];
    Lines {
        title:
            "Gaps where values are missing, small numbers, a band, & <markup> in a title that is \
                long enough to need a second line"
                .into(),
        x: Axis::whole("step"),
        y: Axis::linear("forgetting"),
        series: vec![Series::from_values("measured", values).with_band([2e-6; 8])],
        legend: Legend::Below,
        ..Lines::default()
    }
}

fn front() -> Front {
    let at = |w: f64| (0.1 + 0.5 * (1.0 - w).powi(2), 0.15 + 0.7 * w.powi(2));
    let weights = || (0..=50).map(|i| f64::from(i) / 50.0);
    Front::new("spring", "summer", weights().map(at))
        .with_curve("bound", weights().map(|w| (at(w).0 + 0.05, at(w).1 + 0.06)))
        .with_mark(Mark::new("current", at(0.5)))
        .with_mark(Mark::new("knee", at(0.42)))
        .with_mark(Mark::new("min-max", at(0.46)))
        .with_mark(Mark::new("joint", at(0.52)))
        .with_mark(Mark::new("fine-tuned", (0.58, 0.2)))
}

fn front_log() -> Front {
    let weights = (1..50).map(|i| f64::from(i) / 50.0);
    let at =
        |w: f64| (1e-4 * ((1.0 - w) / w).powi(2) + 1e-4, 2e-3 * (w / (1.0 - w)).powi(2) + 1e-3);
    Front {
        title: "Two tasks that barely conflict".into(),
        x: Axis::log("loss of handwritten digits 0–4"),
        y: Axis::log("loss of handwritten digits 5–9"),
        ..Front::new("a", "b", weights.map(at))
    }
    .with_mark(Mark::new("current", at(0.5)))
    .with_mark(Mark::new("knee", at(0.3)))
    .with_mark(Mark::new("fine-tuned", (0.2, 1e-3)))
    .with_mark(Mark::new("first task only", (1e-4, 3.0)))
    .with_mark(Mark::new("replay", (1e-3, 0.1)))
}

fn heat_forgetting() -> HeatMap {
    let tasks: Vec<String> =
        ["spring", "summer", "autumn", "winter", "leap day", "holidays", "heat wave", "frost"]
            .map(String::from)
            .to_vec();
    let cell = |row: usize, column: usize| {
        (column >= row).then(|| 0.012 * (column - row) as f64 * (0.3 + noise(8 * row + column)))
    };
    HeatMap {
        title: "Forgetting of each task over time".into(),
        x_label: "after learning".into(),
        y_label: "task".into(),
        cells: (0..8).map(|row| (0..8).map(|column| cell(row, column)).collect()).collect(),
        rows: tasks.clone(),
        columns: tasks,
        color: Axis::linear("forgetting (kWh²)"),
        ramp: Ramp::Blues,
        text: CellText::Values,
        ..HeatMap::default()
    }
}

fn heat_conflict() -> HeatMap {
    let tasks: Vec<String> = (1..=6).map(|i| format!("task {i}")).collect();
    let value = |a: usize, b: usize| {
        if a == b { 1.0 } else { 1.8 * noise(a.min(b) * 7 + a.max(b)) - 0.9 }
    };
    let stars = |v: f64| ["", "*", "**", "***"][((v.abs() * 4.0) as usize).min(3)].to_owned();
    let square = |f: &dyn Fn(usize, usize) -> f64| -> Vec<Vec<f64>> {
        (0..6).map(|a| (0..6).map(|b| f(a, b)).collect()).collect()
    };
    let values = square(&value);
    HeatMap {
        title: "Conflict between tasks".into(),
        cells: values.iter().map(|row| row.iter().map(|&v| Some(v)).collect()).collect(),
        text: CellText::Given(
            values.iter().map(|row| row.iter().map(|&v| stars(v)).collect()).collect(),
        ),
        rows: tasks.clone(),
        columns: tasks,
        color: Axis::linear("cosine of the gradients"),
        ramp: Ramp::BlueRed,
        ..HeatMap::default()
    }
}

fn heat_large() -> HeatMap {
    let tasks: Vec<String> = (1..=42).map(|i| format!("household {i:02} (north)")).collect();
    HeatMap {
        title: "Forgetting of 42 tasks over time".into(),
        size: Size::new(820.0, 720.0),
        x_label: "after learning".into(),
        y_label: "task".into(),
        cells: (0..42_usize)
            .map(|row| {
                (0..42)
                    .map(|column| (column >= row).then(|| noise(42 * row + column).powi(3)))
                    .collect()
            })
            .collect(),
        rows: tasks.clone(),
        columns: tasks,
        color: Axis::linear("forgetting"),
        text: CellText::Values,
        ..HeatMap::default()
    }
}

fn heat_log() -> HeatMap {
    HeatMap {
        title: "Seconds to solve".into(),
        size: Size::new(640.0, 300.0),
        x_label: "rows".into(),
        y_label: "columns".into(),
        rows: ["10", "100", "1000"].map(String::from).to_vec(),
        columns: ["10³", "10⁴", "10⁵", "10⁶", "10⁷"].map(String::from).to_vec(),
        cells: (0..3)
            .map(|r| (0..5).map(|c| Some(1e-5 * 10_f64.powi(c) * 30_f64.powi(r))).collect())
            .collect(),
        color: Axis::log("seconds"),
        text: CellText::Values,
        ..HeatMap::default()
    }
}

fn bars() -> Bars {
    Bars {
        title: "Accuracy on the test rows".into(),
        names: ["digits", "fashion", "letters", "clothing"].map(String::from).to_vec(),
        x_label: "data".into(),
        y: Axis::linear("accuracy"),
        groups: vec![
            BarGroup::new("pmfcl", [0.97, 0.89, 0.91, 0.86])
                .with_spread([0.004, 0.006, 0.01, 0.02]),
            BarGroup::new("replay", [0.93, 0.84, 0.82, 0.8]).with_spread([0.01, 0.02, 0.03, 0.02]),
            BarGroup::new("fine-tuned", [0.2, 0.31, f64::NAN, 0.27]).with_spread([0.05; 4]),
        ],
        ..Bars::default()
    }
}

fn bars_log() -> Bars {
    Bars {
        title: "Time to learn one more task".into(),
        names: ["100 columns", "1 000 columns", "10 000 columns of a very wide table"]
            .map(String::from)
            .to_vec(),
        y: Axis::log("seconds"),
        groups: vec![
            BarGroup::new("pmfcl", [0.002, 0.3, 41.0]).with_spread([0.0005, 0.05, 3.0]),
            BarGroup::new("from scratch", [0.2, 31.0, 4100.0]).with_spread([0.19, 2.0, 300.0]),
        ],
        ..Bars::default()
    }
}

fn bars_signed() -> Bars {
    let names: Vec<String> = (1..=14).map(|i| format!("feature_{i}")).collect();
    Bars {
        title: "Coefficients".into(),
        y: Axis::linear("coefficient (kWh per unit)"),
        groups: vec![
            BarGroup::new("", (0..14).map(|i| 30_000.0 * (noise(i) - 0.5)))
                .with_spread([2500.0; 14]),
        ],
        names,
        ..Bars::default()
    }
}

fn grid() -> Grid {
    let one = |k: usize| {
        let line = |j: usize, slope: f64| {
            (0..12).map(move |i| {
                (i as f64, 0.3 + slope * i as f64 + 0.03 * noise(40 * k + 13 * j + i))
            })
        };
        Lines {
            title: format!("task {}", k + 1),
            x: Axis::whole("step"),
            y: Axis::linear("loss").from_zero(),
            series: vec![
                Series::new("pmfcl", line(0, -0.01)).with_band([0.02; 12]),
                Series::new("fine-tuned", line(1, 0.03)).with_band([0.04; 12]),
                Series::new("joint", line(2, -0.012)).with_paint(Paint::Ink).with_dash(Dash::Dots),
            ],
            ..Lines::default()
        }
    };
    Grid {
        title: "Loss of each task, step by step".into(),
        charts: (0..6).map(|k| one(k).into()).collect(),
        cell: Size::new(320.0, 230.0),
        ..Grid::default()
    }
}

fn grid_mixed() -> Grid {
    Grid {
        title: "All about one model".into(),
        charts: vec![forgetting().into(), front().into(), heat_conflict().into(), bars().into()],
        cell: Size::new(520.0, 380.0),
        ..Grid::default()
    }
}
