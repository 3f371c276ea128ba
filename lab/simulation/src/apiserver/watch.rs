//! A watch: the changes of a collection as a stream of lines, with bookmarks.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{
    select,
    time::{Instant, sleep_until},
};

use super::{
    ApiServer,
    faults::{ConnectionLost, Delivery, Request},
    partial,
    resource::Target,
    shape::{self, text},
    status::Status,
    store::Change,
    verbs::{query, selected},
};

/// Between bookmarks.
const BOOKMARKS: Duration = Duration::from_mins(1);

/// How long before its end a watch has its last bookmark.
const BEFORE_END: Duration = Duration::from_secs(2);

/// How long a watch lasts whose client names no time. The real one takes 30 to 60 minutes.
const LONGEST: Duration = Duration::from_mins(30);

/// A watch that is open.
pub(super) struct Watch {
    server: ApiServer,
    request: Request,
    target: Target,
    /// The field that is selected by, and its value.
    selected: Option<(&'static str, String)>,
    is_partial: bool,
    /// Lines that come before all changes.
    first: VecDeque<Bytes>,
    /// All changes up to this version were sent, or are not to be.
    version: u64,
    /// The version that it began at, which no bookmark repeats.
    began: u64,
    /// A change that is held back until then.
    held: Option<(u64, Instant)>,
    /// When the next bookmark comes; none: the client wants none.
    bookmark: Option<Instant>,
    end: Instant,
    has_ended: bool,
}

/// The next step of a watch.
enum Step {
    Line(Bytes),
    /// Nothing until this time, or until a change.
    Wait(Instant),
    End,
    Cut,
}

impl Watch {
    /// Opens a watch of `target`.
    ///
    /// # Errors
    /// Queries that this server does not know.
    pub(super) fn open(
        server: ApiServer,
        request: Request,
        target: Target,
        pairs: &[(String, String)],
        is_partial: bool,
        past: Option<u64>,
    ) -> Result<Self, Status> {
        let now = Instant::now();
        let seconds = query(pairs, "timeoutSeconds")
            .parse()
            .map(Duration::from_secs);
        let has_bookmarks = matches!(query(pairs, "allowWatchBookmarks"), "true" | "1");
        if pairs.iter().any(|(name, _)| name == "sendInitialEvents") {
            return Err(Status::left_out("sendInitialEvents"));
        }
        let mut watch = Self {
            selected: selected(target.resource, pairs)?
                .map(|(field, value)| (field, value.to_owned())),
            request,
            target,
            is_partial,
            first: VecDeque::new(),
            version: 0,
            began: 0,
            held: None,
            bookmark: None,
            end: now + seconds.unwrap_or(LONGEST),
            has_ended: false,
            server,
        };
        match query(pairs, "resourceVersion") {
            "" | "0" => watch.begin_with_objects(past, has_bookmarks),
            version => watch.version = parsed(version)?,
        }
        watch.began = watch.version;
        watch.bookmark = has_bookmarks.then(|| watch.bookmark_after(now));
        Ok(watch)
    }

    /// The objects come first, in the order of their keys, and with bookmarks the end of them is marked.
    fn begin_with_objects(&mut self, past: Option<u64>, has_bookmarks: bool) {
        let server = self.server.clone();
        let store = &server.shared.lock().store;
        self.version = past.map_or(store.version(), |past| past.max(store.compacted()));
        let objects = store.at(self.target.resource.plural, self.version);
        let objects = objects.unwrap_or_default().into_values();
        let selected = objects.filter(|object| self.selects(object));
        self.first = selected
            .map(|object| self.line("ADDED", Value::clone(&object)))
            .collect();
        if has_bookmarks {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            let line = self.bookmark(self.version, Some(annotations));
            self.first.push_back(line);
        }
    }

