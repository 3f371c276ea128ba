//! Compiles the contract in `proto/` with a protobuf compiler written in Rust: nothing to install.

use std::{env, fs, path::PathBuf};

use protox::Compiler;

#[path = "proto/generate/methods.rs"]
mod methods;

const FILES: &[&str] = &[
    "cloudprovider/v1/common.proto",
    "cloudprovider/v1/instances.proto",
    "cloudprovider/v1/load_balancer_options.proto",
    "cloudprovider/v1/load_balancers.proto",
    "cloudprovider/v1/node_sets.proto",
    "cloudprovider/v1/options.proto",
    "cloudprovider/v1/provider.proto",
    "cloudprovider/v1/routes.proto",
    "cloudprovider/v1/volumes.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");

    let mut compiler = Compiler::new(["proto", "proto/googleapis"])?;
    compiler.include_source_info(true).include_imports(true);
    compiler.open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let write = |name: &str, text: String| fs::write(out.join(name), text);
    // With the options of the contract, which the set above has no place for.
    let encoded = compiler.encode_file_descriptor_set();
    fs::write(out.join("descriptors.bin"), encoded)?;
    let pool = compiler.descriptor_pool();
    write("methods.rs", methods::source(&pool)?)?;
    write("reasons.rs", methods::reasons(&pool)?)?;

    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        // A server names the methods that it serves; the others are UNIMPLEMENTED.
        .generate_default_stubs(true)
        // google.rpc comes from the crate that also knows how to put it into a status.
        .extern_path(".google.rpc.Status", "::tonic_types::Status")
        .compile_fds(descriptors)?;
    Ok(())
}
