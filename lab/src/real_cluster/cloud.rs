//! A cloud of network namespaces, made by `provider-linux cloud`.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
};

use outrigger_testbed::{
    Error, Result,
    process::{Sweeper, output},
};
use serde::Deserialize;
use tokio::process::Command;

use crate::real_node::{CLUSTER_CIDR, Network};

/// Networks of the machines.
const NETWORKS: &str = "10.77.0.0/16,fd00:77::/48";

/// This machine's address towards the router: the second one of the first subnet.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Addresses of load balancers.
const POOL: &str = "10.78.0.0/24";

/// Takes the cloud `$2` down when the pipe closes. Processes in its namespaces end at the same moment.
const SWEEPER: &str = r#"
read -r _
for pause in 0.2 1 2 4; do
  "$1" cloud down --cloud="$2" && exit 0
  sleep "$pause"
done
"#;

/// Dropping it, or the end of this process, removes it.
#[derive(Debug)]
pub(super) struct Cloud {
    program: PathBuf,
    /// The flag with its name.
    flag: String,
    _sweeper: Sweeper,
}

/// A machine as `cloud machine list` shows it.
#[derive(Deserialize)]
struct Machine {
    name: String,
    namespace: String,
    addresses: Vec<IpAddr>,
}

impl Cloud {
    /// Makes one without machines: the router, and this machine's way to it.
    pub(super) async fn up(program: PathBuf) -> Result<Self> {
        let name = format!("{:06x}", fastrand::u32(..0x0100_0000));
        // Before the first namespace is made.
        let sweeper = Sweeper::start(SWEEPER, [&program.display().to_string(), &name])?;
        let cloud = Self {
            program,
            flag: format!("--cloud={name}"),
            _sweeper: sweeper,
        };
        let networks = format!("--networks={NETWORKS}");
        let routes = format!("--host-routes={POOL},{CLUSTER_CIDR}");
        let args = ["up", &cloud.flag, &networks, "--host", &routes];
        cloud.run(&args, "make the cloud".to_owned()).await?;
        Ok(cloud)
    }

    /// The address of this machine that the cloud's machines reach.
    pub(super) const fn host() -> IpAddr {
        IpAddr::V4(HOST)
    }

    /// The command line of its provider.
    pub(super) fn provider(&self) -> Vec<String> {
        vec![
            self.program.display().to_string(),
            "serve".to_owned(),
            self.flag.clone(),
            format!("--pool={POOL}"),
        ]
    }

    /// Adds a machine.
    pub(super) async fn add(&self, name: &str) -> Result<Network> {
        self.machine("add", name).await?;
        let listed = ["machine", "list", &self.flag, "--json"];
        let text = self.run(&listed, "list the machines".to_owned()).await?;
        let failed = || Error::io("read the list of provider-linux");
        let machines: Vec<Machine> =
            serde_json::from_str(&text).map_err(|error| failed()(error.into()))?;
        let machine = machines.into_iter().find(|machine| machine.name == name);
        let network = machine.and_then(|machine| {
            Some(Network::Namespace {
                address: *machine.addresses.first()?,
                name: machine.namespace,
                dns: Self::host(),
            })
        });
        network.ok_or_else(|| failed()(io::Error::other(format!("it has no address of {name}"))))
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.flag.trim_start_matches("--cloud=")
    }

    /// The network namespace of its router.
    pub(super) fn router(&self) -> String {
        format!("or-{}-router", self.name())
    }

    /// Does `stop` or `delete` to a machine.
    pub(super) async fn machine(&self, verb: &str, name: &str) -> Result<()> {
        let args = ["machine", verb, &self.flag, name];
        let done = self.run(&args, format!("{verb} the machine {name}"));
        done.await.map(drop)
    }

    async fn run(&self, args: &[&str], action: String) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.arg("cloud").args(args);
        output("provider-linux", &mut command, || action).await
    }
}
