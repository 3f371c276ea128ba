//! Machines of the cloud: whether they exist, whether they run, and what they are.

mod capability;
mod instance;
mod lookup;

use std::collections::HashMap;
use std::future::Future;

use outrigger_api::v1;

use crate::each::look_up_each;
use crate::sink::{Listed, Sink};
use crate::{Context, Error, Node};

pub use capability::{InstancesCapability, LookupPreference};
pub use instance::{Instance, PlannedMaintenance, PowerState};
pub use lookup::{Certainty, Lookup, Outcome, Query, View};

/// Results of a batch by the name of the Node that was asked about.
pub type Lookups = HashMap<String, Result<Lookup, Error>>;

/// Where [`list_instances`](Instances::list_instances) puts what it finds.
pub type InstanceSink = Sink<Instance>;

impl Listed for Instance {
    type Page = v1::ListInstancesResponse;

    fn into_wire(self) -> v1::Instance {
        self.into_wire()
    }
}

/// Looks up instances. Nothing here changes the cloud.
///
/// Look up by [`Node::provider_id`], and only where that is empty by name, system UUID or labels. A
/// Node whose provider ID has another scheme is [`Lookup::not_managed`]; one with this cloud's
/// scheme that is no id of it is [`Error::malformed_provider_id`].
///
/// **A Node is deleted on the answer [`Lookup::absent`].** Return it only when the cloud was asked
/// during this call, with the permission to see every instance of the cluster, and answered in full.
/// A cloud that cannot be asked is an [`Error`]; a cache, or an eventually consistent list, is
/// [`Lookup::not_visible_yet`].
///
/// Methods may be written as `async fn`.
pub trait Instances: Send + Sync + 'static {
    /// How instances are looked up. The same for the life of the process; asked when the server
    /// starts and by the default [`get_instances`](Self::get_instances).
    fn capability(&self) -> InstancesCapability {
        InstancesCapability::default()
    }

    /// Looks up one instance.
    ///
    /// # Cancellation
    ///
    /// Called by the default [`get_instances`](Self::get_instances), it is dropped at its next
    /// `await` when the caller goes away.
    fn get_instance(
        &self,
        ctx: &Context,
        node: &Node,
        query: &Query,
    ) -> impl Future<Output = Result<Lookup, Error>> + Send;

    /// Looks up many instances: for a cloud where one call answers many ids.
    ///
    /// `nodes` has 1 to [`InstancesCapability::max_batch_size`] Nodes with distinct, non-empty
    /// names. An `Err` of the whole is no answer about any of them. A Node that is missing from the
    /// result is reported as failed, a result for a Node that was not asked about is dropped; both
    /// are logged.
    ///
    /// The default calls [`get_instance`](Self::get_instance) for each, at most
    /// [`InstancesCapability::concurrency`] at a time; a panic concerns its own Node only. Once the
    /// cloud limits the rate, refuses the credentials or is away, the Nodes that were not asked
    /// about yet get that error too. Shortly before the deadline of the call the Nodes without an answer
    /// get an error, so that the others have theirs: the caller asks about them again.
    ///
    /// # Cancellation
    ///
    /// See [`Context`].
    fn get_instances(
        &self,
        ctx: &Context,
        nodes: &[Node],
        query: &Query,
    ) -> impl Future<Output = Result<Lookups, Error>> + Send {
        let concurrency = self.capability().concurrency;
        let look_up = move |node| self.get_instance(ctx, node, query);
        look_up_each(ctx, nodes, concurrency, |node| &node.name, look_up)
    }

    /// Hands every instance that can be a Node of this cluster to `instances`, each provider ID
    /// once. `Ok` means that the list is whole; with `Err`, or a panic, the caller discards it.
    /// Served only with [`InstancesCapability::list`].
    ///
    /// # Cancellation
    ///
    /// See [`Context`]; [`InstanceSink::send`] also fails once the caller is gone.
    fn list_instances(
        &self,
        ctx: &Context,
        query: &Query,
        instances: &mut InstanceSink,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (ctx, query, instances);
        std::future::ready(Err(Error::capability_disabled(
            "this provider does not list instances",
        )))
    }
}
