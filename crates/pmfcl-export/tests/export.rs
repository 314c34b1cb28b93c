//! The same bytes every time, and refusals that say what is wrong.

use std::borrow::Cow;

use pmfcl::learner::Parameters;
use pmfcl::loss::Link;
use pmfcl::problem::{ClassRule, Response};
use pmfcl::{Basis, ClassList, Design, Labels, Learner, Problem, Rows, Settings, TaskRows, Theta};
use pmfcl_export::{ExportError, Exported, Input, OPSET, json, onnx, onnx_for, safetensors};

fn design(basis: &str, inputs: usize, intercept: bool) -> Design {
    let rows: Vec<f64> = (0..20 * inputs).map(|i| ((i * 7) % 13) as f64 / 3.0).collect();
    Design::new(basis.parse::<Basis>().unwrap().fix(&rows, inputs).unwrap(), intercept)
}

fn numbers(names: &[&str]) -> Vec<Input> {
    names.iter().map(|&name| Input::Number(name.to_owned())).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Values by least squares with these parameters.
fn values<'a>(
    name: &'a str,
    inputs: &'a [Input],
    design: &'a Design,
    theta: Theta,
    targets: &'a [String],
) -> Exported<'a> {
    let response = Response::Values { link: Link::Identity, limits: Vec::new() };
    let parameters = Parameters { theta, classes: Vec::new(), response };
    let design = Cow::Borrowed(design);
    Exported {
        name,
        loss: "squared".to_owned(),
        inputs,
        design,
        parameters,
        targets,
        means: Vec::new(),
    }
}

/// A learner of one task.
fn learned(problem: Problem, rows: TaskRows<'_>) -> Learner {
    let mut learner = Learner::new(problem, Settings::default()).unwrap();
    learner.learn("only", rows, 1.0).unwrap();
    learner
}

fn read(model: &Exported<'_>) -> serde_json::Value {
    serde_json::from_str(&json(model).unwrap()).unwrap()
}

#[test]
fn a_plane_byte_by_byte() {
    let (inputs, targets) = (numbers(&["a", "b"]), names(&["y"]));
    let (design, theta) = (design("linear", 2, true), Theta::from_slice(&[1.0, 2.0, -0.5]));
    let model = values("tiny", &inputs, &design, theta, &targets);
    let found = onnx(&model).unwrap();
    // As the official checker took it and onnxruntime ran it: 1 + 2·3 − ½·4 = 5.
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let value = b"\x12\x0f\x0a\x0d\x08\x0b\x12\x09\x0a\x03\x12\x01N\x0a\x02\x08"; // double [N, …
    let expected: [&[u8]; 25] = [
        b"\x08\x09",      // ir_version 9
        b"\x12\x05pmfcl", // producer_name
        b"\x1a",          // producer_version
        &[version.len() as u8],
        version,
        b"\x32\x3bPredicts y. Columns of X: a, b. Basis linear, loss squared.", // doc_string
        b"\x3a\xd6\x01",                                                        // graph, 214 bytes:
        b"\x0a\x21\x0a\x01X\x0a\x04coef\x12\x06matmul\x1a\x06matmul\x22\x06MatMul", // node
        b"\x0a\x1e\x0a\x06matmul\x0a\x09intercept\x12\x01Y\x1a\x01Y\x22\x03Add", // node
        b"\x12\x04tiny",                                                        // name
        b"\x2a\x1e\x08\x02\x08\x01\x10\x0b\x42\x04coef\x4a\x10", // initializer, double [2, 1]
        b"\0\0\0\0\0\0\x00\x40\0\0\0\0\0\0\xe0\xbf",             // 2, −½
        b"\x2a\x19\x08\x01\x10\x0b\x42\x09intercept\x4a\x08",    // initializer, double [1]
        b"\0\0\0\0\0\0\xf0\x3f",                                 // 1
        &[b"\x5a\x2e\x0a\x01X", &value[..], b"\x02\x1a\x18columns of numbers: a, b"].concat(),
        &[b"\x62\x20\x0a\x01Y", &value[..], b"\x01\x1a\x0acolumns: y"].concat(),
        b"\x42\x04\x0a\x00\x10\x1a", // opset_import, standard domain, 26
        b"\x72\x0f\x0a\x05basis\x12\x06linear", // metadata_props
        b"\x72\x0f\x0a\x04loss\x12\x07squared",
        b"\x72\x14\x0a\x07numbers\x12\x09[\"a\",\"b\"]",
        b"\x72\x0b\x0a\x05texts\x12\x02[]",
        b"\x72\x29\x0a\x06inputs\x12\x1f[{\"number\":\"a\"},{\"number\":\"b\"}]",
        b"\x72\x15\x0a\x08features\x12\x09[\"a\",\"b\"]",
        b"\x72\x10\x0a\x07targets\x12\x05[\"y\"]",
        b"\x72\x10\x0a\x04link\x12\x08identity",
    ];
    assert_eq!(found, expected.concat());
}

