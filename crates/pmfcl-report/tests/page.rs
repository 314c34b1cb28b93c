//! Pages of every kind of model: they are whole, closed, the same every time, and say what they leave out.

use pmfcl::{
    ClassList, Labels, Learner, MemoryKind, Preference, Problem, Rows, Settings, TaskRows, Theta,
};
use pmfcl_plot::Theme;
use pmfcl_report::{Pair, ReportError, Subject, page};
use serde_json::Value;

/// Numbers around zero that look random and are the same every time.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

fn names(stem: &str, count: usize) -> Vec<String> {
    (1..=count).map(|i| format!("{stem}{i}")).collect()
}

/// A regression whose slopes drift from task to task.
fn regression(tasks: &[&str], width: usize, targets: usize, memory: MemoryKind) -> Learner {
    let settings = Settings { memory, ..Settings::default() };
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    let mut draw = Draw(1);
    for (t, name) in tasks.iter().enumerate() {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..4 * width + 12 {
            let row: Vec<f64> = (0..width).map(|_| draw.next()).collect();
            for k in 0..targets {
                let slope = 1.0 + 0.3 * t as f64 * (k as f64 + 1.0);
                y.push(slope * row[k % width] + 0.1 * draw.next());
            }
            x.extend(row);
        }
        let (x, y) = (Rows::new(&x, width).unwrap(), Rows::new(&y, targets).unwrap());
        learner.learn(name, TaskRows::new(x, y), 1.0).unwrap();
    }
    learner
}

fn classifier(loss: &str, memory: MemoryKind) -> Learner {
    let classes = names("class ", 3);
    let problem = Problem::parse(loss, Some(ClassList::Fixed(classes.clone()))).unwrap();
    let mut learner = Learner::new(problem, Settings { memory, ..Settings::default() }).unwrap();
    let mut draw = Draw(2);
    for t in 0..4 {
        let (mut x, mut codes) = (Vec::new(), Vec::new());
        for i in 0..90 {
            let class = i % 3;
            for j in 0..3 {
                let centre = if j == class { 0.8 } else { 0.0 };
                x.push(centre + 0.2 * f64::from(t) + draw.next());
            }
            codes.push(class as u32);
        }
        let labels = Labels::from_codes(&codes, &classes).unwrap();
        let rows = TaskRows::new(Rows::new(&x, 3).unwrap(), &labels);
        learner.learn(&format!("month {t}"), rows, 1.0).unwrap();
    }
    learner
}

fn page_of(title: &str, learner: &Learner) -> String {
    let theta = &learner.solution().unwrap().theta;
    let (features, targets) = (names("x", theta.width() - 1), names("y", theta.targets()));
    page(&Subject { title, learner, features: &features, targets: &targets, coding: None }).unwrap()
}

fn page_of_classes(learner: &Learner) -> String {
    let targets = learner.classes();
    page(&Subject { title: "classes", learner, features: &names("x", 3), targets, coding: None })
        .unwrap()
}

/// The numbers the page carries for its script.
fn numbers(html: &str) -> Value {
    let open = "<script type=\"application/json\" id=\"numbers\">";
    let from = html.find(open).expect("the page has numbers") + open.len();
    let to = from + html[from..].find("</script>").unwrap();
    serde_json::from_str(&html[from..to]).unwrap()
}

fn tags(html: &str, name: &str) -> (usize, usize) {
    (html.matches(&format!("<{name}")).count(), html.matches(&format!("</{name}>")).count())
}

/// What every page must be, whatever it shows.
fn assert_whole(html: &str) {
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    for tag in
        ["html", "body", "main", "section", "table", "figure", "svg", "div", "script", "style"]
    {
        let (open, closed) = tags(html, tag);
        assert_eq!(open, closed, "<{tag}> is opened {open} times and closed {closed} times");
    }
    // The eighth is about accuracy and calibration, where a classifier was measured.
    let measured = usize::from(html.contains("<section id=\"calibration\""));
    // And one compares the last task with the others, where it can be.
    let checked = usize::from(html.contains("<section id=\"checks\""));
    assert_eq!(tags(html, "section").0, 7 + measured + checked);
    let outside = html.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!outside.contains(reference), "the page refers to something by `{reference}`");
    }
    for bad in ["NaN", "inf<", ">inf", "Infinity<"] {
        assert!(!html.contains(&format!(">{bad}<")), "a number of the page is {bad}");
    }
}

