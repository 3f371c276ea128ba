//! How much memory a message takes once it is decoded, told from its bytes: an entry of two bytes may become
//! some hundred, so that the size of a message bounds nothing.

use outrigger_api::{FieldKind, MESSAGE_SHAPES, MessageShape};

/// Bytes of a text on the heap beside its content.
const TEXT: usize = 32;
/// Bytes of an entry of a list of texts.
const TEXT_ENTRY: usize = 24;
/// Bytes of an entry of a list of numbers.
const NUMBER: usize = 8;

/// The shape of the message `name` of the contract.
pub(super) fn shape(name: &str) -> Option<&'static MessageShape> {
    MESSAGE_SHAPES.iter().find(|shape| {
        let package = shape.name.strip_suffix(name);
        package.is_some_and(|package| package == "cloudprovider.v1.")
    })
}

/// Memory that `message` takes, without the struct itself, and the field of it that takes the most.
pub(super) fn of(shape: &MessageShape, message: &[u8]) -> (usize, &'static str) {
    let mut by_field = vec![0; shape.fields.len()];
    for (number, value) in fields(message) {
        let sums = shape.fields.iter().zip(&mut by_field);
        let Some((field, sum)) = sums.into_iter().find(|(field, _)| field.number == number) else {
            continue;
        };
        let entry = |bytes| if field.is_repeated { bytes } else { 0 };
        *sum += match (field.kind, value) {
            (FieldKind::Number, Value::Number(_)) => entry(NUMBER),
            (FieldKind::Number, Value::Bytes(packed)) => NUMBER * packed.len(),
            (FieldKind::Text, Value::Bytes(text)) => entry(TEXT_ENTRY) + TEXT + text.len(),
            (FieldKind::Message(at), Value::Bytes(inner)) => {
                let Some(shape) = MESSAGE_SHAPES.get(at) else {
                    continue;
                };
                entry(shape.size) + of(shape, inner).0
            }
            // It does not decode.
            (FieldKind::Text | FieldKind::Message(_), Value::Number(_)) => 0,
        };
    }
    let most = shape
        .fields
        .iter()
        .zip(&by_field)
        .max_by_key(|(_, sum)| **sum);
    let name = most.map_or("", |(field, _)| field.name);
    (by_field.iter().sum(), name)
}

/// A value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, as far as it can be read. Groups, which the contract does not have, are passed over.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    let mut rest = message;
    let mut groups = 0_u32;
    std::iter::from_fn(move || {
        loop {
            let tag = varint(&mut rest)?;
            let number = u32::try_from(tag >> 3).ok()?;
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut rest)?),
                1 => Value::Bytes(take(&mut rest, 8)?),
                2 => {
                    let length = varint(&mut rest)?;
                    Value::Bytes(take(&mut rest, usize::try_from(length).ok()?)?)
                }
                3 => {
                    groups = groups.checked_add(1)?;
                    continue;
                }
                4 => {
                    groups = groups.checked_sub(1)?;
                    continue;
                }
                5 => Value::Bytes(take(&mut rest, 4)?),
                _ => return None,
            };
            if groups == 0 {
                return Some((number, value));
            }
        }
    })
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, mem::size_of};

    use outrigger_api::{
        RpcStatus,
        v1::{self, instance_result::Outcome},
    };
    use prost::Message;

    use super::*;

    fn memory(name: &str, message: &impl Message) -> (usize, &'static str) {
        of(shape(name).unwrap(), &message.encode_to_vec())
    }

    #[test]
    fn shapes_are_no_smaller_than_the_types() {
        for (name, size) in [
            ("Instance", size_of::<v1::Instance>()),
            ("InstanceResult", size_of::<v1::InstanceResult>()),
            ("RouteResult", size_of::<v1::RouteResult>()),
            ("VolumeResult", size_of::<v1::VolumeResult>()),
            ("NodeAddress", size_of::<v1::NodeAddress>()),
            ("OwnedLoadBalancer", size_of::<v1::OwnedLoadBalancer>()),
            ("KubernetesEffects", size_of::<v1::KubernetesEffects>()),
            ("Condition", size_of::<v1::Condition>()),
            ("DependencyStatus", size_of::<v1::DependencyStatus>()),
            ("LoadBalancerIngress", size_of::<v1::LoadBalancerIngress>()),
        ] {
            let shape = shape(name).unwrap().size;
            assert!(
                (size..2 * size + 200).contains(&shape),
                "{name}: {shape} for {size}"
            );
        }
        let status = MESSAGE_SHAPES
            .iter()
            .find(|s| s.name == "google.rpc.Status");
        assert!(status.unwrap().size >= size_of::<RpcStatus>());
    }

    #[test]
    fn empty_entries_count_at_every_depth() {
        let answer = v1::BatchGetInstancesResponse {
            results: vec![v1::InstanceResult::default(); 1_000],
        };
        let (bytes, field) = memory("BatchGetInstancesResponse", &answer);
        assert!(bytes >= 1_000 * size_of::<v1::InstanceResult>(), "{bytes}");
        assert_eq!(field, "results");

        let instance = v1::Instance {
            addresses: vec![v1::NodeAddress::default(); 1_000],
            ..v1::Instance::default()
        };
        let result = v1::InstanceResult {
            outcome: Some(Outcome::Found(instance.clone())),
            ..v1::InstanceResult::default()
        };
        assert_eq!(memory("Instance", &instance).1, "addresses");
        let deep = v1::BatchGetInstancesResponse {
            results: vec![result],
        };
        let (bytes, _) = memory("BatchGetInstancesResponse", &deep);
        assert!(bytes >= 1_000 * size_of::<v1::NodeAddress>(), "{bytes}");
    }

    #[test]
    fn an_honest_answer_is_not_much_larger_than_its_bytes() {
        let instance = v1::Instance {
            provider_id: "example://0123456789abcdef".into(),
            node_name: "node-0123".into(),
            instance_type: "large".into(),
            addresses: vec![v1::NodeAddress {
                r#type: "InternalIP".into(),
                address: "10.0.0.1".into(),
            }],
            additional_labels: HashMap::from([("example.com/pool".into(), "a".into())]),
            ..v1::Instance::default()
        };
        let list = v1::ListInstancesResponse {
            items: vec![instance; 1_000],
            complete: true,
        };
        let (bytes, _) = memory("ListInstancesResponse", &list);
        let times = bytes / list.encoded_len();
        assert!((1..10).contains(&times), "{times}");
    }

    #[test]
    fn bytes_that_are_no_message_end_the_reading() {
        let read = |bytes: &[u8]| fields(bytes).map(|(number, _)| number).collect::<Vec<_>>();
        // A field, a group with a field in it, and a field.
        let groups = [0x08, 1, 0x13, 0x18, 1, 0x14, 0x22, 1, 0];
        assert_eq!(read(&groups), [1, 4]);
        for broken in [
            &[0x0a, 5, 1][..],
            &[0x80],
            &[0x0c],
            &[0x0f],
            &[0xff; 11],
            &[0x09, 1],
        ] {
            assert_eq!(read(broken), [0_u32; 0], "{broken:?}");
        }
    }
}
