//! Route calls, seen from the other end of the wire.

use std::time::Duration;

use outrigger_api::ItemResult;
use outrigger_api::v1;
use outrigger_provider_sdk::{
    Context, Effects, Error, Event, Route, RouteChange, RouteChanges, RouteSink, Routes,
    RoutesCapability, ServeError,
};
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::harness::reason;
use crate::route_tables::{
    Table, client, codes, create, delete, list, made_route, route, routes, serve, to_create,
    to_delete,
};

/// RTE-01, RTE-04, RTE-10.
#[tokio::test]
async fn routes_are_made_listed_and_removed_and_again_is_the_same() {
    let table = Table::default();
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let mut items = routes(&["n-1"]);
    items.push(v1::Route {
        destination_cidr: "2001:db8::/64".to_owned(),
        ..items[0].clone()
    });
    for _ in 0..2 {
        let made = create(&mut client, items.clone()).await.unwrap();
        let named = |result: &v1::RouteResult| made_route(result).name;
        assert_eq!(made.iter().map(named).collect::<Vec<_>>(), ["r-n-1"; 2]);
        assert!(codes(&made).values().all(|(code, _)| *code == Code::Ok));
    }
    assert_eq!(table.destinations(), ["10.1.0.0/24", "2001:db8::/64"]);

    let (messages, end) = list(&mut client).await;
    end.unwrap();
    let [listed] = &messages[..] else {
        panic!("{messages:?}")
    };
    assert!(listed.complete && listed.items[0].node_name == "n-1");
    for _ in 0..2 {
        let gone = delete(&mut client, listed.items.clone()).await.unwrap();
        let codes = codes(&gone);
        assert!(codes.len() == 2 && codes.values().all(|(code, _)| *code == Code::Ok));
    }
    assert!(table.destinations().is_empty());
}

/// A list may have shown a destination that is none, and no Node.
#[tokio::test]
async fn a_route_without_a_legal_destination_can_be_deleted() {
    let table = Table::default();
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let to_pods = v1::Route {
        destination_cidr: "pods".to_owned(),
        ..route(0, "n-1")
    };
    table
        .routes
        .lock()
        .insert("pods".to_owned(), Route::new("pods"));
    let odd = vec![to_pods, route(0, "")];
    let gone = delete(&mut client, odd).await.unwrap();
    assert!(codes(&gone).values().all(|(code, _)| *code == Code::Ok));
    assert!(table.destinations().is_empty());
}

/// RTE-02.
#[tokio::test(start_paused = true)]
async fn each_route_of_a_batch_has_its_own_result() {
    let table = Table::default();
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let items = routes(&["slow", "panics", "refused", "n-1"]);
    let results = create(&mut client, items.clone()).await.unwrap();
    assert_eq!(results.len(), 4);
    let codes = codes(&results);
    assert_eq!(codes["10.1.0.0/24"].0, Code::Ok);
    assert_eq!(codes["10.1.1.0/24"], (Code::Internal, String::new()));
    assert_eq!(codes["10.1.2.0/24"].1, "QUOTA_EXCEEDED");
    assert_eq!(codes["10.1.3.0/24"].0, Code::Ok);
    for (item, result) in items.iter().zip(&results) {
        assert_eq!(item.destination_cidr, result.key);
        let text = result.error().map_or("", |error| &error.message);
        assert!(!text.contains("secret"), "{text}");
    }
    let effects = results[2].effects.as_ref().unwrap();
    assert_eq!(effects.remove_annotations, ["x.test/y"]);
    assert_eq!(table.destinations(), ["10.1.0.0/24", "10.1.3.0/24"]);
}

#[tokio::test]
async fn a_cloud_that_says_slow_down_is_asked_no_further() {
    let table = Table::with(RoutesCapability::default().with_concurrency(1));
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let items = routes(&["n-1", "limited", "n-2", "n-3"]);
    let results = create(&mut client, items).await.unwrap();
    let limited = codes(&results);
    let reasons: Vec<_> = limited
        .values()
        .map(|(_, reason)| reason.as_str())
        .collect();
    assert_eq!(
        reasons,
        ["", "RATE_LIMITED", "RATE_LIMITED", "RATE_LIMITED"]
    );
    assert_eq!(table.destinations(), ["10.1.0.0/24"]);
}

