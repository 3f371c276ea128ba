//! Answers that are changed: single results fail, and parts are as a bad answer has them.

use std::fmt;
use std::sync::LazyLock;

use clap::ValueEnum;
use outrigger_api::RpcStatus;
use outrigger_api::v1::{BatchGetInstancesResponse, CallClass, instance_result::Outcome};
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use serde::{Deserialize, Serialize};

use super::{About, Method};
use crate::choice;
use crate::exchange::Answer;
use crate::message::{Fate, Side, blank, each, edit as change, fill, values};

/// The objects that a call is about, each with the key of its result.
pub(crate) type Objects = Vec<(String, About)>;

/// Beyond what any caller accepts that named no limit of its own (4 MiB).
const OVERSIZED_BYTES: usize = 5 << 20;

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let lines = include_str!("answers.txt").lines();
    lines.filter_map(Row::read).collect()
});

/// How answers of some methods are bad.
struct Row {
    methods: Vec<&'static str>,
    bad: Vec<&'static str>,
    /// `whole`, `each PATH`, `if PATH`, or nothing.
    place: &'static str,
    edits: Vec<&'static str>,
}

impl Row {
    fn read(line: &'static str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let mut cells = line.split(" | ");
        let (methods, bad) = (cells.next()?, cells.next()?);
        let (place, edits) = cells.next()?.split_once(": ")?;
        Some(Self {
            methods: methods.split(',').collect(),
            bad: bad.split(',').collect(),
            place,
            edits: edits.split("; ").collect(),
        })
    }

    fn fits(&self, method: Method, bad: BadAnswer) -> bool {
        self.methods.contains(&method.name) && self.bad.contains(&choice::name(&bad).as_str())
    }

    /// Spoils the part of an answer that is about one object.
    fn spoil(&self, part: &mut DynamicMessage) -> Fate {
        match self.place.split_once(' ') {
            Some(("if", path)) if !part.has_field_by_name(path) => return Fate::Stay,
            Some(("each", path)) if part.descriptor().get_field_by_name(path).is_some() => {
                each(part, path, &mut |inner| self.change(inner));
                return Fate::Stay;
            }
            _ => {}
        }
        self.change(part)
    }

    fn change(&self, message: &mut DynamicMessage) -> Fate {
        for edit in &self.edits {
            match *edit {
                "drop" => return Fate::Leave,
                "double" => return Fate::Twice,
                edit => {
                    let edit = fill(edit, true, &|path| all(message, path));
                    if let Err(error) = change(message, &edit) {
                        tracing::warn!(error, "a row of answers.txt is wrong");
                    }
                }
            }
        }
        Fate::Stay
    }
}

fn all(message: &DynamicMessage, path: &str) -> Vec<Value> {
    let mut hits = Vec::new();
    values(message, path, &mut hits);
    hits
}

impl Method {
    /// Where the objects of a request are, and the parts of the answer that are each about one; none: the answer is.
    fn places(self) -> Option<(&'static str, Option<&'static str>)> {
        Some(match (self.name, self.class) {
            ("BatchGetInstances", _) => ("items", Some("results")),
            (name, _) if name.starts_with("List") => ("", Some("items")),
            (_, CallClass::LoadBalancers) => ("service", None),
            (_, CallClass::Routes) => ("route", None),
            (_, CallClass::Volumes) => ("volume", None),
            _ => return None,
        })
    }

    /// True if its messages have objects.
    pub(crate) fn has_objects(self) -> bool {
        self.places().is_some()
    }

    /// True if answers can be so.
    pub(crate) fn can_be(self, bad: BadAnswer) -> bool {
        let is_any = bad == BadAnswer::OversizedReply && self.has_objects();
        is_any || ROWS.iter().any(|row| row.fits(self, bad))
    }

    /// The objects that a request is about.
    pub(crate) fn objects(self, request: &[u8]) -> Objects {
        let (Some((path, _)), Some(mut message)) = (self.places(), blank(self.path, Side::Request))
        else {
            return Objects::new();
        };
        if message.merge(request).is_err() {
            return Objects::new();
        }
        let objects = all(&message, path).into_iter();
        let named = objects.filter_map(|object| {
            let object = object.as_message()?;
            let name = all(object, "name");
            let key = name.first().and_then(Value::as_str).unwrap_or_default();
            Some((key.to_owned(), About::of(object)))
        });
        named.collect()
    }

    /// The objects that an answer is about.
    pub(crate) fn answered(self, objects: &Objects, answer: &mut Answer) -> Vec<About> {
        let mut abouts: Vec<_> = objects.iter().map(|(_, about)| about.clone()).collect();
        if let Some(("", Some(path))) = self.places() {
            self.each_message(answer, |message| {
                let entries = all(message, path);
                abouts.extend(entries.iter().filter_map(Value::as_message).map(About::of));
            });
        }
        abouts
    }

