//! `provider-mock ctl lb`, `ctl routes` and `ctl volumes`.

use clap::Subcommand;
use outrigger_provider_mock::control::operations as on;
use outrigger_provider_mock::control::{
    Client, EditLoadBalancer, EditRoutes, NewLoadBalancer, NewRoute, Targets,
};
use outrigger_provider_mock::volumes::Volume;

use super::super::show::{Shown, Text, changed, listed};

#[derive(Debug, Subcommand)]
pub(super) enum LoadBalancerAction {
    /// List the load balancers
    List,
    /// Show load balancers whole, with their targets; as JSON
    Show(Targets),
    /// Delete load balancers at once, protected or not, behind the controller's back
    Delete(Targets),
    /// Change a load balancer behind the controller's back
    Edit {
        #[command(flatten)]
        edit: EditLoadBalancer,
        /// Remove all its targets
        #[arg(long, conflicts_with = "nodes")]
        without_nodes: bool,
    },
    /// Put a load balancer into the cloud that no Service asked for
    Create(NewLoadBalancer),
}

#[derive(Debug, Subcommand)]
pub(super) enum RouteAction {
    /// List the routes
    List,
    /// Put a route into the table that no controller asked for
    Add(NewRoute),
    /// Let routes lead elsewhere, behind the controller's back
    Edit(EditRoutes),
    /// Let routes lead nowhere, as when their target is gone
    Blackhole {
        /// Names or destinations; if one is not known, nothing is changed
        #[arg(required = true, value_name = "NAME|CIDR")]
        targets: Vec<String>,
    },
    /// Remove routes behind the controller's back
    Remove(Targets),
}

#[derive(Debug, Subcommand)]
pub(super) enum VolumeAction {
    /// List the volumes
    List,
    /// Make a volume, or let one answer otherwise: in other zones, as another account's, or not at all
    Set(Volume),
    /// Delete volumes
    Delete(Targets),
}

impl LoadBalancerAction {
    pub(super) async fn run(self, client: &Client) -> anyhow::Result<Shown> {
        match self {
            Self::List => listed(&client.ask(on::LOAD_BALANCERS, &()).await?),
            Self::Show(targets) => {
                // No table has room for the targets.
                let shown = client.ask(on::SHOW_LOAD_BALANCERS, &targets).await?;
                Shown::new(&shown, Text::Json)
            }
            Self::Delete(targets) => {
                let deleted = client.ask(on::DELETE_LOAD_BALANCERS, &targets).await?;
                changed("deleted", &deleted)
            }
            Self::Edit {
                mut edit,
                without_nodes,
            } => {
                edit.nodes = edit.nodes.or(without_nodes.then(Vec::new));
                changed("changed", &client.ask(on::EDIT_LOAD_BALANCER, &edit).await?)
            }
            Self::Create(new) => changed(
                "created",
                &client.ask(on::CREATE_LOAD_BALANCER, &new).await?,
            ),
        }
    }
}

impl RouteAction {
    pub(super) async fn run(self, client: &Client) -> anyhow::Result<Shown> {
        match self {
            Self::List => listed(&client.ask(on::ROUTES, &()).await?),
            Self::Add(new) => changed("added", &client.ask(on::ADD_ROUTE, &new).await?),
            Self::Edit(edit) => changed("changed", &client.ask(on::EDIT_ROUTES, &edit).await?),
            Self::Blackhole { targets } => {
                let edit = EditRoutes {
                    targets,
                    blackhole: Some(true),
                    ..EditRoutes::default()
                };
                changed("changed", &client.ask(on::EDIT_ROUTES, &edit).await?)
            }
            Self::Remove(targets) => {
                changed("removed", &client.ask(on::REMOVE_ROUTES, &targets).await?)
            }
        }
    }
}

impl VolumeAction {
    pub(super) async fn run(self, client: &Client) -> anyhow::Result<Shown> {
        match self {
            Self::List => listed(&client.ask(on::VOLUMES, &()).await?),
            Self::Set(volume) => changed("set", &client.ask(on::SET_VOLUME, &volume).await?),
            Self::Delete(targets) => {
                changed("deleted", &client.ask(on::DELETE_VOLUMES, &targets).await?)
            }
        }
    }
}
