//! `sweep`: lists the load balancers and routes that a provider has for a cluster, and deletes them.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use outrigger_core::{cluster_uid::is_of_another_cluster, syntax::subdomain};
use outrigger_kube::{
    client::Source,
    cluster::{self, CLUSTER_UID_ANNOTATION},
};
use outrigger_loops::sweep::{Fate, Leftover, Sweep, Swept};
use outrigger_provider::{Cluster, Endpoint, Options, Provider, ProviderSocket};
use outrigger_runtime::{
    VERSION,
    telemetry::{Logging, Telemetry},
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{connect, new_table, run_to_end};
use crate::{
    app::Signals,
    options::{DEFAULT_ENDPOINT, cluster_uid, config::OutputForm, period},
};

/// Lists the load balancers and routes that the provider has for a cluster, and with --yes deletes them. Only you can know
/// that the cluster is gone. Exit code 0: listed, or nothing is left; 1: something is, or may be; 2: nothing was begun.
#[derive(Parser)]
#[command(name = "cloud-controller-manager sweep", no_binary_name = true)]
pub(super) struct SweepCommand {
    /// --cluster-name that the cluster had.
    #[arg(long, default_value = "kubernetes")]
    cluster_name: String,
    /// UID that the cluster's load balancers and routes are marked with: its --cluster-uid, or that of its namespace
    /// kube-system.
    #[arg(long, value_parser = cluster_uid)]
    cluster_uid: String,
    /// Kubeconfig of a cluster that lives, such as the hosting one. Its API server must answer with another UID before
    /// anything is deleted. Without it that of the Pod's service account.
    #[arg(long, conflicts_with = "without_kubeconfig")]
    kubeconfig: Option<PathBuf>,
    /// Lease of that cluster's controller, NAMESPACE/NAME, which remembers its --cluster-uid. A Lease that is named need not be
    /// there. Without it kube-system/cloud-controller-manager, which must be.
    #[arg(long, value_parser = lease_path)]
    lease: Option<String>,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputForm,
    /// Address of the Unix socket of the provider, as the controller manager takes it from flags and environment.
    #[arg(long, env = "CLOUDPROVIDER_ENDPOINT", default_value = DEFAULT_ENDPOINT)]
    provider_endpoint: Endpoint,
    /// Numbers of the users that the process behind --provider-endpoint may be one of; without it any.
    #[arg(long, value_delimiter = ',')]
    provider_user: Vec<u32>,
    /// How long the sweep may take.
    #[arg(long, default_value = "30m0s", value_parser = period)]
    timeout: Duration,
    /// Ask no API server whether it is that of the cluster.
    #[arg(long)]
    without_kubeconfig: bool,
    /// Delete what is listed.
    #[arg(short, long)]
    yes: bool,
}

/// The Lease without `--lease`.
const DEFAULT_LEASE: &str = "kube-system/cloud-controller-manager";

/// The path of the Lease NAMESPACE/NAME.
fn lease_path(text: &str) -> Result<String, &'static str> {
    let (namespace, name) = text.split_once('/').unwrap_or_default();
    if subdomain(namespace).is_err() || subdomain(name).is_err() {
        return Err("it must be NAMESPACE/NAME");
    }
    Ok(cluster::lease_path(namespace, name))
}

