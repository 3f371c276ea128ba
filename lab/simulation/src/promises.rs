//! The promises: facts that hold at each moment, and a state that is reached in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use outrigger_provider_mock::{Cloud, instances::Power, load_balancers::LoadBalancer};
use serde_json::{Value, json};

use crate::{
    apiserver::{ApiServer, Request, Write},
    certificates::Approvals,
    host, maintenance,
    people::{EXCLUDED, NODES, POOL, SELECTOR, SELECTORS, SERVICES_OF_RUN},
    volumes::{self, VOLUMES},
};

const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const STOPPED: &str = "node.cloudprovider.kubernetes.io/shutdown";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// How long a controller may still act on a Service as it was before: late events and calls that hang together.
const LAG: Duration = Duration::from_mins(10);

/// A process that renews the Lease later than this may have begun another term.
const RENEWED_WITHIN: Duration = Duration::from_secs(8);

/// Watches a run.
#[derive(Default)]
pub struct Promises {
    /// UIDs of Services that users have given up: deleted, or given another type. With a time: wanted again since then.
    released: BTreeMap<String, Option<Duration>>,
    /// UID of the Service, and whether it is being deleted, of each load balancer.
    load_balancers: BTreeMap<String, (String, bool)>,
    /// The UID of the Node of each Pod CIDR.
    nodes: BTreeMap<String, String>,
    /// The UID of the Node that each route was made for, by destination and provider ID.
    routes: BTreeMap<(String, String), Option<String>>,
    /// The client that holds the Lease.
    leader: Option<String>,
    /// The process that held it last, and when it renewed it.
    holder: (String, Duration),
    /// Terms so far.
    term: u64,
    approvals: Approvals,
    /// Writes that controllers asked for, those of Leases and events left out, whether they changed anything or not.
    writes: u64,
    /// The last one.
    last_write: String,
}

/// Requests and calls of controllers so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    writes: u64,
    last_write: String,
    /// Calls that can change the cloud, by method.
    calls: BTreeMap<&'static str, u64>,
}

/// Calls that can change the cloud.
const CHANGES: [&str; 5] = [
    "EnsureLoadBalancer",
    "UpdateLoadBalancerNodes",
    "DeleteLoadBalancer",
    "CreateRoute",
    "DeleteRoute",
];

impl Promises {
    /// Looks at what was written since the last time, and at the cloud. Some writes of a leader may be `late`: they come
    /// after its term.
    ///
    /// # Errors
    /// The promise that is broken.
    pub fn look(&mut self, writes: &[Write], late: bool, cloud: &Cloud) -> Result<(), String> {
        for write in writes {
            self.written(write, late, cloud)?;
        }
        self.approvals.look(cloud);
        self.routes(cloud)?;
        self.load_balancers(cloud)
    }

    /// Requests and calls of controllers so far.
    pub fn activity(&self, cloud: &Cloud) -> Activity {
        let counts = cloud.counters().calls;
        let calls = CHANGES.map(|method| {
            let calls = counts.get(method).map_or(0, |codes| codes.values().sum());
            (method, calls)
        });
        Activity {
            writes: self.writes,
            last_write: self.last_write.clone(),
            calls: calls.into(),
        }
    }

    /// All is as users want it, and nothing is in flight any more: what was given up before has no say from now on.
    pub fn settled(&mut self) {
        self.released.retain(|_, since| since.is_none());
    }

    /// Differences from what users want; empty: there is none.
    pub fn complaints(&self, api: &ApiServer, cloud: &Cloud) -> Vec<String> {
        let items = |path: &str| api.list(path).unwrap_or_default();
        let (nodes, services) = (items(NODES), items(SERVICES_OF_RUN));
        let mut wrong = Vec::new();
        for node in &nodes {
            wrong.extend(node_complaints(node, cloud));
        }
        let mut targets: Vec<_> = nodes.iter().filter_map(target).collect();
        targets.sort();
        let mut load_balancers = cloud.load_balancers();
        for service in &services {
            let uid = text(&service["metadata"]["uid"]);
            let its: Vec<_> = load_balancers
                .extract_if(.., |one| {
                    one.service.as_ref().is_some_and(|tag| tag.uid == uid)
                })
                .collect();
            wrong.extend(service_complaints(service, &its, &targets));
        }
        wrong.extend(load_balancers.iter().map(|one| {
            format!(
                "the load balancer {} belongs to no Service: {:?}",
                one.id, one.service
            )
        }));
        wrong.extend(route_complaints(&nodes, cloud));
        let volumes = items(VOLUMES);
        wrong.extend(
            volumes
                .iter()
                .filter_map(|volume| volumes::complaints(volume, cloud)),
        );
        wrong.extend(self.approvals.complaints(&nodes, self.term, api, cloud));
        wrong
    }

