//! `sweep`: lists the load balancers and routes that a provider has for a cluster, and deletes them.

mod report;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use outrigger_core::{
    cluster_uid::is_of_another_cluster, effects::GrantedPrefixes, go_duration::GoDuration,
    syntax::subdomain,
};
use outrigger_kubernetes::{
    api::Api,
    client::{Budget, Clients, Source},
    cluster::{self, CLUSTER_UID_ANNOTATION},
    metrics::ClientMetrics,
};
use outrigger_loops::sweep::Sweep;
use outrigger_provider_client::{
    Cluster, Endpoint, Options, Provider, ProviderMetrics, ProviderSocket,
};
use outrigger_runtime::{
    VERSION,
    telemetry::{Logging, Telemetry},
};
use prometheus_client::registry::Registry;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::report::Report;
use super::{Refusal, help, read};
use crate::{
    app::Signals,
    options::{
        check::{cluster_uid, provider_users},
        command_line::CommandLine,
        flag::{Flag, Setting, flags},
    },
};

const USAGE: &str = "Usage: cloud-controller-manager sweep --cluster-uid UID [--yes] [flags]\n\
                     Lists the load balancers and routes that the provider has for a cluster, and with --yes deletes \
                     them. Only you can know that the cluster is gone. Exit code 0: listed, or nothing is left; \
                     1: something is, or may be; 2: nothing was begun.";

flags! {
    "Sweep" {
        /// --cluster-name that the cluster had.
        cluster_name: String = "kubernetes";
        /// UID that the cluster's load balancers and routes are marked with: its --cluster-uid, or that of its namespace
        /// kube-system.
        cluster_uid: String = "";
        /// Print this help and exit.
        help: bool = "false" { short: Some('h') };
        /// Kubeconfig of a cluster that lives, such as the hosting one. Its API server must answer with another UID before
        /// anything is deleted. Empty: that of the Pod's service account.
        kubeconfig: String = "";
        /// Lease of that cluster's controller, NAMESPACE/NAME, which remembers its --cluster-uid.
        lease: String = "kube-system/cloud-controller-manager";
        /// Form of the output: table or json.
        output: String = "table" { short: Some('o') };
        /// Address of the Unix socket of the provider, as the controller manager takes it from flags and environment.
        provider_endpoint: Endpoint = "unix:///run/outrigger/provider.sock";
        /// Numbers of the users that the process behind --provider-endpoint may be one of; empty: any.
        provider_user: Vec<String> = "";
        /// How long the sweep may take.
        timeout: GoDuration = "30m0s";
        /// Ask no API server whether it is that of the cluster.
        without_kubeconfig: bool = "false";
        /// Delete what is listed.
        yes: bool = "false" { short: Some('y') };
    }
}

/// Exit code of a sweep that leaves something.
const LEFT: u8 = 1;

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The checked flags.
struct Settings {
    uid: Box<str>,
    /// Where the API server is that must be another cluster's; none: it is not asked.
    living: Option<Source>,
    /// Path of the Lease there.
    lease: String,
    report: Report,
    deletes: bool,
    endpoint: Endpoint,
    users: Vec<u32>,
    cluster_name: String,
    timeout: Duration,
}

