//! The three kinds of patches.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::{resource::Resource, status::Status};

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// `object` after the patch in `body`, which is of `media_type`.
///
/// # Errors
/// 400 for what is no patch, 415 for another media type, 422 for a JSON Patch that does not apply.
pub(super) fn apply(
    resource: &Resource,
    mut object: Value,
    media_type: &str,
    body: &[u8],
) -> Result<Value, Status> {
    match media_type {
        "application/json-patch+json" => {
            let Patch(operations) =
                serde_json::from_slice(body).map_err(|error| match error.classify() {
                    // An operation that there is not: the real one finds it when it gets there.
                    serde_json::error::Category::Data => Status::patch_does_not_apply(),
                    _ => undecodable(&error),
                })?;
            for operation in operations {
                step(&mut object, operation)?;
            }
        }
        "application/merge-patch+json" => {
            let patch = serde_json::from_slice(body).map_err(|error| undecodable(&error))?;
            json_patch::merge(&mut object, &patch);
        }
        "application/strategic-merge-patch+json" => {
            let patch: Map<_, _> =
                serde_json::from_slice(body).map_err(|error| undecodable(&error))?;
            if let Value::Object(fields) = &mut object {
                Strategic {
                    kind: resource.kind,
                }
                .merge(fields, &patch, "")?;
            }
        }
        _ => {
            let message = "415: Unsupported Media Type";
            return Err(Status::without_details(
                415,
                "UnsupportedMediaType",
                message,
            ));
        }
    }
    Ok(object)
}

fn undecodable(error: &serde_json::Error) -> Status {
    Status::bad_request(&format!("error decoding patch: {error}"))
}

/// One operation. A test of `null` holds where there is no such field, which is no part of RFC 6902.
fn step(object: &mut Value, operation: PatchOperation) -> Result<(), Status> {
    let is_done = match &operation {
        PatchOperation::Test(test) => {
            let value = test.path.resolve(object).ok().or_else(|| {
                let parent = test.path.parent()?.resolve(object).ok()?;
                parent.is_object().then_some(&Value::Null)
            });
            value == Some(&test.value)
        }
        PatchOperation::Add(_) | PatchOperation::Remove(_) => {
            json_patch::patch(object, &[operation]).is_ok()
        }
        _ => return Err(Status::left_out("JSON Patch except test, add and remove")),
    };
    is_done
        .then_some(())
        .ok_or_else(Status::patch_does_not_apply)
}

/// A strategic merge patch, after `strategicpatch` of `k8s.io/apimachinery`.
struct Strategic {
    kind: &'static str,
}

