//! From the columns of the basis to what the model predicts: values, or classes and probabilities.

use pmfcl::loss::Link;
use pmfcl::problem::{ClassRule, Response};

use super::graph::{Dimension, Graph, Kind};
use crate::Exported;

/// Predicted values.
pub(super) const TARGETS: &str = "Y";
/// Names of the classes.
pub(super) const LABEL: &str = "label";
/// Probabilities of the classes.
pub(super) const PROBABILITIES: &str = "probabilities";

/// Ends the graph: outputs from the columns of the basis.
pub(super) fn outputs(graph: &mut Graph, columns: &str, exported: &Exported<'_>) {
    let table = |width| [Dimension::Rows, Dimension::Fixed(width)];
    match &exported.parameters.response {
        Response::Values(link) => {
            values(graph, columns, exported, *link);
            let doc = format!("columns: {}", exported.targets.join(", "));
            graph.output(TARGETS, Kind::Double, &table(exported.targets.len()), &doc);
        }
        Response::Classes { rule, present, first_is_zero } => {
            let classes = &exported.parameters.classes;
            let front = usize::from(*first_is_zero);
            let mut has_rows = vec![true; classes.len()];
            has_rows[front..].iter_mut().zip(present).for_each(|(to, from)| *to = *from);
            let scores = linear(graph, columns, exported, front, &has_rows, None);
            let names: Vec<&str> = classes.iter().map(String::as_str).collect();
            let names = graph.texts("classes", &[classes.len()], &names);
            // Where several scores are equal, ArgMax takes the first, as we do.
            let best = graph.node("ArgMax", &[&scores], &[("axis", 1), ("keepdims", 0)]);
            graph.node_into(LABEL, "Gather", &[&names, &best], &[("axis", 0)]);
            match rule {
                ClassRule::Softmax { temperature } => softmax(graph, &scores, *temperature),
                _ => clip(graph, &scores, &has_rows),
            }
            let doc = format!("columns: {}", classes.join(", "));
            graph.output(LABEL, Kind::Text, &[Dimension::Rows], "the most likely class");
            graph.output(PROBABILITIES, Kind::Double, &table(classes.len()), &doc);
        }
    }
}

/// The linear predictor of each value through its link.
fn values(graph: &mut Graph, columns: &str, exported: &Exported<'_>, link: Link) {
    let has_rows = vec![true; exported.columns()];
    match link {
        Link::Exp => {
            let predictor = linear(graph, columns, exported, 0, &has_rows, None);
            graph.node_into(TARGETS, "Exp", &[&predictor], &[]);
        }
        _ => {
            linear(graph, columns, exported, 0, &has_rows, Some(TARGETS));
        }
    }
}

/// φ(x)ᵀθ behind `front` columns of zeros, with −∞ in the columns of classes without rows. The value is called `name` where one is given.
fn linear(
    graph: &mut Graph,
    columns: &str,
    exported: &Exported<'_>,
    front: usize,
    has_rows: &[bool],
    name: Option<&str>,
) -> String {
    let (p, m) = (exported.columns(), exported.design.map().width());
    let mut coef = vec![0.0; m * (front + p)];
    for k in 0..p {
        for (row, value) in coef.chunks_exact_mut(front + p).zip(exported.coefficients(k)) {
            row[front + k] = *value;
        }
    }
    let mut shift = vec![0.0; front];
    shift.extend(exported.intercepts().unwrap_or_else(|| vec![0.0; p]));
    for (shift, _) in shift.iter_mut().zip(has_rows).filter(|(_, has_rows)| !**has_rows) {
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
    let shifted = exported.design.intercept() || has_rows.contains(&false);
    // A lone column goes without a matrix product; see `columns::product`.
    let product = if m == 1 { "Mul" } else { "MatMul" };
    let product = last(graph, product, &[columns, &coef], !shifted);
    if !shifted {
        return product;
    }
    let shift = graph.numbers("intercept", &[front + p], &shift);
    last(graph, "Add", &[&product, &shift], true)
}

/// exp(s/T)/Σ exp(s/T). The largest score is subtracted before a division that could overflow.
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
fn clip(graph: &mut Graph, scores: &str, has_rows: &[bool]) {
    let possible = has_rows.iter().filter(|has_rows| **has_rows).count();
    let share = |has_rows: &bool| if *has_rows { 1.0 / possible as f64 } else { 0.0 };
    let shares: Vec<f64> = has_rows.iter().map(share).collect();
    let shares = graph.numbers("shares", &[1, has_rows.len()], &shares);
    let (zero, one) = (graph.number("zero", 0.0), graph.number("one", 1.0));
    let axis = graph.wholes("axis", &[1]);
    let clipped = graph.node("Clip", &[scores, &zero, &one], &[]);
    let sum = graph.node("ReduceSum", &[&clipped, &axis], &[]);
    let some = graph.node("Greater", &[&sum, &zero], &[]);
    let parts = graph.node("Div", &[&clipped, &sum], &[]);
    graph.node_into(PROBABILITIES, "Where", &[&some, &parts, &shares], &[]);
}
