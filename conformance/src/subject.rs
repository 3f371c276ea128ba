//! The provider under test, as a case sees it.

mod load_balancers;
mod nodes;
mod process;
mod routes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use outrigger_api::{
    CONTROLLER_MAX_MESSAGE_BYTES, METHODS, MINOR, Method,
    v1::{
        Capabilities, ClusterInfo, HandshakeRequest, HandshakeResponse, InstancesCapability,
        LoadBalancersCapability,
    },
};
use outrigger_provider_sdk::Endpoint;
use tokio::sync::Mutex;

pub(crate) use load_balancers::{
    Unended, answered_or_lost, expect_one_of, is_passing, patiently, repeated,
};
pub use load_balancers::{describe, name_of, port};
pub(crate) use nodes::{inline, named, upload};
pub(crate) use routes::{Change, Changed, destination, leads_to, routes_to};

use crate::{
    capability::Capability,
    client::Client,
    commands::{self, Provider},
    connection::AUTHORITY,
    explore::state::{differences, resources},
    inputs::Inputs,
    ledger::{Ledger, Observations},
    leftovers::Leftovers,
    log::Log,
    verdict::{Required as _, Verdict, failed, skipped},
};

/// The state of one run, which its cases share.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) endpoint: Endpoint,
    pub(crate) inputs: Inputs,
    /// The answer to the first handshake.
    pub(crate) handshake: HandshakeResponse,
    /// Names this run in everything that it makes.
    pub(crate) run_id: String,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) leftovers: Leftovers,
    /// Connected at the start, and not used before the case about idle connections.
    pub(crate) idle: Client,
    pub(crate) provider: Mutex<Option<Provider>>,
    /// The lines of `commands.cloudState` before the first case.
    pub(crate) cloud: Vec<String>,
    /// The output of each process of the provider that the suite has started.
    pub(crate) log: Arc<Log>,
}

/// The provider under test in the hands of one case, with a connection to it.
#[derive(Clone, Debug)]
pub struct Subject {
    suite: Arc<Suite>,
    case: &'static str,
    made: Arc<AtomicU32>,
    /// The connection of its calls, on which a handshake was made.
    pub client: Client,
}

impl Suite {
    /// A new connection without a handshake.
    async fn dial(&self, authority: &str) -> Verdict<Client> {
        let ledger = Arc::clone(&self.ledger);
        let (socket, cluster) = (self.endpoint.path(), &self.inputs.cluster);
        let dialed = Client::dial(socket, authority, ledger, cluster).await;
        dialed.required("the provider accepts a connection")
    }

    /// A new connection on which a handshake was made.
    async fn connect(&self) -> Verdict<Client> {
        let client = self.dial(AUTHORITY).await?;
        client.call(handshake_request(&self.inputs)).await?;
        Ok(client)
    }
}

impl Subject {
    /// Connects for a case.
    pub(crate) async fn of(suite: &Arc<Suite>, case: &'static str) -> Verdict<Self> {
        Ok(Self {
            client: suite.connect().await?,
            suite: Arc::clone(suite),
            case,
            made: Arc::default(),
        })
    }

    /// The same case with another connection.
    #[must_use]
    pub fn over(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// Where the provider listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.suite.endpoint
    }

    /// The inputs of the run.
    pub fn inputs(&self) -> &Inputs {
        &self.suite.inputs
    }

    /// The answer to the first handshake of the run.
    pub fn handshake(&self) -> &HandshakeResponse {
        &self.suite.handshake
    }

    /// The capabilities of the first handshake.
    pub fn capabilities(&self) -> Capabilities {
        self.handshake().capabilities.clone().unwrap_or_default()
    }

    /// The instances capability, or the defaults.
    pub fn instances(&self) -> InstancesCapability {
        self.capabilities().instances.unwrap_or_default()
    }

    /// The load balancers capability, or the defaults.
    pub fn load_balancers(&self) -> LoadBalancersCapability {
        self.capabilities().load_balancers.unwrap_or_default()
    }

    /// True if the handshake declares a part of the contract.
    pub fn declares(&self, capability: Capability) -> bool {
        capability.is_declared(self.handshake())
    }

