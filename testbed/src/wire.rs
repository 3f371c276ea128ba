//! Single requests, without decoding the answer: load generators share their processors with what is measured.
//!
//! [`post`], [`patch`] and [`delete`] send one request each and repeat nothing; `what` names the object in errors.

use http::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::{Client, api::PartialObjectMeta};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Error, Result};

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Creates `object` at `path`; `what` names it in errors. Returns the answer's text.
pub async fn post(
    client: &Client,
    path: &str,
    object: &impl Serialize,
    what: &str,
) -> Result<String> {
    let kind = "application/json";
    send(client, (Method::POST, "create"), path, kind, object, what).await
}

/// The text at `path`.
pub async fn get(client: &Client, path: &str, what: &str) -> Result<String> {
    let request = Request::get(path).body(Vec::new());
    let read = async {
        client
            .request_text(request.map_err(kube::Error::HttpError)?)
            .await
    };
    read.await
        .map_err(Error::kube(format!("cannot read {what}")))
}

/// Changes the object at `path`: by a JSON patch where `change` is a list, else by a strategic merge. Returns its
/// resourceVersion.
pub async fn patch(client: &Client, path: &str, change: &Value, what: &str) -> Result<String> {
    let kind = if change.is_array() {
        "application/json-patch+json"
    } else {
        "application/strategic-merge-patch+json"
    };
    let answer = send(client, (Method::PATCH, "patch"), path, kind, change, what).await?;
    let answer: PartialObjectMeta = parse(&answer, what)?;
    Ok(answer.metadata.resource_version.unwrap_or_default())
}

/// Deletes the object at `path`. It may be missing.
pub async fn delete(client: &Client, path: &str, what: &str) -> Result<()> {
    let (method, kind) = ((Method::DELETE, "delete"), "application/json");
    match send(client, method, path, kind, &json!({}), what).await {
        Err(Error::Kube { source, .. }) if matches!(&*source, kube::Error::Api(status) if status.code == 404) => {
            Ok(())
        }
        deleted => deleted.map(drop),
    }
}

/// Decodes the answer about `what`.
pub fn parse<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(kube::Error::SerdeError)
        .map_err(Error::kube(format!("read the answer about {what}")))
}

async fn send(
    client: &Client,
    (method, verb): (Method, &str),
    path: &str,
    content_type: &str,
    body: &impl Serialize,
    what: &str,
) -> Result<String> {
    let sent = async {
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        // A writer needs no more of the object.
        let accept = match method {
            Method::PATCH => METADATA,
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, content_type)
            .body(body);
        let request = request.map_err(kube::Error::HttpError)?;
        client.request_text(request).await
    };
    sent.await
        .map_err(Error::kube(format!("cannot {verb} {what}")))
}