/// A model of every basis.
fn every_basis(check: impl Fn(&str, &Exported<'_>)) {
    let specs = [
        "linear",
        "poly:3",
        "log",
        "exp",
        "power:0.5",
        "auto:30,only=bounded+spline+ranks",
        "spline:5",
        "spline:5,scale=range",
        "rff:8,scale=range",
        "rbf:9",
        "rff:8",
        "relu:7",
        "ntk:6",
        "patches:3,size=1,grid=1,shape=1x2",
    ];
    for spec in specs {
        let design = design(spec, 2, true);
        let cells = (0..2 * design.width()).map(|i| 1.0 / (i + 3) as f64).collect();
        let theta = Theta::from_columns(design.width(), 2, cells).unwrap();
        let category = Input::Category { column: "season".to_owned(), value: "spring".to_owned() };
        let inputs = [numbers(&["hours"]), vec![category]].concat();
        let targets = names(&["cost", "time"]);
        check(spec, &values("two", &inputs, &design, theta, &targets));
    }
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    every_basis(|spec, model| {
        let all = || (onnx(model).unwrap(), safetensors(model).unwrap(), json(model).unwrap());
        assert_eq!(all(), all(), "{spec}");
    });
}

#[test]
fn json_brings_every_parameter_back_bit_for_bit() {
    every_basis(|spec, model| {
        let read = read(model);
        for k in 0..2 {
            let column = model.parameters.theta.column(k);
            let bits = |value: &serde_json::Value| value.as_f64().unwrap().to_bits();
            assert_eq!(bits(&read["intercept"][k]), column[0].to_bits(), "{spec}");
            let coef = read["coef"][k].as_array().unwrap();
            assert_eq!(coef.len(), read["features"].as_array().unwrap().len(), "{spec}");
            assert!(coef.iter().zip(&column[1..]).all(|(a, b)| bits(a) == b.to_bits()), "{spec}");
        }
        assert_eq!(read["inputs"][1]["value"], "spring");
        assert_eq!(read["basis"], spec);
    });
}

#[test]
fn json_of_a_line_reads_as_one() {
    let (inputs, targets) = (numbers(&["hours"]), names(&["cost"]));
    let (design, theta) = (design("linear", 1, true), Theta::from_slice(&[1.0, 2.0]));
    let model = values("tiny", &inputs, &design, theta, &targets);
    let expected = format!(
        r#"{{
"format":"pmfcl-model",
"version":2,
"producer":"pmfcl {}",
"name":"tiny",
"loss":"squared",
"basis":"linear",
"inputs":[{{"number":"hours"}}],
"features":["hours"],
"targets":["cost"],
"link":"identity",
"intercept":1.0,
"coef":[2.0],
"map":{{}}
}}
"#,
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(json(&model).unwrap(), expected);
}

#[test]
fn a_safetensors_header_is_aligned_and_its_offsets_fill_the_file() {
    every_basis(|spec, model| {
        let bytes = safetensors(model).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert!(length.is_multiple_of(8), "{spec}");
        let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        let mut offsets: Vec<(u64, u64)> = header
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "__metadata__")
            .map(|(_, tensor)| {
                let at = |i: usize| tensor["data_offsets"][i].as_u64().unwrap();
                let cells = tensor["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap());
                assert_eq!(at(1) - at(0), 8 * cells.product::<u64>(), "{spec}");
                (at(0), at(1))
            })
            .collect();
        offsets.sort_unstable();
        let end = offsets.iter().fold(0, |end, (from, to)| {
            assert_eq!(end, *from, "{spec}");
            *to
        });
        assert_eq!(8 + length + end as usize, bytes.len(), "{spec}");
    });
}

