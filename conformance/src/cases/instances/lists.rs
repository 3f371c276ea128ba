//! `ListInstances`.

use std::collections::BTreeSet;

use outrigger_api::v1::{Instance, InstanceView, ListInstancesRequest};

use crate::{
    case::{Check, check},
    cases::{complete, message_size},
    client::{Client, Listed},
    subject::Subject,
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-14", complete::<ListInstancesRequest>),
        check("INS-30", unique),
        check("INS-31", as_lookups),
        check("INS-32", message_size::<ListInstancesRequest>),
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
