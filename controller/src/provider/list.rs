//! The list of all instances, where a provider serves it.

use std::{collections::HashSet, time::Duration};

use outrigger_api::v1::{self, instances_service_client::InstancesServiceClient};
use outrigger_core::node::{answer::Rules, instance::Instance};
use tonic::{Request, Response, Status};
use tracing::warn;

use super::{
    Error, LookupPurpose, Provider,
    call::{MessageLimits, Unary},
    details::Checked,
    gather::{Gathered, gather},
    lookup,
};

/// `InstancesService.ListInstances`, gathered.
struct ListInstances;

impl Unary for ListInstances {
    type Request = v1::ListInstancesRequest;
    type Response = Gathered<v1::Instance>;
    const NAME: &'static str = "ListInstances";
    const DEADLINE: Duration = Duration::from_mins(5);
    const WITHOUT: &'static str = "labels and addresses of Nodes are not kept in step";

    async fn send(
        channel: Checked,
        limits: MessageLimits,
        request: Request<Self::Request>,
    ) -> Result<Response<Self::Response>, Status> {
        let mut client =
            InstancesServiceClient::new(channel).max_decoding_message_size(limits.receive);
        let call = client.list_instances(request);
        gather(call, |part| (part.instances, part.complete)).await
    }
}

impl Provider {
    /// Lists every instance that can be a node of this cluster, all of them or an error.
    ///
    /// An instance that breaks the contract is left out. So being missing here is a hint and no
    /// more: ask with [`Provider::lookup`] before anything follows from it.
    ///
    /// Waits while calls about instances are paused.
    ///
    /// # Errors
    /// [`Error::NotOffered`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(&self, purpose: LookupPurpose) -> Result<Vec<Instance>, Error> {
        let rpc = ListInstances::NAME;
        let (permit, session) = self.admit::<ListInstances>(purpose.into()).await?;
        let offered = session.instances.as_ref().filter(|offered| offered.list);
        let offered = offered.ok_or(Error::NotOffered { rpc })?;
        self.shared.metrics.asked(purpose);
        let instances = self
            .shared
            .call::<ListInstances>(&permit, &self.preconditions, &session, |_, context| {
                v1::ListInstancesRequest {
                    context: Some(context),
                    max_staleness: purpose.max_staleness().try_into().ok(),
                    view: lookup::wire_view(purpose).into(),
                }
            })
            .await?
            .whole(rpc)?;
        let rules = Rules {
            prefixes: &offered.prefixes,
            empty_provider_id: offered.without_provider_id,
        };
        let total = instances.len();
        let mut ids = HashSet::with_capacity(total);
        let mut listed = Vec::with_capacity(total);
        let mut refused = None;
        for raw in instances {
            if !raw.provider_id.is_empty() && !ids.insert(raw.provider_id.clone()) {
                return Err(Error::Malformed {
                    rpc,
                    what: "one provider ID twice in a list".into(),
                });
            }
            match lookup::read_instance(raw, purpose, rules) {
                Ok(instance) => listed.push(instance),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            let left_out = total - listed.len();
            warn!(left_out, total, %error, "instances left out of the list");
        }
        Ok(listed)
    }
}
