//! The vectors of `sdk/vectors`, which the SDKs of all languages share.

use std::sync::Arc;

use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::node_sets_service_client::NodeSetsServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    self, BatchGetInstancesRequest, CallContext, ClusterInfo, EnsureLoadBalancerRequest,
    HandshakeRequest, NodeTargets, SyncNodeSetRequest, node_targets,
};
use outrigger_provider_sdk::{
    Answer, Context, Error, LoadBalancers, Outcome, Server, Targets, answer,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::Status;

use crate::harness::{Each, Named, Rig, context, handshake, node, reason};

fn read(name: &str) -> Vec<Value> {
    let path = format!("{}/../sdk/vectors/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    let each = value[field].as_array().into_iter().flatten();
    each.map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn number(value: &Value, field: &str) -> u32 {
    u32::try_from(value[field].as_u64().unwrap_or_default()).unwrap()
}

fn nodes(value: &Value) -> Vec<v1::Node> {
    let each = value.as_array().into_iter().flatten();
    let read = |value: &Value| v1::Node {
        provider_id: text(value, "providerId"),
        unschedulable: value["unschedulable"] == true,
        labels: value["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
            .collect(),
        ..node(text(value, "name"))
    };
    each.map(read).collect()
}

/// Succeeds, or is refused with the reason of the step.
fn check<T>(step: &Value, answered: Result<T, Status>) -> Option<T> {
    match answered {
        Ok(answer) => {
            assert!(step["reason"].is_null(), "answered: {step}");
            Some(answer)
        }
        Err(status) => {
            assert_eq!(reason(&status), text(step, "reason"), "{step}: {status}");
            None
        }
    }
}

/// Keeps the targets of the last Ensure.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Targets>>);

impl LoadBalancers for Kept {
    async fn get_load_balancer(
        &self,
        _: &Context,
        _: &v1::GetLoadBalancerRequest,
        _: Option<&Targets>,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        _: &v1::EnsureLoadBalancerRequest,
        targets: &Targets,
    ) -> Result<Answer, Error> {
        *self.0.lock() = targets.clone();
        Ok(answer::not_managed())
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        _: &v1::UpdateLoadBalancerNodesRequest,
        _: &Targets,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        _: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, Error> {
        Ok(answer::absent())
    }
}

fn message(value: &Value) -> SyncNodeSetRequest {
    SyncNodeSetRequest {
        context: Some(context("r")),
        nodes: nodes(&value["nodes"]),
        complete: value["complete"] == true,
        revision: text(value, "revision"),
        node_count: number(value, "nodeCount"),
    }
}

fn targets(value: &Value) -> NodeTargets {
    use node_targets::Targets::{Inline, Ref};
    let targets = if let Some(named) = value.get("ref") {
        Some(Ref(v1::NodeSetRef {
            revision: text(named, "revision"),
            only: named.get("only").map(|only| v1::NodeNames {
                names: texts(only, "names"),
            }),
        }))
    } else {
        value.get("inline").map(|inline| {
            Inline(v1::InlineNodes {
                nodes: nodes(&inline["nodes"]),
            })
        })
    };
    NodeTargets { targets }
}

#[tokio::test]
async fn node_sets() {
    for vector in read("node_sets") {
        let kept = Kept::default();
        let rig = Rig::serve(Server::new(Named::new()).load_balancers(kept.clone()));
        let channel = rig.dial().await;
        handshake(channel.clone(), 1, 1).await.unwrap();
        let mut sets = NodeSetsServiceClient::new(channel.clone());
        let mut balancers = LoadBalancersServiceClient::new(channel);
        for step in vector["steps"].as_array().unwrap() {
            if let Some(upload) = step.get("upload") {
                let upload: Vec<_> = upload.as_array().unwrap().iter().map(message).collect();
                let answered = sets.sync_node_set(tokio_stream::iter(upload)).await;
                if let Some(answer) = check(step, answered) {
                    assert_eq!(answer.into_inner().revision, text(step, "revision"));
                }
                continue;
            }
            let request = EnsureLoadBalancerRequest {
                context: Some(context("r")),
                service: Some(v1::Service {
                    uid: "u".to_owned(),
                    ..v1::Service::default()
                }),
                targets: Some(targets(&step["targets"])),
                identity: None,
            };
            if check(step, balancers.ensure_load_balancer(request).await).is_some() {
                let kept = kept.0.lock();
                let facts = |node: &v1::Node| {
                    let labels = node.labels.clone();
                    (
                        node.name.clone(),
                        node.provider_id.clone(),
                        node.unschedulable,
                        labels,
                    )
                };
                let expected = nodes(&step["nodes"]);
                let expected = expected
                    .into_iter()
                    .map(|node| (node.name, node.provider_id, node.unschedulable, node.labels));
                let resolved: Vec<_> = kept.iter().map(facts).collect();
                assert_eq!(resolved, expected.collect::<Vec<_>>(), "{}", vector["case"]);
            }
        }
    }
}

fn cluster(value: &Value) -> ClusterInfo {
    ClusterInfo {
        name: text(value, "name"),
        uid: text(value, "uid"),
        pod_cidrs: texts(value, "podCidrs"),
        service_cidrs: texts(value, "serviceCidrs"),
    }
}

fn look_up(context: &Value, name: &str) -> BatchGetInstancesRequest {
    let context = (!context.is_null()).then(|| CallContext {
        request_id: text(context, "requestId"),
        cluster_name: text(context, "clusterName"),
        cluster_uid: text(context, "clusterUid"),
    });
    BatchGetInstancesRequest {
        context,
        items: vec![node(name)],
        ..BatchGetInstancesRequest::default()
    }
}

#[tokio::test]
async fn handshakes_and_contexts() {
    for vector in [read("handshake"), read("context")].concat() {
        let kept: Arc<Mutex<ClusterInfo>> = Arc::default();
        let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let instances = {
            let (kept, entered, leave) = (kept.clone(), entered.clone(), leave.clone());
            Each(8, move |ctx: Context, node: v1::Node| {
                let (kept, entered, leave) = (kept.clone(), entered.clone(), leave.clone());
                async move {
                    if node.name == "waits" {
                        entered.notify_one();
                        leave.notified().await;
                    }
                    *kept.lock() = ctx.cluster().clone();
                    Ok(Outcome::not_visible_yet("").into())
                }
            })
        };
        let rig = Rig::serve(Server::new(Named::new()).instances(instances));
        let channel = rig.dial().await;
        let mut identity = ProviderServiceClient::new(channel.clone());
        let mut client = v1::instances_service_client::InstancesServiceClient::new(channel);
        let mut waiting = JoinSet::new();
        for step in vector["steps"].as_array().unwrap() {
            if let Some(request) = step.get("handshake") {
                let request = HandshakeRequest {
                    min_minor: number(request, "minMinor"),
                    max_minor: number(request, "maxMinor"),
                    cluster: Some(cluster(&request["cluster"])),
                    ..HandshakeRequest::default()
                };
                if let Some(answer) = check(step, identity.handshake(request).await) {
                    assert_eq!(answer.into_inner().minor, number(step, "minor"));
                }
            } else if step["drain"] == true {
                let mut second = client.clone();
                let prod = serde_json::json!({"clusterName": "prod"});
                let request = look_up(&prod, "waits");
                let call = async move { second.batch_get_instances(request).await };
                waiting.spawn(call);
                entered.notified().await;
                rig.stop.cancel();
                tokio::task::yield_now().await;
            } else {
                let request = look_up(&step["call"], "a");
                if check(step, client.batch_get_instances(request).await).is_some() {
                    let (handled, expected) = (kept.lock().clone(), cluster(&step["cluster"]));
                    assert_eq!((handled.name, handled.uid), (expected.name, expected.uid));
                    assert_eq!(handled.pod_cidrs, expected.pod_cidrs);
                    assert_eq!(handled.service_cidrs, expected.service_cidrs);
                }
            }
        }
        leave.notify_one();
        for answered in waiting.join_all().await {
            answered.unwrap();
        }
    }
}