    fn each_message(self, answer: &mut Answer, mut change: impl FnMut(&mut DynamicMessage)) {
        let Some(none) = blank(self.path, Side::Response) else {
            return;
        };
        for bytes in answer.raw() {
            let mut message = none.clone();
            if message.merge(bytes.as_slice()).is_ok() {
                change(&mut message);
                *bytes = message.encode_to_vec();
            }
        }
    }

    /// Spoils the parts of an answer that are about some objects.
    pub(crate) fn spoil(
        self,
        bad: BadAnswer,
        objects: &Objects,
        answer: &mut Answer,
        is_meant: &dyn Fn(&About) -> bool,
    ) {
        if bad == BadAnswer::OversizedReply {
            answer.inflate(OVERSIZED_BYTES);
            return;
        }
        let parts = self.places().and_then(|(_, parts)| parts);
        for row in ROWS.iter().filter(|row| row.fits(self, bad)) {
            self.each_message(answer, |message| match parts {
                Some(path) if row.place != "whole" => each(message, path, &mut |part| {
                    let key = all(part, "key");
                    let about = match key.first().and_then(Value::as_str) {
                        Some(key) => about(objects, key).cloned(),
                        None => Some(About::of(part)),
                    };
                    if about.is_some_and(|about| is_meant(&about)) {
                        row.spoil(part)
                    } else {
                        Fate::Stay
                    }
                }),
                _ => {
                    row.spoil(message);
                }
            });
        }
    }
}

/// Fails single results of a batch.
pub(crate) fn fail(
    objects: &Objects,
    answer: &mut Answer,
    error: &mut dyn FnMut(&About) -> Option<RpcStatus>,
) {
    for bytes in answer.raw() {
        let Ok(mut response) = BatchGetInstancesResponse::decode(bytes.as_slice()) else {
            continue;
        };
        for result in &mut response.results {
            if let Some(error) = about(objects, &result.key).and_then(&mut *error) {
                result.outcome = Some(Outcome::Error(error));
            }
        }
        *bytes = response.encode_to_vec();
    }
}

/// The object of a key; none, if it was not asked about.
fn about<'a>(objects: &'a Objects, key: &str) -> Option<&'a About> {
    let object = objects.iter().find(|(item, _)| item == key);
    object.map(|(_, about)| about)
}

/// Defects of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BadAnswer {
    /// Each instance found has the same provider ID.
    DuplicateProviderId,
    /// Each instance found has an `InternalIP` that is no IP address; so has each load balancer.
    MalformedAddress,
    /// Each instance found has its host name alone, which is legal.
    HostnamesOnly,
    /// The message is larger than the caller accepts.
    OversizedReply,
    /// Each instance found has an id, a zone and an address beyond the limits of the contract, each volume a
    /// label.
    OversizedStrings,
    /// A node or Service that was asked about has no result; a listed route is left out.
    MissingResult,
    /// A node or Service has two results; a route is listed twice.
    DuplicateResult,
    /// Each instance or volume found has a zone that is no label value, and a label of Kubernetes' own.
    BadLabel,
    /// Each instance found has the provider ID of another provider.
    WrongPrefix,
    /// Each instance found has its provider ID in another spelling of the same machine, which is legal.
    OtherSpelling,
    /// Each instance found has no provider ID.
    EmptyProviderId,
    /// Each instance found is absent for sure, by an observation of an hour ago.
    StaleAbsence,
    /// Each instance found is absent, with neither certainty nor age.
    UncertainAbsence,
    /// Each node, Service or volume is answered as managed by another provider.
    NotManaged,
    /// Each result has no outcome, an answer has nothing at all; a list is cut off before its end.
    Empty,
    /// A load balancer has no disposition.
    MissingDisposition,
    /// A load balancer is ready and has no status.
    MissingStatus,
    /// A machine, load balancer or volume that exists is absent for sure; so is a machine of another provider.
    FalseAbsence,
    /// A load balancer is in progress, to be asked for again in a thousand hours.
    FarRetry,
    /// A load balancer is in progress and has an empty status.
    InProgressWithoutStatus,
    /// There is a result for a node or Service that was not asked about.
    ForeignResult,
    /// The destination of a route, or a Pod CIDR of an instance, is none.
    MalformedCidr,
}

impl fmt::Display for BadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&choice::name(self))
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_row_of_bad_answers_is_read_and_names_methods_and_answers_that_there_are() {
        let lines = include_str!("answers.txt").lines();
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        assert_eq!(lines.count(), ROWS.len());
        let bad: Vec<_> = BadAnswer::value_variants()
            .iter()
            .map(choice::name)
            .collect();
        for row in ROWS.iter() {
            assert!(row.methods.iter().all(|one| one.parse::<Method>().is_ok()));
            assert!(row.bad.iter().all(|one| bad.iter().any(|bad| bad == one)));
        }
    }
}
