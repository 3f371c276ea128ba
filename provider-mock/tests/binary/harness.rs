//! A running `provider-mock` and a user who types commands.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use outrigger_api::v1::instances_service_client::InstancesServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{
    BatchGetInstancesRequest, CallContext, ClusterInfo, HandshakeRequest, InstanceResult, Node,
};
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

/// For anything that a process does.
const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_provider-mock"));
    command
        .env_remove("CLOUDPROVIDER_ENDPOINT")
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(DEADLINE, work).await;
    ended.unwrap_or_else(|_| panic!("{what} took longer than {DEADLINE:?}"))
}

pub(crate) struct Served {
    child: Child,
    socket: PathBuf,
}

impl Served {
    /// Starts `serve` in a directory.
    pub(crate) fn spawn(directory: &Path, flags: &[&str]) -> Self {
        let socket = directory.join("provider.sock");
        let child = binary()
            .arg("serve")
            .args(["--endpoint", &format!("unix://{}", socket.display())])
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child, socket }
    }

    /// Starts `serve` in a directory and waits until it accepts connections.
    pub(crate) async fn start(directory: &Path, flags: &[&str]) -> Self {
        let Self { mut child, socket } = Self::spawn(directory, flags);
        let ready = async {
            while UnixStream::connect(&socket).await.is_err() {
                if child.try_wait().unwrap().is_some() {
                    let mut log = String::new();
                    child
                        .stderr
                        .take()
                        .unwrap()
                        .read_to_string(&mut log)
                        .await
                        .unwrap();
                    panic!("it ended: {log}");
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within("starting", ready).await;
        Self { child, socket }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Most memory that it has had so far.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let value = line.unwrap().split_whitespace().nth(1);
        value.unwrap().parse().unwrap()
    }

    pub(crate) async fn ctl_output(&self, command: &str) -> Output {
        let mut ctl = binary();
        ctl.args(["ctl", "--endpoint", &self.endpoint()])
            .args(command.split_whitespace());
        within(command, ctl.output()).await.unwrap()
    }

    /// The output of a command; it must succeed.
    pub(crate) async fn ctl(&self, command: &str) -> String {
        let output = self.ctl_output(command).await;
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "ctl {command}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The answer to a command; it must succeed.
    pub(crate) async fn json(&self, command: &str) -> Value {
        serde_json::from_str(&self.ctl(command).await).unwrap()
    }

    /// How many objects of a kind a command lists.
    pub(crate) async fn count(&self, command: &str, kind: &str) -> usize {
        self.json(command).await[kind].as_array().unwrap().len()
    }

    /// The sentence with which a command fails.
    pub(crate) async fn ctl_fails(&self, command: &str) -> String {
        let output = self.ctl_output(command).await;
        assert!(!output.status.success(), "ctl {command} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    /// A connection to the provider's socket that has shaken hands.
    pub(crate) async fn channel(&self) -> Channel {
        let socket = self.socket.clone();
        let dial = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let channel = within(
            "connecting",
            Endpoint::from_static("http://localhost").connect_with_connector(dial),
        )
        .await
        .unwrap();
        let handshake = HandshakeRequest {
            min_minor: 1,
            max_minor: 1,
            cluster: Some(ClusterInfo {
                name: "kubernetes".into(),
                ..ClusterInfo::default()
            }),
            ..HandshakeRequest::default()
        };
        let mut provider = ProviderServiceClient::new(channel.clone());
        // A fault may let it fail.
        let _ = within("the handshake", provider.handshake(handshake)).await;
        channel
    }

    /// Asks over the provider's socket, after a separate handshake.
    pub(crate) async fn ask(&self, names: &[String]) -> Result<Vec<InstanceResult>, Status> {
        let channel = self.channel().await;
        let request = BatchGetInstancesRequest {
            context: Some(CallContext {
                request_id: "r".into(),
                cluster_name: "kubernetes".into(),
                ..CallContext::default()
            }),
            items: names
                .iter()
                .map(|name| Node {
                    name: name.clone(),
                    uid: name.clone(),
                    ..Node::default()
                })
                .collect(),
            ..BatchGetInstancesRequest::default()
        };
        let mut instances = InstancesServiceClient::new(channel);
        let answer = within("the lookup", instances.batch_get_instances(request)).await?;
        Ok(answer.into_inner().results)
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        within("dying", self.child.kill()).await.unwrap();
    }

    /// SIGTERM.
    pub(crate) fn signal_to_end(&self) {
        let pid = rustix::process::Pid::from_raw(self.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits for its end, which must be a good one.
    pub(crate) async fn ended(mut self) {
        let status = within("ending", self.child.wait()).await.unwrap();
        assert!(status.success(), "{status}");
        assert!(!self.socket.exists(), "the socket is left over");
        let control = self.socket.with_extension("sock.ctl");
        assert!(!control.exists(), "the control socket is left over");
    }

    /// SIGTERM; it must end well.
    pub(crate) async fn terminate(self) {
        self.signal_to_end();
        self.ended().await;
    }
}
