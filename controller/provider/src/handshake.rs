//! The handshake: the request, and the check of its answer.
//!
//! The connection calls [`accept`] with each answer. A declaration that breaks the contract refuses the provider as a
//! whole, in a sentence that names the field; zero means the default of the contract, and a number beyond its limit is cut.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, DEFAULT_MAX_MESSAGE_BYTES, MINOR, v1};
use outrigger_core::{
    cidr::Cidr,
    effects::{AllowedEffects, GrantedPrefixes},
    forbidden_addresses::ForbiddenAddresses,
    node::ownership::Prefixes,
    service::capability::Capability,
    syntax,
    targets::TargetRules,
    text,
    volume::ServedVolumes,
};

use super::{
    DownCause, Error, Options,
    load_balancers::options,
    session::{HandshakeResult, InstancesCapability, LoadBalancersCapability, RoutesCapability},
    state::Outage,
    volumes::{self, VolumesCapability},
};

/// Lowest minor revision that is spoken.
const MIN_MINOR: u32 = 1;
/// Names, ids and keys, in bytes.
const MAX_NAME: usize = 253;
/// Entries of a list of prefixes or keys.
const MAX_ENTRIES: usize = 64;
/// With less, a provider could not receive a single Node.
const MIN_MESSAGE: u64 = 64 << 10;
const DEFAULT_BATCH: u32 = 100;
const MAX_BATCH: u32 = 200;
const DEFAULT_IN_FLIGHT: u32 = 16;
const MAX_IN_FLIGHT: u32 = 256;
const DEFAULT_VISIBILITY_DELAY: Duration = Duration::from_mins(1);
/// A longer delay would keep the Nodes of deleted machines for ever.
const MAX_VISIBILITY_DELAY: Duration = Duration::from_hours(24);

/// An answer that is refused.
fn bad(what: impl std::fmt::Display) -> Outage {
    Outage::new(
        DownCause::BadHandshake,
        format!("the provider's answer to the handshake breaks the contract: {what}"),
    )
}

/// Reads an error of the call as a refusal. `None` when trying again soon may help.
pub(super) fn refusal(error: &Error) -> Option<Outage> {
    let reason = match error {
        Error::NotServed { .. } => {
            "what listens there does not serve cloudprovider.v1 (Handshake is not \
             implemented); is it a provider for Outrigger?"
                .to_owned()
        }
        Error::Refused {
            reason: v1::ErrorReason::VersionUnsupported,
            message,
            ..
        } => format!(
            "the provider speaks no common revision of cloudprovider.v1 (the controller \
             speaks {MIN_MINOR} to {MINOR}): {message}; upgrade the older of the two"
        ),
        _ => return None,
    };
    Some(Outage::new(DownCause::Incompatible, reason))
}

/// Facts about this controller.
pub(super) fn request(options: &Options, cluster_uid: &str) -> v1::HandshakeRequest {
    v1::HandshakeRequest {
        min_minor: MIN_MINOR,
        max_minor: MINOR,
        controller_name: options.controller_name.clone(),
        controller_version: options.controller_version.clone(),
        kubernetes_version: options.kubernetes_version.clone(),
        cluster: Some(v1::ClusterInfo {
            name: options.cluster.name.clone(),
            uid: cluster_uid.to_owned(),
            pod_cidrs: options.cluster.pod_cidrs.clone(),
            service_cidrs: options.cluster.service_cidrs.clone(),
        }),
        max_receive_message_bytes: CONTROLLER_MAX_MESSAGE_BYTES as u64,
    }
}

