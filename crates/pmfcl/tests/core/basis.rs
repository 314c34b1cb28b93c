//! Specs and maps from outside: what users write, what they are told, what never happens.

use pmfcl::basis::{Basis, BasisError, MAX_COLUMNS, Map};
use proptest::prelude::*;

fn parse(spec: &str) -> Result<Basis, BasisError> {
    spec.parse()
}

fn message(spec: &str) -> String {
    parse(spec).unwrap_err().to_string()
}

/// Every spec there is, with numbers over their whole range.
fn spec() -> impl Strategy<Value = String> {
    let positive = || (f64::MIN_POSITIVE..=f64::MAX).prop_map(|x| format!("{x:?}"));
    let number = || any::<f64>().prop_filter("finite", |x| x.is_finite());
    let option = |key: &'static str, value: BoxedStrategy<String>| {
        prop_oneof![Just(String::new()), value.prop_map(move |value| format!(",{key}={value}"))]
    };
    let seed = move || option("seed", any::<u64>().prop_map(|seed| seed.to_string()).boxed());
    let scale = move || {
        option("scale", prop_oneof![Just("range"), Just("none")].prop_map(String::from).boxed())
    };
    let count = || 3..=MAX_COLUMNS;
    prop_oneof![
        Just("linear".to_owned()),
        Just("log".to_owned()),
        Just("exp".to_owned()),
        (count(), any::<bool>()).prop_map(|(q, on)| format!("poly:{q},interactions={on}")),
        number().prop_filter("not zero", |x| x.abs() > 0.0).prop_map(|a| format!("power:{a}")),
        count().prop_map(|k| format!("spline:{k}")),
        (count(), -1e300..0.0, 0.0..1e300)
            .prop_map(|(k, lo, hi)| format!("spline:{k},lo={lo},hi={}", hi + 1.0)),
        (count(), option("length", positive().boxed()), scale(), seed())
            .prop_map(|(m, length, scale, seed)| format!("rbf:{m}{length}{scale}{seed}")),
        (count(), option("gamma", positive().boxed()), scale(), seed())
            .prop_map(|(m, gamma, scale, seed)| format!("rff:{m}{seed}{scale}{gamma}")),
        (prop_oneof![Just("relu"), Just("ntk")], count(), scale(), seed())
            .prop_map(|(name, m, scale, seed)| format!("{name}:{m}{seed}{scale}")),
        (1..=9_usize, 1..=9_usize, 1..=9_usize, 1..=50_usize, scale(), seed()).prop_map(
            |(size, step, grid, filters, scale, seed)| {
                let columns = filters * grid * grid;
                format!(
                    "patches:{columns},grid={grid},size={size},step={step}{scale}{seed},shape=30x40"
                )
            }
        ),
    ]
}

/// Small specs, cheap to fix.
const SPECS: [&str; 28] = [
    "linear",
    "poly:1",
    "poly:3",
    "poly:4,interactions=false",
    "log",
    "exp",
    "power:0.5",
    "power:-2",
    "auto",
    "auto:30,only=bounded+spline",
    "poly:2,scale=clip",
    "spline:3",
    "spline:3,scale=range",
    "spline:5,scale=quantile,linear=off",
    "spline:6,lo=-1,hi=2.5",
    "rbf:5",
    "rbf:5,scale=range",
    "rff:7,scale=range",
    "rff:7,scale=quantile",
    "relu:6,linear=off",
    "ntk:4,scale=range",
    "rbf:5,length=2",
    "rff:7",
    "rff:7,gamma=0.1,seed=7",
    "relu:6",
    "ntk:4",
    "ntk:4,scale=none",
    "patches:3,size=1,grid=1,shape=1x2",
];

