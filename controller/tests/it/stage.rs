//! Everything that one test needs: a control plane, a provider, and the controller between them.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::{Event, Node};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use outrigger_testbed::{
    faults::FaultProxy,
    nodes::{self, Machine},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    controller::Controller,
    look::{is_tainted, provider_id, reason, uid, written},
    mock::Mock,
    plane::{Plane, USER},
    wait::{holds, stays, until},
};

/// How a stage is set.
#[derive(Default)]
pub(crate) struct Setup {
    mock: Option<Vec<String>>,
    flags: Vec<String>,
    machines: Vec<Machine>,
}

impl Setup {
    /// With a mock that is started like this.
    pub(crate) fn mock(args: &[&str]) -> Self {
        Self {
            mock: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
            ..Self::default()
        }
    }

    /// With a mock that has an instance for every node.
    pub(crate) fn synthesizing() -> Self {
        Self::mock(&["--synthesize-instances"])
    }

    /// Without a provider, until the test starts one at [`Mock::endpoint`].
    pub(crate) fn without_provider() -> Self {
        Self::default()
    }

    /// A flag of the controller.
    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Nodes that are there before the controller.
    pub(crate) fn machines(mut self, machines: impl IntoIterator<Item = Machine>) -> Self {
        self.machines.extend(machines);
        self
    }

    /// Everything but the controller, for [`Stage::start_controller`].
    pub(crate) async fn prepare(self) -> Backstage {
        let plane = Plane::take().await;
        let client = plane.client().unwrap();
        let proxy = FaultProxy::start_as(&plane, USER, None).await.unwrap();
        nodes::register_all(&client, self.machines, nodes::Load::default(), |_| {})
            .await
            .unwrap();
        let dir = tempfile::Builder::new().prefix("it-").tempdir().unwrap();
        let mut mock = Mock::new(dir.path());
        if let Some(args) = &self.mock {
            mock.start(args).await;
        }
        Backstage {
            flags: self.flags,
            mock,
            mock_args: self.mock.unwrap_or_default(),
            proxy,
            client,
            dir,
            plane,
        }
    }

    /// Everything.
    pub(crate) async fn start(self) -> Stage {
        self.prepare().await.start()
    }
}

/// A stage before the controller is started.
pub(crate) struct Backstage {
    flags: Vec<String>,
    pub(crate) mock: Mock,
    mock_args: Vec<String>,
    pub(crate) proxy: FaultProxy,
    client: Client,
    dir: TempDir,
    pub(crate) plane: Plane,
}

impl Backstage {
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn start(self) -> Stage {
        let kubeconfig = self.proxy.kubeconfig();
        self.start_with(&kubeconfig)
    }

    /// Starts the controller with another kubeconfig than the proxy's.
    pub(crate) fn start_with(self, kubeconfig: &Path) -> Stage {
        let mut args = self.args(kubeconfig);
        args.extend(self.flags);
        let log = self.dir.path().join("controller.log");
        Stage {
            controller: Controller::start(&args, &log),
            controller_args: args,
            mock: self.mock,
            mock_args: self.mock_args,
            proxy: self.proxy,
            client: self.client,
            dir: self.dir,
            plane: self.plane,
        }
    }

    /// Runs a controller that is expected to end, with these flags besides.
    pub(crate) fn run(&self, flags: &[&str]) -> (Controller, impl Fn() -> String + use<>) {
        let mut args = self.args(&self.proxy.kubeconfig());
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let log = self
            .dir
            .path()
            .join(format!("run-{:x}.log", fastrand::u64(..)));
        let controller = Controller::start(&args, &log);
        (controller, move || fs::read_to_string(&log).unwrap())
    }

    fn args(&self, kubeconfig: &Path) -> Vec<String> {
        vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--provider-endpoint={}", Mock::endpoint(self.dir())),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "-v=4".to_owned(),
        ]
    }
}

/// A stage with everybody on it. Fields are dropped in order: the control plane last.
pub(crate) struct Stage {
    pub(crate) controller: Controller,
    controller_args: Vec<String>,
    pub(crate) mock: Mock,
    mock_args: Vec<String>,
    pub(crate) proxy: FaultProxy,
    client: Client,
    dir: TempDir,
    pub(crate) plane: Plane,
}

impl Stage {
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn register(&self, machine: &Machine) -> Node {
        nodes::register(&self.client, machine).await.unwrap()
    }

    pub(crate) async fn register_all(&self, machines: impl IntoIterator<Item = Machine>) {
        nodes::register_all(&self.client, machines, nodes::Load::default(), |_| {})
            .await
            .unwrap();
    }

    pub(crate) async fn node(&self, name: &str) -> Node {
        self.nodes().get(name).await.unwrap()
    }

    /// Changes a node as somebody else would, who is not the controller.
    pub(crate) async fn merge(&self, name: &str, change: Value) -> Node {
        let parameters = PatchParams::default();
        let nodes = self.nodes();
        let patched = nodes.patch(name, &parameters, &Patch::Merge(change)).await;
        patched.unwrap()
    }

