//! Mistakes in the life of a load balancer: made, made again, changed, deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_api::v1::LoadBalancerDisposition as D;
use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason, ListLoadBalancersRequest,
    ServicePort,
};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{key_of, seen, service_of};
use crate::defects::cancelled::Cancelled;
use crate::defects::{Defect, kept, refusal};
use crate::exchange::Answer;

/// How long a cloud may take, so that calls meet.
const A_WHILE: Duration = Duration::from_millis(20);

/// Services by their UIDs.
type Keys = &'static Mutex<BTreeSet<String>>;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        creates_each_time(),
        creates_at_once(),
        ports_are_kept(),
        protocols_are_kept(),
        Defect::new("one-family").ensured(|service| service.ip_families.truncate(1)),
        delete_of_none(),
        cancelled_is_lost(),
    ]
}

/// Shows the load balancers of some Services twice, as long as they are there.
fn twice(defect: Defect, keys: Keys) -> Defect {
    defect.twice::<ListLoadBalancersRequest>(move |one| {
        let tag = one.service.as_ref();
        tag.is_some_and(|tag| keys.lock().contains(&tag.uid))
    })
}

fn creates_each_time() -> Defect {
    let once: Keys = kept(Mutex::default());
    let doubled: Keys = kept(Mutex::default());
    let defect = Defect::new("creates-each-time");
    twice(defect, doubled).call::<EnsureLoadBalancerRequest, _>(move |call, next| {
        let key = key_of(&call);
        if !once.lock().insert(key.clone()) {
            doubled.lock().insert(key);
        }
        next.serve(call)
    })
}

fn creates_at_once() -> Defect {
    let running: Keys = kept(Mutex::default());
    let doubled: Keys = kept(Mutex::default());
    let defect = Defect::new("creates-at-once");
    twice(defect, doubled).call::<EnsureLoadBalancerRequest, _>(move |call, next| async move {
        let key = key_of(&call);
        let is_first = running.lock().insert(key.clone());
        if !is_first {
            doubled.lock().insert(key.clone());
        }
        // Dropped at the end of the call, whichever it is.
        let _ended = Cancelled::new(move || {
            running.lock().remove(&key);
        });
        sleep(A_WHILE).await;
        next.serve(call).await
    })
}

/// The ports with which a Service was first ensured, until it is deleted.
fn with_first_ports(defect: Defect, merge: fn(&[ServicePort], &mut Vec<ServicePort>)) -> Defect {
    let first: &Mutex<BTreeMap<String, Vec<ServicePort>>> = kept(Mutex::default());
    let defect = defect.ensured(move |service| {
        let mut first = first.lock();
        let ports = first.entry(service.uid.clone());
        let ports = ports.or_insert_with(|| service.ports.clone());
        merge(ports, &mut service.ports);
    });
    defect.deleted(move |service| {
        first.lock().remove(&service.uid);
    })
}

fn ports_are_kept() -> Defect {
    let defect = Defect::new("ports-are-kept");
    with_first_ports(defect, |first, ports| *ports = first.to_vec())
}

fn protocols_are_kept() -> Defect {
    let defect = Defect::new("protocols-are-kept");
    with_first_ports(defect, |first, ports| {
        for port in ports {
            if let Some(first_port) = first.iter().find(|first_port| first_port.port == port.port) {
                port.protocol.clone_from(&first_port.protocol);
            }
        }
    })
}

fn delete_of_none() -> Defect {
    Defect::new("delete-of-none-is-an-error").call::<DeleteLoadBalancerRequest, _>(
        |call, next| async move {
            // An empty request is a probe.
            let service = service_of(&call);
            let is_about_one = !service.uid.is_empty();
            if is_about_one && seen(&call, &next, service, None).await.disposition() == D::Absent {
                let text = "404: there is no such load balancer";
                return Answer::failed(refusal(ErrorReason::CloudError, text));
            }
            next.serve(call).await
        },
    )
}

/// A load balancer of which no tag is written yet is found by neither Delete nor Ensure.
fn cancelled_is_lost() -> Defect {
    let lost: Keys = kept(Mutex::default());
    Defect::new("cancelled-is-lost")
        .cancelled::<EnsureLoadBalancerRequest>(A_WHILE, move |call| {
            lost.lock().insert(key_of(call));
        })
        .get_answer(move |service, answer| {
            if answer.disposition() == D::Absent && lost.lock().contains(&service.uid) {
                answer.set_disposition(D::Ready);
            }
        })
}
