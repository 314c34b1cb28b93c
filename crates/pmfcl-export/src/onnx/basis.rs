//! φ as nodes: every rule of [`Parts`], operation by operation as the core computes it, so that roundings agree too.

use std::f64::consts::FRAC_PI_2;

use pmfcl::Parts;
use pmfcl::basis::{Finish, Frame, Group, Layout, Monomial, Pointwise};

use super::columns::{join, pick, product};
use super::graph::Graph;

/// The columns of the basis from the inputs `x`.
pub(super) fn basis(graph: &mut Graph, x: &str, parts: &Parts<'_>) -> String {
    match parts {
        Parts::Identity => x.to_owned(),
        Parts::Pointwise(Pointwise::Exp) => graph.node("Exp", &[x], &[]),
        Parts::Pointwise(Pointwise::Log) => {
            let size = graph.node("Abs", &[x], &[]);
            let log = log_of_one_plus(graph, &size);
            odd(graph, x, &log)
        }
        Parts::Pointwise(Pointwise::Power(exponent)) => {
            let size = graph.node("Abs", &[x], &[]);
            let exponent = graph.number("exponent", *exponent);
            let power = graph.node("Pow", &[&size, &exponent], &[]);
            odd(graph, x, &power)
        }
        Parts::Monomials(monomials) => products(graph, x, monomials),
        Parts::Splines { count, ranges, held } => {
            if !held {
                let columns = splines(graph, x, *count, ranges);
                return flat(graph, &columns, ranges.len() * count);
            }
            let d = ranges.len();
            let [lo, hi]: [Vec<f64>; 2] =
                [ranges.iter().map(|r| r.0).collect(), ranges.iter().map(|r| r.1).collect()];
            let (lo, hi) = (graph.numbers("first", &[d], &lo), graph.numbers("final", &[d], &hi));
            let inside = graph.node("Max", &[x, &lo], &[]);
            let inside = graph.node("Min", &[&inside, &hi], &[]);
            let columns = splines(graph, &inside, *count, ranges);
            let share = graph.numbers("share", &[1, 1, 1], &[Parts::SHARE]);
            let axis = graph.wholes("axis", &[2]);
            let x = graph.node("Unsqueeze", &[x, &axis], &[]);
            let own = graph.node("Mul", &[&share, &x], &[]);
            let columns = graph.node("Add", &[&columns, &own], &[]);
            flat(graph, &columns, d * count)
        }
        Parts::Random { shift, spread, weights, finish } => {
            let d = shift.len();
            let units = weights.len() / d;
            let shift = graph.numbers("shift", &[d], shift);
            let spread = graph.numbers("spread", &[d], spread);
            let weights = graph.numbers("weights", &[d, units], weights);
            let moved = graph.node("Sub", &[x, &shift], &[]);
            let x = graph.node("Div", &[&moved, &spread], &[]);
            let z = product(graph, &x, &weights, d);
            random(graph, &x, &z, (d, units), finish)
        }
        Parts::Groups { frame, groups } => {
            let columns: Vec<String> = groups.iter().map(|g| group(graph, x, frame, g)).collect();
            let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
            join(graph, &columns)
        }
        Parts::Patches { layout, shift, spread, weights, bias } => {
            patches(graph, x, layout, (*shift, *spread), weights, bias)
        }
    }
}

/// Mean and deviation of the inputs in the first rows, and the inputs in these units.
fn units(graph: &mut Graph, x: &str, frame: &Frame) -> [String; 3] {
    let d = frame.shift.len();
    let mean = graph.numbers("mean", &[d], &frame.shift);
    let deviation = graph.numbers("deviation", &[d], &frame.spread);
    let moved = graph.node("Sub", &[x, &mean], &[]);
    let z = graph.node("Div", &[&moved, &deviation], &[]);
    let most = graph.number("farthest", 1e100);
    let least = graph.number("farthest_below", -1e100);
    let z = graph.node("Min", &[&z, &most], &[]);
    let z = graph.node("Max", &[&z, &least], &[]);
    [mean, deviation, z]
}

