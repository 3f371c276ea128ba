use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outrigger_api::{ERROR_DOMAIN, v1};
use prost::Message;
use serde_json::Value;
use tonic::Status;
use tonic_types::{StatusExt, pb};

use super::*;

type Helper = fn(&'static str) -> Error;

/// A status as a client reads it.
fn over_the_wire(error: Error) -> Status {
    let response = error.into_status().into_http::<()>();
    Status::from_header_map(response.headers()).unwrap()
}

#[test]
fn each_helper_arrives_with_its_code_reason_text_and_retry() {
    use ErrorReason as R;
    let retry = Duration::from_millis(2500);
    let rows: &[(Helper, Code, R)] = &[
        (
            Error::invalid_request,
            Code::InvalidArgument,
            R::InvalidRequest,
        ),
        (
            Error::invalid_annotation,
            Code::InvalidArgument,
            R::InvalidAnnotation,
        ),
        (
            Error::unsupported_protocol,
            Code::InvalidArgument,
            R::UnsupportedProtocol,
        ),
        (
            Error::malformed_provider_id,
            Code::InvalidArgument,
            R::MalformedProviderId,
        ),
        (
            Error::malformed_volume_handle,
            Code::InvalidArgument,
            R::MalformedVolumeHandle,
        ),
        (
            Error::unsupported_feature,
            Code::InvalidArgument,
            R::UnsupportedFeature,
        ),
        (
            Error::conflicting_options,
            Code::InvalidArgument,
            R::ConflictingOptions,
        ),
        (Error::cloud_error, Code::Internal, R::CloudError),
        (
            Error::dependency_not_ready,
            Code::FailedPrecondition,
            R::DependencyNotReady,
        ),
        (
            Error::conflicting_resource,
            Code::FailedPrecondition,
            R::ConflictingResource,
        ),
        (
            Error::node_set_unknown,
            Code::FailedPrecondition,
            R::NodeSetUnknown,
        ),
        (
            Error::not_handshaked,
            Code::FailedPrecondition,
            R::NotHandshaked,
        ),
        (
            Error::version_unsupported,
            Code::FailedPrecondition,
            R::VersionUnsupported,
        ),
        (
            Error::operation_in_progress,
            Code::Aborted,
            R::OperationInProgress,
        ),
        (Error::conflict, Code::Aborted, R::Conflict),
        (
            |text| Error::rate_limited(Duration::from_secs(7)).with_message(text),
            Code::ResourceExhausted,
            R::RateLimited,
        ),
        (
            Error::quota_exceeded,
            Code::ResourceExhausted,
            R::QuotaExceeded,
        ),
        (Error::overloaded, Code::ResourceExhausted, R::Overloaded),
        (
            Error::credentials_invalid,
            Code::Unauthenticated,
            R::CredentialsInvalid,
        ),
        (
            Error::permission_missing,
            Code::PermissionDenied,
            R::PermissionMissing,
        ),
        (
            Error::cloud_unavailable,
            Code::Unavailable,
            R::CloudUnavailable,
        ),
        (Error::shutting_down, Code::Unavailable, R::ShuttingDown),
        (
            Error::capability_disabled,
            Code::Unimplemented,
            R::CapabilityDisabled,
        ),
    ];
    let mut codes = HashSet::new();
    for (helper, code, reason) in rows {
        let status = over_the_wire(helper("the failure").with_retry_after(retry));
        let info = status.get_details_error_info().unwrap();
        assert_eq!(status.code(), *code, "{reason:?}");
        assert_eq!(status.message(), "the failure", "{reason:?}");
        assert_eq!(info.domain, ERROR_DOMAIN);
        assert_eq!(info.reason, reason.as_str());
        assert_eq!(
            status.get_details_retry_info().unwrap().retry_delay,
            Some(retry)
        );
        codes.insert(info.reason);
    }
    let reasons = (1..100)
        .filter(|number| v1::ErrorReason::try_from(*number).is_ok())
        .count();
    assert_eq!(
        codes.len(),
        reasons,
        "a reason of the contract has no helper"
    );
}

#[test]
fn an_unexpected_error_has_no_reason_so_that_its_outcome_counts_as_unknown() {
    let error = Error::unexpected(std::io::Error::other("connection reset"));
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "connection reset"
    );
    let status = over_the_wire(error);
    assert_eq!(
        (status.code(), status.message()),
        (Code::Internal, "connection reset")
    );
    assert!(status.get_details_error_info().is_none());
}

