//! An ONNX graph in the making: values have names, nodes turn values into values.
//!
//! Numbers after `field:` are those of the messages in `onnx.proto`.

use std::collections::BTreeSet;

use super::proto::Message;

/// What a tensor holds: `TensorProto.DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Whole = 7,
    Text = 8,
    Double = 11,
}

/// Length of one dimension of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    /// As many as there are rows.
    Rows,
    /// Always the same.
    Fixed(usize),
}

/// `AttributeProto.AttributeType.INT`
const INT: i64 = 2;

/// A graph in the making.
#[derive(Debug)]
pub(super) struct Graph {
    taken: BTreeSet<String>,
    nodes: Vec<Message>,
    initializers: Vec<Message>,
    inputs: Vec<Message>,
    outputs: Vec<Message>,
}

impl Graph {
    /// Nothing yet; the names of outputs to come are set aside.
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self {
            taken: reserved.iter().map(|&name| name.to_owned()).collect(),
            nodes: Vec::new(),
            initializers: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// A name nobody has: the stem, or the stem and a number. ONNX knows no empty names.
    pub(super) fn fresh(&mut self, stem: &str) -> String {
        let stem = if stem.is_empty() { "unnamed" } else { stem };
        let numbered = (2..).map(|i| format!("{stem}_{i}"));
        let mut names = std::iter::once(stem.to_owned()).chain(numbered);
        let name = names.find(|name| !self.taken.contains(name)).expect("numbers do not end");
        self.taken.insert(name.clone());
        name
    }

    /// An input of the graph under a name from [`Graph::fresh`] or one set aside.
    pub(super) fn input(&mut self, name: &str, kind: Kind, shape: &[Dimension], doc: &str) {
        self.inputs.push(value(name, kind, shape, doc));
    }

    /// Names a value that nodes write as an output of the graph.
    pub(super) fn output(&mut self, name: &str, kind: Kind, shape: &[Dimension], doc: &str) {
        self.outputs.push(value(name, kind, shape, doc));
    }

    /// A node; gives the name of its result.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], attributes: &[(&str, i64)]) -> String {
        let output = self.fresh(&op.to_lowercase());
        self.node_into(&output, op, inputs, attributes);
        output
    }

    /// A node whose result has a given name.
    pub(super) fn node_into(
        &mut self,
        output: &str,
        op: &str,
        inputs: &[&str],
        attributes: &[(&str, i64)],
    ) {
        let attributes: Vec<Message> = attributes
            .iter()
            // field: 1 name, 3 i, 20 type
            .map(|(name, i)| Message::default().text(1, name).whole(3, *i).whole(20, INT))
            .collect();
        // field: 1 input, 2 output, 3 name, 4 op_type, 5 attribute
        let node = inputs.iter().fold(Message::default(), |node, input| node.text(1, input));
        let node = node.text(2, output).text(3, output).text(4, op).messages(5, &attributes);
        self.nodes.push(node);
    }

    /// A constant tensor of floating-point numbers.
    pub(super) fn numbers(&mut self, stem: &str, shape: &[usize], cells: &[f64]) -> String {
        let raw: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        // field: 9 raw_data
        self.constant(stem, Kind::Double, shape, |name| name.bytes(9, &raw))
    }

    /// A single constant number.
    pub(super) fn number(&mut self, stem: &str, value: f64) -> String {
        self.numbers(stem, &[], &[value])
    }

    /// A constant list of whole numbers.
    pub(super) fn wholes(&mut self, stem: &str, cells: &[i64]) -> String {
        let raw: Vec<u8> = cells.iter().flat_map(|cell| cell.to_le_bytes()).collect();
        self.constant(stem, Kind::Whole, &[cells.len()], |name| name.bytes(9, &raw))
    }

    /// A constant tensor of text.
    pub(super) fn texts(&mut self, stem: &str, shape: &[usize], cells: &[&str]) -> String {
        let name = self.fresh(stem);
        // field: 6 string_data, before 8 name
        let tensor =
            cells.iter().fold(tensor(Kind::Text, shape), |tensor, cell| tensor.text(6, cell));
        self.initializers.push(tensor.text(8, &name));
        name
    }

    fn constant(
        &mut self,
        stem: &str,
        kind: Kind,
        shape: &[usize],
        data: impl Fn(Message) -> Message,
    ) -> String {
        let name = self.fresh(stem);
        // field: 8 name
        self.initializers.push(data(tensor(kind, shape).text(8, &name)));
        name
    }

    /// The `GraphProto`.
    pub(super) fn finish(self, name: &str) -> Message {
        // field: 1 node, 2 name, 5 initializer, 11 input, 12 output
        Message::default()
            .messages(1, &self.nodes)
            .text(2, name)
            .messages(5, &self.initializers)
            .messages(11, &self.inputs)
            .messages(12, &self.outputs)
    }
}

/// The beginning of a `TensorProto`.
fn tensor(kind: Kind, shape: &[usize]) -> Message {
    // field: 1 dims, 2 data_type
    let dims = shape.iter().fold(Message::default(), |dims, &length| dims.whole(1, length as i64));
    dims.whole(2, kind as i64)
}

/// A `ValueInfoProto`.
fn value(name: &str, kind: Kind, shape: &[Dimension], doc: &str) -> Message {
    let dimensions: Vec<Message> = shape
        .iter()
        // field: 1 dim_value, 2 dim_param
        .map(|dimension| match dimension {
            Dimension::Rows => Message::default().text(2, "N"),
            Dimension::Fixed(length) => Message::default().whole(1, *length as i64),
        })
        .collect();
    // field: 1 dim in the shape; 1 elem_type, 2 shape in the tensor; 1 tensor_type in the type
    let shape = Message::default().messages(1, &dimensions);
    let tensor = Message::default().whole(1, kind as i64).message(2, &shape);
    let kind = Message::default().message(1, &tensor);
    // field: 1 name, 2 type, 3 doc_string
    Message::default().text(1, name).message(2, &kind).text(3, doc)
}
