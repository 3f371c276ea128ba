use outrigger_core::node::{
    NodeAddress, NodeView, TAINT_UNINITIALIZED, Taint,
    change::{LabelWrite, NodeChange},
};
use outrigger_runtime::fence::Fence;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    fixture::{Cluster, node},
    nodes::Write,
    store::Origin,
};

/// A Node in a cluster, the store that has read it, and a writer.
struct Rig {
    cluster: Cluster,
    store: Arc<Store<NodeView>>,
    writer: ObjectWriter<NodeView>,
}

impl Rig {
    fn new() -> Self {
        let cluster = Cluster::new();
        cluster.create_node(node("n1"));
        cluster.change_node("n1", |_| {});
        let store = Arc::new(Store::default());
        let writer = ObjectWriter::new(Api::new(cluster.client()), Arc::clone(&store));
        let rig = Self {
            cluster,
            store,
            writer,
        };
        rig.watch();
        rig
    }

    /// The same with writes that `fence` allows.
    fn fenced(fence: Fence) -> Self {
        let rig = Self::new();
        let api = Api::new(rig.cluster.client()).fenced(fence);
        Self {
            writer: ObjectWriter::new(api, Arc::clone(&rig.store)),
            ..rig
        }
    }

    /// The watch brings the Node as it is.
    fn watch(&self) {
        let node = self.cluster.node("n1").unwrap();
        self.store
            .apply(serde_json::from_value(node).unwrap(), Origin::Watch);
    }

    fn view(&self) -> Arc<NodeView> {
        self.store.get("n1").unwrap()
    }

    async fn write(&self, write: &Write) -> Result<Option<Arc<NodeView>>, ApiError> {
        self.writer.write(&self.view(), write).await
    }

    /// Another client adds a taint that the store does not show, and our write of a label follows.
    async fn write_over_a_taint_of_theirs(&self) {
        self.cluster.change_node("n1", add_taint("theirs"));
        let written = self.write(&labels(vec![label("a", "1")])).await;
        written.unwrap().unwrap();
    }

    /// How many patches there were since the last call.
    fn patches(&self) -> usize {
        let requests = self.cluster.take_requests();
        let patches = requests.iter().filter(|r| r.starts_with("PATCH"));
        patches.count()
    }

