//! The cluster: its name and UID, the CIDRs of its Pods, Services and Nodes, and routes to them.

use std::{sync::Arc, time::Duration};

use clap::Args;
use outrigger_core::{
    cidr::{Cidr, cidr_list},
    ipam::{Allocator, IpamOptions, MaskSizes},
    route::route_ranges,
    selector::Selector,
};
use outrigger_loops::route::RouteSettings;
use outrigger_provider::Cluster;
use uuid::Uuid;

use super::{
    controllers::{Controller, Controllers},
    period,
};

#[derive(Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct ClusterFlags {
    /// Allocate Pod CIDRs and set them on Nodes, if --controllers names node-ipam-controller; requires --cluster-cidr.
    #[arg(long)]
    pub(super) allocate_node_cidrs: bool,
    /// Type of the CIDR allocator: RangeAllocator takes Pod CIDRs from --cluster-cidr, CloudAllocator
    /// asks the provider for them.
    #[arg(long, default_value = "RangeAllocator")]
    pub(super) cidr_allocator_type: String,
    /// CIDR of the Pods; two, separated by a comma, for dual-stack. Used by node-route-controller and,
    /// with --allocate-node-cidrs, by node-ipam-controller, if that runs.
    #[arg(long, default_value = "", value_parser = CidrList::parse)]
    pub(super) cluster_cidr: CidrList,
    /// Name of the cluster, passed to the provider, which marks cloud resources with it.
    #[arg(long, default_value = "kubernetes")]
    pub(super) cluster_name: String,
    /// UUID by which the provider knows what it makes for this cluster; without it the UID of the namespace
    /// kube-system. For a controller outside the cluster that it serves: the administrator of that one
    /// chooses no other cluster's. To be kept as long as the cluster lives.
    #[arg(long, value_parser = cluster_uid)]
    pub(super) cluster_uid: Option<String>,
    /// Configure routes to the Nodes' Pod CIDRs in the cloud; false: do not start node-route-controller.
    #[arg(long, default_value = "true")]
    pub(super) configure_cloud_routes: bool,
    /// Mask size of a Node's CIDR in a single-stack cluster; 0: 24 for IPv4, 64 for IPv6.
    #[arg(long, default_value = "0")]
    node_cidr_mask_size: i32,
    /// Mask size of a Node's IPv4 CIDR in a dual-stack cluster; 0: 24.
    #[arg(long, default_value = "0")]
    node_cidr_mask_size_ipv4: i32,
    /// Mask size of a Node's IPv6 CIDR in a dual-stack cluster; 0: 64.
    #[arg(long, default_value = "0")]
    node_cidr_mask_size_ipv6: i32,
    /// Period in which the cloud's routes are listed, to find changes made by others. Changes in the
    /// cluster are acted on at once.
    #[arg(long, default_value = "30m0s", value_parser = period)]
    pub(super) route_reconciliation_period: Duration,
    /// CIDR of Services, which node-ipam-controller leaves free; two, separated by a comma, for
    /// dual-stack.
    #[arg(long, default_value = "", value_parser = CidrList::parse)]
    service_cluster_ip_range: CidrList,
}

/// No CIDR, one, or one for each IP family (I-2, I-3, I-4).
#[derive(Clone)]
pub(super) struct CidrList(Vec<Cidr>);

impl CidrList {
    fn parse(text: &str) -> Result<Self, String> {
        let cidrs = cidr_list(text).map_err(|error| {
            format!("{error}; name one, such as 10.244.0.0/16, or one for each IP family with a comma between them")
        });
        cidrs.map(Self)
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.0.iter().map(Cidr::to_string).collect()
    }
}

/// A UID as an API server writes it. A UID in capitals would be another cluster's.
pub(crate) fn cluster_uid(text: &str) -> Result<String, String> {
    let uuid = text.parse().map(|uuid: Uuid| uuid.to_string());
    if uuid.as_deref() == Ok(text) {
        return Ok(text.to_owned());
    }
    Err("it must be a UUID in lower case, such as 0b5bf7b5-1c2e-4b4a-9d7c-6c2f0e8d5a10".to_owned())
}

impl ClusterFlags {
    fn mask_sizes(&self) -> MaskSizes {
        MaskSizes {
            any: self.node_cidr_mask_size,
            ipv4: self.node_cidr_mask_size_ipv4,
            ipv6: self.node_cidr_mask_size_ipv6,
        }
    }

    /// For the provider.
    pub(super) fn facts(&self) -> Cluster {
        Cluster {
            name: self.cluster_name.clone(),
            pod_cidrs: self.cluster_cidr.texts(),
            service_cidrs: self.service_cluster_ip_range.texts(),
        }
    }

    /// The allocator of node-ipam-controller; absent if that does not run. The rules between flags only hold if it does: another
    /// program may have them from the same list of flags.
    pub(super) fn allocator(&self, controllers: &Controllers) -> Result<Option<Allocator>, String> {
        if !self.allocate_node_cidrs || !controllers.enabled(Controller::NodeIpam) {
            return Ok(None);
        }
        let options = IpamOptions {
            allocator_type: &self.cidr_allocator_type,
            cluster_cidrs: &self.cluster_cidr.0,
            service_cidrs: &self.service_cluster_ip_range.0,
            mask_sizes: self.mask_sizes(),
        };
        options.check().map(Some)
    }

    /// The settings of node-route-controller; absent without `--cluster-cidr`.
    pub(super) fn route(
        &self,
        allocator: Option<&Allocator>,
        selector: Option<Arc<Selector>>,
    ) -> Option<RouteSettings> {
        let settings = RouteSettings {
            ranges: route_ranges(&self.cluster_cidr.0, allocator, self.mask_sizes()).into(),
            period: self.route_reconciliation_period,
            selector,
        };
        (!settings.ranges.is_empty()).then_some(settings)
    }

    /// Consequences of flags for loops that do not run, though they are asked for.
    pub(super) fn absent_loops(&self, controllers: &Controllers) -> Option<String> {
        let name = Controller::NodeIpam.name();
        match (
            controllers.enabled(Controller::NodeIpam),
            self.allocate_node_cidrs,
        ) {
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
}
