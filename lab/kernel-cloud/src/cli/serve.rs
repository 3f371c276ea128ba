//! `provider-linux serve`.

use std::fs;
use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use outrigger_provider_linux::LinuxProvider;
use outrigger_provider_linux::balancer::Options;
use outrigger_provider_linux::cloud::{Cloud, MACHINES};
use outrigger_provider_linux::kernel;
use outrigger_provider_linux::pool::Pool;
use outrigger_provider_sdk::{BoxError, EndpointArgs};

use super::{Place, runtime};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    socket: EndpointArgs,

    #[command(flatten)]
    place: Place,

    /// Ranges of the addresses of load balancers, which must be sent to the router or to this host
    #[arg(long, value_delimiter = ',', value_name = "CIDR")]
    pool: Vec<IpNet>,

    /// Give clients an address of this host at the nodes, for nodes whose replies would not come back through it. Pods see
    /// no other address then
    #[arg(long)]
    masquerade: bool,

    /// Links that clients of internal load balancers come by, each a name or `PREFIX*`, besides those of the cloud's machines.
    /// Without a link internal load balancers are refused
    #[arg(long, value_delimiter = ',', value_name = "LINK")]
    internal_links: Vec<String>,

    /// Port on which each target of a Service with externalTrafficPolicy Cluster answers /healthz: kube-proxy's; 0: no
    /// target is asked
    #[arg(long, default_value_t = 10256, value_name = "PORT")]
    cluster_health_port: u16,

    /// Milliseconds between two looks at the health of all targets
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..), value_name = "MILLISECONDS")]
    health_interval: u64,
}

impl Serve {
    pub(crate) fn run(self) -> Result<(), BoxError> {
        outrigger_provider_sdk::init_logging();
        let cloud = self.place.enter()?;
        forwards()?;
        let mut internal_links = self.internal_links;
        internal_links.extend(cloud.is_some().then(|| MACHINES.to_owned()));
        let options = Options {
            pool: Pool::new(&self.pool),
            masquerade: self.masquerade,
            internal_links,
            cluster_health_port: Some(self.cluster_health_port).filter(|port| *port > 0),
            health_interval: Duration::from_millis(self.health_interval),
            start_of_host: fs::read_to_string("/proc/sys/kernel/random/boot_id")?
                .trim()
                .to_owned(),
        };
        runtime()?.block_on(serve(&self.socket, options, cloud))
    }
}

async fn serve(
    socket: &EndpointArgs,
    options: Options,
    cloud: Option<Cloud>,
) -> Result<(), BoxError> {
    // A program or a right that is missing ends the process now.
    kernel::run("conntrack", &["--version"], "").await?;
    if let Some(cloud) = &cloud {
        cloud.machines().await?;
    }
    let provider = LinuxProvider::new(options, cloud);
    provider.balancer().prepare().await?;
    tokio::select! {
        ended = provider.server().serve(&socket.endpoint) => Ok(ended?),
        () = provider.watch() => Ok(()),
    }
}

/// Refuses a host that does not forward, and warns of one that filters replies from the addresses of load balancers.
fn forwards() -> Result<(), BoxError> {
    for (setting, command) in [
        ("ipv4/ip_forward", "sysctl -w net.ipv4.ip_forward=1"),
        (
            "ipv6/conf/all/forwarding",
            "sysctl -w net.ipv6.conf.all.forwarding=1",
        ),
    ] {
        // Without IPv6 there is no such file.
        if read(setting).is_some_and(|value| value == "0") {
            return Err(format!(
                "this host forwards no packets; run `{command}`, and see the README"
            )
            .into());
        }
    }
    if read("ipv4/conf/all/rp_filter").is_some_and(|value| value == "1") {
        tracing::warn!(
            "net.ipv4.conf.all.rp_filter is 1: replies of load balancers are dropped on their way; set it to 2 or 0"
        );
    }
    Ok(())
}

fn read(setting: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/net/{setting}")).ok()?;
    Some(value.trim().to_owned())
}