/// A group of columns behind a frozen map.
fn group(graph: &mut Graph, x: &str, frame: &Frame, group: &Group<'_>) -> String {
    match group {
        Group::Inputs => x.to_owned(),
        Group::Bounded => {
            let [mean, deviation, z] = units(graph, x, frame);
            let edge = graph.number("edge", Frame::LINEAR);
            let most = graph.number("most", 2.0 * Frame::LINEAR);
            let square = graph.number("edge_squared", Frame::LINEAR * Frame::LINEAR);
            let size = graph.node("Abs", &[&z], &[]);
            let beyond = graph.node("Max", &[&size, &edge], &[]);
            let left = graph.node("Div", &[&square, &beyond], &[]);
            let far = graph.node("Sub", &[&most, &left], &[]);
            let far = graph.node("Mul", &[&deviation, &far], &[]);
            let far = odd(graph, &z, &far);
            let far = graph.node("Add", &[&mean, &far], &[]);
            let near = graph.node("LessOrEqual", &[&size, &edge], &[]);
            graph.node("Where", &[&near, x, &far], &[])
        }
        Group::Mapped { quantile, skip, parts } => {
            let mapped = if *quantile {
                ranks(graph, x, frame)
            } else {
                let [_, _, z] = units(graph, x, frame);
                let (reach, one) = (graph.number("reach", Frame::REACH), graph.number("one", 1.0));
                let far = graph.node("Div", &[&z, &reach], &[]);
                let square = graph.node("Mul", &[&far, &far], &[]);
                let sum = graph.node("Add", &[&one, &square], &[]);
                let root = graph.node("Sqrt", &[&sum], &[]);
                graph.node("Div", &[&z, &root], &[])
            };
            let columns = basis(graph, &mapped, parts);
            if *skip == 0 {
                return columns;
            }
            let width = width_of(parts, frame.shift.len());
            let kept: Vec<usize> = (*skip..width).collect();
            pick(graph, &columns, &kept, width)
        }
    }
}

/// Columns of a map of which some are left out: monomials alone.
fn width_of(parts: &Parts<'_>, d: usize) -> usize {
    match parts {
        Parts::Monomials(monomials) => monomials.len(),
        _ => d,
    }
}

/// The value at x, linear between knots: the first one and, for each interval, as much of its rise as lies below x.
fn ranks(graph: &mut Graph, x: &str, frame: &Frame) -> String {
    let d = frame.shift.len();
    let count = frame.knots.len() / (2 * d);
    let (mut from, mut width, mut rise, mut first) = (vec![], vec![], vec![], vec![]);
    for input in frame.knots.chunks_exact(2 * count) {
        let (knots, values) = input.split_at(count);
        first.push(values[0]);
        for i in 0..count - 1 {
            let gap = knots[i + 1] - knots[i];
            from.push(knots[i]);
            width.push(if gap > 0.0 { gap } else { 1.0 });
            rise.push(values[i + 1] - values[i]);
        }
    }
    let shape = [1, d, count - 1];
    let from = graph.numbers("knots", &shape, &from);
    let width = graph.numbers("gaps", &shape, &width);
    let rise = graph.numbers("rises", &shape, &rise);
    let first = graph.numbers("lowest", &[d], &first);
    let (zero, one) = (graph.number("zero", 0.0), graph.number("one", 1.0));
    let axis = graph.wholes("axis", &[2]);
    let x = graph.node("Unsqueeze", &[x, &axis], &[]);
    let share = graph.node("Sub", &[&x, &from], &[]);
    let share = graph.node("Div", &[&share, &width], &[]);
    let share = graph.node("Max", &[&share, &zero], &[]);
    let share = graph.node("Min", &[&share, &one], &[]);
    let rise = graph.node("Mul", &[&share, &rise], &[]);
    let sum = graph.node("ReduceSum", &[&rise, &axis], &[("keepdims", 0)]);
    graph.node("Add", &[&sum, &first], &[])
}

/// The sign of x times a value.
fn odd(graph: &mut Graph, x: &str, value: &str) -> String {
    let sign = graph.node("Sign", &[x], &[]);
    graph.node("Mul", &[&sign, value], &[])
}

/// log(1 + a) for a ≥ 0 to the last digits: 1 + a is rounded, and log(w)·a/(w − 1) makes up for it (w being the rounded
/// sum). Where w is 1, a is its own logarithm.
fn log_of_one_plus(graph: &mut Graph, a: &str) -> String {
    let one = graph.number("one", 1.0);
    let w = graph.node("Add", &[a, &one], &[]);
    let rounded = graph.node("Sub", &[&w, &one], &[]);
    let log = graph.node("Log", &[&w], &[]);
    let ratio = graph.node("Div", &[a, &rounded], &[]);
    let product = graph.node("Mul", &[&log, &ratio], &[]);
    let small = graph.node("Equal", &[&w, &one], &[]);
    graph.node("Where", &[&small, a, &product], &[])
}

