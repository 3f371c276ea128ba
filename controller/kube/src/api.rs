//! Requests to the API server: one function each, with a time limit and a closed error.
//!
//! [`Api`] stands over one client with its name and budget. The watches list and watch, the writers patch, the election
//! updates; all of them get an [`ApiError`], whose class decides what follows. With a fence ([`Api::fenced`]) a write is
//! refused here once its lease term is over, after the last wait and before the request leaves. Nothing is retried: that is
//! the caller's.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt};
use http::{Method, Request, Response, header, request};
use http_body_util::{BodyExt, Limited};
use kube::{Client, client::Body, core::Status};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::time::{sleep, timeout};

use super::{
    decode::{self, Item, ListReader, ObjectEvent},
    error::{ApiError, chain},
    patch::Patch,
};
use outrigger_core::repairs::ManagedFields;
use outrigger_runtime::fence::Fence;

/// How long the rest of an answer may take after its head, watches aside. The client bounds the time until then.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer that is one object, or an error: more than etcd holds. An endless one ends there.
const MAX_OBJECT: usize = 16 * 1024 * 1024;

/// How long the API server lets one watch last, in seconds.
const WATCH_SECONDS: &str = "290";

/// Objects in one page of a list. A Node is 14 kB of JSON: pages of 500 cost twice the memory of
/// pages of 100 and save nothing.
const PAGE: &str = "100";

const JSON: &str = "application/json";

/// Asks for objects without their managed fields, which are often the larger half of a Node. A server without the gate
/// `ManagedFieldsOptOut` (alpha in 1.38) ignores the parameter.
const ACCEPT_OBJECTS: &str = "application/json;drop=metadata.managedFields,application/json";

/// Asks for metadata alone: a Node is 14 kB, and after a write only its version is of interest, or only which Node it is.
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Requests under one client's name and budget.
#[derive(Clone)]
pub struct Api {
    client: Client,
    fence: Option<Fence>,
    /// The time limit of a request as a whole, its wait for the budget too, which the API server learns as well.
    limit: Option<Duration>,
}

/// Metadata of an object after a write, as far as a writer needs it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// Version of the object.
    pub resource_version: String,
}

/// An object, of which only the metadata is decoded.
#[derive(Deserialize)]
struct Partial<M> {
    metadata: M,
}

