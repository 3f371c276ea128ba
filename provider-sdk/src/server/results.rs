//! The results of a batch: exactly one for each item, and as many effects beside them as fit into one message.

use outrigger_api::{BatchRequest, ItemResult};
use prost::{Message, length_delimiter_len};

use crate::each::Results;
use crate::{Effects, Error};

/// The wire form of an outcome, and the effects that go beside it.
pub(super) type Answered<B> = (
    <<B as BatchRequest>::ItemResult as ItemResult>::Outcome,
    Option<Effects>,
);

/// The response to a batch about `keys`, in their order. A result that the caller would refuse is an error with the
/// reason, not a broken call.
pub(super) fn respond<B: BatchRequest, T>(
    keys: Vec<String>,
    mut answers: Results<T>,
    outcome: impl Fn(T) -> Answered<B>,
    max_bytes: usize,
) -> Result<B::Response, Error> {
    let rpc = B::METHOD.name;
    let results = keys.into_iter().map(|key| {
        let answer = answers.remove(&key).unwrap_or_else(|| {
            tracing::warn!(
                rpc,
                key,
                "the handler of a batch returned no result for an item"
            );
            let text = format!("the provider returned no result for {key}");
            Err(Error::internal(text))
        });
        let (mut result, effects) = match answer.map(&outcome) {
            Ok((outcome, effects)) => (B::ItemResult::new(key, outcome), effects),
            Err(error) => {
                let (status, effects) = error.into_item();
                (B::ItemResult::failed(key, status), effects)
            }
        };
        if let Some(place) = result.effects_mut() {
            *place = effects.map(Effects::into_wire);
        }
        result
    });
    let results = results.collect();
    for key in answers.keys() {
        tracing::warn!(
            rpc,
            key,
            "the handler of a batch returned a result for an item that the request does not name"
        );
    }
    let response = B::response(fit_effects(results, max_bytes));
    let bytes = response.encoded_len();
    if bytes > max_bytes {
        return Err(Error::internal(format!(
            "the answer has {bytes} bytes, more than the {max_bytes} that the controller accepts; \
             lower max_batch_size of the capability for {}",
            B::METHOD.service
        )));
    }
    Ok(response)
}

/// The results of a response, without the effects of the last ones where all together have more than
/// `max_bytes`: a caller that gets no response learns nothing at all.
fn fit_effects<R: ItemResult>(mut results: Vec<R>, max_bytes: usize) -> Vec<R> {
    let mut bytes: usize = results.iter().map(framed_len).sum();
    let mut left_out = 0;
    for result in results.iter_mut().rev() {
        if bytes <= max_bytes {
            break;
        }
        bytes -= framed_len(result);
        left_out += usize::from(result.effects_mut().and_then(Option::take).is_some());
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
    use outrigger_api::v1::{
        BatchGetInstancesResponse, InstanceResult, KubernetesEffects, KubernetesEvent,
    };

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
