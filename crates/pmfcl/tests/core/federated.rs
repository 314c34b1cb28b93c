//! Values between clients: the model is that of the rows pooled, whoever was there and in whatever order.

use std::collections::BTreeMap;

use crate::support::{Table, apart, gauss, learned, normal_equations, plain};
use pmfcl::federated::{Broadcast, Receipt, Rules, Server, Update};
use pmfcl::problem::{Agreement, Digest};
use pmfcl::{
    Accumulator, Basis, Design, Error, Learner, MemoryKind, Preference, Problem, Ridge, Rows,
    Settings, Summary, TaskRows, Theta,
};
use pmfcl_oracle::{Draw, messages};
use proptest::prelude::*;
use serde_json::Value;

const CLIENTS: [&str; 6] = ["anna", "ben", "chloe", "dan", "eve", "late"];

fn agreement(settings: Settings, d: usize) -> Agreement {
    let map = Basis::default().fix(&[], d).unwrap();
    let design = Design::new(map, settings.intercept);
    Agreement::new(Problem::squared(), settings, design, 1).unwrap()
}

fn server(agreement: &Agreement) -> Server {
    Server::new(agreement.clone(), Rules::default()).unwrap()
}

fn update(agreement: &Agreement, client: &str, step: u64, table: &Table) -> Update {
    Update::of_rows(agreement, client, step, table.task()).unwrap()
}

fn theta(server: &Server) -> Theta {
    server.joint().unwrap().solution().unwrap().theta.clone()
}

fn bits(theta: &Theta) -> Vec<u64> {
    theta.cells().iter().map(|v| v.to_bits()).collect()
}

/// Steps of clients, each with a truth of its own; a fifth of them absent, one of them late.
fn attendance(steps: u64, d: usize, seed: u64) -> BTreeMap<(u64, &'static str), Table> {
    let mut draw = Draw::new(seed);
    let truths: Vec<Vec<f64>> = CLIENTS.iter().map(|_| draw.normals(d)).collect();
    let mut all = BTreeMap::new();
    for step in 0..steps {
        for (client, truth) in CLIENTS.iter().zip(&truths) {
            let n = 3 + draw.below(30);
            let table = Table::linear(n, truth, 0.3, &mut draw);
            let there = draw.uniform() >= 0.2 && (*client != "late" || step >= 2);
            if there || (step == 0 && *client == "anna") {
                all.insert((step, *client), table);
            }
        }
    }
    all
}

#[test]
fn the_model_is_that_of_pooled_rows_with_clients_absent_and_late() {
    for (intercept, ridge) in [
        (false, Ridge::Fixed(0.0)),
        (true, Ridge::Fixed(0.0)),
        (true, Ridge::Fixed(0.3)),
        (true, Ridge::Auto),
    ] {
        let settings = Settings { intercept, ridge: ridge.clone(), ..plain() };
        let agreement = agreement(settings.clone(), 4);
        let mut server = server(&agreement);
        let all = attendance(5, 4, 7);
        assert!((20..28).contains(&all.len()), "{} of 30 are there", all.len());
        for step in 0..5 {
            for ((_, client), table) in all.iter().filter(|((s, _), _)| *s == step) {
                let sent = update(&agreement, client, step, table);
                assert_eq!(server.accept_bytes(&sent.to_bytes()), Ok(Receipt::Accepted));
            }
            let so_far = all.iter().filter(|((s, _), _)| *s <= step).map(|(_, table)| table);
            let pooled = Table::stack(so_far);
            let joint = learned(settings.clone(), std::slice::from_ref(&pooled));
            let ours = server.joint().unwrap().predict(pooled.rows()).unwrap();
            let gap = apart(&ours, &joint.predict(pooled.rows()).unwrap());
            assert!(gap < 1e-12, "{ridge:?}, step {step}: {gap}");
            assert!((server.samples() - pooled.n() as f64).abs() < 1e-9);
        }
    }
}

