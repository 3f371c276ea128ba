//! The last-applied hash of a Service: what its load balancer was last made from, remembered on the Service itself, so that
//! a restart has nothing to do.
//!
//! [`super::plan`] writes the record in the same patch as the addresses, and compares it with the desired state before each
//! call ([`LastApplied::compare`]). The record names its provider and the UID of its Service: a record that was copied to
//! another Service, or is another provider's, never counts as settled.

use std::fmt;

use super::{Ingress, ServiceView, capability::Capability, patch_plan::defaulted};
use crate::digest::{Digest, Encoder};

/// Annotation with the [`LastApplied`]. Means nothing to upstream's controller.
pub const ANNOTATION_LAST_APPLIED: &str = "outrigger.dev/last-applied";

/// The provider that works on a Service, the class, and from what the load balancer was made when it was
/// last as wanted: `<provider>/<Service UID>/<class>/<configuration>/<desired>`. The class is empty for a
/// Service without one. The last two are 32 hexadecimal digits, or empty as long as there is nothing to
/// remember; after the desired state, `@` and a hash of the addresses that were written with it.
///
/// A load balancer whose record has a hash has the targets that the Lease names. Where it cannot take other targets, or
/// does not, the record loses its hash instead ([`LastApplied::without_hash`]).
///
/// It is valid for the UID in it alone: a manifest that was copied with all its annotations must not
/// look settled, nor assign its load balancer to the wrong provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastApplied {
    /// Name of the provider that works on the Service.
    pub provider: Box<str>,
    uid: Box<str>,
    /// `spec.loadBalancerClass`, empty without.
    class: Box<str>,
    configuration: Box<str>,
    desired: Box<str>,
    /// Hash of the addresses of the load balancer, or [`ELSEWHERE`]; none of a load balancer that is not managed.
    addresses: Option<Box<str>>,
}

const ADDRESSES: char = '@';
/// Instead of a hash: the addresses are not the provider's to say, so that any are right.
const ELSEWHERE: &str = "elsewhere";

/// Digits of the hash of addresses. The hashed text is public, and a second list with the same hash would only stay.
const ADDRESS_DIGITS: usize = 16;

impl LastApplied {
    /// The record on `service`, if it has one of its own.
    pub fn of(service: &ServiceView) -> Option<Self> {
        let value = service.annotations.get(ANNOTATION_LAST_APPLIED)?;
        let (provider, rest) = value.split_once('/')?;
        let (uid, rest) = rest.split_once('/')?;
        let (rest, desired) = rest.rsplit_once('/')?;
        // A class has slashes of its own.
        let (class, configuration) = rest.rsplit_once('/')?;
        let (desired, addresses) = match desired.split_once(ADDRESSES) {
            Some((desired, addresses)) => (desired, Some(addresses.into())),
            None => (desired, None),
        };
        (*uid == *service.uid).then(|| Self {
            provider: provider.into(),
            uid: uid.into(),
            class: class.into(),
            configuration: configuration.into(),
            desired: desired.into(),
            addresses,
        })
    }

    /// [`LastApplied::of`], where the record is of the provider that `capability` is about.
    pub fn own(service: &ServiceView, capability: &Capability) -> Option<Self> {
        Self::of(service).filter(|record| *record.provider == *capability.provider)
    }

    /// Returns true if an annotation's value is that of a settled load balancer.
    pub(super) fn is_with_hash(value: &str) -> bool {
        !value.ends_with('/')
    }

    /// The provider works on `service`, and there is nothing to remember yet.
    pub fn begun(service: &ServiceView, capability: &Capability) -> Self {
        Self {
            provider: capability.provider.clone(),
            uid: service.uid.clone(),
            class: class_of(service).into(),
            configuration: Box::default(),
            desired: Box::default(),
            addresses: None,
        }
    }

    /// The load balancer of `service` is as `hash` wants it.
    pub fn with_hash(service: &ServiceView, capability: &Capability, hash: Hash) -> Self {
        Self {
            configuration: configuration(capability).map_or_else(Box::default, text),
            desired: text(hash.0),
            ..Self::begun(service, capability)
        }
    }

    /// The same with the addresses of a load balancer that is settled.
    #[must_use]
    pub(super) fn with_addresses(mut self, ingress: &[Ingress]) -> Self {
        self.addresses = self.has_hash().then(|| hash_of_addresses(ingress));
        self
    }

    /// The same of a load balancer that is settled, and whose addresses are not its provider's to say.
    #[must_use]
    pub(super) fn with_addresses_elsewhere(mut self) -> Self {
        self.addresses = self.has_hash().then(|| ELSEWHERE.into());
        self
    }

    /// Returns true if these are the addresses that were written with the record, as far as it says.
    pub fn has_addresses(&self, ingress: &[Ingress]) -> bool {
        match &self.addresses {
            Some(addresses) => {
                &**addresses == ELSEWHERE || *addresses == hash_of_addresses(ingress)
            }
            None => !self.has_hash() || !ingress.is_empty(),
        }
    }

    /// The same of a load balancer that is ensured again before it counts as settled; none if this one is such.
    pub(super) fn without_hash(&self) -> Option<Self> {
        self.has_hash().then(|| Self {
            configuration: Box::default(),
            desired: Box::default(),
            addresses: None,
            ..self.clone()
        })
    }

