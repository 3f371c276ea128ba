//! Flags about load balancers.

use std::time::Duration;

use clap::Args;
use ipnet::IpNet;
use outrigger_provider_mock::load_balancers::{AddressMode, LoadBalancerRules};
use outrigger_provider_mock::{ServedLoadBalancers, duration};

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a flag of a command line is a bool"
)]
pub(super) struct LoadBalancerArgs {
    /// Offer no load balancers
    #[arg(long)]
    without_load_balancers: bool,

    /// Offer no node sets: each call brings its backend nodes along
    #[arg(long)]
    pub(super) without_node_sets: bool,

    /// Pool of addresses; may be repeated. A family without a pool is not served
    /// [default: 198.18.0.0/15 and `2001:db8:1b::/64`]
    #[arg(long = "lb-pool", value_name = "CIDR")]
    pools: Vec<IpNet>,

    /// How load balancers are reached: ip, vip, proxy (IP addresses without and with an ipMode) or
    /// hostname
    #[arg(long = "lb-address-mode", default_value_t = AddressMode::Ip, value_name = "MODE")]
    address_mode: AddressMode,

    /// Protocols that are served; others are refused with `UNSUPPORTED_PROTOCOL`
    #[arg(
        long = "lb-protocols",
        default_value = "TCP,UDP",
        value_delimiter = ',',
        value_name = "PROTOCOL"
    )]
    protocols: Vec<String>,

    /// Refuse Services whose ports have several protocols
    #[arg(long = "lb-without-mixed-protocols")]
    without_mixed_protocols: bool,

    /// How long a new load balancer takes until it is ready; until then it is `IN_PROGRESS`
    #[arg(long = "lb-provisioning", default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    provisioning: Duration,

    /// Report the addresses of a load balancer before it is ready
    #[arg(long = "lb-early-addresses")]
    early_addresses: bool,

    /// How long a deletion takes; until then it is `IN_PROGRESS`
    #[arg(long = "lb-deprovisioning", default_value = "0s", value_parser = duration::parse, value_name = "DURATION")]
    deprovisioning: Duration,

    /// Most load balancers; more are refused with `QUOTA_EXCEEDED` [default: no limit]
    #[arg(long = "lb-quota", value_name = "N")]
    quota: Option<usize>,

    /// Keep load balancers that are to be deleted: `RETAINED`
    #[arg(long = "lb-deletion-protection")]
    deletion_protection: bool,

    #[command(flatten)]
    served: ServedLoadBalancers,
}

impl LoadBalancerArgs {
    pub(super) fn rules(&self) -> LoadBalancerRules {
        let usual = LoadBalancerRules::default();
        LoadBalancerRules {
            pools: if self.pools.is_empty() {
                usual.pools
            } else {
                self.pools.clone()
            },
            address_mode: self.address_mode,
            protocols: self.protocols.clone(),
            mixed_protocols: !self.without_mixed_protocols,
            provisioning: self.provisioning,
            early_addresses: self.early_addresses,
            deprovisioning: self.deprovisioning,
            quota: self.quota,
            deletion_protection: self.deletion_protection,
        }
    }

    pub(super) fn served(&self) -> Option<ServedLoadBalancers> {
        (!self.without_load_balancers).then(|| self.served.clone())
    }
}
