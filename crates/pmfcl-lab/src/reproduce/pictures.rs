//! The figures.

use pmfcl_plot::{
    Axis, BarGroup, Bars, Chart, Dash, Front, Grid, Legend, Lines, Mark, Marker, Paint, Rule,
    Series, Size,
};

use super::Outcome;
use super::claims;
use super::fronts::Corner;
use super::logistic::Learns;
use super::number::short;
use super::roster::{Look, Who};
use super::spread::Spread;
use super::study::Study;
use super::trial::Measure;

/// A picture, drawn for wide and for narrow screens.
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) caption: String,
    pub(super) wide: Chart,
    pub(super) narrow: Chart,
    pub(super) timed: bool,
}

impl Figure {
    /// Panels side by side where there is room, below each other where not.
    fn of(
        name: &'static str,
        title: &'static str,
        caption: &str,
        panels: &[Chart],
        columns: usize,
    ) -> Self {
        let grid = |columns: usize, cell: Size, title: &str| -> Chart {
            Grid { title: title.into(), charts: panels.to_vec(), columns, cell, ..Grid::default() }
                .into()
        };
        Self {
            name,
            title,
            caption: caption.to_owned(),
            wide: grid(columns, Size::new(1180.0 / columns as f64, 340.0), title),
            narrow: grid(1, Size::new(350.0, 300.0), ""),
            timed: false,
        }
    }

    /// The wide picture without its title, for a page that has it as a heading.
    pub(super) fn untitled(&self) -> Chart {
        match self.wide.clone() {
            Chart::Grid(grid) => Grid { title: String::new(), ..grid }.into(),
            other => other,
        }
    }
}

/// All figures, in the order of the page.
pub(super) fn all(outcome: &Outcome) -> Vec<Figure> {
    let main = &outcome.studies[0];
    let paper =
        [Who::Pmf, Who::Sgd, Who::Er, Who::Der, Who::Si, Who::PmfDecay, Who::Last, Who::Joint];
    let further = [
        Who::Pmf,
        Who::PmfRidge,
        Who::DerPlus,
        Who::Ewc,
        Who::Agem,
        Who::ErSmall,
        Who::Icl,
        Who::Projection,
    ];
    vec![
        Figure::of(
            "accuracy",
            "The paper's experiment: ten drifting tasks",
            &format!(
                "{}; {} trials, bands ±1 standard deviation. Colours as in the paper: red PMF-CL, blue SGD, green ER, orange \
                 DER, purple SI; decay, last task only and joint training are added. In (c) PMF-CL leaves the picture after the last task: it is \
                 then at {}.",
                main.setting.words(),
                main.trials.len(),
                short(main.last(Who::Pmf, Measure::ToAll))
            ),
            &accuracy(main, &paper),
            2,
        ),
        Figure::of(
            "further-methods",
            "The same with methods the paper leaves out",
            "As above, with PMF-CL again for comparison.",
            &accuracy(main, &further),
            2,
        ),
        small_multiples(
            outcome,
            "settings-cumulative",
            "Test error over all tasks so far, in every setting",
            Measure::Cumulative,
            &[Who::Pmf, Who::Sgd, Who::Er, Who::Der, Who::Si, Who::Ewc, Who::Last],
        ),
        small_multiples(
            outcome,
            "settings-current",
            "Test error on the task just learned, in every setting",
            Measure::Current,
            &[Who::Pmf, Who::Sgd, Who::Si, Who::PmfDecay, Who::Last],
        ),
        cost(outcome),
        figure_1(outcome),
        figure_2(outcome),
        two_classes(outcome),
        federated(outcome),
    ]
}

/// A method's line: means with bands.
fn series(name: &str, look: Look, spread: &[Spread]) -> Series {
    // What ran away is left out of the picture; tables say so.
    let points = spread.iter().enumerate().map(|(k, s)| ((k + 1) as f64, s.mean));
    Series::new(name, points)
        .with_band(spread.iter().map(|s| s.std))
        .with_paint(look.paint)
        .with_dash(look.dash)
        .with_marker(look.marker)
}

fn over_tasks(title: &str, y: Axis, series: Vec<Series>) -> Lines {
    Lines { title: title.into(), x: Axis::whole("task"), y, series, ..Lines::default() }
}

