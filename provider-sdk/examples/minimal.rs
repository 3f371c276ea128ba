//! The smallest provider: a cloud of two machines, looked up by provider ID, else by name.
//!
//! ```sh
//! cargo run --example minimal -- --endpoint unix://$PWD/run/provider.sock
//! cargo run --example minimal -- probe --endpoint unix://$PWD/run/provider.sock
//! ```

use std::process::ExitCode;

use outrigger_provider_sdk::{
    Address, Context, Error, Instance, Instances, Lookup, Node, PowerState, Provider, ProviderInfo,
    Query, Server,
};

#[derive(Clone)]
struct Minimal {
    machines: &'static [(&'static str, [u8; 4])],
}

impl Provider for Minimal {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("minimal", env!("CARGO_PKG_VERSION"))
    }
}

impl Instances for Minimal {
    async fn get_instance(&self, _: &Context, node: &Node, _: &Query) -> Result<Lookup, Error> {
        let name = match node.provider_id.as_str() {
            "" => node.name.as_str(),
            id => match id.strip_prefix("minimal://") {
                Some("") => return Err(Error::malformed_provider_id(format!("{id} has no name"))),
                Some(name) => name,
                None => return Ok(Lookup::not_managed("the provider ID is another cloud's")),
            },
        };
        let Some((name, ip)) = self.machines.iter().find(|machine| machine.0 == name) else {
            return Ok(Lookup::absent());
        };
        let instance = Instance::new(format!("minimal://{name}"))
            .with_instance_type("small")
            .with_addresses([Address::InternalIp((*ip).into())])
            .with_power_state(PowerState::Running);
        Ok(Lookup::found(instance))
    }
}

fn main() -> ExitCode {
    let cloud = Minimal {
        machines: &[("node-a", [10, 0, 0, 1]), ("node-b", [10, 0, 0, 2])],
    };
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).instances(cloud)))
}
