//! Requests that a kubelet makes, and those of an attacker.

use std::{net::IpAddr, str::FromStr};

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};
use x509_cert::{
    attr::Attribute,
    der::{
        Decode, Encode, EncodePem,
        asn1::{Any, BitString, Ia5String, ObjectIdentifier, OctetString, SetOfVec},
        oid::AssociatedOid,
        pem::{self, LineEnding},
    },
    ext::{
        Extension,
        pkix::{SubjectAltName, name::GeneralName},
    },
    name::Name,
    request::{CertReq, CertReqInfo, ExtensionReq, Version},
    spki::{AlgorithmIdentifier, SubjectPublicKeyInfo},
};

use super::*;
use crate::node::{
    NodeAddress, NodeView,
    instance::{Instance, Lookup, PowerState},
    ownership::Prefixes,
};

/// Made by Go's `x509.CreateCertificateRequest` from the template of a kubelet.
const OF_KUBELET: &str = "-----BEGIN CERTIFICATE REQUEST-----
MIIBNTCB3AIBADAwMRUwEwYDVQQKEwxzeXN0ZW06bm9kZXMxFzAVBgNVBAMTDnN5
c3RlbTpub2RlOm4xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAElBz1+r1IJBib
aIUCgemklmYSTgnTk96zuGURo96ADyH1VV2xWTEc69VcXTBALn6qL1LqyZ/X7qst
OPLjCzW9SqBKMEgGCSqGSIb3DQEJDjE7MDkwNwYDVR0RBDAwLoICbjGCEG4xLmNs
b3VkLmV4YW1wbGWHBAoAAAGHECABDbgAAAAAAAAAAAAAAAEwCgYIKoZIzj0EAwID
SAAwRQIhALS+lGB/2mmdoh0jYOIq6xnYISF1UluoY/479ZRroaycAiBryt/Vo8N+
njnKNQAc4uPd1G2va+T3ALYMGLtMDH3CdA==
-----END CERTIFICATE REQUEST-----
";

const SUBJECT: &str = "CN=system:node:n1,O=system:nodes";

fn dns(name: &str) -> GeneralName {
    GeneralName::DnsName(Ia5String::new(name).unwrap())
}

fn ip(ip: &str) -> GeneralName {
    GeneralName::from(ip.parse::<IpAddr>().unwrap())
}

/// The names of [`OF_KUBELET`].
fn own_names() -> Vec<GeneralName> {
    vec![
        dns("n1"),
        dns("n1.cloud.example"),
        ip("10.0.0.1"),
        ip("2001:db8::1"),
    ]
}

fn extension(extn_id: ObjectIdentifier, value: &[u8]) -> Extension {
    Extension {
        extn_id,
        critical: false,
        extn_value: OctetString::new(value).unwrap(),
    }
}

fn alternative_names(names: &[GeneralName]) -> Extension {
    extension(SubjectAltName::OID, &names.to_vec().to_der().unwrap())
}

fn attribute(values: Vec<Any>) -> Attribute {
    Attribute {
        oid: ExtensionReq::OID,
        values: SetOfVec::try_from(values).unwrap(),
    }
}

fn extensions(extensions: &[Extension]) -> Any {
    Any::encode_from(&extensions.to_vec()).unwrap()
}

/// A request with an empty key and signature, which are not looked at.
fn request(subject: &str, attributes: Vec<Attribute>) -> CertReq {
    let algorithm = AlgorithmIdentifier {
        oid: ObjectIdentifier::new_unwrap("1.2.840.10045.2.1"),
        parameters: None,
    };
    let bits = || BitString::from_bytes(&[0]).unwrap();
    CertReq {
        info: CertReqInfo {
            version: Version::V1,
            subject: Name::from_str(subject).unwrap(),
            public_key: SubjectPublicKeyInfo {
                algorithm: algorithm.clone(),
                subject_public_key: bits(),
            },
            attributes: SetOfVec::try_from(attributes).unwrap(),
        },
        algorithm,
        signature: bits(),
    }
}

