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
        lookup(node)
    }
}

fn lookup(node: &Node) -> Result<Lookup, Error> {
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
    let power = if *runs {
        PowerState::Running
    } else {
        PowerState::Shutdown
    };
    let instance = Instance::new(format!("{SCHEME}{name}"))
        .with_addresses([Address::InternalIp((*ip).into())])
        .with_power_state(power);
    Ok(Lookup::found(instance))
}

fn is_legal(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use outrigger_provider_sdk::{Error, Instance, Lookup, Node, Outcome, PowerState};

    use super::{SCHEME, lookup};

    fn answer(name: &str, id: &str) -> Result<Lookup, Error> {
        lookup(&Node::new(name).with_provider_id(id))
    }

    fn instance(name: &str, id: &str) -> Instance {
        match answer(name, id).map(|lookup| lookup.outcome) {
            Ok(Outcome::Found(instance)) => *instance,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn a_machine_is_answered_by_name_and_by_id() {
        assert_eq!(
            instance("node-1", "").provider_id,
            format!("{SCHEME}node-1")
        );
        let by_id = instance("renamed", &format!("{SCHEME}node-3"));
        assert_eq!(by_id.power_state, PowerState::Shutdown);
    }

    #[test]
    fn what_is_no_machine_is_told_apart() {
        assert_eq!(answer("gone", "").ok(), Some(Lookup::absent()));
        let foreign = answer("foreign", "other-cloud://i-1").map(|lookup| lookup.outcome);
        assert!(matches!(foreign, Ok(Outcome::NotManaged(_))));
        assert!(answer("malformed", &format!("{SCHEME}not an id")).is_err());
    }
}
