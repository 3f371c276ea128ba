//! Effects beside the results of a batch, as many as fit into one message.

use outrigger_api::v1::{InstanceResult, KubernetesEffects, RouteResult};
use prost::{Message, length_delimiter_len};

/// A result with effects beside it.
pub(super) trait HasEffects: Message {
    fn effects(&mut self) -> &mut Option<KubernetesEffects>;
}

impl HasEffects for InstanceResult {
    fn effects(&mut self) -> &mut Option<KubernetesEffects> {
        &mut self.effects
    }
}

impl HasEffects for RouteResult {
    fn effects(&mut self) -> &mut Option<KubernetesEffects> {
        &mut self.effects
    }
}

/// The results of a response, without the effects of the last ones where all together have more than
/// `max_bytes`: a caller that gets no response learns nothing at all.
pub(super) fn fit_effects<R: HasEffects>(mut results: Vec<R>, max_bytes: usize) -> Vec<R> {
    let mut bytes: usize = results.iter().map(framed_len).sum();
    let mut left_out = 0;
    for result in results.iter_mut().rev() {
        if bytes <= max_bytes {
            break;
        }
        bytes -= framed_len(result);
        left_out += usize::from(result.effects().take().is_some());
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
    use outrigger_api::v1::{BatchGetInstancesResponse, KubernetesEvent};

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
