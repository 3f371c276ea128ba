//! Mistakes in lists of instances.

use outrigger_api::v1::ListInstancesRequest;

use crate::defects::Defect;
use crate::faults::BadAnswer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new("list-of-instances-never-complete").never_complete::<ListInstancesRequest>(),
        Defect::new("lists-an-instance-twice")
            .bad_answer::<ListInstancesRequest>(BadAnswer::DuplicateResult),
        Defect::new("lists-no-instances")
            .bad_answer::<ListInstancesRequest>(BadAnswer::MissingResult),
        Defect::new("lists-in-one-message")
            .bad_answer::<ListInstancesRequest>(BadAnswer::OversizedReply),
    ]
}
