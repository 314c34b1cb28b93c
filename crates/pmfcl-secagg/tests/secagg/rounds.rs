//! Whole rounds: the model from secure sums is that of the rows pooled, whoever drops out when.

use crate::support::{
    Gone, Masks as _, Table, agreement, clients, name, round, sent, shared, tables,
};
use pmfcl::federated::{Receipt, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::summary::Products;
use pmfcl::{Design, Labels, Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_oracle::{Draw, conditioned};
use pmfcl_secagg::{Error, FixedPoint, Params, Total, as_products};

const D: usize = 5;

fn products(agreement: &Agreement, tables: &[Table]) -> Vec<Products> {
    tables.iter().map(|t| t.summary(agreement).products()).collect()
}

/// Values, or scores of classes.
fn outputs(learner: &Learner, x: Rows<'_>) -> Vec<f64> {
    if learner.problem().predicts_classes() { learner.scores(x) } else { learner.predict(x) }
        .unwrap()
}

/// Predictions of the model a federated server makes of a secure sum.
fn predicted(agreement: &Agreement, total: &Total, x: Rows<'_>) -> Vec<f64> {
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    let update = Update::of_quadratic(agreement, "cohort", 0, total.summary().unwrap()).unwrap();
    assert_eq!(server.accept_bytes(&update.to_bytes()), Ok(Receipt::Accepted));
    outputs(&server.joint().unwrap(), x)
}

/// Predictions of the same rows learned in one place.
fn pooled(agreement: &Agreement, all: &Table) -> Vec<f64> {
    let (problem, settings) = (agreement.problem().clone(), agreement.settings().clone());
    let mut learner = Learner::new(problem, settings).unwrap();
    let rows = TaskRows::new(all.rows(), Rows::new(&all.y, 1).unwrap());
    learner.learn("all", rows, 1.0).unwrap();
    outputs(&learner, all.rows())
}

/// Largest difference, in standard deviations of the second.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    let std = (b.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / b.len() as f64).sqrt();
    a.iter().zip(b).map(|(a, b)| (a - b).abs() / std).fold(0.0, f64::max)
}

/// The sums as the fixed point has them, added as integers.
fn exact_sum(inputs: &[&Products], of: impl Fn(&Products) -> &[f64]) -> Vec<f64> {
    let integer = |v: f64| (v * 2_f64.powi(60)).round_ties_even() as i128;
    let length = of(inputs[0]).len();
    let sum = |k: usize| inputs.iter().map(|p| integer(of(p)[k])).sum::<i128>();
    (0..length).map(|k| sum(k) as f64 / 2_f64.powi(60)).collect()
}

#[test]
fn the_model_is_that_of_pooled_rows_whoever_drops_out_when() {
    use Gone::{AfterInput, AfterKeys, AfterShares, InputLost, Never};
    let agreement = agreement(D);
    let tables = tables(7, D, 3);
    let inputs = products(&agreement, &tables);
    let params = Params::new(4, 7, D + 1, 1).unwrap().of(agreement.digest(), 0);
    let all = [Never; 7];
    let with = |changes: &[(usize, Gone)]| {
        let mut gone = all;
        changes.iter().for_each(|(i, g)| gone[*i] = *g);
        gone
    };
    for (seed, gone) in (1..).zip([
        all,
        with(&[(6, AfterKeys)]),
        with(&[(0, AfterShares)]),
        with(&[(3, InputLost)]),
        with(&[(5, AfterInput)]),
        with(&[(0, AfterKeys), (6, AfterShares), (2, InputLost)]),
        with(&[(0, AfterKeys), (6, AfterShares), (2, AfterInput)]),
        with(&[(1, AfterInput), (2, AfterInput), (6, AfterInput)]),
        with(&[(1, AfterShares), (3, AfterShares), (5, InputLost)]),
    ]) {
        let total = round(params, &inputs, &gone, seed).unwrap();
        let there: Vec<usize> = (0..7).filter(|i| gone[*i] >= AfterInput).collect();
        assert_eq!(total.clients, there.iter().map(|i| name(*i)).collect::<Vec<_>>());
        // Exact, to the last bit.
        let parts: Vec<&Products> = there.iter().map(|i| &inputs[*i]).collect();
        let fields: [fn(&Products) -> &[f64]; 4] = [|p| &p.xx, |p| &p.xy, |p| &p.yy, |p| &p.y];
        for of in fields {
            assert_eq!(of(&total.products), exact_sum(&parts, of), "{gone:?}");
        }
        let rows = Table::stack(there.iter().map(|i| &tables[*i]));
        assert_eq!(total.products.n.to_bits(), (rows.y.len() as f64).to_bits());
        let gap = apart(&predicted(&agreement, &total, rows.rows()), &pooled(&agreement, &rows));
        assert!(gap <= 1e-9, "{gone:?}: {gap}");
    }
}

#[test]
fn other_random_numbers_give_the_same_bits() {
    let agreement = agreement(D);
    let inputs = products(&agreement, &tables(5, D, 4));
    let params = Params::new(3, 5, D + 1, 1).unwrap();
    let one = round(params, &inputs, &[Gone::Never; 5], 1).unwrap();
    assert_eq!(one, round(params, &inputs, &[Gone::Never; 5], 2).unwrap());
}

#[test]
fn below_the_threshold_there_is_an_error_and_no_sum() {
    let agreement = agreement(D);
    let inputs = products(&agreement, &tables(5, D, 5));
    let params = Params::new(4, 7, D + 1, 1).unwrap();
    for (gone, what) in [
        (Gone::AfterKeys, "clients have shared their keys"),
        (Gone::AfterShares, "masked inputs"),
        (Gone::InputLost, "masked inputs"),
        (Gone::AfterInput, "answers"),
    ] {
        let all = [Gone::Never, gone, Gone::Never, gone, Gone::Never];
        let expected = Error::TooFew { what, found: 3, threshold: 4 };
        assert_eq!(round(params, &inputs, &all, 6), Err(expected), "{gone:?}");
    }
    let few = round(params, &inputs[..3], &[Gone::Never; 3], 6);
    let what = "clients on the roster";
    assert_eq!(few, Err(Error::TooFew { what, found: 3, threshold: 4 }));
}

#[test]
fn classes_are_counted_and_told_apart_as_with_pooled_rows() {
    let mut draw = Draw::new(8);
    let names = ["a", "b", "c"];
    let labelled =
        |all: &[usize]| Labels::new(&all.iter().map(|k| names[*k]).collect::<Vec<&str>>());
    for loss in ["gaussian", "squared"] {
        let classes = pmfcl::ClassList::Fixed(names.map(str::to_owned).to_vec());
        let problem = Problem::parse(loss, Some(classes)).unwrap();
        let settings = Settings::default();
        let design = Design::linear(3, settings.intercept).unwrap();
        let agreement = Agreement::new(problem.clone(), settings.clone(), design, 1).unwrap();
        let width = agreement.design().width();
        let params = Params::new(3, 4, width, 3).unwrap();
        let (mut x, mut y, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..4 {
            let own_classes: Vec<usize> = (0..30 + 20 * i).map(|_| draw.below(3)).collect();
            let rows: Vec<f64> = own_classes
                .iter()
                .flat_map(|k| (0..3).map(|j| if j == *k { 2.0 } else { 0.0 }).collect::<Vec<f64>>())
                .map(|mean| mean + draw.normal())
                .collect();
            let labels = labelled(&own_classes);
            let own = TaskRows::new(Rows::new(&rows, 3).unwrap(), &labels);
            inputs.push(agreement.summarize(own).unwrap().quadratic.products());
            x.extend(rows);
            y.extend(own_classes);
        }
        let total = round(params, &inputs, &[Gone::Never; 4], 9).unwrap();
        let counts = names.iter().enumerate().map(|(k, _)| y.iter().filter(|v| **v == k).count());
        assert!(total.products.y.iter().zip(counts).all(|(a, b)| (a - b as f64).abs() < 1e-9));
        let x = Rows::new(&x, 3).unwrap();
        let mut joint = Learner::new(problem, settings).unwrap();
        joint.learn("all", TaskRows::new(x, &labelled(&y)), 1.0).unwrap();
        let gap = apart(&predicted(&agreement, &total, x), &outputs(&joint, x));
        assert!(gap <= 1e-9, "{loss}: {gap}");
    }
}

/// What sums of products cost: the condition number is squared. What is printed is what the crate's documentation says.
#[test]
fn digits_are_lost_with_the_square_of_the_condition_number() {
    let agreement = agreement(D);
    let params = Params::new(2, 3, D + 1, 1).unwrap();
    for (condition, most) in [(1e1, 1e-13), (1e3, 1e-11), (1e5, 1e-6), (1e7, 1e-2)] {
        let mut draw = Draw::new(10);
        let x = conditioned(300, D, condition, &mut draw);
        let y: Vec<f64> =
            x.chunks_exact(D).map(|row| row.iter().sum::<f64>() + 0.01 * draw.normal()).collect();
        let part = |from: usize, to: usize| Table {
            x: x[from * D..to * D].to_vec(),
            y: y[from..to].to_vec(),
            d: D,
        };
        let tables = [part(0, 50), part(50, 120), part(120, 300)];
        let total = round(params, &products(&agreement, &tables), &[Gone::Never; 3], 11).unwrap();
        let all = Table::stack(&tables);
        let gap = apart(&predicted(&agreement, &total, all.rows()), &pooled(&agreement, &all));
        println!("condition {condition:e}: {gap:e} of a standard deviation");
        assert!(gap <= most, "condition {condition:e}: {gap:e}");
    }
}

#[test]
fn a_number_out_of_range_stops_the_client_not_the_round() {
    let agreement = agreement(D);
    let mut inputs = products(&agreement, &tables(4, D, 12));
    let fixed = FixedPoint::new(60, 20).unwrap();
    let params = Params::new(3, 4, D + 1, 1).unwrap().fixed_point(fixed).unwrap();
    let mut all = crate::support::clients(4, params, 13);
    let mut server = crate::support::shared(params, &mut all, &[Gone::Never; 4]).unwrap();
    inputs[1].xx[3] = 2e6;
    let inbox = server.inbox(&name(1)).unwrap();
    let error = all[1].mask(&inbox, &inputs[1]).unwrap_err().to_string();
    assert!(error.contains("columns 0 and 3") && error.contains("rescale"), "{error}");
    // Put right, it may still send.
    inputs[1].xx[3] = 2.0;
    all[1].mask(&inbox, &inputs[1]).unwrap();
}

/// What clients measure adds up as their products do, whoever is lost on the way.
#[test]
fn numbers_add_up_behind_masks() {
    let (count, params) = (7, Params::for_numbers(3, 4, 7).unwrap());
    let numbers = |client: usize| -> Vec<f64> {
        (0..count).map(|j| 0.25 * (client * count + j) as f64).collect()
    };
    let inputs: Vec<_> = (0..4).map(|client| as_products(&numbers(client))).collect();
    let gone = [Gone::Never, Gone::Never, Gone::AfterShares, Gone::Never];
    let mut all = clients(4, params, 5);
    let mut server = shared(params, &mut all, &gone).unwrap();
    sent(&mut server, &mut all, &inputs, &gone).unwrap();
    let survivors = server.survivors().unwrap();
    for client in [0, 1, 3] {
        server.collect_answer(&all[client].unmask(&survivors).unwrap()).unwrap();
    }
    let total = server.finish().unwrap();
    let expected: Vec<f64> =
        (0..count).map(|j| [0, 1, 3].iter().map(|&client| numbers(client)[j]).sum()).collect();
    // Quarters are whole multiples of the step of the fixed point.
    assert_eq!(total.numbers().to_vec(), expected);
}
