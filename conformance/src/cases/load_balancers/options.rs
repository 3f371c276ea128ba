//! Portable options: served as asked, changed or refused before a change, and taken back.

use outrigger_api::v1::{
    ErrorReason, HealthCheck, HealthCheckCapability, HealthCheckProtocol, LoadBalancerAnswer,
    LoadBalancerDisposition as Disposition, LoadBalancerOption as Name, LoadBalancerOptions,
    LoadBalancerOptionsCapability, LoadBalancerScheme as Scheme, Service, UintRange,
};

use super::{
    lifecycle::addresses,
    refusals::{is_refused, nothing_made, try_ensure},
};
use crate::{
    case::{Check, check},
    subject::{Subject, describe},
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-50", async |subject| {
            follows(subject, Name::Scheme).await
        }),
        check("LBS-51", async |subject| {
            follows(subject, Name::ProxyProtocol).await
        }),
        check("LBS-52", async |subject| {
            follows(subject, Name::HealthCheck).await
        }),
        check("LBS-53", implied_check),
        check("LBS-54", requested_address),
        check("LBS-55", address_of_another),
        check("LBS-56", async |subject| {
            follows(subject, Name::ReservedAddressNames).await
        }),
        check("LBS-57", contradicted),
        check("LBS-58", differs),
    ]
}

fn offered(subject: &Subject) -> LoadBalancerOptionsCapability {
    subject.load_balancers().options.unwrap_or_default()
}

fn is_fixed(subject: &Subject, option: Name) -> bool {
    offered(subject).fixed.contains(&option.into())
}

/// A Service that asks for something else than the plain one.
fn asking(plain: &Service, change: impl FnOnce(&mut LoadBalancerOptions)) -> Service {
    let mut service = plain.clone();
    change(service.load_balancer_options.get_or_insert_default());
    service
}

/// The plain Service with each of two values of an option; twice the same where the provider declares no other.
fn values(subject: &Subject, plain: &Service, option: Name) -> Verdict<[Service; 2]> {
    let offered = offered(subject);
    let reserved = subject.inputs().services.reserved_address_name.iter();
    let options = || plain.load_balancer_options.clone().unwrap_or_default();
    let values: Vec<_> = match option {
        Name::Scheme => { offered.schemes.iter() }
            .map(|scheme| LoadBalancerOptions {
                scheme: *scheme,
                ..options()
            })
            .collect(),
        Name::ProxyProtocol => { offered.proxy_protocols.iter() }
            .map(|version| LoadBalancerOptions {
                proxy_protocol: *version,
                ..options()
            })
            .collect(),
        Name::HealthCheck => { offered.health_check.iter().flat_map(health_checks) }
            .map(|check| LoadBalancerOptions {
                health_check: Some(check),
                ..options()
            })
            .collect(),
        Name::ReservedAddressNames => {
            { reserved.take(offered.max_reserved_address_names as usize) }
                .map(|name| LoadBalancerOptions {
                    reserved_address_names: vec![name.clone()],
                    ..options()
                })
                .collect()
        }
        Name::RequestedAddresses | Name::Unspecified => Vec::new(),
    };
    let service = |options| Service {
        load_balancer_options: Some(options),
        ..plain.clone()
    };
    let mut values = values.into_iter().map(service);
    let first = values.next().ok_or_else(|| {
        let name = option.as_str_name();
        skipped(format!("the provider does not declare {name}"))
    })?;
    let second = values.next().unwrap_or_else(|| first.clone());
    Ok([first, second])
}

/// Two health checks, from both ends of what is declared.
fn health_checks(offered: &HealthCheckCapability) -> [HealthCheck; 2] {
    let check = |protocol: Option<&i32>, port, path: &str, end: fn(UintRange) -> u32| {
        let protocol = protocol.copied().unwrap_or_default();
        let has_path = protocol != i32::from(HealthCheckProtocol::Tcp);
        let value = |range: Option<UintRange>| range.map_or(0, end);
        HealthCheck {
            implied: false,
            protocol,
            port,
            path: if has_path { path } else { "" }.to_owned(),
            interval_seconds: value(offered.interval_seconds),
            timeout_seconds: value(offered.timeout_seconds),
            healthy_threshold: value(offered.healthy_threshold),
            unhealthy_threshold: value(offered.unhealthy_threshold),
        }
    };
    let protocols = &offered.protocols;
    [
        check(protocols.first(), 8080, "/ready", |range| range.min),
        check(protocols.last(), 8081, "/live", |range| range.max),
    ]
}

/// Ensures until READY, and holds Get against it.
async fn serve(subject: &Subject, service: &Service) -> Verdict<LoadBalancerAnswer> {
    let ready = subject.ensure_all(service).await?;
    subject.get_is(service, Disposition::Ready).await?;
    Ok(ready)
}

