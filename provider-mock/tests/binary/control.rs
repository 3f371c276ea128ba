//! `ctl` against `serve`.

use std::os::unix::fs::PermissionsExt as _;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::{CallContext, DeleteLoadBalancerRequest, Service};
use outrigger_provider_mock::faults::Method;
use outrigger_provider_mock::journal::{Event, Line};
use serde_json::Value;

use crate::harness::{Served, binary, within};

#[tokio::test]
async fn instances_are_made_stopped_started_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &[]).await;
    let mode = |name: &str| {
        let metadata = std::fs::metadata(directory.path().join(name)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("provider.sock"), mode("provider.sock.ctl")),
        (0o660, 0o660)
    );

    assert_eq!(mock.count("list", "instances").await, 0);
    let created = mock
        .json(
            "create worker-1 --type mock.large --zone z-1 --region r-1 --address 10.0.0.4 \
             --address ExternalIP=192.0.2.4",
        )
        .await;
    let created = &created["changed"][0];
    assert_eq!(created["id"], "i-646356604c197d66");
    mock.ctl("create worker-2 --id i-2").await;
    let listed = mock.json("list").await;
    assert_eq!(&listed["instances"][0], created);
    assert_eq!(created["addresses"][1]["address"], "192.0.2.4");

    let power = async || -> Vec<String> {
        let listed = mock.json("list").await;
        let powers = listed["instances"].as_array().unwrap().iter();
        powers
            .map(|instance| instance["power"].as_str().unwrap().to_owned())
            .collect()
    };
    mock.ctl("stop worker-1 i-2").await;
    assert_eq!(power().await, ["shutdown", "shutdown"]);
    mock.ctl("start mock://i-2").await;
    assert_eq!(power().await, ["shutdown", "running"]);
    mock.ctl("delete worker-1 --terminating").await;
    assert_eq!(power().await, ["terminating", "running"]);
    let refused = mock.ctl_fails("delete worker-2 worker-9").await;
    assert!(
        refused.contains("no instance worker-9; nothing was changed"),
        "{refused}"
    );
    let refused = mock.ctl_fails("create worker-2").await;
    assert!(refused.contains("worker-2 already (id i-2)"), "{refused}");
    assert_eq!(mock.count("delete --all", "changed").await, 2);
    assert!(power().await.is_empty());
    mock.terminate().await;
}

#[tokio::test]
async fn faults_are_set_shown_and_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--synthesize-instances"]).await;
    let set = mock
        .json(
            "errors --method BatchGetInstances --code RESOURCE_EXHAUSTED --retry-after 1.5s \
             --count 2",
        )
        .await;
    assert_eq!(set["effect"]["error"]["reason"], "RATE_LIMITED");
    mock.ctl("hang --method ListInstances --for 30s").await;
    mock.ctl("answers --bad bad-label --rate 0.5 --node n-1")
        .await;
    let status = mock.json("status").await;
    assert_eq!(status["faults"][0], set);
    assert_eq!(status["faults"].as_array().unwrap().len(), 3);
    assert_eq!(status["synthesizes"], true);

    let error = mock.ask(&["n-2".into()]).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    // Set again it replaces the first; added it comes after it.
    mock.ctl("errors --method BatchGetInstances --code INTERNAL --count 1")
        .await;
    mock.ctl("errors --method BatchGetInstances --code ABORTED --count 1 --add")
        .await;
    for code in [tonic::Code::Internal, tonic::Code::Aborted] {
        assert_eq!(mock.ask(&["n-2".into()]).await.unwrap_err().code(), code);
    }
    assert_eq!(mock.json("clear").await["count"], 2);
    mock.ctl("errors --code PERMISSION_DENIED --per-item --node n-2")
        .await;
    let results = mock.ask(&["n-1".into(), "n-2".into()]).await.unwrap();
    for result in results {
        let failed = matches!(result.outcome, Some(Outcome::Error(_)));
        assert_eq!(failed, result.key == "n-2");
    }
    for (command, says) in [
        (
            "answers --bad empty --method Handshake",
            "Handshake has no answers that could be empty",
        ),
        (
            "errors --code ABORTED --per-item --method ListInstances",
            "ListInstances has no errors of single items",
        ),
        ("errors --code OK", "OK is no error"),
    ] {
        let refused = mock.ctl_fails(command).await;
        assert!(refused.contains(says), "{command}: {refused}");
    }
    mock.terminate().await;
}

