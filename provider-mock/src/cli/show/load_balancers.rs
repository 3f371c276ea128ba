//! How load balancers are printed.

use std::io::{self, Write};

use outrigger_provider_mock::control::{ShownLoadBalancer, ShownLoadBalancers};
use outrigger_provider_mock::load_balancers::{AddressMode, ServiceTag};

use super::{Output, Rows};

fn service(tag: &ServiceTag) -> String {
    format!("{}/{}", tag.namespace, tag.name)
}

fn joined<T: ToString>(values: &[T]) -> String {
    let values: Vec<_> = values.iter().map(ToString::to_string).collect();
    values.join(",")
}

pub(super) fn print(
    shown: &ShownLoadBalancers,
    output: Output,
    out: &mut impl Write,
) -> io::Result<()> {
    if shown.load_balancers.is_empty() && output == Output::Table {
        return writeln!(out, "there are no load balancers");
    }
    let row = |one: &ShownLoadBalancer| {
        let load_balancer = &one.load_balancer;
        let tag = load_balancer.service.as_ref();
        [
            load_balancer.id.clone(),
            tag.map_or_else(|| "-".to_owned(), service),
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
    Rows {
        headings: [
            "ID",
            "SERVICE",
            "CLUSTER",
            "STATE",
            "ADDRESSES",
            "PORTS",
            "TARGETS",
        ],
        rows: shown.load_balancers.iter().map(row).collect(),
    }
    .print(output, out)
}

pub(super) fn print_changed(
    done: &str,
    changed: &ShownLoadBalancers,
    out: &mut impl Write,
) -> io::Result<()> {
    changed.load_balancers.iter().try_for_each(|one| {
        let load_balancer = &one.load_balancer;
        match &load_balancer.service {
            Some(tag) => writeln!(out, "{done} {} ({})", load_balancer.id, service(tag)),
            None => writeln!(out, "{done} {}", load_balancer.id),
        }
    })
}
