//! Puts the parts together, starts them in order, and ends them in order.
//!
//! ```text
//!  start:  API server ─► provider ─► stores (on a standby too) ─► [lease] ─► loops
//!  end:    loops (nodes in hand finish) ─► events ─► [lease] ─► everything else
//! ```

mod supervise;

use std::{sync::Arc, time::Duration};

use outrigger_core::node::NodeView;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::supervise::{Signals, Supervisor};
use crate::{
    kube::{
        api::Api,
        client::Clients,
        cluster,
        events::{EventMetrics, Events},
        metrics::{ClientMetrics, WatchMetrics},
        store::Store,
        watch,
    },
    node::{self, CloudNode, NodeMetrics},
    options::{Config, controllers::Controller},
    provider::{self, Provider},
    queue::QueueMetrics,
};

/// How long the parts may take to finish what they have in hand.
const DRAIN: Duration = Duration::from_secs(20);

/// How long events may take to be written after the last of the work.
const FLUSH: Duration = Duration::from_secs(3);

/// Why the process ends, other than because it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Something that the flags describe cannot be had.
    #[error("{0}")]
    Setup(String),
    /// A part that must run until the end did not.
    #[error("{0} ended unexpectedly; see the log above")]
    Died(&'static str),
    /// The provider has no cluster id (PROC-3).
    #[error(
        "no ClusterID found.  A ClusterID is required for the cloud provider to function properly.  \
         This check can be bypassed by setting the allow-untagged-cloud option"
    )]
    NoClusterId,
}

impl Fatal {
    /// Exit codes as upstream's (PROC-10).
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Setup(_) => 1,
            Self::Died(_) => 2,
            Self::NoClusterId => 255,
        }
    }
}

/// Runs the controller manager until it is told to end, by SIGTERM or SIGINT; a second signal ends
/// the process at once.
pub async fn run(config: Config) -> Result<(), Fatal> {
    let setup = |error: &dyn std::fmt::Display| Fatal::Setup(error.to_string());
    let mut signals = Signals::install().map_err(|error| setup(&error))?;
    let mut registry = Registry::default();
    let queue_metrics = QueueMetrics::register(&mut registry);
    let watch_metrics = WatchMetrics::register(&mut registry);
    let node_metrics = NodeMetrics::register(&mut registry);
    let event_metrics = EventMetrics::register(&mut registry);

    let kube = config.kube.load().await.map_err(|error| setup(&error))?;
    let clients = Clients::new(kube, ClientMetrics::register(&mut registry));
    let budget = config.api.budget;
    let api = |name: &str| {
        clients
            .build(name, budget)
            .map(Api::new)
            .map_err(|error| setup(&error))
    };

    // Everything that runs until the end, and the loops, which end first.
    let process = CancellationToken::new();
    let work = process.child_token();
    let mut parts = Supervisor::default();

    let (informers, server) = (api("shared-informers")?, clients.server());
    let facts = tokio::select! {
        facts = cluster::discover(&informers, &server) => facts,
        () = signals.next() => return Ok(()),
    };

    let (provider, keep) = Provider::new(
        provider_options(&config, &facts),
        config.provider.endpoint.clone(),
        &mut registry,
        process.clone(),
    );
    parts.spawn("provider connection", keep);

    let mut nodes: Store<NodeView> = Store::default();
    let intake = node::Intake::new(&mut nodes, &queue_metrics);
    let nodes = Arc::new(nodes);
    parts.spawn(
        "watch of nodes",
        watch::run(
            informers,
            watch::NODES,
            Arc::clone(&nodes),
            watch_metrics,
            process.clone(),
        ),
    );

    let client = clients
        .build("node-controller", budget)
        .map_err(|error| setup(&error))?;
    let (events, writer) = Events::new(client, &event_metrics);
    parts.spawn("event writer", writer.run(process.clone()));

    let mut loops = Supervisor::default();
    if config.controllers.enabled(Controller::CloudNode) {
        let cloud_node = CloudNode::new(
            node::Parts {
                api: api("node-controller")?,
                nodes: Arc::clone(&nodes),
                provider: provider.clone(),
                events: events.recorder(node::NAME),
                workers: config.node.workers,
                metrics: node_metrics,
            },
            intake,
        );
        loops.spawn(node::NAME, cloud_node.run(work.clone()));
    } else {
        warn!("{:?} is disabled", node::NAME);
    }

    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        name = parts.ended() => Err(Fatal::Died(name)),
        name = loops.ended() => Err(Fatal::Died(name)),
    };
    info!("ending: no new work is taken");
    work.cancel();
    let drained = async {
        loops.drain().await;
        if !events.flush(FLUSH).await {
            warn!("some events were not written");
        }
        process.cancel();
        parts.drain().await;
    };
    tokio::select! {
        () = drained => {}
        () = tokio::time::sleep(DRAIN) => warn!("still busy after {} s; ending anyway", DRAIN.as_secs()),
        () = signals.next() => warn!("told to end a second time; ending at once"),
    }
    ended
}

fn provider_options(config: &Config, facts: &cluster::Facts) -> provider::Options {
    provider::Options {
        expected_name: config.provider.name.clone(),
        allow_untagged: config.provider.allow_untagged_cloud,
        controller_name: "cloud-controller-manager".to_owned(),
        controller_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version: facts.version.clone(),
        cluster: provider::Cluster {
            name: config.cluster.name.clone(),
            uid: facts.uid.clone(),
            pod_cidrs: config.cluster.pod_cidrs.clone(),
            service_cidrs: config.cluster.service_cidrs.clone(),
        },
        max_receive_bytes: outrigger_api::DEFAULT_MAX_MESSAGE_BYTES,
        standby: false,
    }
}
