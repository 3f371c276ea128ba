//! Portable options: served as asked, changed or refused before a change, and taken back.

use outrigger_api::v1::{
    ErrorReason, HealthCheck, HealthCheckProtocol, LoadBalancerAnswer,
    LoadBalancerDisposition as Disposition, LoadBalancerOption as Name, LoadBalancerOptions,
    LoadBalancerOptionsCapability, LoadBalancerScheme as Scheme, Service, UintRange,
};

use super::{
    lifecycle::addresses,
    refusals::{is_refused, nothing_made, try_ensure},
};
use crate::{
    case::{Check, check},
    inputs::limit,
    subject::{Subject, Unended, describe, repeated},
    verdict::{Required as _, Verdict, expect, skipped},
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
        check("LBS-59", update_without),
    ]
}

fn offered(subject: &Subject) -> LoadBalancerOptionsCapability {
    subject.load_balancers().options.unwrap_or_default()
}

fn is_fixed(subject: &Subject, option: Name) -> bool {
    offered(subject).fixed.contains(&option.into())
}

/// Asks for the first or the last value of an option; none where the provider declares no value.
fn ask(
    subject: &Subject,
    option: Name,
    is_last: bool,
    options: &mut LoadBalancerOptions,
) -> Option<()> {
    let (offered, inputs) = (offered(subject), &subject.inputs().services);
    let end = |values: &[i32]| {
        let last = values.last().filter(|_| is_last);
        last.or(values.first()).copied()
    };
    match option {
        Name::Scheme => options.scheme = end(&offered.schemes)?,
        Name::ProxyProtocol => options.proxy_protocol = end(&offered.proxy_protocols)?,
        Name::HealthCheck => {
            let offered = offered.health_check?;
            let of = |range: UintRange| if is_last { range.max } else { range.min };
            let value = |range: Option<UintRange>| range.map_or(0, of);
            let protocol = end(&offered.protocols)?;
            let has_path = protocol != i32::from(HealthCheckProtocol::Tcp);
            let path = if is_last { "/live" } else { "/ready" };
            options.health_check = Some(HealthCheck {
                implied: false,
                protocol,
                port: 8080 + u32::from(is_last),
                path: if has_path { path } else { "" }.to_owned(),
                interval_seconds: value(offered.interval_seconds),
                timeout_seconds: value(offered.timeout_seconds),
                healthy_threshold: value(offered.healthy_threshold),
                unhealthy_threshold: value(offered.unhealthy_threshold),
            });
        }
        Name::RequestedAddresses if offered.max_requested_addresses > 0 => {
            options.requested_addresses = vec![inputs.requestable_address.clone()?];
        }
        Name::ReservedAddressNames if offered.max_reserved_address_names > 0 => {
            options.reserved_address_names = vec![inputs.reserved_address_name.clone()?];
        }
        _ => return None,
    }
    Some(())
}

/// The plain Service with each of two values of an option, equal where the provider declares one alone.
fn values(subject: &Subject, plain: &Service, option: Name) -> Verdict<[Service; 2]> {
    let service = |is_last| {
        let mut service = plain.clone();
        let options = service.load_balancer_options.get_or_insert_default();
        ask(subject, option, is_last, options).map(|()| service)
    };
    let both = service(false).zip(service(true));
    let (first, last) = both.ok_or_else(|| {
        let name = option.as_str_name();
        skipped(format!("the provider does not declare {name}"))
    })?;
    Ok([first, last])
}

/// Ensures until READY, and holds Get against it.
async fn serve(subject: &Subject, service: &Service) -> Verdict<LoadBalancerAnswer> {
    let ready = subject.ensure_all(service).await?;
    subject.get_is(service, Disposition::Ready).await?;
    Ok(ready)
}

/// The option is made, changed and taken back; where it is fixed, a change is refused, and the load balancer may stay as it
/// is when the option is taken back. A health check never is: the controller fills one in.
async fn follows(subject: &Subject, option: Name) -> Verdict {
    let plain = subject.service();
    let [first, second] = values(subject, &plain, option)?;
    serve(subject, &first).await?;
    if is_fixed(subject, option) {
        if first != second {
            let answered = try_ensure(subject, &second).await?;
            is_refused(answered, &[ErrorReason::UnsupportedFeature])?;
        }
        subject.get_is(&first, Disposition::Ready).await?;
        if option != Name::HealthCheck {
            serve(subject, &plain).await?;
        }
        return Ok(());
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

async fn requested_address(subject: &Subject) -> Verdict {
    let plain = subject.service();
    let [service, _] = values(subject, &plain, Name::RequestedAddresses)?;
    let ready = serve(subject, &service).await?;
    let address = subject.inputs().services.requestable_address.as_deref();
    let addresses_then = addresses(&ready);
    let mut shown = addresses_then.iter();
    expect(
        // A name stands for the address, too.
        addresses_then.is_empty() || shown.any(|(ip, _)| ip.is_empty() || Some(*ip) == address),
        format!("READY with the address {}", address.unwrap_or_default()),
        describe(&ready),
    )?;
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
    let option = Name::RequestedAddresses;
    let [owner, _] = values(subject, &subject.service(), option)?;
    serve(subject, &owner).await?;
    let plain = subject.service();
    let [second, _] = values(subject, &plain, option)?;
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
    let offered = offered(subject);
    if offered.schemes.is_empty() {
        return Err(skipped("the provider declares no schemes"));
    }
    for scheme in offered.schemes() {
        let plain = subject.service();
        let mut service = plain.clone();
        let options = service.load_balancer_options.get_or_insert_default();
        options.scheme = scheme.into();
        let internal = subject.inputs().services.internal_annotations.clone();
        service.annotations.extend(internal);
        match scheme {
            Scheme::Unspecified => {}
            Scheme::Internal => drop(serve(subject, &service).await?),
            Scheme::InternetFacing => {
                let answered = try_ensure(subject, &service).await?;
                is_refused(answered, &[ErrorReason::ConflictingOptions])?;
                nothing_made(subject, &plain).await?;
            }
        }
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

/// The controller refuses the options of the Service, and gives its load balancer other nodes all the same.
async fn update_without(subject: &Subject) -> Verdict {
    let option = Name::Scheme;
    let schemes = values(subject, &subject.service(), option)?;
    for service in schemes.iter().skip(is_fixed(subject, option).into()) {
        serve(subject, service).await?;
        let without = Service {
            load_balancer_options: None,
            ..service.clone()
        };
        let targets = subject.targets(&[]).await?;
        let call = async || subject.update(&without, targets.clone()).await;
        let within = limit(subject.inputs().limits.ready);
        match repeated(within, &[Disposition::Ready], call).await {
            Err(Unended::Error(error)) if error.is(ErrorReason::InvalidAnnotation) => {}
            ended => ended
                .map(drop)
                .required("an update without options is READY, or INVALID_ANNOTATION")?,
        }
        subject.get_is(service, Disposition::Ready).await?;
    }
    Ok(())
}
