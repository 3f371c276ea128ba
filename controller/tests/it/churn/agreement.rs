//! Checks that cloud and cluster agree exactly.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
};
use outrigger_core::{
    service::{
        FINALIZER, TYPE_LOAD_BALANCER,
        condition::{ACCEPTED, OURS, PROVISIONED, TARGETS_IN_SYNC},
        last_applied::ANNOTATION_LAST_APPLIED,
    },
    targets::{LABEL_EXCLUDE, TAINT_AUTOSCALER},
};
use outrigger_provider_mock::{
    control::{Client, ShownLoadBalancer, Targets, operations::SHOW_LOAD_BALANCERS},
    load_balancers::{AddressMode, Target},
};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    LAST_TIME, OTHER_CLASS, OWN_CLASS, ledger::Ledger, pod_cidrs::pod_cidrs, routes::Routes,
};
use crate::{stage::Stage, wait::holds};

/// Complaints that are shown of many.
const SHOWN: usize = 20;

/// Reads cluster and cloud, beside all processes of a drill.
#[derive(Clone)]
pub(super) struct View {
    pub(super) namespace: String,
    services: Api<DynamicObject>,
    nodes: Api<DynamicObject>,
    pub(super) routes: Routes,
    /// How many Pod CIDRs a Node has.
    families: usize,
    cloud: Client,
    ledger: Ledger,
}

/// A Service, and what is wrong with it or its load balancer.
pub(super) struct Judged {
    pub(super) service: Service,
    pub(super) wrong: Vec<String>,
}

impl View {
    pub(super) async fn new(
        stage: &Stage,
        namespace: &str,
        cluster_cidrs: &[IpNet],
        ledger: &Ledger,
    ) -> Self {
        let (service, node) = (
            ApiResource::erase::<Service>(&()),
            ApiResource::erase::<Node>(&()),
        );
        Self {
            namespace: namespace.to_owned(),
            services: Api::namespaced_with(stage.admin(), namespace, &service),
            nodes: Api::all_with(stage.admin(), &node),
            routes: Routes::new(stage, cluster_cidrs, ledger).await,
            families: cluster_cidrs.len(),
            cloud: Client::new(stage.dir().join("provider.sock.ctl")),
            ledger: ledger.clone(),
        }
    }

    /// Checks that each Service that is served has one load balancer, which is as it says and has the
    /// current targets, its addresses, and the finalizer; that there are no others; that nothing of ours is on
    /// a Service that is not served; and that each Node has its Pod CIDRs and a route to each.
    pub(super) async fn agrees(&self) -> Result<(), String> {
        let (judged, leaked) = self.judge().await?;
        let complaints = judged
            .into_iter()
            .flat_map(|Judged { service, mut wrong }| {
                // Whoever deletes it now leaves the load balancer behind.
                if is_served(&service) && !has_finalizer(&service) {
                    wrong.push("its finalizer is not back".to_owned());
                }
                let name = service.metadata.name.unwrap_or_default();
                wrong.into_iter().map(move |what| format!("{name}: {what}"))
            });
        let mut complaints: Vec<_> = complaints.chain(leaked).collect();
        let nodes = self.nodes().await?;
        let of_routes = self.routes.complaints(&nodes).await?;
        complaints.extend(of_routes.into_iter().map(|one| one.text));
        for node in nodes {
            let cidrs = pod_cidrs(&node);
            if cidrs.len() != self.families {
                let name = node.metadata.name.unwrap_or_default();
                complaints.push(format!("{name}: its Pod CIDRs are {cidrs:?}"));
            }
        }
        holds(complaints.is_empty(), || {
            complaints.truncate(SHOWN);
            complaints.join("; ")
        })
    }

    /// Faults of each Service, and load balancers without a Service.
    pub(super) async fn judge(&self) -> Result<(Vec<Judged>, Vec<String>), String> {
        let services = self.services().await?;
        let mut balancers = self.load_balancers().await?;
        let targets = targets(self.nodes().await?);
        let judged = services.into_iter().map(|service| {
            let of_service = of(&service, &mut balancers);
            let wrong = match (is_served(&service), &*of_service) {
                _ if self.may_be_held(&service) => Vec::new(),
                (true, [one]) => served(&service, one, &targets),
                (true, []) => vec!["it has no load balancer".to_owned()],
                (true, several) => vec![format!("it has {} load balancers", several.len())],
                (false, []) => left_alone(&service),
                (false, _) => vec!["it has a load balancer".to_owned()],
            };
            Judged { service, wrong }
        });
        let judged = judged.collect();
        let leaked = balancers.iter().map(|one| {
            let (id, service) = (&one.load_balancer.id, &one.load_balancer.service);
            format!("{id} belongs to no Service: {service:?}, {}", one.state)
        });
        Ok((judged, leaked.collect()))
    }

