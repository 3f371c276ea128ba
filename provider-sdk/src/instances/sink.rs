use outrigger_api::v1;
use tokio::sync::mpsc;

use crate::gather::{Gather, Gathered};
use crate::{Context, Error, Instance};

/// Where [`list_instances`](crate::Instances::list_instances) puts what it finds.
///
/// Instances are gathered into messages of about 1 MiB; a caller that reads slowly makes
/// [`send`](Self::send) wait, so that memory stays bounded.
#[derive(Debug)]
pub struct InstanceSink {
    gather: Gather<v1::Instance>,
}

impl Gathered for v1::Instance {
    type Message = v1::ListInstancesResponse;

    fn message(items: Vec<Self>, complete: bool) -> Self::Message {
        v1::ListInstancesResponse { items, complete }
    }

    fn described(&self) -> String {
        format!("instance {:?}", self.provider_id)
    }
}

impl InstanceSink {
    /// A sink for messages of at most `max_bytes`.
    pub(crate) fn new(
        ctx: Context,
        messages: mpsc::Sender<Result<v1::ListInstancesResponse, tonic::Status>>,
        max_bytes: usize,
    ) -> Self {
        Self {
            gather: Gather::new(ctx, messages, max_bytes),
        }
    }

    /// Hands over one instance. Waits while the caller is behind; fails once it has gone, or if the
    /// instance alone is larger than any message the caller accepts. Pass the failure on with `?`.
    ///
    /// # Cancellation
    ///
    /// Safe to drop only together with the whole list: an instance may be lost.
    pub async fn send(&mut self, instance: Instance) -> Result<(), Error> {
        self.gather.send(instance.into_wire()).await
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

    /// The list is whole: sends the rest, marked as complete.
    pub(crate) async fn complete(self) -> Result<(), Error> {
        self.gather.complete().await
    }
}
