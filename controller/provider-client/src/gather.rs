//! Lists that come in parts: whole, or an error. Each entry is handed on as it is decoded, so that of a long list
//! only that part is in memory that is kept.

use outrigger_api::{FieldKind, ListPage, MESSAGE_SHAPES, Method, MethodRequest, v1::CallContext};
use prost::Message;
use tonic::{Request, Status};

use super::{
    Error, Session, Shared,
    admission::Permit,
    call::ProviderCall,
    details::Checked,
    footprint::{self, Value},
    preconditions::Preconditions,
    raw::{self, MessageLimits, StreamEnd},
};

/// More than any cluster has of anything: a list that does not end.
const MOST: usize = 100_000;
/// Bytes of all messages of a list, encoded: more than that many entries of a usual size have.
const MOST_BYTES: usize = 128 << 20;
/// Memory of all entries of a list that are kept.
const MOST_KEPT: usize = 32 << 20;
/// Number of the field with the entries, in each part of a list.
const ENTRIES: u32 = 1;
/// Number of `complete`.
const COMPLETE: u32 = 2;

/// Takes the entries of a list as they come.
pub(super) trait Collector: Send + 'static {
    /// The entry on the wire.
    type Entry: Message + Default;

    /// Takes one. Returns whether it is kept.
    fn take(&mut self, entry: Self::Entry) -> bool;
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
    KeepsTooMuch,
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
    kept: usize,
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
        limits: MessageLimits,
    ) -> Result<Gathered<C>, Status> {
        let (metadata, extensions, Self { message, collector }) = call.into_parts();
        let request = Request::from_parts(metadata, extensions, message);
        let mut reading = Reading {
            collector,
            sums: Sums::default(),
            is_complete: false,
        };
        let read = |message: &[u8]| reading.read::<M>(message);
        let ended = raw::server_streaming(channel, limits, request, read).await?;
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
    fn read<M: MethodRequest>(&mut self, message: &[u8]) -> Result<Option<Fault>, Status> {
        if self.is_complete {
            return Ok(Some(Fault::GoesOn));
        }
        let part = raw::shape::<M>()?;
        let entries = part.fields.iter().find(|field| field.number == ENTRIES);
        let shape = entries.and_then(|entries| match entries.kind {
            FieldKind::Message(at) => MESSAGE_SHAPES.get(at),
            FieldKind::Number | FieldKind::Text => None,
        });
        let shape =
            shape.ok_or_else(|| Status::internal(format!("{} is no part of a list", part.name)))?;
        self.sums.bytes = self.sums.bytes.saturating_add(message.len());
        for (number, value) in footprint::fields(message) {
            match (number, value) {
                (ENTRIES, Value::Bytes(entry)) => {
                    self.sums.entries += 1;
                    let memory = raw::measure(shape, entry, raw::ONE_OBJECT)?;
                    let entry = C::Entry::decode(entry);
                    let entry = entry.map_err(|error| Status::internal(error.to_string()))?;
                    if self.collector.take(entry) {
                        self.sums.kept = self.sums.kept.saturating_add(shape.size + memory);
                    }
                }
                (COMPLETE, Value::Number(complete)) => self.is_complete = complete != 0,
                _ => {}
            }
            if let Some(fault) = self.sums.fault() {
                return Ok(Some(fault));
            }
        }
        Ok(self.sums.fault())
    }
}

impl Sums {
    /// Returns the fault of a list that is larger than the limit.
    const fn fault(self) -> Option<Fault> {
        if self.entries > MOST {
            Some(Fault::TooMany)
        } else if self.bytes > MOST_BYTES {
            Some(Fault::TooLarge)
        } else if self.kept > MOST_KEPT {
            Some(Fault::KeepsTooMuch)
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
                after: raw::silence(method),
            },
            Some(Fault::Incomplete) => malformed("a list that ends without `complete`"),
            Some(Fault::GoesOn) => malformed("a list that goes on after `complete`"),
            Some(Fault::TooMany) => too_large("a list of more than 100,000 entries"),
            Some(Fault::TooLarge) => too_large("a list of more than 128 MiB"),
            Some(Fault::KeepsTooMuch) => {
                too_large("a list whose entries about this cluster take more than 32 MiB of memory")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use outrigger_api::v1;

    use super::*;

    impl Collector for Vec<v1::Instance> {
        type Entry = v1::Instance;

        fn take(&mut self, entry: v1::Instance) -> bool {
            let is_kept = !entry.provider_id.is_empty();
            self.push(entry);
            is_kept
        }
    }

    fn reading() -> Reading<Vec<v1::Instance>> {
        Reading {
            collector: Vec::new(),
            sums: Sums::default(),
            is_complete: false,
        }
    }

    #[test]
    fn a_list_is_bounded_in_entries_in_bytes_and_in_memory() {
        let at_most = Sums {
            entries: MOST,
            bytes: MOST_BYTES,
            kept: MOST_KEPT,
        };
        assert_eq!(at_most.fault(), None);
        let more = |edit: fn(&mut Sums)| {
            let mut sums = at_most;
            edit(&mut sums);
            sums.fault()
        };
        assert_eq!(more(|sums| sums.entries += 1), Some(Fault::TooMany));
        assert_eq!(more(|sums| sums.bytes += 1), Some(Fault::TooLarge));
        assert_eq!(more(|sums| sums.kept += 1), Some(Fault::KeepsTooMuch));
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

    #[test]
    fn empty_entries_are_counted_before_they_take_memory() {
        let mut reading = reading();
        // Two bytes each.
        let message = [0x0a, 0].repeat(2 * MOST);
        assert_eq!(
            reading.read::<v1::ListInstancesRequest>(&message).unwrap(),
            Some(Fault::TooMany)
        );
        assert_eq!(reading.collector.len(), MOST + 1);
    }

    #[test]
    fn kept_entries_are_bounded() {
        let instance = v1::Instance {
            provider_id: "x".repeat(1_000),
            ..v1::Instance::default()
        };
        let part = v1::ListInstancesResponse {
            items: vec![instance; 1_000],
            complete: false,
        };
        let message = part.encode_to_vec();
        let mut reading = reading();
        let fault =
            (0..100).find_map(|_| reading.read::<v1::ListInstancesRequest>(&message).unwrap());
        assert_eq!(fault, Some(Fault::KeepsTooMuch));
        let kept: usize = reading.collector.iter().map(Message::encoded_len).sum();
        assert!(kept < MOST_KEPT, "{kept}");
    }

    #[test]
    fn an_entry_that_would_take_too_much_memory_is_not_decoded() {
        // Addresses of two bytes each, in one instance.
        let instance = [0x22, 0].repeat(100_000);
        let mut message = vec![0x0a];
        prost::encode_length_delimiter(instance.len(), &mut message).unwrap();
        message.extend(instance);
        let mut reading = reading();
        let status = reading
            .read::<v1::ListInstancesRequest>(&message)
            .unwrap_err();
        let refused = raw::TooLargeDecoded::of(&status).unwrap().to_string();
        assert!(refused.contains("most of them for addresses"), "{refused}");
        assert!(reading.collector.is_empty());
    }

    #[test]
    fn parts_of_lists_have_entries_and_an_end() {
        for part in [
            "ListInstancesResponse",
            "ListRoutesResponse",
            "ListLoadBalancersResponse",
        ] {
            let fields = footprint::shape(part).unwrap().fields;
            let numbers = fields.iter().map(|field| (field.number, field.is_repeated));
            assert_eq!(
                numbers.collect::<Vec<_>>(),
                [(ENTRIES, true), (COMPLETE, false)]
            );
        }
    }
}
