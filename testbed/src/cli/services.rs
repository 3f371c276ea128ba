//! `outrigger-testbed services`: makes or deletes many Services on any cluster and measures how long they wait.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::{bar, client, duration, note, print, table};
use crate::{
    Result,
    nodes::Load,
    services::{self, Created, Exposure},
};

/// On Services that this command makes.
const LABEL: &str = "outrigger.dev/testbed";

#[derive(Debug, Args)]
pub(super) struct Services {
    /// The cluster's kubeconfig.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: PathBuf,
    /// How many Services.
    #[arg(long, default_value_t = 100)]
    count: usize,
    #[command(flatten)]
    load: Load,
    /// The namespace that they are in.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// The names are this and a number of five digits.
    #[arg(long, default_value = "service-")]
    prefix: String,
    /// Time limit until all have an address, or are gone.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// Delete these Services instead, and wait until their load balancers are gone.
    #[arg(long)]
    delete: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Services {
    pub(super) async fn run(self) -> Result<()> {
        let client = client(&self.kubeconfig).await?;
        let names = services::numbered(&self.prefix, self.count);
        if self.delete {
            let names = names.collect();
            let gone =
                services::delete_all(&client, &self.namespace, names, self.load, self.timeout)
                    .await?;
            let (count, seconds) = (self.count, gone.as_secs_f64());
            note(&format!("deleted {count} Services in {seconds:.2} s"));
            return Ok(());
        }
        let exposure = Exposure {
            namespace: &self.namespace,
            services: names
                .map(|name| services::balanced(&name, (LABEL, "load")))
                .collect(),
            selector: LABEL,
            is_ready: |service| !services::addresses(service).is_empty(),
            load: self.load,
            timeout: self.timeout,
        };
        let progress = bar("waiting for addresses", self.count);
        let exposed = exposure.run(&client, |ready| progress.set_position(ready as u64));
        let exposed = exposed.await?;
        progress.finish_and_clear();
        print(&self.report(&exposed))
    }

    fn report(&self, exposed: &Created<Service>) -> String {
        let (created, all) = (exposed.created.as_secs_f64(), exposed.ready.as_secs_f64());
        let waited = |part| exposed.percentile(part).as_secs_f64();
        let [median, most, longest] = [waited(0.5), waited(0.99), waited(1.0)];
        if self.json {
            let report = json!({
                "services": exposed.objects.len(),
                "parallel": self.load.parallel,
                "secondsToCreate": created,
                "secondsToAddresses": all,
                "secondsWaited": {"p50": median, "p99": most, "max": longest},
            });
            return format!("{report}\n");
        }
        let numbers = [created, all, median, most, longest].map(|number| format!("{number:.2}"));
        let counts = [exposed.objects.len(), self.load.parallel].map(|count| count.to_string());
        table(
            &[
                "SERVICES", "PARALLEL", "CREATED", "ALL", "P50", "P99", "MAX",
            ],
            counts.into_iter().chain(numbers),
        )
    }
}
