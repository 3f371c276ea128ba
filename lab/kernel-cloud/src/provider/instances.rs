//! The machines of a cloud of namespaces.

use outrigger_provider_sdk::{
    Address, Context, Error, Instance, InstanceSink, Instances, InstancesCapability, Lookup,
    LookupPreference, Lookups, Node, PowerState, Query,
};

use super::{LinuxProvider, while_waited_for};
use crate::cloud::{Cloud, CloudError, Machine, is_id};

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
                    return Ok(Lookup::not_managed(format!(
                        "{} is of another cloud",
                        node.provider_id
                    )));
                }
            }
            machines
                .iter()
                .find(|machine| machine.provider_id == node.provider_id)
        };
        // The kernel has answered in this call, and shows all machines.
        Ok(machine.map_or_else(Lookup::absent, |machine| Lookup::found(instance(machine))))
    }
}

impl Instances for LinuxProvider {
    fn capability(&self) -> InstancesCapability {
        InstancesCapability::default()
            .with_list(true)
            .with_lookup_preference(LookupPreference::Batch)
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
    let addresses = machine
        .addresses
        .iter()
        .map(|address| Address::InternalIp(*address));
    let hostname = Address::Hostname(machine.name.clone());
    let power = if machine.running {
        PowerState::Running
    } else {
        PowerState::Shutdown
    };
    Instance::new(machine.provider_id.clone())
        .with_node_name(machine.name.clone())
        .with_addresses(addresses.chain([hostname]).collect::<Vec<_>>())
        .with_zone(machine.zone.clone())
        .with_instance_type(machine.kind.clone())
        .with_power_state(power)
}

#[cfg(test)]
mod tests;
