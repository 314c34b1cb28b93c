//! The whole of it, small.

use super::claims::Verdict;
use super::roster::Who;
use super::trial::Measure;
use super::*;

fn verdict(outcome: &Outcome, id: &str) -> Verdict {
    let findings = outcome.findings();
    findings.into_iter().find(|f| f.id == id).map(|f| f.verdict).expect("the claim is made")
}

#[test]
fn a_small_run_writes_everything_and_threads_change_no_bit() {
    let quiet = |_: &str| {};
    let one = compute(&Effort::small(1), &quiet).unwrap();
    let two = compute(&Effort::small(2), &quiet).unwrap();
    assert_eq!(one.studies, two.studies);
    let (a, b) = (one.files().unwrap(), two.files().unwrap());
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert!(a.timed || a == b, "{} differs", a.name);
        assert!(!a.bytes.is_empty());
    }
    let names: Vec<&str> = a.iter().map(|f| f.name.as_str()).collect();
    for name in [
        "accuracy.svg",
        "accuracy.png",
        "further-methods.png",
        "settings-cumulative.png",
        "settings-current.svg",
        "cost.png",
        "figure-1.png",
        "figure-2.svg",
        "two-classes.png",
        "federated.png",
        "curves.csv",
        "trials.csv",
        "tuning.csv",
        "memory.csv",
        "forgetting.csv",
        "time.csv",
        "classes.csv",
        "federated.csv",
        "figure-1.csv",
        "figure-2.csv",
        "findings.csv",
        "findings.md",
        "index.html",
    ] {
        assert!(names.contains(&name), "{name} is missing");
    }
    let text = |name: &str| {
        let file = a.iter().find(|f| f.name == name).expect("it was found above");
        String::from_utf8(file.bytes.clone()).expect("text")
    };
    assert!(!text("curves.csv").contains("NaN"));
    let page = text("index.html");
    // Nothing is loaded from anywhere, and no number is missing.
    for foreign in ["NaN", "<script", " src=", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
    // One row a setting, method, measure and task, and the header.
    let rows = one.studies.len() * Who::ALL.len() * Measure::ALL.len() * one.effort.tasks;
    assert_eq!(text("curves.csv").lines().count(), 1 + rows);

    claims_follow_the_numbers(one);
}

/// Every claim that is judged from tracks must turn when they do.
fn claims_follow_the_numbers(honest: Outcome) {
    let at = |who: Who| Who::ALL.iter().position(|w| *w == who).expect("listed");
    let change = |who: Who, f: &dyn Fn(&mut trial::Track)| {
        let mut other = honest.clone();
        for study in &mut other.studies {
            study.trials.iter_mut().for_each(|tracks| f(&mut tracks[at(who)]));
        }
        other
    };
    let all = |table: &mut Vec<Vec<f64>>, v: f64| table.iter_mut().flatten().for_each(|x| *x = v);

    assert_eq!(verdict(&honest, "lowest-training-loss"), Verdict::Holds);
    // Training errors of an exact fit are zero here, and nothing is below that; so ours is raised.
    let worse = change(Who::Pmf, &|t| all(&mut t.train, 1e9));
    assert_eq!(verdict(&worse, "lowest-training-loss"), Verdict::Fails);

    let perfect = change(Who::Si, &|t| all(&mut t.test, 0.0));
    for id in ["lowest-cumulative-mse", "lowest-cumulative-mse-of-all", "dominant-from-task-3"] {
        assert_eq!(verdict(&perfect, id), Verdict::Fails, "{id}");
        let ours = change(Who::Pmf, &|t| all(&mut t.test, 0.0));
        assert_eq!(verdict(&ours, id), Verdict::Holds, "{id}");
    }
    let ours = change(Who::Pmf, &|t| all(&mut t.test, 1e-9));
    assert_eq!(verdict(&ours, "lowest-current-mse"), Verdict::Holds);
    assert_eq!(verdict(&ours, "no-recency-bias"), Verdict::Holds);
    assert_eq!(verdict(&ours, "decay-for-now"), Verdict::Fails);
    let last = change(Who::Last, &|t| all(&mut t.test, 0.0));
    assert_eq!(verdict(&last, "lowest-current-mse"), Verdict::Fails);

    assert_eq!(verdict(&honest, "converges-to-joint"), Verdict::Holds);
    let far = change(Who::Pmf, &|t| t.to_all.fill(1.0));
    assert_eq!(verdict(&far, "converges-to-joint"), Verdict::Fails);
    let far = change(Who::Paper, &|t| t.to_all.fill(1.0));
    assert_eq!(verdict(&far, "small-ridge"), Verdict::Fails);
    assert!(matches!(verdict(&honest, "printed-recursion"), Verdict::HoldsIf(_)));
    let near = change(Who::Printed, &|t| t.to_now.fill(0.0));
    assert_eq!(verdict(&near, "printed-recursion"), Verdict::Holds);
    let blown = change(Who::Pmf, &|t| all(&mut t.test, 1e9));
    assert_eq!(verdict(&blown, "few-rows"), Verdict::Fails);
    let small = change(Who::Er, &|t| t.kept.numbers = 80);
    assert_eq!(verdict(&small, "memory"), Verdict::Holds);

    let mut slow = honest.clone();
    slow.seconds.iter_mut().for_each(|s| s.median = 1.0);
    assert_eq!(verdict(&slow, "time"), Verdict::Fails);

    assert_eq!(verdict(&honest, "forgetting-bound"), Verdict::Holds);
    let mut broken = honest.clone();
    for track in broken.classes.trials.iter_mut().flatten() {
        track.bounds.iter_mut().flatten().for_each(|b| *b = -1.0);
    }
    assert_eq!(verdict(&broken, "forgetting-bound"), Verdict::Fails);

    assert_eq!(verdict(&honest, "federated-pooled"), Verdict::Holds);
    let mut apart = honest;
    apart.federated.trials[0][0].gap = 0.1;
    assert_eq!(verdict(&apart, "federated-pooled"), Verdict::Fails);
}
