//! Sentences of a page, of comments, of string literals, and of the names of functions.

/// The sentences in `text`, whose kind `path` tells.
pub(crate) fn sentences(path: &str, text: &str) -> Vec<String> {
    let blocks = match path.rsplit('.').next() {
        Some("md") => page(text),
        Some("proto") => comments(text),
        _ => rust(text),
    };
    let mut sentences = Vec::new();
    for block in blocks {
        sentences.extend(split(&without_code(&block)));
    }
    sentences
}

/// `block` in sentences. A table's cells are sentences of their own.
fn split(block: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    let block = block.replace("| ", "|\n");
    for word in block.split([' ', '\n']).filter(|word| !word.is_empty()) {
        let word_ends = word.trim_end_matches(['"', ')', '*', '_']);
        sentence.push_str(word.trim_matches('|'));
        if word_ends.ends_with(['.', '?', '!', '|']) {
            sentences.push(std::mem::take(&mut sentence));
        } else {
            sentence.push(' ');
        }
    }
    sentences.push(sentence);
    let marks = ['#', '-', '*', '>', '_', '(', '"', ' '];
    sentences
        .iter()
        .map(|sentence| sentence.trim_start_matches(marks).trim().to_owned())
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

/// `block` with an empty pair of marks for each piece of code between them.
fn without_code(block: &str) -> String {
    let parts = block.split('`').step_by(2);
    parts.collect::<Vec<_>>().join("``")
}

/// The paragraphs, list items and rows of a page, without blocks of code.
fn page(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    let mut code = false;
    for line in text.lines().map(str::trim) {
        let fence = line.starts_with("```");
        code ^= fence;
        let begins = ["- ", "* ", "|", "#", ">"];
        if fence || line.is_empty() || begins.iter().any(|mark| line.starts_with(mark)) {
            blocks.push(String::new());
        }
        if !code && !fence {
            append(&mut blocks, line);
        }
        if line.starts_with('#') {
            blocks.push(String::new());
        }
    }
    blocks
}

fn append(blocks: &mut [String], line: &str) {
    if let Some(block) = blocks.last_mut() {
        block.push_str(line);
        block.push('\n');
    }
}

/// The blocks of `//` comments of a file without string literals that hold `//`.
fn comments(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        if let Some((before, comment)) = line.split_once("//") {
            if !before.trim().is_empty() {
                blocks.push(String::new());
            }
            comment_line(&mut blocks, comment);
        } else {
            blocks.push(String::new());
        }
    }
    blocks
}

fn comment_line(blocks: &mut Vec<String>, comment: &str) {
    let comment = comment.trim_start_matches(['/', '!']).trim();
    if comment.is_empty() || comment.starts_with(['-', '|', '#']) {
        blocks.push(String::new());
    }
    append(blocks, comment);
}

/// The comments, string literals and function names of a Rust file.
fn rust(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut comment = vec![String::new()];
    let mut rest = text;
    let mut lines_since = 0;
    while let Some(c) = rest.chars().next() {
        if let Some(line) = rest.strip_prefix("//") {
            let line = line.lines().next().unwrap_or_default();
            if lines_since > 1 {
                comment.push(String::new());
            }
            comment_line(&mut comment, line);
            rest = &rest[2 + line.len()..];
            lines_since = 0;
        } else if let Some(name) = rest.strip_prefix("fn ") {
            let name: String = name
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            rest = &rest[3 + name.len()..];
            blocks.push(name.replace('_', " "));
        } else if c == '"' || rest.starts_with("r\"") || rest.starts_with("r#") {
            let (literal, after) = literal(rest);
            blocks.push(literal);
            rest = after;
            lines_since = 2;
        } else if let Some(length) = char_literal(rest) {
            rest = &rest[length..];
        } else {
            if c == '\n' {
                lines_since += 1;
            } else if !c.is_whitespace() {
                lines_since = 2;
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    blocks.extend(comment);
    blocks
}

/// The length of the char literal that `text` begins with; a lifetime is none.
fn char_literal(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let escaped = usize::from(inner.starts_with('\\'));
    let (at, c) = inner.char_indices().nth(escaped)?;
    inner[at + c.len_utf8()..]
        .starts_with('\'')
        .then_some(1 + at + c.len_utf8() + 1)
}

/// The string literal that `text` begins with, its lines joined, and the text after it.
fn literal(text: &str) -> (String, &str) {
    if let Some(raw) = text.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let Some(inner) = raw[hashes..].strip_prefix('"') else {
            // A raw identifier.
            return (String::new(), &raw[hashes..]);
        };
        let end = format!("\"{}", "#".repeat(hashes));
        let at = inner.find(&end).unwrap_or(inner.len());
        let after = inner.get(at + end.len()..).unwrap_or_default();
        return (inner[..at].to_owned(), after);
    }
    let mut literal = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (literal, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, '\n')) => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                Some((_, 'n' | 't')) => literal.push('\n'),
                Some((_, c)) => literal.push(c),
                None => break,
            },
            c => literal.push(c),
        }
    }
    (literal, "")
}
