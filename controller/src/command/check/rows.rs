//! The judgement of each check: from the answers of the API server and the provider to a line with its remedy.

use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::SubjectRulesReviewStatus;
use outrigger_core::{
    cidr::Cidr,
    cluster_uid::ClusterUid,
    node::{
        NodeView,
        ownership::{Prefixes, ProviderIdOwner},
        plan::NodeWarning,
    },
    repairs::FIELD_MANAGER,
    route::{RefusedRoute, RouteRefusal, WITHOUT_CLUSTER_CIDR},
};
use outrigger_kube::cluster::{self, CLUSTER_UID_ANNOTATION, LeaseFacts};
use outrigger_provider::{DownCause, ProviderState};
use serde::Serialize;

use self::CheckResult::{Failed, Skipped, Warning};
use super::rights;
use crate::options::{Config, controllers::Controller};

/// Minor versions of Kubernetes that the whole-process tests pass with.
const TESTED: std::ops::RangeInclusive<u32> = 35..=38;

/// The checks, in order, and the remedy of each.
pub(super) const REMEDIES: [(&str, &str); 11] = [
    ("api-server", "--kubeconfig; docs/upgrade.md"),
    ("rights", "apply deploy/rights; docs/rbac.md"),
    ("lease", "end it, or --leader-elect-resource-name"),
    ("cluster-uid", "docs/troubleshooting.md"),
    ("kubelets", "docs/distributions.md"),
    ("pod-cidrs", "docs/pod-cidrs.md"),
    ("socket", "start the provider; --provider-endpoint"),
    ("handshake", "another provider, or --cloud-provider"),
    ("provider", "the log of the provider"),
    ("provider-ids", "the provider of these Nodes"),
    ("flags", "docs/flags.md"),
];

/// All that was found, before it is judged.
pub(super) struct Found<'a> {
    pub(super) config: &'a Config,
    pub(super) now: Timestamp,
    /// The error is for people.
    pub(super) cluster: Result<ClusterFound, String>,
    pub(super) provider: ProviderState,
    /// Absent without a handshake.
    pub(super) served: Option<Served>,
}

/// The answers of the API server.
pub(super) struct ClusterFound {
    pub(super) facts: cluster::Facts,
    pub(super) rights: SubjectRulesReviewStatus,
    /// Absent where there is none, or it may not be read.
    pub(super) lease: Option<LeaseFacts>,
    /// Absent where they may not be listed.
    pub(super) nodes: Option<Vec<NodeView>>,
    /// For node-ipam: the client that has set the Pod CIDRs of the youngest Node with any.
    pub(super) pod_cidr_writer: Option<String>,
}

/// The provider's declarations.
pub(super) struct Served {
    /// Name, version and capabilities, for people.
    pub(super) summary: String,
    pub(super) prefixes: Option<Prefixes>,
    pub(super) without_provider_id: bool,
    pub(super) serves_routes: bool,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum CheckResult {
    Ok,
    Warning,
    Failed,
    /// Another check has to pass first.
    Skipped,
}

/// A check with its result.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) check: &'static str,
    pub(super) result: CheckResult,
    pub(super) message: String,
    /// Absent where there is nothing to do.
    pub(super) remedy: Option<&'static str>,
}

/// A result and its text.
type Judged = (CheckResult, String);

fn ok(text: impl Into<String>) -> Judged {
    (CheckResult::Ok, text.into())
}

fn skipped() -> Judged {
    (Skipped, "another check has to pass first".to_owned())
}

/// The results of all checks, in their order.
pub(super) fn judge(setup: &Found<'_>) -> Vec<Row> {
    let of_cluster = match &setup.cluster {
        Ok(cluster) => [
            version(&cluster.facts.version),
            setup.rights(cluster),
            setup.lease(cluster),
            setup.cluster_uid(cluster),
            setup.kubelets(cluster),
            setup.pod_cidrs(cluster),
        ],
        Err(why) => {
            let mut judged = [(); 6].map(|()| skipped());
            judged[0] = (Failed, why.clone());
            judged
        }
    };
    let flags = match setup.config.warnings.join("; ") {
        none if none.is_empty() => ok("all have effect"),
        warnings => (Warning, warnings),
    };
    let judged = of_cluster.into_iter().chain(setup.provider());
    let judged = judged.chain([setup.provider_ids(), flags]);
    let row = |((check, remedy), (result, message))| Row {
        check,
        result,
        message,
        remedy: matches!(result, Failed | Warning).then_some(remedy),
    };
    REMEDIES.into_iter().zip(judged).map(row).collect()
}

fn version(version: &str) -> Judged {
    let minor = version.split('.').nth(1);
    let minor = minor.and_then(|minor| minor.parse().ok());
    if minor.is_some_and(|minor| TESTED.contains(&minor)) {
        ok(version)
    } else {
        (Warning, format!("{version} is not tested"))
    }
}

