//! A table read whole has every row once, in order, whatever the size of the pieces.

use pmfcl_ingest::{ColumnSelection, Files, GatheredTargets, gather};
use pmfcl_read::{Missing, Options};

const TABLE: &str =
    "who,kind,x,y,step\nann,red,1,10,a\nbob,blue,2,20,a\nann,red,,30,b\nbob,grey,4,40,b\n";

fn read(selection: &ColumnSelection, classes: bool, piece_rows: usize) -> pmfcl_ingest::Gathered {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.csv");
    std::fs::write(&path, TABLE).unwrap();
    let options =
        Options { missing: Missing::Drop, piece_rows: Some(piece_rows), ..Options::default() };
    let files = Files { paths: vec![path], options, threads: 2 };
    gather(&files, selection, classes, &|_| {}).unwrap()
}

fn selection(target: &str) -> ColumnSelection {
    ColumnSelection {
        targets: vec![target.to_owned()],
        reserved: vec!["who".to_owned(), "step".to_owned()],
        ..ColumnSelection::default()
    }
}

#[test]
fn rows_keep_their_task_and_target() {
    for piece_rows in [1, 2, 100] {
        let all = read(&selection("y"), false, piece_rows);
        assert_eq!(all.inputs.len(), 4, "{:?}", all.inputs); // x and three kinds
        let x = all.inputs.iter().position(|n| n == "x").unwrap();
        let column: Vec<f64> = all.x.chunks(4).map(|row| row[x]).collect();
        assert_eq!(column, [1.0, 2.0, 4.0]);
        assert!(all.x.chunks(4).all(|row| (row.iter().sum::<f64>() - row[x] - 1.0).abs() < 1e-12));
        assert_eq!(all.y, GatheredTargets::Values(vec![10.0, 20.0, 40.0]));
        assert_eq!(all.keys[0].names, ["ann", "bob"]);
        assert_eq!(all.keys[0].codes, [0, 1, 1]);
        assert_eq!(all.keys[1].codes, [0, 0, 1]);
        assert_eq!(all.dropped, 1);
    }
}

#[test]
fn text_and_numbers_that_are_asked_for_are_classes() {
    let GatheredTargets::Classes(words) = read(&selection("kind"), false, 2).y else { panic!() };
    assert_eq!(words.names, ["red", "blue", "grey"]);
    let GatheredTargets::Classes(words) = read(&selection("y"), true, 2).y else { panic!() };
    assert_eq!((words.names.len(), words.codes), (3, vec![0, 1, 2]));
}
