//! From the columns of the basis to what the model predicts: values, or classes and probabilities.

use pmfcl::loss::Link;
use pmfcl::problem::{ClassDensity, ClassRule, Densities, Limits, Response, RowTemperature};

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
        Response::Values { link, limits } => {
            values(graph, columns, exported, *link, limits);
            let doc = format!("columns: {}", exported.targets.join(", "));
            graph.output(TARGETS, Kind::Double, &table(exported.targets.len()), &doc);
        }
        Response::Classes { rule, present, first_is_zero } => {
            let classes = &exported.parameters.classes;
            let front = usize::from(*first_is_zero);
            let mut has_rows = vec![true; classes.len()];
            has_rows[front..].iter_mut().zip(present).for_each(|(to, from)| *to = *from);
            let scores = match rule {
                ClassRule::ClassCovariance(rule) => densities(graph, columns, rule),
                _ => linear(graph, columns, exported, front, &has_rows, None),
            };
            let names: Vec<&str> = classes.iter().map(String::as_str).collect();
            let names = graph.texts("classes", &[classes.len()], &names);
            // Where several scores are equal, ArgMax takes the first, as we do.
            let best = graph.node("ArgMax", &[&scores], &[("axis", 1), ("keepdims", 0)]);
            graph.node_into(LABEL, "Gather", &[&names, &best], &[("axis", 0)]);
            match rule {
                ClassRule::Softmax { temperature } => {
                    let divided = divided(graph, &scores, *temperature);
                    graph.node_into(PROBABILITIES, "Softmax", &[&divided], &[("axis", 1)]);
                }
                ClassRule::RowTemperature(rule) => {
                    row_temperature(graph, columns, &scores, rule, &has_rows);
                }
                ClassRule::ClassCovariance(rule) => {
                    let divided = divided(graph, &scores, rule.temperature);
                    with_floor(graph, &divided, rule.floor, &has_rows);
                }
                _ => clip(graph, &scores, &has_rows),
            }
            let doc = format!("columns: {}", classes.join(", "));
            graph.output(LABEL, Kind::Text, &[Dimension::Rows], "the most likely class");
            graph.output(PROBABILITIES, Kind::Double, &table(classes.len()), &doc);
        }
    }
}

