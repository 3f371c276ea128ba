//! Requests to the API server: one function each, with a time limit and a closed error.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt};
use http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use kube::{
    Client,
    client::Body,
    core::{Status, WatchEvent},
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

use super::{
    decode::{self, Item},
    error::{Error, chain},
    refusals::Refusals,
};
use crate::fence::Fence;

/// How long one request may take in all, watches aside.
const CALL_TIMEOUT: Duration = Duration::from_secs(40);

/// Asks for metadata alone: a Node is 14 kB, and after a write only its version is of interest.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Requests under one client's name and budget.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Option<Fence>,
    refusals: Refusals,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub struct Page<T> {
    /// Where the list stands.
    pub metadata: ListMeta,
    /// The objects.
    #[serde(default = "Vec::new")]
    pub items: Vec<T>,
}

/// `metadata` of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListMeta {
    /// The version that the list shows.
    pub resource_version: String,
    /// Token of the next page; empty on the last.
    pub r#continue: String,
}

/// The API server's receipt for a write.
#[derive(Debug, Deserialize)]
pub struct Written {
    /// Metadata of the object as it is now.
    pub metadata: WrittenMeta,
}

/// The part of the metadata that a writer needs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenMeta {
    /// Version of the object after the write.
    pub resource_version: String,
}

/// Preconditions of a deletion.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.resourceVersion`.
    pub resource_version: &'a str,
}

/// How a PATCH is meant.
#[derive(Clone, Copy, Debug)]
pub enum PatchKind {
    /// RFC 6902, with `test` operations as preconditions.
    Json,
    /// Kubernetes' own, which knows the keys of lists.
    Strategic,
}