    /// Returns true if there is something to remember, of whatever time.
    pub const fn has_hash(&self) -> bool {
        !self.desired.is_empty()
    }

    /// Returns true if the provider serves the class that the load balancer was made for.
    pub fn is_served(&self, capability: &Capability) -> bool {
        capability.serves((!self.class.is_empty()).then_some(&*self.class))
    }

    /// Returns true if `service` has another class than the load balancer was made for.
    pub fn is_of_other_class(&self, service: &ServiceView) -> bool {
        *self.class != *class_of(service)
    }

    /// Compares the record with the desired state, whose hash is `hash`.
    pub fn compare(
        &self,
        service: &ServiceView,
        capability: &Capability,
        hash: Hash,
    ) -> Comparison {
        if *self.provider != *capability.provider || !self.has_hash() {
            return Comparison::Unknown;
        }
        if self.is_of_other_class(service) || text(hash.0) != self.desired {
            return Comparison::Changed;
        }
        // A provider without configuration revision never wants anything made again for it.
        match configuration(capability) {
            Some(now) if text(now) != self.configuration => Comparison::Reconfigured,
            _ => Comparison::Same,
        }
    }
}

/// `spec.loadBalancerClass`, empty without.
fn class_of(service: &ServiceView) -> &str {
    service.spec.load_balancer_class.as_deref().unwrap_or("")
}

impl fmt::Display for LastApplied {
    /// The annotation's value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            provider,
            uid,
            class,
            configuration,
            desired,
            addresses,
        } = self;
        write!(f, "{provider}/{uid}/{class}/{configuration}/{desired}")?;
        if let Some(addresses) = addresses {
            write!(f, "{ADDRESSES}{addresses}")?;
        }
        Ok(())
    }
}

/// Result of comparing a record with the desired state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The load balancer was made from just this.
    Same,
    /// The Service is not what it was then.
    Changed,
    /// The Service is, but perhaps not the load balancer: the provider's configuration is another. Ensured again, slowly.
    Reconfigured,
    /// Nothing is remembered, or by another provider.
    Unknown,
}

/// Hash of a load balancer's inputs, in 16 bytes: the fields of S-21 with `ipFamilies` in full,
/// class and UID, and the annotations that the provider reads. Equal in every release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(Digest);

impl Hash {
    /// The hash of what `service` wants: the fields whose change makes a load balancer another one (S-21), with the class,
    /// `ipFamilies` in full and `ipFamilyPolicy`: each field of the spec that a provider is sent, so that none of them is stale
    /// there. The rest of a Service (S-22) may change without a call.
    ///
    /// Stored with Services and compared by later releases: another order, another field or
    /// another spelling of one ensures every load balancer of every cluster once more.
    pub fn of(service: &ServiceView, capability: &Capability) -> Self {
        let spec = &service.spec;
        let mut encoder = Encoder::new("outrigger service 1");
        encoder.text(&service.uid);
        encoder.option(spec.load_balancer_class.as_deref(), Encoder::text);
        encoder.list(spec.ports.iter(), |encoder, port| {
            encoder.text(&port.name);
            encoder.text(&port.protocol);
            encoder.number(port.port);
            encoder.number(port.node_port);
            encoder.text(&port.target_port);
            encoder.option(port.app_protocol.as_deref(), Encoder::text);
        });
        encoder.texts(&spec.load_balancer_source_ranges);
        encoder.text(&spec.session_affinity);
        encoder.option(spec.session_affinity_timeout, Encoder::number);
        encoder.text(&spec.load_balancer_ip);
        encoder.texts(&spec.external_ips);
        encoder.text(&spec.external_traffic_policy);
        encoder.number(spec.health_check_node_port);
        encoder.texts(&spec.ip_families);
        encoder.text(&spec.ip_family_policy);
        // By key, so that their order, which means nothing, changes nothing.
        let annotations: Vec<_> = service
            .annotations
            .iter()
            .filter(|(key, _)| capability.is_moved_by(key))
            .collect();
        encoder.list(annotations.iter(), |encoder, (key, value)| {
            encoder.text(key);
            encoder.text(value);
        });
        Self(encoder.finish())
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

fn hash_of_addresses(ingress: &[Ingress]) -> Box<str> {
    // In any order, as they are compared.
    let mut sorted = defaulted(ingress).into_vec();
    sorted.sort_by(|a, b| (&a.ip, &a.hostname).cmp(&(&b.ip, &b.hostname)));
    let mut encoder = Encoder::new("outrigger addresses 1");
    encoder.list(sorted.iter(), |encoder, entry| {
        encoder.text(&entry.ip);
        encoder.text(&entry.hostname);
        encoder.text(entry.ip_mode.as_deref().unwrap_or_default());
        encoder.list(entry.ports.iter(), |encoder, port| {
            encoder.number(port.port);
            encoder.text(&port.protocol);
            encoder.text(port.error.as_deref().unwrap_or_default());
        });
    });
    let mut digits = encoder.finish().to_string();
    digits.truncate(ADDRESS_DIGITS);
    digits.into()
}

fn text(digest: Digest) -> Box<str> {
    digest.to_string().into()
}

#[cfg(test)]
mod tests;
