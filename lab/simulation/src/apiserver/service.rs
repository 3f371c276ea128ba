//! Services of the types `ClusterIP` and `LoadBalancer` with one IPv4 address: defaults, addresses and ports that the server
//! allocates, and what validation refuses.

use std::net::{IpAddr, Ipv4Addr};

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    shape::{list, set, text},
    status::{Cause, Status},
    store::Store,
};

/// # Errors
/// 501 for what this server leaves out.
pub(super) fn check_is_known(service: &Value) -> Result<(), Status> {
    let spec = &service["spec"];
    let is_known = matches!(
        text(service, "/spec/type"),
        "" | "ClusterIP" | "LoadBalancer"
    ) && matches!(text(service, "/spec/ipFamilyPolicy"), "" | "SingleStack")
        && spec["clusterIP"] != "None"
        && spec["loadBalancerClass"].is_null();
    let left_out = "other types, headless Services, second families and classes";
    is_known
        .then_some(())
        .ok_or_else(|| Status::left_out(left_out))
}

fn is_load_balancer(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer"
}

fn has_node_ports(service: &Value) -> bool {
    is_load_balancer(service) && service["spec"]["allocateLoadBalancerNodePorts"] == true
}

fn has_health_check(service: &Value) -> bool {
    is_load_balancer(service) && text(service, "/spec/externalTrafficPolicy") == "Local"
}

fn ports(service: &mut Value) -> impl Iterator<Item = &mut Value> {
    let ports = service
        .pointer_mut("/spec/ports")
        .and_then(Value::as_array_mut);
    ports.into_iter().flatten()
}

/// Sets a field that is not set.
fn default(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object[field].is_null() {
        object[field] = value.into();
    }
}

/// Fills in the fields that a client may leave out.
pub(super) fn defaults(service: &mut Value) {
    let spec = &mut service["spec"];
    default(spec, "sessionAffinity", "None");
    default(spec, "type", "ClusterIP");
    default(spec, "internalTrafficPolicy", "Cluster");
    if is_load_balancer(service) {
        let spec = &mut service["spec"];
        default(spec, "externalTrafficPolicy", "Cluster");
        default(spec, "allocateLoadBalancerNodePorts", true);
        let ingress = service.pointer_mut("/status/loadBalancer/ingress");
        for entry in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
            if entry["ip"].is_string() {
                default(entry, "ipMode", "VIP");
            }
        }
    }
    for port in ports(service) {
        default(port, "protocol", "TCP");
        let number = port["port"].clone();
        default(port, "targetPort", number);
    }
}

/// Gives free cluster IPs and ports.
pub(super) struct Allocator<'a> {
    pub(super) store: &'a Store,
    pub(super) rng: &'a mut Rng,
}

impl Allocator<'_> {
    /// Keeps what `old` was given, and gives what `new` lacks.
    pub(super) fn allocate(&mut self, new: &mut Value, old: Option<&Value>) {
        if let Some(old) = old {
            keep_allocated(new, old);
        }
        let spec = &mut new["spec"];
        default(spec, "ipFamilyPolicy", "SingleStack");
        default(spec, "ipFamilies", json!(["IPv4"]));
        if spec["clusterIP"].is_null() {
            spec["clusterIP"] = self.cluster_ip();
        }
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
        if has_node_ports(new) {
            let mut given: Vec<(Value, Value)> = Vec::new();
            for port in ports(new).filter(|port| port["nodePort"].is_null()) {
                let number = port["port"].clone();
                // One port of two protocols has one node port, in a new Service.
                let same = given
                    .iter()
                    .find(|(other, _)| old.is_none() && *other == number);
                port["nodePort"] = same.map_or_else(|| self.port(), |(_, given)| given.clone());
                given.push((number, port["nodePort"].clone()));
            }
        }
        if has_health_check(new) {
            default(&mut new["spec"], "healthCheckNodePort", self.port());
        }
    }

    fn cluster_ip(&mut self) -> Value {
        loop {
            let [high, low] = self.rng.u16(16..).to_be_bytes();
            let ip = json!(Ipv4Addr::new(10, 96, high, low));
            if !self.is_used(|service| service["spec"]["clusterIP"] == ip) {
                return ip;
            }
        }
    }

    fn port(&mut self) -> Value {
        loop {
            let port = json!(self.rng.u16(30_000..32_768));
            let has = |service: &Value| {
                list(service, "/spec/ports")
                    .iter()
                    .any(|other| other["nodePort"] == port)
                    || service["spec"]["healthCheckNodePort"] == port
            };
            if !self.is_used(has) {
                return port;
            }
        }
    }

    fn is_used(&self, uses: impl Fn(&Value) -> bool) -> bool {
        self.store.all("services").any(|(_, service)| uses(service))
    }
}

