//! The loop hosted by the fixture.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{SignedDuration, Timestamp};
use outrigger_core::csr::{CsrView, SIGNER};
use outrigger_provider_mock::{
    faults::{BadAnswer, Effect, Fault, InjectedError, Method},
    instances::{Address, InstanceSpec, Power},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{COMPONENT, CsrMetrics, KubeletServing, subscribe};
use crate::fixture::{Fixture, Setup, cloud};
use outrigger_kube::{
    fixture::settled,
    store::{Origin, Store},
};

const NOT_APPROVED: &str = "POST ServingCertificateNotApproved";

struct Hosted {
    fixture: Fixture,
    csrs: Arc<Store<CsrView>>,
}

impl Hosted {
    /// The loop before its first lease term.
    fn new() -> Self {
        let mut fixture = Fixture::new(Setup {
            cloud: cloud(|_| {}),
            ..Setup::default()
        });
        let csrs = Arc::new(Store::default());
        let inputs = subscribe(&csrs, &fixture.queues);
        let store = Arc::clone(&csrs);
        let metrics = CsrMetrics::register(&mut fixture.registry);
        fixture.host(COMPONENT, inputs, move |context| {
            KubeletServing::new(context, Arc::clone(&store), metrics.clone())
        });
        fixture.nodes.finish_list(|_| true);
        csrs.finish_list(|_| true);
        Self { fixture, csrs }
    }

    /// In its first lease term, with the Node and the instance of `n1`.
    async fn begun() -> Self {
        let this = Self::new();
        this.make("n1", "10.0.0.1");
        this.fixture.begin_term();
        this.fixture.settle().await;
        this
    }

    /// An instance with this address, and its Node.
    fn make(&self, name: &str, ip: &str) {
        let mut spec = InstanceSpec::named(name.parse().unwrap());
        let ip = Address::internal(ip.parse().unwrap());
        spec.addresses = vec![ip, Address::hostname(&spec.name)];
        let instance = self.fixture.cloud.create(spec).unwrap();
        let id = self.fixture.cloud.provider_id(&instance.id);
        self.fixture.register(settled(name, &id, "True"));
    }

    /// The API server takes the request in, and the watch brings it.
    fn request(&self, csr: Value) {
        let name = csr["metadata"]["name"].as_str().unwrap().to_owned();
        self.fixture.cluster.create_node(csr);
        self.fixture.cluster.change_node(&name, |_| {});
        self.refresh(&name);
    }

    fn refresh(&self, name: &str) {
        let live = serde_json::from_value(self.fixture.live(name)).unwrap();
        self.csrs.apply(live, Origin::Watch);
    }

    fn conditions(&self, name: &str) -> Vec<String> {
        let conditions = self.fixture.live(name)["status"]["conditions"].clone();
        let kind = |condition: &Value| condition["type"].as_str().unwrap().to_owned();
        conditions
            .as_array()
            .into_iter()
            .flatten()
            .map(kind)
            .collect()
    }

    fn lookups(&self) -> u64 {
        self.fixture.calls("BatchGetInstances")
    }
}

/// The request `name` of the kubelet of `node`, made just now, for these names.
fn csr(name: &str, node: &str, names: &[&str]) -> Value {
    let mut params = CertificateParams::new(
        names
            .iter()
            .map(|&name| name.to_owned())
            .collect::<Vec<_>>(),
    )
    .unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, "system:nodes");
    params
        .distinguished_name
        .push(DnType::CommonName, format!("system:node:{node}"));
    let request = params
        .serialize_request(&KeyPair::generate().unwrap())
        .unwrap();
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"), "creationTimestamp": Timestamp::now().to_string(),
        },
        "spec": {
            "signerName": SIGNER, "request": BASE64_STANDARD.encode(request.pem().unwrap()),
            "username": format!("system:node:{node}"), "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"],
        },
        "status": {},
    })
}

