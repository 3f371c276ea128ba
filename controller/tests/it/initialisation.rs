//! From the taint to a node that is ready for use: N-1 to N-25, N-30 to N-37 and N-40 to N-48
//! as far as they are about that.
//!
//! Not here: N-2, which is the queue's own business; N-32 and N-33, for the contract has no Instances
//! v1; N-40, N-44, N-45 and N-47, which are about the addresses of nodes that are initialised already.

mod addresses;
mod concurrent;
mod labels;
mod lookups;
mod metrics;
mod node_ip;
mod provider_id;
mod writes;
