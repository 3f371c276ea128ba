//! Cases of each list.

use outrigger_api::{CONTROLLER_MAX_MESSAGE_BYTES, ListPage, MethodRequest};

use crate::{
    subject::Subject,
    verdict::{Verdict, expect},
};

/// The case that the list of a request ends as it should.
pub(super) async fn complete<R: MethodRequest<Response: ListPage>>(subject: &Subject) -> Verdict {
    let listed = subject.client.list(R::default()).await?;
    expect(
        listed.is_complete(),
        "complete on the last message and on no other",
        format!("complete by message: {:?}", listed.completes),
    )
}

/// The case that a list has no message beyond the limit that was named at handshake.
pub(super) async fn message_size<R>(subject: &Subject) -> Verdict
where
    R: MethodRequest<Response: ListPage>,
{
    let listed = subject.client.list(R::default()).await?;
    expect(
        listed.largest_message <= CONTROLLER_MAX_MESSAGE_BYTES,
        format!("messages of {CONTROLLER_MAX_MESSAGE_BYTES} bytes at most"),
        format!("{} bytes", listed.largest_message),
    )
}
