//! Masks and noise together: the server sees one sum with the noise of all who stayed, whoever drops out.

use crate::support::{Gone, agreement, round};
use pmfcl::federated::{Rules, Server, Update};
use pmfcl::private::{Bounds, Budget, Clipped, Cohort, Noise, SharedNoise};
use pmfcl::problem::Agreement;
use pmfcl::summary::Products;
use pmfcl::{Design, Rows};
use pmfcl_oracle::Draw;
use pmfcl_secagg::{Error, Params};

const D: usize = 2;
const CLIENTS: usize = 6;
const COHORT: Cohort = Cohort { threshold: 4, colluding: 1 };

fn empty() -> Clipped {
    Clipped::new(Design::linear(D, true).unwrap(), 1, Bounds::new(1.0, 1.0).unwrap()).unwrap()
}

fn shared(epsilon: f64) -> SharedNoise {
    empty().shared_noise(Budget::new(epsilon, 1e-6).unwrap(), COHORT).unwrap()
}

fn tables() -> Vec<Clipped> {
    let mut draw = Draw::new(5);
    (0..CLIENTS)
        .map(|_| {
            let x: Vec<f64> = (0..800 * D).map(|_| draw.uniform() - 0.5).collect();
            let y: Vec<f64> = x.chunks_exact(D).map(|r| 0.5 * r[0] - 0.2 * r[1] + 0.1).collect();
            let mut own = empty();
            own.add(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap()).unwrap();
            own
        })
        .collect()
}

fn params(agreement: &Agreement, shared: &SharedNoise) -> Params {
    let params = Params::new(COHORT.threshold, CLIENTS, D + 1, 1).unwrap();
    params.of(shared.digest(agreement.digest()), 0)
}

fn sum(inputs: &[Products], of: impl Fn(&Products) -> &[f64]) -> Vec<f64> {
    (0..of(&inputs[0]).len()).map(|k| inputs.iter().map(|one| of(one)[k]).sum()).collect()
}

#[test]
fn a_masked_sum_has_the_noise_of_those_who_stayed_to_the_bit() {
    use Gone::{AfterInput, AfterKeys, AfterShares, InputLost, Never};
    let (agreement, shared) = (agreement(D), shared(1.0));
    let mut noise = Noise::from_system().unwrap();
    let inputs: Vec<Products> =
        tables().iter().map(|own| own.with_noise(&shared, &mut noise).unwrap()).collect();
    for gone in [
        [Never; CLIENTS],
        [AfterKeys, Never, Never, Never, Never, AfterShares],
        [Never, InputLost, Never, AfterInput, Never, Never],
    ] {
        let total = round(params(&agreement, &shared), &inputs, &gone, 3).unwrap();
        let stayed: Vec<Products> =
            (0..CLIENTS).filter(|i| gone[*i] > InputLost).map(|i| inputs[i].clone()).collect();
        // Whole steps of powers of two: neither masks nor fixed point change a bit.
        assert_eq!(total.products.xx, sum(&stayed, |p| &p.xx));
        assert_eq!(total.products.xy, sum(&stayed, |p| &p.xy));
        assert_eq!(total.products.n.to_bits(), (stayed.len() as f64).to_bits());
        let released = shared.released(&total.products).unwrap();
        assert_eq!(released.releases(), stayed.len() as u64);
        let honest = stayed.len() - COHORT.colluding;
        assert!(shared.guarantee(honest).epsilon <= 1.0, "{} stayed", stayed.len());
        let rows = 800.0 * stayed.len() as f64;
        assert!((released.samples() - rows).abs() < 8.0 * released.sigma()[0], "{rows}");
        let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
        let summary = released.with_ridge(0.0).unwrap();
        server.accept(Update::of_quadratic(&agreement, "cohort", 0, summary).unwrap()).unwrap();
        let predicted =
            server.joint().unwrap().predict(Rows::new(&[0.2, 0.2], D).unwrap()).unwrap();
        assert!((predicted[0] - 0.16).abs() < 0.05, "{predicted:?}");
    }
    // Below the threshold there is no sum at all, so there is never less noise than promised.
    let gone = [AfterKeys, AfterShares, InputLost, Never, Never, Never];
    assert!(matches!(
        round(params(&agreement, &shared), &inputs, &gone, 4),
        Err(Error::TooFew { .. })
    ));
}

#[test]
fn clients_told_of_other_noise_share_no_round() {
    let (agreement, mine, less) = (agreement(D), shared(1.0), shared(50.0));
    let a = params(&agreement, &mine);
    let b = params(&agreement, &less);
    let mut server = pmfcl_secagg::Server::new("round", a).unwrap();
    let one = crate::support::client("round", 0, a, 1);
    let other = crate::support::client("round", 1, b, 1);
    server.collect_keys(&one.advertise().unwrap()).unwrap();
    assert!(matches!(
        server.collect_keys(&other.advertise().unwrap()),
        Err(Error::OtherRound { .. })
    ));
}
