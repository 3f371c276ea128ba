//! Flags about routes.

use std::net::{IpAddr, Ipv4Addr};

use clap::{Args, ValueEnum};
use outrigger_provider_mock::{ListedTarget, Respelled, ServedRoutes};

/// The address of no machine: it is reserved for documentation.
const OTHER_HOP: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1));

#[derive(Debug, Args)]
pub(super) struct RouteArgs {
    /// Offer a route table
    #[arg(long)]
    routes: bool,

    /// Most routes that the table has room for; more are refused with `QUOTA_EXCEEDED` [default: no
    /// limit]
    #[arg(long, requires = "routes", value_name = "N")]
    pub(super) max_routes: Option<usize>,

    /// How a list names the target of a route
    #[arg(
        long,
        requires = "routes",
        default_value = "node-name",
        value_name = "HOW"
    )]
    route_target: TargetArg,

    #[command(flatten)]
    served: ServedRoutes,
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
        self.routes.then(|| ServedRoutes {
            target,
            respelled,
            ..self.served.clone()
        })
    }
}
