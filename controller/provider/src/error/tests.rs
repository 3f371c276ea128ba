use std::{io, sync::Arc};

use outrigger_api::{ERROR_DOMAIN, RpcStatus, code_name, v1::ErrorReason};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt, pb};

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
    Error::from_status(RPC, status)
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
        (R::UnsupportedFeature, C::InvalidArgument, E::Invalid),
        (R::ConflictingOptions, C::InvalidArgument, E::Invalid),
        (R::MalformedVolumeHandle, C::InvalidArgument, E::Invalid),
        (R::DependencyNotReady, C::FailedPrecondition, E::NotReady),
        (R::ConflictingResource, C::FailedPrecondition, E::NotReady),
        (R::NodeSetUnknown, C::FailedPrecondition, E::Conflict),
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
        (R::CloudError, C::Internal, E::Transient),
    ];
    for (reason, code, class) in table {
        let status = refusal(code, reason_name(reason), None);
        let error = read(&status);
        assert_eq!(error.class(), class, "{reason:?}");
        assert_eq!(outrigger_api::code_of(reason), code, "{reason:?}");
        if reason == R::CapabilityDisabled {
            continue;
        }
        assert_eq!(error.reason(), Some(reason));
        let shown = match reason {
            // S-36: the cloud's own words.
            R::CloudError => "why".to_owned(),
            reason => format!("why ({})", reason_name(reason)),
        };
        assert_eq!(error.to_string(), shown);
        let item = RpcStatus::decode(status.details()).unwrap();
        assert_eq!(Error::from_item(RPC, &item), Some(error.clone()));
        // Generated code names it so in Go and Python.
        let prefixed = read(&refusal(code, reason.as_str_name(), None));
        assert_eq!(prefixed, error, "{reason:?}");
    }
    // Complete: all that the contract knows but UNSPECIFIED.
    let reasons = (0..1000)
        .filter_map(|n| ErrorReason::try_from(n).ok())
        .count();
    assert_eq!(reasons, table.len() + 1);
}

/// Whatever its code: it concerns one key, which backs off, and is shown as it was sent.
#[test]
fn an_unknown_reason_is_a_failure_of_one_key_and_quoted() {
    for code in (1..=16).map(Code::from_i32) {
        for said in ["SUBNET_FULL", "UNSPECIFIED", ""] {
            let error = read(&refusal(code, said, Some(1 << 30)));
            assert_eq!(error.class(), ErrorClass::Transient, "{code:?}");
            assert_eq!(error.reason(), None);
            assert!(!error.speaks_for_all(true), "{code:?}");
            let code = code_name(code);
            assert_eq!(
                error.to_string(),
                format!(
                    "why ({code} with the reason {said:?}, which this controller does not know)"
                )
            );
        }
    }
    let forged = "X\n\u{202e}".to_owned() + &"y".repeat(500);
    let text = read(&refusal(Code::Aborted, &forged, None)).to_string();
    assert!(
        !text.contains(['\n', '\u{202e}']) && text.len() < 200,
        "{text}"
    );
}

#[test]
fn an_error_of_single_nodes_may_speak_for_the_class() {
    use ErrorReason as R;
    for (reason, always, if_none_answered) in [
        (R::RateLimited, true, true),
        (R::CloudUnavailable, false, true),
        (R::CredentialsInvalid, false, true),
        (R::MalformedProviderId, false, false),
    ] {
        let status = refusal(outrigger_api::code_of(reason), reason_name(reason), None);
        let speaks = [false, true].map(|none| read(&status).speaks_for_all(none));
        assert_eq!(speaks, [always, if_none_answered], "{reason:?}");
    }
}

/// A provider that maps "not implemented" for one object to UNIMPLEMENTED does not lose the method.
#[test]
fn unimplemented_of_one_item_is_not_the_methods() {
    for status in [
        Status::unimplemented("why"),
        refusal(Code::Unimplemented, "CAPABILITY_DISABLED", None),
    ] {
        assert!(matches!(read(&status), Error::NotServed { .. }));
        let item = RpcStatus {
            code: Code::Unimplemented as i32,
            message: "why".into(),
            details: pb::Status::decode(status.details())
                .unwrap_or_default()
                .details,
        };
        let error = Error::from_item(RPC, &item).unwrap();
        assert_eq!(error.class(), ErrorClass::Transient);
        assert!(error.to_string().contains("why"), "{error}");
    }
}