fn pem(subject: &str, attributes: Vec<Attribute>) -> String {
    request(subject, attributes).to_pem(LineEnding::LF).unwrap()
}

/// With `names` alone.
fn pem_of(names: &[GeneralName]) -> String {
    let attribute = attribute(vec![extensions(&[alternative_names(names)])]);
    pem(SUBJECT, vec![attribute])
}

/// The request of the kubelet of `n1`, with this PEM.
fn csr(pem: &str) -> Value {
    json!({
        "metadata": {"name": "csr-1", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "signerName": SIGNER, "request": BASE64_STANDARD.encode(pem),
            "username": "system:node:n1", "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "key encipherment", "server auth"],
        },
        "status": {},
    })
}

fn view(csr: Value) -> CsrView {
    serde_json::from_value(csr).unwrap()
}

fn address(kind: &str, address: &str) -> NodeAddress {
    NodeAddress {
        kind: kind.into(),
        address: address.into(),
    }
}

/// The Node of `n1`, whose kubelet has written other addresses into its status.
fn node() -> NodeView {
    NodeView {
        name: "n1".into(),
        uid: "uid-n1".into(),
        provider_id: "mock://i-1".into(),
        addresses: [
            address("InternalIP", "10.0.0.66"),
            address("Hostname", "api.example"),
        ]
        .into(),
        ..NodeView::default()
    }
}

fn instance() -> Instance {
    Instance {
        provider_id: "mock://i-1".into(),
        addresses: [
            address("Hostname", "n1"),
            address("InternalIP", "10.0.0.1"),
            address("InternalIP", "2001:db8::1"),
            address("InternalDNS", "N1.cloud.example"),
        ]
        .into(),
        ..Instance::default()
    }
}

fn found(instance: Instance) -> Lookup {
    Lookup::Found(Box::new(instance))
}

fn prefixes() -> Prefixes {
    Prefixes::new("mock", [""; 0]).unwrap()
}

/// `approved`, or the reason why not, of a request to a cluster with `node` and `others` and a cloud that answers `answer`.
fn outcome(
    csr: &CsrView,
    node: Option<NodeView>,
    answer: &Lookup,
    others: &[NodeView],
) -> &'static str {
    let node = node.map(Arc::new);
    let of_name = |name: &str| node.filter(|node| *node.name == *name);
    match step(csr, of_name, &prefixes(), false) {
        CsrStep::Nothing => "nothing",
        CsrStep::Leave(problem) => problem.reason,
        CsrStep::Await(problem) => problem.reason,
        CsrStep::Ask(request, node) => {
            match decide(request, &node, answer, others.iter().chain([&*node])) {
                Ok(()) => "approved",
                Err(problem) => problem.reason,
            }
        }
    }
}

/// The same with `n1` and its instance as they are.
fn of_n1(csr: Value) -> &'static str {
    outcome(&view(csr), Some(node()), &found(instance()), &[])
}

#[test]
fn the_request_of_a_kubelet_is_approved() {
    assert_eq!(of_n1(csr(OF_KUBELET)), "approved");
    assert_eq!(of_n1(csr(&pem_of(&own_names()))), "approved");
    let edited = |edit: fn(&mut Value)| {
        let mut csr = csr(OF_KUBELET);
        edit(&mut csr["spec"]);
        of_n1(csr)
    };
    // An elliptic key, a lifetime, and more groups, as another authenticator gives.
    assert_eq!(
        edited(|spec| spec["usages"] = json!(["server auth", "digital signature"])),
        "approved"
    );
    assert_eq!(
        edited(|spec| spec["expirationSeconds"] = (366 * 86_400).into()),
        "approved"
    );
    assert_eq!(
        edited(|spec| spec["groups"] = json!([
            "system:authenticated",
            "system:bootstrappers",
            "system:nodes"
        ])),
        "approved"
    );
    // The case of a name does not matter, and an IPv4 address may be written as IPv6.
    assert_eq!(
        of_n1(csr(&pem_of(&[dns("N1"), ip("::ffff:10.0.0.1")]))),
        "approved"
    );
}

