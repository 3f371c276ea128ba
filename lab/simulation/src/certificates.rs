//! Requests for serving certificates, of kubelets and of attackers, and what becomes of them.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use outrigger_provider_mock::{Cloud, instances::Power};
use serde_json::{Value, json};
use x509_cert::{
    attr::Attributes,
    der::{
        self, Encode, EncodePem,
        asn1::{BitString, Ia5String, ObjectIdentifier, OctetString},
        oid::AssociatedOid,
        pem::LineEnding,
    },
    ext::{
        Extension,
        pkix::{SubjectAltName, name::GeneralName},
    },
    request::{CertReq, CertReqInfo, ExtensionReq, Version},
    spki::{AlgorithmIdentifier, SubjectPublicKeyInfo},
};

use crate::{
    apiserver::{ApiServer, Change},
    host,
};

/// Their collection.
pub const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// How long a request waits for its approval; its kubelet makes another one then.
pub const PATIENCE: Duration = Duration::from_mins(15);

/// Annotations of a request, for the promises alone: the controller reads the certificate that is asked for.
const NAMES: &str = "simulated/names";
const NODE: &str = "simulated/node";
const FLAW: &str = "simulated/flaw";

const EVENTS: &str = "/api/v1/namespaces/default/events";

const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A request: the kubelet of `node` asks for a certificate with `names`.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// The name of its Node.
    pub node: String,
    /// DNS names and IP addresses.
    pub names: Vec<String>,
    /// Something that no kubelet asks for.
    pub flaw: Option<Flaw>,
}

/// Something that only an attacker asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It is a user, not a kubelet.
    User,
    /// A certificate of another kubelet.
    Subject,
    /// It is in no group of kubelets.
    Groups,
    /// A certificate for a client.
    Usages,
    /// A certificate for ten years.
    Lifetime,
}

impl CertificateRequest {
    /// The request as an object of this name.
    ///
    /// # Errors
    /// Names that no certificate can have.
    pub fn object(&self, name: &str) -> Result<Value, der::Error> {
        let is = |flaw| self.flaw == Some(flaw);
        let user = format!("system:node:{}", self.node);
        let subject = if is(Flaw::Subject) {
            "system:node:m9"
        } else {
            &user
        };
        let pem = self.pkcs10(subject)?.to_pem(LineEnding::LF)?;
        let groups = if is(Flaw::Groups) {
            "system:masters"
        } else {
            "system:nodes"
        };
        let usage = if is(Flaw::Usages) { "client" } else { "server" };
        let mut annotations = json!({NODE: self.node, NAMES: self.names.join(" ")});
        if let Some(flaw) = self.flaw {
            annotations[FLAW] = json!(format!("{flaw:?}"));
        }
        Ok(json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "signerName": "kubernetes.io/kubelet-serving",
                "request": BASE64_STANDARD.encode(pem),
                "username": if is(Flaw::User) { "eve" } else { &user },
                "groups": [groups, "system:authenticated"],
                "usages": ["digital signature", format!("{usage} auth")],
                "expirationSeconds": if is(Flaw::Lifetime) { 315_360_000 } else { 86_400 },
            },
        }))
    }

    /// With a key that is none: the API server looks at it and at the signature, and the simulated one does not.
    fn pkcs10(&self, subject: &str) -> Result<CertReq, der::Error> {
        let names: Result<_, der::Error> =
            self.names.iter().map(|name| general_name(name)).collect();
        let extension = Extension {
            extn_id: SubjectAltName::OID,
            critical: false,
            extn_value: OctetString::new(SubjectAltName(names?).to_der()?)?,
        };
        let mut attributes = Attributes::new();
        attributes.insert(ExtensionReq(vec![extension]).try_into()?)?;
        let algorithm = AlgorithmIdentifier {
            oid: ED25519,
            parameters: None,
        };
        Ok(CertReq {
            info: CertReqInfo {
                version: Version::V1,
                subject: format!("CN={subject},O=system:nodes").parse()?,
                public_key: SubjectPublicKeyInfo {
                    algorithm: algorithm.clone(),
                    subject_public_key: BitString::from_bytes(&[7; 32])?,
                },
                attributes,
            },
            algorithm,
            signature: BitString::from_bytes(&[7; 64])?,
        })
    }
}

fn general_name(name: &str) -> Result<GeneralName, der::Error> {
    Ok(match name.parse() {
        Ok(IpAddr::V4(ip)) => GeneralName::IpAddress(OctetString::new(ip.octets())?),
        Ok(IpAddr::V6(ip)) => GeneralName::IpAddress(OctetString::new(ip.octets())?),
        Err(_) => GeneralName::DnsName(Ia5String::new(name)?),
    })
}