fn accuracy(study: &Study, who: &[Who]) -> Vec<Chart> {
    let panel = |title: &str, label: &str, measure: Measure| -> Chart {
        let lines = who.iter().map(|w| series(w.name(), w.look(), &study.spread(*w, measure)));
        over_tasks(title, Axis::log(label), lines.collect()).into()
    };
    // In the end PMF-CL stands on the optimum to rounding: an axis down to there would hide all the rest.
    let distance: Chart = {
        let lines =
            who.iter().map(|w| series(w.name(), w.look(), &study.spread(*w, Measure::ToAll)));
        let axis = Axis::log("mean squared difference").between(1e-4, 1.0);
        over_tasks("(c) distance to the joint optimum of all tasks", axis, lines.collect()).into()
    };
    vec![
        panel("(a) task just learned", "test MSE", Measure::Current),
        panel("(b) all tasks so far", "test MSE", Measure::Cumulative),
        distance,
        panel("(d) training error over all rows so far", "training MSE", Measure::Training),
    ]
}

fn small_multiples(
    outcome: &Outcome,
    name: &'static str,
    title: &'static str,
    measure: Measure,
    who: &[Who],
) -> Figure {
    let panel = |study: &Study| -> Chart {
        let mut lines: Vec<Series> =
            who.iter().map(|w| series(w.name(), w.look(), &study.spread(*w, measure))).collect();
        if measure == Measure::Current {
            let points = (1..=study.tasks())
                .map(|k| (k as f64, study.setting.expected_current(k).unwrap_or(f64::NAN)));
            lines.push(
                Series::new("formula for joint training", points)
                    .with_paint(Paint::Ink)
                    .with_dash(Dash::Dots)
                    .with_marker(Marker::None),
            );
        }
        over_tasks(study.setting.name, Axis::log("test MSE"), lines).into()
    };
    let panels: Vec<Chart> = outcome.studies.iter().map(panel).collect();
    let words: Vec<String> = outcome
        .studies
        .iter()
        .map(|s| format!("«{}»: {}", s.setting.name, s.setting.words()))
        .collect();
    let formula = if measure == Measure::Current {
        " The formula leaves out what drift adds to the variance of an estimate from few rows."
    } else {
        ""
    };
    let caption = format!("{}.{formula}", words.join("; "));
    let mut figure = Figure::of(name, title, &caption, &panels, 4);
    if let Chart::Grid(grid) = &mut figure.wide {
        grid.cell = Size::new(295.0, 250.0);
    }
    figure
}

fn cost(outcome: &Outcome) -> Figure {
    let main = &outcome.studies[0];
    let order = [
        Who::Pmf,
        Who::Paper,
        Who::Sgd,
        Who::Er,
        Who::Der,
        Who::Si,
        Who::DerPlus,
        Who::Ewc,
        Who::Agem,
        Who::ErSmall,
        Who::Icl,
        Who::Projection,
        Who::Joint,
        Who::Last,
    ];
    let brief = |who: Who| match who {
        Who::Paper => "paper's",
        Who::ErSmall => "ER small",
        Who::Last => "last only",
        Who::Ewc => "oEWC",
        other => other.name(),
    };
    let bars = |title: &str, y: Axis, values: Vec<f64>| Bars {
        title: title.into(),
        y,
        names: order.iter().map(|w| brief(*w).to_owned()).collect(),
        groups: vec![BarGroup {
            paints: order.iter().map(|w| w.look().paint).collect(),
            ..BarGroup::new("", values)
        }],
        legend: Legend::Hidden,
        ..Bars::default()
    };
    let numbers = order
        .iter()
        .map(|w| main.tracks(*w).map(|t| t.kept.numbers).max().unwrap_or(0) as f64)
        .map(|n| if n > 0.0 { n } else { f64::NAN })
        .collect();
    let seconds = order
        .iter()
        .map(|w| outcome.seconds.iter().find(|s| s.who == *w).map_or(f64::NAN, |s| 1e3 * s.median))
        .collect();
    let panels = [
        bars("(a) numbers kept between tasks", Axis::log("numbers"), numbers).into(),
        bars("(b) time to learn all tasks", Axis::log("milliseconds, median"), seconds).into(),
    ];
    let caption = format!(
        "Main run. Nothing is kept by methods without a bar on the left. The paper's own figure for PMF-CL is {} ms on an H100; \
         times here are of one CPU thread.",
        1e3 * claims::PAPER_SECONDS
    );
    let mut figure = Figure::of("cost", "Memory and time", &caption, &panels, 2);
    figure.timed = true;
    figure
}

/// Marks that lie on each other share a label.
fn marks(corner: &Corner, range: (f64, f64)) -> Vec<Mark> {
    let mut found: Vec<(String, (f64, f64))> = Vec::new();
    for end in &corner.ends {
        let near = |at: (f64, f64)| {
            ((at.0 - end.at.0) / range.0).hypot((at.1 - end.at.1) / range.1) < 0.015
        };
        match found.iter_mut().find(|(_, at)| near(*at)) {
            Some((name, _)) => *name = format!("{name} = {}", end.name),
            None => found.push((end.name.clone(), end.at)),
        }
    }
    let shapes = [
        Marker::Circle,
        Marker::Star,
        Marker::Square,
        Marker::Triangle,
        Marker::Diamond,
        Marker::Wedge,
        Marker::Plus,
        Marker::Cross,
    ];
    found
        .into_iter()
        .enumerate()
        .map(|(i, (name, at))| Mark {
            marker: Some(shapes[i % shapes.len()]),
            paint: paint_of(&name),
            ..Mark::new(name, at)
        })
        .collect()
}

