//! The limits of what a handshake declares. Beyond them the controller refuses it.

use std::time::Duration;

use outrigger_api::v1::{CallClass, GetStatusRequest, HandshakeResponse};

use crate::{
    capability::Capability,
    case::{Case, must},
    subject::Subject,
    verdict::{Verdict, expect},
};

pub(super) fn cases() -> Vec<Case> {
    vec![
        must("IDN-20", "lists of prefixes, keys and classes have at most 64 entries of visible ASCII")
            .clause("provider.proto", "HandshakeResponse", "Refused at handshake: a list of prefixes, keys or classes with more than 64 entries or with an entry that is not 1 to 253 visible ASCII characters;")
            .check(async |subject| lists(subject.handshake())),
        must("IDN-21", "the largest message that is accepted has 64 KiB or more")
            .clause("provider.proto", "HandshakeResponse.max_receive_message_bytes", "0 means 4 MiB, 1 to 65,535 are refused.")
            .check(async |subject| message_limit(subject.handshake())),
        must("IDN-22", "the visibility delay is 0 to 24 h")
            .of(Capability::Instances)
            .clause("provider.proto", "InstancesCapability.visibility_delay", "Above 24 h: refused.")
            .check(async |subject| visibility_delay(subject)),
        must("IDN-23", "the configuration revision has at most 64 bytes")
            .of(Capability::LoadBalancers)
            .clause("provider.proto", "LoadBalancersCapability.configuration_revision", "Opaque, at most 64 bytes:")
            .check(async |subject| configuration_revision(subject)),
        must("IDN-24", "prefixes of effects are not Kubernetes' own, nor the controller's")
            .clause("provider.proto", "EffectsCapability", "Refused at handshake: an empty prefix; outrigger.dev and kubectl.kubernetes.io; for Nodes and conditions also kubernetes.io and k8s.io with their subdomains.")
            .check(async |subject| effects(subject)),
        must("IDN-25", "each class of calls has one rate limit at most, above 0")
            .clause("provider.proto", "RateLimit.call_class", "At most one limit per class.")
            .check(async |subject| rate_limits(subject.handshake())),
        must("IDN-33", "the times in GetStatus are seconds, with 0 to 999,999,999 nanoseconds")
            .clause("common.proto", "", "Timestamps are by the clock of their sender;")
            .check(status_times),
        must("IDN-26", "GetStatus names at most 32 dependencies and quotas, each with a short name")
            .clause("provider.proto", "GetStatusResponse.dependencies", "Parts that readiness is made of; at most 32.")
            .check(status_limits),
    ]
}

