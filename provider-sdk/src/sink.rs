//! [`Sink`]: where a vendor's list goes, entry by entry, in messages of about 1 MiB.
//!
//! The server makes it, hands it to the vendor's list method and, once the method has returned `Ok`, sends the rest with
//! the mark `complete`. A list that ends with an error never gets the mark, so the controller discards it: a list is whole,
//! or no list.

use std::fmt;
use std::mem;
use std::time::Duration;

use outrigger_api::ListPage;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::Status;

use crate::error::cut;
use crate::{Context, Error};

/// A message is sent once it has grown to this many bytes, unless the caller accepts less.
const TARGET_BYTES: usize = 1 << 20;

/// A message that grows slowly is sent after this time: the caller cancels after 60 s of silence.
const TARGET_AGE: Duration = Duration::from_secs(10);

/// Bytes that a repeated field adds to each element: its tag and its length.
const ELEMENT_OVERHEAD: usize = 6;

/// Where a list goes, entry by entry.
///
/// Entries are gathered into messages of about 1 MiB; a caller that reads slowly makes
/// [`send`](Self::send) wait, so that memory stays bounded.
pub struct Sink<P: ListPage> {
    ctx: Context,
    messages: mpsc::Sender<Result<P, Status>>,
    gathered: Vec<P::Item>,
    bytes: usize,
    first_at: Instant,
    max_bytes: usize,
}

impl<P: ListPage<Item: fmt::Debug>> Sink<P> {
    /// For messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<P, Status>>,
        max_bytes: usize,
    ) -> Self {
        Self {
            ctx,
            messages,
            gathered: Vec::new(),
            bytes: 0,
            first_at: Instant::now(),
            max_bytes,
        }
    }

    /// Hands over one entry. Waits while the caller is behind; fails once it has gone, or if the entry
    /// alone is larger than any message the caller accepts. Pass the failure on with `?`.
    ///
    /// # Cancellation
    ///
    /// Safe to drop only together with the whole list: an entry may be lost.
    pub async fn send(&mut self, entry: P::Item) -> Result<(), Error> {
        let bytes = entry.encoded_len() + ELEMENT_OVERHEAD;
        if bytes > self.max_bytes {
            return Err(Error::internal(format!(
                "an entry of {bytes} bytes is more than the {} that the controller accepts in one \
                 message: {}",
                self.max_bytes,
                cut(format!("{entry:?}"), 200)
            )));
        }
        let full = self.bytes + bytes > TARGET_BYTES.min(self.max_bytes);
        let old = self.first_at.elapsed() >= TARGET_AGE;
        if !self.gathered.is_empty() && (full || old) {
            self.flush(false).await?;
        }
        if self.gathered.is_empty() {
            self.first_at = Instant::now();
        }
        self.bytes += bytes;
        self.gathered.push(entry);
        Ok(())
    }

    /// Hands over a page of entries, in order; as [`send`](Self::send).
    pub async fn send_all(
        &mut self,
        entries: impl IntoIterator<Item = P::Item, IntoIter: Send> + Send,
    ) -> Result<(), Error> {
        for entry in entries {
            self.send(entry).await?;
        }
        Ok(())
    }

    /// The list is whole: sends the rest, marked as complete.
    pub(crate) async fn complete(mut self) -> Result<(), Error> {
        self.flush(true).await
    }

    async fn flush(&mut self, complete: bool) -> Result<(), Error> {
        self.bytes = 0;
        let page = P::page(mem::take(&mut self.gathered), complete);
        let sent = self.ctx.unless_cancelled(self.messages.send(Ok(page)));
        sent.await?.map_err(|_| Error::cancelled())
    }
}
