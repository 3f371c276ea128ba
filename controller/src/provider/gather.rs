//! Lists that come in parts: whole, or an error.

use std::time::Duration;

use prost::Message;
use tokio::time::timeout;
use tonic::{Response, Status, Streaming};

use super::Error;

/// Between two messages of any stream.
pub(super) const SILENCE: Duration = Duration::from_mins(1);
/// More than any cluster has of anything: a list that does not end.
const MOST: usize = 100_000;
/// Bytes of all messages of a list, encoded: more than that many entries of a usual size have.
const MOST_BYTES: usize = 128 << 20;

/// The received part, and the reason not to use it.
pub(super) struct Gathered<T> {
    entries: Vec<T>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Silent,
    Incomplete,
    GoesOn,
    TooMany,
    TooLarge,
}

/// Makes the call and reads to the end. `part` tells the entries of a message, and whether it is
/// marked as the last.
pub(super) async fn gather<M: Message, T, I: IntoIterator<Item = T>>(
    call: impl Future<Output = Result<Response<Streaming<M>>, Status>>,
    part: impl Fn(M) -> (I, bool),
) -> Result<Response<Gathered<T>>, Status> {
    let mut entries = Vec::new();
    let Ok(response) = timeout(SILENCE, call).await else {
        let fault = Some(Fault::Silent);
        return Ok(Response::new(Gathered { entries, fault }));
    };
    let mut stream = response?.into_inner();
    let mut complete = false;
    let mut bytes = 0_usize;
    let fault = loop {
        let Ok(message) = timeout(SILENCE, stream.message()).await else {
            break Some(Fault::Silent);
        };
        let Some(message) = message? else {
            break (!complete).then_some(Fault::Incomplete);
        };
        if complete {
            break Some(Fault::GoesOn);
        }
        bytes = bytes.saturating_add(message.encoded_len());
        let (more, is_last) = part(message);
        complete = is_last;
        entries.extend(more);
        if let Some(fault) = beyond(entries.len(), bytes) {
            break Some(fault);
        }
    };
    Ok(Response::new(Gathered { entries, fault }))
}

/// Whether a list is larger than the limit.
const fn beyond(entries: usize, bytes: usize) -> Option<Fault> {
    if entries > MOST {
        Some(Fault::TooMany)
    } else if bytes > MOST_BYTES {
        Some(Fault::TooLarge)
    } else {
        None
    }
}

impl<T> Gathered<T> {
    /// All of it.
    pub(super) fn whole(self, rpc: &'static str) -> Result<Vec<T>, Error> {
        let malformed = |what: &str| Error::Malformed {
            rpc,
            what: what.into(),
        };
        let too_large = |what: &str| Error::ReplyTooLarge {
            rpc,
            what: what.into(),
        };
        Err(match self.fault {
            None => return Ok(self.entries),
            Some(Fault::Silent) => Error::Timeout {
                rpc,
                after: SILENCE,
            },
            Some(Fault::Incomplete) => malformed("a list that ends without `complete`"),
            Some(Fault::GoesOn) => malformed("a list that goes on after `complete`"),
            Some(Fault::TooMany) => too_large("a list of more than 100,000 entries"),
            Some(Fault::TooLarge) => too_large("a list of more than 128 MiB"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_bounded_in_entries_and_in_bytes() {
        assert_eq!(beyond(MOST, MOST_BYTES), None);
        assert_eq!(beyond(MOST + 1, 0), Some(Fault::TooMany));
        assert_eq!(beyond(1, MOST_BYTES + 1), Some(Fault::TooLarge));
        let gathered = Gathered::<()> {
            entries: Vec::new(),
            fault: Some(Fault::TooLarge),
        };
        let error = gathered.whole("ListInstances").unwrap_err();
        let text =
            "ListInstances: the provider's answer breaks the contract: a list of more than 128 MiB";
        assert_eq!(error.to_string(), text);
    }
}
