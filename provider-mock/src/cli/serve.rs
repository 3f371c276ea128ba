//! `provider-mock serve`.

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use outrigger_provider_mock::cidr::Cidr;
use outrigger_provider_mock::cloud::{Clock, Description, Holdings, Preference, Quota, part};
use outrigger_provider_mock::control::{self, About};
#[cfg(feature = "defects")]
use outrigger_provider_mock::defects;
use outrigger_provider_mock::instances::{
    LabelKey, LabelValue, Placement, PodCidrRange, ProviderName,
};
use outrigger_provider_mock::journal::Journal;
use outrigger_provider_mock::load_balancers::LoadBalancerRules;
use outrigger_provider_mock::state::{Keeper, StateFile};
use outrigger_provider_mock::{
    Cloud, CloudConfig, MockProvider, ProviderOptions, ServedLoadBalancers, ServedRoutes,
    ServedVolumes, connections, duration,
};
use outrigger_provider_sdk::Listener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::SocketArgs;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ServeCommand {
    #[command(flatten)]
    sockets: SocketArgs,

    /// YAML file that describes the instances of the cloud
    #[arg(long, value_name = "FILE")]
    cloud: Option<PathBuf>,

    /// Make an instance for each node that is asked about, unless its instance was deleted
    #[arg(long)]
    synthesize_instances: bool,

    /// Range from which each new instance gets a block for its Pods, a /24 or /64; one, or one of each IP family.
    /// Declares at handshake that the cloud allocates Pod CIDRs
    #[arg(long, value_delimiter = ',', value_name = "CIDR")]
    pod_cidrs: Vec<Cidr>,

    /// How long each call to the cloud takes
    #[arg(long, default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    latency: Duration,

    /// How much the latency varies: a part of it, 0 to 1
    #[arg(long, default_value = "0", value_parser = part, value_name = "PART")]
    jitter: f64,

    /// Most instances that one call to the cloud answers
    #[arg(long, default_value = "200", value_name = "N")]
    page_size: NonZeroUsize,

    /// Calls per second that the cloud accepts; more are refused with `RATE_LIMITED` [default: no limit]
    #[arg(long, allow_negative_numbers = true, value_name = "QPS")]
    rate_limit: Option<f64>,

    /// File in which instances, load balancers, routes and volumes survive a restart; made if it is not there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// How long changes are gathered before the state file is written: what a kill may lose
    #[arg(long, default_value = "250ms", value_parser = duration::parse, value_name = "DURATION")]
    state_interval: Duration,

    /// Answer a change of a load balancer or a route only once it is in the state file, so that a kill
    /// loses nothing that was answered; it waits up to --state-interval
    #[arg(long, requires = "state")]
    state_sync: bool,

    /// File to which a JSON line is appended for each call that begins, and for each load balancer that is created and
    /// deleted
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,

    /// Make a mistake on purpose, as the provider of another author may; `provider-mock defects` lists them
    #[cfg(feature = "defects")]
    #[arg(long, env = defects::DEFECT_ENV, value_parser = defects::named, value_name = "NAME")]
    defect: Option<std::sync::Arc<defects::Defect>>,

    #[command(flatten)]
    options: ProviderOptions,

    /// Offer no load balancers
    #[arg(long)]
    without_load_balancers: bool,

    #[command(flatten)]
    load_balancers: LoadBalancerRules,

    #[command(flatten)]
    served_load_balancers: ServedLoadBalancers,

    /// Offer a route table
    #[arg(long)]
    routes: bool,

    /// Most routes that the table has room for; more are refused with `QUOTA_EXCEEDED` [default: no limit]
    #[arg(long, requires = "routes", value_name = "N")]
    max_routes: Option<usize>,

    #[command(flatten)]
    served_routes: ServedRoutes,

    #[command(flatten)]
    volumes: ServedVolumes,

    /// Name of the provider and scheme of its provider IDs
    #[arg(long, default_value = "mock", value_name = "NAME")]
    provider_name: ProviderName,

    /// Which lookup the cloud does best, and so what looking up many nodes costs
    #[arg(long, default_value = "batch", value_name = "HOW")]
    lookup_preference: Preference,

    /// How long a new instance is not visible to lookups and lists [default: visible at once]
    #[arg(long, value_parser = duration::parse, value_name = "DURATION")]
    visibility_delay: Option<Duration>,

    /// Region of instances that name none
    #[arg(long, default_value = "mock-1", value_name = "REGION")]
    region: LabelValue,

    /// Zones over which instances that name none are spread [default: REGIONa,REGIONb,REGIONc]
    #[arg(long = "zone", value_delimiter = ',', value_name = "ZONE")]
    zones: Vec<LabelValue>,

    /// Type of instances that name none
    #[arg(long, default_value = "mock.medium", value_name = "TYPE")]
    instance_type: LabelValue,

    /// Label that each instance sets on its node; may be repeated
    #[arg(long = "label", value_parser = label, value_name = "KEY=VALUE")]
    labels: Vec<(LabelKey, LabelValue)>,

    /// Seed of all randomness (jitter, rates of faults)
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
}

