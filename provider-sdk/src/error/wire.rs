//! An [`Error`] on the wire: `google.rpc.Status` with `ErrorInfo`, `RetryInfo` and effects.
//!
//! An error of a whole call becomes a status of gRPC, an error of one item a field of the answer. Texts and details are cut
//! to the contract's limits here, since clients lose a status that is larger: a vendor's long text costs its end, and never
//! the reason.

use std::time::Duration;

use outrigger_api::{ERROR_DOMAIN, RpcStatus, v1::KubernetesEffects};
use prost::Message;
use prost_types::Any;
use tonic_types::pb;

use super::Error;

/// Longest text of a status. Longer ones make trailers that clients refuse.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// Largest encoded status. Clients were seen to lose the whole status from 10 kB on.
const MAX_STATUS_BYTES: usize = 4 << 10;

impl Error {
    /// The error of a whole call.
    pub(crate) fn into_status(self) -> tonic::Status {
        let code = self.code;
        let status = self.into_rpc_status();
        let bytes = status.encode_to_vec();
        tonic::Status::with_details(code, status.message, bytes.into())
    }

    /// The error of one item in a batch, and the effects that go beside it.
    pub(crate) fn into_item(self) -> (RpcStatus, Option<KubernetesEffects>) {
        let mut details = Vec::with_capacity(2);
        if let Some(reason) = self.reason {
            details.push(any(
                "google.rpc.ErrorInfo",
                &pb::ErrorInfo {
                    reason: reason.as_str().to_owned(),
                    domain: ERROR_DOMAIN.to_owned(),
                    ..pb::ErrorInfo::default()
                },
            ));
        }
        if let Some(retry_after) = self.retry_after {
            let retry_delay = Some(duration(retry_after));
            details.push(any("google.rpc.RetryInfo", &pb::RetryInfo { retry_delay }));
        }
        let message = cut(self.message, MAX_MESSAGE_BYTES);
        (
            RpcStatus {
                code: self.code as i32,
                message,
                details,
            },
            self.effects.map(|e| *e),
        )
    }

    /// The error with its effects among the details.
    pub(crate) fn into_rpc_status(self) -> RpcStatus {
        let (mut status, effects) = self.into_item();
        if let Some(effects) = effects {
            status
                .details
                .push(any("cloudprovider.v1.KubernetesEffects", &effects));
            if status.encoded_len() > MAX_STATUS_BYTES {
                tracing::warn!(
                    bytes = status.encoded_len(),
                    limit = MAX_STATUS_BYTES,
                    "the effects beside an error are too large and were left out; \
                     send fewer or shorter ones"
                );
                status.details.pop();
            }
        }
        status
    }
}

fn any(name: &str, message: &impl Message) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{name}"),
        value: message.encode_to_vec(),
    }
}

/// Cuts a text to at most `limit` bytes, on a character, with an ellipsis where it was cut.
pub(crate) fn cut(mut text: String, limit: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() > limit {
        let mut end = limit.saturating_sub(ELLIPSIS.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(ELLIPSIS);
    }
    text
}

/// Longer than protobuf's longest (10,000 years) becomes that.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    const MAX_SECONDS: i64 = 315_576_000_000;
    let seconds = i64::try_from(duration.as_secs())
        .unwrap_or(MAX_SECONDS)
        .min(MAX_SECONDS);
    prost_types::Duration {
        seconds,
        nanos: duration.subsec_nanos().cast_signed(),
    }
}
