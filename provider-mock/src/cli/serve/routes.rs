//! Flags about routes.

use std::net::{IpAddr, Ipv4Addr};

use clap::{Args, ValueEnum};
use outrigger_provider_mock::{ListedTarget, Respelled, ServedRoutes};

/// Of no machine: an address for documentation.
const OTHER_HOP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a flag of a command line is a bool"
)]
pub(super) struct RouteArgs {
    /// Offer a route table
    #[arg(long)]
    routes: bool,

    /// Most routes that the table has room for; more are refused with `QUOTA_EXCEEDED` [default: no
    /// limit]
    #[arg(long, requires = "routes", value_name = "N")]
    pub(super) max_routes: Option<usize>,

    /// Most routes in one batch
    #[arg(long, requires = "routes", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500), value_name = "N")]
    route_max_batch_size: u32,

    /// Most batches at one time [default: left to the controller]
    #[arg(long, requires = "routes", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u32).range(0..=64), value_name = "N")]
    route_max_in_flight: u32,

    /// How a list names the target of a route
    #[arg(
        long,
        requires = "routes",
        default_value = "node-name",
        value_name = "HOW"
    )]
    route_target: TargetArg,

    /// List the whole table, as a cloud whose routes have no tags; routes of no cluster are deleted too
    #[arg(long, requires = "routes")]
    route_whole_table: bool,

    /// List the addresses that a route was made with: it is made again where its Node has others
    #[arg(long, requires = "routes")]
    route_compared_addresses: bool,

    /// Answer a creation without the route, so that its name is not known before a list
    #[arg(long, requires = "routes")]
    route_bare_results: bool,

    /// Send an event, an annotation and a condition of the Node with each result
    #[arg(long, requires = "routes")]
    route_effects: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TargetArg {
    /// By the name of the Node
    NodeName,
    /// By its provider ID
    ProviderId,
    /// By the address that packets are sent to
    NextHop,
    /// By all of them
    All,
    /// By all of them, the name in capitals
    Capitals,
    /// By all of them, the provider ID in another spelling
    OtherId,
    /// By all of them, the address one that the Node does not have
    OtherHop,
}

impl RouteArgs {
    pub(super) fn served(&self) -> Option<ServedRoutes> {
        let (target, respelled) = match self.route_target {
            TargetArg::NodeName => (ListedTarget::NodeName, None),
            TargetArg::ProviderId => (ListedTarget::ProviderId, None),
            TargetArg::NextHop => (ListedTarget::NextHop, None),
            TargetArg::All => (ListedTarget::All, None),
            TargetArg::Capitals => (ListedTarget::All, Some(Respelled::NodeName)),
            TargetArg::OtherId => (ListedTarget::All, Some(Respelled::ProviderId)),
            TargetArg::OtherHop => (ListedTarget::All, Some(Respelled::NextHop(OTHER_HOP))),
        };
        self.routes.then_some(ServedRoutes {
            max_batch_size: self.route_max_batch_size,
            max_in_flight: self.route_max_in_flight,
            target,
            whole_table: self.route_whole_table,
            compared_addresses: self.route_compared_addresses,
            bare_results: self.route_bare_results,
            effects: self.route_effects,
            respelled,
        })
    }
}