/// RTE-08.
#[tokio::test(start_paused = true)]
async fn one_destination_is_changed_by_one_call_at_a_time() {
    let table = Table::default();
    let rig = serve(table.clone());
    let (mut first, mut second) = (client(&rig).await, client(&rig).await);
    let started = Instant::now();
    let (long, short) = tokio::join!(create(&mut first, routes(&["slow"])), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The same destination in another spelling, and to another Node.
        let mut unwanted = routes(&["another", "n-2"]);
        unwanted[0].destination_cidr = "10.1.0.7/24".to_owned();
        let results = delete(&mut second, unwanted).await.unwrap();
        (results, started.elapsed())
    });
    assert_eq!(codes(&long.unwrap())["10.1.0.0/24"].0, Code::Ok);
    let (results, elapsed) = short;
    let codes = codes(&results);
    assert_eq!(codes["10.1.0.7/24"].1, "OPERATION_IN_PROGRESS");
    assert_eq!(codes["10.1.1.0/24"].0, Code::Ok, "the others do not wait");
    assert_eq!(elapsed.as_secs(), 1, "a batch waited for another");
    let again = delete(&mut second, routes(&["n-1"])).await.unwrap();
    assert_eq!(again[0].error(), None);
    assert!(table.destinations().is_empty());
}