#[test]
fn a_regression_has_every_section_and_the_same_bytes_twice() {
    let learner = regression(&["spring", "summer", "autumn"], 3, 1, MemoryKind::Ledger);
    let html = page_of("garden", &learner);
    assert_whole(&html);
    assert_eq!(html, page_of("garden", &learner));
    assert!(html.contains("Most forgotten: <bdi>"));
    assert!(html.contains("Strongest conflict: <bdi>spring</bdi> and <bdi>autumn</bdi>"));
    assert!(!html.contains("class=\"empty\""), "nothing is left out of a small page");
}

#[test]
fn the_verdict_names_the_task_that_lost_most() {
    let learner = regression(&["spring", "summer", "autumn"], 3, 1, MemoryKind::Ledger);
    let tasks = learner.tasks().unwrap();
    let worst = tasks.iter().max_by(|a, b| a.forgetting.partial_cmp(&b.forgetting).unwrap());
    let line = format!("Most forgotten: <bdi>{}</bdi>", worst.unwrap().name);
    assert!(page_of("garden", &learner).contains(&line), "no «{line}»");
}

#[test]
fn several_targets_have_a_table_each() {
    let html = page_of("three", &regression(&["a", "b"], 4, 3, MemoryKind::Ledger));
    assert_whole(&html);
    for k in 1..=3 {
        assert!(html.contains(&format!("<h3>Target <bdi>y{k}</bdi></h3>")));
    }
}

