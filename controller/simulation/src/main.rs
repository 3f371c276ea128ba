//! `outrigger-simulation`; see `--help`, and docs/evidence.md for what it does.

fn main() {}
