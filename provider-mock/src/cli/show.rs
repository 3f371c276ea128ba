//! How answers are printed: for people, for `cut` and `awk`, for `jq`.

mod load_balancers;
mod routes;
mod volumes;

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use outrigger_provider_mock::cloud::Counts;
use outrigger_provider_mock::control::{
    Changed, Cleared, ClosedConnections, Listed, ShownLoadBalancers, ShownRoutes, ShownVolumes,
    Status,
};
use outrigger_provider_mock::duration;
use outrigger_provider_mock::faults::{Budget, Effect, Fault, InjectedError, Method};
use outrigger_provider_mock::instances::Instance;
use serde::Serialize;

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Columns with a heading
    Table,
    /// One line each, fields separated by tabs
    Plain,
    /// Messages on the control socket
    Json,
}

impl Output {
    pub(crate) fn for_stdout() -> Self {
        if io::stdout().is_terminal() {
            Self::Table
        } else {
            Self::Plain
        }
    }
}

/// The answer to print.
#[derive(Debug)]
pub(crate) enum Shown {
    Listed(Listed),
    Changed {
        done: &'static str,
        changed: Changed,
    },
    LoadBalancers(ShownLoadBalancers),
    /// With their targets, which no table has room for.
    Whole(ShownLoadBalancers),
    ChangedLoadBalancers {
        done: &'static str,
        changed: ShownLoadBalancers,
    },
    Routes(ShownRoutes),
    ChangedRoutes {
        done: &'static str,
        changed: ShownRoutes,
    },
    Volumes(ShownVolumes),
    ChangedVolumes {
        done: &'static str,
        changed: ShownVolumes,
    },
    Fault(Fault),
    Cleared(Cleared),
    Closed(ClosedConnections),
    Counters(Counts),
    Status(Status),
    /// Of a status only what a call costs.
    Cost(Status),
}

/// Headings, and rows of as many cells.
struct Rows<const N: usize> {
    headings: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl Shown {
    pub(crate) fn changed(done: &'static str, changed: Changed) -> Self {
        Self::Changed { done, changed }
    }

    pub(crate) fn print(&self, output: Output, out: &mut impl Write) -> io::Result<()> {
        if output == Output::Json {
            return self.print_json(out);
        }
        match self {
            Self::Listed(listed) => print_listed(listed, output, out),
            Self::Changed { done, changed } => changed.changed.iter().try_for_each(|instance| {
                writeln!(out, "{done} {} ({})", instance.name, instance.id)
            }),
            Self::LoadBalancers(shown) => load_balancers::print(shown, output, out),
            Self::Whole(_) => self.print_json(out),
            Self::ChangedLoadBalancers { done, changed } => {
                load_balancers::print_changed(done, changed, out)
            }
            Self::Routes(shown) => routes::print(shown, output, out),
            Self::ChangedRoutes { done, changed } => routes::print_changed(done, changed, out),
            Self::Volumes(shown) => volumes::print(shown, output, out),
            Self::ChangedVolumes { done, changed } => volumes::print_changed(done, changed, out),
            Self::Fault(fault) => writeln!(out, "set: {}", sentence(fault)),
            Self::Cleared(Cleared { cleared: 1 }) => writeln!(out, "1 fault removed"),
            Self::Cleared(Cleared { cleared }) => writeln!(out, "{cleared} faults removed"),
            Self::Closed(ClosedConnections { closed: 1 }) => {
                writeln!(out, "1 connection closed")
            }
            Self::Closed(ClosedConnections { closed }) => {
                writeln!(out, "{closed} connections closed")
            }
            Self::Counters(counts) => print_counters(counts, output, out),
            Self::Status(status) => print_status(status, output, out),
            Self::Cost(status) => {
                let (latency, limit) = cost(status);
                writeln!(
                    out,
                    "a call to the cloud takes {latency}; rate limit: {limit}"
                )
            }
        }
    }

    fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        fn json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        }
        match self {
            Self::Listed(listed) => json(listed, out),
            Self::Changed { changed, .. } => json(changed, out),
            Self::LoadBalancers(shown)
            | Self::Whole(shown)
            | Self::ChangedLoadBalancers { changed: shown, .. } => json(shown, out),
            Self::Routes(shown) | Self::ChangedRoutes { changed: shown, .. } => json(shown, out),
            Self::Volumes(shown) | Self::ChangedVolumes { changed: shown, .. } => json(shown, out),
            Self::Fault(fault) => json(fault, out),
            Self::Cleared(cleared) => json(cleared, out),
            Self::Closed(closed) => json(closed, out),
            Self::Counters(counts) => json(counts, out),
            Self::Status(status) | Self::Cost(status) => json(status, out),
        }
    }
}

impl<const N: usize> Rows<N> {
    fn print(mut self, output: Output, out: &mut impl Write) -> io::Result<()> {
        for cell in self.rows.iter_mut().flatten() {
            *cell = escaped(cell);
        }
        if output == Output::Plain {
            return self
                .rows
                .iter()
                .try_for_each(|row| writeln!(out, "{}", row.join("\t")));
        }
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(self.headings);
        table.add_rows(self.rows);
        // The left padding of the first column would only indent it all.
        if let Some(first) = table.column_mut(0) {
            first.set_padding((0, 1));
        }
        table
            .lines()
            .try_for_each(|line| writeln!(out, "{}", line.trim_end()))
    }
}

/// Without control characters, which a terminal would obey.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            out.extend(letter.escape_default());
        } else {
            out.push(letter);
        }
    }
    out
}

