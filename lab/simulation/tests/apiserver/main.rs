//! The simulated API server against a real kube-apiserver: the same requests, the same answers.
//!
//! `OUTRIGGER_TEST_SEEDS` says how many sequences of chance are sent, from `OUTRIGGER_TEST_SEED` on.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy does not see that functions shared by tests are tests"
)]

mod chance;
mod side;
mod table;

use std::{collections::BTreeSet, env, time::Duration};

use futures::future::join_all;
use jiff::Timestamp;
use kube::client::ClientBuilder;
use outrigger_simulation::apiserver::ApiServer;
use outrigger_testbed::{ControlPlane, Options};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Mutex, MutexGuard, OnceCell},
    time::{Instant, sleep},
};

use self::side::{Side, Step};

/// The real one. Tests use it one after the other.
static PLANE: OnceCell<(ControlPlane, Mutex<()>)> = OnceCell::const_new();

/// Both servers, with the same objects.
struct Both {
    real: Side,
    simulated: Side,
    server: ApiServer,
    /// The requests so far, for the message of a difference.
    sent: Vec<String>,
    plane: &'static ControlPlane,
    _alone: MutexGuard<'static, ()>,
}

impl Both {
    async fn start() -> Self {
        let start = || async {
            let options = Options {
                apiserver_args: vec!["--etcd-compaction-interval=2s".to_owned()],
                ..Options::default()
            };
            (ControlPlane::start(options).await.unwrap(), Mutex::new(()))
        };
        let (plane, alone) = PLANE.get_or_init(start).await;
        let alone = alone.lock().await;
        let server = ApiServer::new(1, Timestamp::now);
        let simulated = ClientBuilder::new(server.connect("test"), "default").build();
        let mut both = Self {
            real: Side::new(plane.client().unwrap()),
            simulated: Side::new(simulated),
            server,
            sent: Vec::new(),
            plane,
            _alone: alone,
        };
        let namespace = Step::post("/api/v1/namespaces", &json!({"metadata": {"name": "diff"}}));
        both.real.send(&namespace).await;
        both.simulated.send(&namespace).await;
        // A test that failed may have left objects.
        for collection in table::COLLECTIONS {
            let (_, list) = both.real.send(&Step::get(collection)).await;
            for object in list["items"].as_array().unwrap() {
                let path = format!(
                    "{collection}/{}",
                    object["metadata"]["name"].as_str().unwrap()
                );
                let finalizers = json!({"metadata": {"finalizers": null}});
                both.real
                    .send(&Step::patch(path.as_str(), side::MERGE, &finalizers))
                    .await;
                both.real.send(&Step::delete(path)).await;
            }
        }
        both.begin().await;
        both
    }

    async fn begin(&mut self) {
        self.real.begin().await;
        self.simulated.begin().await;
        self.sent.clear();
    }

    async fn send(&mut self, step: &Step) -> (u16, Value) {
        self.sent
            .push(format!("{} {} {}", step.method, step.path, step.body));
        let (real, simulated) = (self.real.send(step).await, self.simulated.send(step).await);
        self.compare(&json!([real.0, real.1]), &json!([simulated.0, simulated.1]));
        real
    }

    fn compare(&self, real: &Value, simulated: &Value) {
        let differences = difference("", real, simulated);
        assert!(
            differences.is_empty(),
            "{}\nafter {:#?}",
            differences.join("\n"),
            self.sent
        );
    }

    /// The lines of watches until they end.
    async fn watch(&mut self, paths: &[String]) -> Vec<Vec<Value>> {
        let real = join_all(paths.iter().map(|path| self.real.watch(path)));
        let simulated = join_all(paths.iter().map(|path| self.simulated.watch(path)));
        let (mut real, mut simulated) = tokio::join!(real, simulated);
        for (path, (real, simulated)) in paths.iter().zip(real.iter_mut().zip(&mut simulated)) {
            for line in real.iter_mut() {
                self.real.normalize(line);
            }
            for line in simulated.iter_mut() {
                self.simulated.normalize(line);
            }
            let (last, simulated_last) = (last_bookmark(real), last_bookmark(simulated));
            self.sent.push(path.clone());
            self.compare(&json!(real), &json!(simulated));
            // Other writers may bring the real one to send it.
            if let (Some(last), Some(simulated_last)) = (last, simulated_last) {
                self.compare(&last, &simulated_last);
                real.push(last);
            }
        }
        real
    }

    /// All pages of a collection, an object in each.
    async fn pages(&mut self, collection: &str) {
        let (_, mut page) = self.send(&Step::get(format!("{collection}?limit=1"))).await;
        while page["metadata"].get("continue").is_some() {
            let next = format!("{collection}?limit=1&continue={{continue}}");
            (_, page) = self.send(&Step::get(next)).await;
        }
    }
}

/// Takes the bookmark from the end of a watch, which the real one may send more than once.
fn last_bookmark(lines: &mut Vec<Value>) -> Option<Value> {
    let is_last = |line: &mut Value| {
        line["type"] == "BOOKMARK" && line["object"]["metadata"].get("annotations").is_none()
    };
    let mut last = None;
    while let Some(line) = lines.pop_if(is_last) {
        last = Some(line);
    }
    last
}

