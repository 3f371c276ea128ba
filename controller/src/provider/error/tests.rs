use std::{io, sync::Arc};

use outrigger_api::v1::ErrorReason;
use tonic_types::{ErrorDetails, StatusExt};

use super::*;

const RPC: &str = "BatchGetInstances";
const DEADLINE: Duration = Duration::from_secs(30);

fn refusal(code: Code, reason: &str, retry: Option<u64>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, ERROR_DOMAIN, []);
    if let Some(retry) = retry {
        details.set_retry_info(Some(Duration::from_secs(retry)));
    }
    Status::with_error_details(code, "why", details)
}

fn read(status: &Status) -> Error {
    Error::from_status(RPC, DEADLINE, status)
}

#[test]
fn every_reason_has_a_class_under_its_code() {
    use Code as C;
    use ErrorClass as E;
    use ErrorReason as R;
    let table = [
        (R::InvalidRequest, C::InvalidArgument, E::Invalid),
        (R::InvalidAnnotation, C::InvalidArgument, E::Invalid),
        (R::UnsupportedProtocol, C::InvalidArgument, E::Invalid),
        (R::MalformedProviderId, C::InvalidArgument, E::Invalid),
        (R::DependencyNotReady, C::FailedPrecondition, E::NotReady),
        (R::ConflictingResource, C::FailedPrecondition, E::NotReady),
        (R::NodeSetUnknown, C::FailedPrecondition, E::Conflict),
        (R::NodeSetBaseMismatch, C::FailedPrecondition, E::Conflict),
        (R::NotHandshaked, C::FailedPrecondition, E::Unavailable),
        (R::VersionUnsupported, C::FailedPrecondition, E::Unavailable),
        (
            R::OperationInProgress,
            C::Aborted,
            E::InProgress { retry_after: None },
        ),
        (R::Conflict, C::Aborted, E::Conflict),
        (
            R::RateLimited,
            C::ResourceExhausted,
            E::RateLimited { retry_after: None },
        ),
        (R::QuotaExceeded, C::ResourceExhausted, E::Quota),
        (
            R::Overloaded,
            C::ResourceExhausted,
            E::RateLimited { retry_after: None },
        ),
        (
            R::CredentialsInvalid,
            C::Unauthenticated,
            E::Unauthenticated,
        ),
        (R::PermissionMissing, C::PermissionDenied, E::Forbidden),
        (R::CloudUnavailable, C::Unavailable, E::Unavailable),
        (R::ShuttingDown, C::Unavailable, E::Unavailable),
        (R::CapabilityDisabled, C::Unimplemented, E::Unimplemented),
    ];
    for (reason, code, class) in table {
        let status = refusal(code, reason_name(reason), None);
        let error = read(&status);
        assert_eq!(error.class(), class, "{reason:?}");
        if reason != R::CapabilityDisabled {
            assert_eq!(error.reason(), Some(reason));
            assert_eq!(error.to_string(), format!("why ({})", reason_name(reason)));
        }
        let item = RpcStatus::decode(status.details()).unwrap();
        assert_eq!(Error::from_item(RPC, &item), Some(error));
    }
    // Complete: all that the contract knows but UNSPECIFIED.
    let known = (0..1000)
        .filter_map(|n| ErrorReason::try_from(n).ok())
        .count();
    assert_eq!(known, table.len() + 1);
}

#[test]
fn a_reason_of_a_later_minor_is_the_first_of_its_code() {
    let check = |code, reason| {
        assert_eq!(
            read(&refusal(code, "BRAND_NEW", None)).reason(),
            Some(reason),
            "{code:?}"
        );
        assert_eq!(
            read(&refusal(code, "UNSPECIFIED", None)).reason(),
            Some(reason)
        );
        assert_eq!(read(&refusal(code, "", None)).reason(), Some(reason));
    };
    check(Code::InvalidArgument, ErrorReason::InvalidRequest);
    check(Code::FailedPrecondition, ErrorReason::DependencyNotReady);
    check(Code::Aborted, ErrorReason::OperationInProgress);
    check(Code::ResourceExhausted, ErrorReason::RateLimited);
    check(Code::Unauthenticated, ErrorReason::CredentialsInvalid);
    check(Code::PermissionDenied, ErrorReason::PermissionMissing);
    check(Code::Unavailable, ErrorReason::CloudUnavailable);
    assert!(matches!(
        read(&refusal(Code::Unimplemented, "BRAND_NEW", None)),
        Error::NotServed { .. }
    ));
    assert!(matches!(
        read(&refusal(Code::Internal, "BRAND_NEW", None)),
        Error::Unexplained {
            code: "INTERNAL",
            ..
        }
    ));
}

