//! Shrinkage probe.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]
use pmfcl::classify::Shrinkage;
use pmfcl::{ClassLoss, ClassifierSettings, MemoryKind};
use pmfcl_lab::classifiers::{run, stream, table};
use pmfcl_lab::stream::Kind;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let dir = std::path::Path::new(&a[1]);
    let kind = match a[3].as_str() {
        "natural" => Kind::Natural,
        "permuted" => Kind::Permuted(5),
        _ => Kind::Classes(2),
    };
    let s = stream(dir, &a[2], kind, a[4].parse().unwrap()).unwrap();
    let base = ClassifierSettings {
        basis: a[5].parse().unwrap(),
        memory: MemoryKind::Compact,
        threads: 2,
        ..Default::default()
    };
    let mut lines = vec![];
    let t = std::time::Instant::now();
    let (mut m, l) = run(&s, "gaussian auto", base.clone()).unwrap();
    println!("learned {:?}; auto s = {}", t.elapsed(), m.gaussian().unwrap().shrinkage());
    lines.push(l);
    for x in a[6..].iter() {
        let x: f64 = x.parse().unwrap();
        m.set_shrinkage(Shrinkage::Diagonal(x)).unwrap();
        let score = m.evaluate(s.test.rows(), &s.test.labels).unwrap();
        lines.push(pmfcl_lab::classifiers::Line {
            method: format!("diag {x}"),
            score,
            bytes: 0,
            seconds: 0.0,
        });
    }
    println!("{}", table(&lines));
    if a[5] == "linear" {
        let (_, l) =
            run(&s, "squared", ClassifierSettings { loss: ClassLoss::Squared, ..base }).unwrap();
        println!("{}", table(&[l]));
    }
}