#[tokio::test]
async fn costs_and_counters_are_seen_from_outside() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(
        directory.path(),
        &["--synthesize-instances", "--page-size", "2"],
    )
    .await;
    let names: Vec<String> = (0..5).map(|index| format!("n-{index}")).collect();
    assert_eq!(mock.ask(&names).await.unwrap().len(), 5);
    let counters = mock.json("counters").await;
    assert_eq!(counters["calls"]["BatchGetInstances"]["OK"], 1);
    assert_eq!(counters["items"]["BatchGetInstances"], 5);
    assert_eq!(counters["cloud"]["GetInstances"]["served"], 3);
    assert_eq!(mock.json("reset-counters").await, counters);
    let none = mock.json("counters").await;
    assert_eq!(none["calls"].as_object().unwrap().len(), 0);

    let cost = mock.json("set-cost --latency 5ms --jitter 0.1").await;
    assert_eq!(
        (&cost["latency"], &cost["jitter"]),
        (&"5ms".into(), &0.1.into())
    );
    let cost = mock.json("set-cost --qps 10").await;
    assert_eq!(
        (&cost["latency"], &cost["rateLimit"]["burst"]),
        (&"5ms".into(), &10.into())
    );
    assert_eq!(
        mock.json("set-cost --qps 0").await["rateLimit"],
        Value::Null
    );
    let refused = mock.ctl_fails("set-cost --qps -1").await;
    assert!(refused.contains("use more than 0"), "{refused}");
    mock.terminate().await;
}

#[tokio::test]
async fn the_sockets_can_be_elsewhere_and_are_not_shared() {
    let directory = tempfile::tempdir().unwrap();
    let control = format!("unix://{}/control.sock", directory.path().display());
    let mock = Served::start(directory.path(), &["--control-endpoint", &control]).await;
    let missed = mock.ctl_fails("status").await;
    assert!(missed.contains("provider.sock.ctl") && missed.contains("start provider-mock serve"));
    mock.ctl(&format!("--control-endpoint {control} status"))
        .await;

    let second = binary()
        .args(["serve", "--endpoint", &mock.endpoint()])
        .output();
    let second = within("the second", second).await.unwrap();
    assert!(!second.status.success());
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(
        error.contains("another process serves") && error.contains("provider.sock"),
        "{error}"
    );
    mock.ctl(&format!("--control-endpoint {control} status"))
        .await;
    mock.terminate().await;
}

#[tokio::test]
async fn a_signal_at_the_start_leaves_no_socket() {
    for _ in 0..5 {
        let directory = tempfile::tempdir().unwrap();
        let mock = Served::spawn(directory.path(), &[]);
        // The first of the two that appears.
        let control = directory.path().join("provider.sock.ctl");
        let appears = async {
            while !control.exists() {
                tokio::task::yield_now().await;
            }
        };
        within("the start", appears).await;
        mock.terminate().await;
    }
}

#[tokio::test]
async fn a_call_that_hangs_does_not_hold_up_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &[]).await;
    mock.ctl("hang --method BatchGetInstances --count 1").await;
    let names = ["n-1".to_owned()];
    let lookup = mock.ask(&names);
    let ended = async {
        // A fault that is used up is not shown any more: the lookup hangs.
        while mock.ctl("status").await.contains("BatchGetInstances") {}
        mock.signal_to_end();
    };
    let (answer, ()) = tokio::join!(lookup, ended);
    // Ended in the last moment, it is served or refused, but never left hanging.
    if let Err(refused) = answer {
        assert_eq!(refused.code(), tonic::Code::Unavailable);
    }
    mock.ended().await;
}

#[tokio::test]
async fn the_journal_says_which_services_calls_are_about() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("journal");
    let flag = file.display().to_string();
    let mock = Served::start(directory.path(), &["--journal", &flag]).await;
    mock.ctl("lose --method DeleteLoadBalancer --count 1").await;
    let service = Service {
        namespace: "default".into(),
        name: "web".into(),
        uid: "u-1".into(),
        ..Service::default()
    };
    let mut balancers = LoadBalancersServiceClient::new(mock.channel().await);
    let context = CallContext {
        request_id: "r".into(),
        cluster_name: "kubernetes".into(),
        ..CallContext::default()
    };
    let delete = DeleteLoadBalancerRequest {
        context: Some(context),
        service: Some(service),
        identity: None,
    };
    balancers.delete_load_balancer(delete).await.unwrap_err();

    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Line> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(lines.is_sorted_by_key(|line| line.at));
    let mut events = lines.into_iter().map(|line| line.event);
    let services = events.find_map(|event| match event {
        Event::CallBegan { method, services } if method == Method::DeleteLoadBalancer => {
            Some(services)
        }
        _ => None,
    });
    let services = services.unwrap();
    assert_eq!(
        (&*services[0].name, &*services[0].uid),
        ("default/web", "u-1")
    );
    mock.terminate().await;
}
