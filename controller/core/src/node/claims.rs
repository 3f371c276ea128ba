//! Which Node has which provider ID, so that no ID ends up on two Nodes.
//!
//! A provider ID can never be changed once it is set. A provider that returns one ID for two Nodes (a lookup by a name that
//! is not unique, a copied machine) would bind one of them to a machine that is not its own, for good, and with it load
//! balancers, volumes and the Node's deletion.
//!
//! The cloud-node loop notes the ID of every Node in the store, and claims one before it writes it. A Node that is refused
//! keeps its taint and is tried again once an ID is free.
//!
//! ```
//! use outrigger_core::node::claims::Claims;
//! use std::sync::Arc;
//!
//! let (first, second) = (Arc::from("node-1"), Arc::from("node-2"));
//! let mut claims = Claims::default();
//! claims.claim("example://m-1", &first);
//! assert!(claims.try_claim("example://m-1", &second).is_err());
//! assert!(claims.release("node-1").contains("node-2"));
//! assert!(claims.try_claim("example://m-1", &second).is_ok());
//! ```

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

/// Provider ids, the nodes that have them or are about to get them, and those that were refused for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    claimants: HashMap<Box<str>, Vec<Arc<str>>>,
    refused: BTreeSet<Arc<str>>,
}

/// One provider id for two nodes. One of the two has to go before the other can be initialised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider ID {provider_id:?} of node {node:?} belongs to node {other:?} already")]
pub struct Duplicate {
    /// The id.
    pub provider_id: Box<str>,
    /// The node that is refused.
    pub node: Arc<str>,
    /// A node that claims the id besides.
    pub other: Arc<str>,
}

impl Claims {
    /// Notes that `node` has `provider_id`, whether another claims it or not. An empty ID is no claim.
    pub fn claim(&mut self, provider_id: &str, node: &Arc<str>) {
        if provider_id.is_empty() {
            return;
        }
        match self.claimants.get_mut(provider_id) {
            Some(nodes) if nodes.contains(node) => {}
            Some(nodes) => nodes.push(Arc::clone(node)),
            // One node an id is the rule: no spare room for more.
            None => {
                let claimants = vec![Arc::clone(node)];
                self.claimants.insert(provider_id.into(), claimants);
            }
        }
    }

    /// Notes that `node` is about to get `provider_id`.
    ///
    /// # Errors
    /// A node other than `node` claims it. `node` is remembered, and returned when an ID is free.
    pub fn try_claim(&mut self, provider_id: &str, node: &Arc<str>) -> Result<(), Duplicate> {
        let claimants = self.claimants.get(provider_id).into_iter().flatten();
        if let Some(other) = claimants.into_iter().find(|other| *other != node) {
            let duplicate = Duplicate {
                provider_id: provider_id.into(),
                node: Arc::clone(node),
                other: Arc::clone(other),
            };
            self.refused.insert(Arc::clone(node));
            return Err(duplicate);
        }
        self.claim(provider_id, node);
        Ok(())
    }

    /// Takes back whatever `node` claims: it did not get the id after all, or is gone, perhaps before its id was seen on it.
    /// Returns the nodes that were refused an id, to be tried again. Looks at every id.
    pub fn release(&mut self, node: &str) -> BTreeSet<Arc<str>> {
        self.claimants.retain(|_, claimants| {
            claimants.retain(|claimant| **claimant != *node);
            !claimants.is_empty()
        });
        self.refused.remove(node);
        std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Claims, Duplicate};

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
        assert_eq!(claims.release("n1"), [n2].into());
    }

    #[test]
    fn a_node_that_is_gone_claims_nothing_and_waits_for_nothing() {
        let (n1, n2, n3): (Arc<str>, Arc<str>, Arc<str>) = ("n1".into(), "n2".into(), "n3".into());
        let mut claims = Claims::default();
        claims.claim("mock://a", &n1);
        claims.claim("mock://b", &n1);
        assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
        assert_eq!(claims.try_claim("mock://a", &n3), duplicate("n3", "n1"));
        assert_eq!(claims.release("n3"), [Arc::clone(&n2)].into());
        assert_eq!(claims.try_claim("mock://a", &n2), duplicate("n2", "n1"));
        assert_eq!(claims.release("n1"), [n2].into());
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
    fn the_refusal_names_both_nodes() {
        let Err(error) = duplicate("n2", "n1") else {
            panic!("no duplicate");
        };
        assert_eq!(
            error.to_string(),
            r#"provider ID "mock://a" of node "n2" belongs to node "n1" already"#
        );
    }
}
