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
use outrigger_kube::store::{Origin, Store};

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
