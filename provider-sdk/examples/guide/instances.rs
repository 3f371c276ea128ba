//! The machines of the cloud: three. Replace them by calls to yours.

use outrigger_provider_sdk::{
    Address, Context, Error, Instance, Instances, Lookup, Node, PowerState, Query,
};

const SCHEME: &str = "my-cloud://";

/// Name, address, whether it runs.
const MACHINES: [(&str, [u8; 4], bool); 3] = [
    ("node-1", [10, 0, 0, 1], true),
    ("node-2", [10, 0, 0, 2], true),
    ("node-3", [10, 0, 0, 3], false),
];

pub(crate) struct Machines;

impl Instances for Machines {
    async fn get_instance(&self, _: &Context, node: &Node, _: &Query) -> Result<Lookup, Error> {
        let id = node.provider_id.as_str();
        let name = match id.strip_prefix(SCHEME) {
            _ if id.is_empty() => node.name.as_str(),
            None => return Ok(Lookup::not_managed(format!("{id} is another cloud's"))),
            Some(name) if is_legal(name) => name,
            Some(_) => return Err(Error::malformed_provider_id(format!("{id} is no ID"))),
        };
        let Some((_, ip, runs)) = MACHINES.iter().find(|machine| machine.0 == name) else {
            // The controller may delete the Node: the cloud was asked during this call, and showed
            // everything.
            return Ok(Lookup::absent());
        };
        let instance = Instance::new(format!("{SCHEME}{name}"))
            .with_addresses([Address::InternalIp((*ip).into())])
            .with_power_state(if *runs {
                PowerState::Running
            } else {
                PowerState::Shutdown
            });
        Ok(Lookup::found(instance))
    }
}

fn is_legal(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(legal)
}
