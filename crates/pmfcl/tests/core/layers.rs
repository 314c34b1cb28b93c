//! Modules stand in the order data flows: each uses only those before it. Reads the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Front to back, as in `ARCHITECTURE.md`. `settings` knows the penalty of `solve`; `learner` knows `problem` but not one of its
/// losses; `private` comes after what it protects.
const ORDER: [&str; 16] = [
    "error",
    "rows",
    "labels",
    "theta",
    "basis",
    "kernel",
    "summary",
    "solve",
    "settings",
    "loss",
    "problem",
    "learner",
    "federated",
    "private",
    "report",
    "pareto",
];

/// A use of a later module, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 1] =
    [("error", "basis", "the crate's one error type carries the basis' own")];

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The text without the tests at its foot.
fn code_of(text: &str) -> &str {
    let tests = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\npub(crate) mod tests {"];
    tests.iter().fold(text, |code, tests| code.split(tests).next().unwrap_or(code))
}

/// Names after `crate::` in code, tests at the foot of a file and comments left out.
fn uses(text: &str) -> Vec<(usize, String)> {
    let code = code_of(text);
    let mut found = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let line = line.split("//").next().unwrap_or(line);
        for rest in line.split("crate::").skip(1) {
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            found.push((number + 1, name));
        }
    }
    found
}

#[test]
fn every_module_uses_only_those_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let place = |name: &str| ORDER.iter().position(|m| *m == name);
    let mut wrong = Vec::new();
    let mut excused = Vec::new();
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        // Tests may look at anything, also where they have a file of their own.
        if module == "lib" || inside.ends_with("tests.rs") {
            continue;
        }
        let Some(own) = place(module) else {
            wrong.push(format!("`{module}` has no place in the order; give it one in layers.rs"));
            continue;
        };
        for (line, used) in uses(&fs::read_to_string(&file).unwrap()) {
            // Re-exports at the root have capitals or are functions; they hide the module they are of.
            let Some(theirs) = place(&used) else {
                wrong.push(format!(
                    "{}:{line} uses crate::{used}: name its module",
                    inside.display()
                ));
                continue;
            };
            match EXCEPTIONS.iter().position(|(a, b, _)| (*a, *b) == (module, &used)) {
                Some(i) => excused.push(i),
                None if theirs > own => {
                    wrong.push(format!("{}:{line} reaches forward to {used}", inside.display()));
                }
                None => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (i, (a, b, why)) in EXCEPTIONS.iter().enumerate() {
        assert!(excused.contains(&i), "the exception of {a} for {b} ({why}) is no longer needed");
    }
}

#[test]
fn comments_and_tests_are_not_uses() {
    let text = "use crate::rows::Rows; // not crate::pareto\nlet x = crate::solve::solve();\n\
                #[cfg(test)]\nmod tests { use crate::learner::Learner; }";
    let names: Vec<String> = uses(text).into_iter().map(|(_, n)| n).collect();
    assert_eq!(names, ["rows", "solve"]);
}

/// Losses have one home: outside of `problem` nothing asks which one there is.
#[test]
fn only_the_module_problem_asks_which_loss_there_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let variants = ["Squared(", "RowWise(", "Gaussian(", "Logistic("];
    let asked = |line: &str| variants.iter().any(|v| line.contains(&format!("Problem::{v}")));
    let (mut inside, mut outside) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = code_of(&text);
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or(line);
            if !asked(line) {
                continue;
            }
            let name = file.strip_prefix(&root).unwrap();
            if name.starts_with("problem") {
                inside += 1;
            } else {
                outside.push(format!("{}:{}", name.display(), number + 1));
            }
        }
    }
    assert!(outside.is_empty(), "{}", outside.join("\n"));
    assert!(inside > 0, "the names of the losses have changed: change this test with them");
}

/// The table of modules that people read is this one.
#[test]
fn the_architecture_shows_the_modules_in_this_order() {
    let page = include_str!("../../../../ARCHITECTURE.md");
    let table = page.split("| module | stage | paper |").nth(1).expect("a table of modules");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let shown: Vec<String> = rows
        .flat_map(|row| {
            let names = row.split('|').nth(1).unwrap_or_default().to_owned();
            names.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(shown, ORDER);
}