#[test]
fn the_numbers_of_the_page_are_losses_of_the_models_on_the_front() {
    let learner = regression(&["spring", "summer", "autumn"], 3, 1, MemoryKind::Ledger);
    let data = numbers(&page_of("garden", &learner));
    assert_eq!(data["tasks"], serde_json::json!(["spring", "summer", "autumn"]));
    let pairs = data["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 3);
    for pair in pairs {
        let name = |side: &str| {
            data["tasks"][pair[side].as_u64().unwrap() as usize].as_str().unwrap().to_owned()
        };
        let (a, b) = (name("a"), name("b"));
        let front = Pair::of(&learner, &[&a], &[&b], 49).unwrap();
        let rows = pair["losses"].as_array().unwrap();
        assert_eq!(rows.len(), 49);
        for (row, point) in rows.iter().zip(&front.points) {
            let loss = |side: &str| row[pair[side].as_u64().unwrap() as usize].as_f64().unwrap();
            // Six digits are written.
            assert!((loss("a") - point.loss_a).abs() <= 1e-5 * point.loss_a);
            assert!((loss("b") - point.loss_b).abs() <= 1e-5 * point.loss_b);
        }
        // The ends: all weight on one task is the best for it.
        let first = &front.points[0];
        assert!(front.points.iter().all(|p| p.loss_b >= first.loss_b * (1.0 - 1e-9)));
    }
}

#[test]
fn linear_discriminants_say_that_fronts_are_of_a_stand_in() {
    let html = page_of_classes(&classifier("gaussian", MemoryKind::Ledger));
    assert_whole(&html);
    assert_eq!(html.matches("least squares on 0/1 class indicators").count(), 2);
    assert!(html.contains("they have no standard errors"));
    assert!(!html.contains("% of its loss"), "the level of the loss is the number of features");
    assert!(html.contains("Class <bdi>class 3</bdi>"));
    // How often it is right comes first, then what its loss is.
    assert!(html.find("accuracy, rows left out") < html.find("mean forgetting"));
    assert!(html.find("<section id=\"calibration\"") < html.find("<section id=\"forgetting\""));
    assert!(html.contains("share that was right"));
}

#[test]
fn the_stand_in_has_losses_of_least_squares() {
    let classifier = classifier("gaussian", MemoryKind::Ledger);
    let data = numbers(&page_of_classes(&classifier));
    let summaries = classifier.summaries().unwrap();
    for (t, summary) in summaries.iter().enumerate() {
        let now = data["now"][t].as_f64().unwrap();
        let none = summary.loss(&Theta::zeros(summary.width(), summary.targets())).unwrap();
        assert!(now >= summary.min_loss() * (1.0 - 1e-5) && now < none, "{now} and {none}");
    }
}

#[test]
fn log_losses_are_never_shown_as_values() {
    let html = page_of_classes(&classifier("logistic", MemoryKind::Ledger));
    assert_whole(&html);
    assert!(html.contains("never the log-loss itself"));
    assert_eq!(html.matches("losses of the quadratic upper bounds of the log-loss").count(), 2);
    assert!(html.contains("There are no p-values"));
    assert!(html.contains("At most forgotten"));
}

#[test]
fn losses_known_from_bounds_say_so() {
    for loss in ["huber", "poisson"] {
        let problem = Problem::parse(loss, None).unwrap();
        let mut learner = Learner::new(problem, Settings::default()).unwrap();
        let mut draw = Draw(4);
        for t in 0..3 {
            let x: Vec<f64> = (0..60).map(|_| draw.next()).collect();
            let count =
                |r: &[f64]| (2.0 + r[0] + f64::from(t) * r[1] + draw.next()).max(0.0).round();
            let y: Vec<f64> = x.chunks_exact(2).map(count).collect();
            let rows = TaskRows::new(Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
            learner.learn(&format!("month {t}"), rows, 1.0).unwrap();
        }
        let html = page_of(loss, &learner);
        assert_whole(&html);
        let stand_in = learner.problem().description().stand_in.unwrap();
        assert_eq!(html.matches(stand_in).count(), 2, "{loss}");
        assert!(html.contains("At most forgotten") && html.contains("bound on forgetting"));
        assert!(html.contains("there are no standard errors") && !html.contains("95 % interval"));
    }
}

#[test]
fn least_squares_classes_have_intervals() {
    let html = page_of_classes(&classifier("squared", MemoryKind::Ledger));
    assert_whole(&html);
    assert!(html.contains("95 % interval"));
}

#[test]
fn folded_memory_says_what_is_gone_and_shows_what_is_left() {
    let tasks = ["a", "b", "c", "d", "e"];
    let learner = regression(&tasks, 3, 1, MemoryKind::Compact);
    assert!(learner.summaries().is_none(), "five tasks of four columns fold");
    let html = page_of("folded", &learner);
    assert_whole(&html);
    assert_eq!(html.matches("Compact memory has merged the tasks").count(), 1);
    assert_eq!(html.matches("it takes the summaries of single tasks").count(), 3);
    assert!(html.contains("95 % interval"), "coefficients are still known");
    assert!(!html.contains("id=\"numbers\""));
    for loss in ["gaussian", "logistic"] {
        let classifier = classifier(loss, MemoryKind::Compact);
        assert!(classifier.summaries().is_none());
        assert_whole(&page_of_classes(&classifier));
    }
}

#[test]
fn one_task_has_nothing_to_forget_or_to_trade() {
    let html = page_of("alone", &regression(&["only"], 3, 1, MemoryKind::Ledger));
    assert_whole(&html);
    assert!(html.contains("nothing to forget yet"));
    assert!(html.contains("a trade-off takes two"));
    assert!(html.contains("forgetting begins with the second"));
}

#[test]
fn five_hundred_tasks_are_thinned_out_and_the_page_says_how() {
    let tasks = names("task ", 500);
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let html = page_of("many", &regression(&tasks, 4, 1, MemoryKind::Ledger));
    assert_whole(&html);
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    assert!(html.contains("40 of 500 tasks are shown"));
    assert!(html.contains("24 of 500 tasks are compared"));
    assert!(html.contains("pairs can be chosen"));
    assert!(numbers(&html).to_string().len() < 1_500_000);
}

#[test]
fn a_wide_model_leaves_out_what_would_take_too_long() {
    let width = 1500;
    let settings = Settings { ridge: pmfcl::Ridge::Fixed(0.1), ..Settings::default() };
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    let mut draw = Draw(3);
    for name in ["a", "b"] {
        let x: Vec<f64> = (0..20 * width).map(|_| draw.next()).collect();
        let y: Vec<f64> = (0..20).map(|_| draw.next()).collect();
        let rows = TaskRows::new(Rows::new(&x, width).unwrap(), Rows::new(&y, 1).unwrap());
        learner.learn(name, rows, 1.0).unwrap();
    }
    let html = page_of("wide", &learner);
    assert_whole(&html);
    assert!(html.len() < 5_000_000, "{} bytes", html.len());
    assert!(html.contains("would take too long for a page"));
}

#[test]
fn names_stay_names() {
    let hostile = [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(2)</script>",
        "--><!-- ]]> & \"'",
        "\u{202e}back\u{0}wards\u{2028}",
        "",
    ];
    let learner = regression(&hostile, 2, 1, MemoryKind::Ledger);
    let html = page(&Subject {
        title: "</title><script>alert(3)</script>",
        learner: &learner,
        features: &["<b>".to_owned(), "</td><script>".to_owned()],
        targets: &["<i>".to_owned()],
        coding: None,
    })
    .unwrap();
    assert!(!html.contains("<img") && !html.contains("<b>") && !html.contains("<i>"));
    // The numbers and the page's own script.
    assert_eq!(tags(&html, "script"), (2, 2));
    assert!(!html.contains("alert(2)</script>") && !html.contains('\u{0}'));
    let data = numbers(&html);
    assert_eq!(data["tasks"][1], hostile[1]);
    assert_eq!(data["tasks"][4], "(no name)");
}

#[test]
fn other_preferences_and_names_that_do_not_fit() {
    let mut learner = regression(&["a", "b", "c"], 2, 1, MemoryKind::Ledger);
    learner.prefer(Preference::Chosen(vec![("b".to_owned(), 1.0)])).unwrap();
    assert_whole(&page_of("chosen", &learner));
    learner.prefer(Preference::Decay(0.5)).unwrap();
    assert_whole(&page_of("decay", &learner));
    let subject = Subject {
        title: "t",
        learner: &learner,
        features: &names("x", 3),
        targets: &names("y", 1),
        coding: None,
    };
    let error = page(&subject).unwrap_err();
    assert!(matches!(error, ReportError::Names { what: "features", expected: 2, found: 3 }));
    let nothing = Learner::new(Problem::squared(), Settings::default()).unwrap();
    assert!(page(&Subject { learner: &nothing, ..subject }).is_err());
}

#[test]
fn groups_of_tasks_are_pooled_by_their_shares() {
    let learner = regression(&["a", "b", "c", "d"], 2, 1, MemoryKind::Ledger);
    let pair = Pair::of(&learner, &["a", "b"], &["d"], 20).unwrap();
    let theta = &learner.solution().unwrap().theta;
    let loss = |name: &str| learner.task_summary(name).unwrap().quadratic.loss(theta).unwrap();
    // Tasks of the same size have the same share.
    let mean = f64::midpoint(loss("a"), loss("b"));
    assert!((pair.current.0 - mean).abs() <= 1e-9 * mean);
    assert!((pair.current.1 - loss("d")).abs() <= 1e-9 * loss("d"));
    assert_eq!((pair.a.as_str(), pair.b.as_str()), ("a + b", "d"));
    assert!((pair.minmax.loss_a - pair.minmax.loss_b).abs() <= 1e-6 * pair.minmax.loss_a);
    assert!(pair.chart().svg(Theme::Light).contains("loss of a + b"));
    let csv = pair.csv();
    assert!(csv.starts_with("weight,\"loss of a + b\",\"loss of d\"\n0,"));
    let second: Vec<f64> =
        csv.lines().nth(2).unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
    assert_eq!(second[1].to_bits(), pair.points[1].loss_a.to_bits());
}

#[test]
fn the_front_of_discriminants_is_the_one_the_page_shows() {
    let classifier = classifier("gaussian", MemoryKind::Ledger);
    let data = numbers(&page_of_classes(&classifier));
    let first = &data["pairs"][0];
    let name = |side: &str| data["tasks"][first[side].as_u64().unwrap() as usize].as_str().unwrap();
    let pair = Pair::of(&classifier, &[name("a")], &[name("b")], 49).unwrap();
    for (place, value) in [pair.current.0, pair.current.1].into_iter().enumerate() {
        assert!((first["current"][place].as_f64().unwrap() - value).abs() <= 1e-5 * value);
    }
    let knee = first["knee"][1].as_f64().unwrap();
    assert!((knee - pair.knee.loss_a).abs() <= 1e-5 * knee);
}

#[test]
fn groups_that_are_none_are_refused() {
    let learner = regression(&["a", "b"], 2, 1, MemoryKind::Ledger);
    let refused = |a: &[&str], b: &[&str]| Pair::of(&learner, a, b, 10).unwrap_err().to_string();
    assert!(refused(&[], &["a"]).contains("empty"));
    assert!(refused(&["a"], &["b", "a"]).contains("on both sides"));
    assert!(refused(&["a"], &["z"]).contains("no task is named `z`"));
    let folded = regression(&["a", "b", "c", "d", "e"], 2, 1, MemoryKind::Compact);
    assert!(Pair::of(&folded, &["a"], &["b"], 10).is_err());
}

/// Two tasks of one slope, with this noise and these sample weights.
fn agreeing(settings: Settings, noise: f64, weight: Option<f64>, same: bool) -> Learner {
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    let mut draw = Draw(3);
    let mut rows = || -> (Vec<f64>, Vec<f64>) {
        let x: Vec<f64> = (0..40).map(|_| draw.next()).collect();
        let y = x.chunks_exact(2).map(|r| 1.0 + r[0] + 2.0 * r[1] + noise * draw.next()).collect();
        (x, y)
    };
    let first = rows();
    for name in ["a", "b"] {
        let (x, y) = if same { first.clone() } else { rows() };
        let weights = weight.map(|w| vec![w; 20]);
        let (x, y) = (Rows::new(&x, 2).unwrap(), Rows::new(&y, 1).unwrap());
        learner.learn(name, TaskRows::new(x, y).weighted(weights.as_deref()), 1.0).unwrap();
    }
    learner
}

#[test]
fn what_cannot_be_tested_is_said_in_words() {
    let html = page_of("exact", &agreeing(Settings::default(), 0.0, None, false));
    assert_whole(&html);
    assert!(html.contains("cannot be tested: the tasks are fitted exactly"));
    assert!(html.contains("A dash stands for no p-value"));
    assert!(
        !html.contains("No pair of tasks conflicts") && !html.contains("noise alone would cost")
    );

    let html = page_of("weighted", &agreeing(Settings::default(), 0.5, Some(0.37), false));
    assert_whole(&html);
    assert!(html.contains("cannot be tested: sample weights that do not add up"));
    assert!(html.contains("There are no standard errors: sample weights"));
    assert!(!html.contains("95 % interval"));

    let html = page_of("plain", &agreeing(Settings::default(), 0.5, None, false));
    assert!(html.contains("counts copies of its row") && html.contains("95 % interval"));
    assert!(html.contains("One model fits all tasks") && !html.contains("A dash stands"));
    assert!(!html.contains("They are approximate"));
    let tasks = ["a", "b", "c", "d", "e"];
    let (memory, prefer) = (MemoryKind::Compact, Preference::Decay(0.5));
    let settings = Settings { memory, prefer, ..Settings::default() };
    let mut folded = Learner::new(Problem::squared(), settings).unwrap();
    for name in tasks {
        let one = regression(&[name], 3, 1, MemoryKind::Ledger);
        let summary = one.task_summary(name).unwrap();
        folded.insert(name, one.design().unwrap(), (**summary).clone(), 1.0).unwrap();
    }
    assert!(folded.is_folded());
    assert!(page_of("folded", &folded).contains("They are approximate"));
}

#[test]
fn a_front_of_one_point_is_shown_as_one() {
    let learner = agreeing(Settings::default(), 0.5, None, true);
    let pair = Pair::of(&learner, &["a"], &["b"], 50).unwrap();
    assert_eq!(pair.points.len(), 1);
    assert!((pair.knee.weight - 0.5).abs() < 1e-15 && (pair.minmax.weight - 0.5).abs() < 1e-15);
    let svg = pair.chart().svg(Theme::Light);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let html = page_of("copies", &learner);
    assert_whole(&html);
    assert!(html.contains("so their curve is a single point") && !html.contains("NaN"));
}
