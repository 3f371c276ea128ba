//! How it went, and what to try next.

mod rows;

use std::{
    env,
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
            provider_endpoint,
            controller_log,
            provider_log,
            ..
        } = self;
        let mut things = Vec::new();
        let mut thing =
            |command: String, outcome: &str| things.push(format!("  {command:<44}# {outcome}"));
        if let Some(service) = self.services.first() {
            let command = format!("kubectl delete service {}", service.name);
            thing(command, "its load balancer goes first");
        }
        let cidr = self.nodes.first().and_then(|node| node.pod_cidrs.first());
        if let (Some(mock), Some(cidr)) = (&self.mock, cidr) {
            thing(
                format!("{mock} ctl remove-routes {cidr}"),
                "back within 10 s",
            );
            thing(format!("{mock} ctl list"), "the cloud's machines");
        }
        thing("kubectl get events".to_owned(), "all that happened");
        things.truncate(3);
        let things = things.join("\n");
        format!(
            "
Everything runs until Ctrl-C. Three things to try in another terminal:

  export KUBECONFIG={kubeconfig}
  export CLOUDPROVIDER_ENDPOINT={provider_endpoint}

{things}

Logs: {controller_log}
      {provider_log}
"
        )
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
