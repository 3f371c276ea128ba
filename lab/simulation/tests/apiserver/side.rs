//! One of the two API servers, and its answers without what must differ.

use std::collections::BTreeMap;

use futures::{AsyncReadExt, TryStreamExt};
use http::{Method, header};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

/// A request to both.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) method: Method,
    /// With its query. In it and in the body `{uid}`, `{version}`, `{old}` and `{start}` stand for what the server
    /// itself gave: UID and newest version of the object, its version before that, and the version that all began at.
    pub(crate) path: String,
    pub(crate) media_type: &'static str,
    pub(crate) is_partial: bool,
    pub(crate) body: String,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";

const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

impl Step {
    pub(crate) fn new(
        method: Method,
        path: impl Into<String>,
        media_type: &'static str,
        body: &Value,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            media_type,
            is_partial: false,
            body: if body.is_null() {
                String::new()
            } else {
                body.to_string()
            },
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, JSON, &Value::Null)
    }

    pub(crate) fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path, JSON, body)
    }

    pub(crate) fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path, JSON, body)
    }

    pub(crate) fn patch(path: impl Into<String>, media_type: &'static str, body: &Value) -> Self {
        Self::new(Method::PATCH, path, media_type, body)
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, JSON, &Value::Null)
    }

    pub(crate) fn delete_if(path: impl Into<String>, preconditions: &Value) -> Self {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        Self::new(Method::DELETE, path, JSON, &options)
    }

    pub(crate) fn partial(self) -> Self {
        Self {
            is_partial: true,
            ..self
        }
    }
}

/// UID and versions that a server gave one object.
#[derive(Clone, Default)]
struct Given {
    uid: String,
    versions: Vec<String>,
}

pub(crate) struct Side {
    client: Client,
    start: String,
    given: BTreeMap<String, Given>,
    /// Values that the server chose, and the word for each.
    words: BTreeMap<String, String>,
    newest: u64,
    continue_token: String,
}

