//! CIDRs of Pods, Services and nodes.

use std::sync::Arc;

use ipnet::IpNet;
use outrigger_core::{
    ipam::{Allocator, IpamOptions},
    route::{NodePrefixes, RouteRange},
};

use super::Findings;
use crate::options::{
    controllers::{Controller, Controllers},
    flags::{GenericFlags, IpamFlags},
};

/// None, one, or one for each IP family, in canonical form.
pub(super) fn cidrs((flag, text): (String, &String), f: &mut Findings) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut cidrs: Vec<IpNet> = Vec::new();
    for item in text.split(',').map(str::trim) {
        match item.parse::<IpNet>() {
            Ok(cidr) => cidrs.push(cidr.trunc()),
            Err(_) => f.errors.push(format!(
                "--{flag}: invalid CIDR address: {item:?}; write it as 10.244.0.0/16, two with a \
                 comma between them"
            )),
        }
    }
    match cidrs[..] {
        [_, _, _, ..] => f.errors.push(format!(
            "--{flag} has {} CIDRs; there can be one, or one for each IP family",
            cidrs.len()
        )),
        [first, second] if is_ipv4(&first) == is_ipv4(&second) => f.errors.push(format!(
            "--{flag}: {first} and {second} are of the same IP family; there can be one for each"
        )),
        _ => {}
    }
    cidrs.iter().map(ToString::to_string).collect()
}

fn is_ipv4(cidr: &IpNet) -> bool {
    matches!(cidr, IpNet::V4(_))
}

/// The allocator of node-ipam-controller; none without `--allocate-node-cidrs`. The rules between flags only
/// hold if it runs.
pub(super) fn allocator(
    generic: &GenericFlags,
    flags: &IpamFlags,
    f: &mut Findings,
) -> Option<Allocator> {
    // Mistakes in the lists of CIDRs are reported already.
    if !generic.allocate_node_cidrs.0 || !f.errors.is_empty() {
        return None;
    }
    let options = IpamOptions {
        allocator_type: &generic.cidr_allocator_type,
        cluster_cidr: &generic.cluster_cidr,
        service_cidrs: &flags.service_cluster_ip_range,
        mask_size: flags.node_cidr_mask_size,
        mask_size_ipv4: flags.node_cidr_mask_size_ipv4,
        mask_size_ipv6: flags.node_cidr_mask_size_ipv6,
    };
    let checked = options.check();
    checked
        .map_err(|error| f.errors.push(error.to_string()))
        .ok()
}

/// The ranges of node-route-controller; none without `--cluster-cidr`.
pub(super) fn route_ranges(
    pod_cidrs: &[String],
    allocator: Option<&Allocator>,
    flags: &IpamFlags,
    f: &mut Findings,
) -> Option<Arc<[RouteRange]>> {
    // Mistakes in the list are reported already.
    if !f.errors.is_empty() {
        return None;
    }
    let prefixes = NodePrefixes {
        any: flags.node_cidr_mask_size,
        ipv4: flags.node_cidr_mask_size_ipv4,
        ipv6: flags.node_cidr_mask_size_ipv6,
    };
    let checked = outrigger_core::route::route_ranges(&pod_cidrs.join(","), allocator, prefixes);
    let ranges = checked.map_err(|error| f.errors.push(error.to_string()));
    ranges.ok().flatten().map(Into::into)
}

/// Consequences of flags for loops that do not run, though they are asked for.
pub(super) fn absent_loops(controllers: &Controllers, allocates: bool) -> Option<String> {
    let is_absent = controllers.names(Controller::NodeIpam) && !allocates;
    is_absent.then(|| {
        format!(
            "{} is named in --controllers, but --allocate-node-cidrs is false: nodes get no Pod CIDR \
             from it",
            Controller::NodeIpam.name()
        )
    })
}
