//! The form of a request for a serving certificate: all that can be checked without a Node and a cloud.
//!
//! It is at least as strict as the signer in kube-controller-manager, which reads the same bytes with Go. So that both read
//! the same in them, the bytes must be the one canonical encoding of what was read here. The signature by the
//! requested key is not checked again: the API server takes no request in without it.

use std::{net::IpAddr, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use x509_cert::{
    der::{
        Decode, DecodePem, EncodePem, Tag, Tagged,
        asn1::{Any, ObjectIdentifier},
        oid::AssociatedOid,
        pem::LineEnding,
    },
    ext::pkix::{
        SubjectAltName,
        name::{GeneralName, GeneralNames},
    },
    name::Name,
    request::{CertReq, ExtensionReq},
};

use super::{CsrProblem, NODES, RequestSpec, ServingRequest, SubjectName};
use crate::{fault::Excerpt, node::answer::MAX_ADDRESSES};

/// A kubelet's user name and common name before the name of its Node.
const USER: &str = "system:node:";
/// Group of all that the API server has authenticated.
const AUTHENTICATED: &str = "system:authenticated";

/// Without the usage that only an RSA key needs.
const USAGES: [&str; 2] = ["digital signature", "server auth"];
const RSA_USAGE: &str = "key encipherment";

/// Seconds of the shortest certificate that the API server lets a client ask for.
const SHORTEST: i64 = 600;
/// Seconds of the longest certificate that a kubelet may ask for: a year, which is the signer's default.
const LONGEST: i64 = 366 * 24 * 3600;

/// Bytes of a request in base64. That of a kubelet has less than a tenth.
const MOST_BYTES: usize = 32 << 10;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANISATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

const ENCODING: CsrProblem = CsrProblem::of(
    "encoding",
    "spec.request is longer than 32 KiB or not the canonical PEM of one PKCS #10 request",
);
const EXTENSIONS: CsrProblem = CsrProblem::of(
    "extensions",
    "it asks for other extensions or attributes than subject alternative names",
);
const NO_NAMES: CsrProblem = CsrProblem::of("no_names", "it has no subject alternative name");

/// Reads a request of a kubelet for its serving certificate.
pub(super) fn check(spec: &RequestSpec) -> Result<ServingRequest, CsrProblem> {
    let is_in = |group: &str| {
        spec.groups
            .iter()
            .any(|of_requester| **of_requester == *group)
    };
    let node = spec.username.strip_prefix(USER);
    let node = node.filter(|node| !node.is_empty() && is_in(NODES) && is_in(AUTHENTICATED));
    let Some(node) = node else {
        let requester = Excerpt::of(&spec.username);
        let text = format!(
            "its requester {requester} is not system:node:<name> in the groups system:nodes and system:authenticated"
        );
        return Err(CsrProblem::new("requester", text));
    };
    let is_known = |usage: &str| USAGES.contains(&usage) || usage == RSA_USAGE;
    let has = |usage: &str| spec.usages.iter().any(|of_request| **of_request == *usage);
    if !spec.usages.iter().all(|usage| is_known(usage)) || !USAGES.into_iter().all(has) {
        return Err(CsrProblem::of(
            "usages",
            "its usages are not exactly \"digital signature\" and \"server auth\", with or without \"key encipherment\"",
        ));
    }
    let lifetime = spec.expiration_seconds;
    if lifetime.is_some_and(|seconds| !(SHORTEST..=LONGEST).contains(&seconds)) {
        return Err(CsrProblem::of(
            "lifetime",
            "its expirationSeconds are not between 600 and those of a year",
        ));
    }
    Ok(ServingRequest {
        node: Arc::from(node),
        names: names(&spec.request, &spec.username)?,
    })
}

/// The subject alternative names of `request`, which asks for nothing else and for `common_name` in [`NODES`] alone.
fn names(request: &str, common_name: &str) -> Result<Box<[SubjectName]>, CsrProblem> {
    if request.len() > MOST_BYTES {
        return Err(ENCODING);
    }
    let pem = BASE64_STANDARD.decode(request);
    let pem = pem.map_err(|_| ENCODING)?;
    let request = CertReq::from_pem(&pem).map_err(|_| ENCODING)?;
    let canonical = request.to_pem(LineEnding::LF);
    let canonical = canonical.map_err(|_| ENCODING)?;
    if canonical.trim_ascii_end().as_bytes() != pem.trim_ascii_end() {
        return Err(ENCODING);
    }
    if !is_kubelet(&request.info.subject, common_name) {
        return Err(CsrProblem::of(
            "subject",
            "its subject is not exactly the organisation system:nodes and the requester as common name",
        ));
    }
    let extensions = match request.info.attributes.as_slice() {
        [] => return Err(NO_NAMES),
        [attribute] if attribute.oid == ExtensionReq::OID => match attribute.values.as_slice() {
            [value] => value.decode_as::<ExtensionReq>(),
            _ => return Err(EXTENSIONS),
        },
        _ => return Err(EXTENSIONS),
    };
    let ExtensionReq(extensions) = extensions.map_err(|_| ENCODING)?;
    let names = match &*extensions {
        [] => return Err(NO_NAMES),
        [extension] if extension.extn_id == SubjectAltName::OID => {
            GeneralNames::from_der(extension.extn_value.as_bytes())
        }
        _ => return Err(EXTENSIONS),
    };
    let names = names.map_err(|_| ENCODING)?;
    if names.is_empty() {
        return Err(NO_NAMES);
    }
    if names.len() > MAX_ADDRESSES {
        return Err(CsrProblem::of(
            "too_many_names",
            "it has more than 64 subject alternative names",
        ));
    }
    names.iter().map(name).collect()
}

/// True if `subject` is the organisation of kubelets and `common_name`, and no more.
fn is_kubelet(subject: &Name, common_name: &str) -> bool {
    let parts: Vec<_> = subject
        .iter()
        .map(|part| (part.oid, text(&part.value)))
        .collect();
    let has = |oid, value| parts.contains(&(oid, Some(value)));
    parts.len() == 2 && has(ORGANISATION, NODES) && has(COMMON_NAME, common_name)
}

/// A string in one of the two encodings that are in use.
fn text(value: &Any) -> Option<&str> {
    let is_string = matches!(value.tag(), Tag::PrintableString | Tag::Utf8String);
    std::str::from_utf8(value.value())
        .ok()
        .filter(|_| is_string)
}

fn name(name: &GeneralName) -> Result<SubjectName, CsrProblem> {
    let ip = |ip: IpAddr| Ok(SubjectName::Ip(ip.to_canonical()));
    match name {
        GeneralName::DnsName(name) => Ok(SubjectName::Dns(name.as_str().into())),
        GeneralName::IpAddress(octets) => {
            let octets = octets.as_bytes();
            if let Ok(octets) = <[u8; 4]>::try_from(octets) {
                return ip(octets.into());
            }
            let octets = <[u8; 16]>::try_from(octets);
            ip(octets.map_err(|_| ENCODING)?.into())
        }
        _ => Err(CsrProblem::of(
            "other_names",
            "a subject alternative name is neither a DNS name nor an IP address",
        )),
    }
}
