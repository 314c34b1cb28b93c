//! From the columns of the basis to what the model says: targets, or classes and probabilities.

use super::graph::{Dimension, Graph, Kind};
use crate::{Exported, Output, Rule};

/// Targets of a regression.
pub(super) const TARGETS: &str = "Y";
/// Names of the classes.
pub(super) const LABEL: &str = "label";
/// Probabilities of the classes.
pub(super) const PROBABILITIES: &str = "probabilities";

/// Ends the graph: outputs from the columns of the basis.
pub(super) fn outputs(graph: &mut Graph, columns: &str, exported: &Exported<'_>) {
    let table = |width| [Dimension::Rows, Dimension::Fixed(width)];
    match exported.output {
        Output::Targets(targets) => {
            scores(graph, columns, exported, false, Some(TARGETS));
            let doc = format!("columns: {}", targets.join(", "));
            graph.output(TARGETS, Kind::Double, &table(targets.len()), &doc);
        }
        Output::Classes { classes, rule } => {
            let binary = exported.theta.targets() < classes.len();
            let scores = scores(graph, columns, exported, binary, None);
            let names: Vec<&str> = classes.iter().map(String::as_str).collect();
            let names = graph.texts("classes", &[classes.len()], &names);
            // Where several scores are equal, ArgMax takes the first, as we do.
            let best = graph.node("ArgMax", &[&scores], &[("axis", 1), ("keepdims", 0)]);
            graph.node_into(LABEL, "Gather", &[&names, &best], &[("axis", 0)]);
            match rule {
                Rule::Squared => clip(graph, &scores, &exported.absent()),
                Rule::Gaussian { temperature } => softmax(graph, &scores, temperature),
                Rule::Logistic => softmax(graph, &scores, 1.0),
            }
            let doc = format!("columns: {}", classes.join(", "));
            graph.output(LABEL, Kind::Text, &[Dimension::Rows], "the most likely class");
            graph.output(PROBABILITIES, Kind::Double, &table(classes.len()), &doc);
        }
    }
}

/// φ(x)ᵀθ. A column of zeros goes in front where two classes share one; classes without rows score −∞.
fn scores(
    graph: &mut Graph,
    columns: &str,
    exported: &Exported<'_>,
    binary: bool,
    name: Option<&str>,
) -> String {
    let (p, m) = (exported.theta.targets(), exported.design.map().width());
    let front = usize::from(binary);
    let mut coef = vec![0.0; m * (front + p)];
    for k in 0..p {
        for (row, value) in coef.chunks_exact_mut(front + p).zip(exported.coefficients(k)) {
            row[front + k] = *value;
        }
    }
    let absent = exported.absent();
    let mut shift = vec![0.0; front];
    shift.extend(exported.intercepts().unwrap_or_else(|| vec![0.0; p]));
    for (shift, _) in shift[front..].iter_mut().zip(&absent).filter(|(_, absent)| **absent) {
        *shift = f64::NEG_INFINITY;
    }
    let coef = graph.numbers("coef", &[m, front + p], &coef);
    let last = |graph: &mut Graph, op: &str, inputs: &[&str], ends: bool| match name {
        Some(name) if ends => {
            graph.node_into(name, op, inputs, &[]);
            name.to_owned()
        }
        _ => graph.node(op, inputs, &[]),
    };
    let shifted = exported.design.intercept() || absent.contains(&true);
    // A lone column goes without a matrix product; see `columns::product`.
    let product = if m == 1 { "Mul" } else { "MatMul" };
    let product = last(graph, product, &[columns, &coef], !shifted);
    if !shifted {
        return product;
    }
    let shift = graph.numbers("intercept", &[front + p], &shift);
    last(graph, "Add", &[&product, &shift], true)
}

/// exp(s/T)/Σ exp(s/T). The largest score is taken off before a division that could overflow.
fn softmax(graph: &mut Graph, scores: &str, temperature: f64) {
    let mut scores = scores.to_owned();
    if (temperature - 1.0).abs() > 0.0 {
        let axis = graph.wholes("axis", &[1]);
        let temperature = graph.number("temperature", temperature);
        let top = graph.node("ReduceMax", &[&scores, &axis], &[]);
        let below = graph.node("Sub", &[&scores, &top], &[]);
        scores = graph.node("Div", &[&below, &temperature], &[]);
    }
    graph.node_into(PROBABILITIES, "Softmax", &[&scores], &[("axis", 1)]);
}

/// Clipped to [0, 1] and divided by the sum; where that is 0, equal shares of the classes that have rows.
fn clip(graph: &mut Graph, scores: &str, absent: &[bool]) {
    let possible = absent.iter().filter(|absent| !**absent).count();
    let share = |absent: &bool| if *absent { 0.0 } else { 1.0 / possible as f64 };
    let shares: Vec<f64> = absent.iter().map(share).collect();
    let shares = graph.numbers("shares", &[1, absent.len()], &shares);
    let (zero, one) = (graph.number("zero", 0.0), graph.number("one", 1.0));
    let axis = graph.wholes("axis", &[1]);
    let clipped = graph.node("Clip", &[scores, &zero, &one], &[]);
    let sum = graph.node("ReduceSum", &[&clipped, &axis], &[]);
    let some = graph.node("Greater", &[&sum, &zero], &[]);
    let parts = graph.node("Div", &[&clipped, &sum], &[]);
    graph.node_into(PROBABILITIES, "Where", &[&some, &parts, &shares], &[]);
}
