//! Batches no larger than the provider takes.

use super::{Batch, Error, Session, Subject};

impl<S: Subject> Batch<S> {
    /// Cuts it to what the provider takes in one call. Returns that and what is left. A subject
    /// that would not even fit alone is answered here.
    pub(super) fn fit(mut self, session: &Session) -> (Self, Option<Self>) {
        let limit = session.max_send_bytes;
        let envelope = S::envelope(&self.group, session);
        let most = S::most(Some(session));
        let mut room = limit.saturating_sub(envelope);
        let mut count = 0;
        while let Some(ask) = self.asks.get(count).filter(|_| count < most) {
            let bytes = ask.subject.bytes(session);
            if envelope + bytes > limit {
                let error = Error::TooLarge {
                    rpc: S::RPC,
                    bytes: envelope + bytes,
                    limit,
                };
                self.remove(count).answer(&Err(error));
                continue;
            }
            if bytes > room {
                break;
            }
            room -= bytes;
            count += 1;
        }
        let rest = self.split_off(count);
        (self, rest)
    }
}
