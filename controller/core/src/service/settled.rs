//! The settled state of a Service: what its load balancer was last made from, remembered on the
//! Service itself, so that a restart has nothing to do.

use std::fmt;

use super::{ServiceView, capability::Capability, desired::Desired};
use crate::digest::{Digest, Encoder};

/// Annotation with the [`Record`]. Means nothing to upstream's controller.
pub const ANNOTATION_SETTLED: &str = "outrigger.dev/settled";

/// Who works on a Service, and from what the load balancer was made when it was last as wanted:
/// `<provider>/<Service UID>/<configuration>/<desired>`, the last two as 32 hexadecimal digits, or
/// empty as long as there is nothing to remember; with a `+` behind once something else was asked for.
/// That is written before the call: after a crash, or an answer that was lost, the Service may want
/// again what it wanted before, and the load balancer may be neither.
///
/// It holds for the UID in it alone: a manifest that was copied with all its annotations must not
/// look settled, nor hand its load balancer to the wrong provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Name of the provider that works on the Service.
    pub provider: Box<str>,
    uid: Box<str>,
    configuration: Box<str>,
    desired: Box<str>,
    is_open: bool,
}

/// What follows the record of what may no longer be so.
const OPEN: char = '+';

impl Record {
    /// The record on `service`, if it has one of its own.
    pub fn of(service: &ServiceView) -> Option<Self> {
        let value = service.annotations.get(ANNOTATION_SETTLED)?;
        let (provider, rest) = value.split_once('/')?;
        let (rest, desired) = rest.rsplit_once('/')?;
        let (uid, configuration) = rest.rsplit_once('/')?;
        let closed = desired.strip_suffix(OPEN);
        (*uid == *service.uid).then(|| Self {
            provider: provider.into(),
            uid: uid.into(),
            configuration: configuration.into(),
            desired: closed.unwrap_or(desired).into(),
            is_open: closed.is_some(),
        })
    }

    /// Whether an annotation's value says that its load balancer is as wanted.
    pub(super) fn is_of_settled(value: &str) -> bool {
        !value.ends_with(['/', OPEN])
    }

    /// The provider works on `service`, and there is nothing to remember yet.
    pub fn begun(service: &ServiceView, capability: &Capability) -> Self {
        Self {
            provider: capability.provider.clone(),
            uid: service.uid.clone(),
            configuration: Box::default(),
            desired: Box::default(),
            is_open: false,
        }
    }

    /// The load balancer of `service` is as `hash` wants it.
    pub fn settled(service: &ServiceView, capability: &Capability, hash: Hash) -> Self {
        Self {
            configuration: configuration(capability).map_or_else(Box::default, text),
            desired: text(hash.0),
            ..Self::begun(service, capability)
        }
    }

    /// The same once something else than what it says is asked for; none if that is known, or there
    /// is nothing to remember.
    pub fn opened(&self) -> Option<Self> {
        let is_new = self.is_settled() && !self.is_open;
        is_new.then(|| Self {
            is_open: true,
            ..self.clone()
        })
    }

    /// Whether there is something to remember, of whatever time.
    pub const fn is_settled(&self) -> bool {
        !self.desired.is_empty()
    }

    /// How the record stands to what is wanted now.
    pub fn compare(&self, service: &ServiceView, capability: &Capability) -> Standing {
        if *self.provider != *capability.provider || !self.is_settled() {
            return Standing::Unknown;
        }
        if text(Hash::of(service, capability).0) != self.desired {
            return Standing::Changed;
        }
        // A provider without configuration revision never wants anything made again for it.
        match configuration(capability) {
            Some(now) if text(now) != self.configuration => Standing::Reconfigured,
            // Back to what it was: the Service as it is asks for nothing new.
            _ if self.is_open => Standing::Reconfigured,
            _ => Standing::Settled,
        }
    }
}

impl fmt::Display for Record {
    /// The annotation's value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            provider,
            uid,
            configuration,
            desired,
            is_open,
        } = self;
        write!(f, "{provider}/{uid}/{configuration}/{desired}")?;
        if *is_open {
            write!(f, "{OPEN}")?;
        }
        Ok(())
    }
}

/// How what is wanted stands to what was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The load balancer was made from just this.
    Settled,
    /// The Service is not what it was then.
    Changed,
    /// The Service is, but perhaps not the load balancer: the provider's configuration is another, or
    /// something else was asked for meanwhile. Ensured again, slowly.
    Reconfigured,
    /// Nothing is remembered, or by another provider.
    Unknown,
}

/// What a load balancer is made from, in 16 bytes: the fields of S-21 with `ipFamilies` in full,
/// class and UID, and the annotations that the provider reads. Equal in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(Digest);

impl Hash {
    /// The hash of what `service` wants.
    pub fn of(service: &ServiceView, capability: &Capability) -> Self {
        Self(Desired::of(service, capability).digest())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn configuration(capability: &Capability) -> Option<Digest> {
    let revision = &*capability.configuration_revision;
    (!revision.is_empty()).then(|| {
        // Hashed, since it is opaque, and may hold what an annotation's parts are divided by.
        let mut encoder = Encoder::new("outrigger configuration 1");
        encoder.text(revision);
        encoder.finish()
    })
}

fn text(digest: Digest) -> Box<str> {
    digest.to_string().into()
}

#[cfg(test)]
mod tests;