/// The colour the first method of a label has in the other figures.
fn paint_of(label: &str) -> Option<Paint> {
    let first = label.split([',', '=']).next().unwrap_or(label).trim();
    Who::ALL.iter().find(|who| who.name() == first).map(|who| who.look().paint)
}

fn figure_1(outcome: &Outcome) -> Figure {
    let panel = |title: &str, corner: &Corner| -> Chart {
        let all = || corner.front.iter().copied().chain(corner.ends.iter().map(|e| e.at));
        let reach = |f: fn((f64, f64)) -> f64| {
            let (low, high) =
                all().map(f).fold((f64::INFINITY, 0.0_f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
            (high - low).max(1e-9)
        };
        let range = (reach(|p| p.0), reach(|p| p.1));
        // Losses that are zero to rounding need the other axis' length, or rounding fills the picture.
        let mut y = Axis::linear("loss of task 2");
        if range.1 < 1e-6 * range.0 {
            y = y.between(0.0, range.0);
        }
        let curve = Series::new("Pareto front", corner.front.iter().copied());
        Front {
            title: title.into(),
            x: Axis::linear("loss of task 1"),
            y,
            curves: vec![curve],
            marks: marks(corner, range),
            ..Front::default()
        }
        .into()
    };
    let panels = [
        panel("tasks in conflict", &outcome.conflict),
        panel("tasks that share a minimizer", &outcome.shared),
    ];
    let mut figure = Figure::of(
        "figure-1",
        "Figure 1: where methods end on the front of two tasks",
        "Training losses of two regression tasks learned one after the other. Left: they conflict, the front is a curve, and a \
         preference picks a point on it. Right: one model solves both, the front is the origin; that is the setting of the ideal \
         continual learner.",
        &panels,
        2,
    );
    if let Chart::Grid(grid) = &mut figure.wide {
        grid.cell = Size::new(590.0, 430.0);
    }
    figure
}

fn figure_2(outcome: &Outcome) -> Figure {
    let look = |i: usize| {
        [
            (Paint::Ink, Dash::Solid),
            (Paint::Series(1), Dash::Long),
            (Paint::Series(0), Dash::DashDot),
        ][i]
    };
    let bounds = &outcome.bounds;
    let mut losses = Vec::new();
    let mut paths = Vec::new();
    for (i, path) in bounds.paths.iter().enumerate() {
        let (paint, dash) = look(i);
        let styled =
            |s: Series, dash| s.with_paint(paint).with_dash(dash).with_marker(Marker::None);
        let own = if i == 0 {
            path.name.to_owned()
        } else {
            format!("losses on the front of {}", path.name)
        };
        losses.push(styled(Series::new(own, path.losses.iter().copied()), dash));
        if let Some(values) = &path.bounds {
            let front = Series::new(format!("front of {}", path.name), values.iter().copied());
            losses.push(styled(front, Dash::Dots));
        }
        let thetas = path.thetas.iter().map(|t| (t[0], t[1]));
        paths.push(styled(Series::new(path.name, thetas), dash));
    }
    let slice = |name: &str, of: fn(&super::bounds::Slice) -> f64, paint, dash| {
        Series::new(name, bounds.slice.iter().map(|s| (s.at, of(s))))
            .with_paint(paint)
            .with_dash(dash)
            .with_marker(Marker::None)
    };
    let between = vec![
        slice("loss of task 1", |s| s.losses.0, Paint::Ink, Dash::Solid),
        slice("Böhning, task 1", |s| s.bohning.0, Paint::Series(1), Dash::Long),
        slice("sharp, task 1", |s| s.sharp.0, Paint::Series(0), Dash::DashDot),
        slice("loss of task 2", |s| s.losses.1, Paint::Muted, Dash::Solid),
        slice("Böhning, task 2", |s| s.bohning.1, Paint::Series(4), Dash::Long),
        slice("sharp, task 2", |s| s.sharp.1, Paint::Series(5), Dash::DashDot),
    ];
    let lines = |title: &str, x: &str, y: &str, series: Vec<Series>| -> Chart {
        Lines {
            title: title.into(),
            x: Axis::linear(x),
            y: Axis::linear(y),
            series,
            legend: Legend::Below,
            ..Lines::default()
        }
        .into()
    };
    let panels = [
        lines("losses", "log-loss of task 1", "log-loss of task 2", losses),
        lines("parameters along the fronts", "θ₁", "θ₂", paths),
        lines("on the line between both optima", "place (0, 1: optima)", "log-loss", between),
    ];
    let mut figure = Figure::of(
        "figure-2",
        "Figure 2: fronts of the upper bounds against the true front",
        "Two logistic tasks of two parameters. Left: the true front, the fronts of both bounds (dotted: values of the bounds), and \
         the true losses of the models on them. Middle: the models themselves. Right: losses and bounds between the optima.",
        &panels,
        3,
    );
    if let Chart::Grid(grid) = &mut figure.wide {
        grid.cell = Size::new(393.0, 430.0);
    }
    if let Chart::Grid(grid) = &mut figure.narrow {
        grid.cell = Size::new(350.0, 400.0);
    }
    figure
}

fn two_classes(outcome: &Outcome) -> Figure {
    let study = &outcome.classes;
    let panel = |title: &str, of: &dyn Fn(Learns) -> Vec<Spread>| -> Chart {
        let lines = Learns::all().into_iter().map(|m| series(m.name(), m.look(), &of(m)));
        let axis = Axis::linear("log-loss above joint training").between(-0.06, 0.14);
        over_tasks(title, axis, lines.collect()).into()
    };
    let mut bounds = Vec::new();
    for method in [Learns::OneShotBohning, Learns::OneShotSharp] {
        let look = method.look();
        let name = method.name();
        bounds.push(series(&format!("{name}: forgetting"), look, &study.forgetting(method)));
        let bound = Look { dash: Dash::Dots, ..look };
        let curve = study.bound(method).unwrap_or_default();
        bounds.push(series(&format!("{name}: bound"), bound, &curve));
    }
    let mut guarantee =
        over_tasks("(c) mean forgetting and its bound", Axis::log("training log-loss"), bounds);
    guarantee.legend = Legend::Below;
    let panels = [
        panel("(a) all tasks so far", &|m| study.cumulative_above(m)),
        panel("(b) task just learned", &|m| study.current_above(m)),
        guarantee.into(),
    ];
    let mut figure = Figure::of(
        "two-classes",
        "Two classes: the logistic version",
        &format!(
            "{}; bands ±1 standard deviation. (a) and (b) show the difference of test log-loss to joint training on the same \
             stream; what lies above the picture is worse still.",
            study.setting.words()
        ),
        &panels,
        3,
    );
    if let Chart::Grid(grid) = &mut figure.wide {
        grid.cell = Size::new(393.0, 400.0);
    }
    if let Chart::Grid(grid) = &mut figure.narrow {
        grid.cell = Size::new(350.0, 380.0);
    }
    figure
}

fn federated(outcome: &Outcome) -> Figure {
    let study = &outcome.federated;
    let line = |name: &str, look: Look, of: fn(&super::federated::FederatedStep) -> f64| {
        series(name, look, &study.spread(of))
    };
    let look = |n, dash, marker| Look { paint: Paint::Series(n), dash, marker };
    let errors = vec![
        line("merged summaries", look(1, Dash::Solid, Marker::Circle), |s| s.merged),
        line("FedAvg", look(0, Dash::Long, Marker::Square), |s| s.fedavg),
        line("FedAvg, all rows kept", look(5, Dash::DashDot, Marker::Diamond), |s| s.fedavg_all),
        line("local models", look(7, Dash::Dots, Marker::Triangle), |s| s.local),
        line("local, own tasks", look(2, Dash::DashDot, Marker::Star), |s| s.local_own),
    ];
    let bytes = vec![
        line("merged summaries", look(1, Dash::Solid, Marker::Circle), |s| s.bytes_up.0 / 1e3),
        line("FedAvg, 10 rounds", look(0, Dash::Long, Marker::Square), |s| s.bytes_up.1 / 1e3),
    ];
    let join = (super::federated::JOIN + 1) as f64;
    let panel = |title: &str, label: Axis, series: Vec<Series>| -> Chart {
        let mut lines = over_tasks(title, label, series);
        lines.x = Axis::whole("step");
        lines.rules = vec![Rule::at_x(join, "two clients join")];
        lines.legend = Legend::Below;
        lines.into()
    };
    let panels = [
        panel("(a) error on all clients' tasks so far", Axis::log("test MSE"), errors),
        panel("(b) sent to the server in a step", Axis::linear("kB").from_zero(), bytes),
    ];
    Figure::of(
        "federated",
        "Federated: clients absent and late",
        &format!(
            "{} clients, {}; bands ±1 standard deviation.",
            super::federated::CLIENTS,
            study.federation.setting.words()
        ),
        &panels,
        2,
    )
}
