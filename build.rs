//! Compiles the contract in `proto/` with a protobuf compiler written in Rust: nothing to install.

use std::{env, fs, path::PathBuf};

use prost::Message;

const FILES: &[&str] = &[
    "cloudprovider/v1/common.proto",
    "cloudprovider/v1/instances.proto",
    "cloudprovider/v1/load_balancers.proto",
    "cloudprovider/v1/node_sets.proto",
    "cloudprovider/v1/provider.proto",
    "cloudprovider/v1/routes.proto",
    "cloudprovider/v1/volumes.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");

    let descriptors = protox::compile(FILES, ["proto", "proto/googleapis"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;

    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        // google.rpc comes from the crate that also knows how to put it into a status.
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}