/// Where two values differ.
fn difference(at: &str, real: &Value, simulated: &Value) -> Vec<String> {
    match (real, simulated) {
        (Value::Object(real), Value::Object(simulated)) => {
            let keys: BTreeSet<_> = real.keys().chain(simulated.keys()).collect();
            let of = |object: &Map<String, Value>, key| {
                object.get(key).cloned().unwrap_or(json!("absent"))
            };
            let differences = keys.into_iter().flat_map(|key| {
                difference(&format!("{at}/{key}"), &of(real, key), &of(simulated, key))
            });
            differences.collect()
        }
        (Value::Array(real), Value::Array(simulated)) if real.len() == simulated.len() => {
            let both = real.iter().zip(simulated).enumerate();
            both.flat_map(|(n, (real, simulated))| {
                difference(&format!("{at}/{n}"), real, simulated)
            })
            .collect()
        }
        _ if real == simulated => Vec::new(),
        _ => vec![format!("{at}: real {real}, simulated {simulated}")],
    }
}

#[tokio::test]
async fn the_requests_of_the_table_have_the_same_answers() {
    let mut both = Both::start().await;
    let mut differences = Vec::new();
    for step in table::steps() {
        let (real, simulated) = (
            both.real.send(&step).await,
            both.simulated.send(&step).await,
        );
        let differing_fields = difference(
            "",
            &json!([real.0, real.1]),
            &json!([simulated.0, simulated.1]),
        );
        if !differing_fields.is_empty() {
            let sent = format!("{} {} {}", step.method, step.path, step.body);
            differences.push(format!("{sent}\n{}\n", differing_fields.join("\n")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[tokio::test]
async fn requests_by_chance_have_the_same_answers_and_events() {
    let number =
        |variable, usual| env::var(variable).map_or(usual, |text: String| text.parse().unwrap());
    let first = number("OUTRIGGER_TEST_SEED", 1_u64);
    let mut both = Both::start().await;
    for seed in first..first + number("OUTRIGGER_TEST_SEEDS", 6) {
        both.begin().await;
        both.sent.push(format!("seed {seed}"));
        let mut chance = chance::Chance::new(seed);
        for _ in 0..60 {
            let step = chance.step();
            both.send(&step).await;
        }
        for collection in table::COLLECTIONS {
            both.pages(collection).await;
        }
        for step in chance::Chance::end() {
            both.send(&step).await;
        }
        let mut watches = Vec::new();
        for collection in table::COLLECTIONS {
            watches.push(format!(
                "{collection}?watch=true&resourceVersion={{start}}&timeoutSeconds=2"
            ));
        }
        both.watch(&watches).await;
    }
}

#[tokio::test]
async fn watches_begin_and_end_as_the_real_ones() {
    let mut both = Both::start().await;
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/diff/leases";
    let nodes = "/api/v1/nodes";
    for name in ["b", "a", "c"] {
        both.send(&Step::post(leases, &lease(name))).await;
        both.send(&Step::post(nodes, &json!({"metadata": {"name": name}})))
            .await;
    }
    both.send(&Step::delete(format!("{leases}/c"))).await;
    let bookmarks = "watch=true&allowWatchBookmarks=true&timeoutSeconds=6";
    let lines = both
        .watch(&[
            format!("{leases}?{bookmarks}"),
            format!("{leases}?{bookmarks}&resourceVersion=&fieldSelector=metadata.name%3Da"),
            format!("{nodes}?{bookmarks}&resourceVersion="),
            format!("{leases}?watch=true&timeoutSeconds=1"),
            format!("{leases}?watch=true&timeoutSeconds=1&resourceVersion=0"),
            format!("{leases}?watch=true&timeoutSeconds=1&resourceVersion=999999999"),
            format!("{nodes}?{bookmarks}&resourceVersion={{start}}"),
            format!("{leases}?{bookmarks}&resourceVersion=0"),
        ])
        .await;
    // The objects and their end; the changes, and a bookmark before the end.
    assert_eq!(lines[0].len(), 3, "{:#?}", lines[0]);
    assert_eq!(lines[6].len(), 4, "{:#?}", lines[6]);
    for name in ["a", "b", "c"] {
        both.send(&Step::delete(format!("{leases}/{name}"))).await;
        both.send(&Step::delete(format!("{nodes}/{name}"))).await;
    }
}

/// etcd is compacted, and the API server starts again, so that its cache begins with the objects of
/// then.
#[tokio::test]
async fn what_is_too_old_is_refused_with_the_same_words() {
    let mut both = Both::start().await;
    let nodes = "/api/v1/nodes";
    for name in ["a", "b"] {
        both.send(&Step::post(nodes, &json!({"metadata": {"name": name}})))
            .await;
    }
    both.send(&Step::get(format!("{nodes}?limit=1"))).await;
    both.send(&Step::delete(format!("{nodes}/a"))).await;
    both.server.compact();
    both.plane.start_apiserver().await.unwrap();
    let next = Step::get(format!("{nodes}?limit=1&continue={{continue}}"));
    let give_up = Instant::now() + Duration::from_secs(30);
    let real = loop {
        match both.real.send(&next).await {
            (200, _) => assert!(Instant::now() < give_up, "etcd is not compacted"),
            (_, answer) => break answer,
        }
        sleep(Duration::from_millis(200)).await;
    };
    let (_, simulated) = both.simulated.send(&next).await;
    both.compare(&real, &simulated);
    // It goes on with the token of the refusal.
    both.send(&next).await;
    let watch = format!("{nodes}?watch=true&timeoutSeconds=1&resourceVersion={{start}}");
    let lines = both.watch(&[watch]).await;
    assert_eq!(lines[0][0]["object"]["code"], 410, "{lines:?}");
    both.send(&Step::delete(format!("{nodes}/b"))).await;
}
