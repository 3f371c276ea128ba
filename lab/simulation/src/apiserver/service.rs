//! Services: defaults, cluster IPs and ports that the server allocates, and what validation refuses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    shape::{list, set, text},
    status::Cause,
    store::Store,
};

fn is(service: &Value, kind: &str) -> bool {
    text(service, "/spec/type") == kind
}

fn is_external(service: &Value) -> bool {
    is(service, "LoadBalancer") || is(service, "NodePort")
}

fn has_cluster_ip(service: &Value) -> bool {
    !is(service, "ExternalName")
}

fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == "None"
}

fn has_node_ports(service: &Value) -> bool {
    let gives = &service["spec"]["allocateLoadBalancerNodePorts"];
    is(service, "NodePort") || is(service, "LoadBalancer") && *gives == true
}

fn has_health_check(service: &Value) -> bool {
    is(service, "LoadBalancer") && text(service, "/spec/externalTrafficPolicy") == "Local"
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
    default(&mut service["spec"], "sessionAffinity", "None");
    default(&mut service["spec"], "type", "ClusterIP");
    let (is_external, is_load_balancer) = (is_external(service), is(service, "LoadBalancer"));
    if has_cluster_ip(service) {
        default(&mut service["spec"], "internalTrafficPolicy", "Cluster");
    }
    if is_external {
        default(&mut service["spec"], "externalTrafficPolicy", "Cluster");
    }
    if is_load_balancer {
        default(&mut service["spec"], "allocateLoadBalancerNodePorts", true);
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
        self.cluster_ips(new, old);
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

    fn cluster_ips(&mut self, service: &mut Value, old: Option<&Value>) {
        if !has_cluster_ip(service) {
            return;
        }
        let is_headless = is_headless(service);
        let is_any_family = is_headless && service["spec"]["selector"].is_null();
        let before = old.map_or(Value::Null, |old| old["spec"]["ipFamilyPolicy"].clone());
        let policy = match before {
            Value::Null if is_any_family => json!("RequireDualStack"),
            Value::Null => json!("SingleStack"),
            before => before,
        };
        let spec = &mut service["spec"];
        default(spec, "ipFamilyPolicy", policy);
        let is_single = spec["ipFamilyPolicy"] == "SingleStack";
        default(spec, "ipFamilies", json!(["IPv4"]));
        if let (false, Some([family])) =
            (is_single, spec["ipFamilies"].as_array().map(Vec::as_slice))
        {
            let other = if family == "IPv4" { "IPv6" } else { "IPv4" };
            spec["ipFamilies"] = json!([family, other]);
        }
        let mut ips = list(service, "/spec/clusterIPs").to_vec();
        ips.extend(
            service["spec"]
                .get("clusterIP")
                .filter(|_| ips.is_empty())
                .cloned(),
        );
        if !is_headless {
            let families = list(service, "/spec/ipFamilies").iter().skip(ips.len());
            ips.extend(
                families
                    .map(|family| self.cluster_ip(family == "IPv6"))
                    .collect::<Vec<_>>(),
            );
        }
        service["spec"]["clusterIP"] = json!(ips.first());
        service["spec"]["clusterIPs"] = json!(ips);
    }

    fn cluster_ip(&mut self, is_v6: bool) -> Value {
        loop {
            let number = self.rng.u16(16..);
            let [high, low] = number.to_be_bytes();
            let ip = if is_v6 {
                IpAddr::from(Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, number))
            } else {
                Ipv4Addr::new(10, 96, high, low).into()
            };
            let ip = json!(ip);
            if !self.is_used(|service| list(service, "/spec/clusterIPs").contains(&ip)) {
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
    if has_cluster_ip(new) && has_cluster_ip(old) {
        let ip = old["spec"]["clusterIP"].clone();
        default(&mut new["spec"], "clusterIP", ip);
        let is_other = new["spec"]["clusterIP"] != old["spec"]["clusterIP"];
        let ips = old["spec"]["clusterIPs"].clone();
        default(&mut new["spec"], "clusterIPs", ips);
        if is_other && new["spec"]["clusterIPs"] == old["spec"]["clusterIPs"] {
            new["spec"]["clusterIPs"] = json!([new["spec"]["clusterIP"]]);
        }
    }
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
    if has_cluster_ip(old) && !has_cluster_ip(new) {
        let ips = ["clusterIP", "clusterIPs"];
        if ips
            .iter()
            .all(|field| new["spec"][field] == old["spec"][field])
        {
            gone.extend(ips);
        }
        gone.extend(["ipFamilies", "ipFamilyPolicy"]);
    }
    if has_health_check(old) && !has_health_check(new) {
        gone.push("healthCheckNodePort");
    }
    if is(old, "LoadBalancer") && !is(new, "LoadBalancer") {
        gone.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if is_external(old) && !is_external(new) {
        gone.push("externalTrafficPolicy");
        let before: Vec<_> = list(old, "/spec/ports")
            .iter()
            .map(|port| &port["nodePort"])
            .collect();
        let node_ports = || {
            list(new, "/spec/ports")
                .iter()
                .map(|port| &port["nodePort"])
        };
        if node_ports().all(|port| port.is_null() || before.contains(&port)) {
            for port in ports(new).filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    let (is_load_balancer, has_cluster_ip) = (is(new, "LoadBalancer"), has_cluster_ip(new));
    let spec = new["spec"].as_object_mut();
    if let Some(spec) = spec {
        for field in gone {
            if spec.get(field) == old["spec"].get(field) {
                spec.remove(field);
            }
        }
        if !has_cluster_ip {
            spec.remove("internalTrafficPolicy");
        }
    }
    if !is_load_balancer {
        new["status"]["loadBalancer"] = json!({});
    }
}

const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// The faults of metadata and spec of `new`, which replaces `old`.
pub(super) fn check(causes: &mut Vec<Cause>, new: &Value, old: Option<&Value>) {
    let spec = &new["spec"];
    if let Some(old) = old {
        let both = |has: fn(&Value) -> bool| has(old) && has(new);
        let (before, now) = (list(old, "/spec/clusterIPs"), list(new, "/spec/clusterIPs"));
        let first = before.first().zip(now.first());
        if both(has_cluster_ip) && first.is_some_and(|(before, now)| before != now) {
            let value = &spec["clusterIPs"];
            causes.push(Cause::invalid(
                "spec.clusterIPs[0]",
                value,
                "may not change once set",
            ));
        }
        let class = &spec["loadBalancerClass"];
        if both(|s| is(s, "LoadBalancer")) && *class != old["spec"]["loadBalancerClass"] {
            causes.push(Cause::invalid(
                "spec.loadBalancerClass",
                class,
                "may not change once set",
            ));
        }
        let health = "healthCheckNodePort";
        if both(has_health_check) && spec[health] != old["spec"][health] {
            causes.push(Cause::forbidden(
                format!("spec.{health}"),
                "field is immutable",
            ));
        }
    }
    let all = list(new, "/spec/ports");
    if all.is_empty() && !is_headless(new) && has_cluster_ip(new) {
        causes.push(Cause::required("spec.ports", ""));
    }
    if is_external(new) && is_headless(new) {
        let why = format!(
            "may not be set to 'None' for {} services",
            text(new, "/spec/type")
        );
        causes.push(Cause::invalid("spec.clusterIPs[0]", &json!("None"), &why));
    }
    if !has_cluster_ip(new) && text(new, "/spec/externalName").is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
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
        if is(new, "ClusterIP") && !port["nodePort"].is_null() {
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
    if !is(new, "LoadBalancer") {
        for (field, path) in [
            ("loadBalancerSourceRanges", "spec.LoadBalancerSourceRanges"),
            (
                "allocateLoadBalancerNodePorts",
                "spec.allocateLoadBalancerNodePorts",
            ),
            ("loadBalancerClass", "spec.loadBalancerClass"),
        ] {
            if !spec[field].is_null() {
                causes.push(Cause::forbidden(path, FOR_LOAD_BALANCERS));
            }
        }
    }
    if !is_external(new) && !spec["externalTrafficPolicy"].is_null() {
        let why = "may only be set for externally-accessible services";
        let value = &spec["externalTrafficPolicy"];
        causes.push(Cause::invalid("spec.externalTrafficPolicy", value, why));
    }
}

/// The faults of the status.
pub(super) fn check_status(causes: &mut Vec<Cause>, service: &Value) {
    let field = "status.loadBalancer.ingress";
    let ingress = list(service, "/status/loadBalancer/ingress");
    if !ingress.is_empty() && !is(service, "LoadBalancer") {
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
