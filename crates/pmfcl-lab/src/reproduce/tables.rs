//! Every number: as CSV files, and the tables people read.

use super::Outcome;
use super::logistic::Learns;
use super::number::{exact, milliseconds, short};
use super::roster::Who;
use super::speed::Seconds;
use super::study::Study;
use super::trial::Measure;
use pmfcl_terminal::Table;

/// A file of comma-separated values.
pub(super) struct Sheet {
    pub(super) name: &'static str,
    pub(super) text: String,
    pub(super) timed: bool,
}

impl Sheet {
    fn new(name: &'static str, columns: &[&str]) -> Self {
        Self { name, text: columns.join(",") + "\n", timed: false }
    }

    fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        let quoted = |cell: String| {
            if cell.contains([',', '"']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell
            }
        };
        let cells: Vec<String> = cells.iter().map(|c| quoted(c.to_string())).collect();
        self.text.push_str(&(cells.join(",") + "\n"));
    }
}

/// All files of numbers.
pub(super) fn csv(outcome: &Outcome) -> Vec<Sheet> {
    let mut findings = Sheet::new("findings", &["id", "verdict", "number", "value"]);
    for f in outcome.findings() {
        for (name, value) in &f.numbers {
            findings.row(&[&f.id, &f.verdict.key(), name, &exact(*value)]);
        }
    }
    findings.timed = true;
    vec![
        settings(&outcome.studies),
        curves(&outcome.studies),
        trials(&outcome.studies),
        tuning(&outcome.studies),
        memory(&outcome.studies),
        forgetting(&outcome.studies),
        times(&outcome.seconds),
        classes(outcome),
        federated(outcome),
        figure_1(outcome),
        figure_2(outcome),
        findings,
    ]
}

fn settings(studies: &[Study]) -> Sheet {
    let columns =
        ["setting", "features", "rows", "drift", "noise", "task", "expected_current_mse_of_joint"];
    let mut sheet = Sheet::new("settings", &columns);
    for study in studies {
        let s = &study.setting;
        for (k, rows) in s.rows.iter().enumerate() {
            let expected = s.expected_current(k + 1).map_or(String::new(), exact);
            sheet.row(&[&s.name, &s.d, rows, &s.drift, &s.noise, &(k + 1), &expected]);
        }
    }
    sheet
}

fn curves(studies: &[Study]) -> Sheet {
    let columns = ["setting", "method", "measure", "task", "mean", "std", "median"];
    let mut sheet = Sheet::new("curves", &columns);
    for study in studies {
        for who in Who::ALL {
            for measure in Measure::ALL {
                for (k, s) in study.spread(who, measure).iter().enumerate() {
                    let numbers = [s.mean, s.std, s.median].map(exact);
                    sheet.row(&[
                        &study.setting.name,
                        &who.name(),
                        &measure.name(),
                        &(k + 1),
                        &numbers[0],
                        &numbers[1],
                        &numbers[2],
                    ]);
                }
            }
        }
    }
    sheet
}

fn trials(studies: &[Study]) -> Sheet {
    let columns = ["setting", "method", "measure", "trial", "task", "value"];
    let mut sheet = Sheet::new("trials", &columns);
    for study in studies {
        for who in Who::ALL {
            for measure in Measure::ALL {
                for (trial, curve) in study.curves(who, measure).iter().enumerate() {
                    for (k, v) in curve.iter().enumerate() {
                        let (name, value) = (study.setting.name, exact(*v));
                        sheet.row(&[&name, &who.name(), &measure.name(), &trial, &(k + 1), &value]);
                    }
                }
            }
        }
    }
    sheet
}

fn tuning(studies: &[Study]) -> Sheet {
    let columns = ["setting", "method", "rate", "argument", "value", "error", "chosen"];
    let mut sheet = Sheet::new("tuning", &columns);
    for study in studies {
        for tuned in &study.tuned {
            for (arguments, error) in &tuned.tried {
                sheet.row(&[
                    &study.setting.name,
                    &tuned.who.name(),
                    &arguments.rate,
                    &tuned.who.strength().unwrap_or(""),
                    &arguments.strength,
                    &exact(*error),
                    &(*arguments == tuned.arguments),
                ]);
            }
        }
    }
    sheet
}

