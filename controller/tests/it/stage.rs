//! Everything that one test needs: a control plane, a provider, and the controller between them.

use std::{fs, ops::Deref, path::Path, time::Duration};

use outrigger_testbed::{faults::FaultProxy, nodes::Machine};
use tempfile::TempDir;

use crate::{
    caller::Port,
    cluster::Cluster,
    controller::{Controller, plain},
    look::{is_tainted, provider_id, written},
    mock::Mock,
    wait::{holds, stays},
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

    /// Flags of the controller.
    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// Every caller may read its metrics at `port`.
    pub(crate) fn scraped_at(mut self, port: &Port) -> Self {
        self.flags.extend(port.flags());
        self.flags(&[
            "--authentication-skip-lookup=true",
            "--authorization-always-allow-paths=/metrics",
        ])
    }

    /// Nodes that are there before the controller.
    pub(crate) fn machines(mut self, machines: impl IntoIterator<Item = Machine>) -> Self {
        self.machines.extend(machines);
        self
    }

    /// Everything but the controller, for [`Stage::start_controller`].
    pub(crate) async fn prepare(self) -> Backstage {
        let cluster = Cluster::take().await;
        let proxy = cluster.way().await;
        cluster.register_all(self.machines).await;
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
            dir,
            cluster,
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
    dir: TempDir,
    cluster: Cluster,
}

impl Backstage {
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A flag of the controller that is not known before.
    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub(crate) fn flags(&self) -> &[String] {
        &self.flags
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
            dir: self.dir,
            cluster: self.cluster,
        }
    }

    /// Runs a controller that is expected to end, with these flags besides.
    pub(crate) fn run(&self, flags: &[&str]) -> (Controller, impl Fn() -> String + use<>) {
        let mut args = self.args(&self.proxy.kubeconfig());
        args.extend(flags.iter().map(|&flag| flag.to_owned()));
        let log = self.dir().join(format!("run-{:x}.log", fastrand::u64(..)));
        let controller = Controller::start(&args, &log);
        (controller, move || {
            plain(&fs::read_to_string(&log).unwrap())
        })
    }

    /// Starts a controller of some version that prints to the file `log`.
    pub(crate) fn controller_of(&self, program: &Path, log: &str) -> Controller {
        let mut args = self.args(&self.proxy.kubeconfig());
        args.extend_from_slice(&self.flags);
        Controller::start_program(program, &args, &self.dir().join(log))
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

/// A complete stage. Fields are dropped in order: the control plane last.
pub(crate) struct Stage {
    pub(crate) controller: Controller,
    controller_args: Vec<String>,
    pub(crate) mock: Mock,
    mock_args: Vec<String>,
    pub(crate) proxy: FaultProxy,
    dir: TempDir,
    cluster: Cluster,
}

impl Stage {
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The controller's writes so far, in order: `PATCH /api/v1/nodes/a`, `POST Synced a`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.proxy
            .requests()
            .iter()
            .filter(|request| request.is_write())
            .map(written)
            .collect()
    }

    /// Its writes about one node.
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

    /// Does the same as [`Self::start_controller`], and adds these flags from now on.
    pub(crate) fn start_controller_with(&mut self, flags: &[&str]) {
        let flags = flags.iter().map(|&flag| flag.to_owned());
        self.controller_args.extend(flags);
        self.start_controller();
    }

    /// Runs the controller once more, as it was started but with these flags besides, until it ends
    /// well; returns what it printed.
    pub(crate) async fn run_to_its_end(&self, flags: &[&str]) -> String {
        let flags = flags.iter().map(|&flag| flag.to_owned());
        let args: Vec<_> = self.controller_args.iter().cloned().chain(flags).collect();
        let log = self.dir().join(format!("run-{:x}.log", fastrand::u64(..)));
        let mut controller = Controller::start(&args, &log);
        let status = controller.ended().await;
        assert!(status.success(), "{status}: {}", controller.log());
        controller.log()
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

impl Deref for Backstage {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Deref for Stage {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        tell_if_panicking(self.dir.path(), &self.proxy);
    }
}

/// Prints what may explain why the test failed.
pub(crate) fn tell_if_panicking(dir: &Path, proxy: &FaultProxy) {
    if !std::thread::panicking() {
        return;
    }
    for name in ["controller.log", "mock.log"] {
        let path = dir.join(name);
        let log = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(150)..].join("\n");
        eprintln!("---- the end of {} ----\n{end}", path.display());
    }
    eprintln!("---- requests ----");
    for request in proxy.requests() {
        let (method, path, query) = (&request.method, &request.path, &request.query);
        eprintln!("{method} {path} {query} {:?}", request.outcome);
    }
}
