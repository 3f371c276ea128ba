//! The loop hosted by the fixture.

use std::sync::Arc;

use outrigger_core::volume::VolumeView;
use outrigger_provider_mock::{
    Cloud, ProviderOptions, ServedVolumes,
    volumes::{Volume, VolumeState as CloudState},
};
use serde_json::{Value, json};

use super::{COMPONENT, VolumeLabels, subscribe};
use crate::fixture::{Fixture, Setup, cloud};
use outrigger_kube::{
    fixture::POLICY,
    store::{Origin, Store},
};

const ZONE: &str = "topology.kubernetes.io/zone";

struct Hosted {
    fixture: Fixture,
    volumes: Arc<Store<VolumeView>>,
}

fn served() -> ProviderOptions {
    ProviderOptions {
        volumes: Some(ServedVolumes {
            csi_drivers: vec!["disk.example".into()],
            in_tree: true,
        }),
        ..ProviderOptions::default()
    }
}

impl Hosted {
    fn new(cloud: Cloud) -> Self {
        let mut fixture = Fixture::new(Setup {
            cloud,
            provider: served(),
            ..Setup::default()
        });
        let volumes = Arc::new(Store::default());
        let inputs = subscribe(&volumes, &fixture.queues);
        let store = Arc::clone(&volumes);
        fixture.host(COMPONENT, inputs, move |context| {
            VolumeLabels::new(context, Arc::clone(&store))
        });
        Self { fixture, volumes }
    }

    /// In its first lease term; `volumes` are there before.
    async fn begun(cloud: Cloud, volumes: impl IntoIterator<Item = Value>) -> Self {
        let this = Self::new(cloud);
        volumes.into_iter().for_each(|volume| this.register(volume));
        this.volumes.finish_list(|_| true);
        this.fixture.begin_term();
        this.fixture.settle().await;
        this
    }

    /// The API server takes the volume in, and the watch brings it.
    fn register(&self, volume: Value) {
        let name = volume["metadata"]["name"].as_str().unwrap().to_owned();
        self.fixture.cluster.create_node(volume);
        self.fixture.cluster.change_node(&name, |_| {});
        self.refresh(&name);
    }

    fn refresh(&self, name: &str) {
        let live = serde_json::from_value(self.fixture.live(name)).unwrap();
        self.volumes.apply(live, Origin::Watch);
    }

    fn zone(&self, name: &str) -> Value {
        self.fixture.live(name)["metadata"]["labels"][ZONE].clone()
    }

    fn lookups(&self) -> u64 {
        self.fixture.calls("GetVolume")
    }
}

fn volume(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": format!("uid-{name}")},
        "spec": {"csi": {"driver": "disk.example", "volumeHandle": name}},
    })
}

fn put(cloud: &Cloud, handle: &str, state: CloudState) {
    let volume = Volume {
        handle: handle.into(),
        region: "r".into(),
        zones: vec!["b".into(), "a".into()],
        state,
    };
    cloud.edit_volumes(|volumes| volumes.insert(handle.into(), volume));
}

fn with_volumes(names: &[&str]) -> Cloud {
    let cloud = cloud(|_| {});
    for name in names {
        put(&cloud, name, CloudState::Available);
    }
    cloud
}

/// P-30, P-31: one PATCH with labels, affinity and the mark.
#[tokio::test(start_paused = true)]
async fn a_volume_is_labelled_in_one_write() {
    let in_tree = json!({
        "metadata": {"name": "pv2", "uid": "uid-2", "labels": {"app": "db"}},
        "spec": {"cinder": {"volumeID": "pv2"}},
    });
    let other = json!({
        "metadata": {"name": "pv3", "uid": "uid-3"}, "spec": {"nfs": {"server": "s"}},
    });
    let all = [volume("pv1"), in_tree, other];
    let hosted = Hosted::begun(with_volumes(&["pv1", "pv2"]), all).await;
    for name in ["pv1", "pv2"] {
        assert_eq!(hosted.zone(name), "b__a");
        let terms = &hosted.fixture.live(name)["spec"]["nodeAffinity"]["required"];
        let expected = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/region", "operator": "In", "values": ["r"]},
            {"key": ZONE, "operator": "In", "values": ["a", "b"]},
        ]}]});
        assert_eq!(*terms, expected);
    }
    assert_eq!(
        hosted.fixture.live("pv2")["metadata"]["labels"]["app"],
        "db"
    );
    let mut writes = hosted.fixture.api_writes();
    writes.sort();
    assert_eq!(
        writes,
        [
            "PATCH /api/v1/persistentvolumes/pv1",
            "PATCH /api/v1/persistentvolumes/pv2",
        ]
    );
    assert_eq!(hosted.lookups(), 2);
    // The watch brings our write.
    hosted.refresh("pv1");
    hosted.fixture.settle().await;
    assert_eq!(
        (hosted.lookups(), hosted.fixture.api_writes().len()),
        (2, 2)
    );
}

