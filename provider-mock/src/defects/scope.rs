//! The values that a step can name, its texts and its conditions.

use jiff::Timestamp;
use outrigger_api::code_name;
use prost_reflect::{DynamicMessage, Value};
use tonic::Code;

use super::run::Run;
use crate::message::{fill, text as as_text, values};

/// The messages that a value is looked for in.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    /// The one that the step is about.
    pub(super) one: &'a DynamicMessage,
    /// The whole message.
    pub(super) whole: &'a DynamicMessage,
}

impl Run {
    /// The values at a path: of the message, or of something else that `@` begins.
    pub(super) fn values(&self, path: &str, scope: Scope<'_>) -> Vec<Value> {
        if let Some(path) = path.strip_prefix('#') {
            return vec![Value::U64(self.values(path, scope).len() as u64)];
        }
        let mut hits = Vec::new();
        let Some(path) = path.strip_prefix('@') else {
            values(scope.one, path, &mut hits);
            return hits;
        };
        let said = |text: &str| vec![Value::String(text.to_owned())];
        let (root, rest) = path.split_once('.').unwrap_or((path, ""));
        let header = |name: &str| self.call.head.headers.contains_key(name);
        match root {
            "code" => return said(code_name(self.code)),
            "reason" => {
                let name = self.reason.map_or("", |one| one.as_str_name());
                return said(name.trim_start_matches("ERROR_REASON_"));
            }
            "message" => return said(&self.error),
            "bytes" => {
                let bytes = self.came.iter().map(Vec::len).max();
                return vec![Value::U64(bytes.unwrap_or_default() as u64)];
            }
            "messages" => return vec![Value::U64(self.came.len() as u64)],
            "all" => {
                let all = self.came.iter().filter_map(|one| self.decoded(one));
                all.for_each(|one| values(&one, rest, &mut hits));
            }
            "garbled" => return vec![Value::Bool(self.request.is_none())],
            "traced" => return vec![Value::Bool(header("traceparent"))],
            "connection" => return said(&format!("connection-{}", self.call.connection())),
            "authority" => {
                let authority = self.call.head.uri.authority();
                return said(authority.map_or("localhost", |one| one.as_str()));
            }
            "count" => {
                let mut memory = self.memory.lock();
                memory.count += 1;
                return vec![Value::U64(memory.count)];
            }
            "later" => {
                let later = Timestamp::now().as_second() + rest.parse().unwrap_or(0);
                return vec![Value::I64(later)];
            }
            "nanos" => return vec![Value::I32(Timestamp::now().subsec_nanosecond())],
            "answer" => values(scope.whole, rest, &mut hits),
            "request" => self
                .request
                .iter()
                .for_each(|one| values(one, rest, &mut hits)),
            "item" => {
                let request = self.request.as_ref();
                let item = request.and_then(|one| twin(one, "items", "name", scope.one));
                if let Some(item) = item {
                    values(&item, rest, &mut hits);
                }
            }
            _ if self.answers.contains_key(root) => {
                let (code, message) = match self.answers.get(root) {
                    Some((code, message)) => (*code, message.as_ref()),
                    None => (Code::Ok, None),
                };
                if rest == "code" {
                    return said(code_name(code));
                }
                if let Some(message) = message {
                    let own = twin(message, "results", "key", scope.one);
                    values(own.as_ref().unwrap_or(message), rest, &mut hits);
                }
            }
            _ => {
                // A set that is remembered, or the value that it has for a key.
                let (set, of) = path.split_once('/').unwrap_or((path, ""));
                let key = self.values(of, scope).first().map(as_text);
                let memory = self.memory.lock();
                let all = memory.sets.get(set).into_iter().flatten();
                let meant = all.filter(|(own, _)| of.is_empty() || Some(*own) == key.as_ref());
                hits.extend(meant.map(|(_, value)| Value::String(value.clone())));
            }
        }
        hits
    }

    /// A text with its values.
    pub(super) fn filled(&self, text: &str, scope: Scope<'_>, is_message: bool) -> String {
        fill(text, is_message, &|path| self.values(path, scope))
    }

    /// True if a condition holds: `A = B`, `A != B`, `A > N`, `A in SET`, `A outside PREFIX`, `A`, `not A`; `#A` counts.
    pub(super) fn holds(&self, condition: &str, scope: Scope<'_>) -> bool {
        let values =
            |path: &str| -> Vec<String> { self.values(path, scope).iter().map(as_text).collect() };
        let is_set = |value: &String| !matches!(value.as_str(), "" | "0" | "false" | "UNSPECIFIED");
        let words: Vec<_> = condition.splitn(3, ' ').collect();
        match words.as_slice() {
            [path, "longer", most] => {
                let most = most.parse().unwrap_or(usize::MAX);
                values(path).iter().any(|one| one.len() > most)
            }
            [path, "has", part] => values(path).iter().any(|one| one.contains(part)),
            ["not", path] => !values(path).iter().any(is_set),
            [path, "=", other] => values(path).contains(&self.filled(other, scope, false)),
            [path, "!=", other] => !values(path).contains(&self.filled(other, scope, false)),
            [path, ">", number] => {
                let most: i64 = number.parse().unwrap_or(i64::MAX);
                values(path)
                    .iter()
                    .any(|one| one.parse().is_ok_and(|one: i64| one > most))
            }
            [path, "outside", prefix] => values(path).iter().any(|one| !one.starts_with(prefix)),
            [path, verb @ ("in" | "not-in"), set] => {
                let memory = |key: &String| {
                    let memory = self.memory.lock();
                    memory
                        .sets
                        .get(*set)
                        .is_some_and(|keys| keys.contains_key(key))
                };
                let keys = if path.contains('$') {
                    vec![self.filled(path, scope, false)]
                } else {
                    values(path)
                };
                keys.iter().any(memory) == (*verb == "in")
            }
            [path] => values(path).iter().any(is_set),
            _ => false,
        }
    }
}

/// The message in a list whose key is that of another message.
fn twin(
    message: &DynamicMessage,
    list: &str,
    key: &str,
    of: &DynamicMessage,
) -> Option<DynamicMessage> {
    let own = of.get_field_by_name("key")?;
    let all = message.get_field_by_name(list)?;
    let mut all = all.as_list()?.iter().filter_map(Value::as_message);
    let same = |one: &&DynamicMessage| one.get_field_by_name(key).as_deref() == Some(&*own);
    all.find(same).cloned()
}