impl ServeCommand {
    fn cloud_config(&self) -> anyhow::Result<CloudConfig> {
        let mut placement = Placement::new(
            self.region.clone(),
            self.zones.clone(),
            self.instance_type.clone(),
        )?;
        placement.labels = self.labels.iter().cloned().collect();
        let quota = self.rate_limit.map(|qps| Quota::checked(qps, None));
        Ok(CloudConfig {
            provider_name: self.provider_name.clone(),
            placement,
            synthesize: self.synthesize_instances,
            pod_cidrs: self.pod_cidr_ranges().map_err(anyhow::Error::msg)?,
            page_size: self.page_size,
            preference: self.lookup_preference,
            latency: self.latency,
            jitter: self.jitter,
            quota: quota.transpose().map_err(anyhow::Error::msg)?,
            visibility_delay: self.visibility_delay,
            load_balancers: self.load_balancers.clone(),
            max_routes: self.max_routes,
            durable: self.state_sync,
            seed: self.seed,
            clock: Clock::Wall,
        })
    }

    fn pod_cidr_ranges(&self) -> Result<Vec<PodCidrRange>, String> {
        let is_ipv4 = |range: &Cidr| range.is_like(Ipv4Addr::UNSPECIFIED.into());
        let prefix = |range: &Cidr| if is_ipv4(range) { 24 } else { 64 };
        let ranges = self.pod_cidrs.iter();
        let ranges = ranges.map(|range| PodCidrRange::new(*range, prefix(range)));
        ranges.collect()
    }

    fn provider_options(&self) -> ProviderOptions {
        let (balancers, volumes) = (&self.served_load_balancers, &self.volumes);
        ProviderOptions {
            load_balancers: (!self.without_load_balancers).then(|| balancers.clone()),
            routes: self.routes.then(|| self.served_routes.clone()),
            volumes: (volumes.in_tree || !volumes.csi_drivers.is_empty()).then(|| volumes.clone()),
            ..self.options.clone()
        }
    }
}

/// Serves until SIGTERM or SIGINT; a second signal ends it at once.
pub(crate) async fn run(args: ServeCommand) -> anyhow::Result<()> {
    // Before the socket is there: a signal without a handler leaves it behind.
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let endpoint = args.sockets.provider.endpoint.clone();
    let control_endpoint = args.sockets.control()?;
    let state_file = args.state.as_ref().map(|path| StateFile::new(path.clone()));

    let holdings = match &state_file {
        Some(file) => file.read()?.unwrap_or_default(),
        None => Holdings::default(),
    };
    let cloud = Cloud::with_holdings(args.cloud_config()?, holdings);
    if let Some(path) = &args.cloud {
        cloud
            .describe(Description::read(path)?)
            .with_context(|| format!("the cloud description {}", path.display()))
            .map_err(|error| anyhow::anyhow!("{error:#}"))?;
    }

    if let Some(path) = &args.journal {
        cloud.keep_journal(Journal::open(path)?);
    }

    // The sockets before the state: who finds another mock there must not write its file. The
    // provider's own socket appears last, so that whoever sees it finds everything in place.
    #[cfg(feature = "defects")]
    if let Some(defect) = &args.defect {
        defect.begins(endpoint.path())?;
    }
    let control_socket = Listener::bind(&control_endpoint).await?;
    let socket = Listener::bind(&endpoint).await?;
    #[cfg(feature = "defects")]
    if let Some(defect) = &args.defect {
        defect.made(endpoint.path())?;
    }
    let keeper = match state_file {
        Some(file) => {
            let keeper = Keeper::new(file, cloud.clone(), args.state_interval);
            keeper.write().await?;
            Some(keeper)
        }
        None => None,
    };

    let about = About {
        endpoint: endpoint.to_string(),
        state_file: args.state.as_ref().map(|path| path.display().to_string()),
    };
    tracing::info!(
        %endpoint,
        control = %control_endpoint,
        provider = %args.provider_name,
        instances = cloud.instances().len(),
        "serving a fake cloud"
    );
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let provider = MockProvider::with_options(cloud.clone(), args.provider_options());
    let stopping = async {
        stop.cancelled().await;
        // A call that hangs would delay the end.
        cloud.clear_faults();
    };
    let serving = async {
        let incoming = Box::pin(connections::incoming(socket));
        let server = provider.into_server();
        #[cfg(feature = "defects")]
        let server = match &args.defect {
            None => server,
            Some(defect) => defect.stand_before(server),
        };
        let served = server.serve_with_incoming(incoming, stopping).await;
        ended.cancel();
        #[cfg(feature = "defects")]
        if let Some(defect) = &args.defect {
            defect.ended(endpoint.path())?;
        }
        anyhow::Ok(served?)
    };
    let keeping = async {
        match keeper {
            Some(keeper) => keeper.run(ended.clone()).await,
            None => Ok(()),
        }
    };
    let controlling = control::serve(control_socket, cloud.clone(), about, ended.clone());
    let all = async {
        let (served, kept, ()) = tokio::join!(serving, keeping, controlling);
        served.and(kept)
    };
    tokio::pin!(all);
    tokio::select! {
        ended = &mut all => return ended,
        _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
        _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
    }
    stop.cancel();
    tokio::select! {
        ended = &mut all => ended,
        _ = terminate.recv() => anyhow::bail!("ended by a second SIGTERM"),
        _ = interrupt.recv() => anyhow::bail!("ended by a second SIGINT"),
    }
}

fn label(text: &str) -> Result<(LabelKey, LabelValue), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no label; write key=value"))?;
    let key = key.parse::<LabelKey>().map_err(|error| error.to_string())?;
    let value = value.parse::<LabelValue>();
    Ok((key, value.map_err(|error| error.to_string())?))
}
