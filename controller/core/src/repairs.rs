//! Back-off against another client that undoes what this controller writes, again and again, and who that client is.
//!
//! The loops of Nodes and the plan of Services keep one [`Repairs`] for each object and lease term. Before a write that
//! puts right what this controller had written before they ask [`Repairs::due`], and report it with [`Repairs::made`]; from
//! the second one on they send [`EventContent::overwritten`], which names the other client by `metadata.managedFields`. A
//! first write is never delayed.
//!
//! ```
//! use outrigger_core::repairs::Repairs;
//! use std::time::Duration;
//!
//! let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let mut repairs = Repairs::default();
//! assert_eq!(repairs.due(now), None);
//! repairs.made(now);
//! assert_eq!(repairs.due(now), Some(now + Duration::from_secs(5)));
//! # Ok::<(), jiff::Error>(())
//! ```

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{api_time::after, event::EventContent};

/// This controller's name in `metadata.managedFields`: the User-Agent up to its first slash.
pub const FIELD_MANAGER: &str = "outrigger";

/// From the first repair of an object to its second; each further one waits twice as long.
const FIRST: Duration = Duration::from_secs(5);

/// The longest wait between two repairs of an object.
const LONGEST: Duration = Duration::from_mins(5);

/// Without a repair for so long, the next one is the first again.
const FORGOTTEN: Duration = Duration::from_mins(10);

/// The repairs of one object: writes of a value that this controller had written before, and another client has undone. In
/// memory of the lease term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repairs(Option<Repaired>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repaired {
    last: Timestamp,
    times: u32,
}

impl Repairs {
    fn remembered(&self, now: Timestamp) -> Option<Repaired> {
        self.0
            .filter(|repaired| now < after(repaired.last, FORGOTTEN))
    }

    /// When the object may be repaired; none: now.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let Repaired { last, times } = self.remembered(now)?;
        let factor = 2_u32.saturating_pow(times - 1);
        let due = after(last, FIRST.saturating_mul(factor).min(LONGEST));
        (now < due).then_some(due)
    }

    /// Returns true if a repair would not be the first: the object has a Warning about the other client then.
    pub fn is_again(&self, now: Timestamp) -> bool {
        self.remembered(now).is_some()
    }

    /// The object is repaired.
    pub fn made(&mut self, now: Timestamp) {
        let times = self.remembered(now).map_or(0, |repaired| repaired.times);
        self.0 = Some(Repaired {
            last: now,
            times: times.saturating_add(1),
        });
    }
}

/// Something of an object that another client undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The finalizer of a Service.
    Finalizer,
    /// The addresses of a load balancer.
    Addresses,
    /// The record of a load balancer.
    Record,
    /// The taint of a Node that waits for its initialization.
    Taint,
    /// A label of zone or region of a Node.
    Label,
    /// The addresses in the status of a Node.
    NodeAddresses,
    /// The taint of a stopped instance, on a Node that is ready.
    TaintOfStop,
}

impl Undone {
    const fn words(self) -> &'static str {
        match self {
            Self::Finalizer => "removes the finalizer of the load balancer",
            Self::Addresses => "changes the addresses of the load balancer in the status",
            Self::Record => "removes the annotation outrigger.dev/last-applied",
            Self::Taint => {
                "adds the taint node.cloudprovider.kubernetes.io/uninitialized to a Node that is initialized"
            }
            Self::Label => "changes a label that follows its beta label",
            Self::NodeAddresses => "changes the addresses in the status",
            Self::TaintOfStop => "adds the taint of a stopped instance to a Node that is ready",
        }
    }

    /// Where it is in `fieldsV1`, from the outside in.
    const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Finalizer => &["f:metadata", "f:finalizers"],
            Self::Addresses => &["f:status", "f:loadBalancer", "f:ingress"],
            Self::Record => &["f:metadata", "f:annotations"],
            Self::Taint | Self::TaintOfStop => &["f:spec", "f:taints"],
            Self::NodeAddresses => &["f:status", "f:addresses"],
            Self::Label => &["f:metadata", "f:labels"],
        }
    }
}

/// An entry of `metadata.managedFields`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedFields {
    manager: Box<str>,
    time: Option<Timestamp>,
    fields_v1: Value,
}

/// The client that has the Pod CIDRs of a Node by `entries`.
pub fn pod_cidr_writer(entries: &[ManagedFields]) -> Option<&str> {
    let has = |entry: &&ManagedFields| entry.fields_v1.pointer("/f:spec/f:podCIDRs").is_some();
    entries.iter().find(has).map(|entry| &*entry.manager)
}