/// Checks an answer. `last` is the last one that was accepted since the controller started.
pub(super) fn accept(
    options: &Options,
    last: Option<&HandshakeResult>,
    answer: v1::HandshakeResponse,
) -> Result<HandshakeResult, Outage> {
    if answer.minor == 0 {
        return Err(bad(
            "minor is not set; it is the lower of both maxima, so 1 where both speak only that",
        ));
    }
    if !(MIN_MINOR..=MINOR).contains(&answer.minor) {
        return Err(Outage::new(
            DownCause::Incompatible,
            format!(
                "the provider chose revision {} of cloudprovider.v1, the controller speaks \
                 {MIN_MINOR} to {MINOR}; upgrade the older of the two",
                answer.minor
            ),
        ));
    }
    let name = accept_name(options, last, &answer.provider_name)?;
    if answer.without_cluster_id && !options.allow_untagged {
        return Err(Outage::new(
            DownCause::NoClusterId,
            format!(
                "provider {name}: the cloud has no cluster id that separates this cluster's resources from another's; give it one, or set --allow-untagged-cloud"
            ),
        ));
    }
    if answer.boot_id.is_empty() {
        return Err(bad(
            "boot_id is empty; it is required, new for each process, and the same in GetStatus",
        ));
    }
    if answer.boot_id.len() > 64 {
        return Err(bad("boot_id has more than 64 bytes"));
    }
    let max_send = match answer.max_receive_message_bytes {
        0 => DEFAULT_MAX_MESSAGE_BYTES,
        less if less < MIN_MESSAGE => {
            return Err(bad(format!(
                "max_receive_message_bytes is {less}, at least {MIN_MESSAGE} are needed"
            )));
        }
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    };
    let offered = answer.capabilities.unwrap_or_default();
    let declared = offered.clone();
    let effects = offered.effects;
    let effects = effects.map(|effects| accept_effects(effects, &options.effect_prefixes));
    let (on_services, on_nodes, effects_not_granted) = match effects.transpose()? {
        Some((services, nodes, not_granted)) => (services, Some(nodes), not_granted),
        None => Default::default(),
    };
    let services = options.cluster.service_cidrs.iter();
    let forbidden = ForbiddenAddresses::new(services.filter_map(|range| Cidr::parse(range)));
    let reads = entries(
        "service_annotation_prefixes",
        answer.service_annotation_prefixes,
    )?;
    Ok(HandshakeResult {
        version: text::cut(&answer.provider_version, MAX_NAME).into(),
        minor: answer.minor,
        boot_id: answer.boot_id.into(),
        instances: offered
            .instances
            .map(|instances| accept_instances(&name, instances, forbidden.clone()))
            .transpose()?
            .map(Arc::new),
        load_balancers: offered
            .load_balancers
            .map(|offered| accept_load_balancers(&name, offered, reads, on_services, forbidden))
            .transpose()?,
        routes: offered.routes.map(|offered| RoutesCapability {
            max_in_flight: in_flight(offered.max_in_flight),
        }),
        volumes: offered
            .volumes
            .map(|offered| accept_volumes(&name, offered))
            .transpose()?,
        node_effects: on_nodes,
        effects_not_granted,
        node_annotation_prefixes: entries(
            "node_annotation_prefixes",
            answer.node_annotation_prefixes,
        )?,
        max_send_bytes: max_send,
        rates: answer.rate_limits,
        declared,
        name,
    })
}

fn accept_name(
    options: &Options,
    last: Option<&HandshakeResult>,
    name: &str,
) -> Result<Box<str>, Outage> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 63 || !name.bytes().all(legal) {
        return Err(bad(format!(
            "provider_name \"{}\" is not 1 to 63 of a-z, 0-9 and -",
            text::cut(name, 64)
        )));
    }
    if let Some(expected) = &options.expected_name
        && expected != name
    {
        return Err(Outage::new(
            DownCause::WrongName,
            format!(
                "the provider calls itself {name}, but --cloud-provider is {expected}; point \
                 --provider-endpoint at provider {expected}, or change the flag"
            ),
        ));
    }
    if let Some(earlier_name) = last.map(|last| &*last.name)
        && earlier_name != name
    {
        return Err(Outage::new(
            DownCause::WrongName,
            format!(
                "the provider was {earlier_name} and now calls itself {name}; nodes of one must not be \
                 looked up with the other: bring back {earlier_name}, or restart the controller"
            ),
        ));
    }
    Ok(name.into())
}

fn accept_instances(
    name: &str,
    instances: v1::InstancesCapability,
    forbidden: ForbiddenAddresses,
) -> Result<InstancesCapability, Outage> {
    let mut preference = instances.lookup_preference();
    if preference == v1::LookupPreference::ListAll && !instances.list {
        preference = v1::LookupPreference::Batch;
    }
    let visibility_delay = match instances.visibility_delay {
        None => DEFAULT_VISIBILITY_DELAY,
        Some(delay) => Duration::try_from(delay)
            .ok()
            .filter(|delay| *delay <= MAX_VISIBILITY_DELAY)
            .ok_or_else(|| bad("instances.visibility_delay is not 0 to 24 h"))?,
    };
    let prefixes = entries(
        "instances.provider_id_prefixes",
        instances.provider_id_prefixes,
    )?;
    Ok(InstancesCapability {
        max_batch_size: limit(instances.max_batch_size, DEFAULT_BATCH, MAX_BATCH),
        preference,
        prefixes: Prefixes::new(name, prefixes).map_err(bad)?,
        visibility_delay,
        without_provider_id: instances.without_provider_id,
        managed_label_keys: label_keys(
            "instances.managed_label_keys",
            instances.managed_label_keys,
        )?,
        allocates_pod_cidrs: instances.allocates_pod_cidrs,
        forbidden,
    })
}