impl Api {
    /// Requests through `client`.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            fence: None,
            limit: None,
        }
    }

    /// The same requests, but writes only as long as `fence` is open.
    #[must_use]
    pub fn fenced(&self, fence: Fence) -> Self {
        Self {
            fence: Some(fence),
            ..self.clone()
        }
    }

    /// The same requests, each ended after `limit` on both sides: one that this process gave up must not be
    /// carried out much later.
    #[must_use]
    pub fn limited(self, limit: Duration) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }

    /// Waits before a write is sent again, no longer than calls may begin. Returns false without a wait if none may.
    pub(super) async fn pause(&self, wait: Duration) -> bool {
        let Some(fence) = &self.fence else {
            sleep(wait).await;
            return true;
        };
        if !fence.may_call() {
            return false;
        }
        tokio::select! {
            () = sleep(wait) => {}
            () = fence.stopped() => {}
        }
        true
    }

    /// The object at `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.object(empty(self.request(Method::GET, path, &[], JSON))?)
            .await
    }

    /// The metadata of the object at `path`, as far as `M` has it. The rest of a Node, which is 14 kB, is not sent.
    pub async fn metadata<M: DeserializeOwned>(&self, path: &str) -> Result<M, ApiError> {
        let request = self.request(Method::GET, path, &[], ACCEPT_METADATA);
        let Partial { metadata } = self.object(empty(request)?).await?;
        Ok(metadata)
    }

    /// The UID of the object at `path`.
    pub async fn uid(&self, path: &str) -> Result<Box<str>, ApiError> {
        #[derive(Deserialize)]
        struct Metadata {
            uid: Box<str>,
        }

        let Metadata { uid } = self.metadata(path).await?;
        Ok(uid)
    }

    /// The writers of the fields of the object at `path`.
    pub async fn managed_fields(&self, path: &str) -> Result<Vec<ManagedFields>, ApiError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            managed_fields: Vec<ManagedFields>,
        }

        let Metadata { managed_fields } = self.metadata(path).await?;
        Ok(managed_fields)
    }

    /// All objects at `path`, or those whose field has the value of `selector`: calls `each` with each object as it arrives,
    /// and returns the version that the list shows. An object that cannot be decoded is no error.
    pub async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        selector: Option<(&str, &str)>,
        mut each: impl FnMut(Item<T>),
    ) -> Result<String, ApiError> {
        let (selector, mut token) = (field_selector(selector), String::new());
        loop {
            let query = [
                ("fieldSelector", &*selector),
                ("limit", PAGE),
                ("continue", &token),
            ];
            let request = empty(self.request(Method::GET, path, &query, ACCEPT_OBJECTS))?;
            let read = async |response: Response<Body>| {
                let mut reader = ListReader::default();
                let mut body = response.into_body().into_data_stream();
                while let Some(bytes) = body.try_next().await? {
                    reader.read(&bytes, |object| each(Item::of(object)));
                }
                reader.end()
            };
            let meta = self.exchange(request, read).await?;
            token = meta.r#continue;
            if token.is_empty() {
                return Ok(meta.resource_version);
            }
        }
    }

    /// Changes at `path` after `version`, until the API server ends the watch, of the objects whose field has the value of
    /// `selector`; with an empty version the first events show the objects as they are. RBAC can allow the one of a
    /// `metadata.name` by its name. The watch is to be answered within `limit`. An object that cannot be decoded is in its
    /// event, and ends nothing.
    pub async fn watch<T: DeserializeOwned>(
        &self,
        path: &str,
        selector: Option<(&str, &str)>,
        version: &str,
        limit: Duration,
    ) -> Result<impl Stream<Item = Result<ObjectEvent<T>, ApiError>> + use<T>, ApiError> {
        let query = [
            ("fieldSelector", &*field_selector(selector)),
            ("resourceVersion", version),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", WATCH_SECONDS),
        ];
        let request = self.request(Method::GET, path, &query, ACCEPT_OBJECTS);
        // Kubernetes 1.37 compresses each event by itself, which is more than one gzip member.
        let request = empty(request.header(header::ACCEPT_ENCODING, "identity"))?;
        let response = within(limit, async { Ok(self.client.send(request).await?) }).await?;
        if !response.status().is_success() {
            return Err(refusal(response).await?);
        }
        let body = response.into_body().into_data_stream();
        let lines = body.map_err(io::Error::other).into_async_read().lines();
        Ok(lines.map(|line| match line {
            Ok(line) => decode::event(&line),
            Err(error) => Err(ApiError::Transport(format!(
                "the watch broke off, since its connection was lost or did not answer a ping: {}",
                chain(&error)
            ))),
        }))
    }

    /// Makes an object in the collection at `path`.
    pub async fn create<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &impl Serialize,
    ) -> Result<T, ApiError> {
        let request = self.request(Method::POST, path, &[], JSON);
        self.object(with_body(request, JSON, object)?).await
    }

    /// [`Self::create`] for a caller that needs nothing of the object as it is now.
    pub async fn create_unread(&self, path: &str, object: &impl Serialize) -> Result<(), ApiError> {
        let request = self.request(Method::POST, path, &[], ACCEPT_METADATA);
        let request = with_body(request, JSON, object)?;
        self.call(request).await.map(drop)
    }

    /// Replaces the object at `path`. If `object` has a resourceVersion, only that version
    /// is replaced; another one in the cluster gives 409.
    pub async fn update<T: DeserializeOwned>(
        &self,
        path: &str,
        object: &impl Serialize,
    ) -> Result<T, ApiError> {
        let request = self.request(Method::PUT, path, &[], JSON);
        self.object(with_body(request, JSON, object)?).await
    }

    /// Changes the object (or sub-resource) at `path`.
    pub async fn patch(&self, path: &str, patch: &Patch) -> Result<Written, ApiError> {
        // Our writes are made from types; strict decoding of every object would be work for nothing.
        let query = [("fieldValidation", "Ignore")];
        let request = self.request(Method::PATCH, path, &query, ACCEPT_METADATA);
        let request = with_body(request, patch.content_type(), patch)?;
        let Partial { metadata } = self.object(request).await?;
        Ok(metadata)
    }

    /// Deletes the object at `path` if it has this UID and this version; else the answer is 409.
    pub async fn delete(&self, path: &str, uid: &str, version: &str) -> Result<(), ApiError> {
        let options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
        });
        let request = self.request(Method::DELETE, path, &[], JSON);
        let request = with_body(request, JSON, &options)?;
        self.call(request).await.map(drop)
    }

    /// A request with the parameters in `query` that have a value, and with the time limit.
    fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        accept: &'static str,
    ) -> request::Builder {
        let start = path.len() + 1;
        let mut parameters = form_urlencoded::Serializer::for_suffix(format!("{path}?"), start);
        parameters.extend_pairs(query.iter().filter(|(_, value)| !value.is_empty()));
        if let Some(limit) = self.limit {
            parameters.append_pair("timeout", &format!("{}ms", limit.as_millis()));
        }
        Request::builder()
            .method(method)
            .uri(parameters.finish().trim_end_matches('?'))
            .header(header::ACCEPT, accept)
    }

    async fn object<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T, ApiError> {
        decode::object(&self.call(request).await?)
    }

    async fn call(&self, request: Request<Body>) -> Result<Bytes, ApiError> {
        self.exchange(request, whole).await
    }

    /// `read` reads the answer, if it is a success.
    async fn exchange<T>(
        &self,
        mut request: Request<Body>,
        read: impl AsyncFnOnce(Response<Body>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let fence = self.fence.as_ref();
        let fence = fence.filter(|_| request.method() != Method::GET);
        if fence.is_some_and(|fence| !fence.may_write()) {
            return Err(ApiError::Fenced);
        }
        // The client asks it once more, after the wait for its budget.
        if let Some(fence) = fence {
            request.extensions_mut().insert(fence.clone());
        }
        // On the heap: thousands of keys wait at a time for something else than the API server, and each of
        // their futures would keep room for this one, kilobytes large.
        let exchange = Box::pin(async {
            let response = self.client.send(request).await?;
            within(BODY_TIMEOUT, async {
                if response.status().is_success() {
                    read(response).await
                } else {
                    Err(refusal(response).await?)
                }
            })
            .await
        });
        match self.limit {
            Some(limit) => within(limit, exchange).await,
            None => exchange.await,
        }
    }
}