    /// The client that holds the Lease.
    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    fn written(&mut self, write: &Write, late: bool, cloud: &Cloud) -> Result<(), String> {
        let Request {
            client,
            resource,
            path,
            verb,
        } = &write.request;
        let by_controller = client != "user";
        if by_controller && !matches!(*resource, "leases" | "events") {
            self.writes += 1;
            self.last_write = format!("{client}: {verb:?} {path}");
        }
        let Some(change) = &write.change else {
            return Ok(());
        };
        let (before, after) = (change.before.as_deref(), change.after.as_deref());
        match *resource {
            "leases" => {
                let holder = after.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
                let holder = holder.filter(|holder| !holder.is_empty());
                if let Some(holder) = holder {
                    let now = host::elapsed();
                    let is_same = self.holder.0 == holder && now < self.holder.1 + RENEWED_WITHIN;
                    self.term += u64::from(!is_same);
                    self.holder = (holder.to_owned(), now);
                }
                self.leader = holder.map(|_| client.clone());
            }
            "certificatesigningrequests" => {
                self.approvals
                    .written(change, by_controller, self.term, cloud)?;
            }
            "events" => {}
            _ if by_controller && self.leader.as_ref() != Some(client) && !late => {
                return Err(format!(
                    "{client} changes {path} while the Lease is held by {:?}",
                    self.leader
                ));
            }
            _ => {}
        }
        if let ("persistentvolumes", Some(before), Some(after)) = (*resource, before, after)
            && by_controller
        {
            volumes::written(before, after)?;
        }
        if *resource == "services" {
            let service = before.or(after);
            let is_wanted = after.is_some_and(|after| {
                after["spec"]["type"] == "LoadBalancer"
                    && after["metadata"]["deletionTimestamp"].is_null()
            });
            if let Some(uid) = service.and_then(|service| service["metadata"]["uid"].as_str()) {
                if !is_wanted {
                    self.released.insert(uid.to_owned(), None);
                } else if let Some(since) = self.released.get_mut(uid) {
                    since.get_or_insert_with(host::elapsed);
                }
            }
        }
        if *resource == "nodes" {
            let name = before
                .or(after)
                .and_then(|node| node["metadata"]["name"].as_str());
            let name = name.unwrap_or_default().to_owned();
            if let (Some(before), None) = (before, after)
                && by_controller
            {
                let id = before["spec"]["providerID"].as_str();
                if let Some(machine) = cloud.find(id.unwrap_or(&name)) {
                    return Err(format!(
                        "{client} deletes the Node {name}, whose machine exists: {machine:?}"
                    ));
                }
            }
            if let (Some(before), Some(after)) = (before, after)
                && by_controller
            {
                maintenance::written(before, after)?;
            }
            if let (Some(before), Some(after)) = (before, after)
                && has_taint(after, OUT_OF_SERVICE)
                && !has_taint(before, OUT_OF_SERVICE)
                && is_ready(before)
            {
                return Err(format!(
                    "{client} takes the Node {name} out of service, which is ready"
                ));
            }
            self.pod_cidrs(&name, before, after)?;
        }
        Ok(())
    }

