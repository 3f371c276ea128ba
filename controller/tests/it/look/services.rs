//! Readable forms of a Service.

use k8s_openapi::api::core::v1::Service;

/// Addresses and names in the status, in order, each with its `ipMode`.
pub(crate) fn addresses_of(service: &Service) -> Vec<String> {
    let status = service.status.as_ref();
    let status = status.and_then(|status| status.load_balancer.as_ref());
    let ingress = status.and_then(|status| status.ingress.as_ref());
    let entries = ingress.into_iter().flatten();
    entries
        .map(|entry| match (&entry.ip, &entry.hostname, &entry.ip_mode) {
            (Some(ip), _, Some(mode)) => format!("{ip} {mode}"),
            (Some(ip), _, None) => ip.clone(),
            (None, Some(hostname), _) => hostname.clone(),
            (None, None, _) => String::new(),
        })
        .collect()
}

/// Status and reason of one of our conditions, named without its prefix; empty without it.
pub(crate) fn condition<'a>(service: &'a Service, kind: &str) -> (&'a str, &'a str) {
    foreign_condition(service, &format!("outrigger.dev/{kind}"))
}

/// Status and reason of any condition; empty without it.
pub(crate) fn foreign_condition<'a>(service: &'a Service, kind: &str) -> (&'a str, &'a str) {
    let status = service.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let condition = conditions.find(|condition| condition.type_ == kind);
    condition.map_or(("", ""), |condition| (&condition.status, &condition.reason))
}

/// The message of one of our conditions, named without its prefix.
pub(crate) fn condition_message<'a>(service: &'a Service, kind: &str) -> &'a str {
    let status = service.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let condition = conditions.find(|condition| condition.type_ == format!("outrigger.dev/{kind}"));
    condition.map_or("", |condition| &condition.message)
}

/// The types of all conditions, sorted.
pub(crate) fn condition_types(service: &Service) -> Vec<&str> {
    let status = service.status.iter();
    let conditions = status.flat_map(|status| status.conditions.iter().flatten());
    let mut types: Vec<_> = conditions
        .map(|condition| condition.type_.as_str())
        .collect();
    types.sort_unstable();
    types
}

pub(crate) fn finalizers(service: &Service) -> Vec<&str> {
    let finalizers = service.metadata.finalizers.iter().flatten();
    finalizers.map(String::as_str).collect()
}

pub(crate) fn annotation_of<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    let annotations = service.metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}

/// The node ports, in the order of the ports; 0 where there is none.
pub(crate) fn node_ports(service: &Service) -> Vec<i32> {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports
        .map(|port| port.node_port.unwrap_or_default())
        .collect()
}
