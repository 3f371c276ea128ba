//! Broken connections, deadlines, restarts, and no stale resources.

mod hanging;
mod load_balancers;
mod process;

use std::time::Duration;

use outrigger_api::v1::{BatchGetInstancesRequest, GetStatusRequest, ListInstancesRequest};
use tokio::time::sleep;

use crate::{
    call_error::CallError,
    case::{Check, check},
    connection::Manner,
    inputs::limit,
    subject::Subject,
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("RES-02", short_deadline),
        check("RES-11", cut),
        check("RES-12", lost_reply),
        check("RES-13", late_replies),
        check("RES-20", abandoned_list),
        check("RES-09", nothing_left),
    ];
    checks.extend(hanging::checks());
    checks.extend(process::checks());
    checks.extend(load_balancers::checks());
    checks
}

async fn look_up(subject: &Subject) -> Result<(), CallError> {
    let request = BatchGetInstancesRequest {
        items: vec![subject.unknown_node()],
        ..BatchGetInstancesRequest::default()
    };
    subject.client.results(request).await.map(drop)
}

async fn is_healthy(subject: &Subject) -> Verdict {
    let subject = &subject.connect().await?;
    subject.client.call(GetStatusRequest {}).await?;
    look_up(subject).await?;
    Ok(())
}

async fn short_deadline(subject: &Subject) -> Verdict {
    let hurried = subject.with_deadline(Duration::from_millis(1));
    for _ in 0..10 {
        // In time or not: both are answers.
        let _ = look_up(&hurried).await;
    }
    is_healthy(subject).await
}

async fn cut(subject: &Subject) -> Verdict {
    for wait in [0, 1, 5, 20] {
        let subject = &subject.connect().await?;
        let cut = async {
            sleep(Duration::from_millis(wait)).await;
            subject.client.cut();
        };
        // The lookup is first: its request is on the way. It may have ended before.
        let _ = tokio::join!(look_up(subject), cut);
    }
    is_healthy(subject).await
}

async fn lost_reply(subject: &Subject) -> Verdict {
    let look_up = async |caller: &Subject| Ok(look_up(caller).await?);
    subject.lose_reply(look_up).await?;
    is_healthy(subject).await
}

async fn late_replies(subject: &Subject) -> Verdict {
    let manner = Manner {
        late: Duration::from_millis(300),
        ..Manner::default()
    };
    let subject = &subject.connect_with(manner).await?;
    look_up(subject).await?;
    subject.client.call(GetStatusRequest {}).await?;
    Ok(())
}

async fn nothing_left(subject: &Subject) -> Verdict {
    // Once more: a Delete that failed after its case may work by now.
    subject.clean_up().await?;
    sleep(limit(subject.inputs().limits.late)).await;
    // By UIDs: names may be empty in a list.
    let listed = if subject.load_balancers().list {
        subject.listed_services(None).await?
    } else {
        Vec::new()
    };
    let uids = listed.into_iter().map(|tag| tag.uid);
    let mut left = subject.leftovers().expect_again(uids);
    left.extend(subject.new_in_cloud().await?);
    expect(
        left.is_empty(),
        "the list, and commands.cloudState, have nothing of this run",
        left.join("\n"),
    )
}

async fn abandoned_list(subject: &Subject) -> Verdict {
    for wait in [0, 1, 5] {
        let listed = subject.client.list(ListInstancesRequest::default());
        // It may have ended before.
        let _ = tokio::time::timeout(Duration::from_millis(wait), listed).await;
    }
    is_healthy(subject).await
}
