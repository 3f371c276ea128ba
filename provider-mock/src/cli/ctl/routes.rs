//! `provider-mock ctl routes`.

use clap::Subcommand;
use outrigger_provider_mock::control::{Client, EditRoutes, NewRoute, Targets};

use super::super::show::Shown;

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

pub(super) async fn ask(client: &Client, action: RouteAction) -> anyhow::Result<Shown> {
    let (done, changed) = match action {
        RouteAction::List => return Ok(Shown::Routes(client.routes().await?)),
        RouteAction::Add(new) => ("added", client.add_route(&new).await?),
        RouteAction::Edit(edit) => ("changed", client.edit_routes(&edit).await?),
        RouteAction::Blackhole { targets } => {
            let edit = EditRoutes {
                targets,
                blackhole: Some(true),
                ..EditRoutes::default()
            };
            ("changed", client.edit_routes(&edit).await?)
        }
        RouteAction::Remove(targets) => ("removed", client.remove_routes(&targets).await?),
    };
    Ok(Shown::ChangedRoutes { done, changed })
}