proptest! {
    #[test]
    fn a_spec_survives_being_written_and_read(spec in spec()) {
        let basis = parse(&spec).unwrap();
        let written = basis.to_string();
        prop_assert_eq!(&parse(&written).unwrap(), &basis);
        prop_assert_eq!(parse(&written).unwrap().to_string(), written);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = parse(&text).map_err(|error| error.to_string());
    }

    #[test]
    fn no_text_that_is_nearly_a_spec_makes_the_reader_panic(
        text in "(linear|poly|power|spline|rbf|rff|relu|ntk|log)[:=, ]?[-+0-9a-z.]{0,24}(,[a-z]{0,6}=?[-+0-9a-z.]{0,8}){0,3}"
    ) {
        if let Ok(basis) = parse(&text) {
            prop_assert_eq!(parse(&basis.to_string()).unwrap(), basis);
        }
    }

    #[test]
    fn a_result_is_finite_or_refused(
        first in prop::collection::vec(any::<f64>(), 2..20),
        later in prop::collection::vec(any::<f64>(), 2..20),
        tame in prop::collection::vec(-1e3..1e3, 12),
    ) {
        for spec in SPECS {
            let basis = parse(spec).unwrap();
            for rows in [&first[..first.len() / 2 * 2], &tame] {
                let Ok(map) = basis.fix(rows, 2) else { continue };
                let later = &later[..later.len() / 2 * 2];
                let mut out = vec![f64::NAN; later.len() / 2 * map.width()];
                match map.apply(later, &mut out, map.width(), 0) {
                    Ok(()) => prop_assert!(out.iter().all(|x| x.is_finite()), "{}", spec),
                    Err(
                        BasisError::Overflow { row, column, value, .. }
                        | BasisError::NotFinite { row, column, value },
                    ) => prop_assert_eq!(value.to_bits(), later[row * 2 + column].to_bits()),
                    Err(BasisError::Pole { row, column, .. }) => {
                        prop_assert!(later[row * 2 + column].abs() <= 0.0);
                    }
                    Err(other) => prop_assert!(false, "{}: {}", spec, other),
                }
            }
        }
    }

    #[test]
    fn what_was_frozen_thaws_to_the_same_map(rows in prop::collection::vec(-1e6..1e6, 3..40)) {
        for spec in SPECS {
            let basis = parse(spec).unwrap();
            let Ok(map) = basis.fix(&rows[..rows.len() / 3 * 3], 3) else { continue };
            prop_assert_eq!(&Map::thaw(&basis, 3, &map.frozen()).unwrap(), &map);
            prop_assert_eq!(map.names(&[]).len(), map.width());
            let mut short = map.frozen();
            if short.pop().is_some() {
                let refused = matches!(Map::thaw(&basis, 3, &short), Err(BasisError::Frozen { .. }));
                prop_assert!(refused, "{}", spec);
            }
        }
    }
}

#[test]
fn the_reader_says_which_piece_and_what_may_stand_there() {
    assert_eq!(
        message("splines:8"),
        "`splines` is not a basis (did you mean `spline`?); there are `linear`, `auto`, `poly`, `log`, \
         `exp`, `power`, `spline`, `rbf`, `rff`, `relu`, `ntk`, `patches`"
    );
    assert_eq!(
        message("rff:64,gama=2"),
        "`rff` has no option `gama` (did you mean `gamma`?); it has `gamma`, `scale`, `linear`, `seed`"
    );
    assert_eq!(message("log,seed=1"), "`log` has no option `seed`; it has none");
    assert_eq!(message("rff"), "`rff` needs a number of features after a colon, as in `rff:1024`");
    assert_eq!(
        message("rff:0"),
        "`rff:0` in a `rff` basis: expected a whole number from 1 to 1000000"
    );
    assert_eq!(
        message("rff:9,gamma=-1"),
        "`gamma=-1` in a `rff` basis: expected a positive number"
    );
    assert_eq!(message("relu:9,seed=1,seed=2"), "`seed` is given twice in a `relu` basis");
    assert_eq!(
        message("spline:5,lo=3"),
        "`lo=3` in a `spline` basis: expected `lo` and `hi` together, `lo` below `hi`"
    );
}

#[test]
fn wrong_specs_are_refused() {
    let wrong = [
        "",
        ":",
        ",",
        "poly",
        "poly:",
        "poly:0",
        "poly:-1",
        "poly:+2",
        "poly:2.5",
        "poly:1000001",
        "poly:2,interactions=maybe",
        "poly:2,interactions",
        "power:0",
        "power:nan",
        "power:inf",
        "power",
        "spline:2",
        "spline:8,lo=1,hi=1",
        "spline:8,lo=-1e308,hi=1e308",
        "linear:3",
        "log:2",
        "rbf:5,length=0",
        "rbf:5,gamma=1",
        "rff:5,scale=log",
        "relu:5,seed=-1",
        "relu:5,seed=18446744073709551616",
        "ntk:5,",
        "fourier:20",
    ];
    for spec in wrong {
        assert!(parse(spec).is_err(), "`{spec}` was accepted");
    }
}

