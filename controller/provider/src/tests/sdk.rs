//! The adapter and a real server at the other end of the pipe, with the SDK's node sets.

use std::{
    collections::{BTreeMap, HashMap},
    fmt, io,
    sync::Arc,
};

use outrigger_core::{service::ServiceView, targets::Targets};
use outrigger_provider_sdk::{self as sdk, Answer, Context, OfService as _, Server, answer, v1};
use parking_lot::Mutex;
use prometheus_client::{encoding::text::encode, registry::Registry};
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    rig::{node_with, options, service},
    secs,
};
use crate::{ByteStream, Connect, Connecting, Provider, ProviderMetrics};

/// Provider ids by name.
type Content = BTreeMap<String, String>;

/// Which targets each load balancer has, by the UID of its Service.
#[derive(Clone, Default)]
struct Cloud(Arc<Mutex<HashMap<String, Content>>>);

impl Cloud {
    fn give(&self, service: &v1::Service, targets: &sdk::Targets) {
        let nodes = targets.iter();
        let content = nodes.map(|node| (node.name.clone(), node.provider_id.clone()));
        self.0.lock().insert(service.uid.clone(), content.collect());
    }
}

struct Vendor;

impl sdk::Provider for Vendor {
    fn info(&self) -> sdk::ProviderInfo {
        sdk::ProviderInfo::new("vendor", "v1")
    }
}

impl sdk::LoadBalancers for Cloud {
    async fn get_load_balancer(
        &self,
        _: &Context,
        _: &v1::GetLoadBalancerRequest,
        _: Option<&sdk::Targets>,
    ) -> Result<Answer, sdk::Error> {
        Ok(answer::absent())
    }

    async fn ensure_load_balancer(
        &self,
        _: &Context,
        request: &v1::EnsureLoadBalancerRequest,
        targets: &sdk::Targets,
    ) -> Result<Answer, sdk::Error> {
        self.give(request.service(), targets);
        Ok(answer::ready([v1::LoadBalancerIngress {
            ip: "192.0.2.1".to_owned(),
            ..v1::LoadBalancerIngress::default()
        }]))
    }

    async fn update_load_balancer_nodes(
        &self,
        _: &Context,
        request: &v1::UpdateLoadBalancerNodesRequest,
        targets: &sdk::Targets,
    ) -> Result<Answer, sdk::Error> {
        self.give(request.service(), targets);
        Ok(answer::ready([]))
    }

    async fn delete_load_balancer(
        &self,
        _: &Context,
        _: &v1::DeleteLoadBalancerRequest,
    ) -> Result<Answer, sdk::Error> {
        Ok(answer::absent())
    }
}

/// The vendor's process.
struct Process {
    cloud: Cloud,
    serving: Mutex<JoinSet<()>>,
}

impl Process {
    /// Ends what there is; the next connection finds another process.
    fn restart(&self) {
        self.serving.lock().abort_all();
    }

    fn connect(&self) -> Box<dyn ByteStream> {
        let (near, mut near_end) = duplex(1 << 16);
        let (mut far_end, far) = duplex(1 << 16);
        let server = Server::new(Vendor).load_balancers(self.cloud.clone());
        let incoming = tokio_stream::once(Ok::<DuplexStream, io::Error>(far));
        let mut serving = self.serving.lock();
        serving.spawn(async move {
            let forever = std::future::pending();
            server.serve_with_incoming(incoming, forever).await.unwrap();
        });
        serving.spawn(async move {
            let _ = copy_bidirectional(&mut near_end, &mut far_end).await;
        });
        Box::new(near)
    }
}

struct Socket(Arc<Process>);

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pipe")
    }
}

impl Connect for Socket {
    fn connect(&self) -> Connecting {
        let process = Arc::clone(&self.0);
        Box::pin(async move { Ok(process.connect()) })
    }
}

fn targets(content: &Content) -> Arc<Targets> {
    let nodes = content.iter().map(|(name, id)| node_with(name, "uid", id));
    Arc::new(Targets::among(nodes))
}

/// NDS-*: whatever changes, comes back, is asked for at the same time or lost by a restart, each call
/// acts on the targets that it means.
#[tokio::test(start_paused = true)]
async fn every_call_acts_on_the_targets_that_it_names() {
    let cloud = Cloud::default();
    let process = Arc::new(Process {
        cloud: cloud.clone(),
        serving: Mutex::default(),
    });
    let mut registry = Registry::default();
    let (provider, run) = Provider::new(
        options(),
        Socket(Arc::clone(&process)),
        ProviderMetrics::register(&mut registry),
        CancellationToken::new(),
    );
    let mut tasks = JoinSet::new();
    tasks.spawn(run);
    let mut random = fastrand::Rng::with_seed(6);
    let mut nodes = Content::new();
    let mut history = vec![nodes.clone()];
    for round in 0..80 {
        for _ in 0..random.usize(0..4) {
            let name = format!("node-{}", random.u8(0..40));
            if random.bool() {
                nodes.insert(name, format!("vendor://{}", random.u8(0..3)));
            } else {
                nodes.remove(&name);
            }
        }
        if random.u8(0..20) == 0 {
            nodes.clear();
        }
        history.push(nodes.clone());
        if random.u8(0..20) == 0 {
            let mut sessions = provider.shared.session.subscribe();
            process.restart();
            let ended = sessions.wait_for(Option::is_none);
            timeout(secs(60), ended).await.unwrap().unwrap();
        }
        timeout(secs(60), provider.wait_until_serving())
            .await
            .unwrap();
        let calls = (0..random.usize(1..6)).map(|n| {
            // The current targets, or those of a moment ago.
            let ago = random.usize(0..4);
            let content = &history[history.len().saturating_sub(1 + ago)];
            let web = service(&format!("web-{n}"));
            call(&provider, &cloud, web, content.clone(), random.bool())
        });
        let calls: Vec<_> = calls.collect();
        let all = timeout(secs(600), futures::future::join_all(calls));
        for result in all.await.unwrap() {
            result.unwrap_or_else(|wrong| panic!("round {round}: {wrong}"));
        }
    }
    let mut metrics = String::new();
    encode(&mut metrics, &registry).unwrap();
    assert!(
        metrics.contains("outrigger_provider_node_set_syncs_total"),
        "{metrics}"
    );
}

async fn call(
    provider: &Provider,
    cloud: &Cloud,
    service: Arc<ServiceView>,
    content: Content,
    is_update: bool,
) -> Result<(), String> {
    let targets = targets(&content);
    let answer = if is_update {
        provider.update_alone(&service, &targets).await
    } else {
        provider.ensure_alone(&service, &targets).await
    };
    answer.map_err(|error| error.to_string())?;
    let has = cloud.0.lock().get(&*service.uid).cloned();
    if has.as_ref() == Some(&content) {
        return Ok(());
    }
    Err(format!("wanted {content:?}, has {has:?}"))
}
