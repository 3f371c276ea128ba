//! Whose a node is: by its provider id, and without one by what the operator says.

use crate::{node::NodeView, selector::Selector};

/// What the ids of one provider start with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefixes(Box<[Box<str>]>);

/// Whose a provider id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
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

    /// Whose `provider_id` is.
    pub fn ownership(&self, provider_id: &str) -> Ownership {
        match provider_id {
            "" => Ownership::Unset,
            id if self.tail(id).is_some() => Ownership::Ours,
            _ => Ownership::Foreign,
        }
    }

    /// What follows the longest of our prefixes.
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
pub struct Scope<'a> {
    /// What the provider's ids start with.
    pub prefixes: &'a Prefixes,
    /// `--node-selector`.
    pub selector: Option<&'a Selector>,
    /// Whether a node of the cluster has the provider id of somebody else. It is then not the only
    /// provider, and a node without an id may be anybody's.
    pub foreign_prefix_seen: bool,
}

impl Scope<'_> {
    /// Whether the node may be asked about and written to: it has no other provider's id, and
    /// without any the selector does not leave it to somebody else.
    pub fn may_touch(&self, node: &NodeView) -> bool {
        match self.prefixes.ownership(&node.provider_id) {
            Ownership::Ours => true,
            Ownership::Foreign => false,
            Ownership::Unset => self.selector.is_none_or(|s| s.matches(&node.labels)),
        }
    }

    /// Whether the node is this provider's beyond doubt, so that it may be deleted when its
    /// instance does not exist.
    pub fn owns(&self, node: &NodeView) -> bool {
        match (self.prefixes.ownership(&node.provider_id), self.selector) {
            (Ownership::Ours, _) => true,
            (Ownership::Foreign, _) => false,
            (Ownership::Unset, Some(selector)) => selector.matches(&node.labels),
            (Ownership::Unset, None) => !self.foreign_prefix_seen,
        }
    }
}

#[cfg(test)]
mod tests;
