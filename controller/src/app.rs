//! Puts the parts together, starts them in order, and ends them in order.
//!
//! ```text
//!  start:  HTTPS server ─► API server ─► provider, stores, events (on a standby too)
//!                                         └─► lease task: [lease] ─► loops
//!  end:    no new call; calls in flight end ─► [lease] ─► events ─► everything else
//! ```

mod controllers;
mod dry_run;
mod explain;
mod identity;
mod lease_events;
mod lease_task;
pub(crate) mod metrics;
mod process;
mod supervise;

use std::{borrow::Cow, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub(crate) use self::process::provider_options;
pub use self::supervise::Signals;
use self::{
    controllers::Loops,
    explain::Explainer,
    identity::ClusterIdentity,
    lease_task::{CANCEL_TIMEOUT, Contender, LeaseTask},
    process::Process,
};
use crate::{options::Config, server::Scope};
use outrigger_kube::{
    client::{ApiServer, Budget},
    cluster::SameCluster,
    watch::Sight,
};
use outrigger_provider::{Connect, DownCause, Provider, ProviderSocket};
use outrigger_runtime::telemetry::Telemetry;

/// Name of this program in events and towards providers (E-6).
const COMPONENT: &str = "cloud-controller-manager";

/// How long everything after the work may take: the lease is released, events are written. With the grace
/// period and [`CANCEL_TIMEOUT`] it is less than the 30 s that a Pod is given.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the process ends, other than because it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Something that the flags describe cannot be had.
    #[error("{0}")]
    Setup(String),
    /// A part that must run until the end did not.
    #[error("{0} ended unexpectedly; see the log above")]
    Died(Cow<'static, str>),
    /// Another process leads, or may lead from now on (PROC-13).
    #[error("leaderelection lost")]
    LeaseLost,
    /// The API server is another cluster's.
    #[error("{0}")]
    OtherCluster(String),
    /// A second signal came before the work in flight was done; the exit code is that of
    /// Kubernetes' own programs then.
    #[error("second termination signal; ended with work in flight")]
    Hurried,
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
            Self::Setup(_) | Self::LeaseLost | Self::OtherCluster(_) | Self::Hurried => 1,
            Self::Died(_) => 2,
            Self::NoClusterId => 255,
        }
    }
}

impl From<String> for Fatal {
    fn from(why: String) -> Self {
        Self::Setup(why)
    }
}

/// The ways from the process to everything else.
pub struct Surroundings {
    /// The API server.
    pub api_server: ApiServer,
    /// Makes the connections to the provider.
    pub provider: Box<dyn Connect>,
    /// The first ends the process in good order, the second immediately.
    pub signals: Signals,
    /// Takes a new `-v`.
    pub set_verbosity: Box<dyn Fn(u32) + Send + Sync>,
}

impl Surroundings {
    /// The ways that the flags name, SIGTERM and SIGINT; within a runtime.
    ///
    /// # Errors
    /// A kubeconfig that cannot be used; signals that cannot be caught.
    pub fn of(config: &Config, telemetry: Telemetry) -> Result<Self, Fatal> {
        let signals = Signals::install()?;
        let api_server = config.kube.load().map_err(|error| error.to_string())?;
        Ok(Self {
            api_server,
            provider: Box::new(Self::socket(config)),
            signals,
            set_verbosity: Box::new(move |verbosity| telemetry.set_verbosity(verbosity)),
        })
    }

    /// The provider's socket by the flags.
    pub(crate) fn socket(config: &Config) -> ProviderSocket {
        let provider = &config.provider;
        ProviderSocket::new(provider.endpoint.clone(), &*provider.users)
    }
}

