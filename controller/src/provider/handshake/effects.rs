//! The effects that a provider may declare: never under reserved prefixes.

use outrigger_api::v1;

use super::{RefusedHandshake, entries};

/// Only the controller and kubectl write under these.
const RESERVED: [&str; 2] = ["outrigger.dev", "kubectl.kubernetes.io"];
/// Of Kubernetes itself, for Nodes and conditions.
const KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// Checks what it asks for.
pub(super) fn accept(
    effects: v1::EffectsCapability,
) -> Result<v1::EffectsCapability, RefusedHandshake> {
    let lists = [
        (
            "effects.service_annotation_prefixes",
            &effects.service_annotation_prefixes,
            false,
        ),
        (
            "effects.node_annotation_prefixes",
            &effects.node_annotation_prefixes,
            true,
        ),
        (
            "effects.condition_type_prefixes",
            &effects.condition_type_prefixes,
            true,
        ),
    ];
    for (field, prefixes, kubernetes_too) in lists {
        for prefix in entries(field, prefixes.clone())? {
            let reserved = RESERVED.iter().any(|domain| reaches(&prefix, domain))
                || kubernetes_too
                    && KUBERNETES
                        .iter()
                        .any(|domain| reaches_under(&prefix, domain));
            if reserved {
                return Err(RefusedHandshake::bad(format!(
                    "{field} asks for {prefix:?}, which is not a provider's to write"
                )));
            }
        }
    }
    Ok(effects)
}

/// Whether keys under `domain/` may begin with `prefix`: `out`, `outrigger.dev`, `outrigger.dev/x`.
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