#[test]
fn what_the_api_server_says_about_the_requester_has_to_fit() {
    let edited = |key: &str, value: Value| {
        let mut csr = csr(OF_KUBELET);
        csr["spec"][key] = value;
        of_n1(csr)
    };
    for (key, value, reason) in [
        // Whoever may create requests, with the subject of a kubelet (deckhouse#22901).
        ("username", json!("eve"), "requester"),
        (
            "username",
            json!("system:serviceaccount:kube-system:default"),
            "requester",
        ),
        ("username", json!("system:node:"), "requester"),
        ("username", json!("system:bootstrap:abcdef"), "requester"),
        ("groups", json!(["system:authenticated"]), "requester"),
        ("groups", json!(["system:nodes"]), "requester"),
        (
            "groups",
            json!(["system:bootstrappers", "system:authenticated"]),
            "requester",
        ),
        ("groups", json!(null), "requester"),
        // Another Node than the one in the subject.
        ("username", json!("system:node:n2"), "subject"),
        ("username", json!("system:node:N1"), "subject"),
        (
            "usages",
            json!(["digital signature", "server auth", "client auth"]),
            "usages",
        ),
        (
            "usages",
            json!(["digital signature", "client auth"]),
            "usages",
        ),
        (
            "usages",
            json!(["digital signature", "server auth", "cert sign"]),
            "usages",
        ),
        ("usages", json!(["server auth"]), "usages"),
        ("usages", json!(["any"]), "usages"),
        ("usages", json!([]), "usages"),
        ("expirationSeconds", json!(599), "lifetime"),
        ("expirationSeconds", json!(-1), "lifetime"),
        ("expirationSeconds", json!(367 * 86_400), "lifetime"),
        ("expirationSeconds", json!(i64::MAX), "lifetime"),
        (
            "signerName",
            json!("kubernetes.io/kube-apiserver-client-kubelet"),
            "nothing",
        ),
        (
            "signerName",
            json!("kubernetes.io/kubelet-serving2"),
            "nothing",
        ),
    ] {
        assert_eq!(edited(key, value.clone()), reason, "{key}: {value}");
    }
}

#[test]
fn a_subject_of_more_or_less_than_a_kubelet_is_left_alone() {
    for subject in [
        "CN=system:node:n1",
        "O=system:nodes",
        "CN=system:node:n2,O=system:nodes",
        "CN=system:node:n1,O=system:masters",
        "CN=system:node:n1,O=system:nodes,O=system:masters",
        "CN=system:node:n1,O=system:masters+O=system:nodes",
        "CN=system:node:n1,CN=kubernetes,O=system:nodes",
        "CN=system:node:n1,O=system:nodes,OU=system:masters",
        "CN=system:node:n1,OU=system:nodes",
        "CN=system:node:n1 ,O=system:nodes\\ ",
    ] {
        let attribute = attribute(vec![extensions(&[alternative_names(&own_names())])]);
        assert_eq!(
            of_n1(csr(&pem(subject, vec![attribute]))),
            "subject",
            "{subject}"
        );
    }
}

/// talos#360, exoscale#105: the name of another machine, of the API server, of a Service, or a wildcard.
#[test]
fn a_name_that_the_cloud_does_not_report_is_left_alone() {
    for name in [
        dns("n2"),
        dns("n1.cloud.example.evil.example"),
        dns("*.cloud.example"),
        dns("*"),
        dns(""),
        dns("n1."),
        dns("n1\0.example"),
        dns("10.0.0.1"),
        dns("kubernetes.default.svc"),
        dns("KUBERNETES.default.svc"),
        dns("localhost"),
        // Names that the kubelet has written into its status.
        dns("api.example"),
        ip("10.0.0.66"),
        ip("10.0.0.2"),
        ip("10.96.0.1"),
        ip("127.0.0.1"),
        ip("0.0.0.0"),
        ip("::"),
        ip("2001:db8::2"),
        ip("::10.0.0.1"),
        ip("64:ff9b::a00:1"),
    ] {
        let alone = std::slice::from_ref(&name);
        assert_eq!(of_n1(csr(&pem_of(alone))), "not_reported", "{name:?}");
        let names = [own_names(), vec![name.clone()]].concat();
        assert_eq!(of_n1(csr(&pem_of(&names))), "not_reported", "{name:?}");
    }
}

