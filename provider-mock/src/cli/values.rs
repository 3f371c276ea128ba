//! How values of flags are read.

use std::num::NonZeroUsize;

use outrigger_provider_mock::cloud::Quota;
use outrigger_provider_mock::instances::{LabelKey, LabelValue};

pub(super) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number of 1 or more"))
}

pub(super) fn calls_per_second(text: &str) -> Result<f64, String> {
    let qps = text
        .parse()
        .map_err(|_| format!("{text:?} is no number of calls per second"))?;
    Quota::checked(qps, None).map(|quota| quota.qps)
}

pub(super) fn label(text: &str) -> Result<(LabelKey, LabelValue), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} is no label; write key=value"))?;
    let key = key.parse::<LabelKey>().map_err(|error| error.to_string())?;
    Ok((
        key,
        value
            .parse::<LabelValue>()
            .map_err(|error| error.to_string())?,
    ))
}
