//! `provider-linux cleanup`.

use clap::Args;
use outrigger_provider_linux::balancer::{Balancer, Options};
use outrigger_provider_linux::clean_up_routes;
use outrigger_provider_sdk::BoxError;

use super::{Place, runtime};

#[derive(Debug, Args)]
pub(crate) struct CleanUp {
    #[command(flatten)]
    place: Place,

    /// UID of the namespace kube-system of the cluster
    #[arg(long, value_name = "UID")]
    cluster: String,
}

impl CleanUp {
    pub(crate) fn run(self) -> Result<(), BoxError> {
        self.place.enter()?;
        let balancer = Balancer::new(Options::default());
        runtime()?.block_on(async {
            let count = balancer.clean_up(&self.cluster).await?;
            clean_up_routes(&self.cluster).await?;
            println!(
                "removed {count} load balancers, and all routes, of the cluster {}",
                self.cluster
            );
            Ok(())
        })
    }
}