#[test]
fn only_dns_names_and_addresses_are_names() {
    let text = |text: &str| Ia5String::new(text).unwrap();
    let octets = |octets: &[u8]| GeneralName::IpAddress(OctetString::new(octets).unwrap());
    for (name, reason) in [
        (GeneralName::Rfc822Name(text("n1")), "other_names"),
        (
            GeneralName::UniformResourceIdentifier(text("spiffe://n1")),
            "other_names",
        ),
        (
            GeneralName::DirectoryName(Name::from_str("CN=n1").unwrap()),
            "other_names",
        ),
        (
            GeneralName::RegisteredId(ObjectIdentifier::new_unwrap("1.2.3")),
            "other_names",
        ),
        // No address, an address with a mask as in name constraints, and one that is cut.
        (octets(&[]), "encoding"),
        (octets(&[10, 0, 0, 1, 255, 255, 255, 255]), "encoding"),
        (octets(&[10, 0, 0]), "encoding"),
    ] {
        let names = [own_names(), vec![name.clone()]].concat();
        assert_eq!(of_n1(csr(&pem_of(&names))), reason, "{name:?}");
    }
    assert_eq!(of_n1(csr(&pem_of(&vec![dns("n1"); 64]))), "approved");
    assert_eq!(of_n1(csr(&pem_of(&vec![dns("n1"); 65]))), "too_many_names");
    assert_eq!(of_n1(csr(&pem_of(&[]))), "no_names");
    assert_eq!(of_n1(csr(&pem(SUBJECT, vec![]))), "no_names");
    let none = attribute(vec![extensions(&[])]);
    assert_eq!(of_n1(csr(&pem(SUBJECT, vec![none]))), "no_names");
}

/// ML-DSA-87: a key of 2,592 bytes and a signature of 4,627. With 64 names of 60 letters it has 15 KB, and 20 KB in base64.
#[test]
fn a_post_quantum_key_with_64_names_is_not_too_large() {
    let names = vec![dns(&"n".repeat(60)); 64];
    let mut large = request(
        SUBJECT,
        vec![attribute(vec![extensions(&[alternative_names(&names)])])],
    );
    large.info.public_key.subject_public_key = BitString::from_bytes(&[1; 2592]).unwrap();
    large.signature = BitString::from_bytes(&[1; 4627]).unwrap();
    let pem = large.to_pem(LineEnding::LF).unwrap();
    assert_ne!(of_n1(csr(&pem)), "encoding");
    assert_eq!(
        of_n1(csr(&format!("{pem}{}", "\n".repeat(10_000)))),
        "encoding"
    );
}

/// Two readers of one request could take two different things from it.
#[test]
fn a_request_with_more_than_one_place_for_names_is_left_alone() {
    let own = || alternative_names(&own_names());
    let evil = || alternative_names(&[dns("api.example")]);
    let basic_constraints = || {
        extension(
            ObjectIdentifier::new_unwrap("2.5.29.19"),
            &[0x30, 3, 1, 1, 255],
        )
    };
    let password = Attribute {
        oid: ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.7"),
        ..attribute(vec![extensions(&[own()])])
    };
    for (what, attributes) in [
        (
            "two extensions",
            vec![attribute(vec![extensions(&[own(), evil()])])],
        ),
        (
            "two values",
            vec![attribute(vec![extensions(&[own()]), extensions(&[evil()])])],
        ),
        (
            "two attributes",
            vec![
                attribute(vec![extensions(&[own()])]),
                attribute(vec![extensions(&[evil()])]),
            ],
        ),
        ("no value", vec![attribute(vec![])]),
        (
            "a CA",
            vec![attribute(vec![extensions(&[own(), basic_constraints()])])],
        ),
        (
            "another extension",
            vec![attribute(vec![extensions(&[basic_constraints()])])],
        ),
        ("another attribute", vec![password]),
    ] {
        assert_eq!(
            of_n1(csr(&pem(SUBJECT, attributes))),
            "extensions",
            "{what}"
        );
    }
}

