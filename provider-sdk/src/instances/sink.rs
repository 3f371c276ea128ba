use std::mem;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_api::v1;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Context, Error, Instance};

/// A message is sent once it has grown to this many bytes, unless the caller takes less.
const TARGET_BYTES: usize = 1 << 20;

/// A message that grows slowly is sent after this time: the caller gives up after 60 s of silence.
const TARGET_AGE: Duration = Duration::from_secs(10);

/// Bytes that a repeated field adds to each element: its tag and its length.
const ELEMENT_OVERHEAD: usize = 6;

/// Where [`list_instances`](crate::Instances::list_instances) puts what it finds.
///
/// Instances are gathered into messages of about 1 MiB; a caller that reads slowly makes
/// [`send`](Self::send) wait, so that memory stays bounded.
#[derive(Debug)]
pub struct InstanceSink {
    ctx: Context,
    messages: mpsc::Sender<Result<v1::ListInstancesResponse, tonic::Status>>,
    gathered: Vec<v1::Instance>,
    bytes: usize,
    first_at: Instant,
    asked_at: Timestamp,
    target_bytes: usize,
    max_bytes: usize,
}

impl InstanceSink {
    /// A sink for messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<v1::ListInstancesResponse, tonic::Status>>,
        max_bytes: usize,
        asked_at: Timestamp,
    ) -> Self {
        Self {
            ctx,
            messages,
            gathered: Vec::new(),
            bytes: 0,
            first_at: Instant::now(),
            asked_at,
            target_bytes: TARGET_BYTES.min(max_bytes),
            max_bytes,
        }
    }

    /// Hands over one instance. Waits while the caller is behind; fails once it has gone, or if the
    /// instance alone is larger than any message the caller takes. Pass the failure on with `?`.
    ///
    /// # Cancellation
    ///
    /// Safe to drop only together with the whole list: an instance may be lost.
    pub async fn send(&mut self, instance: Instance) -> Result<(), Error> {
        let instance = instance.into_wire(self.asked_at);
        let bytes = instance.encoded_len() + ELEMENT_OVERHEAD;
        if bytes > self.max_bytes {
            return Err(Error::internal(format!(
                "instance {:?} has {bytes} bytes, more than the {} that the controller takes in \
                 one message",
                instance.provider_id, self.max_bytes
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
        self.gathered.push(instance);
        Ok(())
    }

    /// Hands over a page of instances, in order; as [`send`](Self::send).
    pub async fn send_all(
        &mut self,
        instances: impl IntoIterator<Item = Instance, IntoIter: Send> + Send,
    ) -> Result<(), Error> {
        for instance in instances {
            self.send(instance).await?;
        }
        Ok(())
    }

    /// The list is whole: sends what is left with the mark that says so.
    pub(crate) async fn complete(mut self) -> Result<(), Error> {
        self.flush(true).await
    }

    async fn flush(&mut self, complete: bool) -> Result<(), Error> {
        self.bytes = 0;
        let instances = mem::take(&mut self.gathered);
        let message = v1::ListInstancesResponse {
            instances,
            complete,
        };
        tokio::select! {
            biased;
            sent = self.messages.send(Ok(message)) => sent.map_err(|_| Error::cancelled()),
            () = self.ctx.cancelled() => Err(Error::cancelled()),
        }
    }
}