fn print_listed(listed: &Listed, output: Output, out: &mut impl Write) -> io::Result<()> {
    if listed.instances.is_empty() && output == Output::Table {
        return writeln!(out, "there are no instances");
    }
    let row = |instance: &Instance| {
        let addresses: Vec<_> = instance.addresses.iter().map(ToString::to_string).collect();
        [
            instance.name.to_string(),
            format!("{}://{}", listed.provider_name, instance.id),
            instance.power.to_string(),
            instance.instance_type.to_string(),
            instance.zone.to_string(),
            addresses.join(","),
        ]
    };
    Rows {
        headings: ["NAME", "PROVIDER ID", "POWER", "TYPE", "ZONE", "ADDRESSES"],
        rows: listed.instances.iter().map(row).collect(),
    }
    .print(output, out)
}

fn print_counters(counts: &Counts, output: Output, out: &mut impl Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for (method, codes) in &counts.calls {
        for (code, calls) in codes {
            rows.push([
                "call".to_owned(),
                method.clone(),
                code.clone(),
                calls.to_string(),
            ]);
        }
    }
    for (method, items) in &counts.items {
        rows.push([
            "items".to_owned(),
            method.clone(),
            "asked".to_owned(),
            items.to_string(),
        ]);
    }
    for (operation, calls) in &counts.cloud {
        for (what, calls) in [
            ("served", calls.served),
            ("rate-limited", calls.rate_limited),
        ] {
            rows.push([
                "cloud".to_owned(),
                operation.clone(),
                what.to_owned(),
                calls.to_string(),
            ]);
        }
    }
    if rows.is_empty() && output == Output::Table {
        return writeln!(out, "nothing was asked yet");
    }
    Rows {
        headings: ["WHAT", "OF", "HOW", "COUNT"],
        rows,
    }
    .print(output, out)
}

fn print_status(status: &Status, output: Output, out: &mut impl Write) -> io::Result<()> {
    let instances: Vec<_> = status
        .instances
        .iter()
        .map(|(power, count)| format!("{count} {power}"))
        .collect();
    let (latency, limit) = cost(status);
    let mut rows = vec![
        (
            "provider",
            format!("{} {}", status.provider_name, status.version),
        ),
        ("endpoint", status.endpoint.clone()),
        (
            "state",
            status
                .state_file
                .clone()
                .unwrap_or_else(|| "not kept".to_owned()),
        ),
        (
            "instances",
            if instances.is_empty() {
                "none".to_owned()
            } else {
                instances.join(", ")
            },
        ),
        ("deleted", status.deleted.to_string()),
        ("load balancers", status.load_balancers.to_string()),
        ("routes", status.routes.to_string()),
        ("volumes", status.volumes.to_string()),
        (
            "synthesizes",
            if status.synthesizes { "yes" } else { "no" }.to_owned(),
        ),
        ("latency", latency),
        ("rate limit", limit),
    ];
    rows.extend(status.faults.iter().map(|fault| ("fault", sentence(fault))));
    let rows = rows
        .into_iter()
        .map(|(name, value)| [name.to_owned(), value])
        .collect();
    Rows {
        headings: ["WHAT", "VALUE"],
        rows,
    }
    .print(output, out)
}

/// How long a call takes, and how many are accepted.
fn cost(status: &Status) -> (String, String) {
    let limit = match status.rate_limit {
        Some(quota) => format!("{}/s, {} at once", quota.qps, quota.burst),
        None => "none".to_owned(),
    };
    let latency = format!("{} (jitter {})", status.latency, status.jitter);
    (latency, limit)
}

/// The fault, its place and its frequency.
fn sentence(fault: &Fault) -> String {
    let method = fault.method.map_or("each method", Method::as_str);
    let error = |error: &InjectedError| {
        let reason = error.reason.as_deref().unwrap_or("without a reason");
        let retry = error
            .retry_after
            .map(|after| format!(", retry after {}", duration::format(after)))
            .unwrap_or_default();
        format!("{} ({reason}{retry})", error.code)
    };
    let what = match &fault.effect {
        Effect::Error(injected) => format!("{method} fails with {}", error(injected)),
        Effect::ItemError(injected) => format!("items of {method} fail with {}", error(injected)),
        Effect::Hang {
            duration: Some(time),
        } => {
            format!("{method} hangs for {}", duration::format(*time))
        }
        Effect::Hang { duration: None } => format!("{method} hangs"),
        Effect::OneAfterTheOther { each } => {
            let each = duration::format(*each);
            format!("{method} takes {each} for each item")
        }
        Effect::LoseReply => format!("replies of {method} are lost"),
        Effect::BadAnswer(bad) => format!("answers of {method} are bad: {bad}"),
    };
    let node = fault
        .node
        .as_ref()
        .map(|node| format!(", about {node}"))
        .unwrap_or_default();
    let service = fault
        .service
        .as_ref()
        .map(|service| format!(", about {service}"))
        .unwrap_or_default();
    let route = fault.route.map(|route| format!(", about {route}"));
    let route = route.unwrap_or_default();
    let volume = fault.volume.as_ref();
    let volume = volume.map(|handle| format!(", about {}", escaped(handle)));
    let volume = volume.unwrap_or_default();
    let often = match fault.budget {
        Budget::Always => "until cleared".to_owned(),
        Budget::Count(1) => "once".to_owned(),
        Budget::Count(left) => format!("{left} times"),
        Budget::Rate(rate) => format!("with probability {rate}"),
    };
    format!("{what}{node}{service}{route}{volume}, {often}")
}
