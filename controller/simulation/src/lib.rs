//! Whole controllers on simulated time, with faults and chance by seed, and the promises that they keep meanwhile.

pub mod apiserver;
