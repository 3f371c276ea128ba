//! Requests of kubelets for serving certificates, made with the credentials of a kubelet, and of others.

use k8s_openapi::{
    ByteString,
    api::{certificates::v1::CertificateSigningRequest, core::v1::Node},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use outrigger_testbed::nodes::Machine;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use crate::{
    caller::Port,
    look::reason,
    mock::instance_at,
    plane::USER,
    rights::{Rights, SERVING},
    stage::{Backstage, Setup, Stage},
    wait::{holds, until},
};

const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const NODES: Option<&str> = Some("system:nodes");

/// With the loop, the rights that its documentation names, and the Nodes `n1` at 10.0.0.1 and `n2` at 10.0.0.2.
async fn prepare(setup: Setup) -> Backstage {
    let setup = setup.flag("--controllers=*,kubelet-serving-approving");
    let machines = ["n1", "n2"].map(Machine::new);
    let stage = setup.machines(machines).prepare().await;
    Rights::documented(SERVING).grant(&stage.plane).await;
    for (name, ip) in [("n1", "10.0.0.1"), ("n2", "10.0.0.2")] {
        let addresses = [format!("InternalIP={ip}"), format!("Hostname={name}")];
        let addresses = addresses.each_ref().map(String::as_str);
        stage.mock.create(instance_at(name, &addresses)).await;
    }
    stage
}

/// The request `name` for a certificate of the kubelet of `node`, for these names.
fn request(name: &str, signer: &str, node: &str, names: &[&str]) -> CertificateSigningRequest {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "system:nodes");
    subject.push(DnType::CommonName, format!("system:node:{node}"));
    params.distinguished_name = subject;
    let key = KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let usage = if signer == KUBELET_SERVING {
        "server auth"
    } else {
        "client auth"
    };
    let csr = json!({
        "metadata": {"name": name},
        "spec": {
            "signerName": signer, "request": ByteString(request.into_bytes()),
            "usages": ["digital signature", "key encipherment", usage],
        },
    });
    serde_json::from_value(csr).unwrap()
}

/// Makes a request with the credentials of `client`.
async fn make(client: Client, csr: &CertificateSigningRequest) {
    let csrs: Api<CertificateSigningRequest> = Api::all(client);
    csrs.create(&PostParams::default(), csr).await.unwrap();
}

impl Stage {
    async fn csr(&self, name: &str) -> CertificateSigningRequest {
        let csrs: Api<CertificateSigningRequest> = Api::all(self.admin());
        csrs.get(name).await.unwrap()
    }

    /// Types of its conditions.
    async fn decisions(&self, name: &str) -> Vec<String> {
        let status = self.csr(name).await.status;
        let conditions = status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        conditions
            .into_iter()
            .map(|condition| condition.type_)
            .collect()
    }

    async fn is_approved(&self, name: &str) {
        until(&format!("{name} is approved"), async || {
            let decisions = self.decisions(name).await;
            holds(decisions == ["Approved"], || format!("{decisions:?}"))
        })
        .await;
    }

    /// Waits until an event says why it is left alone.
    async fn is_left(&self, name: &str, why: &str) {
        until(&format!("the event of {name}"), async || {
            let events = self.events_of(&self.csr(name).await).await;
            let messages: Vec<_> = events
                .iter()
                .filter(|event| reason(event) == "ServingCertificateNotApproved")
                .filter_map(|event| event.message.clone())
                .collect();
            let one = matches!(&*messages, [message] if message.contains(why));
            holds(one, || format!("{messages:?}"))
        })
        .await;
        assert_eq!(self.decisions(name).await, [""; 0], "{name}");
    }
}