/// Clients draw the same filters from the seed: what is agreed on holds no weights.
#[test]
fn image_patches_of_clients_are_those_of_pooled_rows() {
    let settings = Settings {
        basis: "patches:12,size=2,step=1,grid=2,shape=3x4,scale=none,seed=5".parse().unwrap(),
        ridge: Ridge::Fixed(0.1),
        ..plain()
    };
    let agreed = || {
        let design = Design::new(settings.basis.fix(&[], 12).unwrap(), settings.intercept);
        Agreement::new(Problem::squared(), settings.clone(), design, 1).unwrap()
    };
    assert_eq!(agreed().digest(), agreed().digest());
    let mut server = server(&agreed());
    let all = attendance(2, 12, 3);
    for ((step, client), table) in &all {
        let sent = update(&agreed(), client, *step, table);
        assert_eq!(server.accept_bytes(&sent.to_bytes()), Ok(Receipt::Accepted));
    }
    let pooled = Table::stack(all.values());
    let joint = learned(settings.clone(), std::slice::from_ref(&pooled));
    let ours = server.joint().unwrap().predict(pooled.rows()).unwrap();
    assert!(apart(&ours, &joint.predict(pooled.rows()).unwrap()) < 1e-9);
}

/// Uploads are triangles, of clients that have far fewer rows than the design has columns and whose own memory would be sums.
#[test]
fn few_rows_of_wide_designs_are_those_of_pooled_rows() {
    let basis: Basis = "relu:600,scale=none,seed=3".parse().unwrap();
    for memory in [MemoryKind::Ledger, MemoryKind::Compact] {
        let settings = Settings {
            basis: basis.clone(),
            ridge: Ridge::Fixed(0.01),
            memory,
            accumulator: Accumulator::Auto,
            ..plain()
        };
        let settings = Settings { intercept: true, ..settings };
        let design = Design::new(basis.fix(&[], 12).unwrap(), true);
        let agreement = Agreement::new(Problem::squared(), settings.clone(), design, 1).unwrap();
        let mut server = server(&agreement);
        let all = attendance(3, 12, 3);
        for ((step, client), table) in &all {
            let sent = update(&agreement, client, *step, table);
            assert!(sent.task().quadratic.rank() <= table.n(), "{client}");
            assert_eq!(server.accept_bytes(&sent.to_bytes()), Ok(Receipt::Accepted));
        }
        let pooled = Table::stack(all.values());
        let factors = Settings { accumulator: Accumulator::Qr, ..settings.clone() };
        let joint = learned(factors, std::slice::from_ref(&pooled));
        let ours = server.joint().unwrap().predict(pooled.rows()).unwrap();
        let gap = apart(&ours, &joint.predict(pooled.rows()).unwrap());
        assert!(gap < 1e-8, "{memory}: {gap}");
    }
}

#[test]
fn the_order_of_arrival_does_not_change_a_bit() {
    let agreement = agreement(Settings { intercept: true, ridge: Ridge::Auto, ..plain() }, 3);
    let sent: Vec<Update> = attendance(3, 3, 11)
        .iter()
        .map(|((step, client), table)| update(&agreement, client, *step, table))
        .collect();
    let mut draw = Draw::new(5);
    let mut seen = Vec::new();
    for _ in 0..12 {
        let mut server = server(&agreement);
        for i in draw.order(sent.len()) {
            server.accept(sent[i].clone()).unwrap();
            // Sent twice, changes nothing.
            if i % 3 == 0 {
                assert_eq!(server.accept(sent[i].clone()), Ok(Receipt::Known));
            }
        }
        seen.push(server.broadcast().unwrap().to_bytes());
    }
    assert!(seen.windows(2).all(|w| w[0] == w[1]));
}

