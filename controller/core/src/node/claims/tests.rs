use std::sync::Arc;

use super::{Claims, Duplicate};
use crate::error_class::{ErrorClass, Requeue};

fn duplicate(node: &str, other: &str) -> Result<(), Duplicate> {
    Err(Duplicate {
        provider_id: "mock://a".into(),
        node: node.into(),
        other: other.into(),
    })
}

#[test]
fn an_id_is_one_nodes() {
    let (n1, n2): (Arc<str>, Arc<str>) = ("n1".into(), "n2".into());
    let mut claims = Claims::default();
    assert_eq!(claims.try_claim("mock://a", &n1), Ok(()));
    let once = claims.clone();
    claims.claim("mock://a", &n1);
    assert_eq!(claims, once);
    assert_eq!(claims.try_claim("mock://a", &n1), Ok(()));
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    assert_eq!(claims.try_claim("mock://b", &n2), Ok(()));
}

/// The contract: two nodes with one provider ID are both refused. Both have it from their kubelets.
#[test]
fn two_nodes_that_have_one_id_are_both_refused() {
    let (n1, n2): (Arc<str>, Arc<str>) = ("n1".into(), "n2".into());
    let mut claims = Claims::default();
    claims.claim("mock://a", &n1);
    claims.claim("mock://a", &n2);
    assert_eq!(claims.try_claim("mock://a", &n1), duplicate("n1", "n2"));
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    assert_eq!(claims.forget("n1"), [n2].into());
}

#[test]
fn a_claim_that_was_taken_back_is_free_for_those_that_were_refused() {
    let (n1, n2): (Arc<str>, Arc<str>) = ("n1".into(), "n2".into());
    let mut claims = Claims::default();
    claims.claim("mock://a", &n1);
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    // Each that was refused is tried again, whatever was taken back, and may be refused again.
    assert_eq!(claims.release("mock://b", "n1"), [Arc::clone(&n2)].into());
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    assert_eq!(claims.release("mock://a", "n1"), [Arc::clone(&n2)].into());
    assert_eq!(claims.try_claim("mock://a", &n2), Ok(()));
}

#[test]
fn a_node_that_is_gone_claims_nothing_and_waits_for_nothing() {
    let (n1, n2, n3): (Arc<str>, Arc<str>, Arc<str>) = ("n1".into(), "n2".into(), "n3".into());
    let mut claims = Claims::default();
    claims.claim("mock://a", &n1);
    claims.claim("mock://b", &n1);
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    assert_eq!(claims.try_claim("mock://a", &n3), duplicate("n3", "n1"));
    assert_eq!(claims.forget("n3"), [Arc::clone(&n2)].into());
    assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
    assert_eq!(claims.forget("n1"), [n2].into());
    assert_eq!(claims, Claims::default());
}

/// Clouds without provider ids give every node the same: none.
#[test]
fn the_empty_id_is_no_claim() {
    let (n1, n2): (Arc<str>, Arc<str>) = ("n1".into(), "n2".into());
    let mut claims = Claims::default();
    claims.claim("", &n1);
    claims.claim("", &n2);
    assert_eq!(claims, Claims::default());
    assert_eq!(claims.try_claim("", &n1), Ok(()));
}

#[test]
fn the_refusal_names_both_nodes_and_is_tried_again() {
    let Err(error) = duplicate("n2", "n1") else {
        panic!("no duplicate");
    };
    assert_eq!(
        error.to_string(),
        r#"provider ID "mock://a" of node "n2" belongs to node "n1" already"#
    );
    assert_eq!(error.class(), ErrorClass::NotReady);
    assert_eq!(error.class().requeue(), Requeue::BackOff);
}
