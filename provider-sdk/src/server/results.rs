//! The results of a batch: exactly one for each item, and as many effects beside them as fit into one message.

use outrigger_api::v1::{BatchGetInstancesResponse, InstanceResult, instance_result::Outcome};
use prost::{Message, length_delimiter_len};
use tokio::time::Instant;

use crate::each::Results;
use crate::{Effects, Error, Lookup};

/// The response to a batch about `keys`, in their order, which was asked for at a time. A result that the caller
/// would refuse is an error with the reason, not a broken call.
pub(super) fn respond(
    keys: Vec<String>,
    mut answers: Results<Lookup>,
    asked_at: Instant,
    max_bytes: usize,
) -> Result<BatchGetInstancesResponse, Error> {
    let results = keys.into_iter().map(|key| {
        let answer = answers.remove(&key).unwrap_or_else(|| {
            tracing::warn!(key, "the handler of a batch returned no result for a Node");
            let text = format!("the provider returned no result for {key}");
            Err(Error::internal(text))
        });
        let (outcome, effects) = match answer {
            Ok(lookup) => lookup.into_wire(asked_at),
            Err(error) => {
                let (status, effects) = error.into_item();
                (Outcome::Error(status), effects)
            }
        };
        InstanceResult {
            key,
            outcome: Some(outcome),
            effects: effects.map(Effects::into_wire),
        }
    });
    let results = results.collect();
    for key in answers.keys() {
        tracing::warn!(
            key,
            "the handler of a batch returned a result for a Node that the request does not name"
        );
    }
    let response = BatchGetInstancesResponse {
        results: fit_effects(results, max_bytes),
    };
    let bytes = response.encoded_len();
    if bytes > max_bytes {
        return Err(Error::internal(format!(
            "the answer has {bytes} bytes, more than the {max_bytes} that the controller accepts; \
             lower max_batch_size of the capability"
        )));
    }
    Ok(response)
}

/// The results of a response, without the effects of the last ones where all together have more than
/// `max_bytes`: a caller that gets no response learns nothing at all.
fn fit_effects(mut results: Vec<InstanceResult>, max_bytes: usize) -> Vec<InstanceResult> {
    let mut bytes: usize = results.iter().map(framed_len).sum();
    let mut left_out = 0;
    for result in results.iter_mut().rev() {
        if bytes <= max_bytes {
            break;
        }
        bytes -= framed_len(result);
        left_out += usize::from(result.effects.take().is_some());
        bytes += framed_len(result);
    }
    if left_out > 0 {
        tracing::warn!(
            left_out,
            results = results.len(),
            limit = max_bytes,
            "effects do not fit into the answer to a batch and were left out; send fewer or shorter \
             ones, or lower the max_batch_size of the capability"
        );
    }
    results
}

/// Bytes of one entry of a repeated field with a number below 16.
fn framed_len(result: &impl Message) -> usize {
    let bytes = result.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

#[cfg(test)]
mod tests {
    use outrigger_api::v1::{KubernetesEffects, KubernetesEvent};

    use super::*;

    fn with_event(name: &str, bytes: usize) -> InstanceResult {
        let event = KubernetesEvent {
            message: "m".repeat(bytes),
            ..KubernetesEvent::default()
        };
        InstanceResult {
            key: name.to_owned(),
            effects: Some(KubernetesEffects {
                events: vec![event],
                ..KubernetesEffects::default()
            }),
            ..InstanceResult::default()
        }
    }

    /// One byte decides.
    #[test]
    fn as_many_effects_are_left_out_as_do_not_fit() {
        let results = || ["a", "b", "c"].map(|name| with_event(name, 300)).to_vec();
        let bytes = |results| BatchGetInstancesResponse { results }.encoded_len();
        let all = bytes(results());
        let one = all / 3;
        for (limit, kept) in [(all, 3), (all - 1, 2), (one * 2, 1), (one - 1, 0), (0, 0)] {
            let fitted = fit_effects(results(), limit);
            let has = fitted.iter().filter(|result| result.effects.is_some());
            assert_eq!((fitted.len(), has.count()), (3, kept), "{limit}");
            assert!(bytes(fitted) <= limit.max(16), "{limit}");
        }
    }
}
