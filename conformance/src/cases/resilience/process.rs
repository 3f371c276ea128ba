//! The end and the start of the provider's process.

use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use outrigger_api::v1::{ErrorReason, GetStatusRequest, HandshakeResponse, SyncNodeSetRequest};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    call_error::CallError,
    capability::Capability,
    case::{Check, check},
    subject::{Subject, upload},
    verdict::{Required as _, Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("RES-14", killed),
        check("RES-10", terminated),
        check("RES-22", second_process),
    ]
}

/// The answer to the handshake before and after a restart.
pub(super) async fn handshakes(subject: &Subject) -> Verdict<[HandshakeResponse; 2]> {
    let shake_hands = async || -> Verdict<HandshakeResponse> {
        let client = subject.dial().await?;
        Ok(client.call(subject.handshake_request()).await?)
    };
    let before = shake_hands().await?;
    subject.restart().await?;
    Ok([before, shake_hands().await?])
}

async fn killed(subject: &Subject) -> Verdict {
    let [before, after] = handshakes(subject).await?.map(|answer| answer.boot_id);
    expect(
        before != after,
        format!("another boot_id than {before:?} after a restart"),
        format!("{after:?}"),
    )
}

async fn terminated(subject: &Subject) -> Verdict {
    let (complete, completed) = oneshot::channel();
    let running = async {
        if subject.declares(Capability::NodeSets) {
            let upload = upload_until(subject, completed);
            subject.client.sync_node_set(upload).await?;
        }
        Ok::<_, CallError>(())
    };
    let ending = async {
        let refused = refused_after_sigterm(subject).await;
        // Where the upload has ended already, its own answer says so.
        let _ = complete.send(());
        refused
    };
    // The upload is first: its request is on the way before the other calls.
    let (answered, refused) = tokio::join!(running, ending);
    let ended = subject.wait_for_end(Duration::from_secs(30)).await;
    let is_left = subject.endpoint().path().exists();
    if ended.is_err() {
        subject.kill().await?;
    }
    subject.start().await?;
    refused?;
    answered.required("the call that ran at SIGTERM is answered")?;
    let status = ended?;
    let expected = "no socket after a graceful end";
    expect(!is_left, expected, "the socket is there")?;
    let expected = "the exit code 0 after SIGTERM";
    expect(status.success(), expected, status.to_string())
}

/// An upload whose last message is sent once `completed` has a value.
fn upload_until(
    subject: &Subject,
    completed: oneshot::Receiver<()>,
) -> impl Stream<Item = SyncNodeSetRequest> + Send + use<> {
    let (context, nodes) = (subject.client.context(), subject.target_nodes());
    let mut messages = upload(&context, &subject.name(), &[&nodes, &[]]);
    let last = messages.pop();
    let last = async move {
        // Dropped, it completes too: the case has ended.
        let _ = completed.await;
        stream::iter(last)
    };
    stream::iter(messages).chain(stream::once(last).flatten())
}

/// How long calls may be answered as before after SIGTERM: the signal is handled by then on a busy machine too.
const NOTICE: Duration = Duration::from_secs(2);

/// How long a provider may take to begin a call that it has read.
const BEGUN: Duration = Duration::from_millis(200);

async fn refused_after_sigterm(subject: &Subject) -> Verdict {
    // Answered after the provider has read what was sent before. A provider of many threads may have begun that call
    // later, which shows in no answer.
    subject.client.call(GetStatusRequest {}).await?;
    sleep(BEGUN).await;
    subject.terminate().await?;
    let signalled = Instant::now();
    while signalled.elapsed() < NOTICE {
        if let Err(error) = subject.client.call(GetStatusRequest {}).await {
            // Without an ErrorInfo: the connection is closed, and the controller connects again too.
            let ending = error.is(ErrorReason::ShuttingDown) || error.infos.is_empty();
            let expected = "GetStatus after SIGTERM is SHUTTING_DOWN, or the connection is closed";
            return expect(ending, expected, error);
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(failed(
        format!("GetStatus is SHUTTING_DOWN within {NOTICE:?} after SIGTERM"),
        "it is answered as before",
    ))
}

async fn second_process(subject: &Subject) -> Verdict {
    let before = subject.client.call(GetStatusRequest {}).await?.boot_id;
    let second = subject.start_second().await?;
    let after = match subject.connect().await {
        Ok(other) => other.client.call(GetStatusRequest {}).await.ok(),
        Err(_) => None,
    };
    let serves = after.is_some_and(|status| status.boot_id == before);
    if !serves {
        // The socket was the second one's.
        subject.restart().await?;
    }
    expect(
        second.as_ref().is_some_and(|status| !status.success()),
        "a second process at the same endpoint ends with an error",
        second.map_or("it runs".to_owned(), |status| status.to_string()),
    )?;
    expect(
        serves,
        "the first process serves at the socket after that",
        "it does not",
    )
}
