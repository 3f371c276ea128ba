//! Services that are refused, or that are another controller's.

use outrigger_api::v1::{
    ErrorReason, LoadBalancerAnswer, LoadBalancerDisposition as Disposition, Service,
};

use super::NOT_SERVED;
use crate::{
    call_error::CallError,
    case::{Check, check},
    subject::{Subject, describe, expect_one_of, port},
    verdict::{Stop, Verdict, expect, failed, refused, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-07", async |subject| {
            judge(subject, with_bad_annotations).await
        }),
        check("LBS-35", async |subject| {
            judge(subject, with_bad_protocol).await
        }),
        check("LBS-11", other_class),
        check("LBS-36", without_targets),
        check("LBS-38", refused_change),
        check("LBS-45", full_account),
    ]
}

pub(super) async fn try_ensure(
    subject: &Subject,
    service: &Service,
) -> Verdict<Result<LoadBalancerAnswer, CallError>> {
    let targets = subject.targets(&subject.target_nodes()).await?;
    Ok(subject.ensure_once(service, targets).await)
}

/// Holds an answer against an error with one of these reasons.
pub(super) fn is_refused(
    answered: Result<LoadBalancerAnswer, CallError>,
    reasons: &[ErrorReason],
) -> Verdict {
    let names: Vec<_> = reasons.iter().map(ErrorReason::as_str_name).collect();
    let expected = format!("an error with {}", names.join(" or "));
    refused(answered, reasons, expected, |answer| describe(&answer))
}

pub(super) async fn nothing_made(subject: &Subject, service: &Service) -> Verdict {
    let answer = subject.get(service, None).await?;
    let none = [Disposition::Absent, Disposition::NotManaged];
    let expected = "GetLoadBalancer after the refusal is ABSENT";
    expect_one_of(&none, &answer, expected)
}

/// Holds an Ensure of a Service with a bad part against a refusal that makes nothing.
async fn judge(subject: &Subject, with_bad: fn(&Subject, &Service) -> Option<Refused>) -> Verdict {
    let service = subject.service();
    let (bad, reasons) = with_bad(subject, &service).ok_or_else(annotations_are_not_read)?;
    is_refused(try_ensure(subject, &bad).await?, &reasons)?;
    nothing_made(subject, &service).await
}

/// A Service that must be refused, and the reasons for it.
pub(super) type Refused = (Service, [ErrorReason; 2]);

/// The Service with the annotations of the inputs that must be refused, those that the controller would send.
fn with_bad_annotations(subject: &Subject, service: &Service) -> Option<Refused> {
    let prefixes = &subject.handshake().service_annotation_prefixes;
    let is_read = |key: &str| {
        prefixes.is_empty()
            || prefixes
                .iter()
                .any(|prefix| key.starts_with(prefix.as_str()))
    };
    let mut bad = service.clone();
    let annotations = subject.inputs().services.refused_annotations.clone();
    let read = annotations.into_iter().filter(|(key, _)| is_read(key));
    bad.annotations.extend(read);
    let reasons = [
        ErrorReason::InvalidAnnotation,
        ErrorReason::UnsupportedFeature,
    ];
    (bad.annotations != service.annotations).then_some((bad, reasons))
}

/// The Service with the protocol of the inputs that must be refused.
fn with_bad_protocol(subject: &Subject, service: &Service) -> Option<Refused> {
    let protocol = subject.inputs().services.refused_protocol.as_ref()?;
    let bad = Service {
        ports: vec![port(protocol, 80, 30080)],
        ..service.clone()
    };
    let reasons = [
        ErrorReason::UnsupportedProtocol,
        ErrorReason::UnsupportedFeature,
    ];
    Some((bad, reasons))
}

/// The Service with either.
fn with_bad_part(subject: &Subject, service: &Service) -> Verdict<Refused> {
    let bad = with_bad_annotations(subject, service);
    let bad = bad.or_else(|| with_bad_protocol(subject, service));
    bad.ok_or_else(annotations_are_not_read)
}

fn annotations_are_not_read() -> Stop {
    skipped("the provider declares to read none of services.refusedAnnotations")
}

async fn other_class(subject: &Subject) -> Verdict {
    let service = Service {
        load_balancer_class: Some(NOT_SERVED.to_owned()),
        ..subject.service()
    };
    match try_ensure(subject, &service).await? {
        Ok(answer) => expect_one_of(&[Disposition::NotManaged], &answer, "NOT_MANAGED")?,
        Err(error) => return Err(failed("NOT_MANAGED", error)),
    }
    nothing_made(subject, &service).await
}

async fn without_targets(subject: &Subject) -> Verdict {
    let service = subject.service();
    let answered = subject.ensure_once(&service, None).await;
    is_refused(answered, &[ErrorReason::InvalidRequest])?;
    nothing_made(subject, &service).await
}

async fn refused_change(subject: &Subject) -> Verdict {
    let (service, _) = subject.balanced().await?;
    let (bad, reasons) = with_bad_part(subject, &service)?;
    is_refused(try_ensure(subject, &bad).await?, &reasons)?;
    subject.get_is(&service, Disposition::Ready).await?;
    let ended = subject.delete(&bad).await?;
    expect_one_of(&[Disposition::Absent], &ended, "ABSENT")?;
    nothing_made(subject, &service).await
}

async fn full_account(subject: &Subject) -> Verdict {
    let room = subject.inputs().services.limit.unwrap_or_default();
    let targets = subject.targets(&subject.target_nodes()).await?;
    let expected = format!("an Ensure beyond {room} load balancers is QUOTA_EXCEEDED");
    for made in 0..=room {
        let service = subject.service();
        let answered = subject.ensure_once(&service, targets.clone()).await;
        if let Err(error) = answered {
            let is_full = made > 0 && error.is(ErrorReason::QuotaExceeded);
            return expect(is_full, expected, format!("{made} are made, then {error}"));
        }
    }
    Err(failed(expected, "all are made"))
}
