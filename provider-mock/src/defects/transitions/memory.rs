//! The memory of a provider: the last state of each load balancer, from which it makes the next one.

use std::collections::BTreeMap;

use outrigger_api::v1::{
    DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, GetLoadBalancerRequest, InlineNodes,
    Node, NodeTargets, PlanLoadBalancerRequest, Service, SyncNodeSetRequest,
    UpdateLoadBalancerNodesRequest, node_targets::Targets,
};
use parking_lot::Mutex;

use crate::defects::Defect;
use crate::defects::hook::Next;
use crate::defects::odd::Upload;
use crate::exchange::{Answer, Call};

/// The desired state of a load balancer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Spec {
    pub(super) service: Service,
    pub(super) nodes: Nodes,
}

type Nodes = BTreeMap<String, Node>;

/// A load balancer as it was last.
#[derive(Clone)]
struct Past {
    desired: Spec,
    /// The state that the provider made of it.
    applied: Spec,
}

/// All load balancers, and the uploads that name their targets.
pub(super) struct Memory {
    /// Makes of the state that is desired what the provider applies, from what it applied before.
    change: fn(&Spec, &mut Spec),
    is_by_name: bool,
    pasts: Mutex<BTreeMap<String, Past>>,
    /// The node set, by revision.
    sets: Mutex<BTreeMap<String, Nodes>>,
}

impl Memory {
    pub(super) fn new(change: fn(&Spec, &mut Spec)) -> Self {
        Self {
            change,
            is_by_name: false,
            pasts: Mutex::default(),
            sets: Mutex::default(),
        }
    }

    /// The namespace and name of a Service are the key, and a deletion does not end the memory.
    pub(super) fn by_name(change: fn(&Spec, &mut Spec)) -> Self {
        Self {
            is_by_name: true,
            ..Self::new(change)
        }
    }

    fn key(&self, service: &Service) -> String {
        if self.is_by_name {
            format!("{}/{}", service.namespace, service.name)
        } else {
            service.uid.clone()
        }
    }

    pub(super) fn has(&self, service: &Service) -> bool {
        self.pasts.lock().contains_key(&self.key(service))
    }

    fn put(&self, past: Past) {
        let key = self.key(&past.desired.service);
        self.pasts.lock().insert(key, past);
    }

    /// The state that an Ensure desires, where this process knows its targets.
    fn desired(&self, request: &EnsureLoadBalancerRequest) -> Option<Spec> {
        let nodes = self.nodes(request.targets.as_ref())?;
        request.service.as_ref().map(|service| spec(service, nodes))
    }

    /// A change that was cut off counts as made.
    pub(super) fn cut(&self, request: &EnsureLoadBalancerRequest) {
        if let Some(desired) = self.desired(request) {
            let mut pasts = self.pasts.lock();
            if let Some(past) = pasts.get_mut(&self.key(&desired.service)) {
                past.desired = desired;
            }
        }
    }

    /// The state that the provider makes of a desired one.
    fn applied(&self, desired: Spec) -> Past {
        let past = self.pasts.lock().get(&self.key(&desired.service)).cloned();
        let mut applied = desired.clone();
        match past {
            Some(past) if past.desired == desired => return past,
            Some(past) => (self.change)(&past.applied, &mut applied),
            None => {}
        }
        Past { desired, applied }
    }

    /// The same of an update, which leaves all but the targets.
    fn updated(&self, service: &Service, nodes: Nodes) -> Past {
        let past = self.pasts.lock().get(&self.key(service)).cloned();
        let past = past.filter(|past| past.desired.service.uid == service.uid);
        let Some(past) = past else {
            return self.applied(spec(service, nodes));
        };
        let service = past.desired.service;
        let mut now = self.applied(Spec { service, nodes });
        now.applied.service = past.applied.service;
        now
    }

    fn nodes(&self, targets: Option<&NodeTargets>) -> Option<Nodes> {
        match targets?.targets.as_ref()? {
            Targets::Ref(named) => {
                let mut nodes = self.sets.lock().get(&named.revision).cloned()?;
                if let Some(only) = &named.only {
                    // The provider refuses names that the set lacks.
                    if only.names.iter().any(|name| !nodes.contains_key(name)) {
                        return None;
                    }
                    nodes.retain(|name, _| only.names.contains(name));
                }
                Some(nodes)
            }
            Targets::Inline(inline) => {
                let nodes = inline.nodes.iter();
                Some(nodes.map(|one| (one.name.clone(), one.clone())).collect())
            }
        }
    }

