//! The inputs without which a case cannot run, one row each.

use ipnet::IpNet;

use crate::inputs::Inputs;

/// A fact about the cloud that the suite cannot make up.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    /// The keys of the inputs file that give it.
    pub keys: &'static str,
    /// True if the inputs have it.
    pub is_given: fn(&Inputs) -> bool,
}

const fn input(keys: &'static str, is_given: fn(&Inputs) -> bool) -> Input {
    Input { keys, is_given }
}

pub(crate) const EXISTING_INSTANCE: Input =
    input("instances.existing", |i| !i.instances.existing.is_empty());
pub(crate) const TWO_EXISTING_INSTANCES: Input = input("instances.existing (two)", |i| {
    i.instances.existing.len() > 1
});
pub(crate) const STOPPED_INSTANCE: Input =
    input("instances.stopped", |i| i.instances.stopped.is_some());
pub(crate) const ABSENT_INSTANCE: Input =
    input("instances.absent", |i| i.instances.absent.is_some());
pub(crate) const MALFORMED_PROVIDER_ID: Input = input("instances.malformedProviderID", |i| {
    i.instances.malformed_provider_id.is_some()
});
pub(crate) const REFUSED_ANNOTATIONS: Input = input("services.refusedAnnotations", |i| {
    !i.services.refused_annotations.is_empty()
});
pub(crate) const REFUSED_SERVICE: Input = input(
    "services.refusedAnnotations or services.refusedProtocol",
    |i| (REFUSED_ANNOTATIONS.is_given)(i) || (REFUSED_PROTOCOL.is_given)(i),
);
pub(crate) const REFUSED_PROTOCOL: Input = input("services.refusedProtocol", |i| {
    i.services.refused_protocol.is_some()
});
pub(crate) const SECOND_PROTOCOL: Input = input("services.secondProtocol", |i| {
    i.services.second_protocol.is_some()
});
pub(crate) const BOTH_IP_FAMILIES: Input = input("services.ipFamilies (two)", |i| {
    i.services.ip_families.len() > 1
});
pub(crate) const BOTH_POD_CIDR_FAMILIES: Input =
    input("cluster.podCIDRs (of both IP families)", |i| {
        has_both_families(&i.cluster.pod_cidrs)
    });
pub(crate) const LOAD_BALANCER_LIMIT: Input =
    input("services.limit", |i| i.services.limit.is_some());
pub(crate) const ROUTE_LIMIT: Input = input("routes.limit", |i| i.routes.limit.is_some());
pub(crate) const EXISTING_VOLUME: Input =
    input("volumes.existing", |i| !i.volumes.existing.is_empty());
pub(crate) const ABSENT_VOLUME: Input = input("volumes.absent", |i| i.volumes.absent.is_some());
pub(crate) const MALFORMED_VOLUME: Input =
    input("volumes.malformed", |i| i.volumes.malformed.is_some());
pub(crate) const FOREIGN_VOLUME: Input = input("volumes.foreign", |i| i.volumes.foreign.is_some());
pub(crate) const YOUNG_VOLUME: Input = input("volumes.young", |i| i.volumes.young.is_some());
pub(crate) const SECRETS: Input = input("secrets", |i| !i.secrets.is_empty());
pub(crate) const PROCESS: Input = input("provider.command", |i| !i.provider.command.is_empty());
pub(crate) const CLOUD_SWITCH: Input = input("commands.cloudOff and commands.cloudOn", |i| {
    is_switch(i, &i.commands.cloud_off)
});
pub(crate) const HANG_SWITCH: Input = input("commands.cloudHangs and commands.cloudOn", |i| {
    is_switch(i, &i.commands.cloud_hangs)
});
pub(crate) const RATE_LIMIT_SWITCH: Input =
    input("commands.cloudLimited and commands.cloudOn", |i| {
        is_switch(i, &i.commands.cloud_limited)
    });
pub(crate) const CREDENTIALS_SWITCH: Input =
    input("commands.credentialsOff and commands.cloudOn", |i| {
        is_switch(i, &i.commands.credentials_off)
    });
pub(crate) const BLACKHOLE: Input =
    input("commands.blackhole", |i| !i.commands.blackhole.is_empty());
pub(crate) const CLOUD_CHANGES: Input = input("commands.cloudChanges", |i| {
    !i.commands.cloud_changes.is_empty()
});
pub(crate) const CLOUD_CALLS: Input = input("commands.cloudCalls", |i| {
    !i.commands.cloud_calls.is_empty()
});

fn is_switch(inputs: &Inputs, command: &[String]) -> bool {
    !command.is_empty() && !inputs.commands.cloud_on.is_empty()
}

fn has_both_families(ranges: &[IpNet]) -> bool {
    let is_ipv4 = |net: &IpNet| matches!(net, IpNet::V4(_));
    ranges.iter().any(is_ipv4) && !ranges.iter().all(is_ipv4)
}