    fn pod_cidrs(
        &mut self,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Result<(), String> {
        let cidrs = |node: Option<&Value>| {
            let cidrs = node.map(|node| array(&node["spec"]["podCIDRs"]).iter().map(text));
            cidrs.map_or_else(Vec::new, Iterator::collect)
        };
        let uid = |node: &Value| text(&node["metadata"]["uid"]);
        let its = before.or(after).map(uid).unwrap_or_default();
        let (before, after): (Vec<_>, Vec<_>) = (cidrs(before), cidrs(after));
        if before == after {
            return Ok(());
        }
        for cidr in before {
            self.nodes.remove(&cidr);
        }
        for cidr in after {
            if let Some(other) = self.nodes.insert(cidr.clone(), its.clone()) {
                return Err(format!(
                    "the Node {name} has the Pod CIDR {cidr}, which the one with UID {other} has"
                ));
            }
        }
        Ok(())
    }

    /// A route stays as long as the Node that it was made for has its destination.
    fn routes(&mut self, cloud: &Cloud) -> Result<(), String> {
        let mut now = BTreeMap::new();
        for route in cloud.routes() {
            let key = (
                route.destination.to_string(),
                route.target.provider_id.clone(),
            );
            let made_for = self.routes.remove(&key);
            let made_for = made_for.unwrap_or_else(|| self.nodes.get(&key.0).cloned());
            now.insert(key, made_for);
        }
        let former = std::mem::replace(&mut self.routes, now);
        for ((destination, id), made_for) in former {
            if made_for.is_some() && self.nodes.get(&destination) == made_for.as_ref() {
                return Err(format!(
                    "the route to {destination} by {id} is deleted, whose Node is there"
                ));
            }
        }
        Ok(())
    }

    fn load_balancers(&mut self, cloud: &Cloud) -> Result<(), String> {
        let mut now = BTreeMap::new();
        for one in cloud.load_balancers() {
            let Some(tag) = &one.service else { continue };
            let goes = one.gone_at.is_some();
            now.insert(one.id.clone(), (tag.uid.clone(), goes));
        }
        for (id, (uid, went)) in &self.load_balancers {
            let goes = now.get(id).is_none_or(|(_, goes)| *goes);
            if goes && !went && !self.is_released(uid) {
                return Err(format!(
                    "the load balancer {id} is deleted, whose Service {uid} no user has given up"
                ));
            }
        }
        let mut services = BTreeSet::new();
        for (id, (uid, goes)) in &now {
            if !goes && !services.insert(uid) {
                return Err(format!(
                    "the Service {uid} has two load balancers, one of them is {id}"
                ));
            }
        }
        self.load_balancers = now;
        Ok(())
    }

    fn is_released(&self, uid: &str) -> bool {
        self.released
            .get(uid)
            .is_some_and(|since| since.is_none_or(|since| host::elapsed() < since + LAG))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn has_taint(node: &Value, key: &str) -> bool {
    let mut taints = array(&node["spec"]["taints"]).iter();
    taints.any(|taint| taint["key"] == key)
}

fn is_ready(node: &Value) -> bool {
    let mut conditions = array(&node["status"]["conditions"]).iter();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

fn node_complaints(node: &Value, cloud: &Cloud) -> Vec<String> {
    let name = name(node);
    let id = text(&node["spec"]["providerID"]);
    let has_taint = |key: &str| has_taint(node, key);
    let is_ready = is_ready(node);
    let mut wrong = Vec::new();
    let Some(machine) = cloud.find(if id.is_empty() { &name } else { &id }) else {
        if !is_ready {
            wrong.push(format!(
                "the Node {name} is there, whose machine {id} is gone"
            ));
        }
        return wrong;
    };
    let runs = machine.power == Power::Running;
    let addresses = array(&node["status"]["addresses"]);
    for address in machine.addresses.iter().map(|one| json!(one)) {
        if !addresses.contains(&address) {
            wrong.push(format!("the Node {name} lacks the address {address}"));
        }
    }
    if has_taint(UNINITIALIZED) {
        wrong.push(format!("the Node {name} is not initialised"));
    }
    if id != cloud.provider_id(&machine.id) {
        wrong.push(format!("the Node {name} has the provider ID {id:?}"));
    }
    if runs && is_ready && (has_taint(STOPPED) || has_taint(OUT_OF_SERVICE)) {
        wrong.push(format!(
            "the Node {name} has the taint of a stopped machine"
        ));
    }
    if !runs && !is_ready && !has_taint(STOPPED) {
        wrong.push(format!(
            "the Node {name} lacks the taint of a stopped machine"
        ));
    }
    if array(&node["spec"]["podCIDRs"]).len() != 1 {
        wrong.push(format!(
            "the Node {name} has the Pod CIDRs {}",
            node["spec"]["podCIDRs"]
        ));
    }
    wrong.extend(maintenance::complaints(node, machine.maintenance.as_ref()));
    wrong
}

/// Name and address of a Node that load balancers send to.
type Target = (String, Option<String>);

/// The Node as a target, with its label that users select by.
fn target(node: &Value) -> Option<(Target, Option<String>)> {
    let is_excluded = node["metadata"]["labels"][EXCLUDED] == "true";
    let address = array(&node["status"]["addresses"])
        .iter()
        .find(|one| one["type"] == "InternalIP");
    let pool = node["metadata"]["labels"][POOL].as_str();
    (!is_excluded).then(|| {
        let address = address.map(|one| text(&one["address"]));
        ((name(node), address), pool.map(ToOwned::to_owned))
    })
}

/// Returns true if a user's selector is wrong: nothing is done for the Service until it is right.
fn selects_wrongly(service: &Value) -> bool {
    service["metadata"]["annotations"][SELECTOR] == SELECTORS[3]
}

/// Returns true if a Node with this label is selected by `selector`, one of [`SELECTORS`].
fn selects(selector: &Value, pool: Option<&str>) -> bool {
    let at = SELECTORS.iter().position(|text| selector == text);
    match at {
        Some(0) => pool.is_some(),
        Some(1) => pool.is_none(),
        Some(2) => matches!(pool, Some("a" | "b")),
        _ => true,
    }
}

/// The targets that a Service selects.
fn selected(service: &Value, targets: &[(Target, Option<String>)]) -> Vec<Target> {
    let selector = &service["metadata"]["annotations"][SELECTOR];
    let selected = targets
        .iter()
        .filter(|(_, pool)| selects(selector, pool.as_deref()));
    selected.map(|(target, _)| target.clone()).collect()
}

fn actual_targets(load_balancer: &LoadBalancer) -> Vec<Target> {
    let targets = load_balancer.targets.iter();
    let targets = targets.map(|target| {
        (
            target.node.to_string(),
            target.address.map(|ip| ip.to_string()),
        )
    });
    let mut targets: Vec<_> = targets.collect();
    targets.sort();
    targets
}

fn service_complaints(
    service: &Value,
    load_balancers: &[std::sync::Arc<LoadBalancer>],
    targets: &[(Target, Option<String>)],
) -> Vec<String> {
    let name = name(service);
    let spec = &service["spec"];
    let has_finalizer = array(&service["metadata"]["finalizers"])
        .iter()
        .any(|one| one == FINALIZER);
    if !service["metadata"]["deletionTimestamp"].is_null() {
        return vec![format!("the Service {name} is being deleted")];
    }
    if spec["type"] != "LoadBalancer" {
        let mut wrong = Vec::new();
        if !load_balancers.is_empty() {
            wrong.push(format!("the Service {name} has a load balancer"));
        }
        if has_finalizer || !array(&service["status"]["loadBalancer"]["ingress"]).is_empty() {
            wrong.push(format!("the Service {name} has marks of a load balancer"));
        }
        return wrong;
    }
    if selects_wrongly(service) {
        let says = array(&service["status"]["conditions"])
            .iter()
            .any(|condition| condition["reason"] == "InvalidAnnotation");
        let silent = (!says).then(|| format!("the Service {name} does not say what is wrong"));
        return silent.into_iter().collect();
    }
    let [one] = load_balancers else {
        return vec![format!(
            "the Service {name} has {} load balancers",
            load_balancers.len()
        )];
    };
    let mut wrong = Vec::new();
    let mut differ = |what: &str, desired: String, actual: String| {
        if desired != actual {
            wrong.push(format!(
                "the Service {name}: {what} {actual} instead of {desired}"
            ));
        }
    };
    let ports: BTreeSet<_> = array(&spec["ports"])
        .iter()
        .map(|port| {
            format!(
                "{}/{}:{}",
                text(&port["protocol"]),
                port["port"],
                port["nodePort"].as_i64().unwrap_or(0)
            )
        })
        .collect();
    let actual: BTreeSet<_> = one.ports.iter().map(ToString::to_string).collect();
    differ("ports", format!("{ports:?}"), format!("{actual:?}"));
    let ranges: Vec<_> = array(&spec["loadBalancerSourceRanges"])
        .iter()
        .map(text)
        .collect();
    differ(
        "source ranges",
        format!("{ranges:?}"),
        format!("{:?}", one.source_ranges),
    );
    let check = spec["healthCheckNodePort"].as_i64().unwrap_or(0);
    differ(
        "health check",
        check.to_string(),
        one.health_check_node_port.to_string(),
    );
    let (selected, actual) = (selected(service, targets), actual_targets(one));
    differ("targets", format!("{selected:?}"), format!("{actual:?}"));
    let mode = text(&service["metadata"]["annotations"]["mock.example/address-mode"]);
    let shown: BTreeSet<_> = array(&service["status"]["loadBalancer"]["ingress"])
        .iter()
        .map(|one| {
            text(if one["ip"].is_null() {
                &one["hostname"]
            } else {
                &one["ip"]
            })
        })
        .collect();
    let actual: BTreeSet<_> = if mode == "hostname" {
        [one.hostname()].into()
    } else {
        one.addresses.iter().map(ToString::to_string).collect()
    };
    differ("status", format!("{actual:?}"), format!("{shown:?}"));
    if !has_finalizer {
        wrong.push(format!("the Service {name} has no finalizer"));
    }
    for condition in array(&service["status"]["conditions"]) {
        let (kind, status) = (&condition["type"], &condition["status"]);
        if kind == "outrigger.dev/Waiting" || status != "True" {
            wrong.push(format!(
                "the Service {name} has the condition {kind} {status}: {}",
                condition["message"]
            ));
        }
    }
    wrong
}

fn route_complaints(nodes: &[Value], cloud: &Cloud) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut routes: BTreeMap<_, _> = cloud
        .routes()
        .iter()
        .map(|route| {
            (
                route.destination.to_string(),
                route.target.provider_id.clone(),
            )
        })
        .collect();
    for node in nodes {
        let cidr = text(&node["spec"]["podCIDR"]);
        let leads = routes.remove(&cidr);
        if !cidr.is_empty() && leads.as_deref() != node["spec"]["providerID"].as_str() {
            wrong.push(format!(
                "the route of the Node {} to {cidr} leads to {leads:?}",
                name(node)
            ));
        }
    }
    wrong.extend(
        routes
            .keys()
            .map(|cidr| format!("a route to {cidr}, which no Node has")),
    );
    wrong
}