/// The option is made, changed and taken back; where it is fixed, a change is refused.
async fn follows(subject: &Subject, option: Name) -> Verdict {
    let plain = subject.service();
    let [first, second] = values(subject, &plain, option)?;
    serve(subject, &first).await?;
    if is_fixed(subject, option) {
        if first != second {
            let answered = try_ensure(subject, &second).await?;
            is_refused(answered, &[ErrorReason::UnsupportedFeature])?;
        }
        return subject.get_is(&first, Disposition::Ready).await;
    }
    let mut defaults = Vec::new();
    for value in [&second, &first] {
        serve(subject, value).await?;
        serve(subject, &plain).await?;
        let answers = [
            subject.get(&first, None).await?,
            subject.get(&second, None).await?,
        ];
        defaults.push(answers.map(|answer| answer.disposition()));
    }
    expect(
        defaults[0] == defaults[1],
        "an option that is taken back has its default, whatever it was before",
        format!("Get with each value afterwards is {defaults:?}"),
    )
}

async fn implied_check(subject: &Subject) -> Verdict {
    if offered(subject).health_check.is_none() {
        return Err(skipped("the provider declares no health checks"));
    }
    let mut service = subject.service();
    serve(subject, &service).await?;
    "Local".clone_into(&mut service.external_traffic_policy);
    service.health_check_node_port = 32_100;
    subject.reset_options(&mut service);
    let changed = try_ensure(subject, &service).await?;
    if changed.is_err_and(|error| error.is(ErrorReason::UnsupportedFeature)) {
        return Err(skipped(
            "externalTrafficPolicy Local is UNSUPPORTED_FEATURE",
        ));
    }
    serve(subject, &service).await.map(drop)
}

/// A Service that asks for the address of the inputs.
fn with_address(subject: &Subject, plain: &Service) -> Verdict<Service> {
    if offered(subject).max_requested_addresses == 0 {
        return Err(skipped("the provider declares no requested addresses"));
    }
    let address = subject.inputs().services.requestable_address.iter();
    Ok(asking(plain, |options| {
        options.requested_addresses.extend(address.cloned());
    }))
}

async fn requested_address(subject: &Subject) -> Verdict {
    let plain = subject.service();
    let service = with_address(subject, &plain)?;
    let ready = serve(subject, &service).await?;
    let address = subject.inputs().services.requestable_address.as_deref();
    let addresses_then = addresses(&ready);
    let mut shown = addresses_then.iter().filter(|(ip, _)| !ip.is_empty());
    expect(
        // A name stands for the address, too.
        shown.clone().next().is_none() || shown.any(|(ip, _)| Some(*ip) == address),
        format!("READY with the address {}", address.unwrap_or_default()),
        describe(&ready),
    )?;
    if is_fixed(subject, Name::RequestedAddresses) {
        return Ok(());
    }
    let kept = serve(subject, &plain).await?;
    expect(
        addresses(&kept) == addresses_then,
        format!(
            "the address stays when it is asked for no longer: {}",
            describe(&ready)
        ),
        describe(&kept),
    )
}

async fn address_of_another(subject: &Subject) -> Verdict {
    let owner = with_address(subject, &subject.service())?;
    serve(subject, &owner).await?;
    let plain = subject.service();
    let second = with_address(subject, &plain)?;
    let answered = try_ensure(subject, &second).await?;
    is_refused(answered, &[ErrorReason::ConflictingResource])?;
    let answer = subject.get(&plain, None).await?;
    expect(
        answer.disposition() != Disposition::Ready,
        "no load balancer with another address",
        describe(&answer),
    )
}

async fn contradicted(subject: &Subject) -> Verdict {
    let schemes = offered(subject).schemes;
    if schemes.is_empty() {
        return Err(skipped("the provider declares no schemes"));
    }
    let internal = subject.inputs().services.internal_annotations.clone();
    let annotated = |plain: &Service, scheme: Scheme| {
        let mut service = asking(plain, |options| options.scheme = scheme.into());
        service.annotations.extend(internal.clone());
        service
    };
    if schemes.contains(&Scheme::InternetFacing.into()) {
        let plain = subject.service();
        let service = annotated(&plain, Scheme::InternetFacing);
        let answered = try_ensure(subject, &service).await?;
        is_refused(answered, &[ErrorReason::ConflictingOptions])?;
        nothing_made(subject, &plain).await?;
    }
    if schemes.contains(&Scheme::Internal.into()) {
        let service = annotated(&subject.service(), Scheme::Internal);
        serve(subject, &service).await?;
    }
    Ok(())
}

async fn differs(subject: &Subject) -> Verdict {
    let mut compared = 0;
    for option in [Name::Scheme, Name::ProxyProtocol, Name::HealthCheck] {
        let plain = subject.service();
        let Ok([first, second]) = values(subject, &plain, option) else {
            continue;
        };
        // A Get of a change that is refused may be the error.
        if first != second && !is_fixed(subject, option) {
            subject.ensure_all(&first).await?;
            subject.get_is(&second, Disposition::Differs).await?;
            compared += 1;
        }
    }
    if compared == 0 {
        return Err(skipped("the provider declares no option with two values"));
    }
    Ok(())
}