/// A handler that outlives its caller still holds its destination, and begins no further route: RTE-09.
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_leaves_whole_routes() {
    let (steps, mut seen) = mpsc::unbounded_channel();
    let table = Table {
        steps: Some(steps),
        ..Table::with(RoutesCapability::default().with_concurrency(1))
    };
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    tokio::select! {
        ended = create(&mut client, routes(&["two-steps", "n-1"])) => panic!("{ended:?}"),
        step = seen.recv() => assert_eq!(step, Some("created")),
    }
    let early = delete(&mut client, routes(&["n-1"])).await.unwrap();
    assert_eq!(codes(&early)["10.1.0.0/24"].1, "OPERATION_IN_PROGRESS");
    table.second.notify_one();
    let step = timeout(Duration::from_secs(5), seen.recv()).await;
    assert_eq!(step.expect("the handler was dropped"), Some("tagged"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(table.destinations(), ["10.1.0.0/24"]);
    let late = delete(&mut client, routes(&["n-1"])).await.unwrap();
    assert_eq!(codes(&late)["10.1.0.0/24"].0, Code::Ok);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_batch_ends_it() {
    let table = Table::with(RoutesCapability::default().with_concurrency(1));
    let rig = serve(table.clone());
    let mut client = client(&rig).await;
    let mut request = to_create(routes(&["n-1", "slow", "n-2"]));
    request.set_timeout(Duration::from_secs(3));
    let late = client.batch_create_routes(request).await.unwrap_err();
    // The timer of the client may be the first.
    assert!(matches!(
        late.code(),
        Code::Cancelled | Code::DeadlineExceeded
    ));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(table.destinations(), ["10.1.0.0/24", "10.1.1.0/24"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_batches_run_than_the_provider_takes() {
    for (max_in_flight, took) in [(1, 15), (2, 10), (0, 5)] {
        let rig = serve(Table::with(
            RoutesCapability::default().with_max_in_flight(max_in_flight),
        ));
        let (mut first, mut second, mut third) =
            (client(&rig).await, client(&rig).await, client(&rig).await);
        let started = Instant::now();
        let (a, b, c) = tokio::join!(
            first.batch_create_routes(to_create(vec![route(1, "slow-1"), route(2, "slow-2")])),
            second.batch_create_routes(to_create(vec![route(3, "slow-3")])),
            third.batch_delete_routes(to_delete(vec![route(4, "slow-4")])),
        );
        assert!(a.is_ok() && b.is_ok() && c.is_ok());
        assert_eq!(started.elapsed().as_secs(), took, "{max_in_flight} at once");
    }
}

/// A cloud where one call changes many routes; it answers as it likes.
struct Whole(fn(&[Route]) -> Result<RouteChanges, Error>);

impl Routes for Whole {
    async fn list_routes(&self, _: &Context, _: &mut RouteSink) -> Result<(), Error> {
        unreachable!("nothing is listed")
    }

    async fn create_route(&self, _: &Context, _: &Route) -> Result<RouteChange, Error> {
        unreachable!("the batch is asked for")
    }

    async fn delete_route(&self, _: &Context, _: &Route) -> Result<RouteChange, Error> {
        unreachable!("the batch is asked for")
    }

    async fn create_routes(&self, _: &Context, routes: &[Route]) -> Result<RouteChanges, Error> {
        (self.0)(routes)
    }
}

fn changed(destination: &str) -> (String, Result<RouteChange, Error>) {
    (destination.to_owned(), Ok(RouteChange::created(None)))
}

#[tokio::test]
async fn a_batch_that_answers_oddly_has_one_result_for_each_route() {
    let rig = serve(Whole(|_| {
        Ok([changed("10.1.0.0/24"), changed("192.0.2.0/24")].into())
    }));
    let mut client = client(&rig).await;
    let items = routes(&["n-1", "n-2"]);
    let results = create(&mut client, items).await.unwrap();
    let codes = codes(&results);
    assert_eq!(results.len(), 2);
    assert_eq!(codes["10.1.0.0/24"].0, Code::Ok);
    assert_eq!(codes["10.1.1.0/24"], (Code::Internal, String::new()));
}

#[tokio::test]
async fn an_error_of_a_batch_is_the_error_of_the_call() {
    let rig = serve(Whole(|_| Err(Error::cloud_unavailable("away"))));
    let mut client = client(&rig).await;
    let refused = create(&mut client, routes(&["n-1"])).await.unwrap_err();
    assert_eq!(reason(&refused), "CLOUD_UNAVAILABLE");
    let again = create(&mut client, routes(&["n-1"])).await.unwrap_err();
    assert_eq!(reason(&again), "CLOUD_UNAVAILABLE", "its keys are free");
}

/// The handshake of the tests names 8 MiB.
#[tokio::test]
async fn effects_that_do_not_fit_hide_no_result() {
    let rig = serve(Whole(|routes| {
        let results = routes.iter().map(|route| {
            let event = Event::normal("Made", "m".repeat(1 << 20));
            let effects = Effects::default().with_events([event]);
            let change = RouteChange::created(None).with_effects(effects);
            (route.destination_cidr.clone(), Ok(change))
        });
        Ok(results.collect())
    }));
    let mut client = client(&rig).await;
    for (count, kept) in [(4_u8, 4), (9, 7)] {
        let items = (0..count).map(|subnet| route(subnet, "n-1")).collect();
        let results = create(&mut client, items).await.unwrap();
        assert_eq!(results.len(), usize::from(count));
        let with_effects = results.iter().filter(|result| result.effects.is_some());
        assert_eq!(with_effects.count(), kept, "{count} routes");
        assert!(codes(&results).values().all(|(code, _)| *code == Code::Ok));
    }
}

/// RTE-11, RTE-12.
#[tokio::test]
async fn a_list_comes_in_chunks_and_only_the_last_says_that_it_is_whole() {
    let table = Table::default();
    let many = (0..5_000).map(|number| {
        let destination = format!("10.{}.{}.0/24", number / 256, number % 256);
        let route = Route::new(destination.as_str()).with_node_name("n".repeat(250));
        (destination, route)
    });
    table.routes.lock().extend(many);
    let rig = serve(table.clone());
    let mut caller = client(&rig).await;
    let (messages, end) = list(&mut caller).await;
    end.unwrap();
    let complete: Vec<_> = messages.iter().map(|message| message.complete).collect();
    assert!(complete.ends_with(&[false, true]) && complete.iter().filter(|c| **c).count() == 1);
    assert!(
        messages
            .iter()
            .all(|message| message.encoded_len() <= 1 << 20)
    );
    let listed = messages.iter().flat_map(|message| &message.items);
    assert!(
        listed
            .map(|route| &route.destination_cidr)
            .eq(&table.destinations())
    );

    let fails = Table {
        list_ends: Some(|| Err(Error::permission_missing("routes.list"))),
        ..table
    };
    let rig = serve(fails);
    let (messages, end) = list(&mut client(&rig).await).await;
    assert!(messages.iter().all(|message| !message.complete));
    assert_eq!(reason(&end.unwrap_err()), "PERMISSION_MISSING");

    let rig = serve(Table::default());
    let mut caller = client(&rig).await;
    let (messages, end) = list(&mut caller).await;
    end.unwrap();
    assert!(matches!(&messages[..], [only] if only.complete && only.items.is_empty()));
}

#[tokio::test]
async fn declarations_about_routes_are_checked_at_the_start() {
    let usual = RoutesCapability::default;
    for (capability, says) in [
        (usual().with_max_batch_size(0), "use 1 to 500"),
        (usual().with_max_batch_size(501), "use 1 to 500"),
        (usual().with_max_in_flight(65), "use 0 to 64"),
    ] {
        let mut rig = serve(Table::with(capability));
        let ended = rig.ended(Duration::from_secs(5)).await;
        let Err(ServeError::Provider(text)) = ended else {
            panic!("it serves")
        };
        assert!(text.contains(says), "{text}");
    }
}
