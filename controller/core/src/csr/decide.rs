//! The decision about a request of the right form: from the Nodes and the cloud's answer.
//!
//! [`step`] looks at the Node alone and says whether the provider has to be asked; [`decide`] compares all names of the
//! request with the instance of the answer. Every check has to pass; the first that does not names the reason, which is
//! also the value of the metric's label.

use std::{net::IpAddr, sync::Arc};

use super::{CsrProblem, CsrView, ServingRequest, SubjectName};
use crate::{
    fault::Excerpt,
    forbidden_addresses::ForbiddenAddresses,
    node::{
        NodeView,
        address::{EXTERNAL_DNS, EXTERNAL_IP, HOSTNAME, INTERNAL_DNS, INTERNAL_IP},
        instance::{Instance, Lookup, PowerState},
        ownership::{Prefixes, ProviderIdOwner},
    },
};

/// First label of the names by which Pods find the API server.
const API_SERVER: &str = "kubernetes";

/// The next step about a request.
#[derive(Clone, Debug, PartialEq)]
pub enum CsrStep<'a> {
    /// Nothing: it is decided, for another signer, or of another provider's Node.
    Nothing,
    /// It is left alone for good: its `spec` never changes.
    Leave(&'a CsrProblem),
    /// It is left alone until the Node has changed.
    Await(CsrProblem),
    /// The provider is asked for the instance of this Node; [`decide`] follows.
    Ask(&'a ServingRequest, Arc<NodeView>),
}

/// The next step about `csr`, whose Node is `node` of the store. A Node of another provider has a controller of its own. A
/// provider ID is not needed where the cloud is `without_provider_id`s.
pub fn step<'a>(
    csr: &'a CsrView,
    node: impl FnOnce(&str) -> Option<Arc<NodeView>>,
    prefixes: &Prefixes,
    without_provider_id: bool,
) -> CsrStep<'a> {
    let request = match &csr.pending {
        None => return CsrStep::Nothing,
        Some(Err(problem)) => return CsrStep::Leave(problem),
        Some(Ok(request)) => request,
    };
    let name = &request.node;
    match node(name).filter(|node| node.deleted.is_none()) {
        None => CsrStep::Await(CsrProblem::new(
            "no_node",
            format!("there is no Node {name}, or it is being deleted"),
        )),
        Some(node) => match prefixes.owner(&node.provider_id) {
            ProviderIdOwner::Foreign => CsrStep::Nothing,
            ProviderIdOwner::Unset if !without_provider_id => {
                let text = format!("Node {name} has no provider ID yet");
                CsrStep::Await(CsrProblem::new(CsrProblem::NO_PROVIDER_ID, text))
            }
            ProviderIdOwner::Ours | ProviderIdOwner::Unset => CsrStep::Ask(request, node),
        },
    }
}

/// Decides about `request` of the kubelet of `node`, given the provider's answer about it, that is no older than the
/// request, and all `nodes`. It is approved if all checks are passed.
///
/// # Errors
/// Why it is left alone until the cloud reports otherwise.
pub fn decide<'a>(
    request: &ServingRequest,
    node: &NodeView,
    answer: &Lookup,
    nodes: impl IntoIterator<Item = &'a NodeView>,
) -> Result<(), CsrProblem> {
    let name = &node.name;
    let problem = |reason, text: String| Err(CsrProblem::new(reason, text));
    let instance = match answer {
        Lookup::NotManaged { .. } => {
            let text = format!("the provider answers that it does not manage Node {name}");
            return problem("not_managed", text);
        }
        Lookup::Absent { .. } => {
            let text = format!("the cloud has no instance for Node {name}");
            return problem("absent", text);
        }
        Lookup::Found(instance) => instance,
    };
    if instance.is_other_than(node) {
        let text = format!(
            "the provider finds another instance for Node {name} than its provider ID names"
        );
        return problem("other_instance", text);
    }
    // It cannot have asked just now.
    if matches!(
        instance.power_state,
        PowerState::Shutdown | PowerState::Terminating
    ) {
        let text = format!("the instance of Node {name} is stopped or being deleted");
        return problem("stopped", text);
    }
    // Some clouds answer with the ID as it was asked for, in any spelling; the names of the machine tell all the same. The
    // end of an ID alone does not: in some clouds it is a number that a machine of each group has.
    let has_same_machine = |other: &&NodeView| {
        let id = &*other.provider_id;
        let ids = [&*node.provider_id, &*instance.provider_id];
        let has_id = !id.is_empty() && ids.iter().any(|of| id.eq_ignore_ascii_case(of));
        other.name != node.name && (has_id || has_name(instance, &other.name))
    };
    if let Some(other) = nodes.into_iter().find(has_same_machine) {
        let other = &other.name;
        let text =
            format!("Node {other} has the machine of Node {name}, too; delete the wrong one");
        return problem("shared_provider_id", text);
    }
    // Another Node's kubelet could name the machine in its provider ID.
    if !has_name(instance, name) {
        let text = format!(
            "the cloud does not report {name} as a name of the Node's instance, neither as its node name nor as an address of \
             the type Hostname, InternalDNS or ExternalDNS"
        );
        return problem("node_name", text);
    }
    // A DNS name that is the text of an address is taken for the address by old clients; no kubelet asks for one.
    let has_dns = |name: &str| name.parse::<IpAddr>().is_err() && has_name(instance, name);
    let others = request.names.iter().filter_map(|name| match name {
        SubjectName::Dns(name) => (!has_dns(name)).then(|| name.to_string()),
        SubjectName::Ip(ip) => (!has_ip(instance, *ip)).then(|| ip.to_string()),
    });
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return Ok(());
    }
    let names = Excerpt::of(&others.join(", "));
    let text = format!("the cloud does not report {names} for the instance of Node {name}");
    problem("not_reported", text)
}

/// True if the cloud reports `name` for the machine, and it is none of the API server's, as which Pods would trust a
/// certificate of the same authority.
fn has_name(instance: &Instance, name: &str) -> bool {
    let addresses = instance.addresses.iter();
    let mut names = addresses
        .filter(|address| [HOSTNAME, INTERNAL_DNS, EXTERNAL_DNS].contains(&&*address.kind))
        .map(|address| &*address.address)
        .chain([&*instance.node_name]);
    let first_label = name.split('.').next().unwrap_or_default();
    !name.is_empty()
        && !first_label.eq_ignore_ascii_case(API_SERVER)
        && names.any(|reported| reported.eq_ignore_ascii_case(name))
        && ForbiddenAddresses::default().check_name(name).is_ok()
}

/// True if the cloud reports `ip` as an address of the machine. A host name that is an IP address does not count: whoever
/// names a machine could choose the address of another.
fn has_ip(instance: &Instance, ip: IpAddr) -> bool {
    let addresses = instance.addresses.iter();
    addresses
        .filter(|address| [INTERNAL_IP, EXTERNAL_IP].contains(&&*address.kind))
        .filter_map(|address| address.address.parse::<IpAddr>().ok())
        .any(|reported| reported.to_canonical() == ip)
}