/// Eight hundred uploads in any order, a model brought up to date as they come, a server started again on the way: one model.
#[test]
fn eight_hundred_uploads_in_any_order_give_the_same_bits() {
    let (d, mut draw) = (3, Draw::new(19));
    let settings = Settings { intercept: true, ridge: Ridge::Auto, ..plain() };
    let agreement = agreement(settings, d);
    let sent: Vec<Update> = (0..800)
        .map(|i| {
            let table = Table::noise(4 + draw.below(6), d, 1, &mut draw);
            update(&agreement, &format!("client {}", i % 40), i / 40, &table)
        })
        .collect();
    let orders = [(0..800).collect(), (0..800).rev().collect(), draw.order(800), draw.order(800)];
    let mut models: Vec<(Vec<u8>, Vec<u64>)> = Vec::new();
    for order in orders {
        let order: Vec<usize> = order;
        let mut server = server(&agreement);
        let mut joint: Option<Learner> = None;
        for (count, i) in order.into_iter().enumerate() {
            server.accept(sent[i].clone()).unwrap();
            if count % 97 == 5 {
                match &mut joint {
                    Some(joint) => server.update_joint(joint).unwrap(),
                    None => joint = Some(server.joint().unwrap()),
                }
            }
            if count == 300 {
                let joint = server.joint().unwrap();
                server = Server::resume(agreement.clone(), Rules::default(), &joint).unwrap();
            }
        }
        let mut joint = joint.unwrap();
        server.update_joint(&mut joint).unwrap();
        assert_eq!(joint.records().len(), 800);
        models
            .push((server.broadcast().unwrap().to_bytes(), bits(&joint.solution().unwrap().theta)));
    }
    assert!(models.windows(2).all(|pair| pair[0] == pair[1]));
    // The order would show: pooled one after another, two orders differ in their last digits.
    let one_by_one = |order: &[usize]| {
        let mut learner = crate::support::learner(agreement.settings().clone());
        for &i in order {
            let task = sent[i].task().clone();
            learner.insert_summary(&i.to_string(), task, 1.0).unwrap();
        }
        bits(&learner.solution().unwrap().theta)
    };
    let (there, back): (Vec<usize>, Vec<usize>) = ((0..800).collect(), (0..800).rev().collect());
    assert_ne!(one_by_one(&there), one_by_one(&back));
}

#[test]
fn a_client_or_step_taken_out_was_never_there() {
    let agreement = agreement(Settings { intercept: true, ridge: Ridge::Auto, ..plain() }, 3);
    let all = attendance(3, 3, 13);
    let with = |keep: &dyn Fn(&str, u64) -> bool| {
        let mut server = server(&agreement);
        for ((step, client), table) in all.iter().filter(|((s, c), _)| keep(c, *s)) {
            server.accept(update(&agreement, client, *step, table)).unwrap();
        }
        server
    };
    let mut whole = with(&|_, _| true);
    assert!(whole.remove("ben", 0) && !whole.remove("ben", 0));
    assert_eq!(bits(&theta(&whole)), bits(&theta(&with(&|c, s| (c, s) != ("ben", 0)))));
    assert_eq!(whole.remove_client("ben") + 1, all.keys().filter(|(_, c)| *c == "ben").count());
    assert_eq!(bits(&theta(&whole)), bits(&theta(&with(&|c, _| c != "ben"))));
    assert_eq!(whole.remove_client("ben"), 0);
    // What was taken out may come again.
    whole.accept(update(&agreement, "ben", 0, &all[&(0, "ben")])).unwrap();
}

#[test]
fn forgetting_of_each_client_and_step_is_that_of_its_rows() {
    let agreement = agreement(plain(), 3);
    let mut server = server(&agreement);
    let all = attendance(3, 3, 17);
    for ((step, client), table) in &all {
        server.accept(update(&agreement, client, *step, table)).unwrap();
    }
    let joint = server.joint().unwrap();
    let theta = joint.solution().unwrap().theta.clone();
    for entry in server.report_of(&joint).unwrap() {
        let (key, _) =
            all.iter().find(|((s, c), _)| (*s, *c) == (entry.step, &*entry.client)).unwrap();
        let table = &all[key];
        let (a, b) = normal_equations(table);
        let own = Theta::from_slice(&gauss(a, b));
        let (loss, least) = (table.loss(&theta), table.loss(&own));
        assert!((entry.report.loss.unwrap() - loss).abs() < 1e-10 * loss.max(1.0));
        assert!((entry.report.forgetting.unwrap() - (loss - least)).abs() < 1e-9 * loss.max(1.0));
        assert!((entry.report.samples - table.n() as f64).abs() < 1e-12);
    }
    assert_eq!(joint.names().next(), Some("anna/0"));
}

