//! Labels and node affinity of a `PersistentVolume`: a loop, and a webhook for new ones.

pub mod volume;
pub mod webhook;
