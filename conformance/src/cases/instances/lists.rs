//! `ListInstances`.

use std::collections::BTreeSet;

use outrigger_api::v1::{Instance, InstanceView, ListInstancesRequest};

use crate::{
    capability::Capability::InstancesList,
    case::{Case, must},
    cases::lists::{complete, message_size},
    client::{Client, Listed},
    needs,
    subject::Subject,
    verdict::{Verdict, expect},
};

const FILE: &str = "instances.proto";

pub(super) fn cases() -> Vec<Case> {
    vec![
        must("INS-14", "only the last message of a list has complete")
            .of(InstancesList)
            .clause(
                FILE,
                "ListInstancesResponse.complete",
                "Set on the last message only.",
            )
            .check(complete::<ListInstancesRequest>),
        must("INS-30", "a list has no provider ID twice")
            .of(InstancesList)
            .clause(
                FILE,
                "ListInstancesResponse.items",
                "No provider ID twice in one stream; such a stream is discarded.",
            )
            .check(unique),
        must("INS-31", "a list has the instances that lookups find")
            .of(InstancesList)
            .needs(needs::EXISTING_INSTANCE)
            .clause(
                FILE,
                "ListInstances",
                "Every instance that can be a node of this cluster.",
            )
            .check(as_lookups),
        must(
            "INS-32",
            "the messages of a list are not larger than the caller accepts",
        )
        .of(InstancesList)
        .clause(
            "common.proto",
            "",
            "One message at most what the peer named at handshake, 4 MiB if it was silent;",
        )
        .check(message_size::<ListInstancesRequest>),
    ]
}

async fn list(client: &Client) -> Verdict<Listed<Instance>> {
    let request = ListInstancesRequest {
        view: InstanceView::Metadata.into(),
        ..ListInstancesRequest::default()
    };
    Ok(client.list(request).await?)
}

async fn unique(subject: &Subject) -> Verdict {
    let listed = list(&subject.client).await?;
    let mut earlier_ids = BTreeSet::new();
    let ids = listed.entries.iter().map(|instance| &instance.provider_id);
    let mut ids = ids.filter(|id| !id.is_empty());
    let twice = ids.find(|id| !earlier_ids.insert(*id));
    expect(
        twice.is_none(),
        "each provider ID once",
        format!("{twice:?} twice"),
    )
}

async fn as_lookups(subject: &Subject) -> Verdict {
    let listed = list(&subject.client).await?;
    let ids: BTreeSet<_> = listed.entries.iter().map(|one| &one.provider_id).collect();
    for machine in &subject.inputs().instances.existing {
        expect(
            ids.contains(&machine.provider_id),
            format!("the list has {:?}", machine.provider_id),
            format!("{} instances without it", listed.entries.len()),
        )?;
    }
    Ok(())
}
