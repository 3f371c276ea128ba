//! From flags to a configuration: what clap's types cannot say is checked here, all at once.

use std::path::PathBuf;

use super::{
    command_line::CommandLine,
    config::{
        ApiAccess, Authentication, Authorization, Cluster, Config, Debugging, Ipam, Lifecycle,
        Node, Provider, RequestHeader, Route, Service, Serving,
    },
    controllers::{self, Controllers},
    features::{FeatureGates, Gate},
    flags::{AuthenticationFlags, AuthorizationFlags, Flags, GenericFlags, ServingFlags},
    logging::Logging,
    standing::{Standing, deprecation, standing},
    tls,
    values::{GoDuration, Strings, not_negative, positive},
};
use crate::{
    kube::client::{Budget, Source},
    provider::Endpoint,
};

mod election;
mod network;

/// Collects what is wrong and what is worth a word.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    /// The value, or its default beside an error.
    fn take<T: Default>(&mut self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|error| {
            self.errors.push(error);
            T::default()
        })
    }

    fn workers(&mut self, flag: &str, count: i32) -> usize {
        self.take(
            usize::try_from(count)
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(|| format!("{flag} must be at least 1, but got {count}")),
        )
    }

    fn port(&mut self, flag: &str, port: i64) -> u16 {
        self.take(u16::try_from(port).map_err(|_| {
            format!(
                "--{flag} {port} must be between 0 and 65535, inclusive. 0 for turning off secure \
                 port"
            )
        }))
    }
}

/// Checks everything.
///
/// # Errors
/// A sentence for each mistake.
pub(super) fn check(flags: Flags, line: &CommandLine) -> Result<Config, Vec<String>> {
    let mut findings = Findings::default();
    let f = &mut findings;
    let (features, gate_warnings) = FeatureGates::evaluate(&flags.generic.feature_gates);
    f.warnings.extend(gate_warnings);

    let controllers = Controllers::evaluate(&flags.generic.controllers.0);
    let controllers = controllers.unwrap_or_else(|unknown| {
        f.errors.extend(unknown);
        Controllers::default()
    });
    if let Err(unknown) = controllers::evaluate(&flags.webhook.webhooks.0, &[], "webhooks") {
        f.errors.extend(unknown);
    }
    let logging = Logging::from_flags(&flags.global, &mut f.errors);
    let election = election::check(&flags.generic, &flags.migration, f);
    let cluster = Cluster {
        name: flags.generic.cluster_name.clone(),
        pod_cidrs: network::cidrs("cluster-cidr", &flags.generic.cluster_cidr, f),
        service_cidrs: network::cidrs(
            "service-cluster-ip-range",
            &flags.ipam.service_cluster_ip_range,
            f,
        ),
    };
    let ipam = network::ipam(&flags.generic, &flags.ipam, &cluster, f);
    let serving = serving(&flags.serving, f);
    webhook_serving(&flags, f);
    let authentication = authentication(flags.authentication, &features, f);
    let authorization = authorization(flags.authorization, f);
    let provider = provider(&flags.provider.provider_endpoint, &flags.generic, line, f);

    let node_workers = f.workers("concurrent-node-syncs", flags.node.concurrent_node_syncs);
    let node = Node {
        workers: node_workers,
        status_workers: usize::try_from(flags.node.concurrent_node_status_updates)
            .ok()
            .filter(|count| *count > 0)
            .unwrap_or(node_workers),
        status_update_period: f.take(positive(
            "node-status-update-frequency",
            flags.misc.node_status_update_frequency,
        )),
    };
    let lifecycle = Lifecycle {
        workers: f.workers(
            "concurrent-node-lifecycle-syncs",
            flags.lifecycle.concurrent_node_lifecycle_syncs,
        ),
        monitor_period: f.take(positive(
            "node-monitor-period",
            flags.lifecycle.node_monitor_period,
        )),
    };
    let service = Service {
        workers: f.workers(
            "concurrent-service-syncs",
            flags.service.concurrent_service_syncs,
        ),
    };
    let route = Route {
        enabled: flags.generic.configure_cloud_routes.0,
        reconciliation_period: f.take(positive(
            "route-reconciliation-period",
            flags.generic.route_reconciliation_period,
        )),
    };
    let api = ApiAccess {
        budget: budget(&flags.generic, f),
        service_account_credentials: flags.generic.use_service_account_credentials.0,
        min_resync_period: f.take(not_negative(
            "min-resync-period",
            flags.generic.min_resync_period,
        )),
    };
    let controller_start_interval = f.take(not_negative(
        "controller-start-interval",
        flags.generic.controller_start_interval,
    ));
    let mut warnings = without_effect(line);
    warnings.append(&mut findings.warnings);
    warnings.extend(line.warnings.iter().cloned());
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
        features,
        cluster,
        provider,
        node,
        lifecycle,
        service,
        route,
        ipam,
        election,
        serving,
        authentication,
        authorization,
        debugging: Debugging {
            profiling: flags.debugging.profiling.0,
            contention: flags.debugging.contention_profiling.0,
        },
        logging,
        notices: notices(line),
        warnings,
        flags: Vec::new(),
    })
}

