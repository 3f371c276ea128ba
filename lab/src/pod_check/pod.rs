//! The Deployment's Pod, as the API server and the kubelet's files show it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ContainerStatus, Pod},
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, EvictParams, ListParams, LogParams},
};

use super::manifest::Manifest;
use crate::real_node::RealNode;
use outrigger_testbed::{Error, Result, process::log_end};

#[derive(Clone)]
pub(super) struct Workload {
    client: Client,
    namespace: String,
    name: String,
    /// The directories with logs of Pods, by node.
    logs: Vec<PathBuf>,
}

impl Workload {
    pub(super) fn new(client: Client, manifest: &Manifest, nodes: &[RealNode]) -> Result<Self> {
        let (namespace, name) = manifest.deployment().ok_or_else(|| {
            let reason = io::Error::other("it has none with a namespace");
            Error::io("find the Deployment of the manifest")(reason)
        })?;
        Ok(Self {
            client,
            namespace,
            name,
            logs: nodes.iter().map(|node| node.dir().join("pods")).collect(),
        })
    }

    /// Nothing, if the one Pod of the Deployment is of its present template, ready, and the only one.
    pub(super) async fn lacks(&self) -> Result<Option<String>> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let deployment = deployments.get(&self.name).await;
        let deployment = deployment.map_err(Error::kube("cannot read the Deployment"))?;
        let status = deployment.status.unwrap_or_default();
        let is_seen = status.observed_generation == deployment.metadata.generation;
        let counts = [
            status.replicas,
            status.updated_replicas,
            status.available_replicas,
        ];
        let pods = self.pods().await?;
        if is_seen && counts == [Some(1); 3] && pods.len() == 1 {
            return Ok(None);
        }
        let pods: Vec<_> = pods.iter().map(describe).collect();
        Ok(Some(format!(
            "replicas, updated and available ones are {counts:?}; {}",
            pods.join("; ")
        )))
    }

    /// Nothing, if the disruption budget lets a Pod of the Deployment go.
    pub(super) async fn holds_on(&self) -> Result<Option<String>> {
        let budgets: Api<PodDisruptionBudget> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let budget = budgets.get(&self.name).await;
        let budget = budget.map_err(Error::kube("cannot read the PodDisruptionBudget"))?;
        let status = budget.status.unwrap_or_default();
        Ok((status.disruptions_allowed < 1).then(|| format!("{status:?}")))
    }

    /// Evicts the Pod, and returns its name. Fails if its disruption budget forbids that.
    pub(super) async fn evict(&self) -> Result<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let first = self.pods().await?.into_iter().next();
        let name = first.ok_or_else(|| self.absent("Pod"))?.name_any();
        let evicted = pods.evict(&name, &EvictParams::default()).await;
        evicted.map_err(Error::kube(format!("cannot evict the Pod {name}")))?;
        Ok(name)
    }

    /// Nothing, if all containers of a Pod beside the Deployment have ended well.
    pub(super) async fn succeeded(&self, name: &str) -> Result<Option<String>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.get(name).await;
        let pod = pod.map_err(Error::kube(format!("cannot read the Pod {name}")))?;
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        Ok((phase != Some("Succeeded")).then(|| describe(&pod)))
    }

    /// Deletes a Pod that has ended.
    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let at_once = DeleteParams::default().grace_period(0);
        let deleted = pods.delete(name, &at_once).await.map(drop);
        deleted.map_err(Error::kube(format!("cannot delete the Pod {name}")))
    }

    /// Returns whether a Pod of this name is there.
    pub(super) async fn has(&self, name: &str) -> Result<bool> {
        let pods = self.pods().await?;
        Ok(pods.iter().any(|pod| pod.name_any() == name))
    }

    /// A container's log, from its kubelet through the API server.
    pub(super) async fn log(&self, container: &str) -> Result<String, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let ours = self.pods().await.map_err(|error| error.to_string())?;
        let name = ours.first().map(ResourceExt::name_any).unwrap_or_default();
        let parameters = LogParams {
            container: Some(container.to_owned()),
            ..LogParams::default()
        };
        let log = pods.logs(&name, &parameters).await;
        log.map_err(|error| error.to_string())
    }

    /// A container's id and how often it was restarted.
    pub(super) async fn container(&self, name: &str) -> Result<(String, i32)> {
        let status = self.status(name).await?;
        Ok((
            status.container_id.unwrap_or_default(),
            status.restart_count,
        ))
    }

    /// The second in which a container's process started.
    pub(super) async fn started(&self, name: &str) -> Result<Timestamp> {
        let status = self.status(name).await?;
        let state = status.state.and_then(|state| state.running);
        let started = state.and_then(|running| running.started_at);
        let started = started.map(|time| time.0);
        started.ok_or_else(|| self.absent(&format!("running container {name}")))
    }

    /// Nothing, if the kubelet has renewed its Lease after `time`.
    pub(super) async fn heartbeat_since(
        &self,
        node: &str,
        time: Timestamp,
    ) -> Result<Option<String>> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
        let lease = leases.get(node).await;
        let lease = lease.map_err(Error::kube(format!("cannot read the Lease of Node {node}")))?;
        let renewed = lease.spec.and_then(|spec| spec.renew_time);
        let renewed = renewed.map(|time| time.0);
        let is_later = renewed.is_some_and(|renewed| renewed > time);
        Ok((!is_later).then(|| format!("its Lease was renewed at {renewed:?}")))
    }

    /// The last lines of a container's newest log.
    pub(super) fn log_end(&self, container: &str) -> String {
        let newest = |dir: &Path| {
            let entries = fs::read_dir(dir).ok()?;
            let times = entries.filter_map(|entry| {
                let path = entry.ok()?.path();
                Some((path.metadata().ok()?.modified().ok()?, path))
            });
            times.max().map(|(_, path)| path)
        };
        let pods = self.logs.iter().flat_map(fs::read_dir).flatten().flatten();
        let dirs = pods.map(|pod| pod.path().join(container));
        let newest = dirs.filter_map(|dir| newest(&dir)).max();
        newest.map_or_else(String::new, |path| log_end(&path))
    }

    async fn status(&self, name: &str) -> Result<ContainerStatus> {
        let pods = self.pods().await?;
        let mut statuses = pods.into_iter().flat_map(|pod| {
            let status = pod.status.unwrap_or_default();
            let sidecars = status.init_container_statuses.unwrap_or_default();
            sidecars
                .into_iter()
                .chain(status.container_statuses.unwrap_or_default())
        });
        let status = statuses.find(|status| status.name == name);
        status.ok_or_else(|| self.absent(&format!("container {name}")))
    }

    async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = pods.list(&ListParams::default()).await;
        let list = list.map_err(Error::kube("cannot list Pods"))?;
        let prefix = format!("{}-", self.name);
        let ours = list.items.into_iter();
        Ok(ours
            .filter(|pod| pod.name_any().starts_with(&prefix))
            .collect())
    }

    fn absent(&self, what: &str) -> Error {
        let reason = io::Error::other("there is none");
        Error::io(format!("find the {what} of Deployment {}", self.name))(reason)
    }
}

/// A Pod in one line: its phase, and each container that is not ready with its state.
fn describe(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let sidecars = status.init_container_statuses.unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default();
    let unready = sidecars.iter().chain(&containers);
    let unready = unready
        .filter(|container| !container.ready)
        .map(|container| {
            let state = container.state.clone().unwrap_or_default();
            let state = match (state.waiting, state.terminated) {
                (Some(waiting), _) => format!("waits: {:?} {:?}", waiting.reason, waiting.message),
                (_, Some(ended)) => {
                    format!("ended with code {}: {:?}", ended.exit_code, ended.message)
                }
                _ => "runs".to_owned(),
            };
            format!("{} {state}", container.name)
        });
    let conditions = status.conditions.unwrap_or_default();
    let conditions = conditions
        .iter()
        .filter(|condition| condition.status != "True");
    let conditions = conditions.filter_map(|condition| condition.message.clone());
    let why: Vec<_> = unready.chain(conditions).collect();
    let phase = status.phase.unwrap_or_default();
    format!("{} is {phase} ({})", pod.name_any(), why.join(", "))
}
