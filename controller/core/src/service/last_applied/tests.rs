use proptest::prelude::*;

use super::{ANNOTATION_LAST_APPLIED, Comparison, Hash, LastApplied};
use crate::{
    fixture::{self, any_service, capability, load_balancer},
    service::{Ingress, ServiceView, capability::Capability},
};

fn recorded(service: &ServiceView, record: &LastApplied) -> ServiceView {
    let value = record.to_string();
    ServiceView {
        annotations: service
            .annotations
            .with([(ANNOTATION_LAST_APPLIED, &*value)]),
        ..service.clone()
    }
}

fn settled(service: &ServiceView) -> ServiceView {
    let hash = Hash::of(service, &capability());
    recorded(
        service,
        &LastApplied::with_hash(service, &capability(), hash),
    )
}

fn standing(service: &ServiceView, capability: &Capability) -> Option<Comparison> {
    let hash = Hash::of(service, capability);
    LastApplied::of(service).map(|record| record.compare(service, capability, hash))
}

/// Every cluster has these stored: a release that gives another ensures every load balancer again.
#[test]
fn the_hash_never_changes() {
    let full: ServiceView = serde_json::from_value(fixture::full_service()).unwrap();
    assert_eq!(
        Hash::of(&full, &capability()).to_string(),
        "c0b8368e43bf08a8a3afbc11a1f4bc22"
    );
    let web = load_balancer("web");
    assert_eq!(
        Hash::of(&web, &capability()).to_string(),
        "ac76eabd402e22547d7485a7e92c68c7"
    );
    assert_eq!(
        LastApplied::with_hash(&web, &capability(), Hash::of(&web, &capability())).to_string(),
        "mock/uid-web//142850d5437e5f3c03bf56dd1b077034/ac76eabd402e22547d7485a7e92c68c7"
    );
    assert_eq!(
        LastApplied::begun(&web, &capability()).to_string(),
        "mock/uid-web///"
    );
    let mut fast = web;
    fast.spec.load_balancer_class = Some("example.com/fast".into());
    assert_eq!(
        LastApplied::begun(&fast, &capability()).to_string(),
        "mock/uid-web/example.com/fast//"
    );
}

#[test]
fn a_record_is_compared_with_what_is_wanted_now() {
    let web = settled(&load_balancer("web"));
    assert_eq!(standing(&web, &capability()), Some(Comparison::Same));

    let mut changed = web.clone();
    changed.spec.ports[0].port = 81;
    assert_eq!(standing(&changed, &capability()), Some(Comparison::Changed));

    let with = |edit: fn(&mut Capability)| {
        let mut capability = capability();
        edit(&mut capability);
        standing(&web, &capability)
    };
    let reconfigured = with(|c| c.configuration_revision = "r2".into());
    assert_eq!(reconfigured, Some(Comparison::Reconfigured));
    let silent = with(|c| c.configuration_revision = "".into());
    assert_eq!(silent, Some(Comparison::Same));
    let other = with(|c| c.provider = "other".into());
    assert_eq!(other, Some(Comparison::Unknown));

    let begun = recorded(&web, &LastApplied::begun(&web, &capability()));
    assert_eq!(standing(&begun, &capability()), Some(Comparison::Unknown));
}

#[test]
fn a_record_without_hash_is_that_of_a_load_balancer_that_was_begun() {
    let web = settled(&load_balancer("web"));
    let record = LastApplied::of(&web).unwrap();
    let unsettled = record.without_hash().unwrap();
    assert_eq!(unsettled, LastApplied::begun(&web, &capability()));
    assert_eq!(unsettled.without_hash(), None);
}

#[test]
fn a_record_says_whether_addresses_are_those_that_were_written_with_it() {
    let address = |ip: &str| Ingress {
        ip: ip.into(),
        ..Ingress::default()
    };
    let (ours, theirs) = ([address("192.0.2.7")], [address("203.0.113.9")]);
    let web = settled(&load_balancer("web"));
    let without = LastApplied::of(&web).unwrap();
    let with = without.clone().with_addresses(&ours);
    assert_eq!(with.to_string(), format!("{without}@e31395f27e094240"));
    let settled = recorded(&web, &with);
    assert_eq!(LastApplied::of(&settled).as_ref(), Some(&with));
    assert_eq!(standing(&settled, &capability()), Some(Comparison::Same));
    assert!(with.has_addresses(&ours));
    assert!(!with.has_addresses(&theirs) && !with.has_addresses(&[]));
    // A record of an earlier release.
    assert!(without.has_addresses(&theirs) && !without.has_addresses(&[]));
    let begun = LastApplied::begun(&web, &capability());
    assert!(begun.has_addresses(&theirs) && begun.has_addresses(&[]));
}

/// An old provider that did not name its configuration is followed by one that does.
#[test]
fn a_configuration_that_gets_a_name_is_another_one() {
    let unnamed = Capability {
        configuration_revision: "".into(),
        ..capability()
    };
    let web = load_balancer("web");
    let hash = Hash::of(&web, &unnamed);
    let web = recorded(&web, &LastApplied::with_hash(&web, &unnamed, hash));
    assert_eq!(standing(&web, &unnamed), Some(Comparison::Same));
    assert_eq!(
        standing(&web, &capability()),
        Some(Comparison::Reconfigured)
    );
}

#[test]
fn a_copy_has_no_record_and_junk_is_none() {
    let mut copy = settled(&load_balancer("web"));
    copy.uid = "another".into();
    assert_eq!(LastApplied::of(&copy), None);
    for junk in [
        "",
        "mock",
        "mock/uid-web",
        "mock/uid-web/",
        "mock/uid-web//",
        "///",
    ] {
        let mut web = load_balancer("web");
        web.annotations = [(ANNOTATION_LAST_APPLIED, junk)].into_iter().collect();
        assert_eq!(LastApplied::of(&web), None, "{junk}");
    }
}

proptest! {
    #[test]
    fn a_settled_service_stays_settled(service in any_service()) {
        prop_assert_eq!(standing(&settled(&service), &capability()), Some(Comparison::Same));
    }

    #[test]
    fn the_order_of_annotations_does_not_matter(
        mut entries in proptest::collection::vec(("example.com/[a-z]{1,3}", "[a-z]{0,3}"), 0..6),
    ) {
        entries.sort();
        entries.dedup_by(|a, b| a.0 == b.0);
        let hash = |entries: &[(String, String)]| {
            let annotations = entries.iter().map(|(k, v)| (k, v)).collect();
            Hash::of(&ServiceView { annotations, ..load_balancer("web") }, &capability())
        };
        let there = hash(&entries);
        entries.reverse();
        prop_assert_eq!(hash(&entries), there);
    }
}