    /// The methods of the capabilities that it declares.
    pub fn declared_methods(&self) -> impl Iterator<Item = &'static Method> {
        let declared = |method: &&Method| {
            let capability = Capability::of(method);
            capability != Capability::Core && self.declares(capability)
        };
        METHODS.iter().filter(declared)
    }

    /// Everything that the provider has said in this run up to now.
    pub(crate) fn observations(&self) -> Observations {
        self.suite.ledger.observations()
    }

    /// Lines with a secret of the inputs in the log of the provider.
    pub(crate) fn secrets_in_log(&self) -> Vec<String> {
        self.suite.log.with_secrets()
    }

    pub(crate) fn leftovers(&self) -> &Leftovers {
        &self.suite.leftovers
    }

    /// The connection that has been idle since the run began.
    pub fn idle(&self) -> &Client {
        &self.suite.idle
    }

    /// A new connection without a handshake.
    pub async fn dial(&self) -> Verdict<Client> {
        self.dial_to(AUTHORITY).await
    }

    /// The same, with another authority.
    pub(crate) async fn dial_to(&self, authority: &str) -> Verdict<Client> {
        self.suite.dial(authority).await
    }

    /// The same case with a new connection on which a handshake was made.
    pub async fn connect(&self) -> Verdict<Self> {
        Ok(self.over(self.suite.connect().await?))
    }

    /// The same case and connection, with one deadline for every call.
    pub(crate) fn with_deadline(&self, deadline: Duration) -> Self {
        self.over(self.client.with_deadline(deadline))
    }

    /// Makes one call on a connection that is cut once the call has ended: to the provider, its reply was lost.
    pub(crate) async fn lose_reply<T>(
        &self,
        call: impl AsyncFnOnce(&Self) -> Verdict<T>,
    ) -> Verdict<T> {
        let caller = self.connect().await?;
        let lost = call(&caller).await;
        caller.client.cut();
        lost
    }

    /// The handshake that the controller would send.
    pub fn handshake_request(&self) -> HandshakeRequest {
        handshake_request(self.inputs())
    }

    /// The same case as another cluster of the same name, which has nothing.
    #[must_use]
    pub fn of_another_cluster(&self) -> Self {
        self.over(self.client.of_another_cluster())
    }

    /// Skips the case where clusters are not told apart by their UID.
    pub fn needs_cluster_uid(&self) -> Verdict {
        if self.handshake().without_cluster_id {
            return Err(skipped("the provider declares without_cluster_id"));
        }
        Ok(())
    }

    /// A name that nothing else in this run has: `conformance-<run>-<case>-<n>`.
    pub fn name(&self) -> String {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let case = self.case.to_lowercase();
        format!("conformance-{}-{case}-{number}", self.suite.run_id)
    }

    /// Runs a command of the inputs; its standard output.
    pub async fn command(&self, command: &[String]) -> Verdict<String> {
        let ran = commands::run(command, self.endpoint()).await;
        ran.required("the command of the inputs works")
    }

    /// Resources of the cloud that it did not have before the run, by `commands.cloudState`; none without it.
    pub(crate) async fn new_in_cloud(&self) -> Verdict<Vec<String>> {
        let now = resources_now(self.inputs(), self.endpoint()).await;
        let now = now.required("commands.cloudState works")?;
        Ok(differences(&self.suite.cloud, &now).1)
    }

    /// Fails every call of the provider to its cloud while `work` runs, and undoes it at its end.
    pub async fn without_cloud<T>(&self, work: impl Future<Output = Verdict<T>>) -> Verdict<T> {
        self.switched(&self.inputs().commands.cloud_off, work).await
    }

    /// Runs a switch of the inputs before `work`, and `commands.cloudOn` after it.
    pub async fn switched<T>(
        &self,
        switch: &[String],
        work: impl Future<Output = Verdict<T>>,
    ) -> Verdict<T> {
        self.command(switch).await?;
        let ended = work.await;
        self.command(&self.inputs().commands.cloud_on).await?;
        ended
    }

    /// How many changes the cloud has had, by the command of the inputs.
    pub async fn cloud_changes(&self) -> Verdict<u64> {
        self.number(&self.inputs().commands.cloud_changes).await
    }

    /// How many calls the cloud has had, by the command of the inputs.
    pub async fn cloud_calls(&self) -> Verdict<u64> {
        self.number(&self.inputs().commands.cloud_calls).await
    }

    async fn number(&self, command: &[String]) -> Verdict<u64> {
        let printed = self.command(command).await?;
        let printed = printed.trim();
        printed.parse().map_err(|_| {
            let expected = format!("{} prints one number", command.join(" "));
            failed(expected, format!("{printed:?}"))
        })
    }

    /// Calls `look` until it works, since the cloud does again.
    pub async fn recovers<T>(&self, calls: &str, look: impl AsyncFnMut() -> Verdict<T>) -> Verdict {
        let expected = format!("{calls} work again with the cloud");
        let recovered = self.wait_for(&expected, Duration::from_mins(1), look).await;
        recovered.map(drop)
    }

    /// Calls `look` until it gives a value, at most for `limit`.
    pub async fn wait_for<T>(
        &self,
        expected: &str,
        limit: Duration,
        mut look: impl AsyncFnMut() -> Verdict<T>,
    ) -> Verdict<T> {
        let started = tokio::time::Instant::now();
        loop {
            match look().await {
                Ok(value) => return Ok(value),
                Err(stop) if started.elapsed() >= limit => {
                    return Err(failed(format!("{expected} within {limit:?}"), stop));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// The resources of the cloud by `commands.cloudState`; none without it.
pub(crate) async fn resources_now(
    inputs: &Inputs,
    endpoint: &Endpoint,
) -> Result<Vec<String>, String> {
    let command = &inputs.commands.cloud_state;
    if command.is_empty() {
        return Ok(Vec::new());
    }
    commands::run(command, endpoint)
        .await
        .map(|text| resources(&text))
}

pub(crate) fn handshake_request(inputs: &Inputs) -> HandshakeRequest {
    let cluster = &inputs.cluster;
    HandshakeRequest {
        min_minor: 1,
        max_minor: MINOR,
        controller_name: "provider-conformance".to_owned(),
        controller_version: env!("CARGO_PKG_VERSION").to_owned(),
        kubernetes_version: String::new(),
        cluster: Some(ClusterInfo {
            name: cluster.name.clone(),
            uid: cluster.uid.clone(),
            pod_cidrs: cluster.pod_cidrs.iter().map(ToString::to_string).collect(),
            service_cidrs: Vec::new(),
        }),
        max_receive_message_bytes: CONTROLLER_MAX_MESSAGE_BYTES as u64,
    }
}

/// Items of one batch, as a capability declares them. The controller uses no more than 200.
pub(crate) const fn batch_size(declared: u32) -> usize {
    match declared {
        0 => 100,
        1..=200 => declared as usize,
        _ => 200,
    }
}
