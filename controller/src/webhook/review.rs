//! The protocol of the API server: `AdmissionReview` of `admission.k8s.io/v1`, in and out (W-5, W-7).

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use super::AdmissionVerdict;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The API server cuts warnings and shows messages whole; a longer one is of no use to an operator.
const LONGEST_MESSAGE: usize = 1024;

/// The fields of a request that decide something.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AdmissionRequest {
    /// Names this request; it must be in the answer.
    pub(super) uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    operation: String,
    /// For the log; empty before the API server has generated it.
    #[serde(default)]
    pub(super) name: String,
    /// The object that is being made; none: one is deleted.
    #[serde(default)]
    pub(super) object: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    resource: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<AdmissionRequest>,
}

impl AdmissionRequest {
    /// P-20.
    pub(super) fn is_about_a_new_volume(&self) -> bool {
        let Resource { group, resource } = &self.resource;
        (&**group, &**resource) == ("", "persistentvolumes")
            && self.operation == "CREATE"
            && self.sub_resource.is_empty()
    }
}

/// Reads the body of a request.
///
/// # Errors
/// A sentence for the API server's log, in upstream's words where it has some.
pub(super) fn read(body: &[u8]) -> Result<AdmissionRequest, String> {
    if body.is_empty() {
        return Err("admission request HTTP body is empty".into());
    }
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| format!("could not deserialize incoming admission review: {error}"))?;
    if (&*review.api_version, &*review.kind) != (API_VERSION, KIND) {
        return Err(format!(
            "could not deserialize incoming admission review: it is {:?} of {:?}, not {KIND} of \
             {API_VERSION}",
            review.kind, review.api_version
        ));
    }
    let request = review
        .request
        .ok_or("admission review can't be used: Request field is nil")?;
    if request.uid.is_empty() {
        return Err("admission review can't be used: request.uid is empty".into());
    }
    Ok(request)
}

/// The body of the answer to the request `uid`.
///
/// # Errors
/// A patch that is no JSON.
pub(super) fn answer(uid: &str, verdict: &AdmissionVerdict) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = json!({"uid": uid, "allowed": true});
    match verdict {
        AdmissionVerdict::Admit(operations) if operations.is_empty() => {}
        AdmissionVerdict::Admit(operations) => {
            let patch = BASE64_STANDARD.encode(serde_json::to_vec(operations)?);
            response["patch"] = patch.into();
            response["patchType"] = "JSONPatch".into();
        }
        AdmissionVerdict::Refuse(message) => {
            let message = &message[..message.floor_char_boundary(LONGEST_MESSAGE)];
            response["allowed"] = false.into();
            response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
        }
    }
    let review = json!({"kind": KIND, "apiVersion": API_VERSION, "response": response});
    serde_json::to_vec(&review)
}

#[cfg(test)]
mod tests {
    use outrigger_kube::patch::Operation;
    use outrigger_runtime::fixture::near::{self, Edit};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn review(request: &Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "request": request})
    }

    /// The API server sends it so.
    fn request(object: &Value) -> Value {
        json!({
            "uid": "705ab4f5", "kind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
            "requestKind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
            "name": "disk", "operation": "CREATE", "userInfo": {"username": "admin"},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        })
    }

    #[test]
    fn a_request_as_the_api_server_sends_it_is_read() {
        let object = json!({"kind": "PersistentVolume", "metadata": {"name": "disk"}});
        let read = read(review(&request(&object)).to_string().as_bytes()).unwrap();
        assert_eq!(
            (&*read.uid, &*read.operation, &*read.sub_resource),
            ("705ab4f5", "CREATE", "")
        );
        assert_eq!(read.resource.resource, "persistentvolumes");
        let read: Value = serde_json::from_str(read.object.unwrap().get()).unwrap();
        assert_eq!(read, object);
    }

    /// W-5.
    #[test]
    fn a_body_that_is_no_review_is_refused_with_its_reason() {
        let wrong = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": KIND});
        let resource = json!({"resource": "persistentvolumes"});
        let without_uid = json!({"uid": "", "resource": resource, "operation": "CREATE"});
        for (body, expected) in [
            (String::new(), "HTTP body is empty"),
            (
                "{".into(),
                "could not deserialize incoming admission review",
            ),
            (
                "[]".into(),
                "could not deserialize incoming admission review",
            ),
            ("{}".into(), r#"it is "" of "", not AdmissionReview"#),
            (wrong.to_string(), "admission.k8s.io/v1beta1"),
            (review(&Value::Null).to_string(), "Request field is nil"),
            (review(&json!({})).to_string(), "missing field `uid`"),
            (review(&json!([])).to_string(), "could not deserialize"),
            (review(&without_uid).to_string(), "request.uid is empty"),
            ("[".repeat(100_000), "could not deserialize"),
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// W-7.
    #[test]
    fn answers_are_reviews_with_the_uid_of_the_request() {
        let answered = |verdict| -> Value {
            serde_json::from_slice(&answer("u-1", &verdict).unwrap()).unwrap()
        };
        let passed = answered(AdmissionVerdict::Admit(Vec::new()));
        let expected = json!({"uid": "u-1", "allowed": true});
        assert_eq!(
            passed,
            json!({"kind": KIND, "apiVersion": API_VERSION, "response": expected})
        );
        let patch = vec![Operation::Add {
            path: "/metadata/labels".into(),
            value: json!({}),
        }];
        let patched = answered(AdmissionVerdict::Admit(patch));
        assert_eq!(patched["response"]["patchType"], "JSONPatch");
        let patch = patched["response"]["patch"].as_str().unwrap();
        let patch: Value = serde_json::from_slice(&BASE64_STANDARD.decode(patch).unwrap()).unwrap();
        let expected = json!([{"op": "add", "path": "/metadata/labels", "value": {}}]);
        assert_eq!(patch, expected);
        let refused = answered(AdmissionVerdict::Refuse("no such disk".into()));
        let status = json!({"code": 403, "reason": "Forbidden", "message": "no such disk"});
        let expected = json!({"uid": "u-1", "allowed": false, "status": status});
        assert_eq!(refused["response"], expected);
        let long = answered(AdmissionVerdict::Refuse("ü".repeat(2_000)));
        let message = long["response"]["status"]["message"].as_str().unwrap();
        assert_eq!(message.len(), LONGEST_MESSAGE);
    }

    proptest! {
        /// A client of the port may send anything: it is an error, or a request that can be answered.
        #[test]
        fn no_body_is_fatal(edits in prop::collection::vec(any::<Edit>(), 0..6), message: String) {
            let seed = review(&request(&json!({"metadata": {"name": "disk"}})));
            let changed = near::value(&seed, &edits).to_string().into_bytes();
            for body in [near::bytes(seed.to_string().as_bytes(), &edits), changed] {
                let Ok(request) = read(&body) else {
                    continue;
                };
                prop_assert!(!request.uid.is_empty());
                let refused = AdmissionVerdict::Refuse(message.clone());
                let answered: Value = serde_json::from_slice(&answer(&request.uid, &refused).unwrap()).unwrap();
                prop_assert_eq!(&answered["response"]["uid"], &*request.uid);
            }
        }
    }
}