/// After a restart over 1,000 volumes, the provider gets no call about those that are labelled.
#[tokio::test(start_paused = true)]
async fn a_restart_is_silent() {
    let names: Vec<_> = (0..1000).map(|n| format!("pv{n}")).collect();
    let handles: Vec<_> = names.iter().map(String::as_str).collect();
    let cloud = with_volumes(&handles);
    for foreign in &handles[..150] {
        put(&cloud, foreign, CloudState::Foreign);
    }
    let first = Hosted::begun(cloud.clone(), names.iter().map(|name| volume(name))).await;
    assert_eq!(first.fixture.api_writes().len(), 850);
    let labelled: Vec<_> = names.iter().map(|name| first.fixture.live(name)).collect();
    first.fixture.kill();
    let before = first.lookups();
    let second = Hosted::begun(cloud.clone(), labelled).await;
    assert_eq!(second.fixture.api_writes(), [""; 0]);
    assert_eq!(second.lookups() - before, 150);
}

#[tokio::test(start_paused = true)]
async fn a_contradiction_is_reported_and_nothing_is_written() {
    let mut wrong = volume("pv");
    wrong["metadata"]["labels"] = json!({ZONE: "elsewhere"});
    let hosted = Hosted::begun(with_volumes(&["pv"]), [wrong]).await;
    assert_eq!(hosted.fixture.api_writes(), ["POST LabelContradiction"]);
    assert_eq!(hosted.zone("pv"), "elsewhere");
    // Once the label is removed, it is set.
    hosted.fixture.cluster.change_node("pv", |volume| {
        volume["metadata"]["labels"] = json!({"app": "db"});
    });
    hosted.refresh("pv");
    hosted.fixture.settle().await;
    assert_eq!(hosted.zone("pv"), "b__a");
}

#[tokio::test(start_paused = true)]
async fn affinity_that_cannot_be_changed_is_reported_once() {
    let mut own = volume("pv");
    let term = json!({"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]},
    ]});
    own["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [term]}});
    let hosted = Hosted::begun(with_volumes(&["pv"]), [own.clone()]).await;
    assert_eq!(hosted.zone("pv"), "b__a");
    assert_eq!(hosted.fixture.events(), ["NodeAffinityMissing"]);
    let after = hosted.fixture.live("pv")["spec"]["nodeAffinity"].clone();
    assert_eq!(after, own["spec"]["nodeAffinity"]);
    hosted.volumes.resync();
    hosted.fixture.settle().await;
    assert_eq!(hosted.fixture.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_answer_has_its_event_and_its_wait() {
    let cloud = with_volumes(&[]);
    put(&cloud, "failing", CloudState::Failing);
    put(&cloud, "hidden", CloudState::Hidden);
    let mut malformed = volume("malformed");
    malformed["spec"]["csi"]["volumeHandle"] = "no handle".into();
    let all = [
        volume("gone"),
        malformed,
        volume("failing"),
        volume("hidden"),
    ];
    let hosted = Hosted::begun(cloud.clone(), all).await;
    let mut events = hosted.fixture.events();
    events.sort();
    events.dedup();
    assert_eq!(events, ["FailedToLabelVolume", "VolumeNotFound"]);
    // The provider gets a call again about the volumes that failed, not about the others.
    put(&cloud, "failing", CloudState::Available);
    put(&cloud, "hidden", CloudState::Available);
    put(&cloud, "gone", CloudState::Available);
    hosted.fixture.settle().await;
    assert_eq!(hosted.zone("failing"), "b__a");
    assert_eq!(hosted.zone("hidden"), "b__a");
    assert_eq!(hosted.zone("gone"), Value::Null);
}

/// Another client labels the volume right before our write.
#[tokio::test(start_paused = true)]
async fn a_label_that_was_set_meanwhile_stays() {
    let hosted = Hosted::new(with_volumes(&["pv"]));
    hosted.fixture.cluster.before_next_patch(|volume| {
        volume["metadata"]["labels"] = json!({ZONE: "mine"});
    });
    hosted.register(volume("pv"));
    hosted.volumes.finish_list(|_| true);
    hosted.fixture.begin_term();
    hosted.fixture.settle().await;
    assert_eq!(hosted.zone("pv"), "mine");
    assert_eq!(hosted.fixture.events(), ["LabelContradiction"]);
}

/// Affinity that another client has set meanwhile is refused by validation; the event tells of a refusal that
/// stays.
#[tokio::test(start_paused = true)]
async fn a_write_that_a_policy_refuses_backs_off_and_names_the_policy() {
    let hosted = Hosted::new(with_volumes(&["pv"]));
    hosted.fixture.cluster.refuse("/pv", 422, usize::MAX);
    hosted.register(volume("pv"));
    hosted.volumes.finish_list(|_| true);
    hosted.fixture.begin_term();
    hosted.fixture.settle().await;
    assert_eq!(hosted.fixture.events(), ["FailedToLabelVolume"]);
    assert_eq!(hosted.fixture.cluster.event_messages(), [POLICY]);
    let mut tries = hosted.fixture.api_writes();
    tries.retain(|write| write.ends_with("/persistentvolumes/pv"));
    assert!((2..=5).contains(&tries.len()), "{tries:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_process_labels_nothing_more() {
    let hosted = Hosted::begun(with_volumes(&["pv"]), []).await;
    hosted.fixture.fence();
    hosted.register(volume("pv"));
    hosted.fixture.settle().await;
    assert_eq!(hosted.fixture.api_writes(), [""; 0]);
}
