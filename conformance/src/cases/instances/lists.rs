//! `ListInstances`.

use std::collections::BTreeSet;

use outrigger_api::v1::{InstanceView, ListInstancesRequest};

use crate::{
    case::{Check, check},
    cases::complete,
    subject::Subject,
    verdict::{Verdict, expect},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("INS-14", complete::<ListInstancesRequest>),
        check("INS-31", as_lookups),
    ]
}

async fn as_lookups(subject: &Subject) -> Verdict {
    let request = ListInstancesRequest {
        view: InstanceView::Metadata.into(),
        ..ListInstancesRequest::default()
    };
    let listed = subject.client.list(request).await?.entries;
    let mut ids = BTreeSet::new();
    let all = listed.iter().map(|instance| &*instance.provider_id);
    let mut all = all.filter(|id| !id.is_empty());
    let twice = all.find(|id| !ids.insert(*id));
    let expected = "each provider ID once";
    expect(twice.is_none(), expected, format!("{twice:?} twice"))?;
    for machine in &subject.inputs().instances.existing {
        let id = &*machine.provider_id;
        expect(
            listed.iter().any(|one| one.provider_id == id),
            format!("the list has {id:?}"),
            format!("{} instances without it", listed.len()),
        )?;
    }
    Ok(())
}