/// Runs the controller manager until a signal; a second signal ends the process at once.
///
/// # Cancellation
/// Dropping the future leaves tasks of connections behind, which end with the runtime.
pub async fn run(config: Config, surroundings: Surroundings) -> Result<(), Fatal> {
    let Surroundings {
        api_server,
        provider,
        mut signals,
        set_verbosity,
    } = surroundings;
    let mut process = Process::start(&config, api_server, set_verbosity).await?;
    let facts = tokio::select! {
        facts = process.reach_api_server() => facts?,
        () = signals.next() => return Ok(()),
    };
    let provider = process.connect_provider(&facts, provider);
    let cluster = SameCluster::new(process.informers.clone(), facts.uid);
    let sight = Sight::of(cluster.clone());
    if let Some(output) = config.plan {
        return tokio::select! {
            planned = dry_run::run(&process, &provider, output) => planned,
            () = refused_for_good(&provider) => Err(Fatal::NoClusterId),
            () = signals.next() => Ok(()),
        };
    }

    let events = process.write_events();
    let (nodes, services) = (Arc::default(), Arc::default());
    let loops = Loops {
        process: &mut process,
        provider: &provider,
        sight: &sight,
        events: &events,
        nodes: Arc::clone(&nodes),
        services: Arc::clone(&services),
        hosts: Vec::new(),
    };
    let hosts = loops.make();

    let recorder = events.recorder(COMPONENT);
    let contender = config.election.as_ref().map(|election| {
        let api = process.api("leader-election", Budget::UNLIMITED);
        let (metrics, recorder) = (process.metrics.leader.clone(), recorder.clone());
        let on_event = Arc::new(move |lease, event| recorder.event(lease, event));
        Contender::start(election, api, metrics, on_event, &provider, &sight)
    });
    let lock = contender.as_ref().map(|contender| contender.lock.clone());
    let on_lease = lease_events::recorder(config.election.as_ref(), recorder);
    let identity = ClusterIdentity::new(
        &config,
        (cluster.clone(), sight.clone()),
        provider.clone(),
        Box::new(on_lease.clone()),
        lock.clone(),
    );
    let compared = Arc::clone(&identity);
    process
        .checks
        .add("clusterUID", Scope::Readiness, move || compared.check());
    process.spawn("cluster identity", Arc::clone(&identity).run());
    let reports = lease_events::report(provider.clone(), on_lease);
    process.spawn("events about the provider", reports);
    let explainer = Explainer {
        history: process.history.clone(),
        nodes,
        services,
        lock,
    };
    process.pages.explain_by(move |path| explainer.answer(path));
    let lease_task = LeaseTask {
        contender,
        hosts,
        provider: provider.clone(),
        identity,
        checks: process.checks.clone(),
        running: process.metrics.controllers.clone(),
        grace: config.shutdown_grace,
    };
    let stop = CancellationToken::new();
    let (mut leading, mut is_over) = (Box::pin(lease_task.run(stop.clone())), false);

    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        name = process.tasks.ended() => Err(Fatal::Died(name)),
        ended = &mut leading => {
            is_over = true;
            ended
        }
        () = refused_for_good(&provider) => Err(Fatal::NoClusterId),
        why = cluster.replaced() => Err(Fatal::OtherCluster(why)),
    };
    info!("ending: no new work is taken");
    stop.cancel();
    let drained = async {
        let drained = if is_over { Ok(()) } else { leading.await };
        // After a lost lease no more calls are made, and the next leader may be there already. Nor has another cluster
        // anything to learn.
        if !matches!(ended, Err(Fatal::LeaseLost | Fatal::OtherCluster(_))) {
            process.end().await;
        }
        drained
    };
    let drained = tokio::select! {
        drained = drained => drained,
        () = tokio::time::sleep(config.shutdown_grace + CANCEL_TIMEOUT + END_TIMEOUT) => {
            warn!("still busy when the time to end is over; ending anyway");
            Ok(())
        }
        () = signals.next() => Err(Fatal::Hurried),
    };
    ended.and(drained)
}

/// Returns when the first handshake was refused for the want of a cluster id; a later one is only a
/// provider that is down.
async fn refused_for_good(provider: &Provider) {
    let mut state = provider.state();
    // The sender lives in the provider's handle.
    let _ = state
        .wait_for(|state| state.serves() || state.cause() == Some(DownCause::NoClusterId))
        .await;
    if state.borrow().cause() != Some(DownCause::NoClusterId) {
        std::future::pending::<()>().await;
    }
}
