//! No byte of an API server, a kubelet or a file ends the process, and one odd object costs no other one.

use std::sync::OnceLock;

use outrigger_core::{csr::CsrView, node::NodeView, service::ServiceView, volume::VolumeView};
use outrigger_runtime::fixture::near;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{csr, edits, node, pkcs10, service, volume};
use crate::decode::{self, Item, ObjectEvent};

/// Longest cause of an object that cannot be decoded, in bytes: 200 characters.
const LONGEST_CAUSE: usize = 800;

/// Decodes an object by itself, in an event and in a list.
fn decode<V: DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let item = Item::<V>::of(bytes);
    if let Item::Undecodable(object) = &item {
        assert!(object.cause.len() <= LONGEST_CAUSE, "{}", object.cause);
        assert!(!object.cause.is_empty());
    }
    // A field that is not read may hold any bytes.
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let event = decode::event::<V>(&format!(r#"{{"type":"MODIFIED","object":{text}}}"#));
    if serde_json::from_slice::<Value>(bytes).is_ok_and(|json| json.is_object()) {
        assert_eq!(event.unwrap(), ObjectEvent::Applied(item));
    }
    let _ = decode::event::<V>(text);
}

/// Made once: a key takes a while.
static PKCS10: OnceLock<Vec<u8>> = OnceLock::new();

proptest! {
    #[test]
    fn objects(edits in edits()) {
        let near = |seed: &Value| near::bytes(seed.to_string().as_bytes(), &edits);
        let changed = |seed: &Value| near::value(seed, &edits).to_string().into_bytes();
        for bytes in [near(&node()), changed(&node())] {
            decode::<NodeView>(&bytes);
        }
        for bytes in [near(&service()), changed(&service())] {
            decode::<ServiceView>(&bytes);
        }
        for bytes in [near(&volume()), changed(&volume())] {
            decode::<VolumeView>(&bytes);
        }
        let der = PKCS10.get_or_init(pkcs10);
        let of_kubelet = csr(der);
        for bytes in [near(&of_kubelet), changed(&of_kubelet)] {
            decode::<CsrView>(&bytes);
        }
        let other = csr(&near::bytes(der, &edits));
        let view: CsrView = serde_json::from_value(other.clone()).unwrap();
        prop_assert!(other != of_kubelet || view.pending.is_some_and(|request| request.is_ok()));
    }
}
