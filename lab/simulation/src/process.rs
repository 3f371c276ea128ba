//! The processes of a Pod: a whole controller, and its provider.

use std::{collections::BTreeMap, future::pending, time::Duration};

use crate::{apiserver, host::Host, socket::Socket};
use anyhow::{Context as _, anyhow};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use outrigger_controller::{
    app::{self, Signals, Surroundings},
    options,
};
use outrigger_kube::client::{ApiServer, HttpService};
use outrigger_provider_mock::{Cloud, MockProvider, ProviderOptions};

/// The flags of each controller. Budgets of requests would be kept by the machine's clock. There are eight Pod CIDRs, so that
/// those of former Nodes are soon given again. The time before maintenance is
/// [`TAINT_BEFORE`](crate::maintenance::TAINT_BEFORE).
const FLAGS: &[&str] = &[
    "--kube-api-qps=-1",
    "--secure-port=0",
    "--allocate-node-cidrs",
    "--cluster-cidr=10.244.0.0/21",
    "--node-deletion-burst=10",
    "--out-of-service-after=2m",
    "--maintenance-condition",
    "--maintenance-taint-before=6h",
    "--controllers=*,node-ipam,kubelet-serving-approving,persistentvolume-labels",
];

/// A controller that begins now, and its SIGTERM.
///
/// # Errors
/// Flags that are refused.
pub fn controller(
    name: &'static str,
    now: Duration,
    api_server: &apiserver::ApiServer,
    socket: &Socket,
) -> anyhow::Result<(Host, UnboundedSender<()>)> {
    let config = options::parse_from(FLAGS, &BTreeMap::new());
    let config = config.map_err(|error| anyhow!("{error}"))?;
    let (terminate, signals) = unbounded();
    let surroundings = Surroundings {
        api_server: ApiServer::in_process(HttpService::new(api_server.connect(name))),
        provider: Box::new(socket.clone()),
        signals: Signals::new(signals),
        set_verbosity: Box::new(drop),
    };
    let main = async move {
        match Box::pin(app::run(config, surroundings)).await {
            Ok(()) => "ended".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let host = Host::start(name, now, main).context("no runtime for a controller")?;
    Ok((host, terminate))
}

/// A provider of `cloud` that begins now.
///
/// # Errors
/// If there is no runtime to be had.
pub fn provider(
    name: &'static str,
    now: Duration,
    cloud: &Cloud,
    options: ProviderOptions,
    socket: &Socket,
) -> anyhow::Result<Host> {
    let incoming = socket.listen();
    let server = MockProvider::with_options(cloud.clone(), options).into_server();
    let main = async move {
        match server.serve_with_incoming(incoming, pending()).await {
            Ok(()) => "ended".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    Host::start(name, now, main).context("no runtime for a provider")
}
