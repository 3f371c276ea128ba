//! How each flag stands to upstream's of the same name. The documentation and the warnings are
//! made from this.

/// How a flag stands to upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Type, default and meaning are upstream's.
    Same,
    /// Our default or range differs, for this reason.
    Better(&'static str),
    /// Accepted, but nothing depends on it, for this reason.
    NoEffect(&'static str),
    /// Upstream has none.
    Ours(&'static str),
}

/// How the flag stands to upstream's.
pub fn standing(flag: &str) -> Standing {
    let found = TABLE.iter().find(|(name, _)| *name == flag);
    found.map_or(Standing::Same, |(_, standing)| *standing)
}

const ONE_WORKER: &str = "with upstream's 1, one slow answer of the cloud holds up all others";
const BRAKE: &str = "a cloud that suddenly knows many instances no more is more likely to be wrong \
                     than right; upstream deletes all of their Nodes";
const SHRINK: &str = "a label or taint on most nodes, or a list that misses them, is more likely a mistake \
                      than true, and an outage if it is believed; upstream believes it";
const GATHERED: &str = "upstream calls the cloud for each load balancer and each node that joins";
const PLAN: &str = "a change of configuration or version can be looked at before it is made";
const NO_WEBHOOK: &str = "there is no webhook, so its server is not started";
const WRITTEN_AT_ONCE: &str = "every line is written at once";

/// All that are not [`Standing::Same`], by name.
pub(super) const TABLE: &[(&str, Standing)] = &[
    (
        "cloud-config",
        Standing::NoEffect(
            "the provider is another process, which reads its own configuration; \
             give the file to the provider",
        ),
    ),
    (
        "cloud-provider",
        Standing::Better(
            "optional, since the provider is chosen by its socket; if it is given, \
             a provider of another name is refused",
        ),
    ),
    (
        "concurrent-node-lifecycle-syncs",
        Standing::Better(ONE_WORKER),
    ),
    ("concurrent-node-syncs", Standing::Better(ONE_WORKER)),
    ("concurrent-service-syncs", Standing::Better(ONE_WORKER)),
    (
        "contention-profiling",
        Standing::NoEffect("it is about goroutines, which do not exist here"),
    ),
    (
        "external-cloud-volume-plugin",
        Standing::NoEffect(
            "it is a flag of kube-controller-manager; upstream's \
             cloud-controller-manager ignores it too",
        ),
    ),
    (
        "kube-api-burst",
        Standing::Better("with upstream's 30, clusters of thousands of nodes wait for the client"),
    ),
    (
        "kube-api-content-type",
        Standing::NoEffect("requests to the API server are JSON"),
    ),
    (
        "kube-api-qps",
        Standing::Better("with upstream's 20, clusters of thousands of nodes wait for the client"),
    ),
    (
        "load-balancer-drift-period",
        Standing::Ours("upstream never finds out that somebody changed a load balancer"),
    ),
    ("load-balancer-shrink-count", Standing::Ours(SHRINK)),
    ("load-balancer-shrink-fraction", Standing::Ours(SHRINK)),
    ("load-balancer-shrink-hold", Standing::Ours(SHRINK)),
    ("load-balancer-update-ceiling", Standing::Ours(GATHERED)),
    ("load-balancer-update-idle", Standing::Ours(GATHERED)),
    ("log-flush-frequency", Standing::NoEffect(WRITTEN_AT_ONCE)),
    (
        "log-text-info-buffer-size",
        Standing::NoEffect(WRITTEN_AT_ONCE),
    ),
    ("logging-format", Standing::Better("json works too")),
    ("node-deletion-burst", Standing::Ours(BRAKE)),
    (
        "node-deletion-confirm",
        Standing::Ours("upstream deletes a Node on one answer; 1 does the same"),
    ),
    (
        "node-deletion-enabled",
        Standing::Ours("a cluster may want to keep its Nodes whatever the cloud says"),
    ),
    ("node-deletion-fraction", Standing::Ours(BRAKE)),
    ("node-deletion-window", Standing::Ours(BRAKE)),
    (
        "node-selector",
        Standing::Ours("several providers can share a cluster"),
    ),
    (
        "node-sync-period",
        Standing::NoEffect("it has no effect upstream either"),
    ),
    ("plan", Standing::Ours(PLAN)),
    ("plan-output", Standing::Ours(PLAN)),
    (
        "provider-endpoint",
        Standing::Ours("the provider is reached over a socket"),
    ),
    (
        "route-reconciliation-period",
        Standing::Better(
            "changes in the cluster are acted on at once, so that the period only \
             finds what others changed in the cloud; upstream lists all routes every 10s",
        ),
    ),
    (
        "shutdown-grace-period",
        Standing::Ours(
            "a call that is cut off leaves the cloud half changed; with 4s more for the results it must fit \
             into the Pod's terminationGracePeriodSeconds. Upstream ends at once",
        ),
    ),
    ("webhook-bind-address", Standing::NoEffect(NO_WEBHOOK)),
    ("webhook-cert-dir", Standing::NoEffect(NO_WEBHOOK)),
    (
        "webhook-disable-http2-serving",
        Standing::NoEffect(NO_WEBHOOK),
    ),
    ("webhook-secure-port", Standing::NoEffect(NO_WEBHOOK)),
    ("webhook-tls-cert-file", Standing::NoEffect(NO_WEBHOOK)),
    ("webhook-tls-cipher-suites", Standing::NoEffect(NO_WEBHOOK)),
    (
        "webhook-tls-curve-preferences",
        Standing::NoEffect(NO_WEBHOOK),
    ),
    ("webhook-tls-min-version", Standing::NoEffect(NO_WEBHOOK)),
    (
        "webhook-tls-private-key-file",
        Standing::NoEffect(NO_WEBHOOK),
    ),
    ("webhook-tls-sni-cert-key", Standing::NoEffect(NO_WEBHOOK)),
];

/// What is printed when a deprecated flag is used.
pub fn deprecation(flag: &str) -> Option<&'static str> {
    match flag {
        "allow-untagged-cloud" => Some(
            "This flag is deprecated and will be removed in a future release. A cluster-id will \
             be required on cloud instances.",
        ),
        "node-sync-period" => Some("This flag is currently no-op and will be deleted."),
        _ => None,
    }
}
