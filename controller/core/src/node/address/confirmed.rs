//! Addresses that count although the status has others.
//!
//! A kubelet, and whoever has its credentials, may write any address into the status of its Node. Traffic of others must
//! not follow: the addresses that the cloud said last stay, until it says others.

use crate::node::{NodeAddress, NodeView};

impl NodeView {
    /// This view, as it was read, with the addresses of `held`, the view of the same object before. A Node that was not
    /// there before has none until the cloud says them.
    #[must_use]
    pub fn protecting_addresses(self, held: Option<&Self>) -> Self {
        let same = held.filter(|held| held.uid == self.uid);
        let addresses = same.map_or(&[][..], |held| &held.addresses);
        if *addresses == *self.addresses {
            return self;
        }
        Self {
            addresses: addresses.into(),
            reported: Some(self.addresses),
            ..self
        }
    }

    /// The view once the cloud has [`said`](super::said) its addresses. With `None` those of the status count.
    #[must_use]
    pub fn confirmed(&self, said: Option<&[NodeAddress]>) -> Self {
        let status = self.status_addresses();
        let addresses = said.unwrap_or(status);
        Self {
            addresses: addresses.into(),
            reported: (addresses != status).then(|| status.into()),
            ..self.clone()
        }
    }

    /// `status.addresses` as they are.
    pub fn status_addresses(&self) -> &[NodeAddress] {
        self.reported.as_deref().unwrap_or(&self.addresses)
    }

    /// Returns true if the status has addresses and the cloud has not reported any.
    pub const fn awaits_addresses(&self) -> bool {
        self.reported.is_some() && self.addresses.is_empty()
    }
}

#[cfg(test)]
mod tests;