    fn keys_of_taints(&self) -> Vec<String> {
        let node = self.cluster.node("n1").unwrap();
        let taints = node["spec"]["taints"].as_array().unwrap().iter();
        taints
            .map(|taint| taint["key"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// The end of the taint of the Node `n1`.
fn initialize() -> Write {
    Write::Node(NodeChange {
        remove_taints: vec![Taint::new(TAINT_UNINITIALIZED, "true", "NoSchedule")],
        provider_id: Some("p://1".into()),
        labels: vec![label("zone", "a")],
        ..NodeChange::default()
    })
}

fn label(key: &str, value: &str) -> LabelWrite {
    LabelWrite {
        key: key.into(),
        value: value.into(),
        must_be_absent: false,
    }
}

fn labels(labels: Vec<LabelWrite>) -> Write {
    Write::Node(NodeChange {
        labels,
        ..NodeChange::default()
    })
}

fn addresses(addresses: &[&str]) -> Write {
    let addresses = addresses.iter().map(|address| NodeAddress {
        kind: "InternalIP".into(),
        address: (*address).into(),
    });
    Write::Addresses(addresses.collect())
}

fn add_taint(key: &'static str) -> impl FnOnce(&mut Value) + Send + 'static {
    move |node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.insert(0, json!({"key": key, "effect": "NoSchedule"}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_as_it_was_read_takes_one_request_each_for_metadata_and_addresses() {
    let rig = Rig::new();
    rig.cluster.change_node("n1", |node| {
        let other = json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "later": [1]});
        node["spec"]["taints"][1] = other;
    });
    rig.watch();
    rig.write(&initialize()).await.unwrap().unwrap();
    rig.write(&addresses(&["10.0.0.1", "fd00::1"]))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(rig.patches(), 2);
    let node = rig.cluster.node("n1").unwrap();
    assert_eq!(
        node["spec"],
        json!({"providerID": "p://1", "taints": [{
            "key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z", "later": [1],
        }]})
    );
    let expected = json!({"kubernetes.io/hostname": "n1", "zone": "a"});
    assert_eq!(node["metadata"]["labels"], expected);
    let expected = json!([
        {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"},
    ]);
    assert_eq!(node["status"]["addresses"], expected);
}

#[tokio::test(start_paused = true)]
async fn the_last_taint_leaves_no_list() {
    let rig = Rig::new();
    rig.cluster.change_node("n1", |node| {
        node["spec"]["taints"].as_array_mut().unwrap().truncate(1);
    });
    rig.watch();
    rig.write(&initialize()).await.unwrap().unwrap();
    assert_eq!(rig.patches(), 1);
    let node = rig.cluster.node("n1").unwrap();
    assert_eq!(node["spec"], json!({"providerID": "p://1"}));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_another_client_costs_one_request_more_and_stays() {
    let rig = Rig::new();
    rig.cluster.before_next_patch(|node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.push(json!({"key": "theirs", "effect": "NoSchedule"}));
        node["metadata"]["labels"]["theirs"] = json!("x");
    });
    rig.write(&initialize()).await.unwrap().unwrap();
    assert_eq!(rig.patches(), 2);
    assert_eq!(rig.keys_of_taints(), ["other", "theirs"]);
    let node = rig.cluster.node("n1").unwrap();
    assert_eq!(node["metadata"]["labels"]["theirs"], "x");
}

/// The store holds our write without a taint that another client has added before it.
#[tokio::test(start_paused = true)]
async fn after_a_write_over_changes_of_others_no_list_is_replaced_until_they_are_read() {
    let rig = Rig::new();
    rig.write_over_a_taint_of_theirs().await;
    assert_eq!(rig.patches(), 2);
    assert_eq!(
        rig.view().taints.len(),
        2,
        "the store knows nothing of theirs"
    );
    // The version is the newest, and yet a list of these two would lose the third.
    let write = rig.write(&initialize()).await;
    assert_eq!(write.unwrap_err().class(), ErrorClass::Conflict);
    assert_eq!(
        rig.keys_of_taints(),
        ["theirs", TAINT_UNINITIALIZED, "other"]
    );
    // The look at the Node after the refusal has read all of it.
    rig.patches();
    rig.write(&initialize()).await.unwrap().unwrap();
    assert_eq!(rig.patches(), 1);
    assert_eq!(rig.keys_of_taints(), ["theirs", "other"]);
}

#[tokio::test(start_paused = true)]
async fn n20_conflicts_without_end_are_an_error_after_two_requests_for_each_plan() {
    let rig = Rig::new();
    rig.cluster.refuse("/nodes/n1", 409, usize::MAX);
    let write = rig.write(&initialize()).await;
    assert_eq!(write.unwrap_err().class(), ErrorClass::Conflict);
    assert_eq!(rig.patches(), 2);
    let decide = |_: &NodeView| -> Result<_, ApiError> { Ok(Some(initialize())) };
    let settled = rig.writer.settle(rig.view(), decide).await;
    assert_eq!(settled.unwrap_err().class(), ErrorClass::Conflict);
    assert_eq!(rig.patches(), 4, "planned once more on the Node as it is");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_no_conflict_is_not_tried_in_another_form() {
    let rig = Rig::new();
    for code in [403, 422, 500] {
        rig.cluster.refuse("/nodes/n1", code, 1);
        rig.write(&initialize()).await.unwrap_err();
        assert_eq!(rig.patches(), 1, "{code}");
    }
}

/// Ten tries, as client-go's.
#[tokio::test(start_paused = true)]
async fn a_429_delays_the_write_with_a_growing_back_off() {
    let rig = Rig::new();
    for (refusals, seconds) in [(1, 1), (3, 1 + 2 + 4), (9, 151)] {
        rig.cluster.refuse("/nodes/n1", 429, refusals);
        let began = Instant::now();
        rig.write(&labels(vec![label("a", "1")])).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), seconds);
        assert_eq!(rig.patches(), refusals + 1);
    }
    rig.cluster.refuse("/nodes/n1", 429, usize::MAX);
    let write = rig.write(&labels(vec![label("a", "2")])).await;
    assert_eq!(write.unwrap_err().code(), Some(429));
    assert_eq!(rig.patches(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_is_judged_again_where_the_object_has_changed() {
    let rig = Rig::new();
    rig.cluster.refuse("/nodes/n1", 429, 1);
    let write = labels(vec![label("a", "1")]);
    let change = async {
        sleep(Duration::from_millis(500)).await;
        rig.cluster.change_node("n1", add_taint("theirs"));
        rig.watch();
    };
    let (written, ()) = tokio::join!(rig.write(&write), change);
    assert_eq!(written.unwrap_err().class(), ErrorClass::Conflict);
    assert_eq!(rig.patches(), 1);

    rig.cluster.refuse("/nodes/n1", 429, 1);
    let decide = |node: &NodeView| -> Result<_, ApiError> {
        let is_theirs = node.taints.iter().any(|taint| &*taint.key == "more");
        Ok((!is_theirs).then(|| labels(vec![label("a", "1")])))
    };
    let change = async {
        sleep(Duration::from_millis(500)).await;
        rig.cluster.change_node("n1", add_taint("more"));
        rig.watch();
    };
    let (settled, ()) = tokio::join!(rig.writer.settle(rig.view(), decide), change);
    assert_eq!(settled.unwrap().unwrap().taints.len(), 4);
    assert_eq!(rig.patches(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_of_a_write_with_a_last_try_and_the_end_of_the_term_with_none() {
    for is_lost in [false, true] {
        let term = CancellationToken::new();
        let lost = term.clone();
        let fence = Fence::new(move || !lost.is_cancelled(), &term);
        let rig = Rig::fenced(fence.clone());
        rig.cluster.refuse("/nodes/n1", 429, usize::MAX);
        let end = async {
            sleep(Duration::from_millis(500)).await;
            if is_lost {
                term.cancel();
            } else {
                fence.stop();
            }
        };
        let began = Instant::now();
        let write = labels(vec![label("a", "1")]);
        let (written, ()) = tokio::join!(rig.write(&write), end);
        let code = written.unwrap_err().code();
        assert_eq!(code, (!is_lost).then_some(429));
        assert_eq!(rig.patches(), if is_lost { 1 } else { 2 });
        assert_eq!(began.elapsed(), Duration::from_millis(500));
    }
}
