//! Classifies how a call ended: first by where its status was made (transport, provider), then by the reason in its
//! details, and by its code only if there is none. Errors of single items of a batch are always the provider's.
//!
//! [`crate::channel`] and the batches read every failure here and nowhere else. A reason that this minor of the contract
//! does not know is kept as text and concerns its own key.

use std::{error::Error as _, sync::Arc, time::Duration};

use outrigger_api::{
    ERROR_DOMAIN, RpcStatus, code_name,
    v1::{ErrorReason, KubernetesEffects},
};
use outrigger_core::{effects::RawEffects, text};
use prost::Message;
use tonic::{Code, Status};
use tonic_types::{ErrorInfo, RetryInfo, pb};

use super::{Error, REASON_PREFIX};
use crate::wire;

/// The longest reason that an error quotes, in bytes.
const MAX_REASON: usize = 63;
/// Type of the provider's effects in the details of a status.
const EFFECTS: &str = "type.googleapis.com/cloudprovider.v1.KubernetesEffects";

impl Error {
    /// Returns the error that a call ended with.
    ///
    /// The code alone is not to be trusted: it is `UNKNOWN` for a killed provider and `CANCELLED` for a passed deadline.
    /// Where the status was made decides first.
    pub(crate) fn from_status(rpc: &'static str, status: &Status) -> Self {
        // tonic attaches a source to a status that it made for the transport, never to one that the provider sent.
        if status.source().is_some() {
            return Self::ConnectionLost { rpc };
        }
        if let Some(what) = oversized_reply(status) {
            let what = what.into();
            return Self::ReplyTooLarge { rpc, what };
        }
        // Details that cannot be decoded count as absent.
        let details = pb::Status::decode(status.details())
            .map(|status| status.details)
            .unwrap_or_default();
        match Self::from_peer(rpc, status.code(), status.message(), &details) {
            // A server answers so if it does not have the method.
            Self::Unexplained {
                code: Code::Unimplemented,
                ..
            }
            | Self::Refused {
                reason: ErrorReason::CapabilityDisabled,
                ..
            } => Self::NotServed { rpc },
            error => error,
        }
    }

    /// Returns the error of one item of a batch, or `None` if its code is OK.
    ///
    /// If one item has UNIMPLEMENTED, the method may still work for others.
    pub(crate) fn from_item(rpc: &'static str, status: &RpcStatus) -> Option<Self> {
        let code = Code::from_i32(status.code);
        let error = || Self::from_peer(rpc, code, &status.message, &status.details);
        (code != Code::Ok).then(error)
    }

    fn from_peer(
        rpc: &'static str,
        code: Code,
        message: &str,
        details: &[prost_types::Any],
    ) -> Self {
        let mut message: Arc<str> = match message {
            "" => "the provider gave no message".into(),
            message => text::message(message).into(),
        };
        let retry_after = retry_after(details);
        let Some(sent) = sent_reason(details) else {
            return Self::Unexplained {
                rpc,
                code,
                message,
                retry_after,
            };
        };
        let reason = read_reason(&sent);
        if reason == ErrorReason::Unspecified {
            let (code, sent) = (code_name(code), text::cut(&sent, MAX_REASON));
            message = format!(
                "{message} ({code} with the reason {sent:?}, which this controller does not know)"
            )
            .into();
        }
        Self::Refused {
            rpc,
            reason,
            message,
            retry_after,
            effects: effects(details),
        }
    }
}

/// Returns a text that names both sizes if the status is tonic's rejection of a reply larger than the limit that the
/// handshake announced. No provider answers `OUT_OF_RANGE`.
fn oversized_reply(status: &Status) -> Option<String> {
    let sizes = status
        .message()
        .strip_prefix("Error, decoded message length too large: ")?;
    let is_local = status.code() == Code::OutOfRange;
    is_local.then(|| {
        format!(
            "its reply is larger than max_receive_message_bytes of the handshake: {}",
            text::message(sizes)
        )
    })
}

/// Returns the reason in the only `ErrorInfo` of the contract's domain. Two of them are ambiguous, and are ignored.
fn sent_reason(details: &[prost_types::Any]) -> Option<String> {
    let infos = details
        .iter()
        .filter(|any| any.type_url == ErrorInfo::TYPE_URL);
    let infos = infos.filter_map(|any| pb::ErrorInfo::decode(any.value.as_slice()).ok());
    let mut ours = infos.filter(|info| info.domain == ERROR_DOMAIN);
    let first = ours.next()?;
    ours.next().is_none().then_some(first.reason)
}

fn retry_after(details: &[prost_types::Any]) -> Option<Duration> {
    let any = details
        .iter()
        .find(|any| any.type_url == RetryInfo::TYPE_URL)?;
    let delay = pb::RetryInfo::decode(any.value.as_slice())
        .ok()?
        .retry_delay?;
    Duration::try_from(delay).ok().filter(|d| !d.is_zero())
}

fn effects(details: &[prost_types::Any]) -> Option<Arc<RawEffects>> {
    let any = details.iter().find(|any| any.type_url == EFFECTS)?;
    let effects = KubernetesEffects::decode(any.value.as_slice()).ok()?;
    Some(Arc::new(wire::effects(effects)))
}

/// Parses a reason of the contract: `X`, or `ERROR_REASON_X` as generated code names it. Another is `Unspecified`.
fn read_reason(reason: &str) -> ErrorReason {
    let name = reason.strip_prefix(REASON_PREFIX).unwrap_or(reason);
    ErrorReason::from_str_name(&format!("{REASON_PREFIX}{name}")).unwrap_or_default()
}