impl Strategic {
    /// The field that names the items of a list which is merged; empty for a list of texts. A list that is
    /// replaced has none.
    fn merge_key(&self, path: &str) -> Option<&'static str> {
        match (self.kind, path) {
            (_, "/metadata/finalizers") | ("Node", "/spec/podCIDRs") => Some(""),
            (_, "/metadata/ownerReferences") => Some("uid"),
            ("Node", "/status/conditions" | "/status/addresses")
            | ("Service", "/status/conditions") => Some("type"),
            ("Service", "/spec/ports") => Some("port"),
            _ => None,
        }
    }

    fn merge(
        &self,
        fields: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        path: &str,
    ) -> Result<(), Status> {
        match patch.get(DIRECTIVE).and_then(Value::as_str) {
            None => {}
            Some("replace") => {
                fields.clone_from(patch);
                fields.remove(DIRECTIVE);
                return Ok(());
            }
            Some("delete") => {
                fields.clear();
                return Ok(());
            }
            Some(other) => return Err(Status::left_out(&format!("directive $patch: {other}"))),
        }
        for (key, value) in patch {
            if let Some(name) = key.strip_prefix(ORDER) {
                self.ordered(fields, patch, name, value, &format!("{path}/{name}"))?;
            } else if let Some(name) = key.strip_prefix(DELETE_FROM) {
                if let (Some(Value::Array(items)), Value::Array(gone)) =
                    (fields.get_mut(name), value)
                {
                    items.retain(|item| !gone.contains(item));
                }
            } else if key.starts_with('$') {
                return Err(Status::left_out(&format!("directive {key}")));
            } else if !patch.contains_key(&format!("{ORDER}{key}")) {
                self.field(fields, key, value, &format!("{path}/{key}"))?;
            }
        }
        Ok(())
    }

    fn field(
        &self,
        fields: &mut Map<String, Value>,
        key: &str,
        patch: &Value,
        path: &str,
    ) -> Result<(), Status> {
        match (fields.get_mut(key), patch) {
            (_, Value::Null) => drop(fields.remove(key)),
            (Some(Value::Object(field)), Value::Object(patch)) => self.merge(field, patch, path)?,
            (Some(Value::Array(items)), Value::Array(patch)) if self.merge_key(path).is_some() => {
                let merged = self.list(items.clone(), patch, path)?;
                *items = merged;
            }
            _ => {
                if let Some(value) = without_directives(patch) {
                    fields.insert(key.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// A list with the order that `$setElementOrder` wants.
    fn ordered(
        &self,
        fields: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        name: &str,
        order: &Value,
        path: &str,
    ) -> Result<(), Status> {
        let key = self.merge_key(path).unwrap_or_default();
        let Value::Array(order) = order else {
            return Err(Status::bad_request(
                "invalid patch format of setElementOrder list",
            ));
        };
        let part = patch.get(name).and_then(Value::as_array);
        let mut rest = order.iter();
        let kept = part
            .into_iter()
            .flatten()
            .filter(|item| item.get(DIRECTIVE).is_none());
        for item in kept {
            if !rest.any(|next| id(next, key) == id(item, key)) {
                let message = format!(
                    "The order in patch list:\n{part:?}\n doesn't match $setElementOrder list:\n{order:?}\n"
                );
                return Err(Status::internal(&message));
            }
        }
        let before = fields.get(name).and_then(Value::as_array).cloned();
        let merged = match (&before, part) {
            (None, None) => return Ok(()),
            (Some(before), None) => before.clone(),
            (None, Some(part)) => part.iter().filter_map(without_directives).collect(),
            (Some(before), Some(part)) => self.list(before.clone(), part, path)?,
        };
        let items = sorted(merged, order, &before.unwrap_or_default(), key);
        fields.insert(name.to_owned(), items.into());
        Ok(())
    }

    /// `items` and those of `patch`, which come in their own order.
    fn list(
        &self,
        mut items: Vec<Value>,
        patch: &[Value],
        path: &str,
    ) -> Result<Vec<Value>, Status> {
        let key = self.merge_key(path).unwrap_or_default();
        let mut changes = Vec::new();
        let mut is_replaced = false;
        for change in patch {
            match change.get(DIRECTIVE).and_then(Value::as_str) {
                Some("delete") => items.retain(|item| id(item, key) != id(change, key)),
                Some("replace") => is_replaced = true,
                Some(other) => {
                    return Err(Status::left_out(&format!(
                        "directive $patch: {other} in a list"
                    )));
                }
                None => changes.push(change.clone()),
            }
        }
        if is_replaced {
            let items = changes.iter().filter_map(without_directives).collect();
            return Ok(sorted(items, &changes, &[], key));
        }
        let before = items.clone();
        for change in &changes {
            if !key.is_empty() && id(change, key).is_none() {
                return Err(Status::internal(&format!(
                    "map: {change} does not contain declared merge key: {key}"
                )));
            }
            match items
                .iter_mut()
                .find(|item| id(item, key) == id(change, key))
            {
                Some(Value::Object(item)) => {
                    if let Value::Object(change) = change {
                        self.merge(item, change, &format!("{path}/*"))?;
                    }
                }
                Some(_) => {}
                None => items.extend(without_directives(change)),
            }
        }
        Ok(sorted(items, &changes, &before, key))
    }
}

/// The identity of an item of a list that is merged.
fn id<'a>(item: &'a Value, key: &str) -> Option<&'a Value> {
    match key {
        "" => Some(item),
        key => item.get(key),
    }
}

/// Items that `order` names in its order, among the others, which keep that of `before`.
fn sorted(items: Vec<Value>, order: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let place =
        |item: &Value, of: &[Value]| of.iter().position(|other| id(other, key) == id(item, key));
    let (mut ours, mut others): (Vec<_>, Vec<_>) = items
        .into_iter()
        .partition(|item| place(item, order).is_some());
    ours.sort_by_key(|item| place(item, order));
    others.sort_by_key(|item| place(item, before));
    let mut merged = Vec::new();
    let (mut ours, mut others) = (ours.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(one), Some(other)) = (ours.peek(), others.peek()) {
        let other_first = match (place(other, before), place(one, before)) {
            (Some(other), Some(one)) => other < one,
            _ => false,
        };
        merged.extend(if other_first {
            others.next()
        } else {
            ours.next()
        });
    }
    merged.extend(ours);
    merged.extend(others);
    merged
}

/// A new value, without what would delete something from an old one.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields =
                fields.filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)));
            Some(Value::Object(fields.collect()))
        }
        Value::Array(items) => Some(items.iter().filter_map(without_directives).collect()),
        other => Some(other.clone()),
    }
}