impl PatchKind {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl Api {
    /// Requests through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            fence: None,
            refusals: Refusals::default(),
        }
    }

    /// The same requests; writes that are not allowed are reported to `refusals`.
    #[must_use]
    pub fn telling(self, refusals: Refusals) -> Self {
        Self { refusals, ..self }
    }

    /// The same requests, but writes only as long as `fence` says yes.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            ..self.clone()
        }
    }

    /// The object at `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        decode::object(
            &self
                .call(Method::GET, path, "application/json", None)
                .await?,
        )
    }

    /// One page of at most `limit` objects at `path`, from `token` on. An object that cannot be
    /// decoded is one of the items and no error.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        limit: u32,
        token: &str,
    ) -> Result<Page<Item<T>>, Error> {
        // Base64, which holds characters that mean something in a query.
        let token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
        let path = format!("{path}?limit={limit}&continue={token}");
        decode::page(
            &self
                .call(Method::GET, &path, "application/json", None)
                .await?,
        )
    }

    /// Changes at `path` after `version`, until the API server ends the watch after `seconds`. An
    /// object that cannot be decoded is in its event, and ends nothing.
    pub async fn watch<T: DeserializeOwned>(
        &self,
        path: &str,
        version: &str,
        seconds: u32,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Item<T>>, Error>> + use<T>, Error> {
        self.open(format!("{path}?{}", watch_query(version, seconds)))
            .await
    }

    /// [`Self::watch`] of the one object `name`, which RBAC can allow by name. With an empty
    /// `version` the first event shows the object as it is, if it exists.
    pub async fn watch_named<T: DeserializeOwned>(
        &self,
        path: &str,
        name: &str,
        version: &str,
        seconds: u32,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Item<T>>, Error>> + use<T>, Error> {
        let query = watch_query(version, seconds);
        self.open(format!(
            "{path}?fieldSelector=metadata.name%3D{name}&{query}"
        ))
        .await
    }

    async fn open<T: DeserializeOwned>(
        &self,
        uri: String,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Item<T>>, Error>> + use<T>, Error> {
        let request = Request::get(uri)
            .header(header::ACCEPT, "application/json")
            // Kubernetes 1.37 compresses each event by itself, which is more than one gzip member.
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| Error::Transport(error.to_string()))?;
        let response = self.client.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await?);
        }
        let body = response.into_body().into_data_stream();
        let lines = body.map_err(io::Error::other).into_async_read().lines();
        Ok(lines.filter_map(async |line| match line {
            // A connection that is cut leaves half a line at most, which its newline would have ended.
            Ok(line) => match decode::event(&line) {
                Err(_) if serde_json::from_str::<IgnoredAny>(&line).is_err() => None,
                event => Some(event),
            },
            Err(error) if is_cut(&error) => None,
            Err(error) => Some(Err(Error::Transport(chain(&error)))),
        }))
    }

    /// Makes an object in the collection at `path`.
    pub async fn create<T: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        object: &T,
    ) -> Result<T, Error> {
        let body = Some(("application/json", encode(object)?));
        decode::object(
            &self
                .call(Method::POST, path, "application/json", body)
                .await?,
        )
    }

    /// Replaces the object at `path`. One that holds a resourceVersion replaces only that version:
    /// another gives 409.
    pub async fn update<T: Serialize + DeserializeOwned>(
        &self,
        path: &str,
        object: &T,
    ) -> Result<T, Error> {
        let body = Some(("application/json", encode(object)?));
        decode::object(
            &self
                .call(Method::PUT, path, "application/json", body)
                .await?,
        )
    }

    /// Changes the object (or sub-resource) at `path`; `patch` is the body.
    pub async fn patch(
        &self,
        path: &str,
        kind: PatchKind,
        patch: &impl Serialize,
    ) -> Result<Written, Error> {
        let body = Some((kind.content_type(), encode(patch)?));
        // Our writes are made from types; strict decoding of every object would be work for
        // nothing.
        let path = format!("{path}?fieldValidation=Ignore");
        decode::object(
            &self
                .call(Method::PATCH, &path, ACCEPT_METADATA, body)
                .await?,
        )
    }

    /// Deletes the object at `path` if it is what `preconditions` say; else the answer is 409.
    pub async fn delete(&self, path: &str, preconditions: Preconditions<'_>) -> Result<(), Error> {
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions,
        });
        let body = Some(("application/json", encode(&options)?));
        self.call(Method::DELETE, path, "application/json", body)
            .await
            .map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Bytes, Error> {
        let fence = self.fence.as_ref().filter(|_| method != Method::GET);
        if fence.is_some_and(|fence| !fence.may_write()) {
            return Err(Error::Fenced);
        }
        let mut request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(header::ACCEPT, accept);
        let body = match body {
            Some((kind, body)) => {
                request = request.header(header::CONTENT_TYPE, kind);
                body
            }
            None => Vec::new(),
        };
        let mut request = request
            .body(Body::from(body))
            .map_err(|error| Error::Transport(error.to_string()))?;
        // The client asks it once more, after the wait for its budget.
        if let Some(fence) = fence {
            request.extensions_mut().insert(fence.clone());
        }
        let exchange = async {
            let response = self.client.send(request).await?;
            read(response).await
        };
        let result = tokio::time::timeout(CALL_TIMEOUT, exchange)
            .await
            .unwrap_or(Err(Error::Timeout(CALL_TIMEOUT)));
        self.refusals.heard(&method, path, result.as_ref().err());
        result
    }
}

fn watch_query(version: &str, seconds: u32) -> String {
    format!(
        "watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={seconds}"
    )
}

/// Whether the connection was cut in the middle of a watch, as happens to each of them at some time.
fn is_cut(error: &io::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        cause = match io.and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    // hyper has no kind for it.
    error.to_string().contains("unexpected EOF during chunk")
}

async fn read(response: Response<Body>) -> Result<Bytes, Error> {
    if response.status().is_success() {
        return Ok(response.into_body().collect().await?.to_bytes());
    }
    Err(refusal(response).await?)
}

/// The error that an answer without success stands for.
async fn refusal(response: Response<Body>) -> Result<Error, Error> {
    let status = response.status();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = response.into_body().collect().await?.to_bytes();
    // The API server answers with a Status; what stands before it (a proxy, priority and fairness)
    // with a line of text.
    let parsed = serde_json::from_slice::<Status>(&body)
        .ok()
        .filter(|status| status.code != 0);
    Ok(match parsed.as_ref().map(Error::from_status) {
        Some(Error::Status {
            code,
            reason,
            message,
            retry_after: inner,
        }) => Error::Status {
            code,
            reason,
            message,
            retry_after: inner.or(retry_after),
        },
        _ => Error::Status {
            code: status.as_u16(),
            reason: status
                .canonical_reason()
                .unwrap_or_default()
                .replace(' ', ""),
            message: String::from_utf8_lossy(&body)
                .trim()
                .chars()
                .take(200)
                .collect(),
            retry_after,
        },
    })
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(body).map_err(|error| Error::Decode(error.to_string()))
}
