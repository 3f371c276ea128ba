use std::sync::Arc;

use futures::FutureExt;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::fixture::scripted;

const SERVER: &str = "https://api.example";

/// The result and its time, where the namespace can be read so long after the start, or never.
async fn found(readable_after: Option<Duration>, other_errors: bool) -> (Facts, Duration) {
    let begin = Instant::now();
    let requests = Arc::new(Mutex::new(0));
    let client = scripted::client(move |request| {
        *requests.lock() += 1;
        let answer = match request.uri().path() {
            "/version" => scripted::json(200, &json!({"gitVersion": "v1.36.3"})),
            _ if readable_after.is_some_and(|after| begin.elapsed() >= after) => {
                scripted::json(200, &json!({"metadata": {"uid": "abc"}}))
            }
            _ if other_errors && *requests.lock() % 8 == 0 => scripted::refusal(503, "Unavailable"),
            _ => scripted::refusal(403, "Forbidden"),
        };
        async { answer }.boxed()
    });
    let facts = discover(&Api::new(client), SERVER).await;
    assert_eq!(facts.version, "v1.36.3");
    (facts, begin.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_may_be_read_at_once_is_waited_for_no_longer() {
    let (facts, took) = found(Some(Duration::ZERO), false).await;
    assert_eq!((facts.uid.as_deref(), took), (Some("abc"), Duration::ZERO));
}

/// An API server that is starting refuses everything at first.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_believed_only_after_a_while() {
    for seconds in [1, 10, 25] {
        let (facts, _) = found(Some(Duration::from_secs(seconds)), false).await;
        assert_eq!(facts.uid.as_deref(), Some("abc"), "after {seconds} s");
    }
    let (facts, took) = found(None, false).await;
    assert_eq!(facts.uid, None);
    assert!(
        (FORBIDDEN..FORBIDDEN + MAX_PAUSE).contains(&took),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_say_for_sure_is_asked_on() {
    let (facts, _) = found(Some(Duration::from_mins(3)), true).await;
    assert_eq!(facts.uid.as_deref(), Some("abc"));
}

/// No answer, and no right to ask, is no other cluster.
#[tokio::test(start_paused = true)]
async fn only_another_uid_is_another_cluster() {
    let answers = Arc::new(Mutex::new(vec![Some("def"), None, Some("abc")]));
    let client = scripted::client(move |_| {
        let answer = match answers.lock().pop() {
            Some(Some(uid)) => scripted::json(200, &json!({"metadata": {"uid": uid}})),
            Some(None) => scripted::refusal(403, "Forbidden"),
            None => scripted::refusal(503, "Unavailable"),
        };
        async { answer }.boxed()
    });
    // The first answer says which one it is.
    let cluster = SameCluster::new(Api::new(client), None);
    let shared = cluster.clone();
    let mut replaced = std::pin::pin!(shared.replaced());
    for _ in 0..2 {
        cluster.confirm().await.unwrap();
        assert_eq!((&mut replaced).now_or_never(), None);
    }
    let other = cluster.confirm().await;
    assert!(matches!(other, Err(ApiError::OtherCluster(_))), "{other:?}");
    let why = replaced.now_or_never().unwrap();
    assert!(why.contains("is def, and was abc"), "{why}");
    assert!(cluster.confirm().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn stores_whose_watches_break_together_share_a_question() {
    let questions = Arc::new(Mutex::new(0));
    let count = Arc::clone(&questions);
    let client = scripted::client(move |_| {
        *count.lock() += 1;
        async {
            sleep(Duration::from_secs(1)).await;
            scripted::json(200, &json!({"metadata": {"uid": "abc"}}))
        }
        .boxed()
    });
    let cluster = SameCluster::new(Api::new(client), None);
    let results = futures::future::join_all((0..7).map(|_| cluster.confirm())).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // The first began before the others were needed.
    assert_eq!(*questions.lock(), 2);
    cluster.confirm().await.unwrap();
    assert_eq!(*questions.lock(), 3);
}
