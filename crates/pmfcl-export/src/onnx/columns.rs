//! From the inputs of a graph to the inputs of the model: numbers come together in `X`, text is compared with the values
//! it may have.

use super::graph::{Dimension, Graph, Kind};
use crate::Input;

/// The one input for all columns of numbers.
pub(super) const NUMBERS: &str = "X";

/// A text column of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text<'a> {
    /// Its name in the model.
    pub(super) column: &'a str,
    /// Its name in the graph: another one where the graph has it already.
    pub(super) input: String,
}

/// What the graph asks for, and the model's inputs made of it.
#[derive(Debug)]
pub(super) struct Columns<'a> {
    /// Names of the columns of `X`.
    pub(super) numbers: Vec<&'a str>,
    /// Text columns, in the order they first occur.
    pub(super) texts: Vec<Text<'a>>,
    /// The value that holds the model's inputs, rows × inputs.
    pub(super) value: String,
}

/// Declares the inputs of the graph and puts them in the model's order.
pub(super) fn columns<'a>(graph: &mut Graph, inputs: &'a [Input]) -> Columns<'a> {
    let mut numbers = Vec::new();
    // Column, its values, and the place of each value among the inputs.
    let mut texts: Vec<(&str, Vec<&str>, Vec<usize>)> = Vec::new();
    // Places among the inputs, in the order in which the graph puts them together.
    let mut places = Vec::new();
    // Columns of numbers with gaps: the place in `X`, and that of the indicator among the inputs.
    let mut gaps: Vec<(usize, usize)> = Vec::new();
    let number = |name: &str| {
        let named = inputs.iter().filter(|input| matches!(input, Input::Number(_)));
        named.map(Input::name).position(|known| known == name)
    };
    for (place, input) in inputs.iter().enumerate() {
        match input {
            Input::Number(name) => {
                numbers.push(name.as_str());
                places.push(place);
            }
            // A text column without text has an empty one.
            Input::Missing { column } => match number(column) {
                Some(at) => gaps.push((at, place)),
                None => {
                    let at = texts.iter().position(|(known, ..)| known == column);
                    let at = at.unwrap_or_else(|| {
                        texts.push((column, Vec::new(), Vec::new()));
                        texts.len() - 1
                    });
                    texts[at].1.push("");
                    texts[at].2.push(place);
                }
            },
            Input::Category { column, value } => {
                let at = texts.iter().position(|(known, ..)| known == column);
                let at = at.unwrap_or_else(|| {
                    texts.push((column, Vec::new(), Vec::new()));
                    texts.len() - 1
                });
                texts[at].1.push(value);
                texts[at].2.push(place);
            }
        }
    }
    let mut blocks = Vec::new();
    if !numbers.is_empty() {
        let shape = [Dimension::Rows, Dimension::Fixed(numbers.len())];
        let doc = format!("columns of numbers: {}", numbers.join(", "));
        graph.input(NUMBERS, Kind::Double, &shape, &doc);
        if gaps.is_empty() {
            blocks.push(NUMBERS.to_owned());
        } else {
            let (filled, missing) = gaps_apart(graph, &gaps, numbers.len());
            blocks.extend([filled, missing]);
            places.extend(gaps.iter().map(|(_, place)| *place));
        }
    }
    let mut named = Vec::new();
    for (column, values, at) in texts {
        let input = graph.fresh(column);
        let doc = format!("the text column {column}");
        graph.input(&input, Kind::Text, &[Dimension::Rows, Dimension::Fixed(1)], &doc);
        let known = graph.texts("categories", &[1, values.len()], &values);
        let equal = graph.node("Equal", &[&input, &known], &[]);
        let ones = graph.node("Cast", &[&equal], &[("to", Kind::Double as i64)]);
        blocks.push(refuse_unknown(graph, &input, &ones));
        named.push(Text { column, input });
        places.extend(at);
    }
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let joined = join(graph, &blocks);
    let mut order = vec![0; places.len()];
    for (i, place) in places.into_iter().enumerate() {
        order[place] = i;
    }
    let value = pick(graph, &joined, &order, inputs.len());
    Columns { numbers, texts: named, value }
}

/// `X` with zeros in the gaps of the columns that have any, and the indicators of these gaps. NaN in other columns stays.
fn gaps_apart(graph: &mut Graph, gaps: &[(usize, usize)], width: usize) -> (String, String) {
    let nan = graph.node("IsNaN", &[NUMBERS], &[]);
    let zero = graph.numbers("zero", &[1, 1], &[0.0]);
    let ones = graph.node("Cast", &[&nan], &[("to", Kind::Double as i64)]);
    let columns: Vec<usize> = gaps.iter().map(|(at, _)| *at).collect();
    let missing = pick(graph, &ones, &columns, width);
    let allowed: Vec<f64> =
        (0..width).map(|at| f64::from(u8::from(columns.contains(&at)))).collect();
    let allowed = graph.numbers("may_be_missing", &[1, width], &allowed);
    let gap = graph.node("Mul", &[&ones, &allowed], &[]);
    let gap = graph.node("Greater", &[&gap, &zero], &[]);
    (graph.node("Where", &[&gap, &zero, NUMBERS], &[]), missing)
}

/// The indicators of a text column, each times 1, where every row has one. A row without has a category the model does not
/// know: it asks for the second of one number, which ONNX declares an error, and the runtime names the node.
fn refuse_unknown(graph: &mut Graph, input: &str, ones: &str) -> String {
    let axis = graph.wholes("axis", &[1]);
    let (one, numbers) = (graph.wholes("one", &[1]), graph.numbers("ones", &[1], &[1.0]));
    let count = graph.node("ReduceSum", &[ones, &axis], &[]);
    let count = graph.node("Cast", &[&count], &[("to", Kind::Whole as i64)]);
    let place = graph.node("Sub", &[&one, &count], &[]);
    let named = graph.fresh(&format!("unknown_category_in_{input}"));
    graph.node_into(&named, "Gather", &[&numbers, &place], &[("axis", 0)]);
    graph.node("Mul", &[ones, &named], &[])
}

/// Blocks of columns side by side.
pub(super) fn join(graph: &mut Graph, blocks: &[&str]) -> String {
    match blocks {
        [one] => (*one).to_owned(),
        several => graph.node("Concat", several, &[("axis", 1)]),
    }
}

/// Rows times a matrix of `inner` rows.
///
/// onnxruntime draws a common factor or divisor of either side into the product, as a single-precision attribute: eight
/// digits are lost. A lone column's unit is such a divisor, so a lone column goes without a matrix product.
pub(super) fn product(graph: &mut Graph, rows: &str, matrix: &str, inner: usize) -> String {
    graph.node(if inner == 1 { "Mul" } else { "MatMul" }, &[rows, matrix], &[])
}

/// Columns by their numbers; nothing to do where these are all of them in order.
pub(super) fn pick(graph: &mut Graph, value: &str, columns: &[usize], of: usize) -> String {
    if columns.iter().copied().eq(0..of) {
        return value.to_owned();
    }
    let columns: Vec<i64> = columns.iter().map(|&at| at as i64).collect();
    let columns = graph.wholes("columns", &columns);
    graph.node("Gather", &[value, &columns], &[("axis", 1)])
}