fn golden() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/federated.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// A round of the oracle: each client's rows, and `θ` after it.
type Round = (Vec<(String, Table)>, Vec<f64>);

fn oracle() -> Vec<Round> {
    let golden = golden();
    let rounds =
        golden["rounds"].as_array().unwrap().iter().zip(golden["theta"].as_array().unwrap());
    rounds
        .map(|(round, theta)| {
            let clients = round.as_object().unwrap().iter().map(|(client, rows)| {
                let x: Vec<Vec<f64>> = rows["X"].as_array().unwrap().iter().map(numbers).collect();
                let (d, x) = (x[0].len(), x.concat());
                (client.clone(), Table { x, y: numbers(&rows["y"]), d, p: 1 })
            });
            (clients.collect(), numbers(theta))
        })
        .collect()
}

#[test]
fn both_forms_reach_the_oracles_parameters() {
    let rounds = oracle();
    let d = rounds[0].1.len();
    let agreement = agreement(plain(), d);
    let mut server = server(&agreement);
    let mut theirs = messages::Server::new(d);
    let mut clients: BTreeMap<String, messages::Client> = BTreeMap::new();
    let mut last: BTreeMap<String, messages::Message> = BTreeMap::new();
    let mut late = false;
    for (k, (round, expected)) in rounds.iter().enumerate() {
        last.values_mut().for_each(|message| *message = message.idle());
        for (client, table) in round {
            late |= k > 0 && !clients.contains_key(client);
            server.accept(update(&agreement, client, k as u64, table)).unwrap();
            let own = clients.entry(client.clone()).or_insert_with(|| messages::Client::new(d));
            last.insert(client.clone(), own.step(&table.x, &table.y, theirs.theta()));
        }
        let sent: Vec<messages::Message> = last.values().cloned().collect();
        theirs.round(&sent);
        // The oracle's own numbers are right to 1e-10; normal equations lose some of ours.
        assert!(apart(theta(&server).cells(), expected) < 1e-9, "round {k}");
        assert!(apart(theirs.theta(), expected) < 1e-8, "round {k}, the paper's messages");
    }
    assert!(late, "the oracle has a client that joins late");
}

#[test]
fn a_lost_message_spoils_the_papers_form_for_good_and_increments_not_at_all() {
    let (d, mut draw) = (3, Draw::new(3));
    let truth = draw.normals(d);
    let tables: Vec<[Table; 2]> = (0..4)
        .map(|_| [Table::linear(20, &truth, 1.0, &mut draw), Table::noise(20, d, 1, &mut draw)])
        .collect();
    let agreement = agreement(plain(), d);
    let mut ours = server(&agreement);
    let mut theirs = messages::Server::new(d);
    let mut clients = [messages::Client::new(d), messages::Client::new(d)];
    let mut last: [Option<messages::Message>; 2] = [None, None];
    let mut outbox = Vec::new();
    for (k, round) in tables.iter().enumerate() {
        for (i, table) in round.iter().enumerate() {
            let message = clients[i].step(&table.x, &table.y, theirs.theta());
            outbox.push(update(&agreement, CLIENTS[i], k as u64, table));
            // What client 1 sends in round 1 does not arrive; increments wait until they do.
            if (k, i) == (1, 1) {
                last[i] = last[i].as_ref().map(messages::Message::idle);
            } else {
                last[i] = Some(message);
                outbox.drain(..).for_each(|sent| {
                    ours.accept(sent).unwrap();
                });
            }
        }
        theirs.round(&last.iter().flatten().cloned().collect::<Vec<_>>());
    }
    let pooled = Table::stack(tables.iter().flatten());
    let (a, b) = normal_equations(&pooled);
    let right = gauss(a, b);
    assert!(apart(theta(&ours).cells(), &right) < 1e-12);
    // 20 of 160 rows miss their pull: far from rounding, and nothing later brings it back.
    assert!(apart(theirs.theta(), &right) > 1e-3);
}

