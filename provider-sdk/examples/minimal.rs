//! The smallest provider: a cloud of two machines, looked up by provider ID, else by name.
//!
//! ```sh
//! cargo run --example minimal -- --endpoint unix://$PWD/run/provider.sock
//! cargo run --example minimal -- probe --endpoint unix://$PWD/run/provider.sock
//! ```

use std::process::ExitCode;

use outrigger_provider_sdk::{
    Context, Error, Instances, Lookup, Outcome, Provider, ProviderInfo, Query, Server, v1,
};

#[derive(Clone)]
struct Minimal {
    machines: &'static [(&'static str, &'static str)],
}

impl Provider for Minimal {
    fn info(&self) -> ProviderInfo {
        ProviderInfo::new("minimal", env!("CARGO_PKG_VERSION"))
    }
}

impl Instances for Minimal {
    async fn get_instance(&self, _: &Context, node: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        let name = match node.provider_id.as_str() {
            "" => node.name.as_str(),
            id => match id.strip_prefix("minimal://") {
                Some("") => return Err(Error::malformed_provider_id(format!("{id} has no name"))),
                Some(name) => name,
                None => return Ok(Outcome::not_managed("the ID is another cloud's").into()),
            },
        };
        let Some((name, ip)) = self.machines.iter().find(|machine| machine.0 == name) else {
            return Ok(Outcome::absent(format!("there is no machine {name}")).into());
        };
        let address = v1::NodeAddress {
            r#type: "InternalIP".to_owned(),
            address: (*ip).to_owned(),
        };
        let instance = v1::Instance {
            provider_id: format!("minimal://{name}"),
            instance_type: "small".to_owned(),
            addresses: vec![address],
            power_state: v1::PowerState::Running.into(),
            ..v1::Instance::default()
        };
        Ok(Outcome::Found(instance).into())
    }
}

fn main() -> ExitCode {
    let cloud = Minimal {
        machines: &[("node-a", "10.0.0.1"), ("node-b", "10.0.0.2")],
    };
    outrigger_provider_sdk::main(async || Ok(Server::new(cloud.clone()).instances(cloud)))
}
