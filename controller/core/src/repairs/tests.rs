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
