//! A set-up that works, and each that does not.

use std::{collections::BTreeMap, fs, path::Path};

use outrigger_core::lease::LeaseRecord;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{command::check::as_table, options::parse_from};

const FLAGS: &str = "--cluster-cidr=10.244.0.0/16";
const IPAM: &str =
    "--cluster-cidr=10.244.0.0/16 --allocate-node-cidrs --controllers=*,node-ipam --secure-port=0";

fn node(name: &str, provider_id: &str, cidrs: &[&str]) -> NodeView {
    let (spec, metadata) = (
        json!({"providerID": provider_id, "podCIDRs": cidrs}),
        json!({"name": name, "uid": name, "resourceVersion": "7"}),
    );
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": {}})).unwrap()
}

fn down(cause: DownCause, reason: &str) -> ProviderState {
    ProviderState::Down {
        cause,
        reason: reason.into(),
        since: Instant::now(),
    }
}

fn lease(holder: &str, uid: Option<&str>) -> LeaseFacts {
    let annotations = uid.map(|uid| (CLUSTER_UID_ANNOTATION.to_owned(), uid.to_owned()));
    LeaseFacts {
        annotations: annotations.into_iter().collect(),
        record: LeaseRecord {
            holder: holder.to_owned(),
            duration_seconds: Some(15),
            renewed: Some("2026-12-01T00:00:00.000000Z".into()),
            ..LeaseRecord::default()
        },
    }
}

/// A review of this caller's rights.
fn may(verb: &str) -> SubjectRulesReviewStatus {
    let rule = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": [verb]});
    let review = json!({"incomplete": false, "nonResourceRules": [], "resourceRules": [rule]});
    serde_json::from_value(review).unwrap()
}

fn healthy(config: &Config) -> Found<'_> {
    Found {
        config,
        now: "2026-12-01T00:00:10Z".parse().unwrap(),
        cluster: Ok(ClusterFound {
            facts: cluster::Facts {
                version: "v1.36.3".to_owned(),
                uid: Some("0b5bf7b5".into()),
            },
            rights: may("*"),
            lease: Some(lease("ccm-0_1", Some("0b5bf7b5"))),
            nodes: Some(vec![node("worker-1", "mock://a", &["10.244.1.0/24"])]),
            pod_cidr_writer: None,
        }),
        provider: ProviderState::Ready,
        served: Some(Served {
            summary: "mock 0.1.0: instances, load_balancers, routes".to_owned(),
            prefixes: Prefixes::new("mock", [""; 0]).ok(),
            without_provider_id: false,
            serves_routes: true,
        }),
    }
}

impl Found<'_> {
    fn cluster(&mut self) -> &mut ClusterFound {
        self.cluster.as_mut().unwrap()
    }

    /// One more Node.
    fn with(&mut self, provider_id: &str, cidrs: &[&str]) {
        let nodes = self.cluster().nodes.as_mut().unwrap();
        nodes.push(node("worker-2", provider_id, cidrs));
    }

    fn without_provider(&mut self, cause: DownCause, reason: &str) {
        (self.provider, self.served) = (down(cause, reason), None);
    }
}

