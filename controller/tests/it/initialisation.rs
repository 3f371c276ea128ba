//! From the taint to a node that is ready for use: lines N-1 to N-25, N-30 to N-34 and N-40 to N-48
//! as far as they are about that.
//!
//! Not here: N-23, for nobody serves metrics yet, and N-32, N-33, for the contract has no Instances
//! v1. N-35 to N-37, N-40, N-44, N-45 and N-47 are about nodes that are initialised already.

mod addresses;
mod concurrent;
mod labels;
mod lookups;
mod node_ip;
mod provider_id;
mod writes;
