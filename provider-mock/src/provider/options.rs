//! The declarations of the mock in its handshake, and the manner in which it serves each part of the contract.

use clap::{Args, ValueEnum, value_parser};

use crate::load_balancers::ANNOTATION_PREFIX;

/// The provider's declarations in the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ProviderOptions {
    /// Most nodes in one lookup
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u32).range(1..=500), value_name = "N")]
    pub max_batch_size: u32,
    /// Declare at the handshake that the cloud has no cluster id
    #[arg(long)]
    pub without_cluster_id: bool,
    /// Key of a label that is kept in sync after a node was initialised; may be repeated
    #[arg(long = "managed-label", value_name = "KEY")]
    pub managed_label_keys: Vec<String>,
    /// Send an annotation and a condition of the Node with each lookup, and an event while its instance is
    /// stopped
    #[arg(long)]
    pub instance_effects: bool,
    /// Which Services are served; none: there are no load balancers at all
    #[arg(skip)]
    pub load_balancers: Option<ServedLoadBalancers>,
    /// How routes are served; none: there are none at all
    #[arg(skip)]
    pub routes: Option<ServedRoutes>,
    /// Which volumes are looked up; none: there are none at all
    #[arg(skip)]
    pub volumes: Option<ServedVolumes>,
    /// Offer no node sets: each call brings its backend nodes along
    #[arg(long)]
    pub without_node_sets: bool,
    /// Prefix of the Service annotations that it declares to read; may be repeated
    #[arg(
        long = "service-annotation-prefix",
        default_value = ANNOTATION_PREFIX,
        value_name = "PREFIX"
    )]
    pub service_annotation_prefixes: Vec<String>,
}

/// The provider's declarations about load balancers in the handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct ServedLoadBalancers {
    /// Value of spec.loadBalancerClass that is served besides Services without a class; may be repeated
    #[arg(long = "lb-class", value_name = "CLASS")]
    pub classes: Vec<String>,
    /// Serve no Services without a class
    #[arg(long = "lb-without-default-class", requires = "classes")]
    pub without_default_class: bool,
    /// Changing calls at one time; 0 leaves it to the controller
    #[arg(long = "lb-max-in-flight", default_value_t = 0, value_parser = value_parser!(u32).range(0..=256), value_name = "N")]
    pub max_in_flight: u32,
    /// Names how a Service becomes a load balancer: another one has all ensured again
    #[arg(
        long = "lb-configuration-revision",
        default_value = "",
        value_name = "TEXT"
    )]
    pub configuration_revision: String,
    /// Key of a Node label that a target is made of: a change of it is called for; may be repeated
    #[arg(long = "lb-target-label-key", value_name = "KEY")]
    pub target_label_keys: Vec<String>,
    /// Send an event, an annotation and a condition with each load balancer that is ready
    #[arg(long = "lb-effects")]
    pub effects: bool,
}

/// How routes are declared, listed and answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[group(skip)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a way of some cloud, and a separate thing"
)]
pub struct ServedRoutes {
    /// Most routes that are changed at one time [default: left to the controller]
    #[arg(id = "route_max_in_flight", long = "route-max-in-flight", requires = "routes", default_value_t = 0, hide_default_value = true, value_parser = value_parser!(u32).range(0..=256), value_name = "N")]
    pub max_in_flight: u32,
    /// How a list names the target of a route
    #[arg(
        long = "route-target",
        requires = "routes",
        default_value = "node-name",
        value_name = "HOW"
    )]
    pub target: ListedTarget,
    /// List the whole table, as a cloud whose routes have no tags; routes of no cluster are deleted too
    #[arg(long = "route-whole-table", requires = "routes")]
    pub whole_table: bool,
    /// List the addresses that a route was made with: it is made again where its Node has others
    #[arg(long = "route-compared-addresses", requires = "routes")]
    pub compared_addresses: bool,
    /// Answer a creation without the route, so that its name is not known before a list
    #[arg(long = "route-bare-results", requires = "routes")]
    pub bare_results: bool,
    /// Send an event, an annotation and a condition of the Node with each answer
    #[arg(id = "route_effects", long = "route-effects", requires = "routes")]
    pub effects: bool,
    /// A field of the target that lists and answers to creations spell otherwise than asked for
    #[arg(skip)]
    pub respelled: Option<Respelled>,
}

/// A field of a route's target in a spelling of the cloud.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Respelled {
    /// The Node's name in capitals.
    NodeName,
    /// The provider ID with one more slash.
    ProviderId,
    /// A next hop that is none of the Node's addresses, this one.
    NextHop(std::net::IpAddr),
}

/// The provider's declarations about volumes in the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct ServedVolumes {
    /// A CSI driver with volumes that are looked up; may be repeated
    #[arg(long = "csi-driver", value_name = "DRIVER")]
    pub csi_drivers: Vec<String>,
    /// Look up volumes of the in-tree kinds too
    #[arg(long = "in-tree-volumes")]
    pub in_tree: bool,
}

/// How a list names the target of a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ListedTarget {
    /// By the name of the Node
    #[default]
    NodeName,
    /// By its provider ID
    ProviderId,
    /// By the address that packets are sent to
    NextHop,
    /// By all of them
    All,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            max_batch_size: 500,
            without_cluster_id: false,
            managed_label_keys: Vec::new(),
            instance_effects: false,
            load_balancers: Some(ServedLoadBalancers::default()),
            routes: None,
            volumes: None,
            without_node_sets: false,
            service_annotation_prefixes: vec![ANNOTATION_PREFIX.to_owned()],
        }
    }
}