#[test]
fn when_to_call_again_is_read() {
    let limited = read(&refusal(Code::ResourceExhausted, "RATE_LIMITED", Some(7)));
    let retry_after = Some(Duration::from_secs(7));
    assert_eq!(limited.class(), ErrorClass::RateLimited { retry_after });
    let busy = read(&refusal(Code::Aborted, "OPERATION_IN_PROGRESS", Some(7)));
    assert_eq!(busy.class(), ErrorClass::InProgress { retry_after });
    let zero = read(&refusal(Code::Aborted, "OPERATION_IN_PROGRESS", Some(0)));
    assert_eq!(zero.class(), ErrorClass::InProgress { retry_after: None });
}

#[test]
fn without_the_providers_own_word_the_outcome_is_unknown() {
    let foreign = {
        let mut details = ErrorDetails::new();
        details.set_error_info("RATE_LIMITED", "cloud.example", []);
        Status::with_error_details(Code::ResourceExhausted, "why", details)
    };
    let twice = {
        let mut status =
            pb::Status::decode(refusal(Code::Aborted, "CONFLICT", None).details()).unwrap();
        status.details.push(status.details[0].clone());
        Status::with_details(Code::Aborted, "why", status.encode_to_vec().into())
    };
    let torn = Status::with_details(Code::Aborted, "why", vec![0xff; 9].into());
    for code in 1..=16 {
        let bare = Status::new(Code::from_i32(code), "why");
        let expected = if code == Code::Unimplemented as i32 {
            ErrorClass::Unimplemented
        } else {
            ErrorClass::Transient
        };
        assert_eq!(read(&bare).class(), expected, "{bare:?}");
    }
    for status in [foreign, twice, torn] {
        assert_eq!(read(&status).class(), ErrorClass::Transient, "{status:?}");
    }
}

#[test]
fn where_a_status_comes_from_is_asked_before_its_code() {
    // What tonic makes of a killed provider, under codes that mean something else.
    for code in [
        Code::Unknown,
        Code::Cancelled,
        Code::Unavailable,
        Code::Unimplemented,
    ] {
        let mut status = refusal(code, "CONFLICT", None);
        status.set_source(Arc::new(io::Error::from(io::ErrorKind::BrokenPipe)));
        assert_eq!(read(&status), Error::ConnectionLost { rpc: RPC });
    }
}

#[test]
fn an_item_with_code_ok_is_no_error() {
    assert_eq!(Error::from_item(RPC, &RpcStatus::default()), None);
}

#[test]
fn a_message_is_fit_to_be_shown() {
    let status = Status::internal(format!("a\nb\u{1b}[31m{}", "x".repeat(5000)));
    let text = read(&status).to_string();
    assert!(text.contains("a\\nb\\u{1b}[31mxxx"), "{text}");
    assert!(text.len() < 1200);
}

/// Beside an error, as the SDK packs them: written as far as the provider may, and not at all where it
/// declared none.
#[test]
fn effects_come_with_a_refusal() {
    let effects = KubernetesEffects {
        set_annotations: [("example.com/id".to_owned(), "1".to_owned())].into(),
        remove_annotations: vec!["other.example/id".to_owned()],
        ..KubernetesEffects::default()
    };
    let status = refusal(Code::ResourceExhausted, "QUOTA_EXCEEDED", None);
    let mut details = pb::Status::decode(status.details()).unwrap();
    details.details.push(prost_types::Any {
        type_url: EFFECTS.to_owned(),
        value: effects.encode_to_vec(),
    });
    let bytes = details.encode_to_vec();
    let error = read(&Status::with_details(status.code(), "why", bytes.into()));
    assert!(matches!(
        &error,
        Error::Refused { effects: Some(raw), .. } if raw.set_annotations.len() == 1
    ));
    let failure = error.failure(None);
    assert_eq!(failure.effects.annotations, []);
    assert_eq!(&*failure.reason, "QuotaExceeded");
}
