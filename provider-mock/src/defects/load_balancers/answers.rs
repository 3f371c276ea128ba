//! Mistakes in the answers about load balancers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{LoadBalancerAnswer, UpdateLoadBalancerNodesRequest};
use parking_lot::Mutex;

use crate::defects::{Defect, kept};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("ready-without-addresses").ensure_answer(|_, answer| answer.status = None),
        identity_of_each_ensure(),
        short_wait(),
        Defect::new("update-without-disposition").answer::<UpdateLoadBalancerNodesRequest>(
            |_, message| {
                let answer = message.answer.get_or_insert_default();
                if answer.disposition() == D::Absent {
                    answer.set_disposition(D::Unspecified);
                }
            },
        ),
        both("address-and-name", |answer| {
            for point in answer.status.iter_mut().flat_map(|one| &mut one.ingress) {
                "lb.mock.example".clone_into(&mut point.hostname);
            }
        }),
        both("ip-mode-of-its-own", |answer| {
            for point in answer.status.iter_mut().flat_map(|one| &mut one.ingress) {
                point.ip_mode = Some("Direct".to_owned());
            }
        }),
        both("reason-of-a-condition-for-people", |answer| {
            "All targets are healthy".clone_into(&mut answer.reason);
        }),
    ]
}

/// Changes the answers of Get and Ensure.
fn both(name: &'static str, change: fn(&mut LoadBalancerAnswer)) -> Defect {
    let defect = Defect::new(name);
    let defect = defect.get_answer(move |_, answer| change(answer));
    defect.ensure_answer(move |_, answer| change(answer))
}

fn identity_of_each_ensure() -> Defect {
    let count = kept(AtomicU64::new(0));
    Defect::new("identity-of-each-ensure").ensure_answer(move |_, answer| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        answer.identity.get_or_insert_default().id = format!("change-{number}");
    })
}

/// The first Ensure of each Service is in progress.
fn short_wait() -> Defect {
    let uids: &Mutex<BTreeSet<String>> = kept(Mutex::default());
    Defect::new("short-wait").ensure_answer(move |service, answer| {
        let is_ready = answer.disposition() == D::Ready;
        if is_ready && uids.lock().insert(service.uid.clone()) {
            answer.set_disposition(D::InProgress);
            answer.retry_after = Some(prost_types::Duration {
                seconds: 0,
                nanos: 100_000_000,
            });
        }
    })
}
