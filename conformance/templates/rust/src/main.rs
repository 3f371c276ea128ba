//! A provider for the cloud my-cloud.

mod instances;

use std::process::ExitCode;

use outrigger_provider_sdk::{Provider, ProviderInfo, Server};

const NAME: &str = "my-cloud";
/// Other annotations are not sent, and lead to no call.
const ANNOTATIONS: &str = "my-cloud.example/";

struct Cloud;

impl Provider for Cloud {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            service_annotation_prefixes: vec![ANNOTATIONS.to_owned()],
            ..ProviderInfo::new(NAME, env!("CARGO_PKG_VERSION"))
        }
    }
}

fn main() -> ExitCode {
    outrigger_provider_sdk::main(async || Ok(Server::new(Cloud).instances(instances::Machines)))
}
