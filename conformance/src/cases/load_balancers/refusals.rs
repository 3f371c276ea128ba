//! Services that are refused, or that are another controller's.

use outrigger_api::v1::{
    CallContext, DeleteLoadBalancerRequest, EnsureLoadBalancerRequest, ErrorReason,
    GetLoadBalancerRequest, LoadBalancerAnswer, LoadBalancerDisposition as Disposition, Service,
};

use super::NOT_SERVED;
use crate::{
    call_error::CallError,
    case::{Check, check},
    inputs::limit,
    subject::{Subject, Unended, describe, expect_one_of, port, repeated},
    verdict::{Stop, Verdict, expect, failed, refused, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("LBS-07", bad_annotation),
        check("LBS-35", bad_protocol),
        check("LBS-11", other_class),
        check("LBS-36", without_targets),
        check("LBS-37", without_uid),
        check("LBS-08", foreign_annotation),
        check("LBS-38", refused_change),
        check("LBS-45", full_account),
    ]
}

async fn try_ensure(
    subject: &Subject,
    service: &Service,
) -> Verdict<Result<LoadBalancerAnswer, CallError>> {
    let targets = subject.targets(&subject.target_nodes()).await?;
    Ok(subject.ensure_once(service, targets).await)
}

/// Holds an answer against an error with one of these reasons.
fn is_refused(answered: Result<LoadBalancerAnswer, CallError>, reasons: &[ErrorReason]) -> Verdict {
    let names: Vec<_> = reasons.iter().map(ErrorReason::as_str_name).collect();
    let expected = format!("an error with {}", names.join(" or "));
    refused(answered, reasons, expected, |answer| describe(&answer))
}

async fn nothing_made(subject: &Subject, service: &Service) -> Verdict {
    let answer = subject.get(service, None).await?;
    let none = [Disposition::Absent, Disposition::NotManaged];
    let expected = "GetLoadBalancer after the refusal is ABSENT";
    expect_one_of(&none, &answer, expected)
}

/// The Service without its refused part, as Get is to see it.
async fn judge(
    subject: &Subject,
    plain: &Service,
    refused_one: &Service,
    reasons: &[ErrorReason],
) -> Verdict {
    let answered = try_ensure(subject, refused_one).await?;
    is_refused(answered, reasons)?;
    nothing_made(subject, plain).await
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

async fn bad_annotation(subject: &Subject) -> Verdict {
    let service = subject.service();
    let bad = with_bad_annotations(subject, &service);
    let (bad, reasons) = bad.ok_or_else(annotations_are_not_read)?;
    judge(subject, &service, &bad, &reasons).await
}

async fn bad_protocol(subject: &Subject) -> Verdict {
    let service = subject.service();
    let bad = with_bad_protocol(subject, &service);
    let (bad, reasons) =
        bad.ok_or_else(|| skipped("the inputs have no services.refusedProtocol"))?;
    judge(subject, &service, &bad, &reasons).await
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

async fn without_uid(subject: &Subject) -> Verdict {
    subject.needs_cluster_uid()?;
    let service = subject.service();
    let without_uid = || {
        Some(CallContext {
            cluster_uid: String::new(),
            ..subject.client.context()
        })
    };
    let targets = subject.targets(&subject.target_nodes()).await?;
    let call = async || {
        let request = EnsureLoadBalancerRequest {
            context: without_uid(),
            service: Some(service.clone()),
            targets: targets.clone(),
            identity: None,
        };
        let answered = subject.client.call(request).await?;
        Ok(answered.answer.unwrap_or_default())
    };
    let within = limit(subject.inputs().limits.ready);
    // Until it is READY: what is being made need not be found.
    if let Err(Unended::Error(error)) = repeated(within, &[Disposition::Ready], call).await {
        return is_refused(Err(error), &[ErrorReason::InvalidRequest]);
    }
    let own = subject.get(&service, None).await?;
    let request = GetLoadBalancerRequest {
        context: subject.context_of_another_cluster(),
        service: Some(service.clone()),
        targets: None,
        identity: None,
    };
    let of_another = subject.client.call(request).await?;
    let of_another = of_another.answer.unwrap_or_default();
    // By the same name it is found again, and perhaps only so.
    let request = DeleteLoadBalancerRequest {
        context: without_uid(),
        service: Some(service.clone()),
        identity: None,
    };
    subject.client.call(request).await?;
    let exists = |one: &LoadBalancerAnswer| one.disposition() != Disposition::Absent;
    expect(
        exists(&own) && !exists(&of_another),
        "INVALID_REQUEST, or a load balancer of the cluster of the handshake alone",
        format!(
            "it is answered; then GetLoadBalancer is {} for that cluster, {} for another one",
            describe(&own),
            describe(&of_another)
        ),
    )
}

async fn foreign_annotation(subject: &Subject) -> Verdict {
    let prefixes = &subject.handshake().service_annotation_prefixes;
    let key = "conformance.example/ignored";
    if prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix)) {
        return Err(skipped("the provider declares to read all annotations"));
    }
    let mut service = subject.service();
    let nodes = subject.target_nodes();
    let before = subject.ensure(&service, &nodes).await?;
    service.annotations.insert(key.to_owned(), "x".to_owned());
    let after = subject.ensure(&service, &nodes).await?;
    expect(
        before.status == after.status,
        describe(&before),
        describe(&after),
    )
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
    let nodes = subject.target_nodes();
    let targets = subject.targets(&nodes).await?;
    let mut made = Vec::new();
    let refused = loop {
        let service = subject.service();
        match subject.ensure_once(&service, targets.clone()).await {
            Ok(_) => made.push(service),
            Err(error) if error.is(ErrorReason::QuotaExceeded) => break service,
            Err(error) => return Err(failed("QUOTA_EXCEEDED, or an answer", error)),
        }
        expect(
            made.len() <= room,
            format!("an Ensure beyond {room} load balancers is QUOTA_EXCEEDED"),
            format!("{} are made", made.len()),
        )?;
    };
    let Some(first) = made.first() else {
        return Err(failed(
            format!("of {room} load balancers one is made"),
            "the first is QUOTA_EXCEEDED",
        ));
    };
    subject.delete(first).await?;
    subject.ensure(&refused, &nodes).await?;
    Ok(())
}
