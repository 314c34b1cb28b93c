//! Every basis against numbers computed independently (`tests/golden/features.json`, NumPy).

use serde_json::Value;

use super::random::{Finish, Random};
use super::{Basis, Map};

/// Sums of three products against sums in another order: a few ulps of numbers below 10.
const TOLERANCE: f64 = 1e-13;

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

struct Golden(Value);

impl Golden {
    fn read() -> Self {
        Self(serde_json::from_str(include_str!("../../tests/golden/features.json")).unwrap())
    }

    fn get(&self, key: &str) -> Vec<f64> {
        numbers(&self.0[key])
    }

    fn units(&self) -> (Vec<f64>, Vec<f64>) {
        let d = self.0["X"][0].as_array().unwrap().len();
        (vec![0.0; d], vec![1.0; d])
    }

    /// φ(X) with `pad` foreign numbers around each row, which must stay as they are.
    fn map(&self, random: &Random, width: usize) -> Vec<f64> {
        let rows = self.get("X");
        let k = rows.len() / 3;
        let (stride, offset) = (width + 3, 2);
        let mut out = vec![-7.0; k * stride];
        random.apply(&rows, &mut out[offset..], stride, |_, _| Ok(())).unwrap();
        let foreign = |row: &[f64]| row[..2].iter().chain(&row[2 + width..]).all(|x| *x < -6.9);
        assert!(out.chunks(stride).all(foreign));
        out.chunks(stride).flat_map(|row| row[2..2 + width].to_vec()).collect()
    }
}

fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= TOLERANCE, "{i}: {found} against {expected}");
    }
}

#[test]
fn random_fourier_features() {
    let golden = Golden::read();
    let (shift, spread) = golden.units();
    let finish = Finish::Cosine { phase: golden.get("b") };
    let random = Random::new(shift, spread, golden.get("W"), finish);
    assert_close(&golden.map(&random, 5), &golden.get("rff"));
}

#[test]
fn radial_functions_at_centres() {
    let golden = Golden::read();
    let (shift, spread) = golden.units();
    let length = golden.get("ell")[0];
    let random = Random::gauss(shift, spread, &golden.get("centers"), length);
    assert_close(&golden.map(&random, 4), &golden.get("rbf"));
}

#[test]
fn lem_d_1_the_tangent_features_of_a_two_layer_network() {
    let golden = Golden::read();
    let (shift, spread) = golden.units();
    let v = golden.get("V");
    // Column-stacked V is what the map keeps.
    let stacked: Vec<f64> =
        (0..3).flat_map(|j| (0..4).map(move |i| i * 3 + j)).map(|at| v[at]).collect();
    let w = golden.get("w");
    let random = Random::new(shift, spread, stacked.clone(), Finish::Tangent { outer: w.clone() });
    let found = golden.map(&random, 12);
    assert_close(&found, &golden.get("ntk"));

    // f₀(x) = φ(x)ᵀv₀ is the network wᵀ max(0, Vx) itself.
    assert_eq!(random.origin(), Some(stacked.as_slice()));
    for (x, phi) in golden.get("X").chunks(3).zip(found.chunks(12)) {
        let hidden = |i: usize| (0..3).map(|j| v[i * 3 + j] * x[j]).sum::<f64>().max(0.0);
        let network: f64 = (0..4).map(|i| w[i] * hidden(i)).sum();
        let linear: f64 = phi.iter().zip(&stacked).map(|(phi, v)| phi * v).sum();
        assert!((network - linear).abs() <= TOLERANCE);
    }
}

#[test]
fn monomials() {
    let golden = Golden::read();
    let x = golden.get("X");
    for (spec, key) in [("poly:2", "poly2"), ("poly:3", "poly3")] {
        let map: Map = spec.parse::<Basis>().unwrap().fix(&[], 3).unwrap();
        // The oracle's first column is the constant, which is the learner's business.
        let stride = map.width() + 1;
        let mut out = vec![1.0; 6 * stride];
        map.apply(&x, &mut out, stride, 1).unwrap();
        assert_close(&out, &golden.get(key));
    }
}