/// Lines about deprecated flags that were given.
pub(super) fn notices(line: &CommandLine) -> Vec<String> {
    line.given()
        .filter_map(|(name, _)| {
            let why = deprecation(name)?;
            Some(format!("Flag --{name} has been deprecated, {why}"))
        })
        .collect()
}

/// One warning for each flag that was given in vain.
fn without_effect(line: &CommandLine) -> Vec<String> {
    line.given()
        .filter(|(name, value)| {
            // Deprecated flags have had their line, and JSON is what there is.
            deprecation(name).is_none()
                && (*name, *value) != ("kube-api-content-type", "application/json")
        })
        .filter_map(|(name, _)| match standing(name) {
            Standing::NoEffect(why) => Some(format!("--{name} has no effect: {why}")),
            _ => None,
        })
        .collect()
}

fn path(text: String) -> Option<PathBuf> {
    Some(text)
        .filter(|text| !text.is_empty())
        .map(PathBuf::from)
}

fn budget(flags: &GenericFlags, f: &mut Findings) -> Budget {
    let (qps, burst) = (flags.kube_api_qps, flags.kube_api_burst);
    if qps.is_nan() {
        f.errors
            .push("--kube-api-qps must be a number, but got NaN".into());
    }
    if burst < 1 && qps > 0.0 {
        f.errors.push(format!(
            "--kube-api-burst must be at least 1 when --kube-api-qps limits requests, but got \
             {burst}"
        ));
    }
    if qps == 0.0 {
        f.errors.push(
            "--kube-api-qps must not be 0: no request could be sent; a negative number means no \
             limit"
                .into(),
        );
    }
    Budget {
        qps: if qps.is_infinite() { -1.0 } else { qps },
        burst: u32::try_from(burst).unwrap_or(1).max(1),
    }
}

fn provider(
    endpoint: &str,
    generic: &GenericFlags,
    line: &CommandLine,
    f: &mut Findings,
) -> Option<Provider> {
    let place = line.place("provider-endpoint");
    let endpoint = endpoint.parse::<Endpoint>().map_err(|error| {
        f.errors
            .push(format!("invalid argument for {place}: {error}"));
    });
    let endpoint = endpoint.ok()?;
    let mut name = Some(generic.cloud_provider.clone()).filter(|name| !name.is_empty());
    if name.as_deref() == Some("external") {
        f.warnings.push(
            "--cloud-provider=external is for the kubelet; any provider is accepted. Give the \
             provider's own name, or leave the flag out"
                .into(),
        );
        name = None;
    }
    Some(Provider {
        endpoint,
        name,
        allow_untagged_cloud: generic.allow_untagged_cloud.0,
    })
}

fn serving(flags: &ServingFlags, f: &mut Findings) -> Option<Serving> {
    let port = f.port("secure-port", flags.secure_port);
    let streams = flags.http2_max_streams_per_connection;
    let streams = f.take(u32::try_from(streams).map_err(|_| {
        format!(
            "--http2-max-streams-per-connection must be between 0 and {}, but got {streams}",
            u32::MAX
        )
    }));
    let tls = tls::Asked {
        prefix: "",
        min_version: &flags.tls_min_version,
        cipher_suites: &flags.tls_cipher_suites,
        curves: &flags.tls_curve_preferences,
    };
    let serving = Serving {
        address: flags.bind_address.0,
        port,
        certificate: tls::certificate(
            "",
            &flags.tls_cert_file,
            &flags.tls_private_key_file,
            &flags.cert_dir,
            &mut f.errors,
        ),
        sni: flags.tls_sni_cert_key.0.clone(),
        tls: tls.policy(&mut f.errors, &mut f.warnings),
        http2: !flags.disable_http2_serving.0,
        http2_max_streams: Some(streams).filter(|streams| *streams > 0),
        permit_port_sharing: flags.permit_port_sharing.0,
        permit_address_sharing: flags.permit_address_sharing.0,
    };
    (port != 0).then_some(serving)
}

