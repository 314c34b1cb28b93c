//! What a commit writes does not grow with the commits before it: bytes are counted, not seconds.
//!
//! One test in a process of its own: the kernel counts for the process as a whole.

#![cfg(target_os = "linux")]

use std::path::Path;

use pmfcl::federated::{Rules, Update};
use pmfcl::{Labels, Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Model, ModelFile, Register, Schema, verify};
use pmfcl_oracle::Draw;

const D: usize = 3;
const COMMITS: usize = 800;

/// Makes a model of 800 commits, and tells the bytes of each.
type Way = fn(&Path, &Problem) -> Vec<u64>;

/// Bytes this process has written to files, journals included.
fn written() -> u64 {
    let counts = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

fn model(problem: &Problem) -> Model {
    let settings = Settings { threads: 1, ..Settings::default() };
    let learner = Learner::new(problem.clone(), settings).unwrap();
    let schema = Schema::numbers(&["a", "b", "c"].map(String::from), &["y".to_owned()]);
    Model { schema, learner }
}

/// Rows of a step, and their classes.
fn table(step: usize) -> (Vec<f64>, Vec<f64>, Labels) {
    let mut draw = Draw::new(step as u64);
    let x = draw.normals(20 * D);
    let y: Vec<f64> = x.chunks_exact(D).map(|r| r[0] - r[1] + 0.1 * draw.normal()).collect();
    let labels: Vec<&str> = y.iter().map(|v| if *v > 0.0 { "yes" } else { "no" }).collect();
    (x, y, Labels::new(&labels))
}

fn rows((x, y, labels): &(Vec<f64>, Vec<f64>, Labels), classes: bool) -> TaskRows<'_> {
    let x = Rows::new(x, D).unwrap();
    if classes { TaskRows::new(x, labels) } else { TaskRows::new(x, Rows::new(y, 1).unwrap()) }
}

/// Bytes of each commit of a register.
fn by_register(path: &Path, problem: &Problem) -> Vec<u64> {
    let agreed = model(problem).founded(None).unwrap();
    let agreement = agreed.agreement().unwrap();
    let mut register = Register::open(path, &agreed, Rules::default()).unwrap();
    let commit = |i: usize| {
        let table = table(i);
        let (client, step) = (format!("client {:02}", i * 7 % 40), i as u64 / 40);
        let rows = rows(&table, problem.predicts_classes());
        let update = Update::of_rows(&agreement, &client, step, rows).unwrap();
        register.server_mut().accept(update).unwrap();
        let before = written();
        register.commit().unwrap();
        written() - before
    };
    (0..COMMITS).map(commit).collect()
}

/// Bytes of each commit of a learner, solved each time.
fn by_file(path: &Path, problem: &Problem) -> Vec<u64> {
    let mut learned = model(problem);
    let classes = problem.predicts_classes();
    learned.learner.learn("first", rows(&table(COMMITS), classes), 1.0).unwrap();
    let mut file = ModelFile::create(path, &learned).unwrap();
    let commit = |i: usize| {
        file.model_mut().learner.learn(&format!("t{i:03}"), rows(&table(i), classes), 1.0).unwrap();
        file.model().learner.solution().unwrap();
        let before = written();
        file.commit().unwrap();
        written() - before
    };
    (0..COMMITS).map(commit).collect()
}

#[test]
fn the_last_of_800_commits_writes_no_more_than_the_first() {
    // In memory, where there is such a place: what is counted is the same.
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(base).unwrap();
    let classes = ["no", "yes"].map(str::to_owned).to_vec();
    let gaussian = Problem::gaussian().with_classes(classes).unwrap();
    let ways: [(&str, Way, usize); 2] =
        [("register", by_register, COMMITS), ("file", by_file, COMMITS + 1)];
    for (name, costs, tasks) in ways {
        for problem in [Problem::squared(), gaussian.clone()] {
            let path = directory.path().join(format!("{name}-{problem}.pmf"));
            let costs = costs(&path, &problem);
            assert_eq!(verify(&path).unwrap().tasks, tasks);
            let (first, last) = (costs[0], costs[COMMITS - 1]);
            assert!(last <= first, "{name} {problem}: {first} bytes at first, {last} at last");
            // Pages of the tables are split now and then, so single commits differ by a few pages; sums of a hundred hardly do.
            let hundred = |from: usize| costs[from..from + 100].iter().sum::<u64>() as f64;
            let (first, last) = (hundred(0), hundred(COMMITS - 100));
            assert!(last < 1.05 * first, "{name} {problem}: {first} bytes, later {last}");
        }
    }
}