pub(super) fn run(words: &[String]) -> Result<ExitCode, Refusal> {
    let line = read(FLAGS, USAGE, words, &["CLOUDPROVIDER_ENDPOINT"])?;
    let flags = Flags::read(&line)?;
    if flags.help.value {
        return Ok(help(USAGE, FLAGS));
    }
    if let Some(word) = line.positional.first() {
        return Err(Refusal(format!("unexpected argument {word:?}\n{USAGE}")));
    }
    let settings = Settings::of(&flags)?;
    Telemetry::install(&Logging::default()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let ended = runtime.block_on(settings.sweep());
    runtime.shutdown_background();
    ended
}

impl Settings {
    fn of(flags: &Flags) -> Result<Self, Refusal> {
        let uid = cluster_uid(&flags.cluster_uid)?;
        let uid = uid.ok_or_else(|| format!("{} must be given\n{USAGE}", flags.cluster_uid))?;
        let (lease, given) = (&flags.lease, &flags.timeout);
        let (namespace, name) = lease.split_once('/').unwrap_or_default();
        if subdomain(namespace).is_err() || subdomain(name).is_err() {
            return Err(Refusal(format!(
                "{lease} must be NAMESPACE/NAME, but got {:?}",
                lease.value
            )));
        }
        let timeout = given.as_std().filter(|time| !time.is_zero());
        let timeout = timeout
            .ok_or_else(|| format!("{given} must be greater than 0, but got {}", given.value))?;
        let kubeconfig = Some(&*flags.kubeconfig.value).filter(|path| !path.is_empty());
        let is_asked = !flags.without_kubeconfig.value;
        if !is_asked && kubeconfig.is_some() {
            return Err(Refusal(format!(
                "{} and {} contradict each other",
                flags.kubeconfig, flags.without_kubeconfig
            )));
        }
        Ok(Self {
            report: Report::of(&flags.output.value, &uid)?,
            uid,
            living: is_asked.then(|| Source {
                kubeconfig: kubeconfig.map(PathBuf::from),
                master: None,
            }),
            lease: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"),
            deletes: flags.yes.value,
            endpoint: flags.provider_endpoint.value.clone(),
            users: provider_users(&flags.provider_user)?,
            cluster_name: flags.cluster_name.value.clone(),
            timeout,
        })
    }

    async fn sweep(self) -> Result<ExitCode, Refusal> {
        let signals = Signals::install();
        let mut signals = signals.map_err(|error| error.to_string())?;
        let mut stop = std::pin::pin!(async {
            tokio::select! {
                () = signals.next() => "it was interrupted".to_owned(),
                () = sleep(self.timeout) => "the time was up".to_owned(),
            }
        });
        let begun = async {
            let sweep = Sweep::begin(self.connect(), &self.uid).await?;
            let listed = sweep.list().await?;
            if self.deletes && !listed.is_empty() {
                self.confirm().await?;
            }
            Ok::<_, String>((sweep, listed))
        };
        let (sweep, listed) = tokio::select! {
            biased;
            why = &mut stop => return Err(Refusal(format!("nothing was begun: {why}"))),
            begun = begun => begun?,
        };
        if !self.deletes || listed.is_empty() {
            self.report.listed(&listed);
            return Ok(ExitCode::SUCCESS);
        }
        let swept = sweep.run(stop).await;
        self.report.swept(&swept);
        Ok(if swept.is_clean() {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(LEFT)
        })
    }

    /// Asks the API server whether it is another cluster's.
    ///
    /// RBAC: `get` on the Lease and on the namespace `kube-system`.
    async fn confirm(&self) -> Result<(), String> {
        let Some(living) = &self.living else {
            return Ok(());
        };
        let answer = timeout(PATIENCE, self.ask(living)).await;
        answer
            .unwrap_or_else(|_elapsed| Err(format!("no answer within {} s", PATIENCE.as_secs())))
            .map_err(|why| {
                format!(
                    "nothing is deleted: {why}\nA cluster that lives must answer with another UID than {}: give \
                     --kubeconfig of one, such as the hosting one, or --without-kubeconfig",
                    self.uid
                )
            })
    }

    async fn ask(&self, living: &Source) -> Result<(), String> {
        let api_server = living.load().map_err(|error| error.to_string())?;
        let clients = Clients::new(api_server, ClientMetrics::default()).await;
        let clients = clients.map_err(|error| error.to_string())?;
        let api = Api::new(clients.build("sweep", Budget::UNLIMITED));
        let kube_system = cluster::uid(&api).await;
        let annotations = match cluster::lease(&api, &self.lease).await {
            // No replica has led there.
            Err(error) if error.is_not_found() => Ok(None),
            lease => lease.map(|lease| Some(lease.annotations)),
        };
        let on_lease = annotations.as_ref().map(|annotations| {
            let uid = annotations.as_ref()?.get(CLUSTER_UID_ANNOTATION);
            uid.map(|uid| &**uid)
        });
        is_of_another_cluster(
            &self.uid,
            kube_system.as_deref().map_err(ToString::to_string),
            on_lease.map_err(ToString::to_string),
        )
        .map_err(|why| format!("{}: {why}", clients.server()))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the command ends with the runtime, and the connection with it"
    )]
    fn connect(&self) -> Provider {
        let options = Options {
            expected_name: None,
            allow_untagged: false,
            effect_prefixes: GrantedPrefixes::default(),
            controller_name: "cloud-controller-manager sweep".to_owned(),
            controller_version: VERSION.to_owned(),
            kubernetes_version: String::new(),
            cluster: Cluster {
                name: self.cluster_name.clone(),
                ..Cluster::default()
            },
            cluster_uid: self.uid.to_string(),
            standby: false,
        };
        let socket = ProviderSocket::new(self.endpoint.clone(), self.users.clone());
        let metrics = ProviderMetrics::register(&mut Registry::default());
        let (provider, connection) =
            Provider::new(options, socket, metrics, CancellationToken::new());
        tokio::spawn(connection);
        provider
    }
}

#[cfg(test)]
mod tests;