#[tokio::test]
async fn a_kubelet_gets_its_own_names_and_no_others() {
    let stage = prepare(Setup::mock(&[])).await.start();
    for name in ["n1", "n2"] {
        stage.initialized(name).await;
    }
    let kubelet = stage.plane.client_of("system:node:n1", NODES).unwrap();
    let of_n1 = |name: &str, names: &[&str]| request(name, KUBELET_SERVING, "n1", names);

    make(kubelet.clone(), &of_n1("own", &["n1", "10.0.0.1"])).await;
    stage.is_approved("own").await;
    let condition = stage
        .csr("own")
        .await
        .status
        .unwrap()
        .conditions
        .unwrap()
        .remove(0);
    assert_eq!(condition.reason.as_deref(), Some("AutoApproved"));

    // A name of the API server, whose connections to the kubelet it would be good for.
    make(
        kubelet.clone(),
        &of_n1("other", &["n1", "10.0.0.2", "kubernetes.default.svc"]),
    )
    .await;
    stage
        .is_left(
            "other",
            "does not report \"10.0.0.2, kubernetes.default.svc\"",
        )
        .await;

    // The kubelet writes that address into the status of its Node, which the admission plugin allows.
    stage.own_address(&kubelet, "10.0.0.2").await;
    make(kubelet.clone(), &of_n1("written", &["n1", "10.0.0.2"])).await;
    stage
        .is_left("written", "does not report \"10.0.0.2\"")
        .await;

    // Another kubelet; the admission plugin lets it ask under its own name alone.
    let neighbour = stage.plane.client_of("system:node:n2", NODES).unwrap();
    let of_n2 = request("neighbour", KUBELET_SERVING, "n2", &["n1", "10.0.0.1"]);
    make(neighbour, &of_n2).await;
    stage
        .is_left("neighbour", "\"n1, 10.0.0.1\" for the instance of Node n2")
        .await;
    // A user who may do everything.
    make(stage.admin(), &of_n1("admin", &["n1", "10.0.0.1"])).await;
    stage
        .is_left(
            "admin",
            "its requester \"testbed-admin\" is not system:node:<name>",
        )
        .await;

    // A request for another signer is not looked at.
    let client = request(
        "client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "n1",
        &[],
    );
    make(kubelet, &client).await;
    make(stage.admin(), &of_n1("last", &["n1"])).await;
    stage.is_left("last", "its requester").await;
    assert_eq!(stage.decisions("client").await, [""; 0]);
    assert_eq!(stage.events_of(&stage.csr("client").await).await.len(), 0);
    // Nor may the controller approve it.
    let controller: Api<CertificateSigningRequest> =
        Api::all(stage.plane.client_of(USER, None).unwrap());
    let approval = json!([{"op": "add", "path": "/status/conditions", "value": [{"type": "Approved", "status": "True"}]}]);
    let approval = Patch::<()>::Json(serde_json::from_value(approval).unwrap());
    let approved = controller
        .patch_approval("client", &PatchParams::default(), &approval)
        .await;
    let refusal = approved.unwrap_err().to_string();
    assert!(refusal.contains("signerName"), "{refusal}");
    let approvals = stage
        .writes()
        .into_iter()
        .filter(|write| write.contains("/approval"));
    let approved = "PATCH /apis/certificates.k8s.io/v1/certificatesigningrequests/own/approval";
    assert_eq!(approvals.collect::<Vec<_>>(), [approved]);
}

impl Stage {
    /// The kubelet of `n1` adds an address to the status of its Node.
    async fn own_address(&self, kubelet: &Client, ip: &str) {
        let nodes: Api<Node> = Api::all(kubelet.clone());
        let addresses = json!({"status": {"addresses": [{"type": "ExternalIP", "address": ip}]}});
        let (patch, parameters) = (Patch::Strategic(addresses), PatchParams::default());
        nodes.patch_status("n1", &parameters, &patch).await.unwrap();
    }
}

/// With the rights that the documentation names.
#[tokio::test]
async fn requests_that_are_decided_or_of_another_signer_are_not_kept() {
    let port = Port::reserve();
    let stage = prepare(Setup::mock(&[]).scraped_at(&port)).await;
    let rights = Rights::documented(SERVING).of(USER);
    rights.grant(&stage.plane).await;
    let kubelet = stage.plane.client_of("system:node:n1", NODES).unwrap();
    make(
        kubelet.clone(),
        &request("own", KUBELET_SERVING, "n1", &["n1"]),
    )
    .await;
    let client = request(
        "client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "n1",
        &[],
    );
    make(kubelet.clone(), &client).await;
    make(kubelet, &request("other", KUBELET_SERVING, "n1", &["n2"])).await;
    let stage = stage.start();
    stage.is_approved("own").await;
    stage.is_left("other", "does not report \"n2\"").await;
    until("the metrics", async || {
        let scrape = port.scrape().await;
        let objects = r#"outrigger_store_objects{resource="certificatesigningrequests"} 1"#;
        let approved = r#"outrigger_kubelet_serving_requests_total{result="approved",reason=""} 1"#;
        holds(
            scrape.contains(objects) && scrape.contains(approved),
            || scrape.clone(),
        )
    })
    .await;
    rights.revoke(&stage.plane).await;
}

/// Without the flag the controller does not look at requests, with the rights or without.
#[tokio::test]
async fn nothing_is_approved_without_the_flag() {
    let setup = Setup::synthesizing().machines([Machine::new("n1")]);
    let stage = setup.prepare().await;
    Rights::documented(SERVING).grant(&stage.plane).await;
    let kubelet = stage.plane.client_of("system:node:n1", NODES).unwrap();
    make(kubelet, &request("own", KUBELET_SERVING, "n1", &["n1"])).await;
    let stage = stage.start();
    stage.synced("n1").await;
    let requests = stage.proxy.requests();
    assert!(
        !requests
            .iter()
            .any(|request| request.path.contains("certificatesigningrequests"))
    );
    assert_eq!(stage.decisions("own").await, [""; 0]);
}