/// The linear predictor of each value, within its limits, through its link.
fn values(
    graph: &mut Graph,
    columns: &str,
    exported: &Exported<'_>,
    link: Link,
    limits: &[Limits],
) {
    let has_rows = vec![true; exported.columns()];
    if link != Link::Exp && limits.is_empty() {
        linear(graph, columns, exported, 0, &has_rows, Some(TARGETS));
        return;
    }
    let mut predictor = linear(graph, columns, exported, 0, &has_rows, None);
    if !limits.is_empty() {
        let [least, most]: [Vec<f64>; 2] =
            [limits.iter().map(|l| l.least).collect(), limits.iter().map(|l| l.most).collect()];
        let least = graph.numbers("least", &[limits.len()], &least);
        let most = graph.numbers("most", &[limits.len()], &most);
        let above = graph.node("Max", &[&predictor, &least], &[]);
        if link != Link::Exp {
            return graph.node_into(TARGETS, "Min", &[&above, &most], &[]);
        }
        predictor = graph.node("Min", &[&above, &most], &[]);
    }
    graph.node_into(TARGETS, "Exp", &[&predictor], &[]);
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

/// s/T. The largest score is subtracted before a division that could overflow.
fn divided(graph: &mut Graph, scores: &str, temperature: f64) -> String {
    if (temperature - 1.0).abs() <= 0.0 {
        return scores.to_owned();
    }
    let axis = graph.wholes("axis", &[1]);
    let temperature = graph.number("temperature", temperature);
    let top = graph.node("ReduceMax", &[scores, &axis], &[]);
    let below = graph.node("Sub", &[scores, &top], &[]);
    graph.node("Div", &[&below, &temperature], &[])
}

/// Softmax of s/T(x), T(x) = T (c + r)/(c + 1), mixed with equal shares of the classes that have rows.
fn row_temperature(
    graph: &mut Graph,
    columns: &str,
    scores: &str,
    rule: &RowTemperature,
    has_rows: &[bool],
) {
    let below = if let Some(near_class) = &rule.nearest {
        let axis = graph.wholes("axis", &[1]);
        let (d, whitening) = (near_class.centre.len(), &near_class.whitening);
        let centre = graph.numbers("centre", &[1, d], &near_class.centre);
        let centred = graph.node("Sub", &[columns, &centre], &[]);
        let white = if d == 1 {
            let whitening = graph.numbers("whitening", &[1, whitening.len()], whitening);
            graph.node("Mul", &[&centred, &whitening], &[])
        } else {
            let width = whitening.len() / d;
            let mut turned = vec![0.0; whitening.len()];
            for (i, row) in whitening.chunks_exact(d).enumerate() {
                row.iter().enumerate().for_each(|(j, v)| turned[j * width + i] = *v);
            }
            let whitening = graph.numbers("whitening", &[d, width], &turned);
            graph.node("MatMul", &[&centred, &whitening], &[])
        };
        let squares = graph.node("Mul", &[&white, &white], &[]);
        let square = graph.node("ReduceSum", &[&squares, &axis], &[]);
        // A class without rows scores −∞ and is never the nearest; its share must not make NaN of that.
        let shares: Vec<f64> =
            near_class.log_shares.iter().map(|v| if v.is_finite() { *v } else { 0.0 }).collect();
        let shares = graph.numbers("log_shares", &[1, shares.len()], &shares);
        let near = graph.node("Sub", &[scores, &shares], &[]);
        let near = graph.node("ReduceMax", &[&near, &axis], &[]);
        let two = graph.number("two", 2.0);
        let near = graph.node("Mul", &[&near, &two], &[]);
        let zero = graph.number("zero", 0.0);
        let nearest = graph.node("Sub", &[&square, &near], &[]);
        let nearest = graph.node("Max", &[&nearest, &zero], &[]);
        let usual = graph.number("usual", near_class.usual);
        let far = graph.node("Div", &[&nearest, &usual], &[]);
        let shape = graph.number("shape", rule.shape);
        let far = graph.node("Add", &[&far, &shape], &[]);
        let scale = graph.number("scale", rule.temperature / (rule.shape + 1.0));
        let temperature = graph.node("Mul", &[&far, &scale], &[]);
        let top = graph.node("ReduceMax", &[scores, &axis], &[]);
        let below = graph.node("Sub", &[scores, &top], &[]);
        graph.node("Div", &[&below, &temperature], &[])
    } else {
        divided(graph, scores, rule.temperature)
    };
    with_floor(graph, &below, rule.floor, has_rows);
}

/// Scores of a density for each class, −∞ for those without rows.
fn densities(graph: &mut Graph, columns: &str, rule: &Densities) -> String {
    let axis = graph.wholes("axis", &[1]);
    let mut distances = Vec::new();
    let some = rule.classes.iter().flatten().next();
    for class in rule.classes.iter().map(|class| class.as_ref().or(some)) {
        let Some(class) = class else { continue };
        let d = class.mean.len();
        let mean = graph.numbers("mean", &[1, d], &class.mean);
        let centred = graph.node("Sub", &[columns, &mean], &[]);
        let width = (class.whitening.len() / d).max(1);
        let mut turned = vec![0.0; d * width];
        for (i, row) in class.whitening.chunks_exact(d).enumerate() {
            row.iter().enumerate().for_each(|(j, v)| turned[j * width + i] = *v);
        }
        let whitening = graph.numbers("whitening", &[d, width], &turned);
        let product = if d == 1 { "Mul" } else { "MatMul" };
        let white = graph.node(product, &[&centred, &whitening], &[]);
        let squares = graph.node("Mul", &[&white, &white], &[]);
        distances.push(graph.node("ReduceSum", &[&squares, &axis], &[]));
    }
    let distances: Vec<&str> = distances.iter().map(String::as_str).collect();
    let mut tail = graph.node("Concat", &distances, &[("axis", 1)]);
    if rule.shape.is_finite() {
        let scale = graph.number("scale", 1.0 / (rule.shape * rule.usual));
        let one = graph.number("one", 1.0);
        let share = graph.node("Mul", &[&tail, &scale], &[]);
        let above = graph.node("Add", &[&share, &one], &[]);
        let log = graph.node("Log", &[&above], &[]);
        let factor = graph.number("factor", (1.0 + rule.shape) * rule.usual);
        tail = graph.node("Mul", &[&log, &factor], &[]);
    }
    let half = graph.number("half", -0.5);
    let tail = graph.node("Mul", &[&tail, &half], &[]);
    let shift = |class: &Option<ClassDensity>| {
        class.as_ref().map_or(f64::NEG_INFINITY, |c| c.log_share - c.log_det / 2.0)
    };
    let shifts: Vec<f64> = rule.classes.iter().map(shift).collect();
    let shifts = graph.numbers("shifts", &[1, shifts.len()], &shifts);
    graph.node("Add", &[&tail, &shifts], &[])
}

/// Softmax, mixed with equal shares of the classes that have rows. Not as `(1 − floor) p + share`: onnxruntime leaves out a factor that is
/// near 1, and probabilities then have a sum above 1.
fn with_floor(graph: &mut Graph, scores: &str, floor: f64, has_rows: &[bool]) {
    let softmax = graph.node("Softmax", &[scores], &[("axis", 1)]);
    let possible = has_rows.iter().filter(|has_rows| **has_rows).count().max(1);
    let share = |has_rows: &bool| if *has_rows { 1.0 / possible as f64 } else { 0.0 };
    let shares: Vec<f64> = has_rows.iter().map(share).collect();
    let shares = graph.numbers("shares", &[1, has_rows.len()], &shares);
    let floor = graph.number("floor", floor);
    let missing = graph.node("Sub", &[&shares, &softmax], &[]);
    let missing = graph.node("Mul", &[&missing, &floor], &[]);
    graph.node_into(PROBABILITIES, "Add", &[&softmax, &missing], &[]);
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
