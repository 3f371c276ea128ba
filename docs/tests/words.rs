//! The prose in documents, the contract and the code keeps to `docs/words.txt`, and one public name in
//! `controller/` means one type.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

#[path = "words/prose.rs"]
mod prose;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Folders and files with text of other authors, of releases past, or of this list.
const SKIPPED: [&str; 5] = [
    "target",
    "node_modules",
    "googleapis",
    "CHANGELOG.md",
    "words.rs",
];

/// Text of each source file and page below `folder`, by path from the root.
fn texts(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') || SKIPPED.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            texts(&path, found);
        } else if ["rs", "proto", "md"]
            .iter()
            .any(|e| path.extension().is_some_and(|x| x == *e))
        {
            let short = path.strip_prefix(ROOT).expect("it is below the root");
            let text = fs::read_to_string(&path).expect("the file is text");
            found.insert(short.to_string_lossy().into_owned(), text);
        }
    }
}

fn all_texts() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    texts(Path::new(ROOT), &mut found);
    found
}

/// Lines of a list below `docs/`, without comments.
fn list(file: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join("docs").join(file));
    let text = text.expect("the list is there");
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// A row of `docs/words.txt`.
struct Refused {
    words: String,
    opens: bool,
    instead: String,
}

fn refused() -> Vec<Refused> {
    let rows = list("words.txt").into_iter().map(|row| {
        let (words, instead) = row.split_once('|').expect("a row has two cells");
        let words = words.trim();
        Refused {
            opens: words.starts_with('^'),
            words: words.trim_start_matches('^').to_owned(),
            instead: instead.trim().to_owned(),
        }
    });
    rows.collect()
}

impl Refused {
    /// Whether `sentence` breaks this row.
    fn is_in(&self, sentence: &str) -> bool {
        let sentence = sentence.trim().to_lowercase();
        let asks = sentence.trim_end_matches(['*', '"', ')']).ends_with('?');
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '`';
        if self.opens {
            !asks
                && sentence
                    .strip_prefix(&self.words)
                    .is_some_and(|rest| rest.starts_with(' '))
        } else {
            sentence.match_indices(&self.words).any(|(at, found)| {
                !sentence[..at].ends_with(word) && !sentence[at + found.len()..].starts_with(word)
            })
        }
    }
}

/// The breaches in one file: the sentence, and the words to use.
fn breaches(path: &str, text: &str, refused: &[Refused]) -> Vec<String> {
    let mut found = Vec::new();
    for sentence in prose::sentences(path, text) {
        for row in refused.iter().filter(|row| row.is_in(&sentence)) {
            let (words, instead) = (&row.words, &row.instead);
            found.push(format!(
                "{path}: \"{words}\" in: {sentence}\n  use: {instead}"
            ));
        }
    }
    found
}

#[test]
fn prose_keeps_to_the_list_of_words() {
    let refused = refused();
    let texts = all_texts();
    assert!(texts.len() > 500, "only {} files were found", texts.len());
    let found: Vec<_> = texts
        .iter()
        .flat_map(|(path, text)| breaches(path, text, &refused))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn words_are_found_where_prose_is_and_only_there() {
    let refused = refused();
    let count = |path: &str, text: &str| breaches(path, text, &refused).len();
    for (text, expected) in [
        ("/// What a node has.\nfn f() {}", 1),
        ("/// A node.\n/// What it has.\nfn f() {}", 1),
        ("/// Why? What does it have?\nfn f() {}", 0),
        ("/// This is what it has.\nfn f() {}", 0),
        ("// of a node nobody\n// knows", 1),
        ("let nobodys = 'n'; // `nobody` and nobody_else", 0),
        (
            "let a = \"still in \\\n    hand\"; let b = '\"'; // nobody",
            2,
        ),
    ] {
        assert_eq!(count("a.rs", text), expected, "{text}");
    }
    for (text, expected) in [
        ("# What is left\n\nA page.", 1),
        ("- one\n- What is left\n", 1),
        ("| who | What is left |\n", 1),
        ("It is\nin\nhand, or `in hand`.\n\n```\nnobody\n```\n", 1),
    ] {
        assert_eq!(count("a.md", text), expected, "{text}");
    }
    assert_eq!(count("a.proto", "// Nobody.\nstring a = 1; // whom\n"), 2);
}

/// Names with more than one definition, each to be split into names of their own.
fn shared() -> BTreeSet<String> {
    list("names-shared.txt").into_iter().collect()
}

#[test]
fn a_public_name_of_the_controller_means_one_type() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in all_texts() {
        let test = ["tests", "fixture", "benches"];
        let in_src = path.starts_with("controller/")
            && !path.split(['/', '.']).any(|part| test.contains(&part));
        for line in text.lines().filter(|_| in_src) {
            let words: Vec<_> = line.split([' ', '<', '(', ')', ';', ':', '{']).collect();
            let kind = words
                .iter()
                .position(|word| ["struct", "enum", "trait", "type"].contains(word));
            if line.starts_with("pub")
                && let Some(name) = kind.and_then(|at| words.get(at + 1))
            {
                let name = places.entry((*name).to_owned()).or_default();
                name.push(path.clone());
            }
        }
    }
    assert!(places.len() > 300, "only {} names found", places.len());
    places.retain(|_, places| places.len() > 1);
    let shared = shared();
    let new: Vec<_> = places
        .iter()
        .filter(|(n, _)| !shared.contains(*n))
        .collect();
    assert!(new.is_empty(), "names that mean two types: {new:#?}");
    let gone: Vec<_> = shared.iter().filter(|n| !places.contains_key(*n)).collect();
    assert!(
        gone.is_empty(),
        "delete from docs/names-shared.txt: {gone:?}"
    );
}
