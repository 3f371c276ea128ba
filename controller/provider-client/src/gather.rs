//! Lists that come in parts: whole, or an error. The entries of a part are handed on as it comes, so that of a long list
//! only that part is in memory that is kept.

use outrigger_api::{ListPage, Method, MethodRequest, v1::CallContext};
use prost::Message;
use tonic::{Request, Status};

use super::{
    Error, Session, Shared,
    admission::Permit,
    call::ProviderCall,
    details::Checked,
    preconditions::Preconditions,
    rpc::{self, StreamEnd},
};

/// More than any cluster has of anything: a list that does not end.
const MOST: usize = 100_000;
/// Bytes of all messages of a list, encoded: more than that many entries of a usual size have.
const MOST_BYTES: usize = 128 << 20;
/// Takes the entries of a list as they come.
pub(super) trait Collector: Send + 'static {
    /// The entry on the wire.
    type Entry: Message + Default;

    /// Takes one.
    fn take(&mut self, entry: Self::Entry);
}

/// The request for a list, and the collector of its entries.
pub(super) struct ListRequest<M, C> {
    pub(super) message: M,
    pub(super) collector: C,
}

/// The entries, and the reason not to use them.
pub(super) struct Gathered<C> {
    collector: C,
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

/// How far a list is read.
struct Reading<C> {
    collector: C,
    sums: Sums,
    is_complete: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    entries: usize,
    bytes: usize,
}

/// Makes the call and reads to the end.
impl<M: MethodRequest<Response: ListPage<Item = C::Entry>>, C: Collector> ProviderCall
    for ListRequest<M, C>
{
    type Message = M;
    type Reply = Gathered<C>;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        MethodRequest::context_mut(&mut self.message)
    }

    fn bytes(&self) -> usize {
        self.message.encoded_len()
    }

    async fn send(
        call: Request<Self>,
        channel: Checked,
        max_send: usize,
    ) -> Result<Gathered<C>, Status> {
        let (metadata, extensions, Self { message, collector }) = call.into_parts();
        let request = Request::from_parts(metadata, extensions, message);
        let mut reading = Reading {
            collector,
            sums: Sums::default(),
            is_complete: false,
        };
        let read = |message| reading.read(message);
        let ended = rpc::server_streaming(channel, max_send, request, read).await?;
        let fault = match ended {
            StreamEnd::Complete => (!reading.is_complete).then_some(Fault::Incomplete),
            StreamEnd::Silent => Some(Fault::Silent),
            StreamEnd::Refused(fault) => Some(fault),
        };
        let collector = reading.collector;
        Ok(Gathered { collector, fault })
    }
}

impl Shared {
    /// The entries of a list, all of them or an error.
    pub(super) async fn list<M, C>(
        &self,
        permit: &Permit,
        preconditions: &Preconditions,
        session: &Session,
        list: impl Fn() -> ListRequest<M, C>,
    ) -> Result<C, Error>
    where
        M: MethodRequest<Response: ListPage<Item = C::Entry>>,
        C: Collector,
    {
        let call = self.call(permit, preconditions, session, |_| list());
        call.await?.whole(M::METHOD)
    }
}

impl<C: Collector> Reading<C> {
    /// Reads a message.
    fn read(&mut self, message: impl ListPage<Item = C::Entry>) -> Option<Fault> {
        if self.is_complete {
            return Some(Fault::GoesOn);
        }
        self.sums.bytes = self.sums.bytes.saturating_add(message.encoded_len());
        let (entries, is_complete) = message.into_parts();
        self.sums.entries += entries.len();
        if let Some(fault) = self.sums.fault() {
            return Some(fault);
        }
        self.is_complete = is_complete;
        for entry in entries {
            self.collector.take(entry);
        }
        None
    }
}

impl Sums {
    /// Returns the fault of a list that is larger than the limit.
    const fn fault(self) -> Option<Fault> {
        if self.entries > MOST {
            Some(Fault::TooMany)
        } else if self.bytes > MOST_BYTES {
            Some(Fault::TooLarge)
        } else {
            None
        }
    }
}

impl<C> Gathered<C> {
    /// All of it.
    fn whole(self, method: &Method) -> Result<C, Error> {
        let rpc = method.name;
        let malformed = |what| Error::malformed(rpc, what);
        let too_large = |what: &str| Error::ReplyTooLarge {
            rpc,
            what: what.into(),
        };
        Err(match self.fault {
            None => return Ok(self.collector),
            Some(Fault::Silent) => Error::Timeout {
                rpc,
                after: rpc::silence(method),
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
    use outrigger_api::v1;

    use super::*;

    #[test]
    fn a_list_is_bounded_in_entries_and_in_bytes() {
        let at_most = Sums {
            entries: MOST,
            bytes: MOST_BYTES,
        };
        assert_eq!(at_most.fault(), None);
        let more = |edit: fn(&mut Sums)| {
            let mut sums = at_most;
            edit(&mut sums);
            sums.fault()
        };
        assert_eq!(more(|sums| sums.entries += 1), Some(Fault::TooMany));
        assert_eq!(more(|sums| sums.bytes += 1), Some(Fault::TooLarge));
        let gathered = Gathered::<()> {
            collector: (),
            fault: Some(Fault::TooLarge),
        };
        let error = gathered
            .whole(v1::ListInstancesRequest::METHOD)
            .unwrap_err();
        let text =
            "ListInstances: the provider's answer breaks the contract: a list of more than 128 MiB";
        assert_eq!(error.to_string(), text);
    }
}
