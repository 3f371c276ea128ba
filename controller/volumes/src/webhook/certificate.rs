//! The certificate that replicas share: how one is made, and when the next one takes its place.
//!
//! Each certificate has a CA of its own, whose key is forgotten at once. A next certificate is made while
//! the current one is valid for long, its CA joins the bundle, and it is served once the API server can know the
//! CA. A CA leaves the bundle when its certificate has expired, so that a replica that has not seen the next
//! one yet is trusted meanwhile.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::CertifiedKey,
};

use outrigger_kubernetes::certificate::{subject_names, validity};
use outrigger_server::Pem;

/// How long a certificate is valid. The next one is made in the last third.
const VALID: Duration = Duration::from_hours(365 * 24);

/// Clocks differ.
const SKEW: Duration = Duration::from_hours(1);

/// Every API server has seen a new CA after this time, and every replica the next certificate.
const SETTLE: Duration = Duration::from_mins(5);

/// Contents of the Secret that replicas share.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    /// CAs, as PEM.
    pub(super) bundle: String,
    /// The certificate that is served.
    pub(super) current: Pem,
    /// The one that takes its place.
    pub(super) next: Option<Pem>,
}

/// The contents that are to be stored instead of `stored`; none: they stay. `names` are those that the API
/// server may verify. `trusted` is the bundle that it has, as far as that can be seen: until that is the stored one, no
/// next certificate is served while the current one is good. Without stored contents its CAs stay, since another replica
/// may still serve a certificate of theirs.
///
/// # Errors
/// No key can be made.
pub(super) fn plan(
    stored: Option<&Contents>,
    names: &[String],
    trusted: Option<&str>,
    now: Timestamp,
) -> Result<Option<Contents>, rcgen::Error> {
    let bundle = stored.map_or(trusted.unwrap_or_default(), |stored| &stored.bundle);
    let current = stored.and_then(|stored| Usable::of(&stored.current, bundle, now));
    let next = stored.and_then(|stored| stored.next.as_ref());
    let next = next.and_then(|pem| Usable::of(pem, bundle, now));
    if let Some(next) = next {
        let is_settled = now.duration_since(next.made) >= seconds(SETTLE);
        let is_known = is_settled && trusted == Some(bundle);
        if is_known || current.is_none() {
            return Ok(Some(Contents {
                bundle: valid(bundle, now),
                current: next.pem.clone(),
                next: None,
            }));
        }
        return Ok(None);
    }
    // A replica with other flags needs its names, too: the two must not undo each other's work.
    let mut all = names.to_vec();
    let present = current.as_ref().map_or(&[][..], |current| &current.names);
    all.extend(present.iter().filter(|name| !names.contains(name)).cloned());
    let is_complete = names.iter().all(|name| present.contains(name));
    if is_complete && current.as_ref().is_some_and(|current| !current.is_due(now)) {
        return Ok(None);
    }
    let (ca, made) = make(&all, now)?;
    let bundle = valid(bundle, now) + &ca;
    Ok(Some(match current {
        Some(current) => Contents {
            bundle,
            current: current.pem.clone(),
            next: Some(made),
        },
        None => Contents {
            bundle,
            current: made,
            next: None,
        },
    }))
}

/// When `pem` expires.
pub(super) fn end(pem: &Pem) -> Option<Timestamp> {
    let chain = CertificateDer::pem_slice_iter(pem.certificate.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
    validity(&chain).map(|(_, end)| end)
}

/// True if clients with `bundle` accept `pem` at the time `now`.
#[cfg(test)]
pub(super) fn is_usable(pem: &Pem, bundle: &str, now: Timestamp) -> bool {
    Usable::of(pem, bundle, now).is_some()
}

/// A certificate that clients with the bundle accept now.
struct Usable<'a> {
    pem: &'a Pem,
    names: Vec<String>,
    made: Timestamp,
    end: Timestamp,
}

impl<'a> Usable<'a> {
    fn of(pem: &'a Pem, bundle: &str, now: Timestamp) -> Option<Self> {
        let chain = CertificateDer::pem_slice_iter(pem.certificate.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).ok()?;
        let (own, others) = chain.split_first()?;
        let (begin, end) = validity(&chain)?;
        let names = subject_names(own);
        let mut roots = RootCertStore::empty();
        let authorities = CertificateDer::pem_slice_iter(bundle.as_bytes());
        roots.add_parsable_certificates(authorities.filter_map(Result::ok));
        let crypto = Arc::new(rustls::crypto::ring::default_provider());
        CertifiedKey::from_der(chain.clone(), key, &crypto).ok()?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), crypto);
        let server = ServerName::try_from(names.first()?.clone()).ok()?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().try_into().ok()?));
        let verifier = verifier.build().ok()?;
        verifier
            .verify_server_cert(own, others, &server, &[], at)
            .ok()?;
        Some(Self {
            pem,
            names,
            made: begin.saturating_add(seconds(SKEW)).ok()?,
            end,
        })
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.end.duration_since(now) < seconds(VALID / 3)
    }
}

fn seconds(duration: Duration) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(duration.as_secs() as i64)
}

/// The CAs of `bundle` that have not expired.
fn valid(bundle: &str, now: Timestamp) -> String {
    const END: &str = "-----END CERTIFICATE-----\n";
    let blocks = bundle.split_inclusive(END);
    let valid = blocks.filter(|block| {
        let der = CertificateDer::from_pem_slice(block.as_bytes());
        let end = der.ok().and_then(|der| validity(&[der]));
        end.is_some_and(|(_, end)| end > now)
    });
    valid.collect()
}

/// A CA, and a certificate of it for `names`.
fn make(names: &[String], now: Timestamp) -> Result<(String, Pem), rcgen::Error> {
    let made = Duration::from_secs(now.as_second().try_into().unwrap_or_default());
    let epoch = date_time_ymd(1970, 1, 1);
    let (begin, end) = (epoch + made.saturating_sub(SKEW), epoch + (made + VALID));
    let named = |params: &mut CertificateParams, name: &str| {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = (begin, end);
    };
    let mut authority = CertificateParams::default();
    let name = format!("cloud-controller-manager-webhook-ca@{}", now.as_second());
    named(&mut authority, &name);
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    let ca = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);

    let mut params = CertificateParams::new(names)?;
    named(&mut params, names.first().map_or("", |name| name));
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let pem = Pem {
        certificate: params.signed_by(&key, &issuer)?.pem(),
        key: key.serialize_pem(),
    };
    Ok((ca.replace("\r\n", "\n"), pem))
}

#[cfg(test)]
mod tests;