fn lists(handshake: &HandshakeResponse) -> Verdict {
    let declared = handshake.capabilities.clone().unwrap_or_default();
    let instances = declared.instances.unwrap_or_default();
    let load_balancers = declared.load_balancers.unwrap_or_default();
    let volumes = declared.volumes.unwrap_or_default();
    let effects = declared.effects.unwrap_or_default();
    for (field, list) in [
        (
            "service_annotation_prefixes",
            &handshake.service_annotation_prefixes,
        ),
        (
            "node_annotation_prefixes",
            &handshake.node_annotation_prefixes,
        ),
        (
            "InstancesCapability.provider_id_prefixes",
            &instances.provider_id_prefixes,
        ),
        (
            "InstancesCapability.managed_label_keys",
            &instances.managed_label_keys,
        ),
        ("LoadBalancersCapability.classes", &load_balancers.classes),
        ("VolumesCapability.csi_drivers", &volumes.csi_drivers),
        (
            "EffectsCapability.service_annotation_prefixes",
            &effects.service_annotation_prefixes,
        ),
        (
            "EffectsCapability.node_annotation_prefixes",
            &effects.node_annotation_prefixes,
        ),
        (
            "EffectsCapability.condition_type_prefixes",
            &effects.condition_type_prefixes,
        ),
    ] {
        expect(
            list.len() <= 64,
            format!("{field} has at most 64 entries"),
            format!("{} entries", list.len()),
        )?;
        let legal = |entry: &&String| {
            (1..=253).contains(&entry.len()) && entry.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if let Some(entry) = list.iter().find(|entry| !legal(entry)) {
            let expected = format!("entries of {field} are 1 to 253 visible ASCII characters");
            expect(false, expected, format!("{entry:?}"))?;
        }
    }
    Ok(())
}

fn message_limit(handshake: &HandshakeResponse) -> Verdict {
    let bytes = handshake.max_receive_message_bytes;
    expect(
        !(1..65_536).contains(&bytes),
        "max_receive_message_bytes is 0 or at least 65,536",
        bytes,
    )
}

fn visibility_delay(subject: &Subject) -> Verdict {
    let Some(delay) = subject.instances().visibility_delay else {
        return Ok(());
    };
    let read = Duration::try_from(delay);
    let legal = read.is_ok_and(|delay| delay <= Duration::from_hours(24));
    expect(
        legal,
        "visibility_delay is 0 to 24 h",
        format!("{} s {} ns", delay.seconds, delay.nanos),
    )
}

fn configuration_revision(subject: &Subject) -> Verdict {
    let bytes = subject.load_balancers().configuration_revision.len();
    expect(
        bytes <= 64,
        "configuration_revision has at most 64 bytes",
        format!("{bytes} bytes"),
    )
}

fn effects(subject: &Subject) -> Verdict {
    let effects = subject.capabilities().effects.unwrap_or_default();
    let of = |prefix: &str, domain: &str| {
        let host = prefix.split('/').next().unwrap_or_default();
        host == domain || host.ends_with(&format!(".{domain}"))
    };
    let own = |prefix: &String| of(prefix, "outrigger.dev") || of(prefix, "kubectl.kubernetes.io");
    let kubernetes = |prefix: &String| of(prefix, "kubernetes.io") || of(prefix, "k8s.io");
    let wrong = effects
        .service_annotation_prefixes
        .iter()
        .filter(|prefix| own(prefix));
    let rest = effects
        .node_annotation_prefixes
        .iter()
        .chain(&effects.condition_type_prefixes)
        .filter(|prefix| own(prefix) || kubernetes(prefix));
    let wrong: Vec<_> = wrong.chain(rest).collect();
    expect(
        wrong.is_empty(),
        "no prefix of outrigger.dev, kubectl.kubernetes.io, or for Nodes and conditions of \
         kubernetes.io and k8s.io",
        format!("{wrong:?}"),
    )
}

fn rate_limits(handshake: &HandshakeResponse) -> Verdict {
    let mut classes = Vec::new();
    for limit in &handshake.rate_limits {
        let class = limit.call_class();
        expect(
            class != CallClass::Unspecified && limit.qps > 0.0 && limit.qps.is_finite(),
            "a rate limit names its class and a qps above 0",
            format!("class {}, qps {}", limit.call_class, limit.qps),
        )?;
        expect(
            !classes.contains(&class),
            "one rate limit for each class",
            format!("two for {}", class.as_str_name()),
        )?;
        classes.push(class);
    }
    Ok(())
}

async fn status_times(subject: &Subject) -> Verdict {
    let status = subject.client.call(GetStatusRequest {}).await?;
    let successes = status.dependencies.iter().map(|one| one.last_success);
    let resets = status.quotas.iter().map(|one| one.resets_at);
    for time in successes.chain(resets).flatten() {
        let read = jiff::Timestamp::new(time.seconds, time.nanos).ok();
        let is_time = read.is_some() && (0..1_000_000_000).contains(&time.nanos);
        expect(
            is_time,
            "google.protobuf.Timestamp: seconds since 1970, and 0 to 999,999,999 nanoseconds",
            format!("{} s and {} ns", time.seconds, time.nanos),
        )?;
    }
    Ok(())
}

async fn status_limits(subject: &Subject) -> Verdict {
    let status = subject.client.call(GetStatusRequest {}).await?;
    let counts = (status.dependencies.len(), status.quotas.len());
    expect(
        counts.0 <= 32 && counts.1 <= 32,
        "at most 32 dependencies and 32 quotas",
        format!("{} and {}", counts.0, counts.1),
    )?;
    let names = status.dependencies.iter().map(|one| &one.name);
    let mut names = names.chain(status.quotas.iter().map(|one| &one.name));
    let wrong = names.find(|name| !(1..=63).contains(&name.len()));
    expect(
        wrong.is_none(),
        "names of dependencies and quotas have 1 to 63 bytes",
        format!("{:?}", wrong.map(String::as_str).unwrap_or_default()),
    )
}