/// Exit code of a sweep that leaves something.
const LEFT: u8 = 1;

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl SweepCommand {
    pub(super) fn run(self) -> Result<ExitCode, String> {
        Telemetry::install(&Logging::default()).map_err(|error| error.to_string())?;
        run_to_end(self.sweep())?
    }

    async fn sweep(self) -> Result<ExitCode, String> {
        let mut signals = Signals::install()?;
        let mut stop = std::pin::pin!(async {
            tokio::select! {
                () = signals.next() => "it was interrupted".to_owned(),
                () = sleep(self.timeout) => "the time was up".to_owned(),
            }
        });
        let begun = async {
            let sweep = Sweep::begin(self.connect(), &self.cluster_uid).await?;
            let listed = sweep.list().await?;
            if self.yes && !listed.is_empty() {
                self.confirm().await?;
            }
            Ok::<_, String>((sweep, listed))
        };
        let (sweep, listed) = tokio::select! {
            biased;
            why = &mut stop => return Err(format!("nothing was begun: {why}")),
            begun = begun => begun?,
        };
        let deletes = self.yes && !listed.is_empty();
        let swept = if deletes {
            sweep.run(stop).await
        } else {
            Swept::listed(listed)
        };
        println!("{}", self.show(&swept));
        Ok(if !deletes || swept.is_clean() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(LEFT)
        })
    }

    /// Asks the API server whether it is another cluster's.
    ///
    /// RBAC: `get` on the Lease and on the namespace `kube-system`.
    async fn confirm(&self) -> Result<(), String> {
        if self.without_kubeconfig {
            return Ok(());
        }
        let living = Source {
            kubeconfig: self.kubeconfig.clone(),
            master: None,
        };
        let answer = timeout(PATIENCE, self.ask(&living)).await;
        answer
            .unwrap_or_else(|_elapsed| Err(format!("no answer within {} s", PATIENCE.as_secs())))
            .map_err(|why| {
                format!(
                    "nothing is deleted: {why}\nA cluster that lives must answer with another UID than {}: give \
                     --kubeconfig of one, such as the hosting one, or --without-kubeconfig",
                    self.cluster_uid
                )
            })
    }

    async fn ask(&self, living: &Source) -> Result<(), String> {
        let api_server = living.load().map_err(|error| error.to_string())?;
        let url = api_server.url();
        let api = super::api(api_server, "sweep").await?;
        let kube_system = cluster::uid(&api).await;
        let path = self
            .lease
            .clone()
            .map_or_else(|| lease_path(DEFAULT_LEASE), Ok)?;
        let on_lease = match cluster::lease(&api, &path).await {
            // Its controller may have another one.
            Err(error) if error.is_not_found() && self.lease.is_none() => Err(format!(
                "it has no Lease {DEFAULT_LEASE}: name that of its controller with --lease"
            )),
            // No replica has led there.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.to_string()),
            Ok(lease) => Ok(lease.annotations.get(CLUSTER_UID_ANNOTATION).cloned()),
        };
        is_of_another_cluster(
            &self.cluster_uid,
            kube_system.as_deref().map_err(ToString::to_string),
            on_lease
                .as_ref()
                .map(Option::as_deref)
                .map_err(Clone::clone),
        )
        .map_err(|why| format!("{url}: {why}"))
    }

    fn connect(&self) -> Provider {
        let options = Options {
            controller_name: "cloud-controller-manager sweep".to_owned(),
            controller_version: VERSION.to_owned(),
            cluster: Cluster {
                name: self.cluster_name.clone(),
                ..Cluster::default()
            },
            cluster_uid: self.cluster_uid.clone(),
            ..Options::default()
        };
        let socket =
            ProviderSocket::new(self.provider_endpoint.clone(), self.provider_user.clone());
        connect(options, socket)
    }
}

impl SweepCommand {
    /// Everything that was listed, with what became of it.
    fn show(&self, swept: &Swept) -> String {
        let Swept {
            objects,
            unfinished,
        } = swept;
        let uid = &self.cluster_uid;
        if self.output == OutputForm::Json {
            let entry = |(object, fate): &(Leftover, Fate)| {
                json!({
                    "kind": object.kind(),
                    "name": object.name(),
                    "for": object.owner(),
                    "state": fate.as_str(),
                    "error": fate.why(),
                })
            };
            let objects: Vec<_> = objects.iter().map(entry).collect();
            let shown = json!({"clusterUid": uid, "objects": objects, "unfinished": unfinished});
            return format!("{shown:#}");
        }
        if objects.is_empty() {
            return format!("nothing of the cluster {uid}");
        }
        let mut table = new_table(["KIND", "OBJECT", "FOR", "STATE", "WHY"]);
        for (object, fate) in objects {
            table.add_row([
                object.kind(),
                &object.name(),
                &object.owner(),
                fate.as_str(),
                fate.why().unwrap_or_default(),
            ]);
        }
        let is_deleted = |(_, fate): &&(Leftover, Fate)| *fate == Fate::Deleted;
        let deleted = objects.iter().filter(is_deleted).count();
        let left = objects.len() - deleted;
        let end = match unfinished {
            _ if !self.yes => format!("{left} objects of the cluster {uid}; --yes deletes them"),
            Some(why) => format!("{deleted} objects deleted, {left} not; more may be left: {why}"),
            None => format!("{deleted} objects deleted, {left} left"),
        };
        format!("{}\n\n{end}", table.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_refused_before_anything_is_asked() {
        const UID: &str = "--cluster-uid=0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10";
        let refused = |words: &[&str]| {
            let parsed = SweepCommand::try_parse_from(words).err();
            parsed.map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(&[UID, "--provider-user=10002", "--timeout=1s"]), "");
        for (words, why) in [
            (&["--yes"][..], "--cluster-uid"),
            (&["--cluster-uid=a b"], "must be a UUID"),
            (
                &["--cluster-uid=0B5BF7B5-1C2E-4B4A-9D7C-6C2F0E8D5A10"],
                "must be a UUID",
            ),
            (&[UID, "--lease=ccm"], "must be NAMESPACE/NAME"),
            (&[UID, "--timeout=0s"], "must be greater than 0"),
            (&[UID, "--output=yaml"], "table, json"),
            (&[UID, "--provider-user=ccm"], "--provider-user"),
            (
                &[UID, "--kubeconfig=k", "--without-kubeconfig"],
                "cannot be used with",
            ),
        ] {
            let refused = refused(words);
            assert!(refused.contains(why), "{words:?}: {refused}");
        }
    }
}
