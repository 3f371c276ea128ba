//! `provider-mock ctl lb`.

use clap::Subcommand;
use outrigger_provider_mock::control::{Client, EditLoadBalancer, NewLoadBalancer, Targets};

use super::super::show::Shown;

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

pub(super) async fn ask(client: &Client, action: LoadBalancerAction) -> anyhow::Result<Shown> {
    let (done, changed) = match action {
        LoadBalancerAction::List => {
            return Ok(Shown::LoadBalancers(client.load_balancers().await?));
        }
        LoadBalancerAction::Show(targets) => {
            return Ok(Shown::Whole(client.show_load_balancers(&targets).await?));
        }
        LoadBalancerAction::Delete(targets) => {
            ("deleted", client.delete_load_balancers(&targets).await?)
        }
        LoadBalancerAction::Edit {
            mut edit,
            without_nodes,
        } => {
            edit.nodes = edit.nodes.or(without_nodes.then(Vec::new));
            ("changed", client.edit_load_balancer(&edit).await?)
        }
        LoadBalancerAction::Create(new) => ("created", client.create_load_balancer(&new).await?),
    };
    Ok(Shown::ChangedLoadBalancers { done, changed })
}
