//! `ctl` against `serve`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_api::v1::load_balancers_service_client::LoadBalancersServiceClient;
use outrigger_api::v1::provider_service_client::ProviderServiceClient;
use outrigger_api::v1::{CallContext, DeleteLoadBalancerRequest, GetStatusRequest, Service};
use outrigger_provider_mock::faults::{Code, Method};
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

    assert_eq!(mock.ctl("list").await, "");
    let created = mock
        .ctl(
            "create worker-1 --type mock.large --zone z-1 --region r-1 --address 10.0.0.4 \
             --address ExternalIP=192.0.2.4 --label rack=r1",
        )
        .await;
    assert_eq!(created, "created worker-1 (i-646356604c197d66)\n");
    mock.ctl("create worker-2 --id i-2").await;
    let listed = mock.ctl("list").await;
    assert_eq!(
        listed.lines().next().unwrap(),
        "worker-1\tmock://i-646356604c197d66\trunning\tmock.large\tz-1\t\
         InternalIP=10.0.0.4,ExternalIP=192.0.2.4"
    );
    let table = mock.ctl("list --output table").await;
    assert!(table.starts_with("NAME      PROVIDER ID"), "{table}");

    let power = async || -> Vec<String> {
        let listed: Value = serde_json::from_str(&mock.ctl("list -o json").await).unwrap();
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
    assert_eq!(mock.ctl("delete --all").await.lines().count(), 2);
    assert!(power().await.is_empty());
    mock.terminate().await;
}

#[tokio::test]
async fn faults_are_set_shown_and_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--synthesize-instances"]).await;
    let set = mock
        .ctl(
            "set errors --method BatchGetInstances --code RESOURCE_EXHAUSTED --retry-after 1.5s \
             --count 2",
        )
        .await;
    let sentence = "BatchGetInstances fails with RESOURCE_EXHAUSTED (RATE_LIMITED, retry after \
                    1.5s), 2 times";
    assert_eq!(set, format!("set: {sentence}\n"));
    mock.ctl("hang --method ListInstances --for 30s").await;
    mock.ctl("answers --bad bad-label --rate 0.5 --node n-1")
        .await;
    let status = mock.ctl("status").await;
    for line in [
        &format!("fault\t{sentence}") as &str,
        "fault\tListInstances hangs for 30s, until cleared",
        "fault\tanswers of each method are bad: bad-label, about n-1, with probability 0.5",
        "synthesizes\tyes",
    ] {
        assert!(
            status.lines().any(|one| one == line),
            "{line} is missing:\n{status}"
        );
    }

    let error = mock.ask(&["n-2".into()]).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    // Set again it replaces the first; added it comes after it.
    mock.ctl("set errors --method BatchGetInstances --code INTERNAL --count 1")
        .await;
    mock.ctl("set errors --method BatchGetInstances --code ABORTED --count 1 --add")
        .await;
    for code in [tonic::Code::Internal, tonic::Code::Aborted] {
        assert_eq!(mock.ask(&["n-2".into()]).await.unwrap_err().code(), code);
    }
    assert_eq!(mock.ctl("clear").await, "2 faults removed\n");
    mock.ctl("set errors --code PERMISSION_DENIED --per-item --node n-2")
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
            "set errors --code ABORTED --per-item --method ListInstances",
            "ListInstances has no errors of single items",
        ),
        ("set errors --code OK", "OK is no error"),
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
    let counters = mock.ctl("counters").await;
    for line in [
        "call\tHandshake\tOK\t1",
        "call\tBatchGetInstances\tOK\t1",
        "items\tBatchGetInstances\tasked\t5",
        "cloud\tGetInstances\tserved\t3",
        "cloud\tGetInstances\trate-limited\t0",
    ] {
        assert!(
            counters.lines().any(|one| one == line),
            "{line} is missing:\n{counters}"
        );
    }
    assert_eq!(mock.ctl("counters --reset").await, counters);
    assert_eq!(mock.ctl("counters").await, "");

    let cost = async |command: &str| mock.ctl(command).await;
    assert_eq!(
        cost("set latency 5ms --jitter 0.1").await,
        "a call to the cloud takes 5ms (jitter 0.1); rate limit: none\n"
    );
    assert_eq!(
        cost("set rate-limit 10").await,
        "a call to the cloud takes 5ms (jitter 0.1); rate limit: 10/s, 10 at once\n"
    );
    assert!(
        mock.ctl("status")
            .await
            .contains("rate limit\t10/s, 10 at once\n")
    );
    assert!(
        cost("set rate-limit 0")
            .await
            .ends_with("rate limit: none\n")
    );
    let refused = mock.ctl_fails("set rate-limit -1").await;
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
async fn the_example_is_served() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cloud.yaml");
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--cloud", example.to_str().unwrap()]).await;
    let listed = mock.ctl("list").await;
    let names: Vec<_> = listed
        .lines()
        .map(|line| line.split('\t').next().unwrap())
        .collect();
    assert_eq!(names, ["control-plane-1", "edge-1", "worker-1", "worker-2"]);
    mock.terminate().await;

    let wrong = directory.path().join("wrong.yaml");
    std::fs::write(&wrong, "instances:\n- name: a\n  colour: red\n").unwrap();
    let endpoint = format!("unix://{}/p.sock", directory.path().display());
    let output = binary()
        .args(["serve", "--endpoint", &endpoint, "--cloud"])
        .arg(&wrong)
        .output();
    let output = within("refusing", output).await.unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    for word in ["wrong.yaml", "colour", "line 3"] {
        assert!(error.contains(word), "{error}");
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
async fn connections_are_closed_and_the_process_lives_on() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Served::start(directory.path(), &["--synthesize-instances"]).await;
    let before = mock.channel().await;
    let begin = tokio::time::Instant::now();
    let closed = mock.ctl("disconnect --for 300ms").await;
    assert_eq!(closed, "1 connection closed\n");
    let mut old = ProviderServiceClient::new(before);
    let lost = old.get_status(GetStatusRequest {}).await;
    // The channel connects again, and is answered once the time is over.
    assert!(
        lost.is_err() || begin.elapsed().as_millis() > 200,
        "{lost:?}"
    );
    assert_eq!(mock.ask(&["n-1".into()]).await.unwrap().len(), 1);
    mock.terminate().await;
}

#[tokio::test]
async fn the_journal_says_who_called_and_what_came_of_it() {
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
    let mut calls = lines.into_iter().map(|line| line.event).skip_while(
        |event| !matches!(event, Event::CallBegan { method, .. } if *method == Method::DeleteLoadBalancer),
    );
    let Some(Event::CallBegan {
        call,
        caller,
        services,
        ..
    }) = calls.next()
    else {
        panic!("no call began: {text}");
    };
    assert_eq!(caller, Some(std::process::id() as i32));
    assert_eq!(
        (&*services[0].name, &*services[0].uid),
        ("default/web", "u-1")
    );
    let ended = Event::CallEnded {
        call,
        method: Method::DeleteLoadBalancer,
        code: Code(tonic::Code::Unknown),
    };
    assert_eq!(calls.next(), Some(ended), "{text}");
    mock.terminate().await;
}
