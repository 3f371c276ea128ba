//! Ownership of a Node: by its provider ID, and without one by the operator's selector.
//!
//! Two questions, and the second is the stricter one. [`NodeScope::may_touch`]: may the Node be looked up and written?
//! Every loop asks it before it asks the provider. [`NodeScope::owns`]: is it this provider's beyond doubt, so that it may
//! be deleted? A Node with the ID of another provider is never touched.
//!
//! ```
//! use outrigger_core::node::ownership::{Prefixes, ProviderIdOwner};
//!
//! let prefixes = Prefixes::new("example", None::<&str>)?;
//! assert_eq!(prefixes.owner("example://m-1"), ProviderIdOwner::Ours);
//! assert_eq!(prefixes.owner("aws:///eu-1a/i-1"), ProviderIdOwner::Foreign);
//! assert_eq!(prefixes.owner(""), ProviderIdOwner::Unset);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;

use crate::{node::NodeView, selector::Selector};

/// Prefixes of one provider's IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixes(Box<[Box<str>]>);

/// Ownership of a provider ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderIdOwner {
    /// It starts with one of the provider's prefixes.
    Ours,
    /// It does not: such a node is never asked about and never touched.
    Foreign,
    /// There is none yet.
    Unset,
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Prefixes {
    /// The prefixes that a provider declares; if none, `<provider_name>://`.
    ///
    /// # Errors
    /// A prefix is empty: every ID starts with it, and would make every Node of the cluster ours.
    pub fn new<P: Into<Box<str>>>(
        provider_name: &str,
        declared: impl IntoIterator<Item = P>,
    ) -> Result<Self, &'static str> {
        let mut prefixes: Vec<Box<str>> = declared.into_iter().map(Into::into).collect();
        if prefixes.iter().any(|prefix| prefix.is_empty()) {
            return Err("the provider declares an empty provider ID prefix");
        }
        if prefixes.is_empty() {
            prefixes.push(format!("{provider_name}://").into());
        }
        Ok(Self(prefixes.into()))
    }

    /// Owner of `provider_id`.
    pub fn owner(&self, provider_id: &str) -> ProviderIdOwner {
        match provider_id {
            "" => ProviderIdOwner::Unset,
            id if self.tail(id).is_some() => ProviderIdOwner::Ours,
            _ => ProviderIdOwner::Foreign,
        }
    }

    /// The rest after the longest of our prefixes.
    pub(crate) fn tail<'a>(&self, provider_id: &'a str) -> Option<&'a str> {
        let prefixes = self.0.iter();
        prefixes
            .filter_map(|prefix| provider_id.strip_prefix(&**prefix))
            .min_by_key(|tail| tail.len())
    }

    /// All prefixes, in the provider's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }
}

/// Which nodes of the cluster are this provider's.
#[derive(Clone, Copy, Debug)]
pub struct NodeScope<'a> {
    /// Prefixes of the provider's IDs.
    pub prefixes: &'a Prefixes,
    /// `--node-selector`.
    pub selector: Option<&'a Selector>,
    /// True if a node of the cluster has another provider's ID. Then this provider is not the only one,
    /// and a node without an ID may belong to any of them.
    pub foreign_prefix_seen: bool,
}

impl NodeScope<'_> {
    /// Returns true if the node may be looked up and written: its provider ID is not another provider's, and
    /// without a provider ID the selector selects it.
    pub fn may_touch(&self, node: &NodeView) -> bool {
        match self.prefixes.owner(&node.provider_id) {
            ProviderIdOwner::Ours => true,
            ProviderIdOwner::Foreign => false,
            ProviderIdOwner::Unset => self.selector.is_none_or(|s| s.matches(&node.labels)),
        }
    }

    /// Returns true if the node is this provider's beyond doubt, so that it may be deleted when its
    /// instance does not exist.
    pub fn owns(&self, node: &NodeView) -> bool {
        match (self.prefixes.owner(&node.provider_id), self.selector) {
            (ProviderIdOwner::Ours, _) => true,
            (ProviderIdOwner::Foreign, _) => false,
            (ProviderIdOwner::Unset, Some(selector)) => selector.matches(&node.labels),
            (ProviderIdOwner::Unset, None) => !self.foreign_prefix_seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NodeScope, Prefixes, ProviderIdOwner};
    use crate::{
        fixture::{map, registered},
        node::NodeView,
        selector::Selector,
    };

    fn prefixes(declared: &[&str]) -> Result<Prefixes, &'static str> {
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
        let error = prefixes(&["mock://", ""]).unwrap_err();
        assert_eq!(error, "the provider declares an empty provider ID prefix");
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
}
