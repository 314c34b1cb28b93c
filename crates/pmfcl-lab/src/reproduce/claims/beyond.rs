//! Claims about the illustrations, and about the versions the paper leaves out.

use super::{Finding, Verdict};
use crate::reproduce::bounds::BoundFronts;
use crate::reproduce::federated::{ABSENT, CLIENTS, FederatedStudy, JOIN, LATE, ROUNDS};
use crate::reproduce::fronts::Corner;
use crate::reproduce::logistic::{ClassStudy, Learns};
use crate::reproduce::number::short;

pub(super) fn on_front(conflict: &Corner, shared: &Corner) -> Finding {
    let above = |corner: &Corner, name: &str| corner.end(name).map_or(f64::NAN, |end| end.above);
    let sum = |corner: &Corner, name: &str| corner.end(name).map_or(f64::NAN, |e| e.at.0 + e.at.1);
    let (ours, sgd, er) =
        (above(conflict, "PMF-CL"), above(conflict, "SGD"), above(conflict, "ER"));
    let (icl, mine) = (sum(conflict, "ICL"), sum(conflict, "PMF-CL"));
    let together = (sum(shared, "ICL"), sum(shared, "PMF-CL"));
    Finding {
        id: "on-the-front",
        source: "Figure 1",
        claim: "PMF-CL ends on the Pareto front of conflicting tasks; the ideal continual learner is ideal only while they share a minimizer.",
        verdict: Verdict::of(
            ours < 1e-9 && icl > mine * 1.01 && together.0 < 1e-12 && together.1 < 1e-12,
        ),
        text: format!(
            "Height above the front: PMF-CL {}, SGD {}, ER {}. Being on the front is not all: SGD is near the end of it that \
             only the last task likes, ICL at the other. Sum of both losses: PMF-CL {}, ICL {}. Where one model solves both tasks: PMF-CL {}, ICL {}, last task only {}.",
            short(ours),
            short(sgd),
            short(er),
            short(mine),
            short(icl),
            short(together.1),
            short(together.0),
            short(sum(shared, "last task only")),
        ),
        numbers: vec![
            ("PMF-CL above front", ours),
            ("SGD above front", sgd),
            ("ER above front", er),
            ("ICL, sum of losses", icl),
            ("PMF-CL, sum of losses", mine),
        ],
    }
}

pub(super) fn bound_fronts(bounds: &BoundFronts) -> Finding {
    let violated = bounds.violations();
    let (bohning, sharp) = (bounds.above_front(1), bounds.above_front(2));
    Finding {
        id: "front-of-bounds",
        source: "Figure 2 (fig:qub_vis), Assumption 5.1",
        claim: "The quadratics lie above the log-losses, and their front leads to models near the true front.",
        verdict: Verdict::of(violated == 0 && bohning < 0.1),
        text: format!(
            "A bound lay below its loss {violated} times. The models on the front of Böhning's bounds are at most {} % of the \
             front's range above the true front, those of the sharp bound {} %.",
            short(100.0 * bohning),
            short(100.0 * sharp),
        ),
        numbers: vec![
            ("violations", violated as f64),
            ("Böhning above front", bohning),
            ("sharp above front", sharp),
        ],
    }
}

pub(super) fn guarantee(study: &ClassStudy) -> Finding {
    let of = |method| study.guarantee(method).expect("a method with bounds");
    let (bohning, sharp) = (of(Learns::OneShotBohning), of(Learns::OneShotSharp));
    let (hessian, blend) = (of(Learns::SequentialHessian), of(Learns::SequentialBlend));
    Finding {
        id: "forgetting-bound",
        source: "Theorem 5.3 (thm:qub_forgetting)",
        claim: "The forgetting of logistic loss never exceeds its bound.",
        verdict: Verdict::of(bohning.violated + sharp.violated == 0),
        text: format!(
            "{} pairs of a model and a task: violated {} times by Böhning's, {} times by the sharp bound. After the last task \
             the bound is {} times the forgetting with Böhning's curvature, {} times with the sharp one. The quadratics that \
             promise nothing are exceeded {} (Hessian) and {} (blend) times.",
            bohning.checked,
            bohning.violated,
            sharp.violated,
            short(bohning.looseness),
            short(sharp.looseness),
            hessian.violated,
            blend.violated,
        ),
        numbers: vec![
            ("pairs", bohning.checked as f64),
            ("violated, Böhning", bohning.violated as f64),
            ("violated, sharp", sharp.violated as f64),
            ("bound over forgetting, Böhning", bohning.looseness),
            ("bound over forgetting, sharp", sharp.looseness),
        ],
    }
}

/// Cumulative test log-loss at the end.
fn end(study: &ClassStudy, method: Learns) -> f64 {
    study.cumulative(method)[study.setting.tasks - 1].mean
}

