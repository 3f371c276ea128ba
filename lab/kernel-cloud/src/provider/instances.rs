//! The machines of a cloud of namespaces.

use outrigger_provider_sdk::v1::{self, Instance, Node, NodeAddress};
use outrigger_provider_sdk::{
    Context, Error, InstanceSink, Instances, Lookup, Lookups, Outcome, Query,
};

use super::{LinuxProvider, while_waited_for};
use crate::cloud::{Cloud, CloudError, Machine, is_id};
use crate::load_balancer::internal;

impl LinuxProvider {
    async fn machines(&self, ctx: &Context) -> Result<Vec<Machine>, Error> {
        let Some(cloud) = &self.inner.cloud else {
            return Err(Error::capability_disabled(
                "this provider serves no machines",
            ));
        };
        let read = while_waited_for(ctx, cloud.machines()).await?;
        read.map_err(|error| match error {
            CloudError::Kernel(failure) => failure.into(),
            CloudError::Refused(text) => Error::cloud_unavailable(text),
        })
    }

    fn look_up(&self, machines: &[Machine], node: &Node) -> Result<Lookup, Error> {
        let machine = if node.provider_id.is_empty() {
            machines.iter().find(|machine| machine.name == node.name)
        } else {
            let own = self.inner.cloud.as_ref().map(Cloud::name);
            match parse(&node.provider_id)? {
                Some(cloud) if Some(cloud) == own => {}
                _ => {
                    let id = &node.provider_id;
                    return Ok(Outcome::not_managed(format!("{id} is of another cloud")).into());
                }
            }
            machines
                .iter()
                .find(|machine| machine.provider_id == node.provider_id)
        };
        // The kernel has answered in this call, and shows all machines.
        Ok(match machine {
            Some(machine) => Outcome::Found(instance(machine)).into(),
            None => Outcome::absent("the kernel shows no such machine").into(),
        })
    }
}

impl Instances for LinuxProvider {
    fn capability(&self) -> v1::InstancesCapability {
        v1::InstancesCapability {
            list: true,
            lookup_preference: v1::LookupPreference::Batch.into(),
            ..v1::InstancesCapability::default()
        }
    }

    async fn get_instance(&self, ctx: &Context, node: &Node, _: &Query) -> Result<Lookup, Error> {
        self.look_up(&self.machines(ctx).await?, node)
    }

    async fn get_instances(
        &self,
        ctx: &Context,
        nodes: &[Node],
        _: &Query,
    ) -> Result<Lookups, Error> {
        let machines = self.machines(ctx).await?;
        let lookups = nodes
            .iter()
            .map(|node| (node.name.clone(), self.look_up(&machines, node)));
        Ok(lookups.collect())
    }

    async fn list_instances(
        &self,
        ctx: &Context,
        _: &Query,
        instances: &mut InstanceSink,
    ) -> Result<(), Error> {
        let machines = self.machines(ctx).await?;
        instances
            .send_all(machines.iter().map(instance).collect::<Vec<_>>())
            .await
    }
}

/// The cloud that a provider ID names: `linux://CLOUD/i-12345678`. `None`: it is another provider's.
fn parse(provider_id: &str) -> Result<Option<&str>, Error> {
    let Some(rest) = provider_id.strip_prefix("linux://") else {
        return Ok(None);
    };
    match rest.split_once('/') {
        Some((cloud, id)) if !cloud.is_empty() && is_id(id) => Ok(Some(cloud)),
        _ => Err(Error::malformed_provider_id(format!(
            "{provider_id:?} is no ID of a machine, such as linux://demo/i-12345678"
        ))),
    }
}

fn instance(machine: &Machine) -> Instance {
    let addresses = machine.addresses.iter().copied();
    let hostname = NodeAddress {
        r#type: "Hostname".to_owned(),
        address: machine.name.clone(),
    };
    let power = if machine.running {
        v1::PowerState::Running
    } else {
        v1::PowerState::Shutdown
    };
    Instance {
        provider_id: machine.provider_id.clone(),
        node_name: machine.name.clone(),
        addresses: addresses.map(internal).chain([hostname]).collect(),
        zone: machine.zone.clone(),
        instance_type: machine.kind.clone(),
        power_state: power.into(),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use outrigger_provider_sdk::ErrorReason;

    use super::*;

    #[test]
    fn a_provider_id_is_of_a_cloud_or_of_another_provider_or_malformed() {
        assert_eq!(parse("linux://demo/i-0123abcd").unwrap(), Some("demo"));
        assert_eq!(parse("aws:///eu-1a/i-0123abcd").unwrap(), None);
        for malformed in [
            "linux://",
            "linux://demo",
            "linux://demo/0123abcd",
            "linux://demo/i-0123ABCD",
            "linux:///i-0123abcd",
        ] {
            let error = parse(malformed).unwrap_err();
            assert_eq!(
                error.reason(),
                Some(ErrorReason::MalformedProviderId),
                "{malformed}"
            );
        }
    }
}
