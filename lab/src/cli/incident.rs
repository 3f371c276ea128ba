//! `outrigger-lab incident`.

use std::path::PathBuf;

use clap::Args;
use comfy_table::{Table, presets};
use outrigger_testbed::{
    Error, Result,
    binaries::of_this_project,
    cli::{note, print},
    process::output,
    providers::source_tree,
};
use serde_json::json;
use tokio::process::Command;

use crate::incident::{self, Cluster, Controller, INCIDENTS, Incident, Loss, Programs};

/// The row of a controller: an incident, the controller, and what was lost.
type Row = (&'static Incident, Controller, Loss);

#[derive(Debug, Args)]
pub(super) struct PlayIncidents {
    /// Names of incidents; all of them if left out.
    #[arg(value_name = "NAME", value_parser = incident::by_name)]
    incidents: Vec<&'static Incident>,
    /// The controllers, one after the other on one API server.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "CONTROLLER",
        default_value = "upstream,outrigger"
    )]
    against: Vec<Controller>,
    /// Upstream's library as a program [default: `lab/bench/cmd/upstream` of the source tree, built with Go]
    #[arg(long, value_name = "FILE")]
    upstream: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl PlayIncidents {
    /// Fails if upstream's controller does not show the damage that was reported, or if Outrigger's shows it, or has lost
    /// any object.
    pub(super) async fn run(self) -> Result<()> {
        let incidents = if self.incidents.is_empty() {
            INCIDENTS.iter().collect()
        } else {
            self.incidents
        };
        let upstream = match self.upstream {
            Some(program) => program,
            None if self.against.contains(&Controller::Upstream) => build_upstream().await?,
            None => PathBuf::new(),
        };
        let cluster = Cluster::start(Programs {
            upstream,
            outrigger: of_this_project("cloud-controller-manager")?,
            mock: of_this_project("provider-mock")?,
        });
        let cluster = cluster.await?;
        let mut rows: Vec<Row> = Vec::new();
        for incident in incidents {
            note(&format!("{}: {}", incident.name, incident.story));
            for controller in &self.against {
                let loss = cluster.play(incident, *controller).await?;
                rows.push((incident, *controller, loss));
            }
        }
        cluster.stop().await?;
        let report = if self.json { as_json } else { as_table };
        print(&report(&rows))?;
        let surprises: Vec<_> = rows.iter().filter_map(surprise).collect();
        if surprises.is_empty() {
            return Ok(());
        }
        Err(Error::Incidents(surprises))
    }
}

async fn build_upstream() -> Result<PathBuf> {
    let root = source_tree()?;
    let program = root.join("target/incidents/upstream");
    note("building upstream's library as a controller with Go");
    let mut go = Command::new("go");
    go.current_dir(root.join("lab/bench"));
    go.args(["build", "-o"]).arg(&program).arg("./cmd/upstream");
    output("go", &mut go, || "build lab/bench/cmd/upstream".to_owned()).await?;
    Ok(program)
}

/// Why a row is not what the docs say.
fn surprise((incident, controller, loss): &Row) -> Option<String> {
    let (name, damage) = (&incident.name, incident.damage);
    let reported = loss.of(damage);
    match controller {
        Controller::Upstream if reported == 0 => Some(format!(
            "{name}: upstream's controller does not show the damage that was reported ({damage:?})"
        )),
        Controller::Outrigger if reported > 0 || loss.objects() > 0 => Some(format!(
            "{name}: Outrigger's controller shows damage: {loss:?}"
        )),
        _ => None,
    }
}

fn as_json(rows: &[Row]) -> String {
    let rows = rows.iter().map(|(incident, controller, loss)| {
        let controller = controller_name(*controller);
        json!({"incident": incident.name, "report": incident.report, "controller": controller, "loss": loss})
    });
    format!("{}\n", json!(rows.collect::<Vec<_>>()))
}

fn as_table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "INCIDENT",
        "CONTROLLER",
        "NODES LOST",
        "LOAD BALANCERS LOST",
        "ADDRESSES LOST",
        "LOAD BALANCERS ORPHANED",
        "CHANGING CALLS",
        "EVENTS",
        "WARNINGS",
    ]);
    for (incident, controller, loss) in rows {
        table.add_row([
            incident.name.clone(),
            controller_name(*controller).to_owned(),
            loss.nodes.len().to_string(),
            loss.load_balancers.len().to_string(),
            loss.addresses.len().to_string(),
            loss.orphaned.len().to_string(),
            loss.changes.to_string(),
            loss.events.to_string(),
            loss.warnings.to_string(),
        ]);
    }
    format!("{table}\n")
}

const fn controller_name(controller: Controller) -> &'static str {
    match controller {
        Controller::Upstream => "upstream",
        Controller::Outrigger => "outrigger",
    }
}
