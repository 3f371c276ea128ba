//! Nodes register, and a watch sees them lose their taint.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    cluster::is_tainted,
    narrator::{self, Narrator},
};
use crate::{
    Error,
    follow::follow,
    nodes::{self, Load, Machine},
};

/// How long a node's addresses may follow its taint; they are a write of their own.
const SETTLE: Duration = Duration::from_secs(2);

/// After as long without a change, none is expected.
const QUIET: Duration = Duration::from_millis(250);

/// The plan.
pub(super) struct Live {
    pub(super) client: Client,
    /// Selects the nodes of this run.
    pub(super) selector: String,
    pub(super) machines: Vec<Machine>,
    pub(super) timeout: Duration,
}

/// Why not all nodes were initialised.
pub(super) enum Failure {
    /// These were not in time.
    Late(Vec<String>),
    /// The API server could not be asked.
    Request(Error),
}

/// The result.
pub(super) struct Outcome {
    /// Each node as it is in the end, with its time from registration to the end of the
    /// taint.
    pub(super) nodes: Vec<(Node, Duration)>,
    /// From the first registration to the end of the last taint.
    pub(super) took: Duration,
}

enum News {
    Registered(String),
    Seen(Box<Node>),
}

impl Live {
    /// Registers the nodes and returns when all are initialised.
    pub(super) async fn watch(self, narrator: &Narrator) -> Result<Outcome, Failure> {
        let count = self.machines.len();
        let names = self
            .machines
            .iter()
            .map(|machine| machine.name().to_owned());
        let mut tracker = Tracker::new(names);
        let end = Instant::now() + self.timeout;
        let (tell, mut news) = mpsc::unbounded_channel();

        let nodes: Api<Node> = Api::all(self.client.clone());
        let seen = |node| {
            let _ = tell.send(News::Seen(Box::new(node)));
        };
        let mut following = pin!(follow(&nodes, &self.selector, "the demo's nodes", seen));
        let mut registering = pin!(register(&self.client, self.machines, tell.clone()));
        let mut registered = false;
        narrator.begin(&format!("registering {}", narrator::nodes(count)));
        while tracker.initialised() < count {
            tokio::select! {
                Err(error) = &mut following => return Err(Failure::Request(error)),
                result = &mut registering, if !registered => {
                    result.map_err(Failure::Request)?;
                    registered = true;
                }
                Some(news) = news.recv() => tracker.take(news, Instant::now(), narrator),
                () = sleep_until(end) => return Err(Failure::Late(tracker.late())),
            }
        }
        let settled = async {
            loop {
                tokio::select! {
                    Err(_) = &mut following => return,
                    Some(news) = news.recv() => tracker.take(news, Instant::now(), narrator),
                    () = sleep(QUIET) => if tracker.has_addresses() { return },
                }
            }
        };
        // A cloud without addresses is shown as such.
        let _ = timeout(SETTLE, settled).await;
        Ok(tracker.outcome())
    }
}

async fn register(
    client: &Client,
    machines: Vec<Machine>,
    tell: mpsc::UnboundedSender<News>,
) -> Result<(), Error> {
    stream::iter(machines)
        .map(|machine| async move { nodes::register(client, &machine).await.map(|_| machine) })
        .buffer_unordered(Load::default().parallel)
        .try_for_each(|machine| {
            let _ = tell.send(News::Registered(machine.name().to_owned()));
            std::future::ready(Ok(()))
        })
        .await
}

/// The state of each node.
struct Tracker {
    nodes: BTreeMap<String, Progress>,
    registered: usize,
    initialised: usize,
    first: Option<Instant>,
    last: Option<Instant>,
}

#[derive(Default)]
struct Progress {
    registered: Option<Instant>,
    seen: Option<Node>,
    took: Option<Duration>,
}

impl Tracker {
    fn new(names: impl Iterator<Item = String>) -> Self {
        Self {
            nodes: names.map(|name| (name, Progress::default())).collect(),
            registered: 0,
            initialised: 0,
            first: None,
            last: None,
        }
    }

    const fn initialised(&self) -> usize {
        self.initialised
    }

    fn take(&mut self, news: News, now: Instant, narrator: &Narrator) {
        let (name, seen) = match news {
            News::Registered(name) => (name, None),
            News::Seen(node) => (node.metadata.name.clone().unwrap_or_default(), Some(node)),
        };
        let of = self.nodes.len();
        let Some(progress) = self.nodes.get_mut(&name) else {
            return;
        };
        // The watch may be faster than the answer to the registration.
        let registered = *progress.registered.get_or_insert_with(|| {
            self.registered += 1;
            self.first.get_or_insert(now);
            now
        });
        let Some(node) = seen else { return };
        let tainted = is_tainted(&node);
        progress.seen = Some(*node);
        if tainted || progress.took.is_some() {
            return;
        }
        let took = now - registered;
        progress.took = Some(took);
        self.initialised += 1;
        self.last = Some(now);
        // About ten lines where lines stay.
        let done = self.initialised;
        let own_line = done == of || done.is_multiple_of(of.div_ceil(10));
        narrator.update(
            &format!("{done} of {} initialised", narrator::nodes(of)),
            own_line,
        );
    }

    fn late(&self) -> Vec<String> {
        let late = self.nodes.iter().filter(|(_, node)| node.took.is_none());
        late.map(|(name, _)| name.clone()).collect()
    }

    /// Whether each node has an address by which it can be reached.
    fn has_addresses(&self) -> bool {
        self.nodes.values().all(|progress| {
            let status = progress.seen.as_ref().and_then(|node| node.status.as_ref());
            let addresses = status.and_then(|status| status.addresses.as_ref());
            addresses.is_some_and(|all| all.iter().any(|address| address.type_ != "Hostname"))
        })
    }

    fn outcome(self) -> Outcome {
        let took = self.first.zip(self.last).map(|(first, last)| last - first);
        let nodes = self.nodes.into_values();
        Outcome {
            nodes: nodes.filter_map(|node| node.seen.zip(node.took)).collect(),
            took: took.unwrap_or_default(),
        }
    }
}