/// Watches the requests of a run.
#[derive(Default)]
pub struct Approvals {
    /// By UID, those that nothing was decided about.
    pending: BTreeMap<String, Pending>,
}

struct Pending {
    object: Arc<Value>,
    made: Duration,
    /// The cloud has reported each of its names for its machine since it was made.
    was_right: bool,
    /// The term of the leader in which it was made.
    term: u64,
}

impl Approvals {
    /// A request was written in this `term` of a leader, by a controller or by others.
    ///
    /// # Errors
    /// The promise that is broken.
    pub fn written(
        &mut self,
        change: &Change,
        by_controller: bool,
        term: u64,
        cloud: &Cloud,
    ) -> Result<(), String> {
        let (before, after) = (&change.before, &change.after);
        let Some(object) = after.as_ref().or(before.as_ref()) else {
            return Ok(());
        };
        let uid = object["metadata"]["uid"].to_string();
        let conditions = &object["status"]["conditions"];
        match (before, after) {
            (None, Some(_)) => {
                let pending = Pending {
                    object: Arc::clone(object),
                    made: host::elapsed(),
                    was_right: is_right(object, cloud),
                    term,
                };
                self.pending.insert(uid, pending);
            }
            (Some(_), Some(_)) if by_controller => {
                let pending = self.pending.remove(&uid);
                let may_be = pending.is_some_and(|one| one.was_right || is_right(object, cloud));
                let is_approved = conditions.as_array().map_or(0, Vec::len) == 1
                    && conditions[0]["type"] == "Approved";
                if !may_be || !is_approved {
                    return Err(format!(
                        "a request for a certificate whose names the cloud has not reported gets {conditions}: {:?}",
                        object["metadata"]["annotations"]
                    ));
                }
            }
            _ => drop(self.pending.remove(&uid)),
        }
        Ok(())
    }

    /// Looks at the cloud.
    pub fn look(&mut self, cloud: &Cloud) {
        for pending in self.pending.values_mut() {
            pending.was_right |= is_right(&pending.object, cloud);
        }
    }

    /// Differences from what kubelets want, given the `nodes` and this `term` of a leader: each request that is right is
    /// approved, and each other one has an event that says why it is not; one with a flaw has one in a term.
    pub fn complaints(
        &self,
        nodes: &[Value],
        term: u64,
        api: &ApiServer,
        cloud: &Cloud,
    ) -> Vec<String> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let events = api.list(EVENTS).unwrap_or_default();
        let mut wrong = Vec::new();
        for pending in self.pending.values() {
            let metadata = &pending.object["metadata"];
            let about = events
                .iter()
                .filter(|event| event["involvedObject"]["uid"] == metadata["uid"]);
            let count: u64 = about
                .map(|event| event["count"].as_u64().unwrap_or(1))
                .sum();
            let complain =
                |what: String| format!("the request {} for a certificate {what}", metadata["name"]);
            if is_right(&pending.object, cloud) {
                let is_young = host::elapsed() < pending.made + PATIENCE;
                if is_young && has_node(&pending.object, nodes, cloud) {
                    wrong.push(complain("is right and not approved".to_owned()));
                }
            } else if count == 0 {
                wrong.push(complain("is wrong, and no event says why".to_owned()));
            } else if !metadata["annotations"][FLAW].is_null() && count > 1 + term - pending.term {
                wrong.push(complain(format!("has {count} events")));
            }
        }
        wrong
    }
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"]["annotations"][name]
        .as_str()
        .unwrap_or_default()
}

/// Returns true if the cloud reports each name of the request for its machine, and that runs.
fn is_right(object: &Value, cloud: &Cloud) -> bool {
    let node = annotation(object, NODE);
    let Some(machine) = cloud.find(node) else {
        return false;
    };
    let mut names = annotation(object, NAMES).split(' ');
    annotation(object, FLAW).is_empty()
        && matches!(machine.power, Power::Running | Power::Pending)
        && names
            .all(|name| name == node || machine.addresses.iter().any(|one| one.as_str() == name))
}

/// Returns true if the Node of the request is that of the machine of its name.
fn has_node(object: &Value, nodes: &[Value], cloud: &Cloud) -> bool {
    let name = annotation(object, NODE);
    let id = cloud
        .find(name)
        .map(|machine| cloud.provider_id(&machine.id));
    let mut nodes = nodes.iter();
    nodes.any(|node| {
        node["metadata"]["name"] == name && node["spec"]["providerID"].as_str() == id.as_deref()
    })
}
