//! CIDRs of Pods, Services and nodes.

use ipnet::IpNet;

use super::Findings;
use crate::{
    options::{
        config::{Ipam, Route},
        controllers::{Controller, Controllers},
        flags::{GenericFlags, IpamFlags},
    },
    provider::Cluster,
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

/// Checks of node-ipam-controller's flags. The rules between flags apply only if it runs.
pub(super) fn ipam(
    generic: &GenericFlags,
    flags: &IpamFlags,
    cluster: &Cluster,
    f: &mut Findings,
) -> Ipam {
    let enabled = generic.allocate_node_cidrs.0;
    if generic.cidr_allocator_type != "RangeAllocator" {
        f.errors.push(format!(
            "invalid CIDR allocator type: {}; --cidr-allocator-type must be RangeAllocator",
            generic.cidr_allocator_type
        ));
    }
    let any = mask(flag!(flags.node_cidr_mask_size), 128, f);
    let ipv4 = mask(flag!(flags.node_cidr_mask_size_ipv4), 32, f);
    let ipv6 = mask(flag!(flags.node_cidr_mask_size_ipv6), 128, f);
    let pools: Vec<IpNet> = cluster
        .pod_cidrs
        .iter()
        .filter_map(|cidr| cidr.parse().ok())
        .collect();
    let ipam = Ipam {
        enabled,
        mask_size_ipv4: ipv4.or(any).unwrap_or(24),
        mask_size_ipv6: ipv6.or(any).unwrap_or(64),
    };
    if !enabled {
        return ipam;
    }
    if generic.cluster_cidr.trim().is_empty() {
        f.errors
            .push("--allocate-node-cidrs requires --cluster-cidr, which is empty".into());
    }
    if let Some(clash) = clash(&pools, any, ipv4, ipv6) {
        f.errors.push(clash.into());
        return ipam;
    }
    for pool in &pools {
        let size = match pool {
            IpNet::V4(_) => ipam.mask_size_ipv4,
            IpNet::V6(_) => ipam.mask_size_ipv6,
        };
        if size > pool.max_prefix_len() {
            f.errors.push(format!(
                "--node-cidr-mask-size {size} is more than an address of {pool} has"
            ));
        } else if size < pool.prefix_len() {
            f.errors.push(format!(
                "Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal to \
                 --node-cidr-mask-size configured for CIDR family: {pool} has no room for a /{size}"
            ));
        } else if !is_ipv4(pool) && size - pool.prefix_len() > 16 {
            f.errors.push(format!(
                "the node CIDR size is too big: {pool} would be cut into more than 65536 of \
                 /{size}; set a smaller --node-cidr-mask-size-ipv6 or --cluster-cidr"
            ));
        }
    }
    ipam
}

/// Upstream's error for mask sizes that exclude each other.
fn clash(
    pools: &[IpNet],
    any: Option<u8>,
    ipv4: Option<u8>,
    ipv6: Option<u8>,
) -> Option<&'static str> {
    match (pools, any, ipv4, ipv6) {
        ([_, _, ..], Some(_), _, _) => {
            Some("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")
        }
        (_, Some(_), Some(_), _) | (_, Some(_), _, Some(_)) => Some(
            "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if \
             --node-cidr-mask-size is set. For dual-stack clusters please unset it and use \
             IPFamily specific flags",
        ),
        ([IpNet::V6(_)], _, Some(_), _) => Some(
            "usage of --node-cidr-mask-size-ipv4 is not allowed for a single-stack IPv6 cluster",
        ),
        ([IpNet::V4(_)], _, _, Some(_)) => Some(
            "usage of --node-cidr-mask-size-ipv6 is not allowed for a single-stack IPv4 cluster",
        ),
        _ => None,
    }
}

/// Absent if it is 0.
fn mask((flag, size): (String, &i32), most: u8, f: &mut Findings) -> Option<u8> {
    let size = f.valid(
        u8::try_from(*size)
            .ok()
            .filter(|size| *size <= most)
            .ok_or_else(|| format!("--{flag} must be between 0 and {most}, but got {size}")),
    );
    Some(size).filter(|size| *size > 0)
}

/// One warning for each loop that the flags ask for and that does not exist here, with its
/// consequence. With upstream's defaults neither of them does anything.
pub(super) fn absent_loops(controllers: &Controllers, route: &Route, ipam: &Ipam) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut missing = |controller: Controller, consequence: &str| {
        let name = controller.name();
        warnings.push(format!(
            "{name} is not part of this version yet: {consequence}"
        ));
    };
    let is_asked = |controller| {
        controllers.names(controller) || (ipam.enabled && controllers.enabled(controller))
    };
    if is_asked(Controller::NodeIpam) {
        missing(
            Controller::NodeIpam,
            "no Node gets a Pod CIDR from it, whatever --allocate-node-cidrs is; have them \
             allocated by kube-controller-manager or the network plugin",
        );
    }
    if route.enabled && is_asked(Controller::NodeRoute) {
        missing(
            Controller::NodeRoute,
            "no routes to Pods are made in the cloud; use a network plugin that needs none, and \
             set --configure-cloud-routes=false",
        );
    }
    warnings
}
