use proptest::prelude::*;

use super::{is_undone, needs_sync, needs_update};
use crate::{
    fixture::{any_service, capability, load_balancer},
    service::{
        FINALIZER, Ingress, ServiceView,
        last_applied::{Hash, LastApplied},
        ownership::Ownership,
    },
};

type Edit = (&'static str, fn(&mut ServiceView));

fn annotate(service: &mut ServiceView, key: &str, value: &str) {
    service.annotations = service.annotations.with([(key, value)]);
}

/// S-21, one by one, and `ipFamilyPolicy`.
const TRIGGERS: [Edit; 25] = [
    ("source ranges", |s| {
        s.spec.load_balancer_source_ranges = ["10.0.0.0/8".into()].into();
    }),
    ("order of source ranges", |s| {
        s.spec.load_balancer_source_ranges.reverse();
    }),
    ("a port more", |s| {
        s.spec.ports = [s.spec.ports[0].clone(), s.spec.ports[0].clone()].into();
    }),
    ("no port", |s| s.spec.ports = [].into()),
    ("port name", |s| s.spec.ports[0].name = "web".into()),
    ("protocol", |s| s.spec.ports[0].protocol = "UDP".into()),
    ("port", |s| s.spec.ports[0].port = 81),
    ("nodePort", |s| s.spec.ports[0].node_port = 30_081),
    ("targetPort", |s| {
        s.spec.ports[0].target_port = "http".into();
    }),
    ("appProtocol", |s| {
        s.spec.ports[0].app_protocol = Some("http".into());
    }),
    ("sessionAffinity", |s| {
        s.spec.session_affinity = "ClientIP".into();
    }),
    ("sessionAffinityConfig", |s| {
        s.spec.session_affinity_timeout = Some(10_800);
    }),
    ("loadBalancerIP", |s| {
        s.spec.load_balancer_ip = "192.0.2.7".into();
    }),
    ("externalIPs", |s| {
        s.spec.external_ips = ["198.51.100.9".into()].into();
    }),
    ("annotation that is read", |s| {
        annotate(s, "example.com/flavour", "large");
    }),
    ("source ranges annotation", |s| {
        annotate(
            s,
            "service.beta.kubernetes.io/load-balancer-source-ranges",
            "10.0.0.0/8",
        );
    }),
    ("resync", |s| annotate(s, "outrigger.dev/resync", "1")),
    ("UID", |s| s.uid = "another".into()),
    ("externalTrafficPolicy", |s| {
        s.spec.external_traffic_policy = "Local".into();
    }),
    ("healthCheckNodePort", |s| {
        s.spec.health_check_node_port = 30_999;
    }),
    ("number of ipFamilies", |s| {
        s.spec.ip_families = ["IPv4".into(), "IPv6".into()].into();
    }),
    ("ipFamilies", |s| {
        s.spec.ip_families = ["IPv6".into()].into();
    }),
    ("ipFamilyPolicy", |s| {
        s.spec.ip_family_policy = "PreferDualStack".into();
    }),
    ("class", |s| {
        s.spec.load_balancer_class = Some("example.com/fast".into());
    }),
    ("order of externalIPs", |s| s.spec.external_ips.reverse()),
];

/// S-22, and what providers and we ourselves write.
const OTHERS: [Edit; 10] = [
    ("labels", |s| {
        s.labels = [("app", "other")].into_iter().collect();
    }),
    ("finalizers", |s| s.finalizers = [FINALIZER.into()].into()),
    ("resourceVersion", |s| s.resource_version = "8".into()),
    ("ingress", |s| {
        s.ingress = [crate::service::Ingress::default()].into();
    }),
    ("conditions", |s| s.conditions = [].into()),
    ("annotation that the provider does not read", |s| {
        annotate(s, "other.example/flavour", "large");
    }),
    ("annotation that the provider writes", |s| {
        annotate(s, "example.com/status-id", "lb-1");
    }),
    ("paused", |s| annotate(s, "outrigger.dev/paused", "true")),
    ("record", |s| {
        annotate(s, "outrigger.dev/last-applied", "mock/uid-web//");
    }),
    ("nothing", |_| {}),
];

fn update(old: &ServiceView, new: &ServiceView) -> bool {
    needs_update(old, new, &capability())
}

fn base() -> ServiceView {
    let mut service = load_balancer("web");
    service.spec.load_balancer_source_ranges = ["10.1.0.0/16".into(), "10.2.0.0/16".into()].into();
    service.spec.external_ips = ["198.51.100.1".into(), "198.51.100.2".into()].into();
    service
}

#[test]
fn each_field_of_s_21_needs_an_update() {
    for (what, edit) in TRIGGERS {
        let mut new = base();
        edit(&mut new);
        assert!(update(&base(), &new) && update(&new, &base()), "{what}");
        assert_ne!(
            Hash::of(&base(), &capability()),
            Hash::of(&new, &capability()),
            "{what}"
        );
    }
}

#[test]
fn nothing_else_does() {
    for (what, edit) in OTHERS {
        let mut new = base();
        edit(&mut new);
        assert!(!needs_update(&base(), &new, &capability()), "{what}");
        assert_eq!(
            Hash::of(&base(), &capability()),
            Hash::of(&new, &capability()),
            "{what}"
        );
    }
}

/// S-20.
#[test]
fn to_want_one_and_to_want_none_are_changes() {
    let edited = |edit: fn(&mut ServiceView)| {
        let mut service = base();
        edit(&mut service);
        service
    };
    let cluster_ip = edited(|s| s.spec.kind = "ClusterIP".into());
    let node_port = edited(|s| s.spec.kind = "NodePort".into());
    let foreign = edited(|s| s.spec.load_balancer_class = Some("example.com/other".into()));
    assert!(update(&base(), &cluster_ip) && update(&cluster_ip, &base()));
    assert!(update(&base(), &foreign) && update(&foreign, &base()));
    assert!(!update(&cluster_ip, &node_port) && !update(&cluster_ip, &foreign));
}

#[test]
fn changes_that_lead_to_a_sync_at_once() {
    let edited = |edit: fn(&mut ServiceView)| {
        let mut service = base();
        service.finalizers = [FINALIZER.into()].into();
        edit(&mut service);
        service
    };
    let held = edited(|_| {});
    let edits: [(Edit, bool); 7] = [
        (("port", |s| s.spec.ports[0].port = 81), true),
        (
            ("paused", |s| annotate(s, "outrigger.dev/paused", "true")),
            true,
        ),
        (("no finalizer", |s| s.finalizers = [].into()), false),
        (
            ("deleted", |s| s.deleted = Some(jiff::Timestamp::UNIX_EPOCH)),
            true,
        ),
        (("type", |s| s.spec.kind = "ClusterIP".into()), true),
        (
            ("ingress", |s| {
                s.ingress = [crate::service::Ingress::default()].into();
            }),
            false,
        ),
        (
            ("record", |s| {
                annotate(s, "outrigger.dev/last-applied", "mock/uid-web//");
            }),
            false,
        ),
    ];
    for ((what, edit), expected) in edits {
        assert_eq!(
            needs_sync(&held, &edited(edit), &capability()),
            expected,
            "{what}"
        );
    }
    // Our own.
    assert!(!needs_sync(&base(), &held, &capability()));
    // Another provider has taken over one whose class is not served any more.
    let recorded = |record: &str| {
        let mut service = held.clone();
        service.spec.load_balancer_class = Some("example.com/other".into());
        annotate(&mut service, "outrigger.dev/last-applied", record);
        service
    };
    let (ours, theirs) = (recorded("mock/uid-web///"), recorded("other/uid-web///"));
    assert!(needs_sync(&ours, &theirs, &capability()));
}

proptest! {
    /// A decision after a restart equals the decision from a watch.
    #[test]
    fn the_hash_differs_where_an_update_is_needed(a in any_service(), b in any_service()) {
        let capability = capability();
        let both = [&a, &b].iter().all(|s| Ownership::of(s, Some(&capability)) == Ownership::Provide);
        prop_assume!(both);
        let differ = Hash::of(&a, &capability) != Hash::of(&b, &capability);
        prop_assert_eq!(needs_update(&a, &b, &capability), differ);
    }
}

#[test]
fn a_write_of_another_client_over_ours_is_seen() {
    let mut settled = load_balancer("web");
    settled.finalizers = [FINALIZER.into()].into();
    settled.ingress = [Ingress {
        ip: "192.0.2.7".into(),
        ..Ingress::default()
    }]
    .into();
    let hash = Hash::of(&settled, &capability());
    let record = LastApplied::with_hash(&settled, &capability(), hash);
    let record = record.with_addresses(&settled.ingress).to_string();
    annotate(&mut settled, "outrigger.dev/last-applied", &record);
    let undo = |edit: fn(&mut ServiceView)| {
        let mut undone = settled.clone();
        edit(&mut undone);
        (is_undone(&settled, &undone), is_undone(&undone, &settled))
    };
    // Not that it is right again.
    let only_undone = (true, false);
    assert_eq!(undo(|s| s.finalizers = [].into()), only_undone);
    assert_eq!(undo(|s| s.ingress = [].into()), only_undone);
    assert_eq!(
        undo(|s| s.ingress[0].ip = "203.0.113.9".into()),
        only_undone
    );
    let (same, other) = (
        (false, false),
        undo(|s| s.labels = [("a", "b")].into_iter().collect()),
    );
    assert_eq!(other, same);
    assert_eq!(
        undo(|s| s.ingress[0].ip_mode = Some("VIP".into())),
        same,
        "a default"
    );
    // Before it is settled its addresses belong to no client yet.
    annotate(
        &mut settled,
        "outrigger.dev/last-applied",
        "mock/uid-web///",
    );
    let mut cleared = settled.clone();
    cleared.ingress = [].into();
    assert!(!is_undone(&settled, &cleared));
}
