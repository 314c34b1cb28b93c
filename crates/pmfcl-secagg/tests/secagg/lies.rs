//! A server that lies about what is summed: one agreement and one step hold for a round, for all its messages.

use crate::support::{Gone, client, clients, name, shared, tables};
use pmfcl::problem::{Agreement, Digest, Problem};
use pmfcl::{Basis, Design, Ridge, Settings};
use pmfcl_secagg::{Client, Error, Input, Params, Server};

const D: usize = 2;
const CLIENTS: usize = 4;

/// Bumps around three centres. With far ones every feature of every row is zero.
fn bumps(centre: f64) -> Agreement {
    let basis: Basis = "rbf:3,scale=range".parse().unwrap();
    let settings =
        Settings { basis: basis.clone(), ridge: Ridge::Fixed(0.0), ..Settings::default() };
    let rows: Vec<f64> = (0..20).map(|k| centre + f64::from(k % 7) / 3.0).collect();
    let design = Design::new(basis.fix(&rows, D).unwrap(), true);
    Agreement::new(Problem::squared(), settings, design, 1).unwrap()
}

fn is_refused<T>(result: Result<T, Error>, with: &str) {
    let error = result.err().expect("refused").to_string();
    assert!(error.contains(with), "{error}");
}

/// A round that is bound to an agreement and a step, up to the inboxes.
fn begun(agreement: &Agreement, step: u64) -> (Vec<Client>, Server) {
    let params = Params::new(3, CLIENTS, agreement.design().width(), 1).unwrap();
    let params = params.of(agreement.digest(), step);
    let mut all = clients(CLIENTS, params, 71);
    let server = shared(params, &mut all, &[Gone::Never; CLIENTS]).unwrap();
    (all, server)
}

/// The attack: the victim masks sums under the real agreement, the others under one whose features are all zero. Every message is
/// well formed; unless clients refuse, the sum over features is the victim's own, to the last digits.
#[test]
fn sums_of_another_agreement_or_step_are_not_masked() {
    let (real, far) = (bumps(0.0), bumps(1e3));
    let tables = tables(CLIENTS, D, 72);
    let zero = tables[1].summary(&far).products();
    // Without the intercept's row and column nothing is left of the others' rows.
    assert!(zero.xx[1..].iter().all(|v| v.abs() < 1e-12), "{:?}", zero.xx);
    let (mut all, mut server) = begun(&real, 7);
    let inbox = server.inbox(&name(1)).unwrap();
    let other = Input { agreement: far.digest(), step: 7, products: &zero };
    is_refused(all[1].masked(&inbox, &other), "keys are for agreement");
    let own = tables[1].summary(&real).products();
    let late = Input { agreement: real.digest(), step: 6, products: &own };
    is_refused(all[1].masked(&inbox, &late), "keys are for step 7");
    crate::support::moved(&mut all[1]);
    is_refused(all[1].masked(&inbox, &other), "keys are for agreement");
    let sound = Input { agreement: real.digest(), step: 7, products: &own };
    all[1].masked(&inbox, &sound).unwrap();
}

/// Clients that were told different agreements or steps at their first message never open each other's letters.
#[test]
fn clients_with_different_agreements_share_no_round() {
    let real = bumps(0.0);
    let (all, mut server) = begun(&real, 7);
    let params = *all[0].params();
    for other in [params.of(Digest([9; 32]), 7), params.of(real.digest(), 8)] {
        // The first 64 bits of two digests may be made equal by trying; all 256 may not.
        let mut close = real.digest();
        close.0[31] ^= 1;
        for told in [other, params.of(close, 7)] {
            let mut stranger = client("round", 0, told, 71);
            let roster = server.roster().unwrap();
            is_refused(stranger.share(&roster), "another round");
            let mut fresh = Server::new("round", params).unwrap();
            is_refused(fresh.collect_keys(&stranger.advertise().unwrap()), "another round");
        }
    }
}

#[test]
fn a_client_says_what_it_is_bound_to() {
    let real = bumps(0.0);
    let (all, _) = begun(&real, 7);
    let state = all[2].to_bytes();
    let again = Client::from_bytes(&state).unwrap();
    assert_eq!((again.params().agreement(), again.params().step()), (real.digest(), 7));
    assert_eq!((again.round(), again.members().len()), ("round", CLIENTS));
}
