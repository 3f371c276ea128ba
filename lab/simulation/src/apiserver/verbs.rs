//! Each request: its effect on the objects, and its answer.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    patch,
    resource::{CERTIFICATE_REQUEST, LEASE, NAMESPACES, Resource, Target, Verb},
    rules,
    service::{self, Allocator},
    shape::{self, list, text},
    status::{Cause, Status},
    store::{Change, Store},
};

/// A request to an object or a collection, watches aside.
pub(super) struct Call<'a> {
    pub(super) verb: Verb,
    pub(super) target: Target,
    /// Its query, in pairs.
    pub(super) query: &'a [(String, String)],
    pub(super) media_type: &'a str,
    pub(super) body: &'a [u8],
    /// An old version that is to be read instead of the newest.
    pub(super) past: Option<u64>,
}

/// The answer, with what it changed.
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Value,
    pub(super) change: Option<Arc<Change>>,
}

impl Answer {
    const fn ok(body: Value) -> Self {
        Self {
            code: 200,
            body,
            change: None,
        }
    }
}

/// Objects, chance and time.
pub(super) struct Registry<'a> {
    pub(super) store: &'a mut Store,
    pub(super) rng: &'a mut Rng,
    pub(super) now: Timestamp,
}

impl Registry<'_> {
    pub(super) fn answer(&mut self, call: &Call<'_>) -> Result<Answer, Status> {
        match call.verb {
            Verb::Get => self.get(call),
            Verb::List | Verb::Watch => self.list(call),
            Verb::Create => self.create(call.target.clone(), decode(call)?),
            Verb::Update => self.update(call),
            Verb::Patch => self.patch(call),
            Verb::Delete => self.delete(call),
        }
    }

    fn get(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let Target { resource, name, .. } = &call.target;
        let past = call
            .past
            .and_then(|version| self.store.at(resource.plural, version));
        let object = match &past {
            Some(objects) => objects.get(&(resource.plural, call.target.key())),
            None => self.store.get(&call.target),
        };
        let object = object.ok_or_else(|| Status::not_found(resource, name))?;
        Ok(Answer::ok(Value::clone(object)))
    }

    fn list(&self, call: &Call<'_>) -> Result<Answer, Status> {
        let Target {
            resource,
            namespace,
            ..
        } = &call.target;
        let selected = selected(resource, call.query)?;
        let token = Token::of(query(call.query, "continue"))?;
        let now = call.past.unwrap_or(self.store.version());
        let version = token
            .as_ref()
            .and_then(|token| token.version)
            .unwrap_or(now);
        let after = token.map(|token| token.after);
        let objects = self.store.at(resource.plural, version).ok_or_else(|| {
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new \
                 list without the continue parameter, or use the continue token in this response to retrieve the \
                 remainder of the results. Continuing with the provided token results in an inconsistent list - \
                 objects that were created, modified, or deleted between the time the first chunk was returned and \
                 now may show up in the list.",
            );
            let next = Token::write(None, after.as_deref().unwrap_or_default());
            status.body["metadata"]["continue"] = json!(next);
            status
        })?;
        let mut objects = objects.into_iter().filter(|((_, key), object)| {
            after.as_ref().is_none_or(|after| key > after)
                && (namespace.is_empty() || text(object, "/metadata/namespace") == namespace)
                && selected.is_none_or(|(field, value)| text(object, field) == value)
        });
        let limit = query(call.query, "limit").parse().unwrap_or(0);
        let page: Vec<_> = match limit {
            0 => objects.by_ref().collect(),
            limit => objects.by_ref().take(limit).collect(),
        };
        let mut metadata = json!({"resourceVersion": version.to_string()});
        let rest = objects.count();
        if let (Some(((_, last), _)), true) = (page.last(), rest > 0) {
            metadata["continue"] = json!(Token::write(Some(version), last));
            if selected.is_none() {
                metadata["remainingItemCount"] = json!(rest);
            }
        }
        let items = page.into_iter().map(|(_, object)| {
            let mut item = Value::clone(&object);
            if let Some(item) = item.as_object_mut() {
                // The list has them.
                item.remove("kind");
                item.remove("apiVersion");
            }
            item
        });
        Ok(Answer::ok(json!({
            "kind": format!("{}List", resource.kind), "apiVersion": resource.api_version(),
            "metadata": metadata, "items": items.collect::<Value>(),
        })))
    }

    fn create(&mut self, mut target: Target, mut object: Value) -> Result<Answer, Status> {
        let resource = target.resource;
        if !text(&object, "/metadata/resourceVersion").is_empty() && target.name.is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::internal(message));
        }
        if resource.is_namespaced {
            let namespace = Target {
                resource: &NAMESPACES,
                namespace: String::new(),
                name: target.namespace.clone(),
                is_status: false,
            };
            if self.store.get(&namespace).is_none() {
                return Err(Status::not_found(&NAMESPACES, &target.namespace));
            }
        }
        target.name = text(&object, "/metadata/name").to_owned();
        if target.name.is_empty() {
            let cause = Cause::required("metadata.name", "name or generateName is required");
            return Err(Status::invalid(resource, "", &[cause]));
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for field in [
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "generation",
                "managedFields",
            ] {
                metadata.remove(field);
            }
            metadata.insert("uid".to_owned(), json!(self.uid()));
            metadata.insert(
                "creationTimestamp".to_owned(),
                json!(rules::seconds(self.now)),
            );
        }
        rules::prepare_new(resource.kind, &mut object, self.now);
        if resource.kind == "Service" {
            self.allocator().allocate(&mut object, None);
        }
        let causes = rules::causes(&target, &object, None);
        if !causes.is_empty() {
            return Err(Status::invalid(resource, &target.name, &causes));
        }
        if let Some(there) = self.store.get(&target) {
            let is_deleted = !text(there, "/metadata/deletionTimestamp").is_empty();
            return Err(Status::already_exists(resource, &target.name, is_deleted));
        }
        Ok(Answer {
            code: 201,
            ..self.put(&target, object)
        })
    }

    /// The controller puts Leases alone.
    fn update(&mut self, call: &Call<'_>) -> Result<Answer, Status> {
        let Target { resource, name, .. } = &call.target;
        if resource.kind != LEASE {
            return Err(Status::left_out("PUT of another kind than Lease"));
        }
        let new = decode(call)?;
        let old = self.store.get(&call.target).cloned();
        let uid = text(&new, "/metadata/uid");
        let is = old.as_deref().map_or("", |old| text(old, "/metadata/uid"));
        if !uid.is_empty() && uid != is {
            let key = format!("/registry/leases/{}", call.target.key());
            return Err(Status::conflict(
                resource,
                name,
                &format!(
                    "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                     Precondition failed: UID in precondition: {uid}, UID in object meta: {is}"
                ),
            ));
        }
        match old {
            Some(old) => self.replace(&call.target, new, &old),
            None => self.create(call.target.clone(), new),
        }
    }

    fn patch(&mut self, call: &Call<'_>) -> Result<Answer, Status> {
        let Target { resource, name, .. } = &call.target;
        let old = self.store.get(&call.target).cloned();
        let old = old.ok_or_else(|| Status::not_found(resource, name))?;
        let new = patch::apply(resource, Value::clone(&old), call.media_type, call.body)?;
        let new = read(resource, new)?;
        check_place(&call.target, &new)?;
        self.replace(&call.target, new, &old)
    }

    /// Replaces `old`, or deletes it if it waited for the finalizers that `new` has no more.
    fn replace(
        &mut self,
        target: &Target,
        mut new: Value,
        old: &Arc<Value>,
    ) -> Result<Answer, Status> {
        let resource = target.resource;
        let is_version = text(old, "/metadata/resourceVersion");
        match text(&new, "/metadata/resourceVersion") {
            "" if resource.kind == LEASE => {
                return Err(Status::version_required(resource, &target.name));
            }
            "" => {}
            version if version != is_version => {
                return Err(Status::modified(resource, &target.name));
            }
            _ => {}
        }
        new["metadata"]["resourceVersion"] = json!(is_version);
        if text(&new, "/metadata/uid").is_empty() {
            shape::copy(old, &mut new, "/metadata", "uid");
        }
        if resource.kind == "Service" && !target.is_status {
            self.allocator().allocate(&mut new, Some(old));
        }
        rules::prepare(target, &mut new, old, self.now);
        let causes = rules::causes(target, &new, Some(old));
        if !causes.is_empty() {
            return Err(Status::invalid(resource, &target.name, &causes));
        }
        let waits = !text(old, "/metadata/deletionTimestamp").is_empty();
        if waits && list(&new, "/metadata/finalizers").is_empty() {
            let change = self.store.put(target, None);
            return Ok(Answer {
                change: Some(change),
                ..Answer::ok(new)
            });
        }
        if new == **old {
            return Ok(Answer::ok(new));
        }
        Ok(self.put(target, new))
    }

    fn delete(&mut self, call: &Call<'_>) -> Result<Answer, Status> {
        let Target { resource, name, .. } = &call.target;
        let old = self.store.get(&call.target).cloned();
        let old = old.ok_or_else(|| Status::not_found(resource, name))?;
        let options: Value = match call.body {
            [] => Value::Null,
            body => serde_json::from_slice(body)
                .map_err(|error| Status::bad_request(&error.to_string()))?,
        };
        for (field, what, why) in [
            (
                "uid",
                "UID",
                "The object might have been deleted and then recreated",
            ),
            (
                "resourceVersion",
                "ResourceVersion",
                "The object might have been modified",
            ),
        ] {
            let (is, presumed) = (&old["metadata"][field], &options["preconditions"][field]);
            if let (Some(is), Some(presumed)) = (is.as_str(), presumed.as_str())
                && is != presumed
            {
                let why = format!(
                    "the {what} in the precondition ({presumed}) does not match the {what} in record ({is}). {why}"
                );
                return Err(Status::precondition(resource, name, &why));
            }
        }
        if !list(&old, "/metadata/finalizers").is_empty() {
            if !text(&old, "/metadata/deletionTimestamp").is_empty() {
                return Ok(Answer::ok(Value::clone(&old)));
            }
            let mut new = Value::clone(&old);
            new["metadata"]["deletionTimestamp"] = json!(rules::seconds(self.now));
            new["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            return Ok(self.put(&call.target, new));
        }
        let change = self.store.put(&call.target, None);
        let body = if resource.returns_deleted() {
            change.event().1
        } else {
            deleted(resource, name, &old)
        };
        Ok(Answer {
            change: Some(change),
            ..Answer::ok(body)
        })
    }

    fn put(&mut self, target: &Target, object: Value) -> Answer {
        let change = self.store.put(target, Some(object));
        let body = change.after.as_deref().cloned().unwrap_or_default();
        Answer {
            change: Some(change),
            ..Answer::ok(body)
        }
    }

    fn allocator(&mut self) -> Allocator<'_> {
        Allocator {
            store: self.store,
            rng: self.rng,
        }
    }

    fn uid(&mut self) -> String {
        let (a, b, c, d) = (
            self.rng.u32(..),
            self.rng.u16(..),
            self.rng.u16(..),
            self.rng.u64(..),
        );
        let (version, variant) = (0x4000 | c & 0xfff, 0x8000 | d >> 48 & 0x3fff);
        format!(
            "{a:08x}-{b:04x}-{version:04x}-{variant:04x}-{:012x}",
            d & 0xffff_ffff_ffff
        )
    }
}

