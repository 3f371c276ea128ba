//! The node-ipam loop's decisions: which Pod CIDRs a Node gets.

pub mod pool;
