//! How load balancers are printed.

use std::io::{self, Write};

use outrigger_provider_mock::control::{ShownLoadBalancer, ShownLoadBalancers};
use outrigger_provider_mock::load_balancers::{AddressMode, ServiceTag};

use super::{Output, Rows, escaped};

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
            Some(tag) => {
                let (id, service) = (escaped(&load_balancer.id), escaped(&service(tag)));
                writeln!(out, "{done} {id} ({service})")
            }
            None => writeln!(out, "{done} {}", escaped(&load_balancer.id)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_not_printed() {
        let shown: ShownLoadBalancers = serde_json::from_str(
            r#"{"loadBalancers": [{"state": "ready", "targetCount": 0, "loadBalancer": {
                "id": "lb\u001b[2J", "name": "lb", "cluster": "c\u0007\tx", "addressMode": "ip",
                "addresses": [], "ports": [], "sourceRanges": [], "healthCheckNodePort": 0,
                "targets": [], "protected": false, "createdAt": "2026-01-01T00:00:00Z",
                "readyAt": "2026-01-01T00:00:00Z"}}]}"#,
        )
        .unwrap();
        for output in [Output::Plain, Output::Table] {
            let mut out = Vec::new();
            print(&shown, output, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(r"lb\u{1b}[2J"), "{out:?}");
            assert!(out.contains(r"c\u{7}\tx"), "{out:?}");
            assert!(!out.contains('\u{1b}') && !out.contains('\u{7}'), "{out:?}");
        }
        let mut out = Vec::new();
        print_changed("made", &shown, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "made lb\\u{1b}[2J\n");
    }
}