#[test]
fn only_the_canonical_encoding_is_read() {
    let (_, der) = pem::decode_vec(OF_KUBELET.as_bytes()).unwrap();
    let label = "CERTIFICATE REQUEST";
    let encoded = |label: &str, der: &[u8]| pem::encode_string(label, LineEnding::LF, der).unwrap();
    assert_eq!(encoded(label, &der), OF_KUBELET);
    let evil = pem_of(&[dns("api.example")]);
    let inserted = |at: usize, byte: u8| {
        let mut der = der.clone();
        der.insert(at, byte);
        encoded(label, &der)
    };
    // The outer length in one byte more than it needs.
    let long = [&[0x30, 0x83, 0], der.get(2..).unwrap()].concat();
    for (what, pem) in [
        ("nothing", String::new()),
        ("no PEM", "n1".to_owned()),
        ("a text before", format!("{evil}{OF_KUBELET}")),
        ("a text behind", format!("{OF_KUBELET}{evil}")),
        ("a comment before", format!("kubelet\n{OF_KUBELET}")),
        (
            "a header",
            OF_KUBELET.replacen("\nMII", "\nProc-Type: 4\n\nMII", 1),
        ),
        ("other lines", OF_KUBELET.replacen("MII", "M\nII", 1)),
        ("another label", encoded("NEW CERTIFICATE REQUEST", &der)),
        ("a certificate", encoded("CERTIFICATE", &der)),
        ("bytes behind", inserted(der.len(), 0)),
        ("a length too long", encoded(label, &long)),
        ("a byte more in front", inserted(0, 0x30)),
        ("cut", encoded(label, der.get(..der.len() - 1).unwrap())),
        ("too large", pem_of(&vec![dns("n1"); 5_000])),
    ] {
        assert_eq!(of_n1(csr(&pem)), "encoding", "{what}");
    }
    let mut no_base64 = csr("");
    no_base64["spec"]["request"] = json!("%");
    assert_eq!(of_n1(no_base64), "encoding");
}

#[test]
fn a_request_that_is_decided_is_left_alone() {
    for status in [
        json!({"conditions": [{"type": "Approved", "status": "True"}]}),
        json!({"conditions": [{"type": "Denied", "status": "True"}]}),
        json!({"conditions": [{"type": "Failed", "status": "True"}]}),
        json!({"certificate": "LS0t"}),
    ] {
        let mut csr = csr(OF_KUBELET);
        csr["status"] = status;
        assert_eq!(of_n1(csr), "nothing");
    }
}

#[test]
fn the_machine_has_to_be_the_one_of_the_requester() {
    let csr = view(csr(OF_KUBELET));
    let of_node = |edit: fn(&mut NodeView)| {
        let mut node = node();
        edit(&mut node);
        outcome(&csr, Some(node), &found(instance()), &[])
    };
    assert_eq!(outcome(&csr, None, &found(instance()), &[]), "no_node");
    assert_eq!(
        of_node(|node| node.deleted = Some(Timestamp::UNIX_EPOCH)),
        "no_node"
    );
    assert_eq!(
        of_node(|node| node.provider_id = "".into()),
        "no_provider_id"
    );
    assert_eq!(
        of_node(|node| node.provider_id = "mock://i-2".into()),
        "other_instance"
    );
    // It has a controller of its own.
    assert_eq!(
        of_node(|node| node.provider_id = "other://i-1".into()),
        "nothing"
    );

    let of_answer = |answer: &Lookup| outcome(&csr, Some(node()), answer, &[]);
    assert_eq!(of_answer(&Lookup::Absent { confirmed: false }), "absent");
    assert_eq!(of_answer(&Lookup::Absent { confirmed: true }), "absent");
    assert_eq!(
        of_answer(&Lookup::NotManaged { reason: "".into() }),
        "not_managed"
    );

    let of_instance = |edit: fn(&mut Instance)| {
        let mut instance = instance();
        edit(&mut instance);
        of_answer(&found(instance))
    };
    assert_eq!(
        of_instance(|instance| instance.power_state = PowerState::Shutdown),
        "stopped"
    );
    assert_eq!(
        of_instance(|instance| instance.power_state = PowerState::Terminating),
        "stopped"
    );
    assert_eq!(
        of_instance(|instance| instance.addresses = Box::default()),
        "node_name"
    );
    // Where the cloud names the Node, no address needs to.
    let without_hostname = |instance: &mut Instance| {
        instance.addresses = instance.addresses.iter().skip(1).cloned().collect();
    };
    assert_eq!(of_instance(without_hostname), "node_name");
    assert_eq!(
        of_instance(|instance| {
            instance.addresses = instance.addresses.iter().skip(1).cloned().collect();
            instance.node_name = "n1".into();
        }),
        "approved"
    );
}

