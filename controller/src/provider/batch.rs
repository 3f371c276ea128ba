//! Batches no larger than the provider accepts.

use std::collections::VecDeque;

use super::{Error, Session};

/// An object that shares a call with others.
pub(super) trait BatchItem {
    /// Name of the call.
    fn rpc(&self) -> &'static str;

    /// Bytes of its part of the request.
    fn bytes(&self, session: &Session) -> usize;

    /// Ends its wait without a call.
    fn fail(self, error: Error);
}

/// Removes from `waiting` the items of one call: `most`, in a request with `envelope` bytes of
/// other content. An item that would not even fit alone fails.
pub(super) fn take_batch<T: BatchItem>(
    waiting: &mut VecDeque<T>,
    session: &Session,
    most: usize,
    envelope: usize,
) -> Vec<T> {
    let limit = session.max_send_bytes;
    let mut size = envelope;
    let mut batch = Vec::new();
    while batch.len() < most
        && let Some(item) = waiting.pop_front()
    {
        let bytes = item.bytes(session);
        if envelope + bytes > limit {
            let rpc = item.rpc();
            item.fail(Error::TooLarge {
                rpc,
                bytes: envelope + bytes,
                limit,
            });
        } else if size + bytes > limit {
            waiting.push_front(item);
            break;
        } else {
            size += bytes;
            batch.push(item);
        }
    }
    batch
}