/// Each has one event, however often the stores are shown, and nothing else is written.
#[tokio::test(start_paused = true)]
async fn what_is_not_approved_has_one_event() {
    let hosted = Hosted::begun().await;
    let mut of_eve = csr("user", "n1", &["n1"]);
    of_eve["spec"]["username"] = "eve".into();
    hosted.request(of_eve);
    hosted.request(csr("address", "n1", &["n1", "10.0.0.9"]));
    hosted.request(csr("unknown", "n9", &["n9"]));
    for _ in 0..3 {
        hosted.csrs.resync();
        hosted.fixture.settle().await;
    }
    assert_eq!(hosted.fixture.api_writes(), [NOT_APPROVED; 3]);
    let mut messages = hosted.fixture.cluster.event_messages();
    messages.sort();
    assert_eq!(
        messages,
        [
            "Left for another to approve or deny: its requester \"eve\" is not system:node:<name> in the groups \
             system:nodes and system:authenticated.",
            "Left for another to approve or deny: the cloud does not report \"10.0.0.9\" for the instance of Node n1.",
            "Left for another to approve or deny: there is no Node n9, or it is being deleted.",
        ]
    );
}

/// A kubelet with `--node-ip` asks before the cloud-node loop is done.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_provider_id_is_waited_for_without_an_event() {
    let hosted = Hosted::begun().await;
    let id = hosted.fixture.live("n1")["spec"]["providerID"].clone();
    let set_id = |id: &Value| {
        let id = id.clone();
        let cluster = &hosted.fixture.cluster;
        cluster.change_node("n1", |node| node["spec"]["providerID"] = id);
        hosted.fixture.refresh("n1");
    };
    set_id(&Value::Null);
    let mut old = csr("old", "n1", &["n1"]);
    let created = Timestamp::now() - SignedDuration::from_mins(2);
    old["metadata"]["creationTimestamp"] = created.to_string().into();
    hosted.request(old);
    hosted.request(csr("new", "n1", &["n1"]));
    hosted.fixture.settle().await;
    assert_eq!(hosted.fixture.api_writes(), [NOT_APPROVED]);
    let messages = hosted.fixture.cluster.event_messages();
    assert_eq!(
        messages,
        ["Left for another to approve or deny: Node n1 has no provider ID yet."]
    );
    set_id(&id);
    for _ in 0..3 {
        hosted.fixture.settle().await;
    }
    for name in ["old", "new"] {
        assert_eq!(hosted.conditions(name), ["Approved"], "{name}");
    }
}

/// Its kubelet does not wait any more.
#[tokio::test(start_paused = true)]
async fn an_old_request_is_tried_once() {
    let hosted = Hosted::begun().await;
    let mut old = csr("old", "n1", &["n2"]);
    let created = Timestamp::now() - SignedDuration::from_mins(16);
    old["metadata"]["creationTimestamp"] = created.to_string().into();
    hosted.request(old);
    for _ in 0..10 {
        hosted.fixture.settle().await;
    }
    // The two views.
    assert_eq!(hosted.lookups(), 2);
    assert_eq!(hosted.fixture.api_writes(), [NOT_APPROVED]);
}

fn cloud_error() -> InjectedError {
    InjectedError::new(tonic::Code::Unavailable).with_reason("CLOUD_UNAVAILABLE")
}

/// Neither an error nor an answer that breaks the contract approves anything; a try follows.
#[tokio::test(start_paused = true)]
async fn an_answer_of_doubt_approves_nothing() {
    for effect in [
        Effect::Error(cloud_error()),
        Effect::ItemError(cloud_error()),
        Effect::LoseReply,
        Effect::BadAnswer(BadAnswer::MissingResult),
        Effect::BadAnswer(BadAnswer::DuplicateResult),
        Effect::BadAnswer(BadAnswer::WrongPrefix),
        Effect::BadAnswer(BadAnswer::OversizedStrings),
        Effect::BadAnswer(BadAnswer::UncertainAbsence),
        Effect::BadAnswer(BadAnswer::StaleAbsence),
        Effect::BadAnswer(BadAnswer::NotManaged),
    ] {
        let hosted = Hosted::begun().await;
        let fault = Fault::on(Method::BatchGetInstances, effect.clone());
        hosted.fixture.cloud.inject(fault);
        hosted.request(csr("csr", "n1", &["n1", "10.0.0.1"]));
        hosted.fixture.settle().await;
        assert_eq!(hosted.conditions("csr"), [""; 0], "{effect:?}");
        hosted.fixture.cloud.clear_faults();
        for _ in 0..6 {
            hosted.fixture.settle().await;
        }
        assert_eq!(hosted.conditions("csr"), ["Approved"], "{effect:?}");
    }
}

