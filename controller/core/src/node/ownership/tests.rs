use super::{EmptyPrefix, NodeScope, Prefixes, ProviderIdOwner};
use crate::{
    fixture::{map, registered},
    node::NodeView,
    selector::Selector,
};

fn prefixes(declared: &[&str]) -> Result<Prefixes, EmptyPrefix> {
    Prefixes::new("mock", declared.iter().copied())
}

#[test]
fn a_provider_that_declares_nothing_owns_its_name() {
    let prefixes = prefixes(&[]).unwrap();
    for (id, ownership) in [
        ("mock://a", ProviderIdOwner::Ours),
        ("mock:///zone/a", ProviderIdOwner::Ours),
        ("mock:/a", ProviderIdOwner::Foreign),
        ("mocker://a", ProviderIdOwner::Foreign),
        ("MOCK://a", ProviderIdOwner::Foreign),
        (" mock://a", ProviderIdOwner::Foreign),
        ("", ProviderIdOwner::Unset),
    ] {
        assert_eq!(prefixes.owner(id), ownership, "{id:?}");
    }
    assert!(prefixes.iter().eq(["mock://"]));
}

#[test]
fn declared_prefixes_replace_the_name_and_need_no_scheme() {
    let prefixes = prefixes(&["ocid1.instance.", "oci://"]).unwrap();
    assert_eq!(
        prefixes.owner("ocid1.instance.oc1.phx.abc"),
        ProviderIdOwner::Ours
    );
    assert_eq!(prefixes.owner("oci://a"), ProviderIdOwner::Ours);
    assert_eq!(prefixes.owner("ocid1.volume.oc1"), ProviderIdOwner::Foreign);
    assert_eq!(prefixes.owner("mock://a"), ProviderIdOwner::Foreign);
}

#[test]
fn an_empty_prefix_is_refused() {
    assert_eq!(prefixes(&["mock://", ""]), Err(EmptyPrefix));
}

#[test]
fn the_tail_is_what_follows_the_longest_prefix() {
    let prefixes = prefixes(&["mock://", "mock://zone/"]).unwrap();
    assert_eq!(prefixes.tail("mock://zone/a"), Some("a"));
    assert_eq!(prefixes.tail("mock://zone/"), Some(""));
    assert_eq!(prefixes.tail("mock://a"), Some("a"));
    assert_eq!(prefixes.tail("other://a"), None);
}

#[test]
fn a_node_without_an_id_is_ours_if_selected_or_if_we_are_alone() {
    let prefixes = prefixes(&[]).unwrap();
    let selector: Selector = "pool=blue".parse().unwrap();
    for (id, pool, selector, foreign_prefix_seen, may_touch, owns) in [
        ("mock://a", "red", None, true, true, true),
        ("mock://a", "red", Some(&selector), true, true, true),
        ("other://a", "blue", Some(&selector), false, false, false),
        ("other://a", "blue", None, true, false, false),
        ("", "red", None, false, true, true),
        ("", "red", None, true, true, false),
        ("", "red", Some(&selector), false, false, false),
        ("", "blue", Some(&selector), false, true, true),
        ("", "blue", Some(&selector), true, true, true),
    ] {
        let node = NodeView {
            provider_id: id.into(),
            labels: map(&[("pool", pool)]),
            ..registered("n1")
        };
        let scope = NodeScope {
            prefixes: &prefixes,
            selector,
            foreign_prefix_seen,
        };
        let what = format!("{id:?} {pool} {selector:?} {foreign_prefix_seen}");
        assert_eq!(scope.may_touch(&node), may_touch, "{what}");
        assert_eq!(scope.owns(&node), owns, "{what}");
    }
}