/// Nothing is served there, but a mistake is one.
fn webhook_serving(flags: &Flags, f: &mut Findings) {
    let webhook = &flags.webhook_serving;
    let port = f.port("webhook-secure-port", webhook.webhook_secure_port);
    if port != 0 && webhook.webhook_secure_port == flags.serving.secure_port {
        f.errors
            .push("--webhook-secure-port cannot be the same value as --secure-port".into());
    }
    let tls = tls::Asked {
        prefix: "webhook-",
        min_version: &webhook.webhook_tls_min_version,
        cipher_suites: &webhook.webhook_tls_cipher_suites,
        curves: &webhook.webhook_tls_curve_preferences,
    };
    tls.policy(&mut f.errors, &mut Vec::new());
    tls::certificate(
        "webhook-",
        &webhook.webhook_tls_cert_file,
        &webhook.webhook_tls_private_key_file,
        &webhook.webhook_cert_dir,
        &mut f.errors,
    );
}

fn authentication(
    flags: AuthenticationFlags,
    features: &FeatureGates,
    f: &mut Findings,
) -> Authentication {
    let lists = [
        (
            "requestheader-username-headers",
            &flags.requestheader_username_headers,
        ),
        (
            "requestheader-group-headers",
            &flags.requestheader_group_headers,
        ),
        (
            "requestheader-extra-headers-prefix",
            &flags.requestheader_extra_headers_prefix,
        ),
        (
            "requestheader-allowed-names",
            &flags.requestheader_allowed_names,
        ),
        (
            "requestheader-uid-headers",
            &flags.requestheader_uid_headers,
        ),
    ];
    for (flag, Strings(items)) in lists {
        if items.iter().any(|item| item.trim().is_empty()) {
            f.errors.push(format!("empty value in {flag:?}"));
        }
    }
    let standard = [
        (lists[0], "X-Remote-User"),
        (lists[1], "X-Remote-Group"),
        (lists[2], "X-Remote-Extra-"),
    ];
    for ((flag, Strings(items)), header) in standard {
        if lacks(items, header) {
            f.warnings.push(format!(
                "--{flag} is set without specifying the standard {header} header - API \
                 aggregation will not work"
            ));
        }
    }
    let uid_headers = &flags.requestheader_uid_headers.0;
    if !uid_headers.is_empty() && !features.enabled(Gate::RemoteRequestHeaderUid) {
        f.errors.push(
            "--requestheader-uid-headers requires the \"RemoteRequestHeaderUID\" feature to be \
             enabled"
                .into(),
        );
    } else if lacks(uid_headers, "X-Remote-Uid") {
        f.errors.push(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid \
             header - API aggregation will not work"
                .into(),
        );
    }
    Authentication {
        kubeconfig: path(flags.authentication_kubeconfig),
        skip_lookup: flags.authentication_skip_lookup.0,
        tolerate_lookup_failure: flags.authentication_tolerate_lookup_failure.0,
        token_cache_ttl: ttl(
            "authentication-token-webhook-cache-ttl",
            flags.authentication_token_webhook_cache_ttl,
            f,
        ),
        client_ca_file: path(flags.client_ca_file),
        request_header: RequestHeader {
            client_ca_file: path(flags.requestheader_client_ca_file),
            allowed_names: flags.requestheader_allowed_names.0,
            username_headers: flags.requestheader_username_headers.0,
            group_headers: flags.requestheader_group_headers.0,
            uid_headers: flags.requestheader_uid_headers.0,
            extra_header_prefixes: flags.requestheader_extra_headers_prefix.0,
        },
    }
}

/// Whether there are some, but not this one.
fn lacks(items: &[String], header: &str) -> bool {
    !items.is_empty() && !items.iter().any(|item| item.eq_ignore_ascii_case(header))
}

fn authorization(flags: AuthorizationFlags, f: &mut Findings) -> Authorization {
    Authorization {
        kubeconfig: path(flags.authorization_kubeconfig),
        always_allow_paths: flags.authorization_always_allow_paths.0,
        authorized_ttl: ttl(
            "authorization-webhook-cache-authorized-ttl",
            flags.authorization_webhook_cache_authorized_ttl,
            f,
        ),
        unauthorized_ttl: ttl(
            "authorization-webhook-cache-unauthorized-ttl",
            flags.authorization_webhook_cache_unauthorized_ttl,
            f,
        ),
    }
}

fn ttl(flag: &str, value: GoDuration, f: &mut Findings) -> std::time::Duration {
    f.take(not_negative(flag, value))
}
