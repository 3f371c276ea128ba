//! Puts the parts together, starts them in order, and ends them in order.
//!
//! ```text
//!  start:  HTTPS server ─► API server ─► provider, stores, events (on a standby too)
//!                                         └─► lease task: [lease] ─► loops
//!  end:    no new call; calls in flight end ─► [lease] ─► events ─► everything else
//! ```

mod access;
mod election;
mod identity;
mod ipam;
mod lease_events;
mod lease_task;
mod loops;
pub(crate) mod metrics;
mod nodes;
mod plan;
mod route;
mod services;
mod supervise;
mod volume;
mod webhooks;
mod wiring;

use std::{borrow::Cow, sync::Arc, time::Duration};

use futures::future::join_all;
use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::{
    access::ApiAccess,
    election::Building,
    identity::ClusterIdentity,
    lease_task::CANCEL_TIMEOUT,
    metrics::Metrics,
    supervise::{Signals, Supervisor},
    wiring::{ControllerContext, Wiring},
};
use crate::options::{Config, config::Election};
use outrigger_kubernetes::{
    authenticator::Authenticators, client::Clients, cluster, events::EventType, leader,
    watch::Sight,
};
use outrigger_provider_client::{self as provider, DownCause, Provider, ProviderSocket};
use outrigger_runtime::telemetry::Telemetry;
use outrigger_server::{self as serving, Access, Checks, Pages, Scope, Server};
use outrigger_volumes::webhook::{VolumeReviewer, Webhook};

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
    /// A controller cannot be started (PROC-7).
    #[error("error running controllers: {0}")]
    Controllers(String),
    /// A part that must run until the end did not.
    #[error("{0} ended unexpectedly; see the log above")]
    Died(Cow<'static, str>),
    /// Another process leads, or may lead from now on (PROC-13).
    #[error("{0}")]
    LeaseLost(&'static str),
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
            Self::Setup(_) | Self::LeaseLost(_) | Self::Hurried => 1,
            Self::Died(_) => 2,
            Self::Controllers(_) | Self::NoClusterId => 255,
        }
    }

    fn setup(error: &dyn std::fmt::Display) -> Self {
        Self::Setup(error.to_string())
    }
}