#[test]
fn single_precision_halves_the_upload_and_keeps_six_digits() {
    let agreement = agreement(Settings { intercept: true, ..plain() }, 12);
    let mut draw = Draw::new(23);
    let truth = draw.normals(12);
    let (mut full, mut short) = (server(&agreement), server(&agreement));
    for (step, client) in CLIENTS.iter().enumerate() {
        let table = Table::linear(60, &truth, 0.5, &mut draw);
        let sent = update(&agreement, client, step as u64, &table);
        let narrow = sent.clone().in_single().unwrap();
        assert!(narrow.nbytes() < sent.nbytes() * 2 / 3, "{} {}", narrow.nbytes(), sent.nbytes());
        for sent in [&sent, &narrow] {
            assert_eq!(sent.to_bytes().len(), sent.nbytes());
            assert_eq!(Update::from_bytes(&sent.to_bytes(), 1 << 20).as_ref(), Ok(sent));
        }
        full.accept(sent).unwrap();
        short.accept_bytes(&narrow.to_bytes()).unwrap();
    }
    // Each number is off by 2⁻²⁴ ≈ 6e-8 of itself; κ of 360 rows of 12 normals is below 2, so θ follows within a few.
    let gap = apart(theta(&short).cells(), theta(&full).cells());
    assert!(gap > 0.0 && gap < 1e-6, "{gap}");
}

#[test]
fn a_number_single_precision_does_not_hold_is_not_sent() {
    let agreement = agreement(plain(), 2);
    let table = Table::noise(9, 2, 1, &mut Draw::new(1)).scaled(&[1.0, 1e60]);
    assert!(update(&agreement, "anna", 0, &table).in_single().is_err());
    let table = Table::noise(9, 2, 1, &mut Draw::new(1)).scaled(&[1.0, 1e-60]);
    assert!(update(&agreement, "anna", 0, &table).in_single().is_err());
}

#[test]
fn the_diagonal_form_is_small_and_its_bound_holds() {
    let (d, mut draw) = (40, Draw::new(29));
    let agreement = agreement(Settings { intercept: true, ..plain() }, d);
    let mut server = server(&agreement);
    for (client, n) in CLIENTS.iter().zip([100, 30, 10, 60, 41, 200]) {
        let table = Table::noise(n, d, 1, &mut draw);
        let ones = table.with_ones();
        let exact = update(&agreement, client, 0, &table);
        let sent = exact.clone().in_diagonal(&agreement).unwrap();
        assert!(sent.is_diagonal() && !exact.is_diagonal());
        // A pivot, an entry and a target for each column, in addition to headers, digest and name.
        assert!(sent.nbytes() <= 20 * (d + 1) + 170, "{}", sent.nbytes());
        assert_eq!(Update::from_bytes(&sent.to_bytes(), 1 << 20).as_ref(), Ok(&sent));
        for _ in 0..20 {
            let theta = crate::support::theta(d + 1, 1, &mut draw);
            let (bound, loss) = (sent.task().quadratic.loss(&theta).unwrap(), ones.loss(&theta));
            assert!(bound >= loss * (1.0 - 1e-12), "{bound} below {loss}");
        }
        server.accept_bytes(&sent.to_bytes()).unwrap();
    }
    assert!(!server.is_exact());
    for entry in server.report().unwrap() {
        assert_eq!((entry.report.loss, entry.report.forgetting), (None, None));
        assert!(entry.report.bound.unwrap() >= 0.0);
    }
}

