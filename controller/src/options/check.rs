//! From flags to a configuration: rules beyond clap's types are checked here, all at once.

use std::{path::PathBuf, time::Duration};

use super::{
    catalogue::{self, Flag, Parity},
    command_line::CommandLine,
    config::{ApiSettings, Config, FlagValue, Route},
    configz,
    controllers::Controllers,
    features::Feature,
    flags::{DEFAULT_BURST, DEFAULT_QPS, Flags, GenericFlags},
    values::GoDuration,
};
use outrigger_kubernetes::client::{Budget, Source};
use outrigger_provider_client::Cluster;
use outrigger_server::settings::PageSettings;

/// A flag by its name, which is the name of its field, and its value.
macro_rules! flag {
    ($($path:ident).+) => {
        ($crate::options::check::name(stringify!($($path).+)), &$($path).+)
    };
}

mod access;
mod election;
mod logging;
mod network;
mod nodes;
mod provider;
mod service;
mod serving;
mod webhooks;

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

    fn workers(&mut self, (flag, count): (String, &i32)) -> usize {
        self.valid(
            usize::try_from(*count)
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(|| format!("{flag} must be at least 1, but got {count}")),
        )
    }

    /// A part of a whole.
    fn fraction(&mut self, (flag, fraction): (String, &f64)) -> f64 {
        if !(0.0..=1.0).contains(fraction) {
            self.errors.push(format!(
                "--{flag} must be between 0 and 1, but got {fraction}"
            ));
        }
        *fraction
    }

    /// A number of things.
    fn count(&mut self, (flag, count): (String, &i32)) -> u32 {
        self.valid(
            u32::try_from(*count)
                .map_err(|_| format!("--{flag} must not be negative, but got {count}")),
        )
    }

    /// A duration that may be 0.
    fn duration(&mut self, (flag, value): (String, &GoDuration)) -> Duration {
        let duration = value.as_std();
        self.valid(
            duration.ok_or_else(|| format!("--{flag} must not be negative, but got {value}")),
        )
    }

    /// A duration in or after which something is done.
    fn period(&mut self, (flag, value): (String, &GoDuration)) -> Duration {
        let period = value.as_std().filter(|period| !period.is_zero());
        self.valid(
            period.ok_or_else(|| format!("--{flag} must be greater than 0, but got {value}")),
        )
    }

    fn port(&mut self, (flag, port): (String, &i64)) -> u16 {
        self.valid(u16::try_from(*port).map_err(|_| {
            format!(
                "--{flag} {port} must be between 0 and 65535, inclusive. 0 for turning off secure \
                 port"
            )
        }))
    }
}

/// The flag of the field at `path`.
fn name(path: &str) -> String {
    let field = path.rsplit('.').next().unwrap_or_default();
    field.trim().replace('_', "-")
}

