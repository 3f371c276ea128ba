//! Answers without success, in the words of kube-apiserver.

use serde_json::{Value, json};

use super::resource::Resource;

/// A `metav1.Status` of a failure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Status {
    pub(super) code: u16,
    pub(super) body: Value,
}

/// A field that validation does not take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    field: String,
    reason: &'static str,
    message: String,
}

impl Cause {
    pub(super) fn new(
        field: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            field: field.into(),
            reason,
            message: message.into(),
        }
    }

    pub(super) fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {why}"))
    }

    pub(super) fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self::new(
            field,
            "FieldValueInvalid",
            format!("Invalid value: {value}: {why}"),
        )
    }

    pub(super) fn required(field: impl Into<String>, why: &str) -> Self {
        let message = match why {
            "" => "Required value".to_owned(),
            why => format!("Required value: {why}"),
        };
        Self::new(field, "FieldValueRequired", message)
    }
}

impl Status {
    fn new(code: u16, reason: &str, message: &str, details: Option<Value>) -> Self {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": code,
        });
        if !reason.is_empty() {
            body["reason"] = json!(reason);
        }
        if let Some(details) = details {
            body["details"] = details;
        }
        Self { code, body }
    }

    pub(super) fn without_details(code: u16, reason: &str, message: &str) -> Self {
        Self::new(code, reason, message, Some(json!({})))
    }

    pub(super) fn bad_request(message: &str) -> Self {
        Self::new(400, "BadRequest", message, None)
    }

    pub(super) fn internal(message: &str) -> Self {
        Self::new(500, "", message, None)
    }

    /// Something that the real one has, and this server leaves out.
    pub(super) fn left_out(what: &str) -> Self {
        let message = format!("the simulated API server has no {what}");
        Self::new(501, "NotImplemented", &message, None)
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(404, "NotFound", &message, Some(details(resource, name)))
    }

    pub(super) fn already_exists(resource: &Resource, name: &str, is_deleted: bool) -> Self {
        let state = if is_deleted {
            "object is being deleted: "
        } else {
            ""
        };
        let message = format!("{state}{} {name:?} already exists", resource.qualified());
        Self::new(
            409,
            "AlreadyExists",
            &message,
            Some(details(resource, name)),
        )
    }

    pub(super) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let resource_name = resource.qualified();
        let message = format!("Operation cannot be fulfilled on {resource_name} {name:?}: {why}");
        Self::new(409, "Conflict", &message, Some(details(resource, name)))
    }

    /// A precondition of a deletion, which names the kind where others name the resource.
    pub(super) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let kind = resource.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {why}");
        let mut details = details(resource, name);
        details["kind"] = json!(resource.kind);
        Self::new(409, "Conflict", &message, Some(details))
    }

    pub(super) fn patch_does_not_apply() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::without_details(422, "Invalid", message)
    }

    pub(super) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        let mut details = details(resource, name);
        details["kind"] = json!(resource.kind);
        Self::refused(&resource.qualified_kind(), name, details, causes)
    }

    /// A PUT of a kind that needs a resourceVersion, without one.
    pub(super) fn version_required(resource: &Resource, name: &str) -> Self {
        let why = "must be specified for an update";
        let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
        Self::refused(
            &resource.qualified(),
            name,
            details(resource, name),
            &[cause],
        )
    }

    fn refused(what: &str, name: &str, mut details: Value, causes: &[Cause]) -> Self {
        let texts: Vec<_> = causes
            .iter()
            .map(|c| format!("{}: {}", c.field, c.message))
            .collect();
        let text = match &*texts {
            [one] => one.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        details["causes"] = causes
            .iter()
            .map(|c| json!({"reason": c.reason, "message": c.message, "field": c.field}))
            .collect();
        let message = format!("{what} {name:?} is invalid: {text}");
        Self::new(422, "Invalid", &message, Some(details))
    }

    /// A refusal that is no matter of the object.
    pub(super) fn refusal(code: u16) -> Self {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            504 => (
                "Timeout",
                "Timeout: request did not complete within the allotted timeout",
            ),
            _ => (
                "InternalError",
                "Internal error occurred: etcdserver: leader changed",
            ),
        };
        Self::new(code, reason, message, None)
    }

    pub(super) fn expired(message: &str) -> Self {
        Self::new(410, "Expired", message, None)
    }

    /// A version that a watch cannot begin at.
    pub(super) fn too_old(version: u64, oldest: u64) -> Self {
        Self::expired(&format!("too old resource version: {version} ({oldest})"))
    }
}

fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"kind": resource.plural});
    if !name.is_empty() {
        details["name"] = json!(name);
    }
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    details
}
