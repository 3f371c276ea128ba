//! `provider-mock ctl lb`.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use outrigger_provider_mock::control::{Client, EditLoadBalancer, NewLoadBalancer, Targets};
use outrigger_provider_mock::load_balancers::{Port, ServiceTag};

use super::super::show::Shown;

#[derive(Debug, Subcommand)]
pub(super) enum LoadBalancerAction {
    /// List the load balancers
    List,
    /// Show load balancers whole, with their targets; as JSON
    Show(NamedArgs),
    /// Delete load balancers at once, protected or not, behind the controller's back
    Delete(NamedArgs),
    /// Change a load balancer behind the controller's back
    Edit(EditArgs),
    /// Put a load balancer into the cloud that no Service asked for
    Create(CreateArgs),
}

#[derive(Debug, Args)]
pub(super) struct NamedArgs {
    /// Ids, UIDs of Services, or NAMESPACE/NAME; if one is not known, nothing is changed
    #[arg(required_unless_present = "all", value_name = "ID|UID|NAME")]
    targets: Vec<String>,
    /// Each load balancer
    #[arg(long, conflicts_with = "targets")]
    all: bool,
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    /// Its id, the UID of its Service, or NAMESPACE/NAME
    #[arg(value_name = "ID|UID|NAME")]
    target: String,
    /// An address that it has from now on; may be repeated
    #[arg(long = "address", value_name = "IP")]
    addresses: Vec<IpAddr>,
    /// A port that it has from now on, as TCP/80:30080; may be repeated
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<Port>,
    /// A node that is its target from now on; may be repeated
    #[arg(long = "node", value_name = "NAME")]
    nodes: Vec<String>,
    /// Remove all its targets
    #[arg(long, conflicts_with = "nodes")]
    without_nodes: bool,
    /// Remove the tag of its Service
    #[arg(long)]
    untag: bool,
}

#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// Its id
    id: String,
    /// Tag of the cluster: its UID, or its name where it has none
    #[arg(long)]
    cluster: String,
    /// Tag of the Service, as NAMESPACE/NAME/UID [default: none]
    #[arg(long, value_parser = tag, value_name = "TAG")]
    service: Option<ServiceTag>,
    /// An address; may be repeated
    #[arg(long = "address", value_name = "IP")]
    addresses: Vec<IpAddr>,
}

fn tag(text: &str) -> Result<ServiceTag, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let [namespace, name, uid] = parts[..] else {
        return Err(format!("{text:?} is no tag; write NAMESPACE/NAME/UID"));
    };
    Ok(ServiceTag {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    })
}

impl NamedArgs {
    fn targets(self) -> Targets {
        Targets {
            targets: self.targets,
            all: self.all,
            terminating: false,
        }
    }
}

fn given<T>(values: Vec<T>) -> Option<Vec<T>> {
    (!values.is_empty()).then_some(values)
}

pub(super) async fn ask(client: &Client, action: LoadBalancerAction) -> anyhow::Result<Shown> {
    Ok(match action {
        LoadBalancerAction::List => Shown::LoadBalancers(client.load_balancers().await?),
        LoadBalancerAction::Show(args) => {
            Shown::Whole(client.show_load_balancers(&args.targets()).await?)
        }
        LoadBalancerAction::Delete(args) => {
            let changed = client.delete_load_balancers(&args.targets()).await?;
            Shown::ChangedLoadBalancers {
                done: "deleted",
                changed,
            }
        }
        LoadBalancerAction::Edit(args) => {
            let edit = EditLoadBalancer {
                target: args.target,
                addresses: given(args.addresses),
                ports: given(args.ports),
                nodes: if args.without_nodes {
                    Some(Vec::new())
                } else {
                    given(args.nodes)
                },
                untag: args.untag,
            };
            let changed = client.edit_load_balancer(&edit).await?;
            Shown::ChangedLoadBalancers {
                done: "changed",
                changed,
            }
        }
        LoadBalancerAction::Create(args) => {
            let new = NewLoadBalancer {
                id: args.id,
                cluster: args.cluster,
                service: args.service,
                addresses: args.addresses,
            };
            let changed = client.create_load_balancer(&new).await?;
            Shown::ChangedLoadBalancers {
                done: "created",
                changed,
            }
        }
    })
}
