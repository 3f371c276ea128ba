//! Addresses that count although the status has others.
//!
//! A kubelet, and whoever has its credentials, may write any address into the status of its Node. Traffic of others must
//! not follow: the addresses that the cloud said last stay, until it says others. The store protects each view that the
//! watch shows; the cloud-node loop confirms the addresses of each answer.

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
mod tests {
    use crate::{
        fixture::{addresses, registered, with_provided_ip},
        node::{NodeView, address::said},
        targets::{TargetChange, TargetLabels, Targets, change},
    };

    fn node(words: &str) -> NodeView {
        NodeView {
            addresses: addresses(words),
            ..registered("n1")
        }
    }

    /// A kubelet writes another address into its status.
    #[test]
    fn an_address_of_the_kubelet_is_no_change_of_a_target() {
        let before = node("InternalIP=10.0.0.5");
        let after = node("InternalIP=192.0.2.66").protecting_addresses(Some(&before));
        assert_eq!(after.addresses, before.addresses);
        assert_eq!(
            after.status_addresses(),
            &*addresses("InternalIP=192.0.2.66")
        );
        let labels = TargetLabels::default();
        assert_eq!(
            change(Some(&before), Some(&after), &labels),
            TargetChange::None
        );
        let revision = |node: &NodeView| Targets::among([node.clone().into()]).revision().clone();
        assert_eq!(revision(&before), revision(&after));
        // Once more, and back again.
        let again = node("InternalIP=192.0.2.67").protecting_addresses(Some(&after));
        assert_eq!(again.addresses, before.addresses);
        assert_eq!(
            again.status_addresses(),
            &*addresses("InternalIP=192.0.2.67")
        );
        let back = node("InternalIP=10.0.0.5").protecting_addresses(Some(&again));
        assert_eq!(back, before);
    }

    /// A Node that registers is a target, but the cloud says at which addresses.
    #[test]
    fn a_new_node_has_the_addresses_that_the_cloud_says() {
        let new = node("InternalIP=192.0.2.66").protecting_addresses(None);
        assert!(new.addresses.is_empty() && new.awaits_addresses());
        let remade = NodeView {
            uid: "another".into(),
            ..node("InternalIP=192.0.2.66")
        };
        assert!(
            remade
                .protecting_addresses(Some(&node("InternalIP=10.0.0.5")))
                .awaits_addresses()
        );
        let ours = addresses("InternalIP=10.0.0.5");
        let said = new.confirmed(Some(&ours));
        assert_eq!(said.addresses, ours);
        assert_eq!(
            said.status_addresses(),
            &*addresses("InternalIP=192.0.2.66")
        );
        // The write follows.
        let written = said.with_addresses(&ours, "8");
        assert_eq!((written.addresses, written.reported), (ours, None));
        // The provider is not asked about this Node.
        let theirs = new.confirmed(None);
        assert_eq!(theirs.addresses, addresses("InternalIP=192.0.2.66"));
        assert!(theirs.reported.is_none() && !theirs.awaits_addresses());
        assert!(!node("").protecting_addresses(None).awaits_addresses());
    }

    /// Nor does the annotation with its `--node-ip` bring in others than the cloud says.
    #[test]
    fn the_cloud_says_the_addresses_whatever_the_kubelet_annotates() {
        let of_instance = addresses("InternalIP=10.0.0.5 ExternalIP=198.51.100.7");
        let held =
            node("InternalIP=192.0.2.66").protecting_addresses(Some(&node("InternalIP=10.0.0.5")));
        assert_eq!(said(&held, &of_instance), Some(of_instance.clone()));
        for annotated in ["192.0.2.66", "junk"] {
            let held = with_provided_ip(held.clone(), annotated);
            assert_eq!(
                said(&held, &of_instance),
                Some(of_instance.clone()),
                "{annotated}"
            );
        }
        assert_eq!(said(&held, &[]), None);
        let in_sync = node("InternalIP=10.0.0.5 ExternalIP=198.51.100.7");
        assert_eq!(said(&in_sync, &of_instance), Some(of_instance));
    }
}
