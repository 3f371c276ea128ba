use super::{EmptyPrefix, Ownership, Prefixes};

fn prefixes(declared: &[&str]) -> Result<Prefixes, EmptyPrefix> {
    Prefixes::new("mock", declared.iter().copied())
}

#[test]
fn a_provider_that_declares_nothing_owns_its_name() {
    let prefixes = prefixes(&[]).unwrap();
    for (id, ownership) in [
        ("mock://a", Ownership::Ours),
        ("mock:///zone/a", Ownership::Ours),
        ("mock:/a", Ownership::Foreign),
        ("mocker://a", Ownership::Foreign),
        ("MOCK://a", Ownership::Foreign),
        (" mock://a", Ownership::Foreign),
        ("", Ownership::Unset),
    ] {
        assert_eq!(prefixes.ownership(id), ownership, "{id:?}");
    }
    assert!(prefixes.iter().eq(["mock://"]));
}

#[test]
fn declared_prefixes_replace_the_name_and_need_no_scheme() {
    let prefixes = prefixes(&["ocid1.instance.", "oci://"]).unwrap();
    assert_eq!(
        prefixes.ownership("ocid1.instance.oc1.phx.abc"),
        Ownership::Ours
    );
    assert_eq!(prefixes.ownership("oci://a"), Ownership::Ours);
    assert_eq!(prefixes.ownership("ocid1.volume.oc1"), Ownership::Foreign);
    assert_eq!(prefixes.ownership("mock://a"), Ownership::Foreign);
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
