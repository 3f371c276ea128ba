//! The mock as a program of its own.

pub(crate) mod load_balancers;

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::{self, Stdio},
    time::SystemTime,
};

use outrigger_provider_mock::{
    cloud::Counts,
    control::{
        AnnounceMaintenance, Changed, Client, Command as Control, Listed, SetFault, ShownRoutes,
        Status, Targets,
    },
    faults::Fault,
    instances::{Instance, InstanceSpec},
    routes::Route,
    volumes::{Volume, VolumeState},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::{Child, Command},
    sync::OnceCell,
    task::spawn_blocking,
};

use crate::wait::until;

/// A `provider-mock serve` that can be killed and started again. Dropping it kills it.
pub(crate) struct Mock {
    dir: PathBuf,
    child: Option<Child>,
    control: Client,
}

impl Mock {
    /// A mock that is not started yet; its sockets are in `dir`.
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            child: None,
            control: Client::new(dir.join("provider.sock.ctl")),
        }
    }

    /// The endpoint in `dir`, as both sides name it.
    pub(crate) fn endpoint(dir: &Path) -> String {
        format!("unix://{}/provider.sock", dir.display())
    }

    /// Starts it and waits until it serves.
    pub(crate) async fn start(&mut self, args: &[String]) {
        self.start_program(binary().await, args).await;
    }

    /// The same of another version.
    pub(crate) async fn start_program(&mut self, program: &Path, args: &[String]) {
        let log = self.dir.join("mock.log");
        let out = File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(program)
            .args(["serve", "--endpoint", &Self::endpoint(&self.dir)])
            .args(args)
            .env_clear()
            .stdin(Stdio::null())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.child = Some(child);
        until("the mock serves", async || {
            let status = self.control.ask::<Status>(&Control::Status).await;
            status.map(drop).map_err(|error| error.to_string())
        })
        .await;
    }

    /// `kill -9`. Returns when it is gone.
    pub(crate) async fn kill(&mut self) {
        self.child.take().unwrap().kill().await.unwrap();
    }

    /// Ends it as a kubelet does, so that running calls are answered. Returns when it is gone.
    pub(crate) async fn terminate(&mut self) {
        self.signal(Signal::TERM);
        self.child.take().unwrap().wait().await.unwrap();
    }

    /// Sends its process a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let process = self.child.as_ref().and_then(Child::id).unwrap();
        kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
    }

    /// Sends a command whose answer does not matter.
    async fn command(&self, command: Control) {
        self.control.send(&command).await.unwrap();
    }

    async fn counts(&self) -> Counts {
        self.control.ask(&Control::Counters).await.unwrap()
    }

    pub(crate) async fn create(&self, spec: InstanceSpec) -> Instance {
        let create = Control::Create(Box::new(spec));
        let made: Changed = self.control.ask(&create).await.unwrap();
        made.changed.into_iter().next().unwrap()
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.command(Control::Delete(only(name))).await;
    }

    /// Stops an instance; it can be started again.
    pub(crate) async fn stop(&self, name: &str) {
        self.command(Control::Stop(only(name))).await;
    }

    pub(crate) async fn announce(&self, announced: AnnounceMaintenance) {
        self.command(Control::Maintenance(announced)).await;
    }

    pub(crate) async fn start_instance(&self, name: &str) {
        self.command(Control::Start(only(name))).await;
    }

    pub(crate) async fn inject(&self, fault: Fault) {
        let fault = SetFault { fault, add: true };
        self.command(Control::SetFault(fault)).await;
    }

    pub(crate) async fn clear(&self) {
        self.command(Control::Clear).await;
    }

    /// How many faults are set and not used up.
    pub(crate) async fn faults(&self) -> usize {
        let status: Status = self.control.ask(&Control::Status).await.unwrap();
        status.faults.len()
    }

    /// How many nodes were asked about so far, each time counted.
    pub(crate) async fn asked(&self) -> u64 {
        let counts = self.counts().await;
        let lookups = counts.items.get("BatchGetInstances");
        lookups.copied().unwrap_or_default()
    }

    /// Waits until so many nodes were asked about.
    pub(crate) async fn was_asked(&self, times: u64) {
        until(&format!("{times} questions to the mock"), async || {
            let lookups = self.asked().await;
            if lookups >= times {
                Ok(())
            } else {
                Err(format!("{lookups} so far"))
            }
        })
        .await;
    }

    /// The provider id of the instance of that name.
    pub(crate) async fn provider_id(&self, name: &str) -> String {
        let listed: Listed = self.control.ask(&Control::List).await.unwrap();
        let mut instances = listed.instances.iter();
        let instance = instances.find(|instance| instance.name.as_str() == name);
        format!("{}://{}", listed.provider_name, instance.unwrap().id)
    }

    /// All routes, by name.
    pub(crate) async fn routes(&self) -> Vec<Route> {
        let shown: ShownRoutes = self.control.ask(&Control::Routes).await.unwrap();
        shown.routes
    }

    /// Another client deletes all of them.
    pub(crate) async fn lose_routes(&self) {
        let all = Targets {
            all: true,
            ..Targets::default()
        };
        self.command(Control::RemoveRoutes(all)).await;
    }

    /// Makes a volume of the region `north` and the zones `a` and `b`, or lets it answer otherwise.
    pub(crate) async fn set_volume(&self, handle: &str, state: VolumeState) {
        let volume = Volume {
            handle: handle.to_owned(),
            region: "north".to_owned(),
            zones: vec!["a".to_owned(), "b".to_owned()],
            state,
        };
        self.command(Control::SetVolume(volume)).await;
    }

    /// How many lookups of volumes it has answered.
    pub(crate) async fn volume_lookups(&self) -> u64 {
        let counts = self.counts().await;
        counts.calls("GetVolume", "OK")
    }
}

