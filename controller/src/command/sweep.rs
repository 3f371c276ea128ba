//! `sweep`: deletes the load balancers and routes of a cluster that is gone.

mod api_server;
mod report;

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use outrigger_core::{effects::GrantedPrefixes, go_duration::GoDuration, syntax::subdomain};
use outrigger_kubernetes::client::Source;
use outrigger_loops::sweep::{Leftover, Sweep};
use outrigger_provider_client::{
    Cluster, Endpoint, Options, Provider, ProviderMetrics, ProviderSocket,
};
use outrigger_runtime::{
    VERSION,
    telemetry::{Logging, Telemetry},
};
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;
use uuid::Uuid;

use self::{
    api_server::{ApiServerCheck, Evidence},
    report::Report,
};
use super::{Refusal, help, read};
use crate::options::{
    command_line::CommandLine,
    flag::{Flag, Setting, flags},
};

const USAGE: &str = "Usage: cloud-controller-manager sweep --cluster-uid UID [--plan] [flags]\n\
                     Deletes the load balancers and routes of a cluster whose API server is gone, through the provider \
                     alone. The UID is that of its namespace kube-system. Exit code 0: nothing is left; 1: something \
                     is; 2: nothing was begun.";

flags! {
    "Sweep" {
        /// --cluster-name that the cluster had.
        cluster_name: String = "kubernetes";
        /// UID of the cluster's namespace kube-system, which its load balancers and routes are marked with.
        cluster_uid: String = "";
        /// How long the API server of --kubeconfig must not be reached until the cluster counts as gone.
        gone_after: GoDuration = "1m0s";
        /// Print this help and exit.
        help: bool = "false" { short: Some('h') };
        /// Kubeconfig of the cluster that is gone. Its API server is asked right before the first deletion, and any
        /// answer but that it has no Lease of the controller and no such cluster ends the command. Empty: the UID
        /// is asked for once more.
        kubeconfig: String = "";
        /// Lease of the cluster's controller, NAMESPACE/NAME.
        lease: String = "kube-system/cloud-controller-manager";
        /// Form of the output: table or json.
        output: String = "table" { short: Some('o') };
        /// Only list what would be deleted.
        plan: bool = "false";
        /// Address of the Unix socket of the provider, as the controller manager takes it from flags and environment.
        provider_endpoint: Endpoint = "unix:///run/outrigger/provider.sock";
        /// How long the sweep may take.
        timeout: GoDuration = "30m0s";
        /// Do not ask for the UID once more.
        yes: bool = "false" { short: Some('y') };
    }
}

/// Exit code of a sweep that leaves something.
const LEFT: u8 = 1;

/// The checked flags.
struct Settings {
    uid: String,
    api_server: Option<ApiServerCheck>,
    report: Report,
    plans: bool,
    is_confirmed: bool,
    endpoint: Endpoint,
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
    let ended = runtime.block_on(sweep(settings));
    runtime.shutdown_background();
    ended
}

impl Settings {
    fn of(flags: &Flags) -> Result<Self, Refusal> {
        let uid = flags.cluster_uid.value.trim();
        // A part of one, or one in capitals, finds nothing: it would look as if the cluster had left nothing.
        if uid
            .parse()
            .map(|parsed: Uuid| parsed.to_string())
            .as_deref()
            != Ok(uid)
        {
            return Err(Refusal(format!(
                "{} must be the UID of the namespace kube-system of the cluster that is gone, as kubectl shows it, but got {uid:?}\n{USAGE}",
                flags.cluster_uid
            )));
        }
        let lease = &flags.lease;
        let (namespace, name) = lease.split_once('/').unwrap_or_default();
        if subdomain(namespace).is_err() || subdomain(name).is_err() {
            return Err(Refusal(format!(
                "{lease} must be NAMESPACE/NAME, but got {:?}",
                lease.value
            )));
        }
        let duration = |flag: &Setting<GoDuration>| {
            let positive = flag.as_std().filter(|time| !time.is_zero());
            positive.ok_or_else(|| format!("{flag} must be greater than 0, but got {}", flag.value))
        };
        let gone_after = duration(&flags.gone_after)?;
        let api_server = match &*flags.kubeconfig.value {
            "" => None,
            path => Some(ApiServerCheck {
                source: Source {
                    kubeconfig: Some(PathBuf::from(path)),
                    master: None,
                },
                lease: format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"),
                cluster_uid: uid.to_owned(),
                gone_after,
            }),
        };
        Ok(Self {
            report: Report::of(&flags.output.value, uid)?,
            uid: uid.to_owned(),
            api_server,
            plans: flags.plan.value,
            is_confirmed: flags.yes.value,
            endpoint: flags.provider_endpoint.value.clone(),
            cluster_name: flags.cluster_name.value.clone(),
            timeout: duration(&flags.timeout)?,
        })
    }
}