fn accept_load_balancers(
    name: &str,
    offered: v1::LoadBalancersCapability,
    reads: Box<[Box<str>]>,
    effects: AllowedEffects,
    forbidden: ForbiddenAddresses,
) -> Result<LoadBalancersCapability, Outage> {
    if offered.configuration_revision.len() > 64 {
        return Err(bad(
            "load_balancers.configuration_revision has more than 64 bytes",
        ));
    }
    let options = offered.options.as_ref().map(options::served);
    let capability = Capability {
        provider: name.into(),
        classes: entries("load_balancers.classes", offered.classes)?,
        without_default_class: offered.without_default_class,
        configuration_revision: offered.configuration_revision.into(),
        reads,
        effects,
        targets: TargetRules {
            // In an order of ours, each once.
            label_keys: BTreeSet::from_iter(label_keys(
                "load_balancers.target_label_keys",
                offered.target_label_keys,
            )?)
            .into_iter()
            .collect(),
        },
        options: options.transpose().map_err(bad)?.unwrap_or_default(),
    };
    Ok(LoadBalancersCapability {
        capability: capability.into(),
        max_in_flight: in_flight(offered.max_in_flight),
        forbidden,
    })
}

fn accept_volumes(name: &str, offered: v1::VolumesCapability) -> Result<VolumesCapability, Outage> {
    let kinds = offered.source_kinds().filter_map(volumes::kind).collect();
    let served = ServedVolumes {
        provider: name.into(),
        csi_drivers: entries("volumes.csi_drivers", offered.csi_drivers)?,
        kinds,
    };
    Ok(VolumesCapability {
        served: served.into(),
        max_in_flight: in_flight(offered.max_in_flight),
    })
}

/// The effects on Services and on Nodes that the provider may have, and the prefixes that it declares and under which
/// nothing is granted.
type AcceptedEffects = (AllowedEffects, AllowedEffects, Box<[Box<str>]>);

/// Checks the prefixes of effects. No grant reaches a domain of Kubernetes or of this controller.
fn accept_effects(
    effects: v1::EffectsCapability,
    granted: &GrantedPrefixes,
) -> Result<AcceptedEffects, Outage> {
    let services = entries(
        "effects.service_annotation_prefixes",
        effects.service_annotation_prefixes,
    )?;
    let nodes = entries(
        "effects.node_annotation_prefixes",
        effects.node_annotation_prefixes,
    )?;
    let conditions = entries(
        "effects.condition_type_prefixes",
        effects.condition_type_prefixes,
    )?;
    let declared = [&services, &nodes, &conditions].into_iter().flatten();
    let not_granted = declared.filter(|declared| !granted.reaches(declared));
    let not_granted: BTreeSet<_> = not_granted.cloned().collect();
    let allowed = |annotations, conditions| AllowedEffects {
        annotations,
        conditions,
        granted: granted.clone(),
    };
    Ok((
        allowed(services, conditions.clone()),
        allowed(nodes, conditions),
        not_granted.into_iter().collect(),
    ))
}

const fn in_flight(declared: u32) -> usize {
    limit(declared, DEFAULT_IN_FLIGHT, MAX_IN_FLIGHT)
}

/// A limit as declared: 0 stands for the default, and more than `most` is cut.
const fn limit(declared: u32, default: u32, most: u32) -> usize {
    let limit = if declared == 0 { default } else { declared };
    (if limit > most { most } else { limit }) as usize
}

/// The entries of a list whose empty form means "all" or "none": so none may be empty.
fn entries(field: &str, list: Vec<String>) -> Result<Box<[Box<str>]>, Outage> {
    if list.len() > MAX_ENTRIES {
        return Err(bad(format!(
            "{field} has {} entries, at most {MAX_ENTRIES} are possible",
            list.len()
        )));
    }
    list.into_iter()
        .map(|entry| {
            let visible = entry.bytes().all(|b| b.is_ascii_graphic());
            if entry.is_empty() || entry.len() > MAX_NAME || !visible {
                return Err(bad(format!(
                    "{field} has the entry \"{}\", which is not 1 to {MAX_NAME} visible characters",
                    text::cut(&entry, 64)
                )));
            }
            Ok(entry.into())
        })
        .collect()
}

/// The entries, each a key that a label can have.
fn label_keys(field: &str, list: Vec<String>) -> Result<Box<[Box<str>]>, Outage> {
    let keys = entries(field, list)?;
    for key in &keys {
        syntax::label_key(key).map_err(|complaint| {
            let key = text::cut(key, 64);
            bad(format!(
                "{field} has the entry \"{key}\", which {complaint}"
            ))
        })?;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
