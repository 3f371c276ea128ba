//! CIDRs of Pods, Services and nodes.

use std::sync::Arc;

use outrigger_core::{
    cidr::{Cidr, cidr_list},
    ipam::{Allocator, IpamOptions, MaskSizes},
    route::route_ranges,
    selector::Selector,
};
use outrigger_loops::route::RouteSettings;

use super::Findings;
use crate::options::{
    controllers::{Controller, Controllers},
    flag::Setting,
    table::Flags,
};

/// The CIDRs of a flag: none, one, or one for each IP family (I-2, I-3, I-4).
pub(super) fn cidrs(flag: &Setting<String>, f: &mut Findings) -> Vec<Cidr> {
    let advice =
        "name one, such as 10.244.0.0/16, or one for each IP family with a comma between them";
    f.valid(cidr_list(flag).map_err(|error| format!("{flag}: {error}; {advice}")))
}

fn mask_sizes(flags: &Flags) -> MaskSizes {
    MaskSizes {
        any: flags.node_cidr_mask_size.value,
        ipv4: flags.node_cidr_mask_size_ipv4.value,
        ipv6: flags.node_cidr_mask_size_ipv6.value,
    }
}

/// The allocator of node-ipam-controller; absent if that does not run. The rules between flags only hold if it does: another
/// program may have them from the same list of flags.
pub(super) fn allocator(
    flags: &Flags,
    cluster_cidrs: &[Cidr],
    service_cidrs: &[Cidr],
    controllers: &Controllers,
    f: &mut Findings,
) -> Option<Allocator> {
    let runs = flags.allocate_node_cidrs.value && controllers.enabled(Controller::NodeIpam);
    // After a mistake in a list of CIDRs the others would follow from it.
    if !runs || !f.errors.is_empty() {
        return None;
    }
    let options = IpamOptions {
        allocator_type: &flags.cidr_allocator_type,
        cluster_cidrs,
        service_cidrs,
        mask_sizes: mask_sizes(flags),
    };
    options.check().map_err(|error| f.errors.push(error)).ok()
}

/// The settings of node-route-controller; absent without `--cluster-cidr`.
pub(super) fn route(
    flags: &Flags,
    cluster_cidrs: &[Cidr],
    allocator: Option<&Allocator>,
    selector: Option<Arc<Selector>>,
    f: &mut Findings,
) -> Option<RouteSettings> {
    let settings = RouteSettings {
        ranges: route_ranges(cluster_cidrs, allocator, mask_sizes(flags)).into(),
        period: f.period(&flags.route_reconciliation_period),
        selector,
        reports_duplicates: allocator.is_none(),
    };
    (!settings.ranges.is_empty()).then_some(settings)
}

/// Consequences of flags for loops that do not run, though they are asked for.
pub(super) fn absent_loops(controllers: &Controllers, allocates: bool) -> Option<String> {
    let name = Controller::NodeIpam.name();
    match (controllers.enabled(Controller::NodeIpam), allocates) {
        (true, false) => Some(format!(
            "{name} is named in --controllers, but --allocate-node-cidrs is false: nodes get no Pod CIDR from it"
        )),
        (false, true) => Some(format!(
            "--allocate-node-cidrs starts no allocator, since another program may be one: nodes get no Pod CIDR from this \
             one unless --controllers names the loop, as in --controllers=*,{name}"
        )),
        _ => None,
    }
}
