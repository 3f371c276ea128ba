//! Lists are sent in messages of about 1 MiB.

use std::mem;
use std::time::Duration;

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Context, Error};

/// A message is sent once it has grown to this many bytes, unless the caller accepts less.
const TARGET_BYTES: usize = 1 << 20;

/// A message that grows slowly is sent after this time: the caller cancels after 60 s of silence.
const TARGET_AGE: Duration = Duration::from_secs(10);

/// Bytes that a repeated field adds to each element: its tag and its length.
const ELEMENT_OVERHEAD: usize = 6;

/// An element of a list.
pub(crate) trait Gathered: Message + Sized {
    /// The message that carries some of them.
    type Message;

    /// One message; `complete` marks the last of a whole list.
    fn message(elements: Vec<Self>, complete: bool) -> Self::Message;

    /// The name of the whole, for an error.
    fn described(&self) -> String;
}

/// Gathers the elements of a list into messages. A caller that reads slowly makes
/// [`send`](Self::send) wait, so that memory stays bounded.
#[derive(Debug)]
pub(crate) struct Gather<T: Gathered> {
    ctx: Context,
    messages: mpsc::Sender<Result<T::Message, tonic::Status>>,
    gathered: Vec<T>,
    bytes: usize,
    first_at: Instant,
    target_bytes: usize,
    max_bytes: usize,
}

impl<T: Gathered> Gather<T> {
    /// For messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<T::Message, tonic::Status>>,
        max_bytes: usize,
    ) -> Self {
        Self {
            ctx,
            messages,
            gathered: Vec::new(),
            bytes: 0,
            first_at: Instant::now(),
            target_bytes: TARGET_BYTES.min(max_bytes),
            max_bytes,
        }
    }

    /// Hands over one element. Fails once the caller has gone, or if the element alone is larger than
    /// any message it accepts.
    pub(crate) async fn send(&mut self, element: T) -> Result<(), Error> {
        let bytes = element.encoded_len() + ELEMENT_OVERHEAD;
        if bytes > self.max_bytes {
            return Err(Error::internal(format!(
                "{} has {bytes} bytes, more than the {} that the controller accepts in one message",
                element.described(),
                self.max_bytes
            )));
        }
        let full = self.bytes + bytes > self.target_bytes;
        let old = self.first_at.elapsed() >= TARGET_AGE;
        if !self.gathered.is_empty() && (full || old) {
            self.flush(false).await?;
        }
        if self.gathered.is_empty() {
            self.first_at = Instant::now();
        }
        self.bytes += bytes;
        self.gathered.push(element);
        Ok(())
    }

    /// The list is whole: sends the rest, marked as complete.
    pub(crate) async fn complete(mut self) -> Result<(), Error> {
        self.flush(true).await
    }

    async fn flush(&mut self, complete: bool) -> Result<(), Error> {
        self.bytes = 0;
        let message = T::message(mem::take(&mut self.gathered), complete);
        tokio::select! {
            biased;
            sent = self.messages.send(Ok(message)) => sent.map_err(|_| Error::cancelled()),
            () = self.ctx.cancelled() => Err(Error::cancelled()),
        }
    }
}
