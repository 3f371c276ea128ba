//! [`Instances`]: the machines of the cloud, their existence, power state and properties. Every provider has them.
//!
//! The server calls it for `BatchGetInstances`, about a Node that is new, that is due for a comparison, or that is not
//! ready, and for `ListInstances`, if the capability says so. An answer of absence may delete a Node, so a cloud that could
//! not be asked is an error.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use outrigger_api::v1;

use crate::each::look_up_each;
use crate::sink::Sink;
use crate::{Context, Error, Outcome, WithEffects};

/// The answer about one Node.
pub type Lookup = WithEffects<Outcome<v1::Instance>>;

/// Results of a batch by the name of the Node that was asked about.
pub type Lookups = HashMap<String, Result<Lookup, Error>>;

/// Where [`list_instances`](Instances::list_instances) puts what it finds.
pub type InstanceSink = Sink<v1::ListInstancesResponse>;

/// The options of a lookup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// How much of each instance the controller reads; more may be filled.
    pub view: v1::InstanceView,
    /// An answer from the provider's own caches may be this old. Zero: ask the cloud now.
    pub max_staleness: Duration,
}

/// Looks up instances. Nothing here changes the cloud.
///
/// Look up by [`provider_id`](v1::Node::provider_id), and only where that is empty by name, system UUID or labels. A
/// Node whose provider ID has another scheme is [`Outcome::not_managed`]; one with this cloud's
/// scheme that is no id of it is [`Error::malformed_provider_id`].
///
/// **A Node is deleted on the answer [`Outcome::absent`].** Return it only when the cloud was asked
/// during this call, with the permission to see every instance of the cluster, and answered in full.
/// A cloud that cannot be asked is an [`Error`]; a cache, or an eventually consistent list, is
/// [`Outcome::not_visible_yet`].
///
/// Methods may be written as `async fn`.
///
/// # Example
///
/// ```
/// use outrigger_provider_sdk::{Context, Error, Instances, Lookup, Outcome, Query, v1};
/// # use outrigger_provider_sdk::CancellationToken;
///
/// struct Cloud;
///
/// impl Instances for Cloud {
///     async fn get_instance(&self, _: &Context, node: &v1::Node, _: &Query) -> Result<Lookup, Error> {
///         if node.name != "node-a" {
///             return Ok(Outcome::absent(format!("there is no machine {}", node.name)).into());
///         }
///         let instance = v1::Instance {
///             provider_id: "cloud://node-a".to_owned(),
///             power_state: v1::PowerState::Running.into(),
///             ..Default::default()
///         };
///         Ok(Outcome::Found(instance).into())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # let ctx = Context::detached("request-1", v1::ClusterInfo::default(), CancellationToken::new());
/// let node = |name: &str| v1::Node { name: name.to_owned(), ..Default::default() };
/// let nodes = [node("node-a"), node("node-b")];
/// let answers = Cloud.get_instances(&ctx, &nodes, &Query::default()).await.unwrap();
/// assert!(matches!(&answers["node-a"], Ok(lookup) if matches!(lookup.outcome, Outcome::Found(_))));
/// assert!(matches!(&answers["node-b"], Ok(lookup) if matches!(lookup.outcome, Outcome::Absent(_))));
/// # }
/// ```
pub trait Instances: Send + Sync + 'static {
    /// How instances are looked up. The same for the life of the process; asked when the server
    /// starts.
    fn capability(&self) -> v1::InstancesCapability {
        v1::InstancesCapability::default()
    }

    /// Calls of [`get_instance`](Self::get_instance) at one time in one batch; 0 is 1.
    fn concurrency(&self) -> usize {
        8
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
        node: &v1::Node,
        query: &Query,
    ) -> impl Future<Output = Result<Lookup, Error>> + Send;

    /// Looks up many instances: for a cloud where one call answers many ids.
    ///
    /// `nodes` has 1 to [`max_batch_size`](v1::InstancesCapability::max_batch_size) Nodes with distinct, non-empty
    /// names. An `Err` of the whole is no answer about any of them. A result for a Node that was not asked about is
    /// dropped.
    ///
    /// The default calls [`get_instance`](Self::get_instance) for each, at most
    /// [`concurrency`](Self::concurrency) at a time; a panic concerns its own Node only. Once the
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
        nodes: &[v1::Node],
        query: &Query,
    ) -> impl Future<Output = Result<Lookups, Error>> + Send {
        let concurrency = self.concurrency();
        let look_up = move |node| self.get_instance(ctx, node, query);
        look_up_each(ctx, nodes, concurrency, look_up)
    }

    /// Hands every instance that can be a Node of this cluster to `instances`, each provider ID
    /// once. `Ok` means that the list is whole; with `Err`, or a panic, the caller discards it.
    /// Served only with [`list`](v1::InstancesCapability::list).
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
