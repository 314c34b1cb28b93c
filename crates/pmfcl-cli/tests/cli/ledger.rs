//! A privacy ledger in a model file: shown, checked, and left alone by every command that writes the model.

use pmfcl::private::Budget;
use pmfcl_file::Ledger;

use crate::program::{Draw, Place, Table};

fn budget(epsilon: f64) -> Budget {
    Budget::new(epsilon, 1e-6).unwrap()
}

fn table(draw: &mut Draw) -> String {
    let mut table = Table::new(&["x", "k", "y"]);
    for row in 0..30 {
        let k = ["red", "blue"][row % 2].to_owned();
        table.rows.push(vec![draw.unit().to_string(), k, draw.unit().to_string()]);
    }
    table.csv()
}

#[test]
fn every_command_leaves_the_ledger_of_a_model() {
    let (place, mut draw) = (Place::new(), Draw(1));
    for name in ["a.csv", "b.csv", "c.csv"] {
        place.put(name, table(&mut draw));
    }
    place.ok("learn m.pmf a.csv --target y");
    let without = place.ok("show m.pmf");
    assert!(!without.contains("privacy"), "{}", without);
    let path = place.path("m.pmf");
    let mut releases = 0;
    for command in [
        "learn m.pmf b.csv --target y",
        "set m.pmf --ridge 0.5",
        "prefer m.pmf --equal",
        "learn m.pmf c.csv --target y",
        "unlearn m.pmf b",
        "show m.pmf",
    ] {
        Ledger::open(&path, budget(1.0)).unwrap().spend(budget(0.1), command).unwrap();
        releases += 1;
        place.ok(command);
        let shown = place.ok("show m.pmf");
        assert!(shown.contains(&format!("δ 1e-6, releases {releases}")), "{command}: {shown}");
        let checked = place.ok("verify m.pmf");
        assert!(checked.contains(&format!("privacy ledger of {releases} releases")), "{checked}");
    }
    let json = place.json("show m.pmf");
    assert_eq!(json["privacy"]["releases"], releases);
    assert_eq!(json["privacy"]["epsilon"], 1.0);
    let spent = json["privacy"]["spent"].as_f64().unwrap();
    assert!(spent > 0.2 && spent < 0.6, "{spent}");
}