/// Values that a client did not repeat.
fn keep_allocated(new: &mut Value, old: &Value) {
    let ip = old["spec"]["clusterIP"].clone();
    default(&mut new["spec"], "clusterIP", ip);
    if has_node_ports(new) && has_node_ports(old) {
        let before = list(old, "/spec/ports");
        let node_ports = list(new, "/spec/ports")
            .iter()
            .map(|port| port["nodePort"].clone());
        let used: Vec<_> = node_ports.collect();
        for port in ports(new).filter(|port| port["nodePort"].is_null()) {
            let same_name = before.iter().rfind(|other| other["name"] == port["name"]);
            let of_old = same_name.map(|old| old["nodePort"].clone());
            if let (Some(number), Some(port)) =
                (of_old.filter(|n| !used.contains(n)), port.as_object_mut())
            {
                set(
                    port,
                    "nodePort",
                    Some(number).filter(|number| !number.is_null()),
                );
            }
        }
    }
    if has_health_check(new) && has_health_check(old) {
        let port = old["spec"]["healthCheckNodePort"].clone();
        default(&mut new["spec"], "healthCheckNodePort", port);
    }
}

/// Removes what `new` was given for the type that `old` has, unless the user changed it.
pub(super) fn drop_what_the_type_has_not(new: &mut Value, old: &Value) {
    let mut gone = Vec::new();
    if has_health_check(old) && !has_health_check(new) {
        gone.push("healthCheckNodePort");
    }
    if is_load_balancer(old) && !is_load_balancer(new) {
        gone.extend(["allocateLoadBalancerNodePorts", "externalTrafficPolicy"]);
        let node_port = |port: &Value| port["nodePort"].clone();
        let before: Vec<_> = list(old, "/spec/ports").iter().map(node_port).collect();
        let mut now = list(new, "/spec/ports").iter().map(node_port);
        if now.all(|port| port.is_null() || before.contains(&port)) {
            for port in ports(new).filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    if let Some(spec) = new["spec"].as_object_mut() {
        for field in gone {
            if spec.get(field) == old["spec"].get(field) {
                spec.remove(field);
            }
        }
    }
    if !is_load_balancer(new) {
        new["status"]["loadBalancer"] = json!({});
    }
}

const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// The faults of metadata and spec of `new`, which replaces `old`.
pub(super) fn check(causes: &mut Vec<Cause>, new: &Value, old: Option<&Value>) {
    let spec = &new["spec"];
    let health = "healthCheckNodePort";
    if let Some(old) = old
        && has_health_check(old)
        && has_health_check(new)
        && spec[health] != old["spec"][health]
    {
        causes.push(Cause::forbidden(
            format!("spec.{health}"),
            "field is immutable",
        ));
    }
    let all = list(new, "/spec/ports");
    if all.is_empty() {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (at, port) in all.iter().enumerate() {
        let field = format!("spec.ports[{at}]");
        let others = all.get(..at).unwrap_or_default();
        let named = |other: &Value| !other["name"].is_null() && other["name"] == port["name"];
        if all.len() > 1 && port["name"].is_null() {
            causes.push(Cause::required(format!("{field}.name"), ""));
        } else if others.iter().any(named) {
            let message = format!("Duplicate value: {}", port["name"]);
            causes.push(Cause::new(
                format!("{field}.name"),
                "FieldValueDuplicate",
                message,
            ));
        }
        for of in ["port", "targetPort"] {
            let number = &port[of];
            if number.is_number() && !number.as_u64().is_some_and(|n| (1..65_536).contains(&n)) {
                let why = "must be between 1 and 65535, inclusive";
                causes.push(Cause::invalid(format!("{field}.{of}"), number, why));
            }
        }
    }
    for (at, port) in all.iter().enumerate() {
        if !is_load_balancer(new) && !port["nodePort"].is_null() {
            let field = format!("spec.ports[{at}].nodePort");
            causes.push(Cause::forbidden(
                field,
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    for (at, port) in all
        .iter()
        .enumerate()
        .filter(|(_, port)| !port["nodePort"].is_null())
    {
        let same = |other: &Value| {
            other["nodePort"] == port["nodePort"] && other["protocol"] == port["protocol"]
        };
        if all.get(..at).unwrap_or_default().iter().any(same) {
            let message = format!("Duplicate value: {}", port["nodePort"]);
            let field = format!("spec.ports[{at}].nodePort");
            causes.push(Cause::new(field, "FieldValueDuplicate", message));
        }
    }
    for (at, port) in all.iter().enumerate() {
        let same =
            |other: &Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        if all.get(..at).unwrap_or_default().iter().any(same) {
            let message = format!(
                "Duplicate value: {{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                port["protocol"], port["port"],
            );
            causes.push(Cause::new(
                format!("spec.ports[{at}]"),
                "FieldValueDuplicate",
                message,
            ));
        }
    }
    if !is_load_balancer(new) {
        for (field, path) in [
            ("loadBalancerSourceRanges", "spec.LoadBalancerSourceRanges"),
            (
                "allocateLoadBalancerNodePorts",
                "spec.allocateLoadBalancerNodePorts",
            ),
        ] {
            if !spec[field].is_null() {
                causes.push(Cause::forbidden(path, FOR_LOAD_BALANCERS));
            }
        }
        let value = &spec["externalTrafficPolicy"];
        if !value.is_null() {
            let why = "may only be set for externally-accessible services";
            causes.push(Cause::invalid("spec.externalTrafficPolicy", value, why));
        }
    }
}

/// The faults of the status.
pub(super) fn check_status(causes: &mut Vec<Cause>, service: &Value) {
    let field = "status.loadBalancer.ingress";
    let ingress = list(service, "/status/loadBalancer/ingress");
    if !ingress.is_empty() && !is_load_balancer(service) {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        causes.push(Cause::forbidden(field, why));
        return;
    }
    for (at, entry) in ingress.iter().enumerate() {
        let (ip, mode) = (&entry["ip"], &entry["ipMode"]);
        if ip.as_str().is_some_and(|ip| ip.parse::<IpAddr>().is_err()) {
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            causes.push(Cause::invalid(format!("{field}[{at}].ip"), ip, why));
        }
        let mode_field = format!("{field}[{at}].ipMode");
        if mode.is_null() && !ip.is_null() {
            causes.push(Cause::required(
                mode_field,
                "must be specified when `ip` is set",
            ));
        } else if !mode.is_null() && ip.is_null() {
            causes.push(Cause::forbidden(
                mode_field,
                "may not be specified when `ip` is not set",
            ));
        }
        if entry["hostname"]
            .as_str()
            .is_some_and(|name| name.parse::<IpAddr>().is_ok())
        {
            let why = "must be a DNS name, not an IP address";
            let field = format!("{field}[{at}].hostname");
            causes.push(Cause::invalid(field, &entry["hostname"], why));
        }
    }
}
