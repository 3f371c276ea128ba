//! The machines of the cloud: three. Replace them by calls to yours.

use outrigger_provider_sdk::{Context, Error, Instances, Lookup, Outcome, Query, v1};

const SCHEME: &str = "my-cloud://";

/// Name, address, whether it runs.
const MACHINES: [(&str, &str, bool); 3] = [
    ("node-1", "10.0.0.1", true),
    ("node-2", "10.0.0.2", true),
    ("node-3", "10.0.0.3", false),
];

pub(crate) struct Machines;

impl Instances for Machines {
    async fn get_instance(&self, _: &Context, node: &v1::Node, _: &Query) -> Result<Lookup, Error> {
        Ok(lookup(node)?.into())
    }
}

fn lookup(node: &v1::Node) -> Result<Outcome<v1::Instance>, Error> {
    let id = node.provider_id.as_str();
    let name = match id.strip_prefix(SCHEME) {
        _ if id.is_empty() => node.name.as_str(),
        None => return Ok(Outcome::not_managed(format!("{id} is another cloud's"))),
        Some(name) if is_legal(name) => name,
        Some(_) => return Err(Error::malformed_provider_id(format!("{id} is no ID"))),
    };
    let Some((_, ip, runs)) = MACHINES.iter().find(|machine| machine.0 == name) else {
        // The controller may delete the Node: the cloud was asked during this call, and showed
        // everything.
        return Ok(Outcome::absent(format!("there is no machine {name}")));
    };
    let power = if *runs {
        v1::PowerState::Running
    } else {
        v1::PowerState::Shutdown
    };
    let address = v1::NodeAddress {
        r#type: "InternalIP".to_owned(),
        address: (*ip).to_owned(),
    };
    Ok(Outcome::Found(v1::Instance {
        provider_id: format!("{SCHEME}{name}"),
        addresses: vec![address],
        power_state: power.into(),
        ..v1::Instance::default()
    }))
}

fn is_legal(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use outrigger_provider_sdk::{Error, Outcome, v1};

    use super::{SCHEME, lookup};

    fn answer(name: &str, id: &str) -> Result<Outcome<v1::Instance>, Error> {
        lookup(&v1::Node {
            name: name.to_owned(),
            provider_id: id.to_owned(),
            ..v1::Node::default()
        })
    }

    fn instance(name: &str, id: &str) -> v1::Instance {
        match answer(name, id) {
            Ok(Outcome::Found(instance)) => instance,
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
        assert_eq!(by_id.power_state(), v1::PowerState::Shutdown);
    }

    #[test]
    fn what_is_no_machine_is_told_apart() {
        assert!(matches!(answer("gone", ""), Ok(Outcome::Absent(_))));
        let foreign = answer("foreign", "other-cloud://i-1");
        assert!(matches!(foreign, Ok(Outcome::NotManaged(_))));
        assert!(answer("malformed", &format!("{SCHEME}not an id")).is_err());
    }
}