/// `fieldSelector` for objects whose field has this value; empty: all.
fn field_selector(selector: Option<(&str, &str)>) -> String {
    selector.map_or_else(String::new, |(field, value)| format!("{field}={value}"))
}

fn empty(request: request::Builder) -> Result<Request<Body>, ApiError> {
    let request = request.body(Body::empty());
    request.map_err(|error| ApiError::Transport(error.to_string()))
}

fn with_body(
    request: request::Builder,
    media_type: &'static str,
    body: &impl Serialize,
) -> Result<Request<Body>, ApiError> {
    let body = serde_json::to_vec(body).map_err(|error| ApiError::Decode(error.to_string()))?;
    let request = request.header(header::CONTENT_TYPE, media_type);
    let request = request.body(Body::from(body));
    request.map_err(|error| ApiError::Transport(error.to_string()))
}

async fn within<T>(
    limit: Duration,
    exchange: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let result = timeout(limit, exchange).await;
    result.unwrap_or(Err(ApiError::Timeout(limit)))
}

/// The whole body of an answer.
async fn whole(response: Response<Body>) -> Result<Bytes, ApiError> {
    let body = Limited::new(response.into_body(), MAX_OBJECT)
        .collect()
        .await;
    let body = body.map_err(|error| ApiError::Transport(chain(&*error)))?;
    Ok(body.to_bytes())
}

/// The error that an answer without success stands for.
async fn refusal(response: Response<Body>) -> Result<ApiError, ApiError> {
    let status = response.status();
    let retry_after = response
        .headers()
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let body = whole(response).await?;
    // The API server answers with a Status; what stands before it (a proxy, priority and fairness)
    // with a line of text.
    let parsed = serde_json::from_slice::<Status>(&body).ok();
    let parsed = parsed.filter(|status| status.code != 0);
    let status = parsed.unwrap_or_else(|| Status {
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
        ..Status::default()
    });
    Ok(ApiError::from_status(&status, retry_after))
}
