//! `RoutesService`: routes are made, listed and removed.

mod broken;
mod lists;

use outrigger_api::v1::{ErrorReason, Node, Route};

use crate::{
    case::{Check, check},
    subject::{Change, Changed, Subject, leads_to, routes_to},
    verdict::{Verdict, expect, failed, refused},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("RTE-01", made_and_removed),
        check("RTE-04", both_families),
        check("RTE-05", other_target),
        check("RTE-06", full_table),
        check("RTE-10", deleted_by),
    ];
    checks.extend(lists::checks());
    checks.extend(broken::checks());
    checks
}

/// Fails unless the list has each of these once, and it leads to the Node.
async fn listed(subject: &Subject, routes: &[Route], node: &Node) -> Verdict<Vec<Route>> {
    let listed = subject.list_routes().await?;
    let mut matches = Vec::with_capacity(routes.len());
    for route in routes {
        let cidr = &route.destination_cidr;
        let expected = format!(
            "the list has one route to {cidr}, which leads to {}",
            node.name
        );
        match routes_to(&listed, route).as_slice() {
            [one] if leads_to(one, node) && !one.blackhole => matches.push((*one).clone()),
            [one] => return Err(failed(expected, format!("{one:?}"))),
            several => return Err(failed(expected, format!("{} routes", several.len()))),
        }
    }
    Ok(matches)
}

/// Creates the routes until they are there, and holds the list against them.
async fn make(subject: &Subject, routes: &[Route], node: &Node) -> Verdict<Vec<Route>> {
    subject.create_routes(routes).await?;
    listed(subject, routes, node).await
}

/// A machine, and so many routes to it, which the list has.
async fn routed(subject: &Subject, count: usize) -> Verdict<(Node, Vec<Route>)> {
    let node = subject.route_targets().await?.remove(0);
    let routes = subject.new_routes(&node, count).await?;
    make(subject, &routes, &node).await?;
    Ok((node, routes))
}

/// Fails if the list has one of these.
async fn not_listed(subject: &Subject, routes: &[Route]) -> Verdict {
    let listed = subject.list_routes().await?;
    for route in routes {
        let matches = routes_to(&listed, route);
        expect(
            matches.is_empty(),
            format!("the list has no route to {}", route.destination_cidr),
            format!("{matches:?}"),
        )?;
    }
    Ok(())
}

fn is_refused(changed: &Changed, reason: ErrorReason) -> Verdict {
    let expected = reason.as_str_name().trim_start_matches("ERROR_REASON_");
    let describe = |route: Route| format!("OK for {}", route.destination_cidr);
    refused(changed.clone(), &[reason], expected, describe)
}

async fn made_and_removed(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let routes = subject.new_routes(node, 2).await?;
    for _ in 0..2 {
        make(subject, &routes, node).await?;
    }
    let (removed, kept) = routes.split_at(1);
    for _ in 0..2 {
        subject.delete_routes(removed).await?;
        not_listed(subject, removed).await?;
        listed(subject, kept, node).await?;
    }
    Ok(())
}

/// The destination of a route of the suite.
fn read(route: &Route) -> Verdict<ipnet::IpNet> {
    let cidr = crate::subject::destination(route);
    cidr.ok_or_else(|| failed("a CIDR", &route.destination_cidr))
}

async fn both_families(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let ranges = &subject.inputs().cluster.pod_cidrs;
    let mut routes = Vec::new();
    for is_ipv4 in [true, false] {
        let of_family = |net: &&ipnet::IpNet| matches!(net, ipnet::IpNet::V4(_)) == is_ipv4;
        if let Some(range) = ranges.iter().find(of_family) {
            let free = subject.free_cidrs(*range, 1).await?;
            routes.extend(free.into_iter().map(|cidr| subject.route(cidr, node)));
        }
    }
    make(subject, &routes, node).await?;
    subject.delete_routes(&routes[..1]).await?;
    listed(subject, &routes[1..], node).await?;
    Ok(())
}

async fn other_target(subject: &Subject) -> Verdict {
    let nodes = subject.route_targets().await?;
    let first = subject.new_routes(&nodes[0], 1).await?;
    subject.create_routes(&first).await?;
    let second = [subject.route(read(&first[0])?, &nodes[1])];
    let create = subject.change_route(Change::Create, &second[0]);
    is_refused(&create.await?, ErrorReason::ConflictingResource)?;
    listed(subject, &first, &nodes[0]).await?;
    // OK and an error are both answers: the route that is named does not exist.
    let delete = subject.change_route(Change::Delete, &second[0]);
    let _ = delete.await?;
    listed(subject, &first, &nodes[0]).await?;
    subject.delete_routes(&first).await?;
    make(subject, &second, &nodes[1]).await?;
    Ok(())
}

async fn full_table(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let room = subject.inputs().routes.limit.unwrap_or_default();
    let before = subject.list_routes().await?.len();
    // One more than there is room for, or several where the list does not show the whole table.
    let count = (room + 1).saturating_sub(before);
    let routes = subject.new_routes(node, count).await?;
    let (mut made, mut refusals) = (Vec::new(), 0);
    for route in routes {
        let changed = subject.change_route(Change::Create, &route).await?;
        if changed.is_ok() {
            made.push(route);
        } else {
            is_refused(&changed, ErrorReason::QuotaExceeded)?;
            refusals += 1;
        }
    }
    expect(
        refusals > 0 && !made.is_empty(),
        format!("of {count} routes some are made, and some are QUOTA_EXCEEDED"),
        format!("{} are made", made.len()),
    )?;
    listed(subject, &made, node).await?;
    Ok(())
}

async fn deleted_by(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let sent = subject.new_routes(node, 3).await?;
    let answered = subject.create_routes(&sent).await?;
    let shown = listed(subject, &sent, node).await?;
    for (way, route) in [
        ("as it was listed", &shown[0]),
        ("as its create answered it", &answered[1]),
        ("as it was sent", &sent[2]),
    ] {
        let only = std::slice::from_ref(route);
        subject.delete_routes(only).await?;
        let left = subject.list_routes().await?;
        let left = routes_to(&left, route);
        expect(
            left.is_empty(),
            format!("a route that is deleted {way} is listed no longer"),
            format!("{left:?}"),
        )?;
    }
    Ok(())
}
