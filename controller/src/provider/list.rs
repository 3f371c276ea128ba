//! All instances at once, where a provider can tell them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use outrigger_api::v1::{self, instances_service_client::InstancesServiceClient};
use outrigger_core::{answer::Rules, instance::Instance};
use tokio::time::timeout;
use tonic::{Request, Response, Status};
use tracing::warn;

use super::{
    Class, Error, Provider, Purpose,
    call::{Limits, Unary},
    details::Checked,
    lookup,
};

/// Between two messages.
const SILENCE: Duration = Duration::from_mins(1);
/// More instances than any cluster has nodes: a list that does not end.
const MOST: usize = 100_000;

/// `InstancesService.ListInstances`, gathered.
struct ListInstances;

struct Gathered {
    instances: Vec<v1::Instance>,
    fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Silent,
    Incomplete,
    GoesOn,
    TooMany,
}

impl Unary for ListInstances {
    type Request = v1::ListInstancesRequest;
    type Response = Gathered;
    const NAME: &'static str = "ListInstances";
    const DEADLINE: Duration = Duration::from_mins(5);

    async fn send(
        channel: Checked,
        limits: Limits,
        request: Request<Self::Request>,
    ) -> Result<Response<Gathered>, Status> {
        let mut client =
            InstancesServiceClient::new(channel).max_decoding_message_size(limits.receive);
        let mut stream = client.list_instances(request).await?.into_inner();
        let mut instances = Vec::new();
        let mut complete = false;
        let fault = loop {
            let Ok(message) = timeout(SILENCE, stream.message()).await else {
                break Some(Fault::Silent);
            };
            let Some(message) = message? else {
                break (!complete).then_some(Fault::Incomplete);
            };
            if complete {
                break Some(Fault::GoesOn);
            }
            complete = message.complete;
            instances.extend(message.instances);
            if instances.len() > MOST {
                break Some(Fault::TooMany);
            }
        };
        Ok(Response::new(Gathered { instances, fault }))
    }
}

impl Provider {
    /// Lists every instance that can be a node of this cluster, all of them or an error.
    ///
    /// An instance that breaks the contract is left out. So being missing here is a hint and no
    /// more: ask with [`Provider::lookup`] before anything follows from it.
    ///
    /// Waits while the class [`Class::Instances`] is paused.
    ///
    /// # Errors
    /// [`Error::NotServed`] where the provider does not offer lists, else any [`Error`].
    pub async fn list(&self, purpose: Purpose) -> Result<Vec<Instance>, Error> {
        let rpc = ListInstances::NAME;
        let permit = self.shared.gate.enter(Class::Instances).await;
        let link = self.shared.link()?;
        let session = Arc::clone(&link.session);
        let offered = session.instances.as_ref().filter(|offered| offered.list);
        let offered = offered.ok_or(Error::NotServed { rpc })?;
        self.shared.metrics.asked(purpose);
        let gathered = self
            .shared
            .call::<ListInstances>(&permit, link, |_, context| v1::ListInstancesRequest {
                context: Some(context),
                max_staleness: purpose.max_staleness().try_into().ok(),
                view: lookup::wire_view(purpose).into(),
            })
            .await?;
        if let Some(fault) = gathered.fault {
            return Err(fault.error());
        }
        let rules = Rules {
            prefixes: &offered.prefixes,
            empty_provider_id: offered.without_provider_id,
        };
        let total = gathered.instances.len();
        let mut ids = HashSet::with_capacity(total);
        let mut listed = Vec::with_capacity(total);
        let mut refused = None;
        for raw in gathered.instances {
            if !raw.provider_id.is_empty() && !ids.insert(raw.provider_id.clone()) {
                return Err(malformed("one provider ID twice in a list"));
            }
            match lookup::read_instance(raw, purpose, rules) {
                Ok(instance) => listed.push(instance),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            let left_out = total - listed.len();
            warn!(
                left_out,
                total, "instances are left out of the list: {error}"
            );
        }
        Ok(listed)
    }
}

impl Fault {
    fn error(self) -> Error {
        let rpc = ListInstances::NAME;
        match self {
            Self::Silent => Error::Timeout {
                rpc,
                after: SILENCE,
            },
            Self::Incomplete => malformed("a list that ends without `complete`"),
            Self::GoesOn => malformed("a list that goes on after `complete`"),
            Self::TooMany => malformed("a list of more than 100,000 instances"),
        }
    }
}

fn malformed(what: &str) -> Error {
    Error::Malformed {
        rpc: ListInstances::NAME,
        what: what.into(),
    }
}
