//! The labels that initialisation writes, in both generations, and the step from the old generation to the new one on Nodes
//! that are already initialised.
//!
//! [`crate::node::plan`] calls [`plan`] with the labels of the Node and its instance; [`sent`] limits the labels that the
//! provider client sends. A label that a user has set is overwritten only if the provider declares its key as one that it
//! manages, if it is a fact about the machine on a Node that is being initialised, or if it has to follow its old
//! generation.

use std::collections::BTreeMap;

use crate::{
    node::{change::LabelWrite, instance::Instance},
    string_map::StringMap,
};

/// Instance type.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Instance type, the generation before.
pub const INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// Zone, the generation before.
pub const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Region.
pub const REGION: &str = "topology.kubernetes.io/region";
/// Region, the generation before.
pub const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";

/// Old key and new key of the same fact.
const GENERATIONS: [(&str, &str); 3] = [
    (ZONE_BETA, ZONE),
    (REGION_BETA, REGION),
    (INSTANCE_TYPE_BETA, INSTANCE_TYPE),
];

/// Bytes of keys and values of one Node's labels that a provider is sent. A kubelet may give its Node a megabyte of them,
/// and the Nodes of one call share a message.
const MOST_SENT: usize = 16 << 10;

/// The labels of a Node that a provider is sent: all, or as many as fit: keys that it `declared` first, then those of
/// kubernetes.io, then by key.
pub fn sent<'a>(labels: &'a StringMap, declared: &[Box<str>]) -> Vec<(&'a str, &'a str)> {
    let mut sent: Vec<_> = labels.iter().collect();
    if labels.bytes() <= MOST_SENT {
        return sent;
    }
    sent.sort_by_key(|(key, _)| {
        let is_declared = declared.iter().any(|declared| **declared == **key);
        (!is_declared, !is_reserved(key))
    });
    let mut room = MOST_SENT;
    sent.retain(|(key, value)| {
        let bytes = key.len() + value.len();
        let fits = bytes <= room;
        room -= if fits { bytes } else { 0 };
        fits
    });
    sent
}

/// The labels to write on a node with the labels `current`, whose instance is known, and those of the provider that are
/// left out (N-18), as texts for people. `managed` are the keys that the provider keeps in sync.
///
/// While it is being initialised (`is_new`) it gets all of them. Later what [`reconcile`] wants, and the managed keys as
/// the instance has them: any other key stays as it is, as does one that the instance does not have (the provider's silence
/// removes nothing). Where one generation of zone, region or instance type is managed, the other one follows it if it is
/// there: else [`reconcile`] would undo the change.
pub fn plan(
    current: &StringMap,
    instance: &Instance,
    managed: &[Box<str>],
    is_new: bool,
) -> (Vec<LabelWrite>, Vec<String>) {
    let is_managed = |key: &str| managed.iter().any(|managed| **managed == *key);
    let mut labels = Draft::over(current);
    let mut dropped = Vec::new();
    // N-15, N-16: overwritten, in both generations. N-17: what is not known stays as it is.
    for (beta, stable, value) in facts(instance) {
        if value.is_empty() || !(is_new || is_managed(beta) || is_managed(stable)) {
            continue;
        }
        if is_new || is_managed(beta) || current.contains_key(beta) {
            labels.overwrite(beta, value);
        }
        labels.overwrite(stable, value);
    }
    for (key, value) in instance.additional_labels.iter() {
        match current.get(key) {
            _ if is_managed(key) && !is_reserved(key) => labels.overwrite(key, value),
            _ if !is_new => {}
            _ if is_reserved(key) => dropped.push(format!(
                "discarding node label {key} with kubernetes namespace"
            )),
            None => labels.add(key, value),
            Some(kept) if kept == value => {}
            Some(kept) => dropped.push(format!(
                "discarding node label {key} with value {value:?} that is already present with value {kept:?}"
            )),
        }
    }
    // Upstream needs a second write for labels that only the old generation had (N-35).
    labels.promote();
    (labels.finish(), dropped)
}

/// The labels to write on a node that is initialised: where the old generation has a value, the new
/// one gets it too (N-35). The other way round nothing happens.
pub fn reconcile(current: &StringMap) -> Vec<LabelWrite> {
    let mut labels = Draft::over(current);
    labels.promote();
    labels.finish()
}

/// The instance's facts by label, with the keys of both generations; empty: not known.
fn facts(instance: &Instance) -> [(&'static str, &'static str, &str); 3] {
    [
        (INSTANCE_TYPE_BETA, INSTANCE_TYPE, &instance.instance_type),
        (ZONE_BETA, ZONE, &instance.zone),
        (REGION_BETA, REGION, &instance.region),
    ]
}

/// Returns true if a label key belongs to Kubernetes: `kubernetes.io/…`, `k8s.io/…` and their subdomains,
/// but not `mykubernetes.io/…` (N-18).
pub fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else {
        return false;
    };
    ["kubernetes.io", "k8s.io"].iter().any(|domain| {
        prefix
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Labels to write over what is there; what would change nothing is left out.
struct Draft<'a> {
    current: &'a StringMap,
    writes: BTreeMap<&'a str, (&'a str, bool)>,
}

impl<'a> Draft<'a> {
    const fn over(current: &'a StringMap) -> Self {
        Self {
            current,
            writes: BTreeMap::new(),
        }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        let written = self.writes.get(key).map(|(value, _)| *value);
        written.or_else(|| self.current.get(key))
    }

    fn overwrite(&mut self, key: &'a str, value: &'a str) {
        if self.get(key) != Some(value) {
            self.writes.insert(key, (value, false));
        }
    }

    fn add(&mut self, key: &'a str, value: &'a str) {
        self.writes.insert(key, (value, true));
    }

    fn promote(&mut self) {
        for (beta, stable) in GENERATIONS {
            if let Some(value) = self.get(beta) {
                self.overwrite(stable, value);
            }
        }
    }

    fn finish(self) -> Vec<LabelWrite> {
        let writes = self.writes.into_iter();
        writes
            .map(|(key, (value, must_be_absent))| LabelWrite {
                key: key.into(),
                value: value.into(),
                must_be_absent,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