#[test]
fn blanks_case_and_defaults_are_taken_out() {
    let canonical = |spec: &str| parse(spec).unwrap().to_string();
    assert_eq!(canonical(" RFF : 1024 , Seed = 7, gamma=1e-1"), "rff:1024,gamma=0.1,seed=7");
    assert_eq!(canonical("rff:8,scale=range,seed=0"), "rff:8,scale=range");
    assert_eq!(canonical("rff:8,scale=clip,linear=on"), "rff:8");
    assert_eq!(canonical("rff:8,gamma=1,scale=none"), "rff:8,gamma=1.0");
    assert_eq!(canonical("rff:8,gamma=1,scale=range"), "rff:8,gamma=1.0,scale=range");
    assert_eq!(canonical("poly:2,interactions=true"), "poly:2");
    assert_eq!(parse("linear").unwrap(), Basis::default());
}

#[test]
fn only_what_learns_from_rows_asks_for_them() {
    for spec in SPECS {
        let basis = parse(spec).unwrap();
        let refused = matches!(basis.fix(&[], 2), Err(BasisError::NoRows { .. }));
        assert_eq!(basis.needs_rows(), refused, "{spec}");
    }
    let learns = |spec| parse(spec).unwrap().needs_rows();
    assert!(learns("rff:8,scale=none"), "γ is learned");
    assert!(learns("rff:8,gamma=1,scale=range"), "the range is learned");
    assert!(!learns("relu:8,scale=none"));
}

#[test]
fn shapes_and_sizes_are_checked_at_the_door() {
    let fix = |spec: &str, rows: &[f64], d| parse(spec).unwrap().fix(rows, d);
    assert_eq!(fix("linear", &[], 0), Err(BasisError::NoInputs));
    assert_eq!(fix("relu:3", &[1.0; 5], 2), Err(BasisError::Shape { len: 5, inputs: 2 }));
    assert_eq!(
        fix("spline:5", &[1.0, f64::INFINITY], 2),
        Err(BasisError::NotFinite { row: 0, column: 1, value: f64::INFINITY })
    );
    for (spec, d) in [
        ("ntk:1000000", 2),
        ("relu:1000000", 784),
        ("spline:600000", 2),
        ("linear", MAX_COLUMNS + 1),
    ] {
        assert!(matches!(fix(spec, &[], d), Err(BasisError::TooLarge { .. })), "{spec}");
    }
    let map = fix("linear", &[], 2).unwrap();
    let rows = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(
        map.apply(&rows, &mut [0.0; 9], 2, 1),
        Err(BasisError::Room { what: "stride", needed: 3, found: 2 })
    );
    assert_eq!(
        map.apply(&rows, &mut [0.0; 6], 4, 1),
        Err(BasisError::Room { what: "output", needed: 7, found: 6 })
    );
    let mut out = [9.0; 7];
    map.apply(&rows, &mut out, 4, 1).unwrap();
    assert_eq!(out.map(f64::to_bits), [9.0, 1.0, 2.0, 9.0, 9.0, 3.0, 4.0].map(f64::to_bits));
    assert_eq!(map.apply(&[], &mut [], 0, 0), Ok(()));
}

#[test]
fn names_tell_inputs_apart() {
    let inputs = ["a".to_owned(), "b".to_owned()];
    let last = |spec: &str| {
        parse(spec).unwrap().fix(&[0.0, 1.0, 2.0, 3.0], 2).unwrap().names(&inputs).pop().unwrap()
    };
    assert_eq!(last("linear"), "b");
    assert_eq!(last("poly:2"), "b^2");
    assert_eq!(last("log"), "log(b)");
    assert_eq!(last("exp"), "exp(b)");
    assert_eq!(last("power:0.5"), "b^0.5");
    assert_eq!(last("spline:4"), "spline4(b)");
    assert_eq!(last("rff:17"), "rff17");
    assert_eq!(last("rbf:3"), "rbf3");
    assert_eq!(last("relu:3"), "relu3");
    assert_eq!(last("ntk:3"), "ntk3(b)");
}
