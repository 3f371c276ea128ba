//! Lists, which stream their items.

use futures::stream;
use outrigger_api::{ListPage, MethodRequest};
use prost::Message;

use super::Client;
use crate::call_error::CallError;

/// A stream that ended without an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// All entries, in their order.
    pub entries: Vec<T>,
    /// The `complete` of each message.
    pub completes: Vec<bool>,
    /// Bytes of the largest message.
    pub largest_message: usize,
}

impl<T> Listed<T> {
    /// `complete` is on the last message and on no other.
    pub fn is_complete(&self) -> bool {
        match self.completes.split_last() {
            Some((last, before)) => *last && !before.contains(&true),
            None => false,
        }
    }
}

impl Client {
    /// A call whose answer is a list.
    pub async fn list<R>(
        &self,
        request: R,
    ) -> Result<Listed<<R::Response as ListPage>::Item>, CallError>
    where
        R: MethodRequest<Response: ListPage>,
    {
        let request = stream::iter([self.in_cluster(request)]);
        let deadline = R::METHOD.deadline;
        let pages: Vec<R::Response> = self.exchange(R::METHOD, deadline, request).await?;
        let largest_message = pages.iter().map(Message::encoded_len).max();
        let parts = pages.into_iter().map(ListPage::into_parts);
        let (entries, completes): (Vec<_>, Vec<_>) = parts.unzip();
        Ok(Listed {
            entries: entries.into_iter().flatten().collect(),
            completes,
            largest_message: largest_message.unwrap_or_default(),
        })
    }
}
