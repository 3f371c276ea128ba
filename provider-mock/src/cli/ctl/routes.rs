//! `provider-mock ctl routes`.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use outrigger_provider_mock::cidr::Cidr;
use outrigger_provider_mock::control::{Client, EditRoutes, NewRoute, Targets};
use outrigger_provider_mock::routes::RouteTarget;

use super::super::show::Shown;

#[derive(Debug, Subcommand)]
pub(super) enum RouteAction {
    /// List the routes
    List,
    /// Put a route into the table that no controller asked for
    Add(AddArgs),
    /// Let routes lead elsewhere, behind the controller's back
    Edit(EditArgs),
    /// Let routes lead nowhere, as when their target is gone
    Blackhole(NamedArgs),
    /// Remove routes behind the controller's back
    Remove {
        /// Names or destinations; if one is not known, nothing is changed
        #[arg(required_unless_present = "all", value_name = "NAME|CIDR")]
        targets: Vec<String>,
        /// Each route
        #[arg(long, conflicts_with = "targets")]
        all: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct NamedArgs {
    /// Names or destinations; if one is not known, nothing is changed
    #[arg(required = true, value_name = "NAME|CIDR")]
    targets: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// Its destination; there may be others to it
    #[arg(value_name = "CIDR")]
    destination: Cidr,
    /// Its name [default: by-hand-1, by-hand-2 …]
    #[arg(long)]
    name: Option<String>,
    /// Tag of the cluster: its UID, or its name where it has none [default: the route is of no
    /// cluster]
    #[arg(long, value_name = "UID")]
    cluster: Option<String>,
    /// Name of the node that it leads to
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    node: String,
    /// Provider ID of the node
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    provider_id: String,
    /// The address that packets are sent to
    #[arg(long, value_name = "IP")]
    next_hop: Option<IpAddr>,
    /// It leads nowhere
    #[arg(long)]
    blackhole: bool,
}

#[derive(Debug, Args)]
pub(super) struct EditArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Name of the node that they lead to from now on
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Provider ID of the node
    #[arg(long, value_name = "ID")]
    provider_id: Option<String>,
    /// The address that packets are sent to from now on
    #[arg(long, value_name = "IP")]
    next_hop: Option<IpAddr>,
    /// Whether they lead nowhere
    #[arg(long, value_name = "BOOL")]
    blackhole: Option<bool>,
    /// Remove the tag of the cluster
    #[arg(long)]
    untag: bool,
}

pub(super) async fn ask(client: &Client, action: RouteAction) -> anyhow::Result<Shown> {
    let (done, changed) = match action {
        RouteAction::List => return Ok(Shown::Routes(client.routes().await?)),
        RouteAction::Add(args) => {
            let new = NewRoute {
                destination: args.destination,
                name: args.name,
                cluster: args.cluster,
                target: RouteTarget {
                    node: args.node,
                    provider_id: args.provider_id,
                    next_hop: args.next_hop,
                    addresses: Vec::new(),
                },
                blackhole: args.blackhole,
            };
            ("added", client.add_route(&new).await?)
        }
        RouteAction::Edit(args) => {
            let edit = EditRoutes {
                targets: args.named.targets,
                node: args.node,
                provider_id: args.provider_id,
                next_hop: args.next_hop,
                blackhole: args.blackhole,
                untag: args.untag,
            };
            ("changed", client.edit_routes(&edit).await?)
        }
        RouteAction::Blackhole(args) => {
            let edit = EditRoutes {
                targets: args.targets,
                blackhole: Some(true),
                ..EditRoutes::default()
            };
            ("changed", client.edit_routes(&edit).await?)
        }
        RouteAction::Remove { targets, all } => {
            let targets = Targets {
                targets,
                all,
                terminating: false,
            };
            ("removed", client.remove_routes(&targets).await?)
        }
    };
    Ok(Shown::ChangedRoutes { done, changed })
}