#[test]
fn names_must_be_as_many_as_the_model_has() {
    let (one, two) = (numbers(&["a"]), numbers(&["a", "b"]));
    let targets = names(&["y", "z"]);
    let x = Rows::new(&[0.0, 1.0, 4.0, 5.5, 2.0, 7.0], 2).unwrap();
    let y = Rows::new(&[1.0, 2.0, 4.0], 1).unwrap();
    let learner = learned(Problem::squared(), TaskRows::new(x, y));
    let refused = Exported::of("m", &one, &learner, &targets[..1]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the model `m` has 2 inputs, but 1 were given: give one for each"
    );
    let refused = Exported::of("m", &two, &learner, &targets).unwrap_err();
    assert!(matches!(refused, ExportError::Count { what: "targets", expected: 1, found: 2, .. }));
    // Fields are public: what is put together by hand is checked again, by every format.
    let good = Exported::of("m", &two, &learner, &targets[..1]).unwrap();
    let refused = |bad: &Exported<'_>| {
        let all = [onnx(bad).err(), safetensors(bad).err(), json(bad).err()];
        assert!(all.iter().all(|error| error.is_some() && *error == all[0]), "{all:?}");
        all[0].clone().unwrap()
    };
    let narrow = values("m", &two, &good.design, Theta::zeros(2, 1), &targets[..1]);
    let error = refused(&narrow);
    assert!(matches!(error, ExportError::Count { expected: 3, found: 2, .. }), "{error}");
    refused(&Exported { inputs: &one, ..good.clone() });
    let classes = |rule: ClassRule, present: Vec<bool>, first_is_zero: bool| {
        let response = Response::Classes { rule, present, first_is_zero };
        let theta = good.parameters.theta.clone();
        let parameters = Parameters { theta, classes: targets.clone(), response };
        Exported { parameters, targets: &[], ..good.clone() }
    };
    let softmax = || ClassRule::Softmax { temperature: 1.0 };
    refused(&classes(softmax(), Vec::new(), false));
    refused(&classes(softmax(), vec![true, true], true));
    assert!(onnx(&classes(softmax(), Vec::new(), true)).is_ok());
    assert!(onnx(&classes(softmax(), vec![true], true)).is_ok());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let (inputs, targets) = (numbers(&["a"]), names(&["y"]));
    let design = design("linear", 1, true);
    let broken = values("m", &inputs, &design, Theta::from_slice(&[1.0, f64::NAN]), &targets);
    for refused in [onnx(&broken).unwrap_err(), json(&broken).unwrap_err()] {
        assert!(matches!(refused, ExportError::NotFinite { row: 1, column: 0, .. }), "{refused}");
    }
    let model = values("m", &inputs, &design, Theta::from_slice(&[1.0, 2.0]), &targets);
    for opset in [18, OPSET + 1] {
        let refused = onnx_for(&model, opset).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("opset {opset} cannot be written: choose one from 19 to 26")
        );
    }
    for problem in [Problem::squared(), Problem::gaussian()] {
        let learner = Learner::new(problem, Settings::default()).unwrap();
        let refused = Exported::of("m", &inputs, &learner, &targets).unwrap_err();
        assert!(matches!(refused, ExportError::Model(pmfcl::Error::NotLearned)), "{refused}");
    }
}

#[test]
fn a_class_without_rows_is_named() {
    let fixed = || Some(ClassList::Fixed(names(&["a", "b", "c"])));
    let gaussian = Problem::parse("gaussian", fixed()).unwrap();
    for problem in [
        Problem::parse("squared", fixed()).unwrap(),
        gaussian.with_option("calibrate", "0.5").unwrap(),
    ] {
        let x = Rows::new(&[0.0, 1.0, 4.0, 5.5], 1).unwrap();
        let labels = Labels::new(&["a", "a", "c", "c"]);
        let learner = learned(problem, TaskRows::new(x, &labels));
        let inputs = numbers(&["x"]);
        // Names of values are not needed for classes.
        let model = Exported::of("m", &inputs, &learner, &[]).unwrap();
        let read = read(&model);
        assert_eq!(read["absent"], serde_json::json!(["b"]));
        assert_eq!(read["loss"], learner.problem().name());
        assert!(read.get("targets").is_none() && read.get("link").is_none());
        let scores = learner.scores(x).unwrap();
        assert!(scores[1] < f64::MIN, "the learner agrees");
    }
}