impl Found<'_> {
    fn rights(&self, cluster: &ClusterFound) -> Judged {
        let missing = rights::missing(self.config, &cluster.rights);
        match (missing.is_empty(), cluster.rights.incomplete) {
            (true, _) => ok("all that the loops need"),
            // A webhook authorizes too.
            (false, true) => (Warning, format!("perhaps missing: {missing}")),
            (false, false) => (Failed, format!("missing: {missing}")),
        }
    }

    fn lease(&self, cluster: &ClusterFound) -> Judged {
        let lease = cluster.lease.as_ref();
        let Some(lease) = lease.filter(|lease| lease.record.seems_held(self.now)) else {
            return ok("no program holds it");
        };
        let holder = &lease.record.holder;
        // Each of our leaders begins with it.
        if lease.annotations.contains_key(CLUSTER_UID_ANNOTATION) {
            ok(format!("replica {holder} leads"))
        } else {
            (
                Failed,
                format!("another program, {holder}, leads: this one would wait"),
            )
        }
    }

    fn cluster_uid(&self, cluster: &ClusterFound) -> Judged {
        let own = self.config.cluster_uid.as_deref();
        let lease = cluster.lease.as_ref();
        let on_lease = lease.and_then(|lease| lease.annotations.get(CLUSTER_UID_ANNOTATION));
        let own = own.or(cluster.facts.uid.as_deref());
        let uid = ClusterUid::judge(own, on_lease.map(|uid| &**uid));
        let result = match uid.allows_changes(self.config.provider.allow_untagged_cloud) {
            true if own.is_some() => CheckResult::Ok,
            true => Warning,
            false => Failed,
        };
        (result, uid.to_string())
    }

    fn kubelets(&self, cluster: &ClusterFound) -> Judged {
        let Some(nodes) = &cluster.nodes else {
            return skipped();
        };
        let selector = self.config.node.selector.as_deref();
        let is_ours = |node: &NodeView| {
            node.is_without_cloud() && selector.is_none_or(|one| one.matches(&node.labels))
        };
        let served = self.served.as_ref();
        match names(nodes, is_ours) {
            Some(without) if !served.is_some_and(|served| served.without_provider_id) => (
                Failed,
                format!("{without}: {}", NodeWarning::not_initialized()),
            ),
            _ => ok(format!("Nodes: {}", nodes.len())),
        }
    }

    fn pod_cidrs(&self, cluster: &ClusterFound) -> Judged {
        let (Some(nodes), config) = (&cluster.nodes, self.config) else {
            return skipped();
        };
        if let Some(writer) = &cluster.pod_cidr_writer
            && writer != FIELD_MANAGER
        {
            let text = format!("node-ipam-controller is named, and {writer} allocates, or did");
            return (Warning, text);
        }
        let is_on = config.controllers.enabled(Controller::NodeRoute);
        let served = self.served.as_ref();
        if !is_on || !config.configure_cloud_routes || !served.is_some_and(|it| it.serves_routes) {
            return ok("no routes to them");
        }
        let Some(settings) = &config.route else {
            return (Warning, WITHOUT_CLUSTER_CIDR.to_owned());
        };
        let mut all = nodes.iter().flat_map(|node| {
            let cidrs = node.pod_cidrs.iter().filter_map(|text| Cidr::parse(text));
            cidrs.map(|cidr| (node.name.clone(), cidr))
        });
        let ranges = &settings.ranges;
        let is_inside = |cidr| ranges.iter().any(|range| range.cidr.contains(cidr));
        if let Some((node, destination)) = all.find(|(_, cidr)| !is_inside(*cidr)) {
            let why = RouteRefusal::Outside;
            let refused = RefusedRoute {
                destination,
                node,
                why,
            };
            return (Failed, refused.to_string());
        }
        match names(nodes, |node| node.pod_cidrs.is_empty()) {
            Some(without) if config.ipam.is_none() => {
                (Warning, format!("{without}: no Pod CIDR, so no route"))
            }
            _ => ok("inside --cluster-cidr"),
        }
    }

    /// Socket, handshake and status: the provider's state is about one of them.
    fn provider(&self) -> [Judged; 3] {
        let why = self.provider.to_string();
        let served = self.served.as_ref();
        let socket = ok(self.config.provider.endpoint.to_string());
        let handshake = ok(served.map_or("", |served| &*served.summary));
        match (&self.provider, self.provider.cause()) {
            (_, Some(DownCause::Broken)) => [socket, handshake, (Failed, why)],
            (ProviderState::Connecting, _) | (_, Some(DownCause::Disconnected)) => {
                [(Failed, why), skipped(), skipped()]
            }
            (_, Some(_)) => [socket, (Failed, why), skipped()],
            (ProviderState::Ready, _) => [socket, handshake, ok(why)],
            _ => [socket, handshake, (Warning, why)],
        }
    }

    fn provider_ids(&self) -> Judged {
        let cluster = self.cluster.as_ref().ok();
        let nodes = cluster.and_then(|cluster| cluster.nodes.as_ref());
        let served = self.served.as_ref();
        let prefixes = served.and_then(|served| served.prefixes.as_ref());
        let (Some(nodes), Some(prefixes)) = (nodes, prefixes) else {
            return skipped();
        };
        let owned = |owner| names(nodes, |node| prefixes.owner(&node.provider_id) == owner);
        let Some(foreign) = owned(ProviderIdOwner::Foreign) else {
            return ok(format!("prefix {prefixes}"));
        };
        let message = format!("{foreign}: not with the provider's prefix {prefixes}");
        // Another provider may be beside this one.
        let is_shared = owned(ProviderIdOwner::Ours).is_some();
        (if is_shared { Warning } else { Failed }, message)
    }
}

/// The Nodes that `are` so, the first by name; none: there is none.
fn names(nodes: &[NodeView], are: impl Fn(&NodeView) -> bool) -> Option<String> {
    let mut such = nodes.iter().filter(|node| are(node));
    let first = &such.next()?.name;
    Some(match such.count() {
        0 => format!("Node {first}"),
        others => format!("Node {first} and {others} others"),
    })
}

#[cfg(test)]
mod tests;
