//! How routes are printed.

use std::io::{self, Write};

use outrigger_provider_mock::control::ShownRoutes;
use outrigger_provider_mock::routes::Route;

use super::{Output, Rows, escaped};

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

pub(super) fn print(shown: &ShownRoutes, output: Output, out: &mut impl Write) -> io::Result<()> {
    if shown.routes.is_empty() && output == Output::Table {
        return writeln!(out, "there are no routes");
    }
    let row = |route: &Route| {
        let target = &route.target;
        let next_hop = target.next_hop.map(|ip| ip.to_string());
        let state = if route.blackhole {
            "blackhole"
        } else {
            "active"
        };
        [
            route.name.clone(),
            route.destination.to_string(),
            or_dash(&target.node),
            or_dash(&target.provider_id),
            or_dash(&next_hop.unwrap_or_default()),
            or_dash(route.cluster.as_deref().unwrap_or_default()),
            state.to_owned(),
        ]
    };
    Rows {
        headings: [
            "NAME",
            "DESTINATION",
            "NODE",
            "PROVIDER ID",
            "NEXT HOP",
            "CLUSTER",
            "STATE",
        ],
        rows: shown.routes.iter().map(row).collect(),
    }
    .print(output, out)
}

pub(super) fn print_changed(
    done: &str,
    changed: &ShownRoutes,
    out: &mut impl Write,
) -> io::Result<()> {
    changed.routes.iter().try_for_each(|route| {
        let name = escaped(&route.name);
        writeln!(out, "{done} {name} ({})", route.destination)
    })
}