/// The object in the body of `call`, in the form that it is kept in.
fn decode(call: &Call<'_>) -> Result<Value, Status> {
    let Target {
        resource,
        namespace,
        ..
    } = &call.target;
    let kind = resource.kind;
    let object: Value = serde_json::from_slice(call.body).map_err(|error| {
        Status::bad_request(&format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse \
             error: {error}"
        ))
    })?;
    let other = text(&object, "/kind");
    if !other.is_empty() && other != kind {
        return Err(Status::bad_request(&format!(
            "{other} in version \"v1\" cannot be handled as a {kind}: converting (v1.{other}) to (core.{kind}): \
             unknown conversion"
        )));
    }
    let mut object = read(resource, object)?;
    check_place(&call.target, &object)?;
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    Ok(object)
}

/// An object has the place that the URL names.
fn check_place(target: &Target, object: &Value) -> Result<(), Status> {
    let (name, namespace) = (
        text(object, "/metadata/name"),
        text(object, "/metadata/namespace"),
    );
    if !target.name.is_empty() && name != target.name {
        let message = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        );
        return Err(Status::bad_request(&message));
    }
    if !namespace.is_empty() && namespace != target.namespace {
        let message =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// An object as it is decoded, with what decoding fills in.
fn read(resource: &Resource, mut object: Value) -> Result<Value, Status> {
    if let (Some(Value::Object(metadata)), LEASE) = (object.get_mut("spec"), resource.kind) {
        micro_times(metadata)?;
    }
    if resource.kind == "Service" {
        service::check_is_known(&object)?;
    }
    shape::apply(resource, &mut object);
    rules::defaults(resource.kind, &mut object);
    Ok(object)
}

/// Go reads a `MicroTime` only with its six decimals.
fn micro_times(spec: &Map<String, Value>) -> Result<(), Status> {
    for field in ["acquireTime", "renewTime"] {
        let text = spec.get(field).and_then(Value::as_str).unwrap_or_default();
        let decimals = text
            .split_once('.')
            .map(|(_, rest)| rest.trim_end_matches('Z').len());
        if !text.is_empty() && decimals != Some(6) {
            let layout = "2006-01-02T15:04:05.000000Z07:00";
            return Err(Status::bad_request(&format!(
                "Lease in version \"v1\" cannot be handled as a Lease: parsing time {text:?} as {layout:?}"
            )));
        }
    }
    Ok(())
}

fn deleted(resource: &Resource, name: &str, old: &Value) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural, "uid": old["metadata"]["uid"]});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// The value of a parameter; empty if there is none.
pub(super) fn query<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    let pair = query.iter().find(|(key, _)| key == name);
    pair.map(|(_, value)| &**value).unwrap_or_default()
}

