//! How an answer is printed: for people, for `cut` and `awk`, for `jq`.

use std::io::{self, IsTerminal as _, Write};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use outrigger_provider_mock::cloud::Counts;
use outrigger_provider_mock::control::{
    Changed, Listed, ShownLoadBalancer, ShownLoadBalancers, ShownRoutes, ShownVolumes, Status,
};
use outrigger_provider_mock::duration;
use outrigger_provider_mock::faults::{Budget, Effect, Fault, InjectedError, Method};
use outrigger_provider_mock::instances::Instance;
use outrigger_provider_mock::load_balancers::{AddressMode, ServiceTag};
use outrigger_provider_mock::routes::Route;
use outrigger_provider_mock::volumes::Volume;
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

/// An answer in each of its forms.
#[derive(Debug)]
pub(crate) struct Shown {
    json: String,
    text: Text,
}

/// The form of an answer for people.
#[derive(Debug)]
pub(super) enum Text {
    /// Sentences.
    Lines(Vec<String>),
    /// A heading for each column, and rows of as many cells.
    Rows {
        /// The sentence where there are no rows.
        none: &'static str,
        headings: &'static [&'static str],
        rows: Vec<Vec<String>>,
    },
    /// The message itself.
    Json,
}

impl Text {
    pub(super) fn line(line: String) -> Self {
        Self::Lines(vec![line])
    }
}

/// An answer that is a table.
pub(super) trait Rows: Serialize {
    /// The sentence where there are no rows.
    const NONE: &'static str;
    const HEADINGS: &'static [&'static str];

    fn rows(&self) -> Vec<Vec<String>>;
}

/// An answer with the objects that were changed.
pub(super) trait Names: Serialize {
    fn names(&self) -> Vec<String>;
}

/// A table.
pub(super) fn listed<T: Rows>(answer: &T) -> anyhow::Result<Shown> {
    let text = Text::Rows {
        none: T::NONE,
        headings: T::HEADINGS,
        rows: answer.rows(),
    };
    Shown::new(answer, text)
}

/// A line for each object that was changed.
pub(super) fn changed(done: &str, answer: &impl Names) -> anyhow::Result<Shown> {
    let names = answer.names().into_iter();
    let lines = names.map(|name| format!("{done} {name}"));
    Shown::new(answer, Text::Lines(lines.collect()))
}

impl Shown {
    pub(super) fn new(answer: &impl Serialize, text: Text) -> anyhow::Result<Self> {
        let json = serde_json::to_string_pretty(answer)?;
        Ok(Self { json, text })
    }

    pub(crate) fn print(&self, output: Output, out: &mut impl Write) -> io::Result<()> {
        match (output, &self.text) {
            (Output::Json, _) | (_, Text::Json) => writeln!(out, "{}", self.json),
            (_, Text::Lines(lines)) => lines
                .iter()
                .try_for_each(|line| writeln!(out, "{}", escaped(line))),
            (Output::Plain, Text::Rows { rows, .. }) => rows.iter().try_for_each(|row| {
                let cells: Vec<_> = row.iter().map(|cell| escaped(cell)).collect();
                writeln!(out, "{}", cells.join("\t"))
            }),
            (Output::Table, Text::Rows { none, rows, .. }) if rows.is_empty() => {
                writeln!(out, "{none}")
            }
            (Output::Table, Text::Rows { headings, rows, .. }) => {
                let mut table = Table::new();
                table
                    .load_style(presets::NOTHING)
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_header(*headings);
                for row in rows {
                    table.add_row(row.iter().map(|cell| escaped(cell)));
                }
                // The left padding of the first column would only indent it all.
                if let Some(first) = table.column_mut(0) {
                    first.set_padding((0, 1));
                }
                table
                    .lines()
                    .try_for_each(|line| writeln!(out, "{}", line.trim_end()))
            }
        }
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

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

fn joined<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    values.join(",")
}

impl Rows for Listed {
    const NONE: &'static str = "there are no instances";
    const HEADINGS: &'static [&'static str] =
        &["NAME", "PROVIDER ID", "POWER", "TYPE", "ZONE", "ADDRESSES"];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |instance: &Instance| {
            vec![
                instance.name.to_string(),
                format!("{}://{}", self.provider_name, instance.id),
                instance.power.to_string(),
                instance.instance_type.to_string(),
                instance.zone.to_string(),
                joined(&instance.addresses),
            ]
        };
        self.instances.iter().map(row).collect()
    }
}

