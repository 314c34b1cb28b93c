//! The same bytes every time, and refusals that say what is wrong.

use pmfcl::classify::Temperature;
use pmfcl::{
    Basis, ClassLoss, Classifier, ClassifierSettings, Design, Labels, Learner, Rows, Settings,
    Theta,
};
use pmfcl_export::{
    ExportError, Exported, Input, OPSET, Output, Rule, json, onnx, onnx_for, safetensors,
};

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

#[test]
fn a_plane_byte_by_byte() {
    let (inputs, targets) = (numbers(&["a", "b"]), names(&["y"]));
    let (design, theta) = (design("linear", 2, true), Theta::from_slice(&[1.0, 2.0, -0.5]));
    let model = Exported::regression("tiny", &inputs, &design, &theta, &targets).unwrap();
    let found = onnx(&model).unwrap();
    // As the official checker took it and onnxruntime ran it: 1 + 2·3 − ½·4 = 5.
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let value = b"\x12\x0f\x0a\x0d\x08\x0b\x12\x09\x0a\x03\x12\x01N\x0a\x02\x08"; // double [N, …
    let expected: [&[u8]; 24] = [
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
        "spline:5",
        "rbf:9",
        "rff:8",
        "relu:7",
        "ntk:6",
    ];
    for spec in specs {
        let design = design(spec, 2, true);
        let cells = (0..2 * design.width()).map(|i| 1.0 / (i + 3) as f64).collect();
        let theta = Theta::from_columns(design.width(), 2, cells).unwrap();
        let category = Input::Category { column: "season".to_owned(), value: "spring".to_owned() };
        let inputs = [numbers(&["hours"]), vec![category]].concat();
        let targets = names(&["cost", "time"]);
        check(spec, &Exported::regression("two", &inputs, &design, &theta, &targets).unwrap());
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
        let read: serde_json::Value = serde_json::from_str(&json(model).unwrap()).unwrap();
        for k in 0..2 {
            let column = model.theta.column(k);
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
    let model = Exported::regression("tiny", &inputs, &design, &theta, &targets).unwrap();
    let expected = format!(
        r#"{{
"format":"pmfcl-model",
"version":1,
"producer":"pmfcl {}",
"name":"tiny",
"loss":"squared",
"basis":"linear",
"inputs":[{{"number":"hours"}}],
"features":["hours"],
"targets":["cost"],
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
    let (design, theta) = (design("linear", 2, true), Theta::zeros(3, 1));
    let targets = names(&["y", "z"]);
    let refused = Exported::regression("m", &one, &design, &theta, &targets[..1]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the model `m` has 2 inputs, but 1 were given: give one for each"
    );
    let refused = Exported::regression("m", &two, &design, &theta, &targets).unwrap_err();
    assert!(matches!(refused, ExportError::Count { what: "targets", expected: 1, found: 2, .. }));
    let narrow = Theta::zeros(2, 1);
    let refused = Exported::regression("m", &two, &design, &narrow, &targets[..1]).unwrap_err();
    assert!(matches!(refused, ExportError::Count { expected: 3, found: 2, .. }), "{refused}");
    // Fields are open: what is put together by hand is looked at again.
    let good = Exported::regression("m", &two, &design, &theta, &targets[..1]).unwrap();
    let bad = Exported { inputs: &one, ..good };
    assert!(onnx(&bad).is_err() && safetensors(&bad).is_err() && json(&bad).is_err());
    let rule = Rule::Gaussian { temperature: 1.0 };
    let bad = Exported { output: Output::Classes { classes: &targets, rule }, ..good };
    assert!(onnx(&bad).is_err());
    let binary =
        Exported { output: Output::Classes { classes: &targets, rule: Rule::Logistic }, ..good };
    assert!(onnx(&binary).is_ok());
}

#[test]
fn what_cannot_be_written_is_refused() {
    let (inputs, targets) = (numbers(&["a"]), names(&["y"]));
    let design = design("linear", 1, true);
    let broken = Theta::from_slice(&[1.0, f64::NAN]);
    let refused = Exported::regression("m", &inputs, &design, &broken, &targets).unwrap_err();
    assert!(matches!(refused, ExportError::NotFinite { row: 1, column: 0, .. }), "{refused}");
    let theta = Theta::from_slice(&[1.0, 2.0]);
    let model = Exported::regression("m", &inputs, &design, &theta, &targets).unwrap();
    for opset in [18, OPSET + 1] {
        let refused = onnx_for(&model, opset).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!("opset {opset} cannot be written: choose one from 19 to 26")
        );
    }
    let classifier = Classifier::new(ClassifierSettings::default()).unwrap();
    let refused = Exported::classification("m", &inputs, &classifier).unwrap_err();
    assert!(matches!(refused, ExportError::Model(pmfcl::Error::NotLearned)), "{refused}");
}

#[test]
fn a_class_without_rows_is_named() {
    for (loss, temperature) in [(ClassLoss::Squared, 1.0), (ClassLoss::Gaussian, 0.5)] {
        let mut classifier = Classifier::new(ClassifierSettings {
            loss,
            temperature: Temperature::Fixed(temperature),
            classes: Some(names(&["a", "b", "c"])),
            ..ClassifierSettings::default()
        })
        .unwrap();
        let x = Rows::new(&[0.0, 1.0, 4.0, 5.5], 1).unwrap();
        classifier.learn("all", x, &Labels::new(&["a", "a", "c", "c"])).unwrap();
        let inputs = numbers(&["x"]);
        let model = Exported::classification("m", &inputs, &classifier).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json(&model).unwrap()).unwrap();
        assert_eq!(read["absent"], serde_json::json!(["b"]));
        assert_eq!(read["loss"], loss.name());
        let scores = classifier.decision(x).unwrap();
        assert!(scores[1] < f64::MIN, "the classifier agrees");
    }
}

#[test]
fn a_learner_goes_out_as_it_is() {
    let mut learner = Learner::new(Settings::default()).unwrap();
    let x = Rows::new(&[1.0, 2.0, 3.0], 1).unwrap();
    learner.learn("only", x, Rows::new(&[2.0, 4.0, 7.0], 1).unwrap()).unwrap();
    let (inputs, targets) = (numbers(&["x"]), names(&["y"]));
    let theta = &learner.model().unwrap().theta;
    let design = learner.design().unwrap();
    let model = Exported::regression("m", &inputs, design, theta, &targets).unwrap();
    let model = Exported { loss: "huber", ..model };
    let read: serde_json::Value = serde_json::from_str(&json(&model).unwrap()).unwrap();
    assert_eq!(read["loss"], "huber");
    assert_eq!(read["coef"][0].as_f64().unwrap().to_bits(), theta.column(0)[1].to_bits());
}
