//! Single requests, without decoding the answer: load generators share their processors with what
//! is measured.

use http::{Method, Request, header::CONTENT_TYPE};
use kube::Client;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Error, Result};

/// Creates `object` at `path`; `what` names it in errors. Returns the answer's text.
pub(crate) async fn post(
    client: &Client,
    path: &str,
    object: &impl Serialize,
    what: &str,
) -> Result<String> {
    let body = json(object, what)?;
    send(
        client,
        Method::POST,
        path,
        "application/json",
        body,
        "create",
        what,
    )
    .await
}

pub(crate) async fn json_patch(
    client: &Client,
    path: &str,
    change: &impl Serialize,
    what: &str,
) -> Result<()> {
    let body = json(change, what)?;
    let kind = "application/json-patch+json";
    send(client, Method::PATCH, path, kind, body, "patch", what)
        .await
        .map(drop)
}

pub(crate) async fn strategic_merge(
    client: &Client,
    path: &str,
    change: &impl Serialize,
    what: &str,
) -> Result<()> {
    let body = json(change, what)?;
    let kind = "application/strategic-merge-patch+json";
    send(client, Method::PATCH, path, kind, body, "patch", what)
        .await
        .map(drop)
}

pub(crate) async fn delete(client: &Client, path: &str, what: &str) -> Result<()> {
    let kind = "application/json";
    send(
        client,
        Method::DELETE,
        path,
        kind,
        Vec::new(),
        "delete",
        what,
    )
    .await
    .map(drop)
}

pub(crate) fn parse<T: DeserializeOwned>(text: &str, what: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(kube::Error::SerdeError)
        .map_err(Error::kube(format!("read the answer about {what}")))
}

fn json(object: &impl Serialize, what: &str) -> Result<Vec<u8>> {
    serde_json::to_vec(object)
        .map_err(kube::Error::SerdeError)
        .map_err(Error::kube(format!("serialise {what}")))
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
    verb: &str,
    what: &str,
) -> Result<String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .body(body)
        .map_err(kube::Error::HttpError);
    let answer = match request {
        Ok(request) => client.request_text(request).await,
        Err(error) => Err(error),
    };
    answer.map_err(Error::kube(format!("cannot {verb} {what}")))
}
