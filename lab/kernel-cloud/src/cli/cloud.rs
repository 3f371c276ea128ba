//! `provider-linux cloud`.

use clap::{Args, Subcommand};
use ipnet::IpNet;
use outrigger_provider_linux::cloud::{Cloud, HostLink, Machine, NewMachine};
use outrigger_provider_sdk::BoxError;

#[derive(Debug, Subcommand)]
pub(crate) enum CloudCommand {
    /// Make a cloud: a router in a network namespace of its own
    Up(Up),
    /// Remove a cloud with all its machines
    Down(Name),
    /// Make, change, list and delete machines
    Machine {
        #[command(subcommand)]
        command: MachineCommand,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// Name of the cloud: 1 to 12 lower case letters and digits
    #[arg(long, value_name = "NAME")]
    cloud: String,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    name: Name,

    /// Networks of the machines; each has a /24 of the IPv4 one and a /64 of the IPv6 one
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10.77.0.0/16,fd00:77::/48",
        value_name = "CIDR,CIDR"
    )]
    networks: Vec<IpNet>,

    /// Connect this host to the router: it has the second address of the first subnet
    #[arg(long)]
    host: bool,

    /// Further networks that the host sends to the router, such as pools of addresses and Pod CIDRs
    #[arg(long, value_delimiter = ',', requires = "host", value_name = "CIDR")]
    host_routes: Vec<IpNet>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// Make a machine that runs
    Add(Add),
    /// Delete a machine
    Delete(Which),
    /// Stop a machine: its link goes down
    Stop(Which),
    /// Start a machine that was stopped
    Start(Which),
    /// List the machines
    List(List),
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    #[command(flatten)]
    which: Which,

    /// Its zone, a label value
    #[arg(long, default_value = "", value_name = "NAME")]
    zone: String,

    /// Its ID, `i-` and eight hexadecimal digits, which no machine of the cloud ever had [default: a random one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Its type, a label value
    #[arg(long = "type", default_value = "", value_name = "NAME")]
    kind: String,
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    #[command(flatten)]
    cloud: Name,

    /// Name of the machine, also that of its Node
    #[arg(value_name = "MACHINE")]
    name: String,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    cloud: Name,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl CloudCommand {
    pub(crate) async fn run(self) -> Result<(), BoxError> {
        match self {
            Self::Up(up) => {
                let host = up.host.then_some(HostLink {
                    routes: up.host_routes,
                });
                let cloud = Cloud::named(&up.name.cloud)?;
                Ok(cloud.up(&up.networks, host.as_ref()).await?)
            }
            Self::Down(name) => Ok(Cloud::named(&name.cloud)?.down().await?),
            Self::Machine { command } => command.run().await,
        }
    }
}

impl MachineCommand {
    async fn run(self) -> Result<(), BoxError> {
        match self {
            Self::Add(Add {
                which,
                zone,
                id,
                kind,
            }) => {
                let name = which.name;
                let new = NewMachine {
                    name,
                    id,
                    zone,
                    kind,
                };
                let machine = Cloud::named(&which.cloud.cloud)?.add(&new).await?;
                print(&[machine], false)
            }
            Self::Delete(which) => Ok(which.cloud()?.delete(&which.name).await?),
            Self::Stop(which) => Ok(which.cloud()?.power(&which.name, false).await?),
            Self::Start(which) => Ok(which.cloud()?.power(&which.name, true).await?),
            Self::List(list) => {
                let machines = Cloud::named(&list.cloud.cloud)?.machines().await?;
                print(&machines, list.json)
            }
        }
    }
}

impl Which {
    fn cloud(&self) -> Result<Cloud, BoxError> {
        Ok(Cloud::named(&self.cloud.cloud)?)
    }
}

fn print(machines: &[Machine], as_json: bool) -> Result<(), BoxError> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(machines)?);
        return Ok(());
    }
    for machine in machines {
        let addresses: Vec<_> = machine.addresses.iter().map(ToString::to_string).collect();
        let state = if machine.running {
            "running"
        } else {
            "stopped"
        };
        println!(
            "{} {} {state} {}",
            machine.name,
            machine.provider_id,
            addresses.join(",")
        );
    }
    Ok(())
}