/// The most a method held in any trial.
fn kept(study: &Study, who: Who) -> pmfcl_baselines::Kept {
    study.tracks(who).map(|t| t.kept).max_by_key(|k| k.numbers).unwrap_or_default()
}

fn memory(studies: &[Study]) -> Sheet {
    let mut sheet = Sheet::new("memory", &["setting", "method", "numbers", "bytes", "examples"]);
    for study in studies {
        for who in Who::ALL {
            let kept = kept(study, who);
            let (name, who) = (study.setting.name, who.name());
            sheet.row(&[&name, &who, &kept.numbers, &kept.bytes, &kept.examples]);
        }
    }
    sheet
}

const FORGETTING: [&str; 7] = [
    "average_mse",
    "forgetting_paper",
    "forgetting_chaudhry",
    "backward_transfer",
    "forward_transfer",
    "forgetting_avalanche",
    "forgetting_mammoth",
];

/// The measures of a method that did not run away.
fn measures(study: &Study, who: Who) -> Option<[f64; 7]> {
    let f = study.forgetting(who).ok()?;
    Some([f.average, f.paper, f.chaudhry, f.backward, f.forward, f.avalanche, f.mammoth])
}

fn forgetting(studies: &[Study]) -> Sheet {
    let columns: Vec<&str> = ["setting", "method"].into_iter().chain(FORGETTING).collect();
    let mut sheet = Sheet::new("forgetting", &columns);
    for study in studies {
        for who in Who::ALL {
            let cells =
                measures(study, who).map_or(vec![String::new(); 7], |m| m.map(exact).to_vec());
            let line = [study.setting.name.to_owned(), format!("\"{}\"", who.name())];
            sheet
                .text
                .push_str(&(line.into_iter().chain(cells).collect::<Vec<_>>().join(",") + "\n"));
        }
    }
    sheet
}

fn times(seconds: &[Seconds]) -> Sheet {
    let columns = ["method", "median_seconds", "best_seconds", "repeats"];
    let mut sheet = Sheet::new("time", &columns);
    for s in seconds {
        sheet.row(&[&s.who.name(), &exact(s.median), &exact(s.best), &s.repeats]);
    }
    sheet.timed = true;
    sheet
}

fn classes(outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new("classes", &["method", "measure", "task", "mean", "std", "median"]);
    let study = &outcome.classes;
    for method in Learns::all() {
        let mut curves = vec![
            ("cumulative-test-log-loss", study.cumulative(method)),
            ("current-test-log-loss", study.current(method)),
            ("mean-forgetting", study.forgetting(method)),
        ];
        curves.extend(study.bound(method).map(|bound| ("mean-bound", bound)));
        for (measure, curve) in curves {
            for (k, s) in curve.iter().enumerate() {
                let (mean, std, median) = (exact(s.mean), exact(s.std), exact(s.median));
                sheet.row(&[&method.name(), &measure, &(k + 1), &mean, &std, &median]);
            }
        }
    }
    sheet
}

fn federated(outcome: &Outcome) -> Sheet {
    let columns = [
        "trial",
        "step",
        "clients",
        "gap_to_pooled",
        "mse_merged",
        "mse_fedavg",
        "mse_fedavg_all_rows",
        "mse_local",
        "mse_local_own_tasks",
        "bytes_up_merged",
        "bytes_up_fedavg",
        "bytes_down_merged",
        "bytes_down_fedavg",
    ];
    let mut sheet = Sheet::new("federated", &columns);
    for (trial, steps) in outcome.federated.trials.iter().enumerate() {
        for (k, s) in steps.iter().enumerate() {
            let numbers = [
                s.clients,
                s.gap,
                s.merged,
                s.fedavg,
                s.fedavg_all,
                s.local,
                s.local_own,
                s.bytes_up.0,
                s.bytes_up.1,
                s.bytes_down.0,
                s.bytes_down.1,
            ];
            let cells = numbers.map(exact).join(",");
            sheet.text.push_str(&format!("{trial},{},{cells}\n", k + 1));
        }
    }
    sheet
}