impl Side {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            start: String::new(),
            given: BTreeMap::new(),
            words: BTreeMap::new(),
            newest: 0,
            continue_token: String::new(),
        }
    }

    /// Begins again: words are forgotten.
    pub(crate) async fn begin(&mut self) {
        *self = Self::new(self.client.clone());
        let (_, list) = self.exchange(&Step::get("/api/v1/nodes?limit=1")).await;
        let version = list["metadata"]["resourceVersion"].as_str();
        version.unwrap().clone_into(&mut self.start);
    }

    /// Status and answer.
    pub(crate) async fn send(&mut self, step: &Step) -> (u16, Value) {
        let (code, mut answer) = self.exchange(step).await;
        self.normalize(&mut answer);
        (code, answer)
    }

    /// The lines of a watch until it ends, as they are.
    pub(crate) async fn watch(&self, path: &str) -> Vec<Value> {
        let request = self.request(&Step::get(path));
        let response = self.client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().into_data_stream();
        let mut text = String::new();
        let mut reader = body.map_err(std::io::Error::other).into_async_read();
        reader.read_to_string(&mut text).await.unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    async fn exchange(&mut self, step: &Step) -> (u16, Value) {
        let request = self.request(step);
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value =
            serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {body:?}"));
        let (metadata, path) = (&answer["metadata"], object_of(&step.path, &answer));
        if let (Some(version), Some(uid)) = (
            metadata["resourceVersion"].as_str(),
            metadata["uid"].as_str(),
        ) {
            let given = self.given.entry(path).or_default();
            if given.uid != uid {
                *given = Given::default();
                uid.clone_into(&mut given.uid);
            }
            if given.versions.last().is_none_or(|last| last != version) {
                given.versions.push(version.to_owned());
            }
        }
        if let Some(token) = metadata["continue"].as_str() {
            token.clone_into(&mut self.continue_token);
        }
        (code, answer)
    }

    fn request(&self, step: &Step) -> http::Request<Body> {
        let path = step
            .path
            .split(['?'])
            .next()
            .unwrap()
            .trim_end_matches("/status")
            .trim_end_matches("/approval");
        let given = self.given.get(path).cloned().unwrap_or_default();
        let mut versions = given.versions.iter().rev();
        let newest = versions.next().map_or("1", |version| version);
        let old = versions.next().map_or("1", |version| version);
        let fill = |text: &str| {
            text.replace("{uid}", &given.uid)
                .replace("{version}", newest)
                .replace("{old}", old)
                .replace("{start}", &self.start)
                .replace("{continue}", &self.continue_token)
        };
        let mut request = http::Request::builder()
            .method(step.method.clone())
            .uri(fill(&step.path))
            .header(
                header::ACCEPT,
                if step.is_partial { METADATA } else { JSON },
            );
        if !step.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, step.media_type);
        }
        request
            .body(Body::from(fill(&step.body).into_bytes()))
            .unwrap()
    }

    /// Replaces what a server chooses by words that follow the order of their first use, so that the same choice twice
    /// is the same word twice.
    pub(crate) fn normalize(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("managedFields");
                if fields.contains_key("signerName") {
                    // The name of the client, which is a matter of authentication.
                    for field in ["username", "uid", "groups", "extra"] {
                        fields.remove(field);
                    }
                }
                if fields.contains_key("lastUpdateTime") {
                    for field in ["lastUpdateTime", "lastTransitionTime"] {
                        if let Some(time) = fields.get_mut(field) {
                            *time = json!("time");
                        }
                    }
                }
                if let Some(token) = fields.get_mut("continue") {
                    *token = json!("continue");
                }
                let is_list = fields.contains_key("items");
                if is_list && let Some(metadata) = fields.get_mut("metadata") {
                    self.list_metadata(metadata);
                }
                if fields.get("type").is_some_and(|kind| kind == "BOOKMARK") {
                    self.list_metadata(&mut fields["object"]["metadata"]);
                }
                for (key, field) in fields.iter_mut() {
                    match &**key {
                        "uid" | "clusterIP" | "nodePort" | "healthCheckNodePort" => {
                            self.word(key, field);
                        }
                        "resourceVersion" if field != "list" => self.version(field),
                        "creationTimestamp" | "deletionTimestamp" | "lastPhaseTransitionTime" => {
                            *field = json!("time");
                        }
                        "clusterIPs" => {
                            for ip in field.as_array_mut().into_iter().flatten() {
                                self.word("clusterIP", ip);
                            }
                        }
                        "causes" => {
                            in_order(field);
                            self.normalize(field);
                        }
                        "message" => self.message(field),
                        _ => self.normalize(field),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.normalize(item)),
            _ => {}
        }
    }

    /// Other writers move the version of the real server along, so it may only not be old.
    fn list_metadata(&mut self, metadata: &mut Value) {
        let version = metadata["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap();
        assert!(
            version >= self.newest,
            "{version} is older than {}",
            self.newest
        );
        metadata["resourceVersion"] = json!("list");
    }

    fn version(&mut self, field: &mut Value) {
        let number = field.as_str().unwrap().parse::<u64>().unwrap();
        self.newest = self.newest.max(number);
        self.word("version", field);
    }

    fn word(&mut self, kind: &str, field: &mut Value) {
        // Values that were asked for.
        if matches!(field.as_str(), Some("u" | ""))
            || field.as_str().is_some_and(|s| s.starts_with("fixed"))
        {
            return;
        }
        let count = self
            .words
            .values()
            .filter(|word| word.starts_with(kind))
            .count();
        let word = self.words.entry(format!("{kind} {field}"));
        *field = json!(word.or_insert_with(|| format!("{kind}-{count}")));
    }

    /// Messages quote what a server chose.
    fn message(&self, message: &mut Value) {
        let Some(text) = message.as_str() else {
            return;
        };
        let mut text = text.to_owned();
        for (key, given) in &self.given {
            if !given.uid.is_empty() {
                text = text.replace(&given.uid, &format!("uid of {key}"));
            }
        }
        // Words of Go's parser, and of its internal types.
        for (begin, end) in [
            ("error decoding patch: ", ""),
            ("parse error: ", ""),
            ("Invalid value: {", ": field"),
            // The causes have it.
            ("is invalid: [", ""),
        ] {
            if let Some((before, after)) = text.split_once(begin) {
                let rest = after
                    .split_once(end)
                    .filter(|_| !end.is_empty())
                    .map_or("", |(_, rest)| rest);
                text = format!("{before}{begin}…{rest}");
            }
        }
        let numbers = |c: char| c.is_ascii_digit();
        let quotes = ["ResourceVersion in the precondition", "too old resource"];
        let is_port = |text: &str| text.parse::<u16>().is_ok();
        let quotes_port = text.contains("nodePort: Duplicate value: ")
            || text.strip_prefix("Duplicate value: ").is_some_and(is_port);
        if quotes_port || quotes.iter().any(|quote| text.contains(quote)) {
            text = text
                .split_inclusive(numbers)
                .map(|part| part.trim_end_matches(numbers))
                .collect();
        }
        *message = json!(text);
    }
}

/// The real one names some causes twice, and has an order of its own.
fn in_order(causes: &mut Value) {
    if let Value::Array(causes) = causes {
        causes.sort_by_key(ToString::to_string);
        causes.dedup();
    }
}

fn object_of(path: &str, answer: &Value) -> String {
    let path = path
        .split(['?'])
        .next()
        .unwrap()
        .trim_end_matches("/status")
        .trim_end_matches("/approval");
    let name = answer["metadata"]["name"].as_str().unwrap_or_default();
    if path.ends_with(&format!("/{name}")) {
        path.to_owned()
    } else {
        format!("{path}/{name}")
    }
}