/// Monomials degree by degree: those of the degree before, times an input each.
fn products(graph: &mut Graph, x: &str, monomials: &[Monomial]) -> String {
    let d = monomials.iter().take_while(|monomial| monomial.parent.is_none()).count();
    let mut blocks = vec![x.to_owned()];
    let (mut start, mut end) = (0, d);
    while end < monomials.len() {
        let higher: Vec<(usize, usize)> = monomials[end..]
            .iter()
            .map_while(|m| m.parent.filter(|parent| *parent < end).map(|parent| (parent, m.input)))
            .collect();
        let parents: Vec<usize> = higher.iter().map(|(parent, _)| parent - start).collect();
        let inputs: Vec<usize> = higher.iter().map(|(_, input)| *input).collect();
        let before = blocks.last().expect("the first degree is there").clone();
        let parents = pick(graph, &before, &parents, end - start);
        let inputs = pick(graph, x, &inputs, d);
        blocks.push(graph.node("Mul", &[&parents, &inputs], &[]));
        (start, end) = (end, end + higher.len());
    }
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    join(graph, &blocks)
}

/// B-splines by the closed form of [`Parts::Splines`], rows × inputs × splines; those that are not 0 find their columns by
/// comparing numbers.
fn splines(graph: &mut Graph, x: &str, count: usize, ranges: &[(f64, f64)]) -> String {
    let d = ranges.len();
    let lows: Vec<f64> = ranges.iter().map(|(lo, _)| *lo).collect();
    let highs: Vec<f64> = ranges.iter().map(|(_, hi)| *hi).collect();
    let widths: Vec<f64> = ranges.iter().map(|(lo, hi)| hi - lo).collect();
    let lo = graph.numbers("lo", &[d], &lows);
    let hi = graph.numbers("hi", &[d], &highs);
    let width = graph.numbers("width", &[d], &widths);
    let intervals = graph.number("intervals", (count - 2) as f64);
    let last = graph.number("last_interval", (count - 3) as f64);
    let [zero, half, one, three, four, six] =
        [("zero", 0.0), ("half", 0.5), ("one", 1.0), ("three", 3.0), ("four", 4.0), ("six", 6.0)]
            .map(|(name, value)| graph.number(name, value));
    let mut op = |name: &str, a: &str, b: &str| graph.node(name, &[a, b], &[]);

    let inside = op("Max", x, &lo);
    let inside = op("Min", &inside, &hi);
    let t = op("Sub", &inside, &lo);
    let t = op("Div", &t, &width);
    let t = op("Mul", &t, &intervals);
    let off = op("Sub", x, &inside);
    let off = op("Div", &off, &width);
    let off = op("Mul", &off, &intervals);
    let below = op("Min", &off, &zero);
    let below = op("Mul", &below, &half);
    let above = op("Max", &off, &zero);
    let above = op("Mul", &above, &half);

    let interval = graph.node("Floor", &[&t], &[]);
    let mut op = |name: &str, a: &str, b: &str| graph.node(name, &[a, b], &[]);
    let interval = op("Min", &interval, &last);
    let u = op("Sub", &t, &interval);
    let v = op("Sub", &one, &u);
    // u³/6 and (4 + u²(3u − 6))/6
    let mut cubics = |u: &str| {
        let square = op("Mul", u, u);
        let cube = op("Mul", &square, u);
        let outer = op("Div", &cube, &six);
        let inner = op("Mul", u, &three);
        let inner = op("Sub", &inner, &six);
        let inner = op("Mul", &square, &inner);
        let inner = op("Add", &inner, &four);
        (outer, op("Div", &inner, &six))
    };
    let (fourth, second) = cubics(&u);
    let (first, third) = cubics(&v);
    let values = [
        op("Sub", &first, &below),
        op("Sub", &second, &above),
        op("Add", &third, &below),
        op("Add", &fourth, &above),
    ];

    // rows × inputs × splines
    let axis = graph.wholes("axis", &[2]);
    let numbers: Vec<f64> = (0..count).map(|i| i as f64).collect();
    let numbers = graph.numbers("splines", &[1, 1, count], &numbers);
    let interval = graph.node("Unsqueeze", &[&interval, &axis], &[]);
    let place = graph.node("Sub", &[&numbers, &interval], &[]);
    let mut columns = zero;
    for (k, value) in values.iter().enumerate() {
        let value = graph.node("Unsqueeze", &[value, &axis], &[]);
        let k = graph.number("place", k as f64);
        let here = graph.node("Equal", &[&place, &k], &[]);
        columns = graph.node("Where", &[&here, &value, &columns], &[]);
    }
    columns
}

