//! The visible state of the cloud, as lines that can be compared: without the identities and times that differ each time.

use jiff::Timestamp;
use outrigger_api::v1::LoadBalancerStatus;
use serde_json::Value;

/// Texts that stand for an identity, each with the word that takes its place.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities {
    texts: Vec<(String, String)>,
    uids: Vec<(String, String)>,
}

/// Digits of a UID by which a part of it is known: clouds cut names.
const PART: usize = 8;

impl Identities {
    /// A text that is another one each time, such as an address.
    pub(super) fn text(&mut self, text: &str, word: &str) {
        if !text.is_empty() {
            self.texts.push((text.to_owned(), format!("<{word}>")));
            // An address is no part of a longer one.
            self.texts
                .sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        }
    }

    /// The addresses of a status of this name.
    pub(super) fn points(&mut self, status: Option<&LoadBalancerStatus>, name: char) {
        for point in status.iter().flat_map(|status| &status.ingress) {
            self.text(&point.ip, &format!("address of {name}"));
            self.text(&point.hostname, &format!("host of {name}"));
        }
    }

    /// A UID, in any spelling and cut to any length from eight digits on.
    pub(super) fn uid(&mut self, uid: &str, word: &str) {
        self.uids.push((uid.to_owned(), format!("<{word}>")));
    }

    /// The text without identities.
    pub(super) fn without(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (uid, word) in &self.uids {
            text = without_uid(&text, uid, word);
        }
        for (identity, word) in &self.texts {
            text = without_text(&text, identity, word);
        }
        text
    }
}

/// Replaces a text where it is no part of a longer word.
fn without_text(text: &str, identity: &str, word: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(identity) {
        let end = at + identity.len();
        let before = rest[..at]
            .chars()
            .next_back()
            .or(result.chars().next_back());
        let is_part = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_whole = !is_part(before) && !is_part(rest[end..].chars().next());
        result.push_str(&rest[..at]);
        result.push_str(if is_whole { word } else { identity });
        rest = &rest[end..];
    }
    result + rest
}

/// Replaces a UID, with dashes or without, as much of it as is there.
fn without_uid(text: &str, uid: &str, word: &str) -> String {
    let plain = uid.replace('-', "");
    let Some(first) = plain.get(..PART) else {
        return text.to_owned();
    };
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(first) {
        result.push_str(&rest[..at]);
        result.push_str(word);
        let same = |spelling: &str| {
            let both = rest[at..].bytes().zip(spelling.bytes());
            both.take_while(|(one, other)| one == other).count()
        };
        let length = same(uid).max(same(&plain));
        let candidate = rest[at..at + length].trim_end_matches('-');
        rest = &rest[at + candidate.len()..];
    }
    result + rest
}

/// The resources in the output of `commands.cloudState` without identities, one line each, sorted. Each entry of an array
/// of JSON is one, also where the array is a field of an object; in other output each line is.
pub(crate) fn resources(output: &str) -> Vec<String> {
    let documents = serde_json::Deserializer::from_str(output).into_iter();
    let documents: Result<Vec<Value>, _> = documents.collect();
    let mut resources: Vec<_> = if let Ok(documents) = documents {
        documents.into_iter().flat_map(of_document).collect()
    } else {
        let lines = output.lines().map(|line| {
            let words: Vec<_> = line.split_whitespace().map(without_time).collect();
            words.join(" ")
        });
        lines.filter(|line| !line.is_empty()).collect()
    };
    resources.sort_unstable();
    resources
}

fn of_document(document: Value) -> Vec<String> {
    let entries = |value| match value {
        Value::Array(entries) => entries,
        other => vec![other],
    };
    match document {
        Value::Object(fields) => {
            let fields = fields.into_iter().flat_map(|(name, value)| {
                let entries = entries(value).into_iter();
                entries.map(move |entry| format!("{name}: {}", plain(entry)))
            });
            fields.collect()
        }
        other => {
            let entries = entries(other).into_iter();
            entries.map(|entry| plain(entry).to_string()).collect()
        }
    }
}

/// A value without times, its arrays sorted.
fn plain(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(without_time(&text).to_owned()),
        Value::Array(entries) => {
            let mut entries: Vec<_> = entries.into_iter().map(plain).collect();
            entries.sort_by_cached_key(ToString::to_string);
            Value::Array(entries)
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| (name, plain(value)));
            Value::Object(fields.collect())
        }
        other => other,
    }
}

fn without_time(word: &str) -> &str {
    if word.parse::<Timestamp>().is_ok() {
        "<time>"
    } else {
        word
    }
}

/// The lines that only one of two sorted lists has: those of the first, then those of the second.
pub(crate) fn differences(first: &[String], second: &[String]) -> (Vec<String>, Vec<String>) {
    let mut rest = second.to_vec();
    let mut only_first = Vec::new();
    for line in first {
        match rest.iter().position(|other| other == line) {
            Some(index) => {
                rest.remove(index);
            }
            None => only_first.push(line.clone()),
        }
    }
    (only_first, rest)
}