    /// True if the Service may have a load balancer from the time when its class was declared.
    fn may_be_held(&self, service: &Service) -> bool {
        let spec = service.spec.as_ref().unwrap();
        service.metadata.deletion_timestamp.is_none()
            && spec.load_balancer_class.as_deref() == Some(OTHER_CLASS)
            && self.ledger.declared_other_class()
    }

    /// That there is neither a Service nor a load balancer any more.
    pub(super) async fn nothing_left(&self) -> Result<(), String> {
        let services = self.services().await?;
        let balancers = self.load_balancers().await?;
        holds(services.is_empty() && balancers.is_empty(), || {
            let names = services.iter().map(|one| &one.metadata);
            let names: Vec<_> = names.map(|meta| (&meta.name, &meta.finalizers)).collect();
            let ids: Vec<_> = balancers.iter().map(|one| &one.load_balancer.id).collect();
            format!("Services {names:?}, load balancers {ids:?}")
        })
    }

    /// Takes away what each Service says its load balancer was made from.
    pub(super) async fn forget_records(&self) {
        let (parameters, change) = (
            PatchParams::default(),
            Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION_LAST_APPLIED: null}}})),
        );
        for service in self.services().await.unwrap_or_default() {
            let name = service.metadata.name.as_deref().unwrap();
            // A Service that is gone has no record either.
            let _ = self.services.patch(name, &parameters, &change).await;
        }
    }

    /// Takes one of the nodes away from the load balancers, by the label.
    pub(super) async fn exclude_a_node(&self) {
        // Without an API server no node changes either.
        let targets = targets(self.nodes().await.unwrap_or_default());
        let Some(target) = targets.first() else {
            return;
        };
        let change = json!({"metadata": {"labels": {LABEL_EXCLUDE: "true"}}});
        let (parameters, change) = (PatchParams::default(), Patch::Merge(change));
        let _ = self.nodes.patch(&target.node, &parameters, &change).await;
    }

    async fn services(&self) -> Result<Vec<Service>, String> {
        let listed = self.services.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| error.to_string())?;
        Ok(listed.items.into_iter().map(typed).collect())
    }

    pub(super) async fn nodes(&self) -> Result<Vec<Node>, String> {
        let listed = self.nodes.list(&ListParams::default()).await;
        let listed = listed.map_err(|error| error.to_string())?;
        Ok(listed.items.into_iter().map(typed).collect())
    }

    async fn load_balancers(&self) -> Result<Vec<ShownLoadBalancer>, String> {
        let all = Targets {
            all: true,
            ..Targets::default()
        };
        let shown = self.cloud.ask(SHOW_LOAD_BALANCERS, &all).await;
        Ok(shown.map_err(|error| error.to_string())?.load_balancers)
    }
}

