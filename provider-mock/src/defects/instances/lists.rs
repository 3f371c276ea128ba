//! Mistakes in lists of instances.

use outrigger_api::v1::ListInstancesRequest;

use crate::defects::Defect;
use crate::faults::BadAnswer;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "list-of-instances-never-complete",
            "A list of instances ends without complete.",
            &["INS-14", "TRN-14"],
        )
        .never_complete::<ListInstancesRequest>(),
        Defect::new(
            "lists-an-instance-twice",
            "An instance that moves between pages is listed twice.",
            &["INS-30"],
        )
        .bad_answer::<ListInstancesRequest>(BadAnswer::DuplicateResult),
        Defect::new(
            "lists-no-instances",
            "The list is complete, and has no instance of this cluster.",
            &["INS-31"],
        )
        .bad_answer::<ListInstancesRequest>(BadAnswer::MissingResult),
        Defect::new(
            "lists-in-one-message",
            "A list is one message, larger than the controller accepts.",
            // A message that cannot be read ends each list.
            &["INS-14", "INS-30", "INS-31", "INS-32", "TRN-14"],
        )
        .bad_answer::<ListInstancesRequest>(BadAnswer::OversizedReply),
    ]
}
