//! Upstream's flags that nothing depends on here: accepted, so that a command line works as it is, with a warning.

use clap::{Arg, ArgAction};

/// Flags without effect, without the dashes before them, and why nothing depends on them.
pub const NO_EFFECT: [(&[&str], &str); 19] = [
    (
        &["authentication-tolerate-lookup-failure"],
        "a lookup that fails is tried again each minute, and keeps no process from starting",
    ),
    (
        &[
            "authentication-token-webhook-cache-ttl",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
        ],
        "the answer of a review is believed for 10 s, upstream's default",
    ),
    (
        &["cert-dir", "webhook-cert-dir"],
        "a certificate in files is named by --tls-cert-file or --webhook-tls-cert-file; another one is made in memory",
    ),
    (
        &["cloud-config"],
        "the provider is another process, which reads its own configuration; pass the file to the provider",
    ),
    (
        &["contention-profiling"],
        "it is about goroutines, which do not exist here",
    ),
    (
        &["controller-start-interval"],
        "the loops start together; each waits until its stores are filled",
    ),
    (
        &[
            "disable-http2-serving",
            "http2-max-streams-per-connection",
            "webhook-disable-http2-serving",
        ],
        "HTTPS is served over HTTP/1.1 alone",
    ),
    (
        &["enable-leader-migration", "leader-migration-config"],
        "kube-controller-manager, the other side of a migration, has had no loops of a cloud since 1.31",
    ),
    (
        &["external-cloud-volume-plugin"],
        "it is a flag of kube-controller-manager; upstream's cloud-controller-manager ignores it too",
    ),
    (
        &["kube-api-content-type"],
        "requests to the API server are JSON",
    ),
    (
        &["log-flush-frequency", "log-text-info-buffer-size"],
        "every line is written at once",
    ),
    (
        &["node-sync-period"],
        "upstream's has none either, and is deprecated",
    ),
    (&["permit-address-sharing"], "SO_REUSEADDR is always set"),
    (
        &[
            "requestheader-allowed-names",
            "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
        ],
        "nothing proxies to this server: callers show a client certificate or a token of their own",
    ),
    (
        &[
            "tls-cipher-suites",
            "tls-curve-preferences",
            "webhook-tls-cipher-suites",
            "webhook-tls-curve-preferences",
        ],
        "all suites and curves that are offered have forward secrecy and authenticated encryption",
    ),
    (
        &["tls-sni-cert-key"],
        "each client gets the certificate of --tls-cert-file; give that one all names",
    ),
    (
        &["use-service-account-credentials"],
        "all loops act as the service account of the Pod, which needs the rights of the loops itself",
    ),
    (
        &["vmodule"],
        "its patterns are names of files in Go; raise -v, while the process runs too",
    ),
    (
        &["webhook-tls-sni-cert-key"],
        "each client gets the certificate of --webhook-tls-cert-file; give that one all names",
    ),
];

/// Those of them that stand alone, or have their value behind an equals sign.
const SWITCHES: [&str; 7] = [
    "authentication-tolerate-lookup-failure",
    "contention-profiling",
    "disable-http2-serving",
    "enable-leader-migration",
    "permit-address-sharing",
    "use-service-account-credentials",
    "webhook-disable-http2-serving",
];

/// Arguments for them, whose values are anything.
pub(super) fn args() -> impl Iterator<Item = Arg> {
    NO_EFFECT.iter().flat_map(|(names, _)| *names).map(|name| {
        let arg = Arg::new(name.replace('-', "_")).long(name).hide(true);
        arg.action(if SWITCHES.contains(name) {
            ArgAction::SetTrue
        } else {
            ArgAction::Append
        })
    })
}

/// The warning for a flag that is set, if it is one of these.
pub(super) fn warning(name: &str) -> Option<String> {
    let (_, why) = NO_EFFECT.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("--{name} has no effect: {why}"))
}
