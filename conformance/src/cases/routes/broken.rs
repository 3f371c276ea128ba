//! Creates that are duplicated, lose their answer, or are cut off.

use std::time::Duration;

use futures::future::{join, join_all};
use outrigger_api::v1::ErrorReason;
use tokio::time::timeout;

use super::{listed, make, read};
use crate::{
    case::{Check, check},
    subject::{Change, Changed, Subject, is_passing, leads_to, routes_to},
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("RTE-07", lost_reply),
        check("RTE-08", at_once),
        check("RTE-09", cut_off),
    ]
}

async fn lost_reply(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let routes = subject.new_routes(node, 1).await?;
    let create = async |caller: &Subject| {
        let create = caller.change_route(Change::Create, &routes[0]);
        create.await.map(drop)
    };
    subject.lose_reply(create).await?;
    make(subject, &routes, node).await?;
    Ok(())
}

/// Made, or lost against the other call.
fn made_or_lost(changed: &Changed) -> Verdict {
    match changed {
        Ok(_) => Ok(()),
        Err(error) => expect(
            is_passing(error) || error.is(ErrorReason::ConflictingResource),
            "OK, OPERATION_IN_PROGRESS, or CONFLICTING_RESOURCE for another target",
            error,
        ),
    }
}

async fn at_once(subject: &Subject) -> Verdict {
    let other = subject.connect().await?;
    let nodes = subject.route_targets().await?;
    let first = &nodes[0];
    // The same target, and another one where there is subject.
    for second in [first, nodes.last().unwrap_or(first)] {
        let routes = subject.new_routes(first, 1).await?;
        let rival = [subject.route(read(&routes[0])?, second)];
        let both = join(
            subject.change_route(Change::Create, &routes[0]),
            other.change_route(Change::Create, &rival[0]),
        );
        let (a, b) = Box::pin(both).await;
        let (a, b) = (a?, b?);
        made_or_lost(&a)?;
        made_or_lost(&b)?;
        let made = usize::from(a.is_ok()) + usize::from(b.is_ok());
        expect(
            made == 1 || first.name == second.name,
            "one of two creates with different targets is OK",
            format!("{made} are OK"),
        )?;
        let winner = if a.is_ok() { first } else { second };
        subject
            .create_routes(if a.is_ok() { &routes } else { &rival })
            .await?;
        listed(subject, &routes, winner).await?;
    }
    Ok(())
}

async fn cut_off(subject: &Subject) -> Verdict {
    let node = &subject.route_targets().await?[0];
    let declared = subject.capabilities().routes.unwrap_or_default();
    let at_once = match declared.max_in_flight {
        0 => 8,
        most => most.min(8) as usize,
    };
    for moment in [0, 1, 5, 20, 100] {
        let routes = subject.new_routes(node, at_once).await?;
        let creates = routes.iter();
        let creates = creates.map(|route| subject.change_route(Change::Create, route));
        let create = join_all(creates);
        // It may have ended before.
        let _ = timeout(Duration::from_millis(moment), create).await;
        let routes_in_cloud = subject.list_routes().await?;
        for route in &routes {
            let broken = routes_to(&routes_in_cloud, route).into_iter();
            let broken: Vec<_> = broken.filter(|one| !leads_to(one, node)).collect();
            expect(
                broken.is_empty(),
                format!("each listed route leads to {}", node.name),
                format!("{broken:?}"),
            )?;
        }
        make(subject, &routes, node).await?;
        subject.delete_routes(&routes).await?;
    }
    Ok(())
}