fn figure_1(outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new("figure-1", &["tasks", "what", "loss_1", "loss_2", "above_front"]);
    for (tasks, corner) in [("conflicting", &outcome.conflict), ("shared", &outcome.shared)] {
        for (a, b) in &corner.front {
            sheet.row(&[&tasks, &"front", &exact(*a), &exact(*b), &0]);
        }
        for end in &corner.ends {
            let (a, b, above) = (exact(end.at.0), exact(end.at.1), exact(end.above));
            sheet.row(&[&tasks, &end.name, &a, &b, &above]);
        }
    }
    sheet
}

fn figure_2(outcome: &Outcome) -> Sheet {
    let columns = ["path", "theta_1", "theta_2", "loss_1", "loss_2", "bound_1", "bound_2"];
    let mut sheet = Sheet::new("figure-2", &columns);
    for path in &outcome.bounds.paths {
        for (i, theta) in path.thetas.iter().enumerate() {
            let (a, b) = path.losses[i];
            let bound = path.bounds.as_ref().map(|b| b[i]);
            let (c, d) = bound.map_or_else(Default::default, |(c, d)| (exact(c), exact(d)));
            let theta = theta.map(exact);
            sheet.row(&[&path.name, &theta[0], &theta[1], &exact(a), &exact(b), &c, &d]);
        }
    }
    sheet
}

/// The tables people read.
pub(super) fn shown(outcome: &Outcome) -> Vec<Table> {
    let studies = &outcome.studies;
    vec![
        settings_table(studies),
        by_setting(studies, Measure::Cumulative, "Test error over all tasks, after the last"),
        by_setting(
            studies,
            Measure::Current,
            "Test error on the task just learned, after the last",
        ),
        by_setting(
            studies,
            Measure::ToAll,
            "Mean squared distance to joint training, after the last",
        ),
        arguments(studies),
        forgetting_table(&studies[0]),
        cost_table(&studies[0], &outcome.seconds),
        classes_table(outcome),
        federated_table(outcome),
    ]
}

fn settings_table(studies: &[Study]) -> Table {
    let columns = ["setting", "features", "rows a task", "drift", "noise", "what for"];
    let mut table = Table::new("Settings", &columns);
    for study in studies {
        let s = &study.setting;
        let rows: Vec<String> = s.rows.iter().map(usize::to_string).collect();
        table.row([
            s.name.to_owned(),
            s.d.to_string(),
            if s.even() { rows[0].clone() } else { rows.join(", ") },
            s.drift.to_string(),
            s.noise.to_string(),
            s.why.to_owned(),
        ]);
    }
    table
}

fn by_setting(studies: &[Study], measure: Measure, title: &str) -> Table {
    let columns: Vec<&str> =
        std::iter::once("method").chain(studies.iter().map(|s| s.setting.name)).collect();
    let mut table = Table::new(title, &columns);
    for who in Who::ALL {
        let cell = |study: &Study| short(study.last(who, measure));
        table.row(std::iter::once(who.name().to_owned()).chain(studies.iter().map(cell)));
    }
    table.note("Means over trials; ∞ where a method ran away in one of them.");
    table
}

fn arguments(studies: &[Study]) -> Table {
    let columns: Vec<&str> =
        std::iter::once("method").chain(studies.iter().map(|s| s.setting.name)).collect();
    let mut table = Table::new("Arguments chosen", &columns);
    for who in Who::ALL.into_iter().filter(|who| !who.candidates().is_empty()) {
        let cell = |study: &Study| {
            let a = super::regression::arguments_of(&study.tuned, who);
            match (who, who.strength()) {
                (Who::PmfDecay, Some(name)) => format!("{name} {}", a.strength),
                (_, Some(name)) => format!("{}, {name} {}", a.rate, a.strength),
                (_, None) => a.rate.to_string(),
            }
        };
        table.row(std::iter::once(who.name().to_owned()).chain(studies.iter().map(cell)));
    }
    table.note("The learning rate first, then the method's other parameter. All that was tried: tuning.csv.");
    table
}

