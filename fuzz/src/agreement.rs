//! An agreement as a server sends it: any schema, settings and stored numbers, behind checksums that hold, give an agreement or are
//! refused, in little memory. What is given sums rows up or says why not.
//!
//! Schema, settings and numbers are the parts between zero bytes; empty ones are those of an honest agreement. The first byte chooses
//! which honest one.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pmfcl::{Learner, Problem, Rows, Settings, TaskRows};
use pmfcl_file::{Model, Schema, assemble};
use rusqlite::Connection;

type Values = BTreeMap<String, Vec<u8>>;

/// Specs of honest agreements: none draws from rows.
const SPECS: [&str; 4] = ["linear", "poly:2", "exp", "log"];

thread_local! {
    static HONEST: RefCell<BTreeMap<usize, Values>> = const { RefCell::new(BTreeMap::new()) };
}

fn honest(which: usize) -> Values {
    HONEST.with_borrow_mut(|all| all.entry(which).or_insert_with(|| values(SPECS[which])).clone())
}

fn values(spec: &str) -> Values {
    let settings =
        Settings { basis: spec.parse().expect("a basis"), threads: 1, ..Settings::default() };
    let learner = Learner::new(Problem::squared(), settings).expect("a learner");
    let schema = Schema::numbers(&["a", "b"].map(String::from), &["y".to_owned()]);
    let model = Model { schema, learner }.founded(None).expect("without rows");
    let bytes = model.to_bytes().expect("bytes");
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.deserialize_read_exact("main", &bytes[..], bytes.len(), true).expect("a database");
    let mut statement = connection.prepare("SELECT key, value FROM model").expect("a model");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("values")
}

/// Puts it together.
pub fn run(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let mut values = honest(usize::from(*first) % SPECS.len());
    let mut parts = rest.splitn(3, |byte| *byte == 0);
    for key in ["schema", "settings", "basis"] {
        if let Some(part) = parts.next().filter(|part| !part.is_empty()) {
            values.insert(key.to_owned(), part.to_vec());
        }
    }
    let Ok(model) = assemble(values, Vec::new(), Vec::new()) else { return };
    let Ok(agreement) = model.agreement() else { return };
    let d = agreement.design().inputs();
    if d > 64 || agreement.design().width() > 256 {
        return;
    }
    let x: Vec<f64> = (0..3 * d).map(|k| 0.25 * (k % 7) as f64 - 0.5).collect();
    let y: Vec<f64> = (0..3 * agreement.outputs().classes().map_or(agreement.columns(), |_| 1))
        .map(|k| k as f64)
        .collect();
    let rows = TaskRows::new(
        Rows::new(&x, d).expect("rows"),
        Rows::new(&y, y.len() / 3).expect("targets"),
    );
    if let Ok(task) = agreement.summarize(rows) {
        assert!(
            task.quadratic.products().xx.iter().all(|v| v.is_finite()),
            "a sum that is not finite"
        );
    }
}
