//! An Ensure: why it is made, and how it is announced and paced.
//!
//! [`super::Progress::next`] makes it; the loop sends its events before the call and chooses the lane of the queue by its
//! [`Manner`].

use crate::{event::EventContent, service::last_applied::Hash, targets::Targets};

/// A call of `EnsureLoadBalancer`, with all that is needed to make it and to read its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ensure {
    /// Why.
    pub cause: EnsureCause,
    /// Hash of its inputs, taken when the call is planned, since the Service may change meanwhile.
    pub hash: Hash,
    /// How it is announced and paced.
    pub manner: Manner,
}

impl Ensure {
    /// The events before the call with these targets.
    pub fn events(&self, targets: &Targets) -> Vec<EventContent> {
        if self.manner != Manner::Announced || self.cause == EnsureCause::Continued {
            return Vec::new();
        }
        let no_nodes = targets.is_empty().then(EventContent::no_nodes);
        let events = [EventContent::ensuring()].into_iter();
        events.chain(no_nodes).collect()
    }
}

/// How an Ensure is announced and paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// With events, at full pace: the Service, or its load balancer, is not what it was.
    Announced,
    /// In the background, with no event where nothing differs; a failure does not make a load balancer that serves
    /// look broken.
    Background,
}

/// Why a load balancer is ensured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsureCause {
    /// It has never been ready.
    New,
    /// The Service is not what it was made from.
    Changed,
    /// The provider has another configuration, or another program has led since.
    Reconfigured,
    /// Made by another controller: upstream's, or a provider of another name.
    Unrecorded,
    /// The provider was at work, and the time it asked for is over.
    Continued,
    /// An update of targets failed (S-55), or found no load balancer.
    TargetsFailed,
    /// The provider's answer could not be written.
    NotWritten,
    /// The cloud is not what it was.
    Drifted,
    /// The status has other addresses than those that were written, and this term does not know the latter.
    AddressesLost,
}

impl EnsureCause {
    pub(super) const fn manner(self) -> Manner {
        match self {
            Self::Reconfigured | Self::Unrecorded => Manner::Background,
            Self::New
            | Self::Changed
            | Self::Continued
            | Self::TargetsFailed
            | Self::NotWritten
            | Self::AddressesLost
            | Self::Drifted => Manner::Announced,
        }
    }

    /// The metric label: snake case, stable across releases.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Reconfigured => "reconfigured",
            Self::Unrecorded => "unrecorded",
            Self::Continued => "continued",
            Self::TargetsFailed => "targets_failed",
            Self::NotWritten => "not_written",
            Self::AddressesLost => "addresses_lost",
            Self::Drifted => "drifted",
        }
    }
}
