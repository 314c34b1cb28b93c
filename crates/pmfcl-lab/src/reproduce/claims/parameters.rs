//! Claims about parameters: whether they are those of joint training, and where the solution breaks down.

use super::{Finding, Verdict};
use crate::reproduce::number::{of, short};
use crate::reproduce::roster::Who;
use crate::reproduce::spread::Spread;
use crate::reproduce::study::Study;
use crate::reproduce::trial::Measure;

/// Mean squared distance below which parameters are the same.
const SAME: f64 = 1e-20;

/// The largest mean distance to the joint optimum at the end, over settings.
fn farthest(studies: &[Study], who: Who) -> f64 {
    studies.iter().map(|s| s.last(who, Measure::ToAll)).fold(0.0, f64::max)
}

pub(super) fn converges(studies: &[Study]) -> Finding {
    let ours = farthest(studies, Who::Pmf);
    let rivals = studies.iter().map(|s| s.best(&Who::RIVALS, Measure::ToAll));
    let (who, nearest) =
        rivals.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a main setting");
    Finding {
        id: "converges-to-joint",
        source: "Appendix G, fig:param_error",
        claim: "After the last task PMF-CL's parameters are those of joint training on all tasks; no baseline gets there.",
        verdict: match (ours < SAME, nearest > SAME) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::HoldsIf(format!("{} is left out", who.name())),
            (false, _) => Verdict::Fails,
        },
        text: format!(
            "Mean squared distance: at most {} in any setting. The nearest any rival comes in any setting is {} ({}).",
            short(ours),
            short(nearest),
            who.name()
        ),
        numbers: vec![("PMF-CL, worst setting", ours), ("nearest rival, any setting", nearest)],
    }
}

pub(super) fn small_ridge(studies: &[Study]) -> Finding {
    let theirs = farthest(studies, Who::Paper);
    let ours = farthest(studies, Who::Pmf);
    Finding {
        id: "small-ridge",
        source: "Appendix G, Theorem 4.2 (thm:mfcl_linear)",
        claim: "So do the paper's own recursion and its λ = 1e-6 (with 1/n put in), to working accuracy.",
        verdict: Verdict::of(theirs < 1e-9),
        text: format!(
            "Mean squared distance at most {} at the end, against {} for the packed triangle; what is λ \
             and what the rounding of normal equations is not told apart.",
            short(theirs),
            short(ours)
        ),
        numbers: vec![
            ("paper's recursion, worst setting", theirs),
            ("PMF-CL, worst setting", ours),
        ],
    }
}

/// The settings with fewer rows than features in a task.
pub(super) fn breakdown(studies: &[Study]) -> Option<Finding> {
    let study = studies.iter().find(|s| s.setting.rows[0] < s.setting.d)?;
    let setting = &study.setting;
    // The task after which rows seen come nearest to the number of features.
    let seen = |k: usize| setting.rows[..=k].iter().sum::<usize>();
    let at = (0..study.tasks()).min_by_key(|&k| seen(k).abs_diff(setting.d))?;
    let of_trials = |who| -> Vec<f64> {
        study.curves(who, Measure::Cumulative).iter().map(|c| c[at]).collect()
    };
    let (plain, ridge) = (of_trials(Who::Pmf), of_trials(Who::PmfRidge));
    let worst = plain.iter().copied().fold(0.0, f64::max);
    let (plain, ridge) = (Spread::of(&plain), Spread::of(&ridge));
    let end = study.last(Who::Pmf, Measure::Cumulative);
    Some(Finding {
        id: "few-rows",
        source: "Algorithm 3 (alg:linreg-cl), pseudo-inverse",
        claim: "Without a ridge the method also does while there are no more rows than features.",
        verdict: Verdict::of(plain.mean < 2.0 * ridge.mean),
        text: format!(
            "d = {}, {} rows a task: after task {} ({} rows) the minimum-norm solution has test error {} on average over trials \
             (median {}, worst {}), the GCV ridge {} (median {}). At the end both are at {}.",
            setting.d,
            setting.rows[0],
            at + 1,
            seen(at),
            short(plain.mean),
            short(plain.median),
            short(worst),
            short(ridge.mean),
            short(ridge.median),
            short(end),
        ),
        numbers: vec![
            ("minimum norm, mean", plain.mean),
            ("minimum norm, median", plain.median),
            ("minimum norm, worst", worst),
            ("GCV ridge, mean", ridge.mean),
            ("GCV ridge, median", ridge.median),
        ],
    })
}

pub(super) fn printed(studies: &[Study]) -> Option<Finding> {
    let study = studies.iter().find(|s| !s.setting.even())?;
    let printed = study.last(Who::Printed, Measure::ToNow);
    let corrected = study.last(Who::Paper, Measure::ToNow);
    let ours = study.last(Who::Pmf, Measure::ToNow);
    let even: Vec<&Study> = studies.iter().filter(|s| s.setting.even()).collect();
    let right = even.iter().filter(|s| s.last(Who::Printed, Measure::ToNow) < 1e-9).count();
    Some(Finding {
        id: "printed-recursion",
        source: "Theorem 4.2 (thm:mfcl_linear), Algorithm 3 as printed",
        claim: "The recursion as printed, without 1/n, reaches the joint solution.",
        verdict: match (printed < 1e-9, right == even.len()) {
            (true, _) => Verdict::Holds,
            (false, true) if right > 0 => {
                Verdict::HoldsIf("all tasks have the same size".to_owned())
            }
            _ => Verdict::Fails,
        },
        text: format!(
            "Tasks of {} rows: mean squared distance {} as printed, {} with 1/n put in, {} ours. With tasks of one size it is \
             right in {}.",
            study.setting.rows.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
            short(printed),
            short(corrected),
            short(ours),
            of(right, even.len(), "settings"),
        ),
        numbers: vec![("as printed", printed), ("with 1/n", corrected), ("PMF-CL", ours)],
    })
}