async fn sweep(settings: Settings) -> Result<ExitCode, Refusal> {
    let provider = connect(&settings);
    let begun = Sweep::begin(provider, &settings.uid, Instant::now() + settings.timeout).await;
    let sweep = begun.map_err(|error| error.to_string())?;
    let listed = sweep.list(Instant::now() + settings.timeout).await;
    let listed = listed.map_err(|error| error.to_string())?;
    if settings.plans || listed.is_empty() {
        settings.report.listed(&listed);
        return Ok(ExitCode::SUCCESS);
    }
    settings.confirm(&listed).await?;
    // The confirmation may have taken long.
    let deadline = Instant::now() + settings.timeout;
    let swept = sweep.run(deadline, settings.is_there_again()).await;
    settings.report.swept(&swept);
    let is_clean = swept.is_clean();
    Ok(ExitCode::from(if is_clean { 0 } else { LEFT }))
}

/// The provider, by a task that ends with the runtime.
#[expect(
    clippy::disallowed_methods,
    reason = "the command ends with the runtime, and the connection with it"
)]
fn connect(settings: &Settings) -> Provider {
    let options = Options {
        expected_name: None,
        allow_untagged: false,
        effect_prefixes: GrantedPrefixes::default(),
        controller_name: "cloud-controller-manager sweep".to_owned(),
        controller_version: VERSION.to_owned(),
        kubernetes_version: String::new(),
        cluster: Cluster {
            name: settings.cluster_name.clone(),
            ..Cluster::default()
        },
        cluster_uid: settings.uid.clone(),
        max_receive_bytes: outrigger_api::DEFAULT_MAX_MESSAGE_BYTES,
        standby: false,
    };
    let socket = ProviderSocket::new(settings.endpoint.clone(), Vec::new());
    let metrics = ProviderMetrics::register(&mut Registry::default());
    let (provider, connection) = Provider::new(options, socket, metrics, CancellationToken::new());
    tokio::spawn(connection);
    provider
}

impl Settings {
    /// Returns why the cluster may be there after all, once its API server says so; never without one.
    async fn is_there_again(&self) -> String {
        match &self.api_server {
            Some(check) => check.is_there_again().await,
            None => std::future::pending().await,
        }
    }

    /// Returns if the cluster is gone: the API server, the UID typed again, or --yes says so.
    async fn confirm(&self, listed: &[Leftover]) -> Result<(), Refusal> {
        if let Some(check) = &self.api_server {
            match check.evidence().await? {
                Evidence::Gone(why) => {
                    info!(uid = self.uid, why, "cluster is gone");
                    return Ok(());
                }
                Evidence::None(why) => info!(uid = self.uid, why, "cluster may be gone"),
            }
        }
        if self.is_confirmed {
            return Ok(());
        }
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Err(Refusal(format!(
                "{} load balancers and routes would be deleted: give --yes, or --kubeconfig of the cluster that is gone, \
                 or run it on a terminal",
                listed.len()
            )));
        }
        self.report.listed(listed);
        // A closed stream is no answer.
        let _ = write!(
            io::stderr(),
            "All of these are deleted. Type the UID of the cluster once more: "
        );
        let mut typed = String::new();
        let read = stdin.read_line(&mut typed);
        read.map_err(|error| format!("no answer: {error}"))?;
        if typed.trim() == self.uid {
            return Ok(());
        }
        Err(Refusal(
            "that is another UID: nothing was deleted".to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests;