#[test]
fn a_refusal_without_a_message_says_so() {
    let mut status = pb::Status::decode(refusal(Code::Internal, "CLOUD_ERROR", None).details());
    status.as_mut().unwrap().message.clear();
    let item = status.unwrap();
    let text = Error::from_item(RPC, &item).unwrap().to_string();
    assert_eq!(text, "the provider gave no message");
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
fn without_the_providers_own_word_a_code_has_its_class_and_the_outcome_is_unknown() {
    let foreign = {
        let mut details = ErrorDetails::new();
        details.set_error_info("CONFLICT", "cloud.example", []);
        Status::with_error_details(Code::Aborted, "why", details)
    };
    let twice = {
        let mut status =
            pb::Status::decode(refusal(Code::Aborted, "CONFLICT", None).details()).unwrap();
        status.details.push(status.details[0].clone());
        Status::with_details(Code::Aborted, "why", status.encode_to_vec().into())
    };
    let torn = Status::with_details(Code::Aborted, "why", vec![0xff; 9].into());
    let limited = |retry_after| ErrorClass::RateLimited { retry_after };
    for code in (1..=16).map(Code::from_i32) {
        let bare = Status::new(code, "why");
        let (class, reason) = match code {
            Code::Unimplemented => (ErrorClass::Unimplemented, None),
            Code::ResourceExhausted => (limited(None), Some(ErrorReason::RateLimited)),
            Code::Unavailable => (ErrorClass::Unavailable, Some(ErrorReason::CloudUnavailable)),
            Code::Unauthenticated => (
                ErrorClass::Unauthenticated,
                Some(ErrorReason::CredentialsInvalid),
            ),
            Code::PermissionDenied => (ErrorClass::Forbidden, Some(ErrorReason::PermissionMissing)),
            // Slowly, but not for ever: no object is known to be at fault.
            Code::InvalidArgument => (ErrorClass::Malformed, Some(ErrorReason::InvalidRequest)),
            _ => (ErrorClass::Transient, None),
        };
        let error = read(&bare);
        assert_eq!(error.class(), class, "{bare:?}");
        let effective = error.effective_reason().map(|(reason, _)| reason);
        assert_eq!(effective, reason, "{bare:?}");
        assert_eq!(error.reason(), None, "{bare:?}");
        assert_eq!(error.leaves_result_unknown(), code != Code::Unimplemented);
        assert!(
            !matches!(
                class.requeue(),
                outrigger_core::error_class::Requeue::OnChange
            ) || code == Code::Unimplemented,
            "{bare:?}"
        );
    }
    for status in [foreign, twice, torn] {
        assert_eq!(read(&status).class(), ErrorClass::Transient, "{status:?}");
    }
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_secs(7)));
    let status = Status::with_error_details(Code::ResourceExhausted, "429", details);
    let error = read(&status);
    assert_eq!(error.class(), limited(Some(Duration::from_secs(7))));
}

/// The provider's server cancels the call, or resets its stream, or this side gives it up.
#[test]
fn a_deadline_has_one_text_however_the_call_ends() {
    let lost = {
        let mut status = Status::unknown("h2");
        status.set_source(Arc::new(io::Error::from(io::ErrorKind::BrokenPipe)));
        status
    };
    for status in [
        lost,
        Status::cancelled("context canceled"),
        Status::deadline_exceeded("context deadline exceeded"),
    ] {
        let error = read(&status);
        let late = error
            .clone()
            .after(Duration::from_millis(29_999), RPC, DEADLINE);
        let text = "BatchGetInstances: the provider did not answer within 30s";
        assert_eq!(late.to_string(), text, "{status:?}");
        let early = error.clone().after(Duration::from_secs(20), RPC, DEADLINE);
        assert_eq!(early, error, "{status:?}");
    }
    let said = read(&Status::internal("why"));
    assert_eq!(said.clone().after(DEADLINE, RPC, DEADLINE), said);
}

#[test]
fn where_a_status_comes_from_is_asked_before_its_code() {
    // tonic's statuses for a killed provider, under codes that mean something else.
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
fn a_message_is_fit_to_be_shown() {
    let status = Status::internal(format!("a\nb\u{1b}[31m{}", "x".repeat(5000)));
    let text = read(&status).to_string();
    assert!(text.contains("a\\nb\\u{1b}[31mxxx"), "{text}");
    assert!(text.len() < 1200);
}

/// tonic makes this status. The error names our limit, and the next answer may be whole.
#[test]
fn a_reply_beyond_our_limit_is_malformed() {
    let status = Status::out_of_range(
        "Error, decoded message length too large: found 5000000 bytes, the limit is: 4194304 bytes",
    );
    let error = read(&status);
    assert_eq!(error.class(), ErrorClass::Malformed);
    assert!(
        error.to_string().contains("the limit is: 4194304 bytes"),
        "{error}"
    );
    // A provider's own is none.
    let own = read(&Status::out_of_range("Error, it is far"));
    assert_eq!(own.class(), ErrorClass::Transient);
}