#[test]
fn texts_are_cut_on_a_character_and_effects_that_do_not_fit_are_left_out() {
    let event = |bytes| v1::KubernetesEffects {
        events: vec![v1::KubernetesEvent {
            message: "e".repeat(bytes),
            ..v1::KubernetesEvent::default()
        }],
        ..v1::KubernetesEffects::default()
    };
    let effects_of = |status: &Status| {
        let status = pb::Status::decode(status.details()).unwrap();
        let name = "type.googleapis.com/cloudprovider.v1.KubernetesEffects";
        let detail_of_name = status.details.iter().find(|detail| detail.type_url == name);
        detail_of_name.map(|detail| v1::KubernetesEffects::decode(&*detail.value).unwrap())
    };

    let small = over_the_wire(Error::quota_exceeded("full").with_effects(event(1000)));
    assert_eq!(effects_of(&small), Some(event(1000)));

    let text = "ä".repeat(5000);
    let large = over_the_wire(Error::quota_exceeded(text).with_effects(event(5000)));
    assert_eq!(effects_of(&large), None);
    assert!(large.message().len() <= 1024 && large.message().ends_with("ä…"));
    assert!(large.details().len() <= 4096);
    assert_eq!(
        large.get_details_error_info().unwrap().reason,
        "QUOTA_EXCEEDED"
    );
}

/// The vectors of `sdk/vectors`, which the SDKs of all languages share.
#[test]
fn errors_travel_as_those_of_every_sdk() {
    /// A text, or one so many times.
    fn text(value: &Value) -> String {
        let repeated = || {
            let times = value["times"].as_u64()?.try_into().ok()?;
            Some(value["text"].as_str()?.repeat(times))
        };
        let plain = || value.as_str().map(str::to_owned);
        plain().or_else(repeated).unwrap_or_default()
    }
    fn effects(value: &Value) -> v1::KubernetesEffects {
        let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
        let event = |event: &Value| v1::KubernetesEvent {
            r#type: "Warning".to_owned(),
            reason: text(&event["reason"]),
            message: text(&event["message"]),
        };
        let condition = |one: &Value| v1::Condition {
            r#type: text(&one["type"]),
            status: text(&one["status"]),
            reason: text(&one["reason"]),
            message: text(&one["message"]),
        };
        v1::KubernetesEffects {
            events: list("events").iter().map(event).collect(),
            remove_annotations: list("removeAnnotations").iter().map(text).collect(),
            conditions: list("conditions").iter().map(condition).collect(),
            ..v1::KubernetesEffects::default()
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk/vectors/errors.json");
    let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for row in rows {
        let name = text(&row["reason"]);
        let reason = ErrorReason::ALL
            .iter()
            .find(|reason| reason.as_str() == name);
        let retry_after = row["retryAfter"].as_f64().map(Duration::from_secs_f64);
        let mut error = match reason.unwrap() {
            ErrorReason::RateLimited => Error::rate_limited(retry_after.unwrap_or_default())
                .with_message(text(&row["message"])),
            reason => Error::with_reason(*reason, text(&row["message"])),
        };
        if let (Some(retry_after), None) = (retry_after, error.retry_after()) {
            error = error.with_retry_after(retry_after);
        }
        if !row["effects"].is_null() {
            error = error.with_effects(effects(&row["effects"]));
        }
        let sent = pb::Status::decode(error.into_status().details()).unwrap();
        let expected = STANDARD.decode(text(&row["status"])).unwrap();
        assert_eq!(sent, pb::Status::decode(&*expected).unwrap(), "{row}");
    }
}
