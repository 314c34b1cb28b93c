//! A federation's server in a file: started again it goes on, and what was not committed was never there.

use pmfcl::federated::{Receipt, Rules, Server, Update};
use pmfcl::problem::Agreement;
use pmfcl::{ClassList, Labels, Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Access, FileError, Model, Register, Schema, Store, verify};
use pmfcl_oracle::Draw;

const D: usize = 3;

fn regression(basis: &str) -> Model {
    let settings = Settings { basis: basis.parse().unwrap(), threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).unwrap();
    let names: Vec<String> = (0..D).map(|j| format!("x{j}")).collect();
    let schema = Schema::numbers(&names, &["y".to_owned()]);
    Model { schema, learner }
}

fn table(seed: u64, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut draw = Draw::new(seed);
    let x = draw.normals(n * D);
    let y = x.chunks_exact(D).map(|r| r[0] - 2.0 * r[1] + 0.1 * draw.normal()).collect();
    (x, y)
}

fn update(agreement: &Agreement, client: &str, step: u64) -> Update {
    let (x, y) = table(step * 100 + client.len() as u64, 20);
    let rows = TaskRows::new(Rows::new(&x, D).unwrap(), Rows::new(&y, 1).unwrap());
    Update::of_rows(agreement, client, step, rows).unwrap()
}

#[test]
fn a_server_goes_on_from_its_file_and_forgets_what_was_not_committed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("joint.pmf");
    let (x, _) = table(5, 50);
    let agreed = regression("rbf:4").founded(Some(Rows::new(&x, D).unwrap())).unwrap();
    // What is sent to clients is this model as bytes.
    let sent = Model::from_bytes(&agreed.to_bytes().unwrap()).unwrap();
    let agreement = sent.agreement().unwrap();
    assert_eq!(agreement.digest(), agreed.agreement().unwrap().digest());

    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    assert!(matches!(register.commit(), Err(FileError::Core(pmfcl::Error::NotLearned))));
    assert!(!path.exists());
    register.server_mut().accept(update(&agreement, "north", 0)).unwrap();
    register.commit().unwrap();
    register.server_mut().accept(update(&agreement, "south", 0)).unwrap();
    let first = register.commit().unwrap();
    register.server_mut().accept(update(&agreement, "north", 1)).unwrap();
    assert!(matches!(Register::open(&path, &agreed, Rules::default()), Err(FileError::Locked(_))));
    drop(register);
    assert_eq!(verify(&path).unwrap().tasks, 2);

    let mut register = Register::open(&path, &sent, Rules::default()).unwrap();
    assert_eq!(register.server().clients(), ["north", "south"]);
    let held = register.model().unwrap();
    assert_eq!(held.learner.solution(), first.learner.solution());
    let accepted = register.server_mut();
    assert_eq!(accepted.accept(update(&agreement, "south", 0)), Ok(Receipt::Known));
    assert_eq!(accepted.accept(update(&agreement, "north", 1)), Ok(Receipt::Accepted));
    let second = register.commit().unwrap();
    drop(register);
    assert_eq!(verify(&path).unwrap().tasks, 3);
    let (_, read) = Store::open(&path, Access::Read).unwrap();
    assert!(read.learner.is_solved());
    assert_eq!(read.learner.solution(), second.learner.solution());
    // In the order they were filed, which changes no bit of the model.
    assert_eq!(read.learner.names().collect::<Vec<_>>(), ["north/0", "south/0", "north/1"]);
    let mut server = Server::new(agreement.clone(), Rules::default()).unwrap();
    for (client, step) in [("north", 1), ("south", 0), ("north", 0)] {
        server.accept(update(&agreement, client, step)).unwrap();
    }
    assert_eq!(server.joint().unwrap().solution(), second.learner.solution());
}

#[test]
fn classes_go_on_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("joint.pmf");
    let classes = ClassList::Fixed(vec!["no".to_owned(), "yes".to_owned()]);
    for loss in ["squared", "gaussian", "logistic"] {
        let problem = Problem::parse(loss, Some(classes.clone())).unwrap();
        let learner = Learner::new(problem, Settings::default()).unwrap();
        let schema = Schema::numbers(&["a", "b", "c"].map(String::from), &["y".to_owned()]);
        let agreed = Model { schema, learner }.founded(None).unwrap();
        let agreed = Model::from_bytes(&agreed.to_bytes().unwrap()).unwrap();
        let agreement = agreed.agreement().unwrap();
        let send = |client: &str, step: u64| {
            let (x, y) = table(step + client.len() as u64, 40);
            let labels: Vec<&str> = y.iter().map(|v| if *v > 0.3 { "yes" } else { "no" }).collect();
            let labels = Labels::new(&labels);
            let rows = TaskRows::new(Rows::new(&x, D).unwrap(), &labels);
            Update::of_rows(&agreement, client, step, rows).unwrap()
        };
        let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
        register.server_mut().accept(send("a", 0)).unwrap();
        register.commit().unwrap();
        drop(register);
        let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
        assert_eq!(register.server_mut().accept(send("a", 0)), Ok(Receipt::Known));
        register.server_mut().accept(send("bcd", 0)).unwrap();
        register.commit().unwrap();
        drop(register);
        assert_eq!(verify(&path).unwrap().tasks, 2);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn another_federations_file_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("joint.pmf");
    let agreed = regression("linear").founded(None).unwrap();
    let mut register = Register::open(&path, &agreed, Rules::default()).unwrap();
    let sent = update(&agreed.agreement().unwrap(), "north", 0);
    register.server_mut().accept(sent).unwrap();
    register.commit().unwrap();
    drop(register);
    let before = std::fs::read(&path).unwrap();
    let other = regression("poly:2").founded(None).unwrap();
    let refused = Register::open(&path, &other, Rules::default()).unwrap_err();
    assert!(matches!(refused, FileError::OtherFederation(_)), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let needy = regression("rbf:4").founded(None).unwrap_err();
    assert!(needy.to_string().contains("rows"), "{needy}");
}
