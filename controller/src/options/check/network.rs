//! CIDRs of Pods, Services and nodes.

use std::sync::Arc;

use ipnet::IpNet;
use outrigger_core::{
    ipam::{Allocator, IpamOptions},
    route::{NodePrefixes, route_ranges},
    selector::Selector,
};
use outrigger_loops::route::RouteSettings;

use super::Findings;
use crate::options::{
    controllers::{Controller, Controllers},
    flag::Setting,
    table::Flags,
};

/// None, one, or one for each IP family, in canonical form.
pub(super) fn cidrs(flag: &Setting<String>, f: &mut Findings) -> Vec<String> {
    let items = flag.split(',').map(str::trim);
    let items = items.filter(|_| !flag.trim().is_empty());
    let mut cidrs: Vec<IpNet> = Vec::new();
    for item in items {
        match item.parse::<IpNet>() {
            Ok(cidr) => cidrs.push(cidr.trunc()),
            Err(_) => f.errors.push(format!(
                "{flag}: invalid CIDR address: {item:?}; write it as 10.244.0.0/16, two with a comma between them"
            )),
        }
    }
    let is_ipv4 = |cidr| matches!(cidr, IpNet::V4(_));
    match cidrs[..] {
        [_, _, _, ..] => f.errors.push(format!(
            "{flag} has {} CIDRs; there can be one, or one for each IP family",
            cidrs.len()
        )),
        [first, second] if is_ipv4(first) == is_ipv4(second) => f.errors.push(format!(
            "{flag}: {first} and {second} are of the same IP family; there can be one for each"
        )),
        _ => {}
    }
    cidrs.iter().map(ToString::to_string).collect()
}

/// The allocator of node-ipam-controller; none without `--allocate-node-cidrs`. The rules between flags only
/// hold if it runs.
pub(super) fn allocator(flags: &Flags, f: &mut Findings) -> Option<Allocator> {
    // Mistakes in the lists of CIDRs are reported already.
    if !flags.allocate_node_cidrs.value || !f.errors.is_empty() {
        return None;
    }
    let options = IpamOptions {
        allocator_type: &flags.cidr_allocator_type,
        cluster_cidr: &flags.cluster_cidr,
        service_cidrs: &flags.service_cluster_ip_range,
        mask_size: flags.node_cidr_mask_size.value,
        mask_size_ipv4: flags.node_cidr_mask_size_ipv4.value,
        mask_size_ipv6: flags.node_cidr_mask_size_ipv6.value,
    };
    let checked = options.check();
    checked
        .map_err(|error| f.errors.push(error.to_string()))
        .ok()
}

/// The settings of node-route-controller; none without `--cluster-cidr`.
pub(super) fn route(
    flags: &Flags,
    allocator: Option<&Allocator>,
    controllers: &Controllers,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> Option<RouteSettings> {
    let period = f.period(&flags.route_reconciliation_period);
    // Mistakes in the list are reported already.
    if !f.errors.is_empty() {
        return None;
    }
    let prefixes = NodePrefixes {
        any: flags.node_cidr_mask_size.value,
        ipv4: flags.node_cidr_mask_size_ipv4.value,
        ipv6: flags.node_cidr_mask_size_ipv6.value,
    };
    let ranges = route_ranges(&flags.cluster_cidr, allocator, prefixes);
    let ranges = ranges.map_err(|error| f.errors.push(error.to_string()));
    let allocates = allocator.is_some() && controllers.enabled(Controller::NodeIpam);
    Some(RouteSettings {
        ranges: ranges.ok()??.into(),
        period,
        selector,
        reports_duplicates: !allocates,
    })
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
