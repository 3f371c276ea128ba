//! `explain`: asks the leader why an object is as it is.

use std::{
    env,
    io::{self, Write},
    net::IpAddr,
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use http::Uri;
use outrigger_core::text;
use outrigger_kube::{
    client::{Source, SourceError},
    error::ApiError,
};
use outrigger_runtime::history::Explanation;
use serde_json::Value;

use super::{new_table, run_to_end};
use crate::options::config::OutputForm;

/// For a caller without the right.
const GRANT: &str = "
The caller needs the verb get on the non-resource URL /explain/*:
  kubectl create clusterrole outrigger-explain --verb=get --non-resource-url='/explain/*'
and a clusterrolebinding to it";

/// Asks the leader why the object is as it is: the last decisions about it, the rules that made them, and the results of
/// calls and writes. In the leader's Pod it needs no flag: kubectl -n NAMESPACE exec POD -c controller --
/// /cloud-controller-manager explain node/NAME
#[derive(Parser)]
#[command(name = "cloud-controller-manager explain", no_binary_name = true)]
pub(super) struct ExplainCommand {
    /// The object, node/NAME or service/NAMESPACE/NAME
    object: String,
    /// Kubeconfig with the credentials; without it $KUBECONFIG, then the Pod's service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputForm,
    /// URL of the leader's HTTPS server on this machine, where kubectl port-forward brings it. Its certificate is not
    /// verified.
    #[arg(long, default_value = "https://127.0.0.1:10258")]
    server: String,
}

impl ExplainCommand {
    pub(super) fn run(&self) -> Result<ExitCode, String> {
        let path = path(&self.object)?;
        let answer = run_to_end(ask(self, &path))??;
        let shown = if self.output == OutputForm::Json {
            serde_json::to_string_pretty(&answer).map_err(|error| error.to_string())? + "\n"
        } else {
            let explanation = serde_json::from_value(answer).map_err(|error| {
                format!("the answer is not that of this version: {error}; try -o json")
            })?;
            table(&explanation)
        };
        let _ = io::stdout().write_all(shown.as_bytes());
        Ok(ExitCode::SUCCESS)
    }
}

/// The path of `object` at the server, which checks the name.
fn path(object: &str) -> Result<String, String> {
    let (kind, name) = object.split_once('/').unwrap_or((object, ""));
    match kind {
        "node" | "nodes" | "no" => Ok(format!("/explain/nodes/{name}")),
        "service" | "services" | "svc" => Ok(format!("/explain/services/{name}")),
        other => Err(format!(
            "{other:?} is no kind that is explained: it is node/NAME or service/NAMESPACE/NAME"
        )),
    }
}

async fn ask(command: &ExplainCommand, path: &str) -> Result<Value, String> {
    let url = &command.server;
    let server: Uri = url
        .parse()
        .ok()
        .filter(|server: &Uri| server.scheme_str() == Some("https") && is_local(server))
        .ok_or_else(|| {
            format!(
                "--server {url:?} is no URL on this machine, such as https://127.0.0.1:10258: forward the port of the \
                 leader's Pod"
            )
        })?;
    let from_env = || env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
    let kubeconfig = command.kubeconfig.clone();
    let kubeconfig = kubeconfig.or_else(|| from_env().map(PathBuf::from));
    let source = Source {
        kubeconfig,
        master: None,
    };
    let cluster = source.load().map_err(|error| match error {
        SourceError::NotInCluster(_) => format!(
            "no credentials for {server}: give --kubeconfig or KUBECONFIG, or run it in the leader's Pod"
        ),
        error => error.to_string(),
    })?;
    let api = super::api(cluster.at(server.clone()), "explain").await?;
    let answer = api.get(path).await;
    answer.map_err(|error| refused(&server, error))
}

/// Returns true if `server` is on this machine.
fn is_local(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse()
        .is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Why the leader has not answered, and what to do.
fn refused(server: &Uri, error: ApiError) -> String {
    let remedy = match &error {
        ApiError::Status { code: 401, .. } => {
            "\nThe leader does not know the caller: give --kubeconfig with a credential of its cluster. For a token the \
             controller needs the right to create tokenreviews"
        }
        ApiError::Status { code: 403, .. } => GRANT,
        ApiError::Transport(_) => {
            "\nRun it in the leader's Pod, or give --server, as after\n  kubectl -n NAMESPACE port-forward POD 10258"
        }
        _ => "",
    };
    let why = match error {
        ApiError::Status { message, .. } => message,
        ApiError::Transport(why) => format!("not reached: {why}"),
        ApiError::Timeout(limit) => format!("no answer within {} s", limit.as_secs()),
        ApiError::Decode(why) => format!("the answer cannot be read: {why}"),
        other => other.to_string(),
    };
    format!("{server}: {why}{remedy}")
}

/// The decisions as a table, the last one last.
fn table(explanation: &Explanation) -> String {
    let gone = if explanation.exists {
        ""
    } else {
        ", which is gone"
    };
    let [object, leader] =
        [&explanation.object, &explanation.leader].map(|name| text::message(name));
    let mut shown = format!("{object}{gone}: as {leader} knows\n");
    if explanation.decisions.is_empty() {
        shown.push_str(
            "Nothing was decided about it since this replica leads, or nothing is remembered any more: a Node that needs \
             nothing, and a Service that is not of type LoadBalancer, are not looked at.\n",
        );
        return shown;
    }
    let mut table = new_table(["LAST", "TIMES", "BY", "WHAT", "RULE", "WHY"]);
    for decision in &explanation.decisions {
        let times = match decision.count {
            1 => "1".to_owned(),
            count => format!("{count} since {:.0}", decision.first),
        };
        table.add_row([
            format!("{:.0}", decision.last),
            times,
            text::message(&decision.source),
            text::message(&decision.kind),
            text::message(&decision.rule),
            text::message(&decision.text),
        ]);
    }
    shown.push_str(&table.trim_fmt());
    shown.push('\n');
    shown
}

#[cfg(test)]
mod tests {
    //! Names of objects, and the table of an answer.

    use super::{super::escaped, *};

    #[test]
    fn an_object_is_a_node_or_a_service() {
        for (object, expected) in [
            ("node/a.example", Some("/explain/nodes/a.example")),
            ("nodes/a", Some("/explain/nodes/a")),
            ("svc/default/web", Some("/explain/services/default/web")),
            ("service/default/web", Some("/explain/services/default/web")),
            ("pod/default/a", None),
        ] {
            let path = path(object).ok();
            assert_eq!(path.as_deref(), expected, "{object}");
        }
    }

    #[test]
    fn only_a_server_on_this_machine_is_trusted_without_a_ca() {
        for (server, is) in [
            ("https://127.0.0.1:10258", true),
            ("https://[::1]:10258", true),
            ("https://10.0.0.1:10258", false),
            // Whatever it resolves to.
            ("https://localhost:10258", false),
            ("https://127.0.0.1.example.com", false),
        ] {
            assert_eq!(is_local(&server.parse().unwrap()), is, "{server}");
        }
    }

    #[test]
    fn a_refused_caller_gets_its_remedy_and_the_words_of_the_server_escaped() {
        let server = "https://127.0.0.1:10258".parse().unwrap();
        let remedy = |code| {
            let status = ApiError::Status {
                code,
                reason: String::new(),
                message: "no \u{1b}]0;title\u{7}".into(),
                retry_after: None,
            };
            let text = escaped(&refused(&server, status));
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
            text
        };
        assert!(remedy(401).contains("--kubeconfig") && !remedy(401).contains(GRANT));
        assert!(remedy(403).contains(GRANT));
    }

    #[test]
    fn the_table_shows_what_was_decided_and_nothing_that_moves_a_cursor() {
        let answer = r#"{"object":"node/a\u001b[2J","exists":false,"leader":"ccm-0","decisions":[
        {"count":3,"first":"2026-01-01T00:00:00Z","last":"2026-01-01T00:01:00.5Z",
         "source":"cloud-node-controller","kind":"sync","rule":"not_ready","text":"no \u001b[2J instance"}]}"#;
        let explanation: Explanation = serde_json::from_str(answer).unwrap();
        let shown = table(&explanation);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "node/a\\u{1b}[2J, which is gone: as ccm-0 knows");
        for part in [
            "2026-01-01T00:01:0",
            "3 since 2026-01-01T00:00:00Z",
            "not_ready",
            "no \\u{1b}[2J instance",
        ] {
            assert!(lines[2].contains(part), "{part}: {shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown:?}");
        let nothing = Explanation {
            decisions: Vec::new(),
            ..explanation
        };
        assert!(table(&nothing).contains("Nothing was decided about it"));
    }

    #[test]
    fn a_leader_that_does_not_answer_well_is_not_called_the_api_server() {
        let server = "https://127.0.0.1:10258".parse().unwrap();
        let errors = [
            ApiError::Timeout(std::time::Duration::from_secs(30)),
            ApiError::Decode("no object \u{1b}[2J".to_owned()),
        ];
        for error in errors {
            let text = escaped(&refused(&server, error));
            let names_leader = text.contains("127.0.0.1:10258");
            assert!(names_leader && !text.contains("API server"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }
}