/// Checks everything.
///
/// # Errors
/// A sentence for each mistake.
pub(super) fn check(
    flags: Flags,
    values: Vec<FlagValue>,
    line: &CommandLine,
) -> Result<Config, Vec<String>> {
    let mut findings = Findings::default();
    let f = &mut findings;
    let features = flags.generic.feature_gates.clone();
    f.warnings.extend(features.warning());

    let flagz = features.enabled(Feature::ComponentFlagz);
    let controllers = Controllers::evaluate(&flags.generic.controllers.0);
    let controllers = controllers.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Controllers::default()
    });
    let logging = logging::logging(&flags.global, &mut f.errors);
    let election = election::check(&flags.generic, &flags.migration, f);
    let cluster = Cluster {
        name: flags.generic.cluster_name.clone(),
        pod_cidrs: network::cidrs(flag!(flags.generic.cluster_cidr), f),
        service_cidrs: network::cidrs(flag!(flags.ipam.service_cluster_ip_range), f),
    };
    let ipam = network::allocator(&flags.generic, &flags.ipam, f);
    let serving = serving::secure(&flags.serving, f);
    let webhook = webhooks::check(&flags, &features, f);
    let authentication = access::authentication(flags.authentication, &features, f);
    let authorization = access::authorization(flags.authorization, f);
    let provider = provider::check(&flags.provider, &flags.generic, line, f);

    let selector = nodes::selector(&flags.lifecycle.node_selector, f);
    let refresh_period = f.period(flag!(flags.misc.node_status_update_frequency));
    let node = nodes::initialisation(&flags.node, refresh_period, selector.clone(), f);
    let lifecycle = nodes::lifecycle(&flags.lifecycle, selector, f);
    let service = service::check(&flags.service, f);
    let plan = service::plan(&flags.service, f);
    let route = Route {
        enabled: flags.generic.configure_cloud_routes.0,
        reconciliation_period: f.period(flag!(flags.generic.route_reconciliation_period)),
        ranges: network::route_ranges(&cluster.pod_cidrs, ipam.as_ref(), &flags.ipam, f),
    };
    let api = ApiSettings {
        budget: budget(&flags.generic, f),
        service_account_credentials: flags.generic.use_service_account_credentials.0,
        min_resync_period: f.duration(flag!(flags.generic.min_resync_period)),
    };
    let controller_start_interval = f.duration(flag!(flags.generic.controller_start_interval));
    let shutdown_grace = f.duration(flag!(flags.generic.shutdown_grace_period));
    let mut warnings = without_effect(line);
    warnings.append(&mut findings.warnings);
    warnings.extend(line.warnings.iter().cloned());
    warnings.extend(network::absent_loops(&controllers, ipam.is_some()));
    let (true, Some(provider)) = (findings.errors.is_empty(), provider) else {
        return Err(findings.errors);
    };
    Ok(Config {
        kube: Source {
            kubeconfig: path(flags.misc.kubeconfig),
            master: Some(flags.misc.master).filter(|master| !master.is_empty()),
        },
        api,
        controllers,
        controller_start_interval,
        shutdown_grace,
        cluster,
        provider,
        node,
        lifecycle,
        service,
        plan,
        route,
        ipam,
        election,
        serving,
        webhook,
        authentication,
        authorization,
        pages: PageSettings {
            configz: configz::object(&values),
            flagz: flagz.then(|| values.iter().map(FlagValue::pair).collect()),
            statusz: features.enabled(Feature::ComponentStatusz),
            profiling: flags.debugging.profiling.0,
        },
        logging,
        notices: notices(line),
        warnings,
        flags: values,
    })
}

/// Lines about deprecated flags that are set.
pub(super) fn notices(line: &CommandLine) -> Vec<String> {
    set_flags(line)
        .filter_map(|(flag, _)| {
            let why = flag.deprecation?;
            Some(format!("Flag --{} has been deprecated, {why}", flag.name))
        })
        .collect()
}

/// One warning for each flag that is set and has no effect.
fn without_effect(line: &CommandLine) -> Vec<String> {
    set_flags(line)
        .filter(|(flag, value)| {
            // Deprecated flags have had their line, and JSON is what there is.
            flag.deprecation.is_none()
                && (&*flag.name, *value) != ("kube-api-content-type", "application/json")
        })
        .filter_map(|(flag, _)| match flag.parity {
            Parity::NoEffect(why) => Some(format!("--{} has no effect: {why}", flag.name)),
            _ => None,
        })
        .collect()
}

/// Flags that are set, with their values, in order of name.
fn set_flags(line: &CommandLine) -> impl Iterator<Item = (Flag, &str)> {
    let mut declared = catalogue::flags();
    declared.sort_by(|a, b| a.name.cmp(&b.name));
    declared.into_iter().filter_map(|flag| {
        let value = line.value(&flag.name)?;
        Some((flag, value))
    })
}

fn path(text: String) -> Option<PathBuf> {
    Some(text)
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

/// 0 stands for the default, as in client-go.
fn budget(flags: &GenericFlags, f: &mut Findings) -> Budget {
    let qps = match flags.kube_api_qps {
        0.0 => DEFAULT_QPS,
        qps if qps.is_infinite() => -1.0,
        qps => qps,
    };
    if qps.is_nan() {
        f.errors
            .push("--kube-api-qps must be a number, but got NaN".into());
    }
    let burst = match flags.kube_api_burst {
        0 => DEFAULT_BURST,
        burst => u32::try_from(burst).unwrap_or_default(),
    };
    if burst == 0 && qps > 0.0 {
        f.errors.push(format!(
            "--kube-api-burst must be at least 1 when --kube-api-qps limits requests, but got {}",
            flags.kube_api_burst
        ));
    }
    Budget {
        qps,
        burst: burst.max(1),
    }
}
