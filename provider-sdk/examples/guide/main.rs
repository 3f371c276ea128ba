//! A provider for a cloud of three machines.

mod balancers;
mod instances;

use std::process::ExitCode;

use outrigger_provider_sdk::{Provider, ProviderInfo, Server};

struct MyCloud;

impl Provider for MyCloud {
    fn info(&self) -> ProviderInfo {
        // Other annotations are not sent, and lead to no call.
        ProviderInfo::new("my-cloud", env!("CARGO_PKG_VERSION"))
            .with_service_annotation_prefixes(["my-cloud.example/".to_owned()])
    }
}

fn main() -> ExitCode {
    outrigger_provider_sdk::main(async || {
        Ok(Server::new(MyCloud)
            .instances(instances::Machines)
            .load_balancers(balancers::Balancers::default()))
    })
}
