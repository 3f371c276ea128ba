//! From flags to a configuration: rules beyond the types of flags are checked here, all of them together.

mod access;
mod election;
mod network;
mod nodes;
mod provider;
mod service;
mod serving;
mod tls;
mod webhooks;

use std::{fmt::Display, path::PathBuf, time::Duration};

use outrigger_core::{cidr::Cidr, go_duration::GoDuration};
use outrigger_kubernetes::client::{Budget, Source};
use outrigger_provider_client::Cluster;
use outrigger_runtime::telemetry::{Format, Logging};
use outrigger_server::settings::PageSettings;
use uuid::Uuid;

pub(crate) use self::provider::provider_users;
use super::{
    command_line::CommandLine,
    config::{ApiSettings, Config},
    configz,
    controllers::Controllers,
    features,
    flag::{Flag, Parity, Setting, print},
    table::{FLAGS, Flags},
};

/// Collects errors and warnings.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    /// The value, or its default beside an error.
    fn valid<T: Default>(&mut self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    /// The value, or its default beside an error that tells the rule.
    fn in_range<T: Display, U: Default>(
        &mut self,
        flag: &Setting<T>,
        value: Option<U>,
        rule: &str,
    ) -> U {
        self.valid(value.ok_or_else(|| format!("{flag} must {rule}, but got {}", flag.value)))
    }

    fn workers(&mut self, flag: &Setting<i32>) -> usize {
        let workers = usize::try_from(flag.value).ok().filter(|count| *count > 0);
        // Upstream's words, which have no dashes.
        let error = || format!("{} must be at least 1, but got {}", flag.name(), flag.value);
        self.valid(workers.ok_or_else(error))
    }

    fn fraction(&mut self, flag: &Setting<f64>) -> f64 {
        let fraction = Some(flag.value).filter(|fraction| (0.0..=1.0).contains(fraction));
        self.in_range(flag, fraction, "be between 0 and 1")
    }

    fn count(&mut self, flag: &Setting<i32>) -> u32 {
        self.in_range(flag, u32::try_from(flag.value).ok(), "not be negative")
    }

    fn duration(&mut self, flag: &Setting<GoDuration>) -> Duration {
        self.in_range(flag, flag.as_std(), "not be negative")
    }

    fn period(&mut self, flag: &Setting<GoDuration>) -> Duration {
        let period = flag.as_std().filter(|period| !period.is_zero());
        self.in_range(flag, period, "be greater than 0")
    }

    fn port(&mut self, flag: &Setting<i64>) -> u16 {
        let port = u16::try_from(flag.value).map_err(|_| {
            format!(
                "{flag} {} must be between 0 and 65535, inclusive. 0 for turning off secure port",
                flag.value
            )
        });
        self.valid(port)
    }
}

/// Checks everything.
///
/// # Errors
/// A sentence for each mistake.
pub(super) fn check(flags: &Flags, line: &CommandLine) -> Result<Config, Vec<String>> {
    let mut findings = Findings {
        errors: Vec::new(),
        warnings: without_effect(line),
    };
    let f = &mut findings;
    let gates = &flags.feature_gates;
    f.warnings.extend(gates.warning());

    let controllers = Controllers::evaluate(&flags.controllers);
    let controllers = controllers.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Controllers::default()
    });
    let logging = logging(flags, f);
    let election = election::election(flags, f);
    let cluster_cidrs = network::cidrs(&flags.cluster_cidr, f);
    let service_cidrs = network::cidrs(&flags.service_cluster_ip_range, f);
    let ipam = network::allocator(flags, &cluster_cidrs, &service_cidrs, &controllers, f);
    f.warnings.extend(network::absent_loops(
        &controllers,
        flags.allocate_node_cidrs.value,
    ));
    let selector = nodes::selector(flags, f);
    let values = values(line);
    let config = Config {
        kube: Source {
            kubeconfig: path(&flags.kubeconfig),
            master: text(&flags.master),
        },
        api: ApiSettings {
            budget: budget(flags, f),
            service_account_credentials: flags.use_service_account_credentials.value,
            min_resync_period: f.duration(&flags.min_resync_period),
        },
        controller_start_interval: f.duration(&flags.controller_start_interval),
        shutdown_grace: f.duration(&flags.shutdown_grace_period),
        provider: provider::provider(flags, f),
        node: nodes::initialisation(flags, selector.clone(), f),
        lifecycle: nodes::lifecycle(flags, selector.clone(), f),
        service: service::service(flags, f),
        plan: service::plan(flags, f),
        configure_cloud_routes: flags.configure_cloud_routes.value,
        route: network::route(flags, &cluster_cidrs, ipam.as_ref(), selector, f),
        serving: serving::serving(flags, f),
        webhook: webhooks::webhook(flags, f),
        authentication: access::authentication(flags, f),
        authorization: access::authorization(flags, f),
        pages: PageSettings {
            configz: configz::object(line),
            flagz: gates.enabled(features::FLAGZ).then(|| values.clone()),
            statusz: gates.enabled(features::STATUSZ),
            profiling: flags.profiling.value,
        },
        history_bytes: (f.count(&flags.history_memory) as usize) << 20,
        cluster: Cluster {
            name: flags.cluster_name.value.clone(),
            pod_cidrs: cluster_cidrs.iter().map(Cidr::to_string).collect(),
            service_cidrs: service_cidrs.iter().map(Cidr::to_string).collect(),
        },
        cluster_uid: f.valid(cluster_uid(&flags.cluster_uid)),
        controllers,
        election,
        ipam,
        logging,
        notices: notices(line),
        warnings: Vec::new(),
        flags: values,
    };
    if !findings.errors.is_empty() {
        return Err(findings.errors);
    }
    findings.warnings.extend(line.warnings.iter().cloned());
    Ok(Config {
        warnings: findings.warnings,
        ..config
    })
}