#[test]
fn each_broken_set_up_has_its_line_and_no_other() {
    let check = |flags: &str, edit: fn(&mut Found<'_>), expected: &str| {
        let flags: Vec<_> = flags.split_whitespace().collect();
        let config = parse_from(&flags, &BTreeMap::new()).unwrap();
        let mut setup = healthy(&config);
        edit(&mut setup);
        let rows = judge(&setup);
        assert_eq!(rows.len(), REMEDIES.len());
        let rows = rows.iter().filter(|row| row.remedy.is_some());
        let rows = rows.map(|row| format!("{:?} {}: {}", row.result, row.check, row.message));
        let shown = rows.collect::<Vec<_>>().join("\n");
        let is_one = shown.lines().count() == usize::from(!expected.is_empty());
        assert!(
            is_one && shown.starts_with(expected),
            "{expected:?}:\n{shown}"
        );
    };
    check(FLAGS, |_| (), "");
    check(
        FLAGS,
        |it| it.cluster = Err("refused".into()),
        "Failed api-server: refused",
    );
    let old = "Warning api-server: v1.20.1+k3s1 is not";
    check(
        FLAGS,
        |it| it.cluster().facts.version = "v1.20.1+k3s1".into(),
        old,
    );
    let reads = "Failed rights: missing: stores: list, watch nodes; cloud-node: patch nodes; ";
    check(FLAGS, |it| it.cluster().rights = may("get"), reads);
    check(FLAGS, |it| it.cluster().rights.incomplete = true, "");
    let other = "Failed lease: another program, other_1";
    check(
        FLAGS,
        |it| it.cluster().lease = Some(lease("other_1", None)),
        other,
    );
    check("--leader-elect=false", |it| it.served = None, "");
    let uid = "Failed cluster-uid: the cluster's UID is 0b5bf7b5, but the Lease remembers 6d3f";
    check(
        FLAGS,
        |it| it.cluster().lease = Some(lease("ccm-0_1", Some("6d3f"))),
        uid,
    );
    let kubelet = "Failed kubelets: Node worker-2: the node has no provider ID, nor the taint";
    check(FLAGS, |it| it.with("", &["10.244.2.0/24"]), kubelet);
    let ipam = "Warning pod-cidrs: node-ipam-controller is named, and kcm allocates";
    check(
        IPAM,
        |it| it.cluster().pod_cidr_writer = Some("kcm".into()),
        ipam,
    );
    check(
        IPAM,
        |it| it.cluster().pod_cidr_writer = Some(FIELD_MANAGER.into()),
        "",
    );
    let outside = "Failed pod-cidrs: Pod CIDR 10.9.0.0/24 of Node worker-2 is outside";
    check(FLAGS, |it| it.with("mock://b", &["10.9.0.0/24"]), outside);
    let none = "Warning pod-cidrs: Node worker-2: no Pod CIDR";
    check(FLAGS, |it| it.with("mock://b", &[]), none);
    check(
        "",
        |_| (),
        "Warning pod-cidrs: node-route-controller is skipped",
    );
    let absent = "Failed socket: down: away";
    check(
        FLAGS,
        |it| it.without_provider(DownCause::Disconnected, "away"),
        absent,
    );
    let wrong = "Failed handshake: down: aws";
    check(
        FLAGS,
        |it| it.without_provider(DownCause::WrongName, "aws"),
        wrong,
    );
    let broken = "Failed provider: down: no key";
    check(
        FLAGS,
        |it| it.provider = down(DownCause::Broken, "no key"),
        broken,
    );
    check(
        FLAGS,
        |it| it.provider = ProviderState::Starting,
        "Warning provider: starting",
    );
    check(
        FLAGS,
        |it| it.with("k3s://b", &["10.244.2.0/24"]),
        "Warning provider-ids: Node worker-2",
    );
    let foreign = "Failed provider-ids: Node worker-1: not with the provider's prefix mock://";
    check(
        FLAGS,
        |it| it.cluster().nodes = Some(vec![node("worker-1", "k3s://a", &["10.244.1.0/24"])]),
        foreign,
    );
    check(
        "--cluster-cidr=10.244.0.0/16 --allocate-node-cidrs",
        |_| (),
        "Warning flags: ",
    );
    let long = format!("--provider-endpoint=unix:///{}", "p".repeat(107));
    let refused = parse_from(&[long], &BTreeMap::new()).err().unwrap();
    assert!(refused.to_string().contains("is too long"), "{refused}");
}

#[test]
fn the_page_shows_each_check_and_the_output() {
    let config = parse_from(&[FLAGS], &BTreeMap::new()).unwrap();
    let mut setup = healthy(&config);
    setup.with("", &["10.244.2.0/24"]);
    let why = "no provider answers at unix:///run/outrigger/provider.sock: Connection refused (os error 111); a socket is there, but no process listens on it; is the provider running?";
    setup.without_provider(DownCause::Disconnected, why);
    let shown = as_table(&judge(&setup));
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/troubleshooting.md");
    let page = fs::read_to_string(page).unwrap();
    for (check, _) in REMEDIES {
        assert!(page.contains(&format!("| `{check}` |")), "{check}");
    }
    assert!(page.contains(&shown), "the page is to show\n{shown}");
}
