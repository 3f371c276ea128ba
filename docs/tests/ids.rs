//! Ids such as N-20 or LBS-04 lead somewhere: each that code or a document cites is a row of
//! `docs/upstream.md` or `docs/conformance.md`, and of one of them only.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{collections::BTreeMap, fs, path::Path};

/// Where ids are defined: `| N-20 | …`.
const DEFINING: [&str; 2] = ["docs/upstream.md", "docs/conformance.md"];

/// Words of the same shape.
const NO_IDS: [&str; 4] = ["DNS", "KEP", "SHA", "UTF"];

/// The ids in `text`. `NDS-*` stands for all ids of its kind.
fn ids(text: &str) -> Vec<&str> {
    let word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = text.as_bytes();
    let mut ids_of_text = Vec::new();
    let mut end = 0;
    for (dash, _) in text.match_indices('-') {
        let kind = bytes[end..dash].iter().rev();
        let start = dash - kind.take_while(|byte| byte.is_ascii_uppercase()).count();
        let digits = bytes[dash + 1..].iter();
        let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
        let many = digits == 0 && bytes.get(dash + 1) == Some(&b'*');
        let after = dash + 1 + digits + usize::from(many);
        let alone = start
            .checked_sub(1)
            .is_none_or(|at| !word(&bytes[at]) && bytes[at] != b'-')
            && !bytes.get(after).is_some_and(word);
        if start < dash && dash + 1 < after && alone && !NO_IDS.contains(&&text[start..dash]) {
            ids_of_text.push(&text[start..after]);
            end = after;
        }
    }
    ids_of_text
}

/// Calls `see` with path and text of each source file and document below `directory`, except vendored ones.
fn each_text(directory: &Path, see: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(directory).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "node_modules", "googleapis"].contains(&&*name)
            {
                each_text(&path, see);
            }
        } else if ["rs", "proto", "md"]
            .iter()
            .any(|e| path.extension().is_some_and(|x| x == *e))
        {
            see(&path, &fs::read_to_string(&path).expect("the file is text"));
        }
    }
}

/// Each defined id with the number of its rows.
fn defined(root: &Path) -> BTreeMap<String, u32> {
    let mut rows = BTreeMap::new();
    for page in DEFINING {
        let page = fs::read_to_string(root.join(page)).expect("the page is there");
        for line in page.lines() {
            let cell = line.strip_prefix("| ").and_then(|row| row.split_once(" |"));
            if let Some((cell, _)) = cell
                && ids(cell) == [cell]
            {
                *rows.entry(cell.to_owned()).or_default() += 1;
            }
        }
    }
    rows
}

#[test]
fn every_id_that_is_cited_is_defined_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let defined = defined(root);
    let twice: Vec<_> = defined.iter().filter(|(_, rows)| **rows > 1).collect();
    assert!(twice.is_empty(), "defined more than once: {twice:?}");

    let mut unknown = Vec::new();
    let mut cited = 0;
    each_text(root, &mut |path, text| {
        for (number, line) in text.lines().enumerate() {
            for id in ids(line) {
                cited += 1;
                let is_defined = id.strip_suffix('*').map_or_else(
                    || defined.contains_key(id),
                    |kind| defined.keys().any(|id| id.starts_with(kind)),
                );
                if !is_defined {
                    let path = path.strip_prefix(root).unwrap_or(path).display();
                    unknown.push(format!("{path}:{}: {id}", number + 1));
                }
            }
        }
    });
    assert!(
        unknown.is_empty(),
        "not in {DEFINING:?}:\n{}",
        unknown.join("\n")
    );
    assert!(cited > 100, "only {cited} ids seen in {}", root.display());
}

#[test]
fn ids_differ_from_other_words() {
    assert_eq!(
        ids(
            "Q-5; (S-60 to S-72, NDS-*), HTTP-1 … N-2. UTF-8, A-1_b, [A-Z0-9-], x-N-1, N-1a, é-N-3"
        ),
        ["Q-5", "S-60", "S-72", "NDS-*", "HTTP-1", "N-2"]
    );
}