#[test]
fn classes_go_out_in_sorted_order_whatever_the_order_they_came_in() {
    let x = Rows::new(&[0.0, 1.0, 4.0, 5.5, 9.0, 9.5], 1).unwrap();
    let labels = Labels::new(&["c", "c", "a", "a", "b", "b"]);
    let mut learner = Learner::new(Problem::gaussian(), Settings::default()).unwrap();
    for (task, from) in [("first", 0), ("second", 2), ("third", 4)] {
        let own = Labels::new(&["c", "c", "a", "a", "b", "b"][from..from + 2]);
        learner.learn(task, TaskRows::new(x.slice(from, from + 2), &own), 1.0).unwrap();
    }
    let together = learned(Problem::gaussian(), TaskRows::new(x, &labels));
    let inputs = numbers(&["x"]);
    let (one, other) = (
        read(&Exported::of("m", &inputs, &learner, &[]).unwrap()),
        read(&Exported::of("m", &inputs, &together, &[]).unwrap()),
    );
    assert_eq!(one["classes"], serde_json::json!(["a", "b", "c"]));
    for k in 0..3 {
        let (a, b) = (one["coef"][k][0].as_f64().unwrap(), other["coef"][k][0].as_f64().unwrap());
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} and {b}");
    }
}

#[test]
fn a_line_of_a_portfolio_goes_out_with_its_limits() {
    let (x, y): (Vec<f64>, Vec<f64>) = (0..40).map(|i| (f64::from(i), 3.0 * f64::from(i))).unzip();
    let (x, y) = (Rows::new(&x, 1).unwrap(), Rows::new(&y, 1).unwrap());
    let basis = "auto:30,only=linear".parse().unwrap();
    let settings = Settings { basis, ..Settings::default() };
    let mut learner = Learner::new(Problem::squared(), settings).unwrap();
    learner.learn("only", TaskRows::new(x, y), 1.0).unwrap();
    let (inputs, targets) = (numbers(&["x"]), names(&["y"]));
    let model = Exported::of("m", &inputs, &learner, &targets).unwrap();
    let limits = &read(&model)["limits"][0];
    // 0 to 117 in steps of 3: the mean is 58.5, and the variance 9·(40² − 1)/12.
    let far = 50.0 * (9.0 * 1599.0 / 12.0_f64).sqrt();
    for (limit, expected) in [(&limits[0], 58.5 - far), (&limits[1], 58.5 + far)] {
        assert!((limit.as_f64().unwrap() - expected).abs() < 1e-9, "{limits}");
    }
    let found = learner.predict(Rows::new(&[1e6, -1e6], 1).unwrap()).unwrap();
    for (value, limit) in found.iter().zip([&limits[1], &limits[0]]) {
        assert_eq!(value.to_bits(), limit.as_f64().unwrap().to_bits(), "{limits}");
    }
}

#[test]
fn a_learner_goes_out_as_it_is() {
    let x = Rows::new(&[1.0, 2.0, 3.0], 1).unwrap();
    let y = Rows::new(&[2.0, 4.0, 7.0], 1).unwrap();
    let (inputs, targets) = (numbers(&["x"]), names(&["y"]));
    for (loss, link) in [("squared", "identity"), ("huber:1.5", "identity"), ("poisson:9", "exp")] {
        let learner = learned(Problem::parse(loss, None).unwrap(), TaskRows::new(x, y));
        let model = Exported::of("m", &inputs, &learner, &targets).unwrap();
        let read = read(&model);
        assert_eq!((&read["loss"], &read["link"]), (&loss.into(), &link.into()));
        let theta = &learner.solution().unwrap().theta;
        assert_eq!(read["coef"][0].as_f64().unwrap().to_bits(), theta.column(0)[1].to_bits());
        let text = String::from_utf8_lossy(&onnx(&model).unwrap()).into_owned();
        assert_eq!(
            text.contains("\u{3}Exp"),
            link == "exp",
            "the node is there where it is needed"
        );
    }
}
