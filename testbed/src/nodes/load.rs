//! Many nodes at once: registered or deleted in parallel, at a rate if there is one, with progress.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Resource,
    api::{ListParams, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Machine, node_named};
use crate::{Error, Result, wire};

/// The manager that the API server notes is kubelet, as on a real node.
pub(super) const NODES: &str = "/api/v1/nodes?fieldManager=kubelet";

/// How hard to push.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Load {
    /// Requests at the same time.
    #[arg(long, default_value_t = 16)]
    pub parallel: usize,
    /// Objects per second; as fast as possible if left out.
    #[arg(long = "rate", value_name = "RATE")]
    pub per_second: Option<f64>,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            parallel: 16,
            per_second: None,
        }
    }
}

/// Registers nodes and returns the elapsed time.
///
/// `done` is called after each node with the number of nodes so far. Ends at the first
/// error; nodes registered before it stay.
pub async fn register_all(
    client: &Client,
    machines: impl IntoIterator<Item = Machine>,
    load: Load,
    done: impl FnMut(usize),
) -> Result<Duration> {
    load.run(machines, done, |machine| async move {
        let node = machine.node(Timestamp::now());
        wire::post(client, NODES, &node, &node_named(machine.name()))
            .await
            .map(drop)
    })
    .await
}

/// Deletes nodes and returns the elapsed time. A node that is not there counts as deleted.
///
/// `done` is called after each node with the number of nodes so far.
pub async fn delete_all(
    client: &Client,
    names: impl IntoIterator<Item = String>,
    load: Load,
    done: impl FnMut(usize),
) -> Result<Duration> {
    load.run(names, done, |name| async move {
        let path = format!("/api/v1/nodes/{name}");
        wire::delete(client, &path, &node_named(&name)).await
    })
    .await
}

/// The names of all nodes that start with `prefix`.
pub async fn names(client: &Client, prefix: &str) -> Result<Vec<String>> {
    let nodes = list::<PartialObjectMeta<Node>>(client).await?.into_iter();
    let names = nodes.filter_map(|node| node.metadata.name);
    Ok(names.filter(|name| name.starts_with(prefix)).collect())
}

/// All nodes, in pages; `K` is as much of each as is to be decoded.
pub async fn list<K>(client: &Client) -> Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let api = Api::<K>::all(client.clone());
    let mut nodes = Vec::new();
    let mut page = ListParams::default().limit(500);
    loop {
        let list = api.list(&page).await;
        let list = list.map_err(Error::kube("cannot list nodes"))?;
        nodes.extend(list.items);
        match list.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => return Ok(nodes),
        }
    }
}

impl Load {
    /// Does `work` for each item within the limits.
    pub async fn run<T, W: Future<Output = Result<()>>>(
        self,
        items: impl IntoIterator<Item = T>,
        mut done: impl FnMut(usize),
        work: impl Fn(T) -> W,
    ) -> Result<Duration> {
        let pace = self.per_second.map(|per_second| {
            let mut pace = interval(Duration::from_secs_f64(1.0 / per_second.max(0.001)));
            // Late ticks are made up for, so that a high rate survives coarse timers.
            pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
            pace
        });
        let started = Instant::now();
        let paced = stream::unfold((items.into_iter(), pace), async |(mut items, mut pace)| {
            let item = items.next()?;
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            Some((item, (items, pace)))
        });
        let mut finished = 0;
        paced
            .map(work)
            .buffer_unordered(self.parallel.max(1))
            .try_for_each(|()| {
                finished += 1;
                done(finished);
                std::future::ready(Ok(()))
            })
            .await?;
        Ok(started.elapsed())
    }
}