impl Names for Changed {
    fn names(&self) -> Vec<String> {
        let name = |one: &Instance| format!("{} ({})", one.name, one.id);
        self.changed.iter().map(name).collect()
    }
}

fn service(tag: &ServiceTag) -> String {
    format!("{}/{}", tag.namespace, tag.name)
}

impl Rows for ShownLoadBalancers {
    const NONE: &'static str = "there are no load balancers";
    const HEADINGS: &'static [&'static str] = &[
        "ID",
        "SERVICE",
        "CLUSTER",
        "STATE",
        "ADDRESSES",
        "PORTS",
        "TARGETS",
    ];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |one: &ShownLoadBalancer| {
            let load_balancer = &one.load_balancer;
            let tag = load_balancer.service.as_ref();
            vec![
                load_balancer.id.clone(),
                or_dash(&tag.map(service).unwrap_or_default()),
                load_balancer.cluster.clone(),
                one.state.clone(),
                if load_balancer.address_mode == AddressMode::Hostname {
                    load_balancer.hostname()
                } else {
                    joined(&load_balancer.addresses)
                },
                joined(&load_balancer.ports),
                one.target_count.to_string(),
            ]
        };
        self.load_balancers.iter().map(row).collect()
    }
}

impl Names for ShownLoadBalancers {
    fn names(&self) -> Vec<String> {
        let name = |one: &ShownLoadBalancer| {
            let (id, tag) = (&one.load_balancer.id, one.load_balancer.service.as_ref());
            tag.map_or(id.clone(), |tag| format!("{id} ({})", service(tag)))
        };
        self.load_balancers.iter().map(name).collect()
    }
}

impl Rows for ShownRoutes {
    const NONE: &'static str = "there are no routes";
    const HEADINGS: &'static [&'static str] = &[
        "NAME",
        "DESTINATION",
        "NODE",
        "PROVIDER ID",
        "NEXT HOP",
        "CLUSTER",
        "STATE",
    ];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |route: &Route| {
            let target = &route.target;
            let next_hop = target.next_hop.map(|ip| ip.to_string());
            let state = if route.blackhole {
                "blackhole"
            } else {
                "active"
            };
            vec![
                route.name.clone(),
                route.destination.to_string(),
                or_dash(&target.node),
                or_dash(&target.provider_id),
                or_dash(&next_hop.unwrap_or_default()),
                or_dash(route.cluster.as_deref().unwrap_or_default()),
                state.to_owned(),
            ]
        };
        self.routes.iter().map(row).collect()
    }
}

impl Names for ShownRoutes {
    fn names(&self) -> Vec<String> {
        let name = |route: &Route| format!("{} ({})", route.name, route.destination);
        self.routes.iter().map(name).collect()
    }
}

impl Rows for ShownVolumes {
    const NONE: &'static str = "there are no volumes";
    const HEADINGS: &'static [&'static str] = &["HANDLE", "REGION", "ZONES", "STATE"];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |volume: &Volume| {
            vec![
                volume.handle.clone(),
                or_dash(&volume.region),
                or_dash(&volume.zones.join(",")),
                volume.state.to_string(),
            ]
        };
        self.volumes.iter().map(row).collect()
    }
}

impl Names for ShownVolumes {
    fn names(&self) -> Vec<String> {
        let volumes = self.volumes.iter();
        volumes.map(|volume| volume.handle.clone()).collect()
    }
}

impl Rows for Counts {
    const NONE: &'static str = "nothing was asked yet";
    const HEADINGS: &'static [&'static str] = &["WHAT", "OF", "HOW", "COUNT"];

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |what: &str, of: &str, how: &str, count: u64| {
            [what, of, how, &count.to_string()]
                .map(str::to_owned)
                .to_vec()
        };
        let mut rows = Vec::new();
        for (method, codes) in &self.calls {
            let codes = codes.iter();
            rows.extend(codes.map(|(code, calls)| row("call", method, code, *calls)));
        }
        for (method, items) in &self.items {
            rows.push(row("items", method, "asked", *items));
        }
        for (operation, calls) in &self.cloud {
            rows.push(row("cloud", operation, "served", calls.served));
            rows.push(row("cloud", operation, "rate-limited", calls.rate_limited));
        }
        rows
    }
}

