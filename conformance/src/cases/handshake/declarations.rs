//! The limits of what a handshake declares, beyond which the controller refuses it; and that the declared methods alone are
//! served.

use std::time::Duration;

use outrigger_api::{
    METHODS, MethodRequest as _,
    v1::{
        BatchGetInstancesRequest, CallClass, ErrorReason, GetStatusRequest, HandshakeResponse,
        UintRange,
    },
};
use tonic::Code;

use crate::{
    call_error::CallError,
    capability::Capability,
    case::{Check, check},
    labels::is_label_key,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("IDN-20", async |subject| lists(subject.handshake())),
        check("IDN-34", async |subject| label_keys(subject)),
        check("IDN-21", async |subject| message_limit(subject.handshake())),
        check("IDN-22", async |subject| visibility_delay(subject)),
        check("IDN-23", async |subject| configuration_revision(subject)),
        check("IDN-35", async |subject| options(subject)),
        check("IDN-24", async |subject| effects(subject)),
        check("IDN-25", async |subject| rate_limits(subject.handshake())),
        check("IDN-33", status_times),
        check("IDN-26", status_limits),
        check("IDN-30", async |subject| served(subject, true).await),
        check("IDN-31", async |subject| served(subject, false).await),
        check("IDN-32", no_state_per_connection),
    ]
}

fn lists(handshake: &HandshakeResponse) -> Verdict {
    let declared = handshake.capabilities.clone().unwrap_or_default();
    let instances = declared.instances.unwrap_or_default();
    let load_balancers = declared.load_balancers.unwrap_or_default();
    let volumes = declared.volumes.unwrap_or_default();
    let effects = declared.effects.unwrap_or_default();
    let (services, nodes) = (
        &handshake.service_annotation_prefixes,
        &handshake.node_annotation_prefixes,
    );
    for (field, list) in [
        ("service_annotation_prefixes", services),
        ("node_annotation_prefixes", nodes),
        ("provider_id_prefixes", &instances.provider_id_prefixes),
        ("managed_label_keys", &instances.managed_label_keys),
        ("classes", &load_balancers.classes),
        ("target_label_keys", &load_balancers.target_label_keys),
        ("csi_drivers", &volumes.csi_drivers),
        ("effects", &effects.service_annotation_prefixes),
        ("effects", &effects.node_annotation_prefixes),
        ("effects", &effects.condition_type_prefixes),
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

fn label_keys(subject: &Subject) -> Verdict {
    let (instances, load_balancers) = (subject.instances(), subject.load_balancers());
    for (field, keys) in [
        ("managed_label_keys", &instances.managed_label_keys),
        ("target_label_keys", &load_balancers.target_label_keys),
    ] {
        let wrong: Vec<_> = keys.iter().filter(|key| !is_label_key(key)).collect();
        expect(
            wrong.is_empty(),
            format!("entries of {field} are label keys, [prefix/]name"),
            format!("{wrong:?}"),
        )?;
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

fn options(subject: &Subject) -> Verdict {
    let options = subject.load_balancers().options.unwrap_or_default();
    let addresses = options.max_requested_addresses;
    let names = options.max_reserved_address_names;
    let expected = "at most 2 requested addresses, and 8 names of reserved ones";
    let actual = format!("{addresses} and {names}");
    expect(addresses <= 2 && names <= 8, expected, actual)?;
    let Some(check) = options.health_check else {
        return Ok(());
    };
    let expected = "a health check that is declared has a protocol";
    expect(!check.protocols.is_empty(), expected, "none")?;
    for (field, range) in [
        ("interval_seconds", check.interval_seconds),
        ("timeout_seconds", check.timeout_seconds),
        ("healthy_threshold", check.healthy_threshold),
        ("unhealthy_threshold", check.unhealthy_threshold),
    ] {
        let UintRange { min, max } = range.unwrap_or(UintRange { min: 1, max: 1 });
        expect(
            (1..=max).contains(&min) && max <= 86_400,
            format!("{field} has a min of 1 or more, and a max of min to 86,400"),
            format!("{min} to {max}"),
        )?;
    }
    Ok(())
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

fn not_served(error: &CallError) -> bool {
    error.code == Code::Unimplemented || error.is(ErrorReason::CapabilityDisabled)
}

/// Holds the methods of what is declared, or of what is not, against being served or not.
async fn served(subject: &Subject, is_declared: bool) -> Verdict {
    for method in METHODS {
        let capability = Capability::of(method);
        if capability == Capability::Core || subject.declares(capability) != is_declared {
            continue;
        }
        let (name, by) = (method.name, capability.declared_by());
        let expected = if is_declared {
            format!("{name} is served, since {by} is declared")
        } else {
            format!("{name} is UNIMPLEMENTED, since {by} is not declared")
        };
        match subject.client.probe(method).await {
            Ok(()) => expect(is_declared, expected, "it is answered")?,
            Err(error) => expect(not_served(&error) != is_declared, expected, error)?,
        }
    }
    Ok(())
}

async fn no_state_per_connection(subject: &Subject) -> Verdict {
    // The handshake of the case is on another connection.
    let other = subject.dial().await?;
    match other.probe(BatchGetInstancesRequest::METHOD).await {
        Err(error) if error.is(ErrorReason::NotHandshaked) => Err(failed(
            "a handshake on one connection counts for all of the process",
            error,
        )),
        _ => Ok(()),
    }
}
