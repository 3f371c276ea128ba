//! Messages of the contract by the names of their fields.

use std::sync::LazyLock;

use outrigger_api::FILE_DESCRIPTOR_SET;
use outrigger_api::v1::ErrorReason;
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value,
};

use crate::faults::InjectedError;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap_or_default());

/// Which message of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Response,
}

/// The empty message of a method by its path; none, if it is none of the contract.
pub(crate) fn blank(path: &str, side: Side) -> Option<DynamicMessage> {
    let (service, name) = path.trim_start_matches('/').split_once('/')?;
    let service = POOL.get_service_by_name(service)?;
    let method = service.methods().find(|one| one.name() == name)?;
    Some(DynamicMessage::new(match side {
        Side::Request => method.input(),
        Side::Response => method.output(),
    }))
}

/// Puts the values at a path together: the parts of a path go into each message of a list.
pub(crate) fn values(message: &DynamicMessage, path: &str, hits: &mut Vec<Value>) {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(field) = message.get_field_of(name) else {
        return;
    };
    if field.supports_presence() && !message.has_field(&field) {
        return;
    }
    let mut each = |value: &Value| match value {
        Value::Message(inner) if !rest.is_empty() => values(inner, rest, hits),
        value => hits.push(named(value, &field)),
    };
    match &*message.get_field(&field) {
        Value::List(all) => all.iter().for_each(each),
        Value::Map(all) => all.values().for_each(each),
        one => each(one),
    }
}

/// An enum value by its name without the prefix of its type.
fn named(value: &Value, field: &FieldDescriptor) -> Value {
    let (Value::EnumNumber(number), Kind::Enum(kind)) = (value, field.kind()) else {
        return value.clone();
    };
    let zero = kind.default_value().name().to_owned();
    let prefix = zero.trim_end_matches("UNSPECIFIED");
    let name = kind.get_value(*number).map(|one| one.name().to_owned());
    let name = name.unwrap_or_else(|| number.to_string());
    Value::String(name.trim_start_matches(prefix).to_owned())
}

/// A value as text.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(value) => value.to_string(),
        Value::I32(number) => number.to_string(),
        Value::I64(number) => number.to_string(),
        Value::U32(number) => number.to_string(),
        Value::U64(number) => number.to_string(),
        _ => "{}".to_owned(),
    }
}

/// Does something with the field at a path, in each message that has it.
pub(crate) fn at(
    message: &mut DynamicMessage,
    path: &str,
    change: &mut dyn FnMut(&mut DynamicMessage, &FieldDescriptor),
) {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(field) = message.get_field_of(name) else {
        return;
    };
    if rest.is_empty() {
        change(message, &field);
    } else if message.has_field(&field) {
        match message.get_field_mut(&field) {
            Value::Message(inner) => at(inner, rest, change),
            Value::List(all) => {
                for one in all.iter_mut().filter_map(Value::as_message_mut) {
                    at(one, rest, change);
                }
            }
            _ => {}
        }
    }
}

trait FieldOf {
    fn get_field_of(&self, name: &str) -> Option<FieldDescriptor>;
}

impl FieldOf for DynamicMessage {
    fn get_field_of(&self, name: &str) -> Option<FieldDescriptor> {
        self.descriptor().get_field_by_name(name)
    }
}

/// The end of an element of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Stay,
    Leave,
    Twice,
}

/// Does something with each message at a path, a list or one alone.
pub(crate) fn each(
    message: &mut DynamicMessage,
    path: &str,
    change: &mut dyn FnMut(&mut DynamicMessage) -> Fate,
) {
    at(message, path, &mut |parent, field| {
        if !parent.has_field(field) {
            return;
        }
        match parent.get_field_mut(field) {
            Value::List(all) => {
                let mut twins = Vec::new();
                all.retain_mut(|one| {
                    let fate = one.as_message_mut().map_or(Fate::Stay, &mut *change);
                    if fate == Fate::Twice {
                        twins.push(one.clone());
                    }
                    fate != Fate::Leave
                });
                all.extend(twins);
            }
            one => {
                let fate = one.as_message_mut().map(&mut *change);
                if fate == Some(Fate::Leave) {
                    parent.clear_field(field);
                }
            }
        }
    });
}

