//! Lists that come in parts: whole, or an error. The entries of a part are handed on as it comes, so that of a long list
//! only that part is in memory that is kept.

use outrigger_api::{ListPage, MethodRequest, v1::CallContext};
use prost::Message;
use tokio::time::timeout;
use tonic::{Request, Status};

use super::{
    Error, Session, Shared,
    admission::Permit,
    call::ProviderCall,
    channel::{self, Channel},
    preconditions::Preconditions,
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

/// Makes the call and reads to the end.
impl<M: MethodRequest<Response: ListPage<Item = C::Entry>>, C: Collector> ProviderCall
    for ListRequest<M, C>
{
    type Message = M;
    type Reply = Result<C, Error>;

    fn context_mut(&mut self) -> Option<&mut Option<CallContext>> {
        MethodRequest::context_mut(&mut self.message)
    }

    fn bytes(&self) -> usize {
        self.message.encoded_len()
    }

    async fn send(
        call: Request<Self>,
        channel: Channel,
        max_send: usize,
    ) -> Result<Self::Reply, Status> {
        let (metadata, extensions, list) = call.into_parts();
        let request = Request::from_parts(metadata, extensions, list.message);
        let (rpc, mut collector) = (M::METHOD.name, list.collector);
        let silence = M::METHOD.max_silence.unwrap_or(M::METHOD.deadline);
        let malformed = |what| Ok(Err(Error::malformed(rpc, what)));
        let silent = || {
            let after = silence;
            Ok(Err(Error::Timeout { rpc, after }))
        };
        let opening = channel::server_streaming(channel, max_send, request);
        let Ok(stream) = timeout(silence, opening).await else {
            return silent();
        };
        let mut stream = stream?;
        let (mut entries, mut bytes, mut is_complete) = (0, 0_usize, false);
        loop {
            let Ok(message) = timeout(silence, stream.message()).await else {
                return silent();
            };
            let Some(message) = message? else {
                break;
            };
            if is_complete {
                return malformed("a list that goes on after `complete`");
            }
            bytes += message.encoded_len();
            let (page, is_last) = message.into_parts();
            entries += page.len();
            if entries > MOST || bytes > MOST_BYTES {
                let what = "a list of more than 100,000 entries or 128 MiB".into();
                return Ok(Err(Error::ReplyTooLarge { rpc, what }));
            }
            is_complete = is_last;
            for entry in page {
                collector.take(entry);
            }
        }
        if !is_complete {
            return malformed("a list that ends without `complete`");
        }
        Ok(Ok(collector))
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
        call.await?
    }
}
