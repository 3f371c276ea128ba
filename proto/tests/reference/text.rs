//! Comments as Markdown: paragraphs, and tables that are set in columns.
//!
//! A table is a run of lines with an indent of two more spaces than the text. Its first line heads the columns, with two
//! spaces or more between them. A row begins where the first column has text at its left edge; a line whose first
//! column is empty or indented goes on with the row above.

use std::fmt::Write as _;

use outrigger_api::{code_name, code_of, v1::ErrorReason};

/// Spaces before the lines of a table, after that behind `//`.
const INDENT: &str = "  ";

/// A paragraph on one line.
pub(super) fn line(comment: &str) -> String {
    escape(&comment.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Paragraphs and tables.
pub(super) fn markdown(comment: &str) -> String {
    blocks(comment, |topic, rest| format!("**{topic}.** {rest}"))
}

/// The same, with a heading for each paragraph that begins with its topic: `Transport. gRPC over …`.
pub(super) fn sections(comment: &str) -> String {
    blocks(comment, |topic, rest| format!("### {topic}\n\n{rest}"))
}

fn blocks(comment: &str, titled: impl Fn(&str, &str) -> String) -> String {
    let lines: Vec<_> = comment
        .lines()
        .map(|l| l.strip_prefix(' ').unwrap_or(l))
        .collect();
    let mut page = String::new();
    for block in lines.chunk_by(|a, b| kind(a) == kind(b)) {
        let separator = if page.is_empty() { "" } else { "\n" };
        let text = match kind(block[0]) {
            Kind::Empty => continue,
            Kind::Table => table(block),
            Kind::Text => {
                let text = line(&block.join(" "));
                match text.split_once(". ").filter(|(topic, _)| is_topic(topic)) {
                    Some((topic, rest)) => titled(topic, rest) + "\n",
                    None => text + "\n",
                }
            }
        };
        let _ = write!(page, "{separator}{text}");
    }
    page
}

#[derive(PartialEq)]
enum Kind {
    Empty,
    Table,
    Text,
}

fn kind(line: &str) -> Kind {
    if line.trim().is_empty() {
        Kind::Empty
    } else if line.starts_with(INDENT) {
        Kind::Table
    } else {
        Kind::Text
    }
}

/// `Zero values`, but no sentence and no word in capitals.
fn is_topic(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c == ' ';
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().skip(1).all(plain)
        && text.split(' ').count() <= 3
}

fn table(lines: &[&str]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|l| l.strip_prefix(INDENT).unwrap_or(l))
        .collect();
    let starts = columns(lines[0]);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for text in lines {
        let cells = cells(text, &starts);
        match rows.last_mut().filter(|_| text.starts_with(' ')) {
            Some(row) => {
                for (cell, more) in row.iter_mut().zip(cells) {
                    let joined = format!("{cell} {more}");
                    joined.trim().clone_into(cell);
                }
            }
            None => rows.push(cells),
        }
    }
    // A table of answers leaves the codes to the reasons.
    if rows[0][0] == "answer" {
        for row in &mut rows {
            let code = if row[0] == "answer" {
                "code".to_owned()
            } else {
                codes(&row[0])
            };
            row.insert(1, code);
        }
    }
    let mut table = String::new();
    for (at, row) in rows.iter().enumerate() {
        let _ = writeln!(
            table,
            "| {} |",
            row.iter()
                .map(|c| escape(c))
                .collect::<Vec<_>>()
                .join(" | ")
        );
        if at == 0 {
            let _ = writeln!(table, "|{}", "---|".repeat(row.len()));
        }
    }
    table
}

/// Where the columns of a head begin.
fn columns(head: &str) -> Vec<usize> {
    let begins =
        |at: &usize| *at == 0 || head[..*at].ends_with("  ") && !head[*at..].starts_with(' ');
    let places = head.char_indices().map(|(at, _)| at);
    places.filter(begins).collect()
}

/// The codes that go with an answer that a table names.
fn codes(answer: &str) -> String {
    let words = answer.split(|c: char| !c.is_ascii_uppercase() && c != '_');
    let mut codes = Vec::new();
    for word in words {
        let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{word}"));
        let code = reason.map(|reason| code_name(code_of(reason)));
        let code = code.or_else(|| (word == "UNIMPLEMENTED").then_some(word));
        codes.extend(code.filter(|code| !codes.contains(code)));
    }
    if answer.contains("rror") || answer.contains("unknown") {
        codes.push("any");
    }
    if codes.is_empty() {
        codes.push("OK");
    }
    codes.join(", ")
}

fn cells(text: &str, starts: &[usize]) -> Vec<String> {
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let cell = |(&start, end): (&usize, usize)| {
        let end = end.min(text.len());
        text.get(start..end).unwrap_or_default().trim().to_owned()
    };
    starts.iter().zip(ends).map(cell).collect()
}

/// Characters that Markdown would read.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '<' | '|' | '[' | ']') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[test]
fn a_table_set_in_columns_is_one_in_markdown() {
    let comment = " Does one thing well. Deadline 5 s.\n\n   answer          the controller\n   READY, CONFLICT waits\n     and B\n   none            repeats\n                   it | twice\n\n Locks. One <key>.\n";
    assert_eq!(
        markdown(comment),
        "Does one thing well. Deadline 5 s.\n\n\
         | answer | code | the controller |\n|---|---|---|\n\
         | READY, CONFLICT and B | ABORTED | waits |\n| none | OK | repeats it \\| twice |\n\n\
         **Locks.** One \\<key>.\n"
    );
}