impl Rows for Status {
    const NONE: &'static str = "";
    const HEADINGS: &'static [&'static str] = &["WHAT", "VALUE"];

    fn rows(&self) -> Vec<Vec<String>> {
        let instances = self.instances.iter();
        let instances = instances.map(|(power, count)| format!("{count} {power}"));
        let instances: Vec<_> = instances.collect();
        let or = |text: &str, none: &str| if text.is_empty() { none } else { text }.to_owned();
        let state = self.state_file.as_deref().unwrap_or_default();
        let synthesizes = if self.synthesizes { "yes" } else { "no" };
        let (latency, limit) = cost(self);
        let provider = format!("{} {}", self.provider_name, self.version);
        let mut rows = vec![
            ("provider", provider),
            ("endpoint", self.endpoint.clone()),
            ("state", or(state, "not kept")),
            ("instances", or(&instances.join(", "), "none")),
            ("deleted", self.deleted.to_string()),
            ("load balancers", self.load_balancers.to_string()),
            ("routes", self.routes.to_string()),
            ("volumes", self.volumes.to_string()),
            ("synthesizes", synthesizes.to_owned()),
            ("latency", latency),
            ("rate limit", limit),
        ];
        rows.extend(self.faults.iter().map(|fault| ("fault", sentence(fault))));
        let rows = rows.into_iter();
        rows.map(|(name, value)| vec![name.to_owned(), value])
            .collect()
    }
}

/// How long a call takes, and how many are accepted.
pub(super) fn cost(status: &Status) -> (String, String) {
    let limit = match status.rate_limit {
        Some(quota) => format!("{}/s, {} at once", quota.qps, quota.burst),
        None => "none".to_owned(),
    };
    let latency = format!("{} (jitter {})", status.latency, status.jitter);
    (latency, limit)
}

/// The fault, its place and its frequency.
pub(super) fn sentence(fault: &Fault) -> String {
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
    let objects = [
        fault.node.as_ref().map(ToString::to_string),
        fault.service.clone(),
        fault.route.map(|route| route.to_string()),
        fault.volume.clone(),
    ];
    let objects = objects.into_iter().flatten();
    let about: Vec<_> = objects.map(|name| format!(", about {name}")).collect();
    let about = about.concat();
    let often = match fault.budget {
        Budget::Always => "until cleared".to_owned(),
        Budget::Count(1) => "once".to_owned(),
        Budget::Count(left) => format!("{left} times"),
        Budget::Rate(rate) => format!("with probability {rate}"),
    };
    format!("{what}{about}, {often}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_not_printed() {
        let answer: ShownLoadBalancers = serde_json::from_str(
            r#"{"loadBalancers": [{"state": "ready", "targetCount": 0, "loadBalancer": {
                "id": "lb\u001b[2J", "name": "lb", "cluster": "c\u0007\tx", "addressMode": "ip",
                "addresses": [], "ports": [], "sourceRanges": [], "healthCheckNodePort": 0,
                "targets": [], "protected": false, "createdAt": "2026-01-01T00:00:00Z",
                "readyAt": "2026-01-01T00:00:00Z"}}]}"#,
        )
        .unwrap();
        let printed = |shown: anyhow::Result<Shown>, output| {
            let mut out = Vec::new();
            shown.unwrap().print(output, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        for output in [Output::Plain, Output::Table] {
            let out = printed(listed(&answer), output);
            assert!(out.contains(r"lb\u{1b}[2J"), "{out:?}");
            assert!(out.contains(r"c\u{7}\tx"), "{out:?}");
            assert!(!out.contains('\u{1b}') && !out.contains('\u{7}'), "{out:?}");
        }
        let out = printed(changed("made", &answer), Output::Plain);
        assert_eq!(out, "made lb\\u{1b}[2J\n");
    }
}
