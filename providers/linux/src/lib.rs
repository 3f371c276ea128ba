//! A cloud made of the Linux kernel, behind Outrigger's contract.
//!
//! All state is the kernel's: a process that is killed finds everything again. The README says for whom this is.

pub mod cloud;
pub mod kernel;