    /// Waits until the taint is gone.
    pub(crate) async fn initialized(&self, name: &str) -> Node {
        until(&format!("{name} is initialised"), async || {
            let node = self.node(name).await;
            holds(!is_tainted(&node), || "it has the taint".to_owned())?;
            Ok(node)
        })
        .await
    }

    /// Waits until the event says that all is done.
    pub(crate) async fn synced(&self, name: &str) -> Node {
        until(&format!("the event of {name}"), async || {
            let node = self.node(name).await;
            let events = self.events_of(&node).await;
            let synced = events.iter().any(|event| reason(event) == "Synced");
            holds(synced, || format!("tainted: {}", is_tainted(&node)))
        })
        .await;
        // The last write may have come after the first look.
        self.node(name).await
    }

    /// Waits until all of these are done, each with one event.
    pub(crate) async fn all_synced(&self, prefix: &str, count: usize) -> Vec<Node> {
        until(&format!("{count} nodes are done"), async || {
            let nodes = self.named(prefix).await;
            let tainted = nodes.iter().filter(|node| is_tainted(node)).count();
            let events = self.events().await;
            let events = events.iter().filter(|event| reason(event) == "Synced");
            let synced: BTreeSet<_> = events
                .filter_map(|event| event.involved_object.uid.as_deref())
                .collect();
            let done = nodes
                .iter()
                .filter(|node| synced.contains(uid(node)))
                .count();
            holds(
                tainted == 0 && nodes.len() == count && done == count,
                || {
                    format!(
                        "{} nodes, {tainted} tainted, {done} with an event",
                        nodes.len()
                    )
                },
            )
        })
        .await;
        self.named(prefix).await
    }

    /// The nodes whose names start like this.
    pub(crate) async fn named(&self, prefix: &str) -> Vec<Node> {
        let list = self.nodes().list(&ListParams::default()).await.unwrap();
        let named = |node: &Node| {
            node.metadata
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with(prefix))
        };
        list.items.into_iter().filter(named).collect()
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        events.list(&ListParams::default()).await.unwrap().items
    }

    /// The events about this very node, not about another of the same name.
    pub(crate) async fn events_of(&self, node: &Node) -> Vec<Event> {
        let mut events = self.events().await;
        events.retain(|event| event.involved_object.uid.as_deref() == Some(uid(node)));
        events
    }

    /// What the controller has written so far, in order: `PATCH /api/v1/nodes/a`, `POST Synced a`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.proxy
            .requests()
            .iter()
            .filter(|request| request.is_write())
            .map(written)
            .collect()
    }

    /// What it has written about one node.
    pub(crate) fn writes_of(&self, name: &str) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| write.split(['/', ' ']).any(|part| part == name));
        writes
    }

    /// Watches that a node keeps its taint and nothing is written about it.
    pub(crate) async fn untouched(&self, name: &str, time: Duration) {
        stays(&format!("{name} is left alone"), time, async || {
            let node = self.node(name).await;
            let writes = self.writes_of(name);
            let has_id = provider_id(&node).is_some();
            holds(is_tainted(&node) && writes.is_empty() && !has_id, || {
                format!("tainted: {}, {writes:?}", is_tainted(&node))
            })
        })
        .await;
    }

    /// Watches that nothing is written any more.
    pub(crate) async fn silent(&self, time: Duration) {
        let before = self.writes();
        stays("nothing is written", time, async || {
            let writes = self.writes();
            holds(writes == before, || {
                format!("{:?}", &writes[before.len()..])
            })
        })
        .await;
    }

    /// Ends the controller in order and starts it again.
    pub(crate) async fn restart_controller(&mut self) {
        self.controller.terminate().await;
        self.start_controller();
    }

    /// `kill -9`.
    pub(crate) async fn kill_controller(&mut self) {
        self.controller.kill().await;
    }

    /// Starts the controller again, once it has ended.
    pub(crate) fn start_controller(&mut self) {
        let log = self.dir.path().join("controller.log");
        self.controller = Controller::start(&self.controller_args, &log);
    }

    /// Starts the mock again, as it was started first.
    pub(crate) async fn restart_mock(&mut self) {
        let args = self.mock_args.clone();
        self.mock.start(&args).await;
    }

    /// Starts the mock in another way.
    pub(crate) async fn start_mock(&mut self, args: &[&str]) {
        self.mock_args = args.iter().map(|&arg| arg.to_owned()).collect();
        self.restart_mock().await;
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["controller.log", "mock.log"] {
                let log = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(150)..].join("\n");
                eprintln!("---- the end of {name} ----\n{end}");
            }
            eprintln!("---- requests ----");
            for request in self.proxy.requests() {
                let (method, path, query) = (&request.method, &request.path, &request.query);
                eprintln!("{method} {path} {query} {:?}", request.outcome);
            }
        }
    }
}
