//! Mistakes about the key of a load balancer: cluster UID and Service UID.

use std::collections::BTreeMap;

use outrigger_api::v1::{
    CallContext, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest,
    ListLoadBalancersRequest, PlanLoadBalancerRequest, Service, UpdateLoadBalancerNodesRequest,
};
use parking_lot::Mutex;

use super::delete;
use crate::defects::handshake::of_the_handshake;
use crate::defects::hook::context_of;
use crate::defects::{Defect, kept};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        key_is_the_name(),
        cluster_of_the_handshake(),
        name_for_uid(),
        Defect::new("needs-the-type").deleted(|service| {
            if service.r#type != "LoadBalancer" {
                service.uid.push_str("-of-another-type");
            }
        }),
        deletes_all(),
    ]
}

/// The UIDs of Services by the names that stand for them.
type Uids = &'static Mutex<BTreeMap<String, String>>;

/// Names a Service by its name, and remembers its UID.
fn by_name(uids: Uids, service: &mut Service) {
    if !service.uid.is_empty() {
        let name = format!("{}/{}", service.namespace, service.name);
        let uid = std::mem::replace(&mut service.uid, name.clone());
        uids.lock().insert(name, uid);
    }
}

fn key_is_the_name() -> Defect {
    let uids: Uids = kept(Mutex::default());
    Defect::new("key-is-the-name")
        .ensured(move |service| by_name(uids, service))
        .got(move |service| by_name(uids, service))
        .deleted(move |service| by_name(uids, service))
        .request(move |request: &mut PlanLoadBalancerRequest| {
            let service = request.service.iter_mut();
            service.for_each(|service| by_name(uids, service));
        })
        .request(move |request: &mut UpdateLoadBalancerNodesRequest| {
            let service = request.service.iter_mut();
            service.for_each(|service| by_name(uids, service));
        })
        .listed::<ListLoadBalancersRequest>(move |entries| {
            for tag in entries.iter_mut().filter_map(|one| one.service.as_mut()) {
                if let Some(uid) = uids.lock().get(&tag.uid) {
                    tag.uid.clone_from(uid);
                }
            }
        })
}

/// All but lists, which show only what is tagged.
fn cluster_of_the_handshake() -> Defect {
    let (defect, change) = of_the_handshake(Defect::new("cluster-of-the-handshake"));
    in_context(defect, change)
}

fn name_for_uid() -> Defect {
    let defect = Defect::new("name-for-uid");
    in_context(defect, |context| {
        if context.cluster_uid.is_empty() {
            context.cluster_uid.clone_from(&context.cluster_name);
        }
    })
}

/// Changes the context of calls about one Service.
fn in_context(
    defect: Defect,
    change: impl Fn(&mut CallContext) + Clone + Send + Sync + 'static,
) -> Defect {
    defect
        .in_context::<EnsureLoadBalancerRequest>(change.clone())
        .in_context::<GetLoadBalancerRequest>(change.clone())
        .in_context::<DeleteLoadBalancerRequest>(change)
}

fn deletes_all() -> Defect {
    Defect::new("deletes-all").call::<DeleteLoadBalancerRequest, _>(|call, next| async move {
        let context = context_of(&call);
        let listed = next.ask(&call, &ListLoadBalancersRequest { context }).await;
        let entries = listed.into_iter().flat_map(|one| one.items);
        for tag in entries.filter_map(|one| one.service) {
            let service = Service {
                namespace: tag.namespace,
                name: tag.name,
                uid: tag.uid,
                ..Service::default()
            };
            delete(&call, &next, service).await;
        }
        next.serve(call).await
    })
}