#[test]
fn a_large_client_can_be_held_to_a_share() {
    let mut draw = Draw::new(31);
    let honest: Vec<Table> = (0..3).map(|_| Table::linear(20, &[1.0], 0.1, &mut draw)).collect();
    let loud = Table::linear(2000, &[9.0], 0.1, &mut draw);
    let agreement = agreement(plain(), 1);
    let slope = |most_share| {
        let rules = Rules { most_share, ..Rules::default() };
        let mut server = Server::new(agreement.clone(), rules).unwrap();
        for (client, table) in CLIENTS.iter().zip(&honest) {
            server.accept(update(&agreement, client, 0, table)).unwrap();
        }
        server.accept(update(&agreement, "loud", 0, &loud)).unwrap();
        theta(&server).cells()[0]
    };
    assert!(slope(None) > 8.0);
    // A quarter at 9, three quarters at 1: about 3.
    let held = slope(Some(0.25));
    assert!((2.0..4.0).contains(&held), "{held}");
    assert!(
        Server::new(agreement.clone(), Rules { most_share: Some(0.0), ..Rules::default() })
            .is_err()
    );
}

#[test]
fn a_summary_of_sums_made_elsewhere_is_an_update_too() {
    let agreement = agreement(plain(), 3);
    let table = Table::noise(12, 3, 1, &mut Draw::new(2));
    let products = table.summary().products();
    let root = Summary::from_products(&products).unwrap();
    let mut server = server(&agreement);
    server.accept(Update::of_quadratic(&agreement, "sql", 0, root).unwrap()).unwrap();
    let (a, b) = normal_equations(&table);
    assert!(apart(theta(&server).cells(), &gauss(a, b)) < 1e-10);
    assert!(Update::of_quadratic(&agreement, "sql", 1, Summary::empty(3, 1)).is_err());
    assert!(Update::of_quadratic(&agreement, "sql", 1, Summary::empty(4, 1)).is_err());
}