/// The client other than this one that has `what` by `entries`, or that wrote nearest to it last: what a client removes, no
/// entry has any more.
fn other_writer(entries: &[ManagedFields], what: Undone) -> Option<&str> {
    let nearness = |entry: &ManagedFields| {
        let mut fields = Some(&entry.fields_v1);
        let steps = what.path().iter().map_while(|step| {
            fields = fields.and_then(|fields| fields.get(step));
            fields
        });
        steps.count()
    };
    let others = entries
        .iter()
        .filter(|entry| *entry.manager != *FIELD_MANAGER);
    let nearest = others.max_by_key(|entry| (nearness(entry), entry.time))?;
    (nearness(nearest) > 0).then_some(&*nearest.manager)
}

impl EventContent {
    /// Ours: another client and this controller undo each other's writes.
    pub fn overwritten(what: Undone, entries: &[ManagedFields]) -> Self {
        let who = other_writer(entries, what).map_or_else(
            || "Another client, which the managedFields do not name,".to_owned(),
            |name| format!("Another client, {name:?} by the managedFields,"),
        );
        let message = format!(
            "{who} {} again and again. It is put right ever more rarely, at most every 5 minutes: stop one of both",
            what.words()
        );
        Self::warning("OverwrittenByAnotherClient", &message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: Timestamp = Timestamp::UNIX_EPOCH;

    fn at(seconds: u64) -> Timestamp {
        after(START, Duration::from_secs(seconds))
    }

    /// The other client undoes each repair at once.
    #[test]
    fn another_clients_write_is_answered_with_back_off() {
        let mut repairs = Repairs::default();
        let (mut now, mut waits, mut is_again) = (START, Vec::new(), Vec::new());
        for _ in 0..10 {
            let due = repairs.due(now).unwrap_or(now);
            waits.push(due.duration_since(now).as_secs());
            now = due;
            assert_eq!(repairs.due(now), None, "it is due then");
            is_again.push(repairs.is_again(now));
            repairs.made(now);
        }
        assert_eq!(waits, [0, 5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(is_again[..3], [false, true, true]);
    }

    #[test]
    fn ten_minutes_without_a_repair_forget_it() {
        let mut repairs = Repairs::default();
        for second in [0, 5, 15] {
            repairs.made(at(second));
        }
        assert_eq!(repairs.due(at(16)), Some(at(35)));
        assert!(repairs.is_again(at(614)));
        assert!(!repairs.is_again(at(615)));
        assert_eq!(repairs.due(at(615)), None);
        repairs.made(at(615));
        assert_eq!(repairs.due(at(616)), Some(at(620)), "as after the first");
    }

    fn entry(manager: &str, second: u64, fields: Value) -> ManagedFields {
        ManagedFields {
            manager: manager.into(),
            time: Some(at(second)),
            fields_v1: fields,
        }
    }

    #[test]
    fn the_other_writer_is_the_owner_of_the_field_or_wrote_nearest_to_it_last() {
        let status = |inner: Value| json!({"f:status": {"f:loadBalancer": inner}});
        let entries = [
            entry("outrigger", 9, status(json!({"f:ingress": {}}))),
            entry("older", 1, status(json!({}))),
            entry("kubectl-edit", 8, json!({"f:metadata": {"f:labels": {}}})),
            entry("newer", 2, status(json!({}))),
        ];
        let of = |what| other_writer(&entries, what);
        assert_eq!(of(Undone::Addresses), Some("newer"), "it removed them");
        assert_eq!(of(Undone::Finalizer), Some("kubectl-edit"));
        assert_eq!(of(Undone::Taint), None, "no other client wrote there");
        let owner = entry("owner", 0, status(json!({"f:ingress": {}})));
        let entries = [&entries[..], &[owner]].concat();
        assert_eq!(other_writer(&entries, Undone::Addresses), Some("owner"));
        let event = EventContent::overwritten(Undone::Addresses, &entries);
        assert!(event.message.contains("\"owner\""), "{}", event.message);
    }

    #[test]
    fn managed_fields_are_read_as_the_api_server_writes_them() {
        let entry: ManagedFields = serde_json::from_value(json!({
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "kubectl-patch", "operation": "Update",
        "subresource": "status", "time": "2026-11-29T12:00:00Z",
        "fieldsV1": {"f:status": {"f:loadBalancer": {"f:ingress": {}}}},
    }))
    .unwrap();
        assert_eq!(
            other_writer(&[entry], Undone::Addresses),
            Some("kubectl-patch")
        );
    }
}
