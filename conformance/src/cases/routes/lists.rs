//! `ListRoutes`.

use outrigger_api::v1::ListRoutesRequest;

use super::{listed, routed};
use crate::{
    case::{Check, check},
    cases::complete,
    subject::{Change, Subject, routes_to},
    verdict::{Verdict, expect, skipped},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("RTE-03", of_this_cluster),
        check("RTE-17", blackhole),
        check("RTE-11", complete::<ListRoutesRequest>),
        check("RTE-13", failing_cloud),
    ]
}

fn has_marks(subject: &Subject) -> Verdict {
    if subject.inputs().routes.whole_table {
        return Err(skipped(
            "routes.wholeTable: the routes of this cloud have no mark of a cluster",
        ));
    }
    subject.needs_cluster_uid()
}

async fn of_this_cluster(subject: &Subject) -> Verdict {
    has_marks(subject)?;
    let (node, routes) = routed(subject, 2).await?;
    let other = subject.of_another_cluster();
    let of_another = other.list_routes().await?;
    expect(
        of_another.is_empty(),
        "a list for a cluster without routes is empty",
        format!("{of_another:?}"),
    )?;
    let shown = listed(subject, &routes, &node).await?;
    for named in shown.iter().chain(&routes) {
        // OK and an error are both answers: that cluster has no such route.
        let _ = other.change_route(Change::Delete, named).await?;
        listed(subject, &routes, &node).await?;
    }
    Ok(())
}

async fn failing_cloud(subject: &Subject) -> Verdict {
    let (node, routes) = routed(subject, 2).await?;
    let check = async {
        let Ok(listed) = subject.client.list(ListRoutesRequest::default()).await else {
            return Ok(());
        };
        let has_all = routes
            .iter()
            .all(|one| !routes_to(&listed.entries, one).is_empty());
        expect(
            has_all || !listed.completes.contains(&true),
            "a list while the cloud fails is an error, or has every route",
            format!("complete, with {} routes", listed.entries.len()),
        )
    };
    subject.without_cloud(check).await?;
    let look = async || listed(subject, &routes, &node).await;
    subject.recovers("lists", look).await
}

async fn blackhole(subject: &Subject) -> Verdict {
    let (node, routes) = routed(subject, 2).await?;
    let (lost, kept) = routes.split_at(1);
    let mut command = subject.inputs().commands.blackhole.clone();
    command.push(lost[0].destination_cidr.clone());
    subject.command(&command).await?;
    let routes_in_cloud = subject.list_routes().await?;
    let routes_in_cloud = routes_to(&routes_in_cloud, &lost[0]);
    expect(
        matches!(&*routes_in_cloud, [one] if one.blackhole),
        format!(
            "the list has one route to {}, with blackhole",
            lost[0].destination_cidr
        ),
        format!("{routes_in_cloud:?}"),
    )?;
    listed(subject, kept, &node).await?;
    // The controller repairs a route so: it deletes it and creates it again.
    subject.delete_routes(lost).await?;
    subject.create_routes(lost).await?;
    listed(subject, &routes, &node).await?;
    Ok(())
}