/// Runs the controller manager until SIGTERM or SIGINT; a second signal ends the process at once.
pub async fn run(config: Config, telemetry: Telemetry) -> Result<(), Fatal> {
    let mut signals = Signals::install().map_err(|error| Fatal::setup(&error))?;
    // Before anything is asked for, so that a flag that cannot be followed ends the process at once.
    // A plan is made beside a controller that works.
    let serving = config.serving.as_ref();
    let serving = serving.filter(|_| config.plan.is_none());
    let https = serving.map(Server::bind).transpose();
    let https = https.map_err(|error| Fatal::setup(&error))?;
    let webhooks = config.webhook.as_ref();
    let webhooks = webhooks.filter(|_| config.plan.is_none());
    let webhooks = webhooks.map(webhooks::bind).transpose()?;
    let pages = Pages::new(config.pages.clone(), move |verbosity| {
        telemetry.set_verbosity(verbosity);
    });
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let kube = config
        .kube
        .load()
        .await
        .map_err(|error| Fatal::setup(&error))?;
    let authenticators = Authenticators::new(&metrics.client);
    let clients = Clients::new(kube, &authenticators, metrics.client.clone())
        .map_err(|error| Fatal::setup(&error))?;
    let server = clients.server();
    let access = ApiAccess::new(&config, clients, metrics.events.clone());
    let informers = access.root("shared-informers")?;

    // Ends everything that the loops stand on, after them.
    let process = CancellationToken::new();
    let mut parts = Supervisor::default();

    // Probes want an answer before the API server gives one.
    let checks = Checks::default();
    let silent = format!("{server} has not answered yet");
    checks.add("apiserver", Scope::Readiness, move || Err(silent.clone()));
    let mut https_access = None;
    if let Some(https) = https {
        let (authentication, authorization) = (&config.authentication, &config.authorization);
        let access = Access::new(
            authentication,
            authorization,
            &authenticators,
            &metrics.client,
            metrics.access.clone(),
        )
        .await;
        let access = Arc::new(access.map_err(|error| Fatal::setup(&error))?);
        https_access = Some(Arc::clone(&access));
        let served = serving::ServerParts {
            checks: checks.clone(),
            registry: Arc::new(registry),
            access,
            pages: pages.clone(),
            metrics: metrics.serving.clone(),
        };
        parts.spawn("HTTPS server", https.run(served, process.clone()));
    }
    let webhooks = match webhooks {
        Some(bound) => Some(bound.start(&access, &metrics, &checks, &mut parts, &process)?),
        None => None,
    };
    let reached = async {
        let lease = config.election.as_ref().map(Election::path);
        let facts = cluster::discover(&informers, &server, lease.as_deref()).await;
        if let Some(https_access) = https_access {
            let looked_up = https_access.look_up().await;
            looked_up.map_err(|error| Fatal::setup(&error))?;
        }
        Ok(facts)
    };
    let facts = tokio::select! {
        facts = reached => facts?,
        () = signals.next() => return Ok(()),
    };
    checks.add("apiserver", Scope::Readiness, || Ok(()));
    let refusals = access.refusals();
    checks.add("writes", Scope::Readiness, move || refusals.check());

    if config.plan.is_some() && facts.uid.is_none() && facts.remembered_uid.is_none() {
        return Err(Fatal::Setup(
            "cannot plan: may not read the namespace kube-system, and without the cluster's UID the \
             provider could take this for another cluster; grant `get` on it"
                .to_owned(),
        ));
    }
    let (provider, connection) = Provider::new(
        provider_options(&config, &facts),
        ProviderSocket::new(config.provider.endpoint.clone(), &*config.provider.users),
        metrics.provider.clone(),
        process.clone(),
    );
    parts.spawn("provider connection", connection);
    if let Some(webhooks) = webhooks {
        let reviewer = VolumeReviewer::new(provider.clone(), metrics.webhook.clone());
        webhooks.decide_by(Webhook::PersistentVolumeLabels, Arc::new(reviewer));
    }
    let (queues, shown) = (metrics.queues.clone(), provider.clone());
    pages.dump("queues", move || queues.dump());
    pages.dump("provider", move || shown.dump());

    let sight = Sight::default();
    let context = ControllerContext {
        config: &config,
        informers,
        provider: &provider,
        metrics: &metrics,
        pages: &pages,
        checks: &checks,
        sight: &sight,
    };
    if let Some(output) = config.plan {
        return tokio::select! {
            planned = plan::run(&context, output) => planned,
            () = refused_for_good(&provider) => Err(Fatal::NoClusterId),
            () = signals.next() => Ok(()),
        };
    }
    let process_events = access.root_events(COMPONENT, &mut parts, &process)?;
    let reading = context.informers.clone();
    let mut wiring = Wiring::new(context, &access, &mut parts, &process);
    let wired = async {
        let on_lookup = nodes::add(&mut wiring).await?;
        services::add(&mut wiring).await?;
        ipam::add(&mut wiring, on_lookup).await?;
        route::add(&mut wiring).await?;
        volume::add(&mut wiring).await?;
        nodes::watch(&mut wiring);
        Ok::<_, Fatal>(())
    };
    tokio::select! {
        wired = wired => wired?,
        () = signals.next() => return Ok(()),
    }
    let (loops, mut events) = wiring.finish();
    events.push(process_events.clone());

    let on_lease =
        lease_events::recorder(config.election.as_ref(), process_events.recorder(COMPONENT));
    let on_warning = {
        let on_lease = on_lease.clone();
        move |message| on_lease(EventType::Warning, "ClusterUnidentified", message)
    };
    let allow_untagged = config.provider.allow_untagged_cloud;
    let identity = ClusterIdentity::new(
        provider.clone(),
        &facts,
        allow_untagged,
        Box::new(on_warning),
    );
    let compared = Arc::clone(&identity);
    checks.add("clusterUID", Scope::Readiness, move || {
        compared.contradiction().map_or(Ok(()), Err)
    });

    let building = Building {
        identity: Arc::clone(&identity),
        api: access.unlimited("leader-election")?,
        metrics: metrics.leader.clone(),
        events: leader::record(process_events.recorder(COMPONENT)),
        loops: Arc::new(loops),
        provider: provider.clone(),
        sight: sight.clone(),
        checks: checks.clone(),
    };
    let stop = CancellationToken::new();
    let mut lease_tasks = building.open(&config, &stop);
    let identified = identity.run(reading, lease_tasks.main_lock());
    let until = process.clone();
    parts.spawn("cluster identity", async move {
        let _ = until.run_until_cancelled(identified).await;
    });

    let (on_provider, watched, until) = (on_lease, provider.clone(), process.clone());
    parts.spawn("events about the provider", async move {
        let host = leader::host();
        let reported = async {
            tokio::join!(
                lease_events::report(watched.state(), &host, &on_provider),
                lease_events::report_grants(&watched, &on_provider)
            )
        };
        let _ = until.run_until_cancelled(reported).await;
    });
    let state = provider.state();
    checks.add("provider", Scope::Readiness, move || {
        let state = state.borrow();
        if state.serves() {
            Ok(())
        } else {
            Err(state.to_string())
        }
    });

    let ended = tokio::select! {
        () = signals.next() => Ok(()),
        name = parts.ended() => Err(Fatal::Died(name)),
        ended = lease_tasks.ended() => ended,
        () = refused_for_good(&provider) => Err(Fatal::NoClusterId),
    };
    info!("ending: no new work is taken");
    stop.cancel();
    let drained = async {
        let drained = lease_tasks.drain().await;
        // After a lost lease no more calls are made, and the next leader may be there already.
        if matches!(ended, Err(Fatal::LeaseLost(_))) {
            return drained;
        }
        let flushed = join_all(events.iter().map(|events| events.flush(END_TIMEOUT))).await;
        if flushed.contains(&false) {
            warn!("some events were not written");
        }
        process.cancel();
        parts.drain().await;
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

fn provider_options(config: &Config, facts: &cluster::Facts) -> provider::Options {
    provider::Options {
        expected_name: config.provider.name.clone(),
        allow_untagged: config.provider.allow_untagged_cloud,
        effect_prefixes: config.provider.effect_prefixes.clone(),
        controller_name: COMPONENT.to_owned(),
        controller_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version: facts.version.clone(),
        cluster: config.cluster.clone(),
        cluster_uid: facts
            .uid
            .as_deref()
            .or(facts.remembered_uid.as_deref())
            .unwrap_or_default()
            .to_owned(),
        max_receive_bytes: outrigger_api::DEFAULT_MAX_MESSAGE_BYTES,
        standby: config.election.is_some(),
    }
}