/// Whatever the cloud says.
#[test]
fn no_machine_has_a_name_of_the_api_server() {
    for name in [
        "kubernetes",
        "Kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc.example",
        "localhost",
    ] {
        let mut reported = instance();
        let hostname = address("Hostname", name);
        reported.addresses = reported
            .addresses
            .iter()
            .cloned()
            .chain([hostname])
            .collect();
        let csr = view(csr(&pem_of(&[dns("n1"), dns(name)])));
        let outcome = outcome(&csr, Some(node()), &found(reported), &[]);
        assert_eq!(outcome, "not_reported", "{name}");
    }
}

/// In many clouds, whoever makes a machine names it.
#[test]
fn a_machine_that_is_named_as_the_address_of_another_has_not_that_address() {
    for kind in ["Hostname", "InternalDNS", "ExternalDNS"] {
        let mut reported = instance();
        let addresses = reported.addresses.iter().cloned();
        reported.addresses = addresses.chain([address(kind, "10.0.0.2")]).collect();
        for name in [ip("10.0.0.2"), dns("10.0.0.2")] {
            let csr = view(csr(&pem_of(&[dns("n1"), name.clone()])));
            let outcome = outcome(&csr, Some(node()), &found(reported.clone()), &[]);
            assert_eq!(outcome, "not_reported", "{kind} {name:?}");
        }
    }
}

/// A client with a bootstrap token can register a Node of any name with any provider ID.
#[test]
fn another_node_with_the_provider_id_gets_nothing_and_neither_does_the_first() {
    let attributes = || {
        vec![attribute(vec![extensions(&[alternative_names(&[ip(
            "10.0.0.1",
        )])])])]
    };
    let mut of_eve = csr(&pem("CN=system:node:eve,O=system:nodes", attributes()));
    of_eve["spec"]["username"] = "system:node:eve".into();
    let of_eve = view(of_eve);
    let eve = NodeView {
        name: "eve".into(),
        ..node()
    };
    let answer = found(instance());
    assert_eq!(
        outcome(&of_eve, Some(eve.clone()), &answer, &[]),
        "node_name"
    );
    assert_eq!(
        outcome(&of_eve, Some(eve.clone()), &answer, &[node()]),
        "shared_provider_id"
    );
    let of_n1 = view(csr(OF_KUBELET));
    assert_eq!(
        outcome(&of_n1, Some(node()), &answer, &[eve]),
        "shared_provider_id"
    );
    let other = NodeView {
        name: "n2".into(),
        provider_id: "mock://i-2".into(),
        ..node()
    };
    let unset = NodeView {
        name: "n3".into(),
        provider_id: "".into(),
        ..node()
    };
    assert_eq!(
        outcome(&of_n1, Some(node()), &answer, &[other, unset]),
        "approved"
    );
}

