//! Faults that the scenario decides; they need no real API server.

use std::time::Duration;

use futures::{AsyncBufReadExt, Stream, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use outrigger_simulation::apiserver::{ApiServer, Delivery, Fault, FaultKind, Verb};
use serde_json::{Value, json};
use tokio::time::{Instant, advance, timeout};

const NODES: &str = "/api/v1/nodes";

fn start() -> (ApiServer, Client) {
    let server = ApiServer::new(7, || Timestamp::UNIX_EPOCH);
    let client = ClientBuilder::new(server.connect("replica"), "default").build();
    (server, client)
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value), kube::Error> {
    let request = http::Request::builder().method(method).uri(path);
    let response = client
        .send(
            request
                .body(Body::from(body.to_string().into_bytes()))
                .unwrap(),
        )
        .await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    Ok((code, serde_json::from_str(&text).unwrap_or(json!(text))))
}

/// Type and name, or code, of each event; an error where the connection breaks.
async fn watch(
    client: &Client,
    version: u64,
) -> impl Stream<Item = Result<(String, Value), std::io::Error>> + Unpin {
    watch_from(client, &format!("resourceVersion={version}")).await
}

async fn watch_from(
    client: &Client,
    begin: &str,
) -> impl Stream<Item = Result<(String, Value), std::io::Error>> + Unpin + use<> {
    let path = format!("{NODES}?watch=true&allowWatchBookmarks=true&timeoutSeconds=290&{begin}");
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let body = client
        .send(request)
        .await
        .unwrap()
        .into_body()
        .into_data_stream();
    let lines = body
        .map_err(std::io::Error::other)
        .into_async_read()
        .lines();
    lines.map_ok(|line| {
        let event: Value = serde_json::from_str(&line).unwrap();
        let object = &event["object"];
        let name = object["metadata"].get("name").or(object.get("code"));
        let what = name.cloned().unwrap_or_default();
        (event["type"].as_str().unwrap().to_owned(), what)
    })
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_get_lost() {
    let (server, client) = start();
    let mut kinds = vec![
        FaultKind::None,
        FaultKind::Refused(500),
        FaultKind::Refused(429),
        FaultKind::AnswerLost,
        FaultKind::RequestLost,
    ];
    server.set_faults(move |request| {
        assert_eq!((&*request.client, request.verb), ("replica", Verb::Create));
        Fault {
            kind: kinds.pop().unwrap(),
            ..Fault::default()
        }
    });
    for (name, is_made) in [("lost", false), ("made", true)] {
        send(&client, "POST", NODES, &node(name)).await.unwrap_err();
        assert_eq!(
            server.get(&format!("{NODES}/{name}")).is_ok(),
            is_made,
            "{name}"
        );
    }
    for code in [429, 500, 201] {
        assert_eq!(
            send(&client, "POST", NODES, &node("n")).await.unwrap().0,
            code
        );
    }
    let writes: Vec<_> = server
        .take_writes()
        .iter()
        .map(|write| write.code)
        .collect();
    assert_eq!(writes, [201, 201]);
}

/// A client that gives up, or dies, leaves its request on the way.
#[tokio::test(start_paused = true)]
async fn a_late_request_arrives_though_its_client_is_gone() {
    let (server, client) = start();
    server.set_faults(|_| Fault {
        before: Duration::from_secs(10),
        ..Fault::default()
    });
    let given_up = timeout(
        Duration::from_secs(1),
        send(&client, "POST", NODES, &node("n")),
    )
    .await;
    given_up.unwrap_err();
    server.get(&format!("{NODES}/n")).unwrap_err();
    advance(Duration::from_secs(20)).await;
    tokio::task::yield_now().await;
    server.get(&format!("{NODES}/n")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_list_shows_the_past() {
    let (server, client) = start();
    server.create(NODES, &node("gone")).unwrap();
    let past = server.version();
    server.delete(&format!("{NODES}/gone")).unwrap();
    server.create(NODES, &node("new")).unwrap();
    server.set_faults(move |_| Fault {
        kind: FaultKind::Past(past),
        ..Fault::default()
    });
    let (_, list) = send(&client, "GET", NODES, &Value::Null).await.unwrap();
    assert_eq!(
        (names(&list), &list["metadata"]["resourceVersion"]),
        (vec!["gone"], &json!(past.to_string()))
    );
    assert_eq!(
        send(&client, "GET", &format!("{NODES}/new"), &Value::Null)
            .await
            .unwrap()
            .0,
        404
    );
    let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let stream = watch_from(&client, streamed).await;
    // A watch from there goes on.
    server.end_faults();
    let shown = stream.take(2).map(|event| event.unwrap().0);
    assert_eq!(shown.collect::<Vec<_>>().await, ["ADDED", "BOOKMARK"]);
    let stream = watch_from(&client, streamed).await;
    let shown = stream.take(1).map(|event| event.unwrap().1);
    assert_eq!(shown.collect::<Vec<_>>().await, [json!("new")]);
    let mut events = watch(&client, past).await;
    let mut next = async || events.next().await.unwrap().unwrap();
    assert_eq!(next().await, ("DELETED".to_owned(), json!("gone")));
    assert_eq!(next().await, ("ADDED".to_owned(), json!("new")));
}

#[tokio::test(start_paused = true)]
async fn a_watch_omits_holds_back_and_breaks() {
    let (server, client) = start();
    let (began, later) = (Instant::now(), Instant::now() + Duration::from_secs(30));
    server.set_watch_faults(move |request, change| {
        assert_eq!(request.verb, Verb::Watch);
        match &*change.key.1 {
            "omitted" => Delivery::Never,
            "held" => Delivery::At(later),
            "cut" => Delivery::Cut,
            _ => Delivery::Now,
        }
    });
    let mut events = watch(&client, server.version()).await;
    for name in ["omitted", "first", "held", "behind", "cut"] {
        server.create(NODES, &node(name)).unwrap();
    }
    let mut next = async || {
        events
            .next()
            .await
            .unwrap()
            .map(|(_, name)| (name, began.elapsed().as_secs()))
    };
    assert_eq!(next().await.unwrap(), (json!("first"), 0));
    assert_eq!(next().await.unwrap(), (json!("held"), 30));
    assert_eq!(next().await.unwrap(), (json!("behind"), 30));
    next().await.unwrap_err();
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_faults_frees_what_is_held_back() {
    let (server, client) = start();
    server.set_watch_faults(|_, _| Delivery::At(Instant::now() + Duration::from_secs(1_000)));
    let mut events = watch(&client, server.version()).await;
    server.create(NODES, &node("n")).unwrap();
    timeout(Duration::from_secs(100), events.next())
        .await
        .unwrap_err();
    server.end_faults();
    let began = Instant::now();
    assert_eq!(events.next().await.unwrap().unwrap().1, json!("n"));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// A compaction loses the changes before it: a watch that was held back ends, and so does one that begins too early.
#[tokio::test(start_paused = true)]
async fn a_compaction_ends_what_is_behind() {
    let (server, client) = start();
    let began = server.version();
    server.set_watch_faults(|_, _| Delivery::At(Instant::now() + Duration::from_secs(1_000)));
    let mut behind = watch(&client, began).await;
    server.create(NODES, &node("n")).unwrap();
    timeout(Duration::from_secs(1), behind.next())
        .await
        .unwrap_err();
    server.compact();
    for mut events in [behind, watch(&client, began).await] {
        assert_eq!(
            events.next().await.unwrap().unwrap(),
            ("ERROR".to_owned(), json!(410))
        );
        assert!(events.next().await.is_none());
    }
}

/// In minutes of silence a watch has a bookmark each, one before its end, and then ends.
#[tokio::test(start_paused = true)]
async fn bookmarks_come_each_minute() {
    let (server, client) = start();
    let events = watch(&client, server.version()).await;
    // An object of another kind: the version moves on, and nothing else is to be shown.
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}});
    server
        .create("/api/v1/namespaces/default/events", &event)
        .unwrap();
    let began = Instant::now();
    let times = events.map(|event| (event.unwrap().0, began.elapsed().as_secs()));
    let times: Vec<_> = times.collect().await;
    let bookmark = |second| ("BOOKMARK".to_owned(), second);
    assert_eq!(times, [60, 120, 180, 240, 288].map(bookmark));
    assert_eq!(began.elapsed().as_secs(), 290);
}
