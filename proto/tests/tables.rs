//! The methods and reasons of the contract as a table for Go, a committed file.

#![allow(
    clippy::expect_used,
    reason = "clippy does not see that functions shared by tests are tests"
)]

#[path = "tables/go.rs"]
mod go;

use std::{collections::BTreeMap, env, fs, path::Path};

use outrigger_api::{FILE_DESCRIPTOR_SET, v1::ErrorReason};
use prost::Message as _;
use prost_types::FileDescriptorSet;

const ORIGIN: &str =
    "made from the options of the contract: UPDATE_CONTRACT=1 cargo test -p outrigger-api";

/// The request of each method, by its path.
fn requests() -> BTreeMap<String, String> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build wrote descriptors");
    let short = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let services = set.file.iter().flat_map(|file| &file.service);
    services
        .flat_map(|service| service.method.iter().map(move |method| (service, method)))
        .map(|(service, method)| {
            let path = format!("/cloudprovider.v1.{}/{}", service.name(), method.name());
            (path, short(method.input_type()))
        })
        .collect()
}

fn reasons() -> impl Iterator<Item = ErrorReason> {
    (1..1000).filter_map(|number| ErrorReason::try_from(number).ok())
}

fn is_written(path: &str, table: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("UPDATE_CONTRACT").is_some() {
        fs::write(file, table).expect("the table can be written");
        return;
    }
    let committed = fs::read_to_string(file).unwrap_or_default();
    let lines = committed.lines().zip(table.lines());
    let differs = lines.into_iter().find(|(old, new)| old != new);
    assert!(
        committed == table,
        "{path} is not the table of the contract; first difference: {differs:#?}\n\
         Write it with UPDATE_CONTRACT=1 cargo test -p outrigger-api"
    );
}

#[test]
fn go_has_the_table() {
    is_written("adapters/go/cloudproviderv1/contract.go", &go::table());
}