/// What becomes of z.
fn random(
    graph: &mut Graph,
    x: &str,
    z: &str,
    (d, units): (usize, usize),
    finish: &Finish,
) -> String {
    match finish {
        Finish::Cosine { phase } => {
            // onnxruntime has had the sine of doubles for long, the cosine since 2026 only.
            let phase: Vec<f64> = phase.iter().map(|b| b + FRAC_PI_2).collect();
            let phase = graph.numbers("phase", &[units], &phase);
            // A factor for each column: a common one is drawn into the product that follows; see `product`.
            let factors = vec![(2.0 / units as f64).sqrt(); units];
            let factors = graph.numbers("factors", &[units], &factors);
            let angle = graph.node("Add", &[z, &phase], &[]);
            let wave = graph.node("Sin", &[&angle], &[]);
            graph.node("Mul", &[&factors, &wave], &[])
        }
        Finish::Gauss { length, norms } => {
            let norms = graph.numbers("norms", &[units], norms);
            let half = graph.number("half", -0.5 / length / length);
            let [zero, two, most] = [("zero", 0.0), ("two", 2.0), ("most", f64::MAX)]
                .map(|(name, value)| graph.number(name, value));
            let axis = graph.wholes("axis", &[1]);
            let norm = graph.node("ReduceSumSquare", &[x, &axis], &[]);
            let sum = graph.node("Add", &[&norm, &norms], &[]);
            let twice = graph.node("Mul", &[&two, z], &[]);
            let square = graph.node("Sub", &[&sum, &twice], &[]);
            let square = graph.node("Max", &[&square, &zero], &[]);
            let exponent = graph.node("Mul", &[&half, &square], &[]);
            let bell = graph.node("Exp", &[&exponent], &[]);
            // So far out that the norm overflows, every column is 0.
            let near = graph.node("LessOrEqual", &[&norm, &most], &[]);
            graph.node("Where", &[&near, &bell, &zero], &[])
        }
        Finish::Relu { bias } => {
            let bias = graph.numbers("bias", &[units], bias);
            let sum = graph.node("Add", &[z, &bias], &[]);
            graph.node("Relu", &[&sum], &[])
        }
        Finish::Tangent { outer } => {
            let outer = graph.numbers("outer", &[units], outer);
            let zero = graph.number("zero", 0.0);
            let open = graph.node("GreaterOrEqual", &[z, &zero], &[]);
            let gates = graph.node("Where", &[&open, &outer, &zero], &[]);
            // rows × inputs × units
            let (last, middle) = (graph.wholes("axis", &[2]), graph.wholes("axis", &[1]));
            let x = graph.node("Unsqueeze", &[x, &last], &[]);
            let gates = graph.node("Unsqueeze", &[&gates, &middle], &[]);
            let product = graph.node("Mul", &[&x, &gates], &[]);
            flat(graph, &product, d * units)
        }
    }
}

/// Windows side by side, filters over each, means over regions as one more product. No convolution: onnxruntime has none for
/// doubles.
fn patches(
    graph: &mut Graph,
    x: &str,
    layout: &Layout,
    (shift, spread): (f64, f64),
    weights: &[f64],
    bias: &[f64],
) -> String {
    let (windows, filters) = (layout.windows(), bias.len());
    let cells = layout.size * layout.size;
    let counts = layout.counts();
    let places: Vec<i64> =
        (0..windows).flat_map(|w| layout.pixels(w)).map(|place| place as i64).collect();
    let mut means = vec![0.0; counts.len() * windows];
    for w in 0..windows {
        means[layout.region(w) * windows + w] = 1.0 / counts[layout.region(w)] as f64;
    }
    // A number for each pixel: a common one would be drawn into the product that follows; see `product`.
    let d = layout.height * layout.width;
    let shift = graph.numbers("shift", &[d], &vec![shift; d]);
    let spread = graph.numbers("spread", &[d], &vec![spread; d]);
    let weights = graph.numbers("weights", &[cells, filters], weights);
    let bias = graph.numbers("bias", &[filters], bias);
    let means = graph.numbers("means", &[counts.len(), windows], &means);
    let moved = graph.node("Sub", &[x, &shift], &[]);
    let x = graph.node("Div", &[&moved, &spread], &[]);
    let places = graph.wholes("pixels", &places);
    let pixels = graph.node("Gather", &[&x, &places], &[("axis", 1)]);
    let shape = graph.wholes("shape", &[0, windows as i64, cells as i64]);
    let pixels = graph.node("Reshape", &[&pixels, &shape], &[]);
    let seen = product(graph, &pixels, &weights, cells);
    let seen = graph.node("Add", &[&seen, &bias], &[]);
    let seen = graph.node("Relu", &[&seen], &[]);
    // regions × windows times rows × windows × filters
    let columns = graph.node("MatMul", &[&means, &seen], &[]);
    flat(graph, &columns, counts.len() * filters)
}

/// All but the rows in one dimension. A length of 0 is ONNX for "as it is".
fn flat(graph: &mut Graph, value: &str, width: usize) -> String {
    let shape = graph.wholes("shape", &[0, width as i64]);
    graph.node("Reshape", &[value, &shape], &[])
}
