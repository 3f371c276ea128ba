//! A cloud made of the Linux kernel, behind Outrigger's contract.
//!
//! All state is the kernel's: a process that is killed finds everything again. The README says where it fits.

pub mod balancer;
pub mod cloud;
mod health;
mod hops;
pub mod kernel;
pub mod load_balancer;
pub mod nft;
pub mod options;
pub mod pool;
mod provider;

pub use provider::{LinuxProvider, clean_up_routes};
