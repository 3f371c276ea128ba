//! Ownership of a node: by its provider ID, and without one by the operator's selector.

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

/// A prefix that every id starts with would make every node of the cluster ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the provider declares an empty provider ID prefix")]
pub struct EmptyPrefix;

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl Prefixes {
    /// The prefixes that a provider declares; if none, `<provider_name>://`.
    pub fn new<P: Into<Box<str>>>(
        provider_name: &str,
        declared: impl IntoIterator<Item = P>,
    ) -> Result<Self, EmptyPrefix> {
        let mut prefixes: Vec<Box<str>> = declared.into_iter().map(Into::into).collect();
        if prefixes.iter().any(|prefix| prefix.is_empty()) {
            return Err(EmptyPrefix);
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
mod tests;