fn forgetting_table(study: &Study) -> Table {
    let columns =
        ["method", "mean MSE", "F (paper)", "Chaudhry", "BWT", "FWT", "Avalanche", "Mammoth"];
    let mut table = Table::new("Every measure of forgetting, main run", &columns);
    for who in Who::ALL {
        let cells =
            measures(study, who).map_or(vec!["ran away".to_owned(); 7], |m| m.map(short).to_vec());
        table.row(std::iter::once(who.name().to_owned()).chain(cells));
    }
    table.note(
        "From test MSE, R[i][j] on task j after task i, lower is better; positive forgetting is worse, positive transfer \
         better. F (paper), Definition 3.7: excess of half the training MSE over the task's own least, mean over tasks at the \
         end. Chaudhry: last minus best since the task was learned, before the last. BWT: R right after the task minus last. \
         FWT: zero model's minus R just before the task. Avalanche: minus BWT. Mammoth: as Chaudhry with the last row among \
         the best and 0 for missing rows, which makes an error's forgetting the error itself from the second task on.",
    );
    table
}

fn cost_table(study: &Study, seconds: &[Seconds]) -> Table {
    let columns = ["method", "numbers kept", "bytes", "examples", "median time", "best time"];
    let mut table = Table::new("Memory and time, main run", &columns);
    for who in Who::ALL {
        let kept = kept(study, who);
        let time = seconds.iter().find(|s| s.who == who);
        table.row([
            who.name().to_owned(),
            kept.numbers.to_string(),
            kept.bytes.to_string(),
            kept.examples.to_string(),
            time.map_or_else(String::new, |t| milliseconds(t.median)),
            time.map_or_else(String::new, |t| milliseconds(t.best)),
        ]);
    }
    table.note("Kept between tasks without the parameters, at most. Time for learning all tasks, one thread.");
    table
}

fn classes_table(outcome: &Outcome) -> Table {
    let study = &outcome.classes;
    let last = study.setting.tasks - 1;
    let columns = [
        "method",
        "log-loss, all tasks",
        "log-loss, last task",
        "forgetting",
        "bound",
        "bound guaranteed",
        "exceeded",
    ];
    let mut table = Table::new("Two classes, after the last task", &columns);
    for method in Learns::all() {
        let guarantee = study.guarantee(method);
        let none = || "–".to_owned();
        table.row([
            method.name().to_owned(),
            short(study.cumulative(method)[last].mean),
            short(study.current(method)[last].mean),
            short(study.forgetting(method)[last].mean),
            study.bound(method).map_or_else(none, |b| short(b[last].mean)),
            guarantee
                .map_or_else(none, |_| if method.guaranteed() { "yes" } else { "no" }.to_owned()),
            guarantee.map_or_else(none, |g| format!("{} of {}", g.violated, g.checked)),
        ]);
    }
    table.note("Test log-loss; forgetting and bound from training log-loss, means over tasks.");
    table
}

fn federated_table(outcome: &Outcome) -> Table {
    let study = &outcome.federated;
    let columns = [
        "step",
        "clients",
        "gap to pooled",
        "merged",
        "FedAvg",
        "FedAvg, all rows",
        "local",
        "local, own tasks",
        "kB up, merged",
        "kB up, FedAvg",
    ];
    let mut table = Table::new("Federated, step by step", &columns);
    for k in 0..study.federation.setting.rows.len() {
        let mean = |f: fn(&super::federated::FederatedStep) -> f64| study.spread(f)[k].mean;
        table.row([
            (k + 1).to_string(),
            short(mean(|s| s.clients)),
            short(mean(|s| s.gap)),
            short(mean(|s| s.merged)),
            short(mean(|s| s.fedavg)),
            short(mean(|s| s.fedavg_all)),
            short(mean(|s| s.local)),
            short(mean(|s| s.local_own)),
            short(mean(|s| s.bytes_up.0) / 1e3),
            short(mean(|s| s.bytes_up.1) / 1e3),
        ]);
    }
    table.note("Test error on all tasks so far of all clients that have sent something; means over trials.");
    table
}
