//! The effects that a provider may declare: never under reserved prefixes.

use std::collections::BTreeSet;

use outrigger_api::v1;
use outrigger_core::effects::{AllowedEffects, GrantedPrefixes};

use super::{RefusedHandshake, entries};

/// Only the controller and kubectl write under these.
const RESERVED: [&str; 2] = ["outrigger.dev", "kubectl.kubernetes.io"];
/// Domains of Kubernetes itself, for keys of Nodes and types of conditions.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The effects of an accepted handshake.
pub(super) struct AcceptedEffects {
    pub(super) on_services: AllowedEffects,
    pub(super) on_nodes: AllowedEffects,
    /// Prefixes under which nothing is granted.
    pub(super) not_granted: Box<[Box<str>]>,
}

/// Checks the prefixes that the provider declares. A prefix that is not `granted` does not fail the handshake.
pub(super) fn accept(
    effects: v1::EffectsCapability,
    granted: &GrantedPrefixes,
) -> Result<AcceptedEffects, RefusedHandshake> {
    let services = prefixes(
        "effects.service_annotation_prefixes",
        effects.service_annotation_prefixes,
        false,
    )?;
    let nodes = prefixes(
        "effects.node_annotation_prefixes",
        effects.node_annotation_prefixes,
        true,
    )?;
    let conditions = prefixes(
        "effects.condition_type_prefixes",
        effects.condition_type_prefixes,
        true,
    )?;
    let declared: BTreeSet<_> = [&services, &nodes, &conditions]
        .into_iter()
        .flatten()
        .collect();
    let not_granted = declared
        .into_iter()
        .filter(|declared| !granted.reaches(declared))
        .cloned()
        .collect();
    let allowed = |annotations, conditions| AllowedEffects {
        annotations,
        conditions,
        granted: granted.clone(),
    };
    Ok(AcceptedEffects {
        on_services: allowed(services, conditions.clone()),
        on_nodes: allowed(nodes, conditions),
        not_granted,
    })
}

fn prefixes(
    field: &str,
    list: Vec<String>,
    kubernetes_too: bool,
) -> Result<Box<[Box<str>]>, RefusedHandshake> {
    let prefixes = entries(field, list)?;
    for prefix in &prefixes {
        let reserved = RESERVED.iter().any(|domain| reaches(prefix, domain))
            || kubernetes_too
                && KUBERNETES
                    .iter()
                    .any(|domain| reaches_under(prefix, domain));
        if reserved {
            return Err(RefusedHandshake::bad(format!(
                "{field} asks for {prefix:?}, which is not a provider's to write"
            )));
        }
    }
    Ok(prefixes)
}

/// Returns true if keys under `domain/` may begin with `prefix`: `out`, `outrigger.dev`, `outrigger.dev/x`.
fn reaches(prefix: &str, domain: &str) -> bool {
    domain.starts_with(prefix)
        || prefix
            .strip_prefix(domain)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// [`reaches`] for `domain` and everything that ends in `.domain`. A prefix without a slash may still
/// grow into such a domain, so whoever writes looks at each key besides.
fn reaches_under(prefix: &str, domain: &str) -> bool {
    let host = prefix.split_once('/').map_or(prefix, |(host, _)| host);
    let below = host
        .strip_suffix(domain)
        .is_some_and(|rest| rest.ends_with('.'));
    below || reaches(prefix, domain)
}
