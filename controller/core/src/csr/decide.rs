//! The decision about a request of the right form: from the Nodes and the cloud's answer.

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
    let name = || Arc::clone(&request.node);
    match node(&request.node).filter(|node| node.deleted.is_none()) {
        None => CsrStep::Await(CsrProblem::NoNode(name())),
        Some(node) => match prefixes.owner(&node.provider_id) {
            ProviderIdOwner::Foreign => CsrStep::Nothing,
            ProviderIdOwner::Unset if !without_provider_id => {
                CsrStep::Await(CsrProblem::NoProviderId(name()))
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
    let name = || Arc::clone(&node.name);
    let instance = match answer {
        Lookup::NotManaged { .. } => return Err(CsrProblem::NotManaged(name())),
        Lookup::Absent { .. } => return Err(CsrProblem::Absent(name())),
        Lookup::Found(instance) => instance,
    };
    if instance.is_other_than(node) {
        return Err(CsrProblem::OtherInstance(name()));
    }
    if matches!(
        instance.power_state,
        PowerState::Shutdown | PowerState::Terminating
    ) {
        return Err(CsrProblem::Stopped(name()));
    }
    let has_same_id = |other: &&NodeView| {
        let id = &*other.provider_id;
        let ids = [&*node.provider_id, &*instance.provider_id];
        other.name != node.name
            && !id.is_empty()
            && ids.iter().any(|of| id.eq_ignore_ascii_case(of))
    };
    if let Some(other) = nodes.into_iter().find(has_same_id) {
        let other = Arc::clone(&other.name);
        return Err(CsrProblem::Shared {
            node: name(),
            other,
        });
    }
    if !has_name(instance, &node.name) {
        return Err(CsrProblem::NodeName(name()));
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
    Err(CsrProblem::NotReported {
        node: name(),
        names: Excerpt::of(&others.join(", ")),
    })
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
