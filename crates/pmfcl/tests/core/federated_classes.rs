//! Classes between clients, each with some of them: the classifier is that of the rows pooled.

use crate::support::apart;
use pmfcl::federated::{Receipt, Rules, Server, Update};
use pmfcl::problem::{Agreement, Logistic, Scheme};
use pmfcl::{ClassList, Design, Error, Labels, Learner, Problem, Ridge, Rows, Settings, TaskRows};
use pmfcl_oracle::Draw;

const NAMES: [&str; 3] = ["cat", "dog", "eel"];
const D: usize = 4;

const LOSSES: [&str; 3] = ["squared", "gaussian", "logistic"];

fn named() -> ClassList {
    ClassList::Fixed(NAMES.map(String::from).to_vec())
}

fn problem(loss: &str) -> Problem {
    Problem::parse(loss, Some(named())).unwrap()
}

fn settings() -> Settings {
    Settings { threads: 1, ..Settings::default() }
}

fn design() -> Design {
    Design::linear(D, true).unwrap()
}

fn agreement(loss: &str, settings: Settings) -> Agreement {
    Agreement::new(problem(loss), settings, design(), 0).unwrap()
}

/// A step of a client: rows and labels.
struct Step {
    client: String,
    number: u64,
    x: Vec<f64>,
    labels: Vec<&'static str>,
}

impl Step {
    fn rows(&self) -> Rows<'_> {
        Rows::new(&self.x, D).unwrap()
    }

    fn sent(&self, agreement: &Agreement) -> Update {
        let labels = Labels::new(&self.labels);
        let rows = TaskRows::new(self.rows(), &labels);
        Update::of_rows(agreement, &self.client, self.number, rows).unwrap()
    }

    fn learn(&self, learner: &mut Learner, name: &str) {
        let labels = Labels::new(&self.labels);
        learner.learn(name, TaskRows::new(self.rows(), &labels), 1.0).unwrap();
    }
}

/// Five clients over four steps, a fifth absent; client `i` knows two of the three classes.
fn steps(seed: u64) -> Vec<Step> {
    let mut draw = Draw::new(seed);
    let centres = draw.normals(3 * D);
    let mut all = Vec::new();
    for step in 0..4 {
        for client in 0..5 {
            let n = 25 + draw.below(20);
            let classes: Vec<usize> = (0..n).map(|_| (client + draw.below(2)) % 3).collect();
            let x: Vec<f64> = classes
                .iter()
                .flat_map(|k| centres[k * D..(k + 1) * D].to_vec())
                .map(|c| c + draw.normal())
                .collect();
            let labels = classes.into_iter().map(|k| NAMES[k]).collect();
            if draw.uniform() >= 0.2 && (client < 4 || step > 1) {
                all.push(Step { client: format!("c{client}"), number: step, x, labels });
            }
        }
    }
    assert!((10..18).contains(&all.len()), "{}", all.len());
    all
}

fn served(agreement: &Agreement, steps: &[Step], order: &[usize]) -> Server {
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    for &i in order {
        let sent = steps[i].sent(agreement).to_bytes();
        assert_eq!(server.accept_bytes(&sent), Ok(Receipt::Accepted));
        assert_eq!(server.accept_bytes(&sent), Ok(Receipt::Known));
    }
    server
}

fn pooled(steps: &[Step]) -> Step {
    let x = steps.iter().flat_map(|s| s.x.clone()).collect();
    let labels = steps.iter().flat_map(|s| s.labels.clone()).collect();
    Step { client: "all".to_owned(), number: 0, x, labels }
}

#[test]
fn squares_and_discriminants_are_those_of_pooled_rows() {
    for loss in ["squared", "gaussian"] {
        let (agreement, steps) = (agreement(loss, settings()), steps(3));
        let order = Draw::new(1).order(steps.len());
        let joint = served(&agreement, &steps, &order).joint().unwrap();
        let all = pooled(&steps);
        let mut whole = Learner::new(problem(loss), settings()).unwrap();
        all.learn(&mut whole, "all");
        let ours = joint.scores(all.rows()).unwrap();
        let gap = apart(&ours, &whole.scores(all.rows()).unwrap());
        assert!(gap < 1e-9, "{loss}: {gap}");
        assert_eq!(
            joint.predict_classes(all.rows()).unwrap(),
            whole.predict_classes(all.rows()).unwrap()
        );
    }
}

#[test]
fn bounds_of_log_loss_are_those_of_learning_the_same_steps_in_one_place() {
    for ridge in [Ridge::Auto, Ridge::Fixed(0.01)] {
        let settings = Settings { ridge: ridge.clone(), ..settings() };
        let (agreement, steps) = (agreement("logistic", settings.clone()), steps(5));
        let order = Draw::new(2).order(steps.len());
        let server = served(&agreement, &steps, &order);
        let mut whole = Learner::new(problem("logistic"), settings).unwrap();
        for s in &steps {
            s.learn(&mut whole, &format!("{}/{}", s.client, s.number));
        }
        let all = pooled(&steps);
        let joint = server.joint().unwrap();
        let ours = joint.scores(all.rows()).unwrap();
        let gap = apart(&ours, &whole.scores(all.rows()).unwrap());
        assert!(gap < 1e-9, "{ridge:?}: {gap}");
        // Every bound on forgetting too, and with it least losses and notes.
        let theirs = whole.tasks().unwrap();
        for entry in server.report_of(&joint).unwrap() {
            let name = format!("{}/{}", entry.client, entry.step);
            let other = theirs.iter().find(|t| t.name == name).unwrap();
            let (a, b) = (entry.report.bound.unwrap(), other.bound.unwrap());
            assert!((a - b).abs() < 1e-9 * b.max(1.0), "{name}: {a} {b}");
            assert!(entry.report.guaranteed && entry.report.forgetting.is_none());
        }
    }
}