/// The answer that it rests on is old when the API server takes writes again.
#[tokio::test(start_paused = true)]
async fn an_approval_that_was_throttled_is_judged_again() {
    let hosted = Hosted::begun().await;
    let cluster = &hosted.fixture.cluster;
    cluster.refuse("/approval", 429, usize::MAX);
    hosted.request(csr("csr", "n1", &["n1"]));
    sleep(Duration::from_secs(5)).await;
    hosted.fixture.cloud.delete("n1").unwrap();
    cluster.accept();
    hosted.fixture.settle().await;
    assert_eq!(hosted.conditions("csr"), [""; 0]);
}

/// An operator denies it right before our write.
#[tokio::test(start_paused = true)]
async fn what_another_client_decides_meanwhile_stays() {
    let hosted = Hosted::begun().await;
    hosted.fixture.cluster.before_next_patch(|csr| {
        csr["status"]["conditions"] = json!([{"type": "Denied", "status": "True"}]);
    });
    hosted.request(csr("csr", "n1", &["n1"]));
    hosted.fixture.settle().await;
    assert_eq!(hosted.conditions("csr"), ["Denied"]);
    assert_eq!(hosted.fixture.events(), [""; 0]);
    // Another request of the name, made right before the write, has another UID.
    hosted
        .fixture
        .cluster
        .before_next_patch(|csr| csr["metadata"]["uid"] = "other".into());
    hosted.request(csr("again", "n1", &["n1"]));
    hosted.fixture.settle().await;
    assert_eq!(hosted.conditions("again"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_another_client_decides_during_the_lookup_has_no_event() {
    let hosted = Hosted::begun().await;
    let Fixture { cloud, cluster, .. } = &hosted.fixture;
    cloud.set_latency(Duration::from_secs(10), None);
    hosted.request(csr("csr", "n1", &["n2"]));
    sleep(Duration::from_secs(5)).await;
    cluster.change_node("csr", |csr| {
        csr["status"]["conditions"] = json!([{"type": "Approved", "status": "True"}]);
    });
    hosted.refresh("csr");
    hosted.fixture.settle().await;
    assert_eq!(hosted.fixture.events(), [""; 0]);
}

/// The view with its names may lack its power state.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_stopped_in_the_second_view_gets_no_certificate() {
    let hosted = Hosted::begun().await;
    let cloud = &hosted.fixture.cloud;
    cloud.set_latency(Duration::from_secs(10), None);
    hosted.request(csr("csr", "n1", &["n1"]));
    sleep(Duration::from_secs(15)).await;
    cloud.set_power("n1", Power::Shutdown).unwrap();
    hosted.fixture.settle().await;
    assert_eq!(hosted.conditions("csr"), [""; 0]);
}

/// The lookup was about the machine that the Node was.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_made_again_during_the_lookup_is_asked_for_again() {
    let hosted = Hosted::begun().await;
    hosted.make("n2", "10.0.0.2");
    let cloud = &hosted.fixture.cloud;
    cloud.set_latency(Duration::from_secs(10), None);
    hosted.request(csr("csr", "n1", &["n1"]));
    sleep(Duration::from_secs(5)).await;
    let id = hosted.fixture.live("n2")["spec"]["providerID"].clone();
    hosted.fixture.vanish("n2");
    hosted.fixture.cluster.change_node("n1", |node| {
        node["metadata"]["uid"] = "another".into();
        node["spec"]["providerID"] = id;
    });
    hosted.fixture.refresh("n1");
    hosted.fixture.settle().await;
    assert_eq!(hosted.conditions("csr"), [""; 0]);
    assert!(hosted.lookups() >= 3);
}