/// A UID as an API server writes it; none if the flag is empty. A UID in capitals would be another cluster's.
///
/// # Errors
/// A sentence about another text.
pub(crate) fn cluster_uid(flag: &Setting<String>) -> Result<Option<Box<str>>, String> {
    let uid = &*flag.value;
    if uid.is_empty() {
        return Ok(None);
    }
    let written = uid.parse().map(|uid: Uuid| uid.to_string());
    if written.as_deref() == Ok(uid) {
        return Ok(Some(uid.into()));
    }
    Err(format!(
        "{flag} must be a UUID in lower case, such as 0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10, but got {uid:?}"
    ))
}

/// All flags with their values as Go prints them, by name.
fn values(line: &CommandLine) -> Vec<(String, String)> {
    let value = |flag: &Flag| (flag.name(), print(&line.show(flag)));
    let mut values: Vec<_> = FLAGS.iter().map(value).collect();
    values.sort();
    values
}

/// Lines about deprecated flags that are set.
pub(super) fn notices(line: &CommandLine) -> Vec<String> {
    let notice = |(flag, _): (&Flag, _)| {
        let why = flag.deprecated?;
        Some(format!("Flag --{} has been deprecated, {why}", flag.name()))
    };
    line.set_flags().filter_map(notice).collect()
}

/// One warning for each flag that is set and has no effect.
fn without_effect(line: &CommandLine) -> Vec<String> {
    let warning = |(flag, text): (&Flag, &str)| match flag.parity {
        // JSON is what there is, and deprecated flags have had their line.
        _ if flag.field == "kube_api_content_type" && text == flag.default => None,
        Parity::NoEffect(why) if flag.deprecated.is_none() => {
            Some(format!("--{} has no effect: {why}", flag.name()))
        }
        _ => None,
    };
    line.set_flags().filter_map(warning).collect()
}

/// Absent if it is empty.
fn text(flag: &Setting<String>) -> Option<String> {
    Some(flag.value.clone()).filter(|text| !text.is_empty())
}

/// Absent if it is empty.
fn path(flag: &Setting<String>) -> Option<PathBuf> {
    text(flag).map(PathBuf::from)
}

/// 0 stands for the default, as in client-go.
fn budget(flags: &Flags, f: &mut Findings) -> Budget {
    let qps = match flags.kube_api_qps.value {
        0.0 => 1_000.0,
        qps if qps.is_infinite() => -1.0,
        qps => qps,
    };
    if qps.is_nan() {
        f.errors
            .push("--kube-api-qps must be a number, but got NaN".into());
    }
    let burst = match flags.kube_api_burst.value {
        0 => 2_000,
        burst => u32::try_from(burst).unwrap_or_default(),
    };
    if burst == 0 && qps > 0.0 {
        f.errors.push(format!(
            "--kube-api-burst must be at least 1 when --kube-api-qps limits requests, but got {}",
            flags.kube_api_burst.value
        ));
    }
    Budget {
        qps,
        burst: burst.max(1),
    }
}

fn logging(flags: &Flags, f: &mut Findings) -> Logging {
    let format = match flags.logging_format.as_str() {
        "text" => Format::Text,
        "json" => Format::Json,
        other => {
            f.errors.push(format!(
                "format: Invalid value: {other:?}: Unsupported log format; --logging-format must be text or json"
            ));
            Format::Text
        }
    };
    Logging {
        verbosity: flags.v.value,
        modules: flags.vmodule.to_vec(),
        format,
        split_stream: flags.log_text_split_stream.value && format == Format::Text,
    }
}
