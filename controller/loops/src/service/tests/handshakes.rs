//! Decisions while the session with the provider ends or another one begins.

use std::sync::Arc;

use outrigger_core::{
    error_class::ErrorClass,
    forbidden_addresses::ForbiddenAddresses,
    service::{
        ServiceView,
        answer::{Disposition, LoadBalancerCall, RawAnswer},
        capability::Capability,
        last_applied::LastApplied,
    },
};
use outrigger_provider_mock::ServedLoadBalancers;

use super::*;

fn serving(load_balancers: ServedLoadBalancers) -> Setup {
    Setup {
        leads: false,
        ..Setup::serving(load_balancers)
    }
}

/// A deletion may wait for minutes before its call goes out.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_answered_by_a_provider_without_the_class_proves_nothing() {
    let rig = Rig::with(serving(ServedLoadBalancers {
        classes: vec!["example.com/fast".into()],
        without_default_class: true,
        ..ServedLoadBalancers::default()
    }))
    .await;
    let lb = rig.idle().await;
    let now = lb.decisions.capability().unwrap();
    let before = Arc::new(Capability {
        without_default_class: false,
        ..Capability::clone(&now)
    });
    let mut web: ServiceView = serde_json::from_value(service("web")).unwrap();
    let record = LastApplied::begun(&web, &before).to_string();
    web.annotations = web
        .annotations
        .with([("outrigger.dev/last-applied", record.as_str())]);
    let answered = |disposition| {
        let raw = RawAnswer {
            disposition: Some(disposition),
            ..RawAnswer::default()
        };
        let answer = raw
            .check(LoadBalancerCall::Delete, &ForbiddenAddresses::default())
            .unwrap();
        let unproven = lb.reconciler.cleanup.unproven(
            &answer,
            &web,
            &lb.decisions.inputs_of(Arc::clone(&before)),
        );
        unproven.map(|failure| failure.class)
    };
    assert_eq!(
        answered(Disposition::NotManaged),
        Some(ErrorClass::NotReady)
    );
    assert_eq!(answered(Disposition::Absent), None);
    rig.wire.cut();
    rig.until("no session", |_| lb.decisions.capability().is_none())
        .await;
    assert_eq!(
        answered(Disposition::NotManaged),
        Some(ErrorClass::Unavailable)
    );
    assert_eq!(answered(Disposition::Absent), None);
}
