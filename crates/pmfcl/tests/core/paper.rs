//! From code to theorem and back: `docs/paper.txt` against what the sources cite.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const RESULTS: [&str; 6] =
    ["Definition", "Lemma", "Theorem", "Corollary", "Assumption", "Algorithm"];
const LABELS: [&str; 8] = ["def:", "lem:", "thm:", "cor:", "asm:", "alg:", "eq:", "app:"];

/// One line of the list.
struct Listed {
    /// `Theorem 4.2`
    number: String,
    /// `thm:mfcl_linear`, or none
    label: Option<String>,
    excused: bool,
}

fn listed() -> Vec<Listed> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paper.txt");
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|line| {
            let (entry, reason) =
                line.split_once(" -- ").map_or((line, None), |(e, r)| (e, Some(r)));
            assert!(reason.is_none_or(|r| r.len() > 8), "no reason in: {line}");
            let words: Vec<&str> = entry.split_whitespace().collect();
            assert_eq!(words.len(), 3, "kind, number, label in: {line}");
            Listed {
                number: format!("{} {}", words[0], words[1]),
                label: (words[2] != "none").then(|| words[2].to_owned()),
                excused: reason.is_some(),
            }
        })
        .collect()
}

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

/// `(file:line, label, the words just before it)` of every label in backticks.
fn cited() -> (Vec<(String, String, String)>, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    sources(&root.join("../../pmfcl-oracle/src"), &mut files);
    let (mut found, mut all) = (Vec::new(), String::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            for (i, piece) in line.split('`').enumerate().filter(|(i, _)| i % 2 == 1) {
                if LABELS.iter().any(|l| piece.starts_with(l)) {
                    let before = line.split('`').nth(i - 1).unwrap_or("").to_owned();
                    let place =
                        format!("{}:{}", file.strip_prefix(&root).unwrap().display(), number + 1);
                    found.push((place, piece.to_owned(), before));
                }
            }
        }
        all.push_str(&text);
    }
    (found, all)
}

#[test]
fn code_cites_only_labels_and_numbers_the_paper_has() {
    let listed = listed();
    let numbers: BTreeMap<&str, &str> =
        listed.iter().filter_map(|l| Some((l.label.as_deref()?, l.number.as_str()))).collect();
    let mut wrong = Vec::new();
    for (place, label, before) in cited().0 {
        let Some(number) = numbers.get(label.as_str()) else {
            wrong.push(format!("{place}: the paper has no `{label}`"));
            continue;
        };
        // `Theorem 4.2 (`label`)`, `Algorithm 2, line 4 (`label`)`; a range ends in the number.
        let before = before.trim_end_matches([' ', '(']);
        let value = number.split(' ').next_back().unwrap();
        let words: Vec<&str> = before.split([' ', ',', '–']).collect();
        let claims = words.iter().any(|w| w.chars().next().is_some_and(|c| c.is_ascii_digit()));
        if claims && !words.contains(&value) {
            wrong.push(format!("{place}: `{label}` is {number}, not «{before}»"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_result_of_the_paper_is_cited_or_excused() {
    let (cited, text) = cited();
    let mut missing = Vec::new();
    for result in listed() {
        if !RESULTS.iter().any(|r| result.number.starts_with(r)) {
            continue;
        }
        let by_label = result.label.as_ref().is_some_and(|l| cited.iter().any(|(_, c, _)| c == l));
        // A result without a label is cited by number, alone or within a range.
        let by_number = result.label.is_none() && mentions(&text, &result.number);
        match (by_label || by_number, result.excused) {
            (false, false) => {
                missing.push(format!("{} is neither cited nor excused", result.number));
            }
            (true, true) => missing.push(format!("{} is cited: drop its excuse", result.number)),
            _ => {}
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// `Definition 3.3`, or `Definitions 3.2–3.4`.
fn mentions(text: &str, number: &str) -> bool {
    let (kind, value) = number.split_once(' ').unwrap();
    let value: f64 = value.parse().unwrap();
    text.contains(number)
        || text.split(&format!("{kind}s ")).skip(1).any(|rest| {
            let range: String =
                rest.chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | '–')).collect();
            range.trim_end_matches('.').split_once('–').is_some_and(|(a, b)| {
                matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a <= value && value <= b)
            })
        })
}

#[test]
fn every_erratum_the_code_or_a_test_cites_is_on_the_page_and_its_tests_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../../docs/errata.md")).unwrap();
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for rest in text.split("erratum E").skip(1) {
            let tag: String = rest.chars().take_while(char::is_ascii_digit).collect();
            assert!(
                tag.is_empty() || page.contains(&format!("| E{tag} |")),
                "{}: E{tag}",
                file.display()
            );
        }
    }
    for line in page.lines().filter(|l| l.starts_with("| E")) {
        for (i, piece) in line.split('`').enumerate().filter(|(i, _)| i % 2 == 1) {
            if Path::new(piece).extension().is_some_and(|e| e == "rs") {
                let name = line.split('`').nth(i + 2).unwrap();
                let text = fs::read_to_string(root.join("tests/core").join(piece)).unwrap();
                assert!(text.contains(&format!("fn {name}(")), "{piece} has no test {name}");
            }
        }
    }
}
