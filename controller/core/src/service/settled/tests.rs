use proptest::prelude::*;

use super::{ANNOTATION_SETTLED, Hash, Record, Standing};
use crate::{
    fixture::{self, any_service, capability, load_balancer},
    service::{ServiceView, capability::Capability},
};

fn recorded(service: &ServiceView, record: &Record) -> ServiceView {
    let value = record.to_string();
    ServiceView {
        annotations: service.annotations.with([(ANNOTATION_SETTLED, &*value)]),
        ..service.clone()
    }
}

fn settled(service: &ServiceView) -> ServiceView {
    let hash = Hash::of(service, &capability());
    recorded(service, &Record::settled(service, &capability(), hash))
}

fn standing(service: &ServiceView, capability: &Capability) -> Option<Standing> {
    Record::of(service).map(|record| record.compare(service, capability))
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
        Record::settled(&web, &capability(), Hash::of(&web, &capability())).to_string(),
        "mock/uid-web/142850d5437e5f3c03bf56dd1b077034/ac76eabd402e22547d7485a7e92c68c7"
    );
    assert_eq!(
        Record::begun(&web, &capability()).to_string(),
        "mock/uid-web//"
    );
}

#[test]
fn a_record_is_compared_with_what_is_wanted_now() {
    let web = settled(&load_balancer("web"));
    assert_eq!(standing(&web, &capability()), Some(Standing::Settled));

    let mut changed = web.clone();
    changed.spec.ports[0].port = 81;
    assert_eq!(standing(&changed, &capability()), Some(Standing::Changed));

    let with = |edit: fn(&mut Capability)| {
        let mut capability = capability();
        edit(&mut capability);
        standing(&web, &capability)
    };
    let reconfigured = with(|c| c.configuration_revision = "r2".into());
    assert_eq!(reconfigured, Some(Standing::Reconfigured));
    let silent = with(|c| c.configuration_revision = "".into());
    assert_eq!(silent, Some(Standing::Settled));
    let other = with(|c| c.provider = "other".into());
    assert_eq!(other, Some(Standing::Unknown));

    let begun = recorded(&web, &Record::begun(&web, &capability()));
    assert_eq!(standing(&begun, &capability()), Some(Standing::Unknown));
}

/// Something else was asked for meanwhile, and nobody knows what came of it.
#[test]
fn an_open_record_is_never_settled() {
    let web = settled(&load_balancer("web"));
    let record = Record::of(&web).unwrap().opened().unwrap();
    assert!(record.to_string().ends_with('+'));
    assert_eq!(record.opened(), None);
    let opened = recorded(&web, &record);
    assert_eq!(Record::of(&opened), Some(record));
    assert_eq!(
        standing(&opened, &capability()),
        Some(Standing::Reconfigured)
    );
    let mut changed = opened.clone();
    changed.spec.ports[0].port = 81;
    assert_eq!(standing(&changed, &capability()), Some(Standing::Changed));
    assert_eq!(Record::begun(&web, &capability()).opened(), None);
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
    let web = recorded(&web, &Record::settled(&web, &unnamed, hash));
    assert_eq!(standing(&web, &unnamed), Some(Standing::Settled));
    assert_eq!(standing(&web, &capability()), Some(Standing::Reconfigured));
}

#[test]
fn a_copy_has_no_record_and_junk_is_none() {
    let mut copy = settled(&load_balancer("web"));
    copy.uid = "another".into();
    assert_eq!(Record::of(&copy), None);
    for junk in ["", "mock", "mock/uid-web", "mock/uid-web/", "///"] {
        let mut web = load_balancer("web");
        web.annotations = [(ANNOTATION_SETTLED, junk)].into_iter().collect();
        assert_eq!(Record::of(&web), None, "{junk}");
    }
}

proptest! {
    #[test]
    fn what_was_just_settled_is_settled(service in any_service()) {
        prop_assert_eq!(standing(&settled(&service), &capability()), Some(Standing::Settled));
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
