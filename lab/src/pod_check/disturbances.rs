//! A Pod is killed and evicted, and its kubelet restarted; all works on after each.

use k8s_openapi::jiff::Timestamp;

use super::{
    NODE, Stage,
    manifest::{CONTROLLER, PROVIDER},
};
use outrigger_testbed::{Result, check::Checked};

impl Stage<'_> {
    /// The processes of these containers, by `kill -9`.
    pub(super) async fn kill(&mut self, containers: &[&'static str]) -> Result<()> {
        let mut before = Vec::new();
        for container in containers {
            before.push((*container, self.workload.container(container).await?));
        }
        for (_, (id, _)) in &before {
            self.nodes[0].kill_container(id).await?;
        }
        let workload = self.workload.clone();
        let probe = async || {
            for (container, (_, restarts)) in &before {
                if workload.container(container).await?.1 <= *restarts {
                    return Ok(Some(format!("the container {container} has not restarted")));
                }
            }
            workload.lacks().await
        };
        self.until(&format!("{} runs again", containers.join(" and ")), probe)
            .await?;
        self.nothing_is_lost().await
    }

    /// Evicts the Pod, as `kubectl drain` does.
    pub(super) async fn evict(&mut self) -> Result<()> {
        let workload = self.workload.clone();
        self.until("the disruption budget lets the Pod go", async || {
            workload.holds_on().await
        })
        .await?;
        let evicted = self.workload.evict().await?;
        self.until("another Pod is ready", async || {
            if workload.has(&evicted).await? {
                return Ok(Some(format!("{evicted} is there")));
            }
            workload.lacks().await
        })
        .await?;
        self.nothing_is_lost().await
    }

    /// By `kill -9`.
    pub(super) async fn restart_kubelet(&mut self) -> Result<()> {
        let before = [
            self.workload.container(CONTROLLER).await?,
            self.workload.container(PROVIDER).await?,
        ];
        let killed = Timestamp::now();
        self.nodes[0].kill_kubelet().await?;
        let workload = self.workload.clone();
        let probe = async || workload.heartbeat_since(NODE, killed).await;
        self.until("the kubelet sends heartbeats again", probe)
            .await?;
        let after = [
            self.workload.container(CONTROLLER).await?,
            self.workload.container(PROVIDER).await?,
        ];
        if before != after {
            return Err(self.unfulfilled(
                "no container restarts with the kubelet",
                format!("{after:?}"),
            ));
        }
        self.nothing_is_lost().await
    }
}
