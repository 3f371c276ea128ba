//! How it went, and what to try next.

use std::{
    env,
    io::{self, IsTerminal, Write},
    path::Path,
    time::Duration,
};

use comfy_table::{ContentArrangement, Table, presets};
use k8s_openapi::api::core::v1::{Node, NodeAddress};
use serde::Serialize;

use super::{live::Outcome, narrator::nodes, stage::Stage};
use crate::Error;

/// The result, for people and for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    kubeconfig: String,
    provider_endpoint: String,
    controller_log: String,
    provider_log: String,
    /// From the first registration to the end of the last taint.
    seconds: f64,
    nodes: Vec<Row>,
    #[serde(skip)]
    mock: String,
    #[serde(skip)]
    own_cluster: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    instance_type: Option<String>,
    zone: Option<String>,
    addresses: Vec<NodeAddress>,
    /// From the registration to the end of the taint, as a watch saw them.
    seconds_to_initialise: f64,
}

impl Row {
    fn new(node: &Node, took: Duration) -> Self {
        let label = |key| node.metadata.labels.as_ref()?.get(key).cloned();
        let status = node.status.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            provider_id: node.spec.as_ref().and_then(|spec| spec.provider_id.clone()),
            instance_type: label("node.kubernetes.io/instance-type"),
            zone: label("topology.kubernetes.io/zone"),
            addresses: status
                .and_then(|status| status.addresses.clone())
                .unwrap_or_default(),
            seconds_to_initialise: milliseconds(took),
        }
    }

    fn cells(&self, separator: &str) -> [String; 6] {
        let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
        // The host name is the first column.
        let addresses = self
            .addresses
            .iter()
            .filter(|address| address.address != self.name);
        let addresses: Vec<_> = addresses.map(|address| &*address.address).collect();
        [
            self.name.clone(),
            or_none(&self.provider_id),
            or_none(&self.instance_type),
            or_none(&self.zone),
            if addresses.is_empty() {
                "-".to_owned()
            } else {
                addresses.join(separator)
            },
            format!("{:.3}s", self.seconds_to_initialise),
        ]
    }
}

const HEADER: [&str; 6] = ["NODE", "PROVIDER ID", "TYPE", "ZONE", "ADDRESSES", "TOOK"];

/// In seconds, no finer than what a watch tells.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_millis() as f64 / 1000.0
}

impl Report {
    pub(super) fn new(outcome: &Outcome, stage: &Stage) -> Self {
        let rows = outcome.nodes.iter();
        Self {
            kubeconfig: stage.cluster.kubeconfig().display().to_string(),
            provider_endpoint: stage.endpoint(),
            controller_log: stage.controller.log().display().to_string(),
            provider_log: stage.mock.log().display().to_string(),
            seconds: milliseconds(outcome.took),
            nodes: rows.map(|(node, took)| Row::new(node, *took)).collect(),
            mock: as_typed(&stage.programs.mock),
            own_cluster: stage.cluster.own_dir().is_some(),
        }
    }

    /// Prints it on standard output; if the demo `stays`, with things to try.
    pub(super) fn print(&self, json: bool, stays: bool) -> Result<(), Error> {
        let text = if json {
            let document = serde_json::to_string_pretty(self).map_err(io::Error::from);
            document.map_err(Error::io("write the JSON document"))?
        } else {
            let mut text = if io::stdout().is_terminal() {
                self.table()
            } else {
                self.columns()
            };
            text.push_str(&self.summary());
            if stays {
                text.push_str(&self.things_to_try());
            }
            text
        };
        writeln!(io::stdout(), "{text}").map_err(Error::io("write to standard output"))
    }

    fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(HEADER);
        for row in &self.nodes {
            table.add_row(row.cells("\n"));
        }
        format!("{table}\n")
    }

    /// No frame, no line breaks within a cell, no spaces at the end: for `grep` and `awk`.
    fn columns(&self) -> String {
        let rows = self.nodes.iter().map(|row| row.cells(","));
        let rows: Vec<_> = std::iter::once(HEADER.map(str::to_owned))
            .chain(rows)
            .collect();
        let mut widths = [0; HEADER.len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.len().max(*width);
            }
        }
        let mut text = String::new();
        for row in rows {
            let cells = row.iter().zip(widths);
            let cells: Vec<_> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    fn summary(&self) -> String {
        let count = self.nodes.len();
        format!("{} initialised in {:.2} s\n", nodes(count), self.seconds)
    }

    fn things_to_try(&self) -> String {
        let Self {
            kubeconfig,
            provider_endpoint,
            controller_log,
            provider_log,
            mock,
            ..
        } = self;
        let node = self.nodes.first().map_or("NODE", |row| &*row.name);
        let ctl = format!("{mock} ctl --endpoint {provider_endpoint}");
        let more = "cargo run -p outrigger-testbed --bin outrigger-testbed -- nodes";
        let whose = if self.own_cluster {
            ""
        } else {
            "\n  (those are yours to delete: the same with --delete)"
        };
        format!(
            "
Everything runs until Ctrl-C. Things to try in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl get events

  {ctl} list
  {ctl} stop {node}
  {ctl} set latency 500ms
  {ctl} set errors --method BatchGetInstances --code UNAVAILABLE --count 3
  {more} --kubeconfig {kubeconfig} --count 5 --prefix more-{whose}

  tail -f {controller_log}
  tail -f {provider_log}
"
        )
    }
}

/// As short as it can be typed from here.
fn as_typed(program: &Path) -> String {
    let here = env::current_dir().ok();
    let relative = here.and_then(|here| program.strip_prefix(here).ok());
    relative.unwrap_or(program).display().to_string()
}
