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

    /// Value of spec.loadBalancerClass that is served besides Services without a class; may be
    /// repeated
    #[arg(long = "lb-class", value_name = "CLASS")]
    classes: Vec<String>,

    /// Serve no Services without a class
    #[arg(long = "lb-without-default-class", requires = "classes")]
    without_default_class: bool,

    /// Most Services in one update
    #[arg(long = "lb-max-services-per-update", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=200), value_name = "N")]
    max_services_per_update: u32,

    /// Changing calls at one time; 0 leaves it to the controller
    #[arg(long = "lb-max-in-flight", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=256), value_name = "N")]
    max_in_flight: u32,

    /// Names how a Service becomes a load balancer: another one has all ensured again
    #[arg(
        long = "lb-configuration-revision",
        default_value = "",
        value_name = "TEXT"
    )]
    configuration_revision: String,

    /// Declare that load balancers are lost with this process, as they are without --state; a Service then
    /// keeps the addresses in its status, and gets none of another Service
    #[arg(long = "lb-volatile")]
    volatile: bool,

    /// Send an event, an annotation and a condition with each load balancer that is ready
    #[arg(long = "lb-effects")]
    effects: bool,
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
        (!self.without_load_balancers).then(|| ServedLoadBalancers {
            classes: self.classes.clone(),
            without_default_class: self.without_default_class,
            max_services_per_update: self.max_services_per_update,
            max_in_flight: self.max_in_flight,
            configuration_revision: self.configuration_revision.clone(),
            volatile: self.volatile,
            effects: self.effects,
        })
    }
}