/// The provider answers with the ID as it was asked for, as AWS's code does.
#[test]
fn another_node_with_a_name_of_the_machine_keeps_both_from_certificates() {
    let named = |name: &str, id: &str| NodeView {
        name: name.into(),
        provider_id: id.into(),
        ..node()
    };
    let reason_of = |node: NodeView, other: NodeView| {
        let subject = format!("CN=system:node:{},O=system:nodes", node.name);
        let names = extensions(&[alternative_names(&[ip("10.0.0.1")])]);
        let mut csr = csr(&pem(&subject, vec![attribute(vec![names])]));
        csr["spec"]["username"] = format!("system:node:{}", node.name).into();
        let answer = Instance {
            provider_id: node.provider_id.clone(),
            ..instance()
        };
        outcome(&view(csr), Some(node), &found(answer), &[other])
    };
    let alias = "n1.cloud.example";
    for id in [
        "mock://i-1",
        "mock://x/i-1",
        "mock://x/i-1/",
        "mock://x/%69-1",
        "",
    ] {
        let shared = "shared_provider_id";
        assert_eq!(reason_of(node(), named(alias, id)), shared, "{id}");
        if !id.is_empty() {
            assert_eq!(reason_of(named(alias, id), node()), shared, "{id}");
        }
    }
    // In each scale set of Azure there is a machine 0, and in each zone of another cloud one of the same name.
    for (own, id) in [
        ("mock:///sets/a/machines/0", "mock:///sets/b/machines/0"),
        ("mock://zone-a/i-1", "mock://zone-b/i-1"),
    ] {
        assert_eq!(
            reason_of(named("n1", own), named("n2", id)),
            "approved",
            "{id}"
        );
    }
}

#[test]
fn a_cloud_without_provider_ids_answers_by_name() {
    let csr = view(csr(OF_KUBELET));
    let node = Arc::new(NodeView {
        provider_id: "".into(),
        ..node()
    });
    let step = step(&csr, |_| Some(Arc::clone(&node)), &prefixes(), true);
    assert!(matches!(step, CsrStep::Ask(..)), "{step:?}");
}

#[test]
fn an_event_names_what_is_wrong() {
    let csr = view(csr(&pem_of(&[dns("api\u{1b}.example"), ip("10.0.0.2")])));
    let Some(Ok(request)) = &csr.pending else {
        panic!("{csr:?}");
    };
    let problem = decide(request, &node(), &found(instance()), []).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the cloud does not report \"api\\u{1b}.example, 10.0.0.2\" for the instance of Node n1"
    );
}

fn any_name() -> impl Strategy<Value = GeneralName> {
    let of_n1 = prop::sample::select(own_names());
    let any_dns = "[a-z0-9.*-]{0,12}".prop_map(|name| dns(&name));
    let any_ip = any::<IpAddr>().prop_map(GeneralName::from);
    prop_oneof![4 => of_n1, 1 => any_dns, 1 => any_ip]
}

proptest! {
    /// No name that the cloud does not report is approved, whatever stands beside it.
    #[test]
    fn a_request_is_approved_only_if_each_name_is_reported(names in prop::collection::vec(any_name(), 1..6)) {
        let reported = own_names();
        let expected = if names.iter().all(|name| reported.contains(name)) { "approved" } else { "not_reported" };
        prop_assert_eq!(of_n1(csr(&pem_of(&names))), expected);
    }

    /// A byte that differs changes no request into another one that is read: what is read is what stands there.
    #[test]
    fn what_is_read_is_all_that_there_is(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (label, mut der) = pem::decode_vec(OF_KUBELET.as_bytes()).unwrap();
        let at = at.index(der.len());
        der[at] = byte;
        let changed = view(csr(&pem::encode_string(label, LineEnding::LF, &der).unwrap()));
        if let Some(Ok(request)) = &changed.pending {
            let read = CertReq::from_der(&der).unwrap();
            prop_assert_eq!(read.to_der().unwrap(), der);
            let name = |name: &SubjectName| match name {
                SubjectName::Dns(name) => dns(name),
                SubjectName::Ip(ip) => GeneralName::from(*ip),
            };
            let names: Vec<_> = request.names.iter().map(name).collect();
            let attribute = attribute(vec![extensions(&[alternative_names(&names)])]);
            let again = request_attributes(&read);
            prop_assert_eq!(again, vec![attribute]);
        }
    }
}

fn request_attributes(request: &CertReq) -> Vec<Attribute> {
    request.info.attributes.iter().cloned().collect()
}
