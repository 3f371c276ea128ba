//! An API server in memory, small enough to be exact.
