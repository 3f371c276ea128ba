//! From the taint to a node that is ready for use: what only a real API server shows of N-1 to N-48.

mod concurrent;
mod fields;
mod writes;
