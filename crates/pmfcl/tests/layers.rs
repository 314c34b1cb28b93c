//! Modules stand in the order data flows: each uses only those before it. Reads the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// Front to back. `classify` comes after the learner it wraps, `federated` after both, `private` after what it protects.
const ORDER: [&str; 14] = [
    "error",
    "rows",
    "theta",
    "basis",
    "kernel",
    "summary",
    "solve",
    "loss",
    "learner",
    "classify",
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

/// Names after `crate::` in code, tests at the foot of a file and comments left out.
fn uses(text: &str) -> Vec<(usize, String)> {
    let code = text.split("\n#[cfg(test)]").next().unwrap_or(text);
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
        if module == "lib" {
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
