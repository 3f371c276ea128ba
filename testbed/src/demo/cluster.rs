//! The API server of a demo: started for it, or an existing one.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, api::ListParams};
use tokio::time::{interval, timeout};

use super::{Error, LABEL, Run, error::root};
use crate::{
    ControlPlane,
    cli::client_config,
    nodes::{self, Load, is_tainted},
    process::log_end,
    signals::Signals,
};

/// Time limit for the first answer of an existing API server.
const ANSWER: Duration = Duration::from_secs(10);

/// How long the demo's API server may not answer before it counts as gone.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

/// An API server, and how to reach it.
pub(super) struct Cluster {
    plane: Option<ControlPlane>,
    kubeconfig: PathBuf,
    url: String,
    client: Client,
}

impl Cluster {
    /// A control plane that the demo started.
    pub(super) fn own(plane: ControlPlane) -> Result<Self, Error> {
        Ok(Self {
            kubeconfig: plane.admin_kubeconfig()?,
            url: plane.url(),
            client: plane.client()?,
            plane: Some(plane),
        })
    }

    /// The cluster that the current context of a kubeconfig names, if it is fit for a demo.
    pub(super) async fn existing(path: &Path) -> Result<Self, Error> {
        let unusable = |error: &dyn std::error::Error| Error::Kubeconfig {
            path: path.to_owned(),
            reason: root(error),
        };
        // Absolute: it is handed to another process and to the user's other terminals.
        let kubeconfig = std::path::absolute(path).map_err(|error| unusable(&error))?;
        let config = client_config(&kubeconfig).await;
        let mut config = config.map_err(|error| unusable(&error))?;
        config.connect_timeout = Some(ANSWER);
        // A watch is silent for as long as nothing changes.
        config.read_timeout = None;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        let cluster = Self {
            plane: None,
            kubeconfig,
            url,
            client,
        };
        cluster.check().await?;
        Ok(cluster)
    }

    /// The controller initialises every node that waits for one, and the mock has an instance
    /// for any name. So there must be none but the demo's.
    async fn check(&self) -> Result<(), Error> {
        let unreachable = |reason| Error::Unreachable {
            server: self.url.clone(),
            path: self.kubeconfig.clone(),
            reason,
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        // Our label: Nodes that a killed demo has left are no obstacle.
        let others = ListParams::default().labels(&format!("!{LABEL}"));
        let mut waiting = Vec::new();
        let mut page = others.limit(500);
        loop {
            let list = match timeout(ANSWER, nodes.list(&page)).await {
                Ok(Ok(list)) => list,
                Ok(Err(kube::Error::Api(status))) => {
                    return Err(Error::Kubeconfig {
                        path: self.kubeconfig.clone(),
                        reason: format!("{} refuses to list nodes: {}", self.url, status.message),
                    });
                }
                Ok(Err(error)) => return Err(unreachable(root(&error))),
                Err(_) => {
                    let reason = format!("no answer within {} s", ANSWER.as_secs());
                    return Err(unreachable(reason));
                }
            };
            waiting.extend(
                list.items
                    .into_iter()
                    .filter(is_tainted)
                    .filter_map(|node| node.metadata.name),
            );
            match list.metadata.continue_ {
                Some(token) if !token.is_empty() => page = page.continue_token(&token),
                _ => break,
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        Err(Error::NodesOfOthers {
            count: waiting.len(),
            names: waiting[..waiting.len().min(3)].join(", "),
        })
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The control plane's directory, if it is the demo's own.
    pub(super) fn own_dir(&self) -> Option<&Path> {
        self.plane.as_ref().map(ControlPlane::dir)
    }

    /// Returns when the demo's API server has stopped answering. Another cluster's API
    /// server may restart when it likes.
    pub(super) async fn failure(&self) -> Error {
        const EVERY: Duration = Duration::from_millis(500);
        let Some(plane) = &self.plane else {
            return std::future::pending().await;
        };
        let allowed = SILENCE.as_millis() / EVERY.as_millis();
        let mut tick = interval(EVERY);
        let mut failed = 0;
        loop {
            tick.tick().await;
            // Any answer will do: an API server under load may well be unready for a moment.
            let reason = match timeout(ANSWER, self.client.apiserver_version()).await {
                Ok(Ok(_) | Err(kube::Error::Api(_))) => {
                    failed = 0;
                    continue;
                }
                Ok(Err(error)) => root(&error),
                Err(_) => "no answer in time".to_owned(),
            };
            failed += 1;
            if failed >= allowed {
                let log_end = log_end(&plane.dir().join("kube-apiserver.log"));
                return Error::ApiServerGone { reason, log_end };
            }
        }
    }

    /// Ends the demo's control plane; deletes the demo's nodes from another's, unless
    /// a further signal comes.
    pub(super) async fn clean_up(self, run: &Run, signals: &mut Signals) -> Result<(), Error> {
        const DEADLINE: Duration = Duration::from_mins(1);
        if let Some(plane) = self.plane {
            return Ok(plane.stop().await?);
        }
        let reason = tokio::select! {
            deleted = timeout(DEADLINE, delete(&self.client, &run.prefix)) => match deleted {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("deleting them took more than {} s", DEADLINE.as_secs()),
            },
            () = signals.next() => "deleting them was interrupted".to_owned(),
        };
        Err(Error::NodesLeft {
            reason,
            path: self.kubeconfig,
            selector: run.selector(),
        })
    }
}

async fn delete(client: &Client, prefix: &str) -> crate::Result<()> {
    // Until there are none: a cancelled request may have been served meanwhile.
    loop {
        let names = nodes::names(client, prefix).await?;
        if names.is_empty() {
            return Ok(());
        }
        nodes::delete_all(client, names, Load::default(), |_| {}).await?;
    }
}