fn only(name: &str) -> Targets {
    Targets {
        targets: vec![name.to_owned()],
        ..Targets::default()
    }
}

/// An instance of which only the name is given.
pub(crate) fn instance(name: &str) -> InstanceSpec {
    InstanceSpec::named(name.parse().unwrap())
}

/// An instance with these addresses, each as `ctl create --address` takes it.
pub(crate) fn instance_at(name: &str, addresses: &[&str]) -> InstanceSpec {
    let addresses = addresses.iter().map(|address| address.parse().unwrap());
    InstanceSpec {
        addresses: addresses.collect(),
        ..instance(name)
    }
}

/// The program, beside the one that is tested, or that `OUTRIGGER_TEST_MOCK` names. Another package's, so cargo
/// builds it only if the whole workspace is tested.
pub(crate) async fn binary() -> &'static Path {
    static BINARY: OnceCell<PathBuf> = OnceCell::const_new();
    let path = BINARY.get_or_init(|| async { spawn_blocking(find).await.unwrap() });
    path.await
}

fn find() -> PathBuf {
    if let Some(named) = env::var_os("OUTRIGGER_TEST_MOCK") {
        return named.into();
    }
    let controller = Path::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    let dir = controller.parent().unwrap();
    let mock = dir.join("provider-mock");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = ["proto", "provider-mock/src", "provider-sdk/src"];
    let newest = sources.iter().map(|source| newest(&workspace.join(source)));
    let built = mock.metadata().and_then(|file| file.modified()).ok();
    if built.is_none() || built < newest.max() {
        let profile = match dir.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = process::Command::new(cargo)
            .args([
                "build",
                "--package=outrigger-provider-mock",
                "--profile",
                profile,
            ])
            .arg("--manifest-path")
            .arg(workspace.join("Cargo.toml"))
            .arg("--target-dir")
            .arg(dir.parent().unwrap())
            .status();
        assert!(status.unwrap().success(), "provider-mock was not built");
    }
    mock
}

/// When the newest file below a directory was changed.
fn newest(dir: &Path) -> SystemTime {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let times = entries.map(|path| {
        if path.is_dir() {
            newest(&path)
        } else {
            path.metadata().unwrap().modified().unwrap()
        }
    });
    times.max().unwrap_or(SystemTime::UNIX_EPOCH)
}
