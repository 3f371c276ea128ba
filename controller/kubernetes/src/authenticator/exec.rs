//! Credential plugins: programs that a kubeconfig names (`users[].user.exec`), as client-go runs them.

use std::{process::Stdio, time::Duration};

use jiff::Timestamp;
use kube::config::{ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::sign::CertifiedKey;
use serde::{Deserialize, Serialize};
use tokio::{process::Command, time::timeout};
use tracing::debug;

use super::{
    files::Files,
    material::{Material, bearer},
    metrics::{Call, ExecMetrics},
    tls,
};
use crate::certificate::validity;
use outrigger_runtime::clock::until;

/// How long a plugin may run.
const DEADLINE: Duration = Duration::from_secs(30);

/// Other API versions than those of this group are not shown: the output may be anything.
const API_GROUP: &str = "client.authentication.k8s.io/";

/// The part of a plugin's stderr that is shown.
const SHOWN: usize = 300;

/// A program that prints credentials.
pub(super) struct Plugin {
    command: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    api_version: String,
    hint: Option<String>,
    metrics: ExecMetrics,
}

/// The `ExecCredential` that a plugin gets.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    kind: &'static str,
    api_version: &'a str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a ExecAuthCluster>,
    interactive: bool,
}

/// The `ExecCredential` that a plugin prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

/// The same for configurations whose plugin yields the same.
pub(super) fn key(exec: &ExecConfig, files: &Files) -> String {
    // Neither holds anything that JSON cannot.
    let json = serde_json::to_string(&(exec, &exec.cluster)).unwrap_or_default();
    format!("{json} {}", files.change())
}

impl Plugin {
    /// # Errors
    /// A configuration that cannot be followed.
    pub(super) fn new(exec: &ExecConfig, metrics: ExecMetrics) -> Result<Self, String> {
        let command = exec.command.clone().unwrap_or_default();
        if command.is_empty() {
            return Err("the user's exec plugin has no command".into());
        }
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(format!(
                "exec plugin {command} has interactiveMode Always, and a controller has no \
                 terminal; use a plugin that needs none"
            ));
        }
        let api_version = exec.api_version.clone().unwrap_or_default();
        let info = Request {
            kind: "ExecCredential",
            api_version: &api_version,
            spec: Spec {
                cluster: exec.cluster.as_ref().filter(|_| exec.provide_cluster_info),
                interactive: false,
            },
        };
        let info = serde_json::to_string(&info).map_err(|error| error.to_string())?;
        let given = exec.env.iter().flatten();
        let mut environment: Vec<_> = given
            .filter_map(|entry| Some((entry.get("name")?.clone(), entry.get("value")?.clone())))
            .collect();
        environment.push(("KUBERNETES_EXEC_INFO".into(), info));
        Ok(Self {
            command,
            arguments: exec.args.clone().unwrap_or_default(),
            environment,
            api_version,
            hint: exec.install_hint.clone(),
            metrics,
        })
    }

    /// Runs it, at most for [`DEADLINE`]; then it is killed with all that it started.
    pub(super) async fn run(&self, files: &Files) -> Result<Material, String> {
        debug!(command = %self.command, "running the credential plugin");
        let output = self.output().await?;
        let material = self.parse(&output).and_then(|mut material| {
            if material.certificate.is_none() {
                material.certificate = files.read()?.certificate;
            }
            Ok(material)
        });
        match material {
            Ok(material) => {
                self.metrics.called(Call::Good);
                let pair = material.certificate.as_ref();
                let valid = pair.and_then(|pair| validity(&pair.cert));
                self.metrics.certificate(valid.map(|(_, end)| end));
                Ok(material)
            }
            Err(reason) => {
                self.metrics.called(Call::Internal);
                Err(format!("exec: {}: {reason}", self.command))
            }
        }
    }

    /// Its certificate `former` is replaced.
    pub(super) fn rotated(&self, former: &CertifiedKey) {
        if let Some((begin, _)) = validity(&former.cert) {
            self.metrics.rotated(begin);
        }
    }

    async fn output(&self) -> Result<Vec<u8>, String> {
        let command = &self.command;
        let child = Command::new(command)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let child = child.map_err(|error| {
            if error.kind() != std::io::ErrorKind::NotFound {
                self.metrics.called(Call::Internal);
                return format!("exec: {command} cannot be started: {error}");
            }
            self.metrics.called(Call::NotFound);
            let hint = self.hint.as_ref().map(|hint| format!("; {}", hint.trim()));
            format!(
                "exec: executable {command} not found{}",
                hint.unwrap_or_default()
            )
        })?;
        let group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
        let Ok(ended) = timeout(DEADLINE, child.wait_with_output()).await else {
            drop(group);
            self.metrics.called(Call::Failed(-1));
            return Err(format!(
                "exec: executable {command} did not end within {} s and was killed",
                DEADLINE.as_secs()
            ));
        };
        let output = ended.map_err(|error| {
            self.metrics.called(Call::Internal);
            format!("exec: executable {command}: {error}")
        })?;
        if output.status.success() {
            group.ended();
            return Ok(output.stdout);
        }
        self.metrics
            .called(Call::Failed(output.status.code().unwrap_or(-1)));
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr: String = stderr.trim().chars().take(SHOWN).collect();
        let stderr = if stderr.is_empty() {
            String::new()
        } else {
            format!(": {stderr}")
        };
        Err(match output.status.code() {
            Some(code) => {
                format!("exec: executable {command} failed with exit code {code}{stderr}")
            }
            None => format!("exec: executable {command} was ended by a signal{stderr}"),
        })
    }

    fn parse(&self, output: &[u8]) -> Result<Material, String> {
        let credential: Reply = serde_json::from_slice(output).map_err(|error| fault(&error))?;
        if credential.api_version != self.api_version {
            let returned = credential.api_version;
            let returned = if returned.starts_with(API_GROUP) {
                format!("version {returned}")
            } else {
                "another one".to_owned()
            };
            return Err(format!(
                "the plugin is configured to use API version {}, and returned {returned}",
                self.api_version
            ));
        }
        let status = credential
            .status
            .ok_or("the plugin did not return a status")?;
        let token = status.token.filter(|token| !token.is_empty());
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let certificate = match (
            filled(status.client_certificate_data),
            filled(status.client_key_data),
        ) {
            (Some(certificate), Some(key)) => {
                Some(tls::pair(certificate.as_bytes(), key.as_bytes())?)
            }
            (None, None) => None,
            _ => return Err("the plugin returned only certificate or key, not both".into()),
        };
        if token.is_none() && certificate.is_none() {
            return Err("the plugin did not return a token or a certificate and key".into());
        }
        Ok(Material {
            header: token.map(|token| bearer(&token)).transpose()?,
            certificate,
            life: status
                .expiration_timestamp
                .map(|end| until(end, Timestamp::now())),
        })
    }
}

/// The fault of an output, without a word of it: serde quotes a value of another type, which may be the token.
fn fault(error: &serde_json::Error) -> String {
    const NONE: &str = "the output is no ExecCredential";
    if error.is_data() {
        let (line, column) = (error.line(), error.column());
        format!("{NONE}: a field is missing or has another type, at line {line} column {column}")
    } else {
        format!("{NONE}: {error}")
    }
}

/// The processes that a plugin started; killed on drop, but where the plugin ended well.
struct Group(Option<Pid>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