/// An object of a type of the library, which refuses some times that the API server has.
pub(super) fn typed<K: DeserializeOwned>(object: DynamicObject) -> K {
    fn tame(value: &mut Value) {
        match value {
            Value::String(text) if text == LAST_TIME => "2000-01-01T00:00:00Z".clone_into(text),
            Value::Array(values) => values.iter_mut().for_each(tame),
            Value::Object(fields) => fields.values_mut().for_each(tame),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(object).unwrap();
    tame(&mut value);
    serde_json::from_value(value).unwrap()
}

/// The nodes that load balancers have to send to, by name. Written once more, so that it is not
/// our own rule that we are held against.
pub(super) fn targets(mut nodes: Vec<Node>) -> Vec<Target> {
    nodes.retain(|node| {
        let label = node.metadata.labels.iter().flatten();
        let excluded = label
            .into_iter()
            .any(|(key, value)| key == LABEL_EXCLUDE && value == "true");
        let spec = node.spec.as_ref();
        let mut taints = spec.iter().flat_map(|spec| &spec.taints).flatten();
        !excluded && !taints.any(|taint| taint.key == TAINT_AUTOSCALER)
    });
    let mut targets: Vec<_> = nodes.iter().map(target).collect();
    targets.sort_by(|a, b| a.node.cmp(&b.node));
    targets
}

fn target(node: &Node) -> Target {
    let status = node.status.as_ref();
    let mut addresses = status.iter().flat_map(|status| &status.addresses).flatten();
    let internal = addresses.find(|address| address.type_ == "InternalIP");
    Target {
        node: node.metadata.name.as_deref().unwrap().into(),
        address: internal.map(|internal| internal.address.parse().unwrap()),
    }
}

/// Takes out the load balancers of one Service.
fn of(service: &Service, balancers: &mut Vec<ShownLoadBalancer>) -> Vec<ShownLoadBalancer> {
    let uid = service.metadata.uid.as_deref().unwrap();
    let is_its = |one: &mut ShownLoadBalancer| {
        let tag = one.load_balancer.service.as_ref();
        tag.is_some_and(|tag| tag.uid == uid)
    };
    balancers.extract_if(.., is_its).collect()
}

pub(super) fn is_served(service: &Service) -> bool {
    let spec = service.spec.as_ref().unwrap();
    let class = spec.load_balancer_class.as_deref();
    service.metadata.deletion_timestamp.is_none()
        && spec.type_.as_deref() == Some(TYPE_LOAD_BALANCER)
        && class.is_none_or(|class| class == OWN_CLASS)
}

/// Defects of a Service and its load balancer.
fn served(service: &Service, shown: &ShownLoadBalancer, targets: &[Target]) -> Vec<String> {
    let spec = service.spec.as_ref().unwrap();
    let one = &shown.load_balancer;
    let mut wrong = Vec::new();
    let mut differ = |what: &str, expected: String, actual: String| {
        if expected != actual {
            wrong.push(format!("{what}: {expected} is wanted, {actual} found"));
        }
    };
    differ("state", "ready".to_owned(), shown.state.clone());
    let ports = spec.ports.iter().flatten().map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        format!("{protocol}/{}:{}", port.port, port.node_port.unwrap_or(0))
    });
    // Their order means nothing to a cloud.
    let ports: BTreeSet<_> = ports.collect();
    let actual: BTreeSet<_> = one.ports.iter().map(ToString::to_string).collect();
    differ("ports", format!("{ports:?}"), format!("{actual:?}"));
    let ranges = spec.load_balancer_source_ranges.iter().flatten().cloned();
    let ranges: Vec<_> = ranges.collect();
    differ(
        "source ranges",
        ranges.join(","),
        one.source_ranges.join(","),
    );
    let check = spec.health_check_node_port.unwrap_or(0);
    differ(
        "health check",
        check.to_string(),
        one.health_check_node_port.to_string(),
    );
    let mode = annotation(service, "mock.example/address-mode").unwrap_or("ip");
    differ(
        "address mode",
        mode.to_owned(),
        one.address_mode.to_string(),
    );
    differ(
        "targets",
        format!("{targets:?}"),
        format!("{:?}", one.targets),
    );
    differ("addresses", addresses_of(shown), addresses(service));

    let finalizers = service.metadata.finalizers.iter().flatten();
    if !finalizers.into_iter().any(|name| name == FINALIZER) {
        wrong.push("it has no finalizer".to_owned());
    }
    let conditions = conditions(service);
    for kind in [ACCEPTED, PROVISIONED, TARGETS_IN_SYNC] {
        if conditions.get(kind) != Some(&"True") {
            wrong.push(format!("{kind} is {:?}", conditions.get(kind)));
        }
    }
    match annotation(service, ANNOTATION_LAST_APPLIED) {
        Some(record) if !record.ends_with('/') => {}
        record => wrong.push(format!("it is not settled: {record:?}")),
    }
    wrong
}

pub(super) fn has_finalizer(service: &Service) -> bool {
    let mut finalizers = service.metadata.finalizers.iter().flatten();
    finalizers.any(|name| name == FINALIZER)
}

/// Our marks on a Service that is not ours.
fn left_alone(service: &Service) -> Vec<String> {
    let mut wrong = Vec::new();
    if has_finalizer(service) {
        wrong.push("it has the finalizer".to_owned());
    }
    for kind in conditions(service).keys() {
        if OURS.contains(kind) || kind.starts_with("status.mock.example/") {
            wrong.push(format!("it has the condition {kind}"));
        }
    }
    let addresses = addresses(service);
    if !addresses.is_empty() {
        wrong.push(format!("it has the addresses {addresses}"));
    }
    wrong
}

fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let annotations = service.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

pub(super) fn conditions(service: &Service) -> BTreeMap<&str, &str> {
    let status = service.status.iter().flat_map(|status| &status.conditions);
    let conditions = status.flatten();
    conditions
        .map(|condition| (&*condition.type_, &*condition.status))
        .collect()
}

pub(super) fn addresses(service: &Service) -> String {
    let status = service.status.as_ref();
    let status = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = status.iter().flat_map(|status| &status.ingress).flatten();
    let addresses = ingress.map(|ingress| {
        let address = ingress.ip.as_deref().or(ingress.hostname.as_deref());
        let mode = ingress.ip_mode.as_deref().unwrap_or_default();
        format!("{} {mode}", address.unwrap_or_default())
    });
    addresses.collect::<Vec<_>>().join(",")
}

fn addresses_of(shown: &ShownLoadBalancer) -> String {
    let one = &shown.load_balancer;
    let mode = match one.address_mode {
        AddressMode::Hostname => return format!("{} ", one.hostname()),
        // The API server's default for none.
        AddressMode::Ip | AddressMode::Vip => "VIP",
        AddressMode::Proxy => "Proxy",
    };
    let addresses = one.addresses.iter().map(|ip| format!("{ip} {mode}"));
    addresses.collect::<Vec<_>>().join(",")
}