#[test]
fn order_and_removal_leave_no_trace_in_any_loss() {
    for loss in LOSSES {
        let (agreement, steps) = (agreement(loss, settings()), steps(7));
        let bytes = |server: &Server| server.broadcast().unwrap().to_bytes();
        let straight: Vec<usize> = (0..steps.len()).collect();
        let mut whole = served(&agreement, &steps, &straight);
        let turned: Vec<usize> = straight.iter().rev().copied().collect();
        assert_eq!(bytes(&whole), bytes(&served(&agreement, &steps, &turned)), "{loss}");
        assert!(whole.remove_client("c1") > 0);
        let others: Vec<usize> =
            straight.into_iter().filter(|&i| steps[i].client != "c1").collect();
        assert_eq!(bytes(&whole), bytes(&served(&agreement, &steps, &others)), "{loss}");
    }
}

#[test]
fn single_precision_keeps_classes_and_six_digits() {
    for loss in LOSSES {
        let (agreement, steps) = (agreement(loss, settings()), steps(9));
        let servers = [false, true].map(|single| {
            let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
            for s in &steps {
                let sent = s.sent(&agreement);
                let sent = if single { sent.in_single().unwrap() } else { sent };
                server.accept_bytes(&sent.to_bytes()).unwrap();
            }
            server
        });
        let all = pooled(&steps);
        let [full, short] = servers.map(|s| s.joint().unwrap().scores(all.rows()).unwrap());
        let gap = apart(&short, &full);
        assert!(gap > 0.0 && gap < 1e-5, "{loss}: {gap}");
    }
}

#[test]
fn a_diagonal_bound_of_log_loss_stays_one_and_discriminants_have_none() {
    let agreed = agreement("logistic", settings());
    let (steps, mut draw) = (steps(11), Draw::new(4));
    for s in &steps {
        let exact = s.sent(&agreed);
        let diagonal = exact.clone().in_diagonal(&agreed).unwrap();
        assert!(diagonal.nbytes() < exact.nbytes());
        for _ in 0..10 {
            let theta = crate::support::theta(D + 1, 3, &mut draw);
            let [outer, inner] =
                [&diagonal, &exact].map(|u| u.task().quadratic.loss(&theta).unwrap());
            assert!(outer >= inner - 1e-12 * inner.abs(), "{outer} below {inner}");
        }
    }
    let gaussian = agreement("gaussian", settings());
    assert!(steps[0].sent(&gaussian).in_diagonal(&gaussian).is_err());
}

#[test]
fn what_needs_an_order_or_unnamed_classes_is_no_agreement() {
    let refused = |problem| Agreement::new(problem, settings(), design(), 0).is_err();
    assert!(refused(Problem::gaussian()));
    let (classes, scheme) = (named(), Scheme::Sequential);
    assert!(refused(Problem::Logistic(Logistic { classes, scheme, ..Logistic::default() })));
    let (a, b) = (agreement("squared", settings()), agreement("gaussian", settings()));
    assert_ne!(a.digest(), b.digest());
    let step = &steps(3)[0];
    let strange = Labels::new(&vec!["fox"; step.labels.len()]);
    let update = Update::of_rows(&a, "x", 0, TaskRows::new(step.rows(), &strange));
    assert!(matches!(update, Err(Error::UnknownClass { .. })), "{update:?}");
    assert!(Update::of_rows(&a, "x", 0, TaskRows::new(step.rows(), step.rows())).is_err());
}

#[test]
fn a_server_started_again_goes_on_in_every_loss_and_clients_predict_as_it_does() {
    let steps = steps(47);
    let order: Vec<usize> = (0..steps.len()).collect();
    for loss in LOSSES {
        let agreement = agreement(loss, settings());
        let whole = served(&agreement, &steps, &order);
        let first = served(&agreement, &steps, &order[..5]);
        let joint = first.joint().unwrap();
        let mut again = Server::resume(agreement.clone(), Rules::default(), &joint).unwrap();
        for step in &steps {
            again.accept(step.sent(&agreement)).unwrap();
        }
        let (ours, theirs) = (again.joint().unwrap(), whole.joint().unwrap());
        let x = steps[0].rows();
        assert_eq!(ours.scores(x).unwrap(), theirs.scores(x).unwrap(), "{loss}");
        assert_eq!(again.report().unwrap(), whole.report().unwrap(), "{loss}");
        let sent = again.broadcast().unwrap();
        assert_eq!(sent.answer(&agreement, x).unwrap(), ours.scores(x).unwrap(), "{loss}");
    }
}
