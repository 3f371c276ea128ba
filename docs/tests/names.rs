//! Names mean what exists: tests, metrics and quotes that the documents name are in the code, one public name of
//! the controller is one type, and no field of a log line hides its text.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Text of each file below `folder` that ends in `extension`, by path from the root.
fn texts(folder: &str, extension: &str, texts_by_path: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        let short = path.strip_prefix(ROOT).expect("it is below the root");
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !name.starts_with('.') && !["target", "node_modules"].contains(&&*name)
        {
            texts(&short.to_string_lossy(), extension, texts_by_path);
        } else if path.extension().is_some_and(|end| end == extension) {
            let text = fs::read_to_string(&path).expect("the file is text");
            texts_by_path.insert(short.to_owned(), text);
        }
    }
}

fn pages() -> BTreeMap<PathBuf, String> {
    let mut pages = BTreeMap::new();
    texts("", "md", &mut pages);
    pages
}

/// `text` without blocks of code.
fn prose(text: &str) -> String {
    let parts = text.split("\n```").step_by(2);
    parts.collect::<Vec<_>>().join("\n")
}

/// `path` without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// A page that names a test as the proof of a sentence links its file: [`name`](path.rs).
#[test]
fn tests_that_pages_name_are_in_their_files() {
    let mut missing = Vec::new();
    let mut named = 0;
    for (page, text) in &pages() {
        for link in text.split("[`").skip(1) {
            let Some((name, rest)) = link.split_once("`](") else {
                continue;
            };
            let path = rest.split(')').next().unwrap_or_default();
            let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if Path::new(path).extension().is_none_or(|kind| kind != "rs")
                || !name.chars().all(is_name)
                || !name.contains('_')
            {
                continue;
            }
            named += 1;
            let file = Path::new(ROOT).join(plain(&page.with_file_name(path)));
            let code = fs::read_to_string(file).unwrap_or_default();
            if !code.contains(&format!("fn {name}(")) {
                missing.push(format!("{}: {name} in {path}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
    assert!(named > 20, "{named} tests are named");
}

/// On the page that says what strangers cannot do, each name in the form of a test's is a test.
#[test]
fn tests_that_the_security_page_names_exist() {
    let mut code = BTreeMap::new();
    texts("controller", "rs", &mut code);
    let page = fs::read_to_string(Path::new(ROOT).join("SECURITY.md")).expect("it is there");
    let is_name = |name: &&str| {
        name.matches('_').count() > 2
            && name
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let names = page.split('`').skip(1).step_by(2).filter(is_name);
    let missing: Vec<_> = names
        .filter(|name| {
            let test = format!("fn {name}(");
            !code.values().any(|code| code.contains(&test))
        })
        .collect();
    assert!(missing.is_empty(), "tests that do not exist: {missing:#?}");
}

/// The words of `text` that begin with `outrigger_`, except crates, the Python package and those that end in `_`.
fn metrics(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let packages = [
        "outrigger_api",
        "outrigger_controller",
        "outrigger_core",
        "outrigger_kube",
        "outrigger_loops",
        "outrigger_conformance",
        "outrigger_provider",
        "outrigger_runtime",
    ];
    words.filter(move |word| {
        word.starts_with("outrigger_")
            && !word.ends_with('_')
            && !word.starts_with("outrigger_provider_sdk")
            && !packages.contains(word)
    })
}

#[test]
fn metrics_are_on_the_page_of_metrics() {
    let pages = pages();
    let listed = pages.get(Path::new("docs/endpoints.md"));
    let listed: BTreeSet<_> = metrics(listed.expect("the page is there")).collect();
    let mut unknown = Vec::new();
    // The changelog names those that are gone, too.
    let pages = pages.iter().filter(|(page, _)| **page != *"CHANGELOG.md");
    for (page, text) in pages {
        let missing = metrics(text).filter(|metric| !listed.contains(metric));
        unknown.extend(missing.map(|metric| format!("{}: {metric}", page.display())));
    }
    assert!(unknown.is_empty(), "not in docs/endpoints.md: {unknown:#?}");
}

/// The longest part of `quote` without a number, for the code has a placeholder there.
fn fixed_part(quote: &str) -> &str {
    let parts = quote.split(|c: char| c.is_ascii_digit() || c == '…');
    parts.max_by_key(|part| part.len()).map_or("", str::trim)
}

/// Returns whether it is a line of the log or of an answer, rather than a command or a flag.
fn is_sentence(quote: &str) -> bool {
    let first = quote.split(' ').next().unwrap_or_default();
    quote.split(' ').count() > 2
        && first.chars().all(char::is_alphabetic)
        && !["curl", "kubectl"].contains(&first)
}

/// Returns whether it is a reason of an event or a condition.
fn is_reason(quote: &str) -> bool {
    quote.starts_with(char::is_uppercase)
        && quote.chars().all(char::is_alphabetic)
        && quote.chars().filter(|c| c.is_uppercase()).count() > 1
        && !quote.chars().all(char::is_uppercase)
}

#[test]
fn quotes_of_troubleshooting_are_in_the_code() {
    /// Words of Kubernetes itself.
    const OTHERS: [&str; 3] = ["ClusterIP", "LoadBalancer", "NotReady"];
    let mut sources = BTreeMap::new();
    texts("controller", "rs", &mut sources);
    texts("proto", "txt", &mut sources);
    sources.retain(|path, _| !path.to_string_lossy().contains("tests"));
    let code: String = sources.into_values().collect();
    // Long texts are broken with a backslash.
    let code: String = code.split("\\\n").map(str::trim_start).collect();

    let page = pages().remove(Path::new("docs/troubleshooting.md"));
    let page = prose(&page.expect("the page is there")).replace('\n', " ");
    let mut unknown = Vec::new();
    let mut quotes = 0;
    for quote in page.split('`').skip(1).step_by(2) {
        let is_in_code = if is_sentence(quote) {
            code.contains(fixed_part(quote))
        } else if is_reason(quote) && !OTHERS.contains(&quote) {
            code.contains(quote) || code.contains(&screaming(quote))
        } else {
            continue;
        };
        quotes += 1;
        if !is_in_code {
            unknown.push(quote);
        }
    }
    assert!(unknown.is_empty(), "not in the code: {unknown:#?}");
    assert!(quotes > 30, "only {quotes} quotes were found");
}

/// `QuotaExceeded` as the contract writes it: `QUOTA_EXCEEDED`.
fn screaming(reason: &str) -> String {
    let mut screaming = String::new();
    for c in reason.chars() {
        if c.is_uppercase() && !screaming.is_empty() {
            screaming.push('_');
        }
        screaming.push(c.to_ascii_uppercase());
    }
    screaming
}

/// The fields of each call of a log macro in `text`, without string literals.
fn log_fields(text: &str) -> Vec<String> {
    let mut fields = Vec::new();
    for name in ["error!(", "warn!(", "info!(", "debug!(", "trace!("] {
        for (at, _) in text.match_indices(name) {
            let (mut depth, mut is_quoted, mut field) = (0, false, String::new());
            let mut chars = text[at + name.len()..].chars();
            while let Some(c) = chars.next() {
                match c {
                    '\\' if is_quoted => drop(chars.next()),
                    '"' => is_quoted = !is_quoted,
                    _ if is_quoted => {}
                    ')' | ']' | '}' if depth == 0 => break,
                    ',' if depth == 0 => fields.push(std::mem::take(&mut field)),
                    c => {
                        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
                        field.push(c);
                    }
                }
            }
            fields.push(field);
        }
    }
    fields
}

/// The text of a log line is itself the field `message`: another one of that name takes its place.
#[test]
fn no_log_line_loses_its_text_to_a_field() {
    let is_text = |field: &String| {
        let name = field.split('=').next().unwrap_or_default();
        name.trim().trim_start_matches(['%', '?']) == "message"
    };
    assert!(
        log_fields("info!(a = f(1, 2), %message, \"message, b\")")
            .iter()
            .any(is_text)
    );
    let mut sources = BTreeMap::new();
    texts("", "rs", &mut sources);
    sources.remove(Path::new("docs/tests/names.rs"));
    let wrong: Vec<_> = sources
        .iter()
        .filter(|(_, text)| log_fields(text).iter().any(is_text))
        .map(|(path, _)| path)
        .collect();
    assert!(wrong.is_empty(), "a field named message: {wrong:?}");
}

/// One type has a public name in `controller/`, except `Error`: in the standard library's way it is the error of
/// the module that it is imported from, and a module with two of them writes their modules (`provider::Error`).
#[test]
fn a_public_name_of_the_controller_means_one_type() {
    let mut sources = BTreeMap::new();
    texts("controller", "rs", &mut sources);
    let mut places: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, text) in &sources {
        let text_of_tests = ["tests", "fixture", "benches"];
        let path_text = path.to_string_lossy();
        let is_test = path_text
            .split(['/', '.'])
            .any(|part| text_of_tests.contains(&part));
        for line in text
            .lines()
            .filter(|line| line.starts_with("pub") && !is_test)
        {
            let mut words = line.split([' ', '<', '(', ')', ';', ':', '{']);
            let is_kind = |word: &str| ["struct", "enum", "trait", "type"].contains(&word);
            if words.any(is_kind)
                && let Some(name) = words.next()
            {
                places.entry(name).or_default().push(path);
            }
        }
    }
    assert!(places.len() > 300, "only {} names found", places.len());
    places.retain(|name, places| *name != "Error" && places.len() > 1);
    assert!(places.is_empty(), "names that mean two types: {places:#?}");
}