    fn uploaded(&self, upload: Upload) {
        let revision = upload.revision().to_owned();
        let nodes = upload.0.into_iter().flat_map(|message| message.nodes);
        let nodes = nodes.map(|one| (one.name.clone(), one)).collect();
        self.sets.lock().insert(revision, nodes);
    }
}

fn spec(service: &Service, nodes: Nodes) -> Spec {
    let service = Service {
        status: None,
        deletion_time: None,
        ..service.clone()
    };
    Spec { service, nodes }
}

impl Spec {
    /// Takes the place of the Service and the targets of a request.
    fn replace(self, service: &mut Option<Service>, targets: &mut Option<NodeTargets>) {
        let old = service.take().unwrap_or_default();
        *service = Some(Service {
            status: old.status,
            deletion_time: old.deletion_time,
            ..self.service
        });
        if targets.is_some() {
            *targets = Some(inline(self.nodes));
        }
    }
}

fn inline(nodes: Nodes) -> NodeTargets {
    NodeTargets {
        targets: Some(Targets::Inline(InlineNodes {
            nodes: nodes.into_values().collect(),
        })),
    }
}

/// The mistakes of a memory. The provider believes itself: Get and plans compare with the state that Ensure made.
pub(super) fn remembering(defect: Defect, memory: &'static Memory) -> Defect {
    let read = move |service: &mut Option<Service>, targets: &mut Option<NodeTargets>| {
        let Some(of_request) = service.as_ref() else {
            return;
        };
        let key = memory.key(of_request);
        let of_past = || {
            memory
                .pasts
                .lock()
                .get(&key)
                .map(|past| past.desired.nodes.clone())
        };
        let nodes = if targets.is_some() {
            memory.nodes(targets.as_ref())
        } else {
            of_past()
        };
        if let Some(nodes) = nodes {
            let past = memory.applied(spec(of_request, nodes));
            past.applied.replace(service, targets);
        }
    };
    defect
        .call::<SyncNodeSetRequest, _>(move |call, next| async move {
            let upload = Upload::of(&call);
            let answer = next.serve(call).await;
            if answer.error().is_none() {
                memory.uploaded(upload);
            }
            answer
        })
        .request(move |request: &mut GetLoadBalancerRequest| {
            read(&mut request.service, &mut request.targets);
        })
        .request(move |request: &mut PlanLoadBalancerRequest| {
            read(&mut request.service, &mut request.targets);
        })
        .request(move |request: &mut DeleteLoadBalancerRequest| {
            if !memory.is_by_name
                && let Some(service) = &request.service
            {
                memory.pasts.lock().remove(&service.uid);
            }
        })
        .call::<EnsureLoadBalancerRequest, _>(move |call, next| async move {
            let mut request: EnsureLoadBalancerRequest = call.message();
            let Some(desired) = memory.desired(&request) else {
                return next.serve(call).await;
            };
            let past = memory.applied(desired);
            let applied = past.applied.clone();
            applied.replace(&mut request.service, &mut request.targets);
            let answer = next.serve(call.with(&request)).await;
            if answer.error().is_none() {
                memory.put(past);
            }
            answer
        })
        .call::<UpdateLoadBalancerNodesRequest, _>(move |call, next| update(memory, call, next))
}

async fn update(memory: &'static Memory, call: Call, next: Next) -> Answer {
    let mut request: UpdateLoadBalancerNodesRequest = call.message();
    let nodes = memory.nodes(request.targets.as_ref());
    let (Some(nodes), Some(service)) = (nodes, request.service.clone()) else {
        return next.serve(call).await;
    };
    let past = memory.updated(&service, nodes);
    request.targets = Some(inline(past.applied.nodes.clone()));
    let answer = next.correct(call.with(&request)).await;
    if answer.error().is_none() && memory.has(&service) {
        memory.put(past);
    }
    answer
}
