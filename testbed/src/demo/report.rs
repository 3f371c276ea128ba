//! How it went, and what to try next.

mod rows;

use std::{
    env,
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    path::Path,
    time::Duration,
};

use comfy_table::{ContentArrangement, Table, presets};
use k8s_openapi::api::core::v1::{Node, Service};
use serde::Serialize;

use self::rows::{NodeRow, Row, ServiceRow, milliseconds};
use super::{live, narrator, stage::Stage};
use crate::{Error, providers::Provider, services::Created};

/// The result, for people and for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    provider: &'static str,
    kubeconfig: String,
    provider_endpoint: String,
    controller_log: String,
    provider_log: String,
    /// From the first registration until the last node was usable.
    seconds: f64,
    nodes: Vec<NodeRow>,
    /// From the creation of the first Service until all had an address.
    seconds_to_addresses: f64,
    services: Vec<ServiceRow>,
    #[serde(skip)]
    mock: Option<String>,
    #[serde(skip)]
    state: &'static str,
}

impl Report {
    pub(super) fn new(
        nodes: &Created<Node>,
        services: &Created<Service>,
        stage: &Stage,
        provider: &Provider,
    ) -> Self {
        Self {
            provider: provider.name,
            kubeconfig: stage.kubeconfig.display().to_string(),
            provider_endpoint: stage.pair.endpoint(),
            controller_log: stage.pair.controller.log().display().to_string(),
            provider_log: stage.pair.provider_log().display().to_string(),
            seconds: milliseconds(nodes.ready),
            nodes: rows(nodes, NodeRow::new),
            seconds_to_addresses: milliseconds(services.ready),
            services: rows(services, ServiceRow::new),
            mock: provider.is_mock.then(|| as_typed(&stage.programs.provider)),
            state: live::state(provider.routes),
        }
    }

    /// Prints it on standard output; if the demo `stays`, with things to try.
    pub(super) fn print(&self, json: bool, stays: bool) -> Result<(), Error> {
        let text = if json {
            let document = serde_json::to_string_pretty(self).map_err(io::Error::from);
            document.map_err(Error::io("write the JSON document"))?
        } else {
            let nodes = narrator::count_of(self.nodes.len(), "node");
            let services = narrator::count_of(self.services.len(), "Service");
            let parts = [
                table_of(&self.nodes, &nodes, self.state, self.seconds),
                table_of(
                    &self.services,
                    &services,
                    "reachable",
                    self.seconds_to_addresses,
                ),
            ];
            let mut text = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
            if stays {
                text.push_str(&self.things_to_try());
            }
            text
        };
        writeln!(io::stdout(), "{text}").map_err(Error::io("write to standard output"))
    }

    fn things_to_try(&self) -> String {
        let Self {
            kubeconfig,
            controller_log,
            provider_log,
            ..
        } = self;
        let more = "cargo run -p outrigger-testbed --bin outrigger-testbed -- nodes";
        let services = self.services.first().map_or_else(String::new, |row| {
            let name = &row.name;
            format!(
                "
  kubectl get services
  kubectl wait --for=condition=outrigger.dev/Provisioned service/{name}
  kubectl delete service {name}
"
            )
        });
        let cloud = self
            .mock
            .as_deref()
            .map_or_else(String::new, |mock| self.changes_of_the_cloud(mock));
        let nodes = if self.mock.is_none() {
            // Another provider has no machines for them.
            String::new()
        } else {
            format!("\n  {more} --kubeconfig {kubeconfig} --count 5 --prefix more-\n")
        };
        format!(
            "
Everything runs until Ctrl-C. Things to try in another terminal:

  export KUBECONFIG={kubeconfig}
  kubectl get nodes -L topology.kubernetes.io/zone
  kubectl get events
{services}{cloud}{nodes}
  tail -f {controller_log}
  tail -f {provider_log}
"
        )
    }

    /// The mock's control command, which is run as `mock`.
    fn changes_of_the_cloud(&self, mock: &str) -> String {
        let ctl = format!("{mock} ctl --endpoint {}", self.provider_endpoint);
        let node = self.nodes.first();
        let name = node.map_or("NODE", |row| &*row.name);
        let mut text = format!(
            "
  {ctl} list
  {ctl} stop {name}
  {ctl} set-cost --latency 500ms
  {ctl} errors --method BatchGetInstances --code UNAVAILABLE --count 3
"
        );
        if !self.services.is_empty() {
            let _ = writeln!(text, "  {ctl} load-balancers");
        }
        if let Some(cidr) = node.and_then(|row| row.pod_cidrs.first()) {
            let _ = writeln!(
                text,
                "  {ctl} routes\n  {ctl} remove-routes {cidr}  # made again within 10 s"
            );
        }
        text
    }
}

fn rows<K, R>(created: &Created<K>, row: fn(&K, Duration) -> R) -> Vec<R> {
    let objects = created.objects.iter();
    objects
        .map(|(object, waited)| row(object, *waited))
        .collect()
}

/// The rows and a line that says how long all took to reach a `state`; nothing without rows.
fn table_of<R: Row<COLUMNS>, const COLUMNS: usize>(
    rows: &[R],
    objects: &str,
    state: &str,
    seconds: f64,
) -> Option<String> {
    let table = table(rows);
    (!rows.is_empty()).then(|| format!("{table}{objects} {state} in {seconds:.2} s\n"))
}

/// With a frame on a terminal, elsewhere for other programs: the columns with spaces between them.
fn table<R: Row<COLUMNS>, const COLUMNS: usize>(rows: &[R]) -> String {
    let is_terminal = io::stdout().is_terminal();
    let mut table = Table::new();
    table.set_header(R::HEADER);
    if is_terminal {
        table
            .load_style(presets::UTF8_BORDERS_ONLY)
            .set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_style(presets::NOTHING);
    }
    table.add_rows(
        rows.iter()
            .map(|row| row.cells(if is_terminal { "\n" } else { "," })),
    );
    if let Some(first) = table.column_mut(0).filter(|_| !is_terminal) {
        first.set_padding((0, 1));
    }
    let lines: Vec<_> = table.lines().collect();
    let lines = lines.iter().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// The path of `program`, as short as it can be typed from here.
fn as_typed(program: &Path) -> String {
    let here = env::current_dir().ok();
    let relative = here.and_then(|here| program.strip_prefix(here).ok());
    relative.unwrap_or(program).display().to_string()
}
