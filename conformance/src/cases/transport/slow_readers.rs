//! Lists that are opened, and read only after other calls have ended.

use std::time::Duration;

use futures::future::try_join_all;
use outrigger_api::{
    ListPage, MethodRequest,
    v1::{GetStatusRequest, ListInstancesRequest, ListLoadBalancersRequest, ListRoutesRequest},
};
use tokio::sync::watch;

use crate::{
    call_error::CallError,
    capability::Capability::{self, InstancesList, LoadBalancersList, Routes},
    client::Client,
    connection::Manner,
    subject::Subject,
    verdict::{Required as _, Verdict, expect, skipped},
};

/// Lists of each method that are open at once.
const OPEN: usize = 4;
/// Less than one entry of a list has, so that no list is sent before it is read.
const WINDOW: u32 = 16;
/// For a call beside lists that nothing reads.
const BESIDE: Duration = Duration::from_secs(5);

pub(super) async fn check(subject: &Subject) -> Verdict {
    let lists = [InstancesList, LoadBalancersList, Routes];
    let lists = lists.map(|list| subject.declares(list).then_some(list));
    let lists: Vec<_> = lists.into_iter().flatten().collect();
    if lists.is_empty() {
        return Err(skipped("the provider declares no list"));
    }
    let manner = Manner {
        window: Some(WINDOW),
        ..Manner::default()
    };
    let (client, other) = (&subject.connect_with(manner).await?.client, &subject.client);
    let (read, reads) = watch::channel(false);
    let slow = client.reading_when(reads);
    let open = lists.iter().flat_map(|list| [*list; OPEN]);
    let unread = try_join_all(open.map(|list| is_whole(&slow, list)));
    let served = async {
        let served = serves(client, other, &lists).await;
        read.send_replace(true);
        served
    };
    // The lists are first: their requests are on the way before those of the other calls.
    let (whole, served) = tokio::join!(unread, served);
    served?;
    expect(
        whole?.into_iter().all(|whole| whole),
        "a list that is read late has complete on its last message",
        "it has not",
    )
}

/// On the connection of the lists, and on another one.
async fn serves(client: &Client, other: &Client, lists: &[Capability]) -> Verdict {
    for client in [client, other] {
        let client = client.with_deadline(BESIDE);
        let answered = client.call(GetStatusRequest {}).await;
        answered.required("GetStatus beside lists is answered")?;
    }
    let other = other.with_deadline(BESIDE);
    for list in lists {
        let listed = is_whole(&other, *list).await;
        listed.required("a list beside lists is answered")?;
    }
    Ok(())
}

async fn is_whole(client: &Client, list: Capability) -> Result<bool, CallError> {
    Ok(match list {
        InstancesList => ends::<ListInstancesRequest>(client).await?,
        LoadBalancersList => ends::<ListLoadBalancersRequest>(client).await?,
        _ => ends::<ListRoutesRequest>(client).await?,
    })
}

async fn ends<R: MethodRequest<Response: ListPage>>(client: &Client) -> Result<bool, CallError> {
    Ok(client.list(R::default()).await?.is_complete())
}