    /// Its lines, until it ends.
    pub(super) fn lines(self) -> impl Stream<Item = Result<Bytes, ConnectionLost>> + Send {
        stream::unfold(self, |mut watch| async move {
            let line = watch.next().await?;
            Some((line, watch))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, ConnectionLost>> {
        loop {
            let changed = Arc::clone(&self.server.changed);
            // Before the look: a change after it wakes.
            let changed = changed.notified();
            match self.step(Instant::now()) {
                Step::Line(line) => return Some(Ok(line)),
                Step::End => return None,
                Step::Cut => {
                    self.has_ended = true;
                    return Some(Err(ConnectionLost));
                }
                Step::Wait(until) => select! {
                    biased;
                    () = changed => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    fn step(&mut self, now: Instant) -> Step {
        if self.has_ended || now >= self.end {
            return Step::End;
        }
        if let Some(line) = self.first.pop_front() {
            return Step::Line(line);
        }
        let server = self.server.clone();
        let shared = &mut *server.shared.lock();
        if self.version < shared.store.compacted() {
            self.has_ended = true;
            let status = Status::too_old(self.version, shared.store.compacted());
            return Step::Line(line_of("ERROR", &status.body));
        }
        for change in shared.store.changes_after(self.version) {
            if !self.concerns(change) {
                continue;
            }
            let delivery = match (&mut shared.watch_faults, self.held) {
                (None, _) => Delivery::Now,
                (_, Some((version, until))) if version == change.version => Delivery::At(until),
                (Some(faults), _) => faults(&self.request),
            };
            match delivery {
                Delivery::Cut => return Step::Cut,
                Delivery::At(until) if until > now => {
                    self.held = Some((change.version, until));
                    return Step::Wait(self.earliest(until));
                }
                Delivery::Now | Delivery::At(_) => {
                    self.version = change.version;
                    let (kind, object) = change.event();
                    return Step::Line(self.line(kind, object));
                }
            }
        }
        // Nothing more concerns this watch.
        self.version = self.version.max(shared.store.version());
        if self.bookmark.is_some_and(|at| now >= at) {
            self.bookmark = Some(self.bookmark_after(now));
            if self.version > self.began {
                return Step::Line(self.bookmark(self.version, None));
            }
        }
        Step::Wait(self.earliest(self.end))
    }

    fn earliest(&self, until: Instant) -> Instant {
        let bookmark = self.bookmark.filter(|_| self.held.is_none());
        until.min(self.end).min(bookmark.unwrap_or(self.end))
    }

    fn bookmark_after(&self, now: Instant) -> Instant {
        let last = self.end.checked_sub(BEFORE_END).filter(|last| *last > now);
        (now + BOOKMARKS).min(last.unwrap_or(self.end))
    }

    fn concerns(&self, change: &Change) -> bool {
        let object = change.after.as_ref().or(change.before.as_ref());
        change.key.0 == self.target.resource.plural
            && object.is_some_and(|object| self.selects(object))
    }

    fn selects(&self, object: &Value) -> bool {
        let of = |field: &str| text(object, field);
        (self.target.namespace.is_empty() || of("/metadata/namespace") == self.target.namespace)
            && self
                .selected
                .as_ref()
                .is_none_or(|(field, value)| of(field) == value)
    }

    fn line(&self, kind: &str, object: Value) -> Bytes {
        line_of(
            kind,
            &if self.is_partial {
                partial(&object)
            } else {
                object
            },
        )
    }

    fn bookmark(&self, version: u64, annotations: Option<Value>) -> Bytes {
        let resource = self.target.resource;
        let mut object = shape::always(resource.kind);
        object["kind"] = json!(resource.kind);
        object["apiVersion"] = json!(resource.api_version());
        object["metadata"] = json!({"resourceVersion": version.to_string()});
        if let Some(annotations) = annotations {
            object["metadata"]["annotations"] = annotations;
        }
        self.line("BOOKMARK", object)
    }
}

/// The version that a query names.
fn parsed(version: &str) -> Result<u64, Status> {
    version.parse().map_err(|_| {
        let why = "strconv.ParseUint: parsing \"x\": invalid syntax";
        Status::internal(&format!(
            "resourceVersion: Invalid value: {version:?}: {why}"
        ))
    })
}

fn line_of(kind: &str, object: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": object})).into()
}