#[test]
fn what_depends_on_an_order_or_another_design_is_no_agreement() {
    let design = |intercept| Design::linear(2, intercept).unwrap();
    let decay = Settings { prefer: Preference::Decay(0.5), ..plain() };
    let agreed =
        |settings, design, targets| Agreement::new(Problem::squared(), settings, design, targets);
    assert!(agreed(decay, design(false), 1).is_err());
    assert!(agreed(plain(), design(true), 1).is_err());
    assert!(agreed(plain(), design(false), 0).is_err());
    let equal = Settings { prefer: Preference::Equal, ..plain() };
    let same = agreed(equal, design(false), 1).unwrap();
    assert_eq!(same.digest(), agreement(plain(), 2).digest());
    assert_ne!(same.digest(), agreement(plain(), 3).digest());
    assert!(server(&same).joint().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Rows of any rank, split among clients and steps at random: one register, one model.
    #[test]
    fn any_split_of_any_rows_is_their_pool(seed in any::<u64>(), n in 1_usize..60, d in 1_usize..6) {
        let mut draw = Draw::new(seed);
        let table = Table::awkward(n, d, 1, &mut draw);
        let agreement = agreement(plain(), d);
        let mut parts: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
        for row in 0..n {
            parts.entry((draw.below(CLIENTS.len()), draw.below(3) as u64)).or_default().push(row);
        }
        let mut server = server(&agreement);
        for ((client, step), rows) in &parts {
            let sent = update(&agreement, CLIENTS[*client], *step, &table.pick(rows));
            prop_assert_eq!(&Update::from_bytes(&sent.to_bytes(), 1 << 20).unwrap(), &sent);
            server.accept_bytes(&sent.to_bytes()).unwrap();
        }
        let ours = server.joint().unwrap().predict(table.rows()).unwrap();
        let joint = learned(plain(), std::slice::from_ref(&table));
        // Fitted values are unique at any rank; the coefficients need not be near where the rank is.
        let gap = apart(&ours, &joint.predict(table.rows()).unwrap());
        prop_assert!(gap < 1e-9, "{}", gap);
    }
}

#[test]
fn a_server_started_again_goes_on_where_it_was() {
    let d = 5;
    let agreement = agreement(Settings { intercept: true, ..plain() }, d);
    let all = attendance(4, d, 31);
    let (mut whole, mut first) = (server(&agreement), server(&agreement));
    let sent = |(step, client): &(u64, &str), table: &Table| match *client {
        "ben" => update(&agreement, client, *step, table).in_single().unwrap(),
        "dan" => update(&agreement, client, *step, table).in_diagonal(&agreement).unwrap(),
        // A name may look like a path.
        "eve" => update(&agreement, "eve/2", *step, table),
        _ => update(&agreement, client, *step, table),
    };
    for (key, table) in &all {
        whole.accept(sent(key, table)).unwrap();
        if key.0 < 2 {
            first.accept(sent(key, table)).unwrap();
        }
    }
    let mut again =
        Server::resume(agreement.clone(), Rules::default(), &first.joint().unwrap()).unwrap();
    assert_eq!(bits(&theta(&again)), bits(&theta(&first)));
    assert_eq!(again.clients(), first.clients());
    for (key, table) in &all {
        let known = if key.0 < 2 { Receipt::Known } else { Receipt::Accepted };
        assert_eq!(again.accept(sent(key, table)), Ok(known), "{key:?}");
    }
    assert_eq!(bits(&theta(&again)), bits(&theta(&whole)));
    assert_eq!(again.report().unwrap(), whole.report().unwrap());
    assert!(!again.is_exact());
    // What an update can take at most is known beforehand, and no update of these is larger.
    let table = Table::noise(50, d, 1, &mut Draw::new(2));
    let long = "n".repeat(255);
    let whole = update(&agreement, &long, 0, &table);
    assert_eq!(whole.nbytes(), Update::most_bytes(&agreement, false, false));
    let short = whole.clone().in_single().unwrap();
    assert_eq!(short.nbytes(), Update::most_bytes(&agreement, false, true));
    let diagonal = whole.in_diagonal(&agreement).unwrap();
    assert_eq!(diagonal.nbytes(), Update::most_bytes(&agreement, true, false));
    let diagonal = diagonal.in_single().unwrap();
    assert_eq!(diagonal.nbytes(), Update::most_bytes(&agreement, true, true));
}

#[test]
fn a_model_that_no_federation_made_is_not_gone_on_with() {
    let d = 3;
    let agreement = agreement(plain(), d);
    let table = Table::noise(20, d, 1, &mut Draw::new(3));
    let own = learned(plain(), &[table]);
    let error = Server::resume(agreement, Rules::default(), &own).unwrap_err();
    assert!(error.to_string().contains("not made by a federation"), "{error}");
}

#[test]
fn parameters_that_were_sent_predict_as_the_servers_model() {
    let (d, mut draw) = (4, Draw::new(37));
    let settings = Settings { intercept: true, ..plain() };
    let agreement = agreement(settings, d);
    let mut server = server(&agreement);
    server.accept(update(&agreement, "anna", 0, &Table::noise(40, d, 1, &mut draw))).unwrap();
    let sent = server.broadcast().unwrap();
    let table = Table::noise(1100, d, 1, &mut draw);
    let theirs = server.joint().unwrap().predict(table.rows()).unwrap();
    assert_eq!(sent.answer(&agreement, table.rows()).unwrap(), theirs);
    let other = Broadcast { agreement: Digest([1; 32]), ..sent };
    assert!(matches!(other.answer(&agreement, table.rows()), Err(Error::Mismatch { .. })));
}

#[test]
fn zeros_of_categories_are_left_out_and_come_back() {
    let (levels, d) = (8, 24);
    let agreement = agreement(Settings { intercept: false, ..plain() }, d);
    let mut draw = Draw::new(41);
    let x: Vec<f64> = (0..200)
        .flat_map(|_| {
            let level = draw.below(levels);
            (0..d).map(move |j| f64::from(u8::from(j % levels == level))).collect::<Vec<f64>>()
        })
        .collect();
    let y: Vec<f64> = (0..200).map(|_| draw.normal()).collect();
    let (x, y) = (Rows::new(&x, d).unwrap(), Rows::new(&y, 1).unwrap());
    let exact = Update::of_rows(&agreement, "c", 0, TaskRows::new(x, y)).unwrap();
    let dense = exact.task().quadratic.numbers() * 8;
    assert!(exact.nbytes() < dense / 2, "{} of {dense}", exact.nbytes());
    for update in [
        exact.clone(),
        exact.clone().in_single().unwrap(),
        exact.clone().in_diagonal(&agreement).unwrap(),
        exact.in_diagonal(&agreement).unwrap().in_single().unwrap(),
    ] {
        let bytes = update.to_bytes();
        assert_eq!(bytes.len(), update.nbytes());
        assert_eq!(Update::from_bytes(&bytes, 1 << 20), Ok(update));
    }
}

#[test]
fn the_ridge_that_is_chosen_is_the_same_for_rows_in_one_place() {
    for seed in 0..40 {
        let (d, mut draw) = (8, Draw::new(100 + seed));
        let truth = draw.normals(d);
        let settings = Settings { intercept: true, ridge: Ridge::Auto, ..plain() };
        let agreement = agreement(settings.clone(), d);
        let mut server = server(&agreement);
        let tables: Vec<Table> = CLIENTS
            .iter()
            .map(|_| Table::linear(20 + draw.below(40), &truth, 3.0, &mut draw))
            .collect();
        for (client, table) in CLIENTS.iter().zip(&tables) {
            server.accept(update(&agreement, client, 0, table)).unwrap();
        }
        let whole = learned(settings, &[Table::stack(tables.iter())]);
        let (ours, theirs) = (server.joint().unwrap(), whole.solution().unwrap());
        let (ours, theirs) = (ours.solution().unwrap().penalty.ridge(), theirs.penalty.ridge());
        assert!((ours - theirs).abs() <= 1e-9 * theirs, "{ours:e} against {theirs:e}");
    }
}

/// Inputs that come later: steps before them, and steps of clients that have not heard yet, have been zero there.
#[test]
fn a_federation_goes_on_with_more_inputs() {
    let settings = Settings { intercept: true, ..plain() };
    let mut draw = Draw::new(21);
    let (first, second) = (agreement(settings.clone(), 3), agreement(settings.clone(), 5));
    assert!(first.clone().after(&second).is_err());
    assert!(
        agreement(Settings { standardize: true, ..settings.clone() }, 5).after(&first).is_err()
    );
    let stranger = second.clone();
    let second = second.after(&first).unwrap();
    let (old, late) = (Table::noise(30, 3, 1, &mut draw), Table::noise(20, 3, 1, &mut draw));
    let new = Table::noise(40, 5, 1, &mut draw);
    let mut server = server(&first);
    server.accept(update(&first, "anna", 0, &old)).unwrap();
    let mut joint = server.joint().unwrap();
    assert!(server.accept(update(&second, "ben", 0, &new)).is_err());
    assert!(server.extend(stranger).is_err());
    server.extend(second.clone()).unwrap();
    server.accept(update(&second, "ben", 0, &new)).unwrap();
    server.accept(update(&first, "dan", 0, &late)).unwrap();
    let wide = |table: &Table| {
        let x = table.x.chunks_exact(3).flat_map(|r| [r[0], r[1], r[2], 0.0, 0.0]).collect();
        Table { x, d: 5, ..table.clone() }
    };
    let whole = learned(settings, &[wide(&old), new, wide(&late)]);
    let expected = whole.solution().unwrap().theta.cells().to_vec();
    assert!(apart(theta(&server).cells(), &expected) < 1e-12);
    server.update_joint(&mut joint).unwrap();
    assert!(apart(joint.solution().unwrap().theta.cells(), &expected) < 1e-12);
    assert!(apart(server.broadcast().unwrap().theta.cells(), &expected) < 1e-12);
    let again = Server::resume(second, Rules::default(), &server.joint().unwrap()).unwrap();
    assert_eq!(bits(&theta(&again)), bits(&theta(&server)));
}