/// Changes a message: `clear PATH`, `keep PATH TYPE`, `set TEXT`, `merge TEXT`, `truncate PATH N`, `reverse PATH`,
/// `each PATH EDIT`, `error REASON TEXT`, where a text is of the message in protobuf's text format.
pub(crate) fn edit(message: &mut DynamicMessage, edit: &str) -> Result<(), String> {
    let (verb, rest) = edit.split_once(' ').unwrap_or((edit, ""));
    match verb {
        "clear" => at(message, rest, &mut |parent, field| {
            parent.clear_field(field);
        }),
        "reverse" => at(message, rest, &mut |parent, field| {
            if let Value::List(all) = parent.get_field_mut(field) {
                all.reverse();
            }
        }),
        "keep" => {
            let (path, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            each(message, path, &mut |one| {
                let mut kinds = Vec::new();
                values(one, "type", &mut kinds);
                let is_kept = kinds.iter().any(|one| text(one) == kind);
                if is_kept { Fate::Stay } else { Fate::Leave }
            });
        }
        "truncate" => {
            let (path, most) = rest.split_once(' ').unwrap_or((rest, ""));
            let most = most.parse().unwrap_or_default();
            at(message, path, &mut |parent, field| {
                if let Value::List(all) = parent.get_field_mut(field) {
                    all.truncate(most);
                }
            });
        }
        "set" | "merge" => {
            let change = DynamicMessage::parse_text_format(message.descriptor(), rest);
            let change = change.map_err(|error| format!("{edit}: {error}"))?;
            if verb == "set" {
                for (field, _) in change.fields() {
                    message.clear_field(&field);
                }
            }
            let merged = message.merge(change.encode_to_vec().as_slice());
            merged.map_err(|error| error.to_string())?;
        }
        "each" => {
            let (path, edit) = rest.split_once(' ').unwrap_or((rest, ""));
            let mut made = Ok(());
            each(message, path, &mut |one| {
                made = self::edit(one, edit);
                Fate::Stay
            });
            return made;
        }
        "error" => {
            let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
            let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{name}"));
            let error = InjectedError::of(reason.unwrap_or_default(), text).to_item();
            at(message, "error", &mut |parent, field| {
                parent.clear_field(field);
                if let Value::Message(item) = parent.get_field_mut(field) {
                    // Both are a google.rpc.Status.
                    let _ = item.merge(error.encode_to_vec().as_slice());
                }
            });
        }
        _ => return Err(format!("{verb:?} is no change")),
    }
    Ok(())
}

/// A text with its values: `$(PATH)`, `$(PATH in text)` for messages, `$(PATH after TEXT)`, `$(PATH before TEXT)`, `$(N*TEXT)` and `$(PATH*TEXT)`, where `%`
/// stands for each value. In a message they are inside of quotes.
pub(crate) fn fill(text: &str, is_message: bool, values: &dyn Fn(&str) -> Vec<Value>) -> String {
    let mut parts = text.split("$(");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, rest) = part.split_once(')').unwrap_or((part, ""));
        let written = |text: String| {
            if is_message {
                let text = text.replace('\\', "\\\\").replace('"', "\\\"");
                text.replace('\n', "\\n")
            } else {
                text
            }
        };
        if let Some(path) = inside.strip_suffix(" in text") {
            let name = path.rsplit('.').next().unwrap_or_default();
            for one in values(path).iter().filter_map(Value::as_message) {
                filled.push_str(&[name, " { ", &one.to_text_format(), " } "].concat());
            }
        } else if let Some((of, text)) = inside.split_once('*') {
            match of.parse() {
                Ok(times) => filled.push_str(&text.repeat(times)),
                Err(_) => {
                    for value in values(of) {
                        filled.push_str(&text.replace('%', &self::text(&value)));
                    }
                }
            }
        } else {
            let (path, cut) = match (inside.split_once(" after "), inside.split_once(" before ")) {
                (Some((path, mark)), _) => (path, Some((mark, true))),
                (_, Some((path, mark))) => (path, Some((mark, false))),
                _ => (inside, None),
            };
            let first = values(path);
            let mut value = first.first().map(self::text).unwrap_or_default();
            if let Some((mark, is_after)) = cut
                && let Some((before, after)) = value.split_once(mark)
            {
                value = String::from(if is_after { after } else { before });
            }
            filled.push_str(&written(value));
        }
        filled.push_str(rest);
    }
    filled
}