pub(super) fn near_joint(study: &ClassStudy) -> Finding {
    let joint = end(study, Learns::Joint);
    let above = |method| end(study, method) / joint - 1.0;
    let (paper, sharp, hessian, blend) = (
        above(Learns::OneShotBohning),
        above(Learns::OneShotSharp),
        above(Learns::SequentialHessian),
        above(Learns::SequentialBlend),
    );
    Finding {
        id: "logistic-near-joint",
        source: "Algorithm 2 (alg:mfcl_qub), no experiment in the paper",
        claim: "One quadratic a task, at the task's own optimum, is as good as joint logistic regression (within 1 %).",
        verdict: Verdict::of(paper < 0.01),
        text: format!(
            "Test log-loss over all tasks at the end, above joint training's {}: Böhning {} %, sharp {} %, sequential Hessian {} \
             %, sequential blend {} %.",
            short(joint),
            short(100.0 * paper),
            short(100.0 * sharp),
            short(100.0 * hessian),
            short(100.0 * blend),
        ),
        numbers: vec![
            ("joint", joint),
            ("Böhning above joint", paper),
            ("sharp above joint", sharp),
            ("sequential Hessian above joint", hessian),
            ("sequential blend above joint", blend),
        ],
    }
}

pub(super) fn lowest_log_loss(study: &ClassStudy) -> Finding {
    let ours = [
        Learns::OneShotBohning,
        Learns::OneShotSharp,
        Learns::SequentialHessian,
        Learns::SequentialBlend,
    ];
    let baselines: Vec<Learns> =
        Learns::all().into_iter().filter(|m| matches!(m, Learns::Baseline(_))).collect();
    let lowest = |of: &[Learns]| {
        let each = of.iter().map(|m| (*m, end(study, *m)));
        each.min_by(|a, b| a.1.total_cmp(&b.1)).expect("some method")
    };
    let (rival, best) = lowest(&baselines);
    let won: Vec<&str> =
        ours.iter().filter(|m| end(study, **m) <= best).map(|m| m.name()).collect();
    Finding {
        id: "logistic-lowest",
        source: "no experiment in the paper",
        claim: "With two classes PMF-CL has the lowest test log-loss over all tasks, against SGD, ER, DER and SI.",
        verdict: Verdict::count(won.len(), ours.len(), || format!("it is {}", won.join(" or "))),
        text: format!(
            "Best baseline: {} with {}. One-shot Böhning, the paper's, {}; one-shot sharp {}; sequential Hessian {}; sequential \
             blend {}.",
            rival.name(),
            short(best),
            short(end(study, ours[0])),
            short(end(study, ours[1])),
            short(end(study, ours[2])),
            short(end(study, ours[3])),
        ),
        numbers: vec![
            ("best baseline", best),
            ("one-shot Böhning", end(study, ours[0])),
            ("one-shot sharp", end(study, ours[1])),
            ("sequential Hessian", end(study, ours[2])),
            ("sequential blend", end(study, ours[3])),
        ],
    }
}

pub(super) fn merged_is_pooled(study: &FederatedStudy) -> Finding {
    let gap = study.gap();
    let steps = study.trials.iter().map(Vec::len).sum::<usize>();
    Finding {
        id: "federated-pooled",
        source: "Algorithm 4, increments instead of its recursion",
        claim: "Merged summaries give the model of pooled training, with clients absent and late.",
        verdict: Verdict::of(gap < 1e-9),
        text: format!(
            "{CLIENTS} clients, {LATE} of them from step {} on, {} % absent: the largest difference of a prediction to pooled \
             training on all rows that had arrived is {} standard deviations of the target, over {steps} steps.",
            JOIN + 1,
            100.0 * ABSENT,
            short(gap),
        ),
        numbers: vec![("gap", gap), ("steps", steps as f64)],
    }
}

pub(super) fn federated_errors(study: &FederatedStudy) -> Finding {
    let last = |f: fn(&crate::reproduce::federated::FederatedStep) -> f64| {
        let spread = study.spread(f);
        spread[spread.len() - 1].mean
    };
    let merged = last(|s| s.merged);
    let (fedavg, again) = (last(|s| s.fedavg), last(|s| s.fedavg_all));
    let (local, own) = (last(|s| s.local), last(|s| s.local_own));
    let (ours_up, theirs_up) = study.bytes_up();
    // Merged and FedAvg on all rows differ in the fourth digit.
    let four = |v: f64| format!("{v:.4}");
    Finding {
        id: "federated-errors",
        source: "no experiment in the paper",
        claim: "Merged summaries beat FedAvg and local models on all clients' tasks.",
        verdict: match (merged < fedavg && merged < local, merged < again) {
            (true, true) => Verdict::Holds,
            (true, false) => {
                Verdict::HoldsIf("FedAvg's clients let old rows go as ours do".to_owned())
            }
            (false, _) => Verdict::Fails,
        },
        text: format!(
            "Test error at the end: merged {}, FedAvg ({ROUNDS} rounds per step) {}, FedAvg whose clients keep every row {}, \
             local models {}. On a client's own tasks its local model has {}: one model for all is not the best for each. Sent \
             to the server: {} kB merged, {} kB by FedAvg.",
            four(merged),
            four(fedavg),
            four(again),
            four(local),
            four(own),
            short(ours_up / 1e3),
            short(theirs_up / 1e3),
        ),
        numbers: vec![
            ("merged", merged),
            ("FedAvg", fedavg),
            ("FedAvg, all rows kept", again),
            ("local", local),
            ("local on own tasks", own),
            ("bytes up, merged", ours_up),
            ("bytes up, FedAvg", theirs_up),
        ],
    }
}
