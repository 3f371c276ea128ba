//! Reads the details of a status.

use std::{sync::Arc, time::Duration};

use outrigger_api::{
    ERROR_DOMAIN,
    v1::{ErrorReason, KubernetesEffects},
};
use outrigger_core::service::effects::RawEffects;
use prost::Message;
use tonic_types::{ErrorInfo, RetryInfo, pb};

use super::REASON_PREFIX;
use crate::provider::wire;

/// Type of the provider's effects in the details of a status.
pub(super) const EFFECTS: &str = "type.googleapis.com/cloudprovider.v1.KubernetesEffects";

/// The reason in the one `ErrorInfo` of our domain. Two of them are ambiguous, and read as none.
pub(super) fn said_reason(details: &[prost_types::Any]) -> Option<String> {
    let mut ours = details
        .iter()
        .filter(|any| any.type_url == ErrorInfo::TYPE_URL)
        .filter_map(|any| pb::ErrorInfo::decode(any.value.as_slice()).ok())
        .filter(|info| info.domain == ERROR_DOMAIN);
    let first = ours.next()?;
    ours.next().is_none().then_some(first.reason)
}

pub(super) fn retry_after(details: &[prost_types::Any]) -> Option<Duration> {
    let any = details
        .iter()
        .find(|any| any.type_url == RetryInfo::TYPE_URL)?;
    let delay = pb::RetryInfo::decode(any.value.as_slice())
        .ok()?
        .retry_delay?;
    Duration::try_from(delay).ok().filter(|d| !d.is_zero())
}

pub(super) fn effects(details: &[prost_types::Any]) -> Option<Arc<RawEffects>> {
    let any = details.iter().find(|any| any.type_url == EFFECTS)?;
    let effects = KubernetesEffects::decode(any.value.as_slice()).ok()?;
    Some(Arc::new(wire::effects(effects)))
}

/// The reason of the contract that was said: `X`, or as generated code names it `ERROR_REASON_X`.
pub(super) fn read_reason(said: &str) -> Option<ErrorReason> {
    let name = said.strip_prefix(REASON_PREFIX).unwrap_or(said);
    ErrorReason::from_str_name(&format!("{REASON_PREFIX}{name}"))
        .filter(|reason| *reason != ErrorReason::Unspecified)
}
