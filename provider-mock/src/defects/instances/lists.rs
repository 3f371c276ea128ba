//! Mistakes in lists of instances.

use outrigger_api::v1::ListInstancesResponse;

use crate::defects::Defect;
use crate::faults::BadAnswer;
use crate::faults::Method::ListInstances;

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect::new(
            "list-of-instances-never-complete",
            "A list of instances ends without complete.",
            &["INS-14", "TRN-14"],
        )
        .answer(ListInstances, |answer: &mut ListInstancesResponse| {
            answer.complete = false;
        }),
        Defect::new(
            "lists-an-instance-twice",
            "An instance that moves between pages is listed twice.",
            &["INS-30"],
        )
        .bad_answer(ListInstances, BadAnswer::DuplicateResult),
        Defect::new(
            "lists-no-instances",
            "The list is complete, and has no instance of this cluster.",
            &["INS-31"],
        )
        .bad_answer(ListInstances, BadAnswer::MissingResult),
        Defect::new(
            "lists-in-one-message",
            "A list is one message, larger than the controller accepts.",
            // A message that cannot be read ends each list.
            &["INS-14", "INS-30", "INS-31", "INS-32", "TRN-14"],
        )
        .bad_answer(ListInstances, BadAnswer::OversizedReply),
    ]
}