/// The field that `fieldSelector` is about, and its value.
pub(super) fn selected<'a>(
    resource: &Resource,
    pairs: &'a [(String, String)],
) -> Result<Option<(&'static str, &'a str)>, Status> {
    if !query(pairs, "labelSelector").is_empty() {
        return Err(Status::left_out("label selectors"));
    }
    match query(pairs, "fieldSelector") {
        "" => Ok(None),
        selector => match selector.split_once('=') {
            Some(("metadata.name", name)) => Ok(Some(("/metadata/name", name))),
            Some(("spec.signerName", name)) if resource.kind == CERTIFICATE_REQUEST => {
                Ok(Some(("/spec/signerName", name)))
            }
            _ => Err(Status::left_out(&format!("field selector {selector}"))),
        },
    }
}

/// Where the next page begins.
struct Token {
    /// Absent: the newest.
    version: Option<u64>,
    /// The last key of the page before.
    after: String,
}

impl Token {
    fn of(text: &str) -> Result<Option<Self>, Status> {
        if text.is_empty() {
            return Ok(None);
        }
        let json = BASE64_STANDARD_NO_PAD.decode(text).ok();
        let token: Option<Value> = json.and_then(|json| serde_json::from_slice(&json).ok());
        let token = token.as_ref().and_then(|token| {
            Some(Self {
                version: token["rv"].as_i64()?.try_into().ok(),
                after: token["start"]
                    .as_str()?
                    .trim_start_matches('/')
                    .trim_end_matches('\0')
                    .to_owned(),
            })
        });
        let invalid = || Status::bad_request("invalid continue token: continue key is not valid");
        token.map(Some).ok_or_else(invalid)
    }

    fn write(version: Option<u64>, last: &str) -> String {
        let version = version.map_or(json!(-1), |version| json!(version));
        let token = json!({"v": "meta.k8s.io/v1", "rv": version, "start": format!("/{last}\0")});
        BASE64_STANDARD_NO_PAD.encode(token.to_string())
    }
}
