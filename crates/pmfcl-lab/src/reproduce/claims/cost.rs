//! Claims about memory and time.

use super::{Finding, Verdict};
use crate::reproduce::number::{milliseconds, short};
use crate::reproduce::roster::{BUFFER, Who, equal_buffer};
use crate::reproduce::speed::Seconds;
use crate::reproduce::study::Study;
use crate::reproduce::trial::Measure;

/// What the paper took for its run on an H100, in seconds.
pub(crate) const PAPER_SECONDS: f64 = 0.11;

pub(super) fn memory(studies: &[Study]) -> Finding {
    let study = &studies[0];
    let d = study.setting.d;
    let kept = |who| study.tracks(who).map(|t| t.kept.numbers).max().unwrap_or(0) as f64;
    let (ours, paper, er) = (kept(Who::Pmf), kept(Who::Paper), kept(Who::Er));
    let same = (paper / (d + 1) as f64).round();
    let at = |who| study.last(who, Measure::Cumulative);
    Finding {
        id: "memory",
        source: "Appendix G, fig:memory",
        claim: "PMF-CL's memory is on a par with that of ER and DER.",
        verdict: if (0.5..2.0).contains(&(er / paper)) {
            Verdict::Holds
        } else {
            Verdict::HoldsIf(format!("the buffer holds about {same} examples"))
        },
        text: format!(
            "d = {d}: packed {ours} numbers, the paper's count d(d + 2) = {paper}, a buffer of {BUFFER} examples {er}, {} times \
             ours. A buffer of {} examples has our size; ER then ends at {} over all tasks, with {BUFFER} examples at {}, \
             PMF-CL at {}. SI and online EWC keep a few numbers a parameter and are far smaller.",
            short(er / ours),
            equal_buffer(d),
            short(at(Who::ErSmall)),
            short(at(Who::Er)),
            short(at(Who::Pmf)),
        ),
        numbers: vec![
            ("PMF-CL, packed", ours),
            ("paper's count", paper),
            ("ER", er),
            ("ER of equal memory, cumulative error", at(Who::ErSmall)),
            ("ER, cumulative error", at(Who::Er)),
            ("PMF-CL, cumulative error", at(Who::Pmf)),
        ],
    }
}

pub(super) fn time(seconds: &[Seconds]) -> Finding {
    let of = |who| seconds.iter().find(|s| s.who == who).copied().expect("every method is timed");
    let (ours, ridge, paper, sgd) = (of(Who::Pmf), of(Who::PmfRidge), of(Who::Paper), of(Who::Sgd));
    Finding {
        id: "time",
        source: "Appendix G, fig:time",
        claim: "PMF-CL is quick: 0.11 s for the run on an H100.",
        verdict: Verdict::of(ours.median < PAPER_SECONDS),
        text: format!(
            "All updates and solves of the main run on one core of this machine's CPU: median {}, best {} of {} repeats; with a \
             GCV ridge chosen after every task {}; the paper's recursion written in Rust {}; SGD {}. The paper's 110 ms are {} \
             times our median.",
            milliseconds(ours.median),
            milliseconds(ours.best),
            ours.repeats,
            milliseconds(ridge.median),
            milliseconds(paper.median),
            milliseconds(sgd.median),
            short(PAPER_SECONDS / ours.median),
        ),
        numbers: vec![
            ("median seconds", ours.median),
            ("best seconds", ours.best),
            ("median seconds with GCV ridge", ridge.median),
            ("paper's seconds", PAPER_SECONDS),
        ],
    }
}
