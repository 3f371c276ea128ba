//! The inputs without which a case cannot run, one row each.

use ipnet::IpNet;

use crate::inputs::Inputs;

/// True if the inputs have what these keys of the inputs file give: a fact about the cloud that the suite cannot make
/// up. Keys of no row give no answer.
pub(crate) fn are_given(keys: &str, inputs: &Inputs) -> Option<bool> {
    let Inputs {
        instances,
        services,
        routes,
        volumes,
        commands,
        ..
    } = inputs;
    let is_switch = |off: &[String]| !off.is_empty() && !commands.cloud_on.is_empty();
    let is_refused = [
        !services.refused_annotations.is_empty(),
        services.refused_protocol.is_some(),
    ];
    Some(match keys {
        "instances.existing" => !instances.existing.is_empty(),
        "instances.existing (two)" => instances.existing.len() > 1,
        "instances.stopped" => instances.stopped.is_some(),
        "instances.absent" => instances.absent.is_some(),
        "instances.malformedProviderID" => instances.malformed_provider_id.is_some(),
        "services.refusedAnnotations" => is_refused[0],
        "services.refusedProtocol" => is_refused[1],
        "services.refusedAnnotations or services.refusedProtocol" => is_refused.contains(&true),
        "services.secondProtocol" => services.second_protocol.is_some(),
        "services.ipFamilies (two)" => services.ip_families.len() > 1,
        "services.limit" => services.limit.is_some(),
        "services.requestableAddress" => services.requestable_address.is_some(),
        "services.reservedAddressName" => services.reserved_address_name.is_some(),
        "services.internalAnnotations" => !services.internal_annotations.is_empty(),
        "cluster.podCIDRs (of both IP families)" => has_both_families(&inputs.cluster.pod_cidrs),
        "routes.limit" => routes.limit.is_some(),
        "volumes.existing" => !volumes.existing.is_empty(),
        "volumes.absent" => volumes.absent.is_some(),
        "volumes.malformed" => volumes.malformed.is_some(),
        "volumes.foreign" => volumes.foreign.is_some(),
        "volumes.young" => volumes.young.is_some(),
        "secrets" => !inputs.secrets.is_empty(),
        "provider.command" => !inputs.provider.command.is_empty(),
        "commands.cloudOff and commands.cloudOn" => is_switch(&commands.cloud_off),
        "commands.cloudHangs and commands.cloudOn" => is_switch(&commands.cloud_hangs),
        "commands.cloudLimited and commands.cloudOn" => is_switch(&commands.cloud_limited),
        "commands.credentialsOff and commands.cloudOn" => is_switch(&commands.credentials_off),
        "commands.blackhole" => !commands.blackhole.is_empty(),
        "commands.cloudChanges" => !commands.cloud_changes.is_empty(),
        "commands.cloudCalls" => !commands.cloud_calls.is_empty(),
        _ => return None,
    })
}

fn has_both_families(ranges: &[IpNet]) -> bool {
    let is_ipv4 = |net: &IpNet| matches!(net, IpNet::V4(_));
    ranges.iter().any(is_ipv4) && !ranges.iter().all(is_ipv4)
}
