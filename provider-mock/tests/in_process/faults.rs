//! The effect of each fault.

use std::time::Duration;

use outrigger_api::v1::instance_result::Outcome;
use outrigger_api::v1::{AbsenceCertainty, ErrorReason, GetStatusRequest, InstanceResult};
use outrigger_provider_mock::faults::{BadAnswer, Effect, Fault, InjectedError, Method};
use tokio::time::Instant;
use tonic::Code;

use crate::harness::{Mock, Outcomes, node, reason, retry_after};

const NAMES: [&str; 3] = ["n-1", "n-2", "n-3"];

async fn mock() -> Mock {
    let mock = Mock::start(|_| {}).await;
    for name in NAMES {
        mock.create(name);
    }
    mock
}

fn fails(error: InjectedError) -> Fault {
    Fault::on(Method::BatchGetInstances, Effect::Error(error))
}

fn hangs(duration: Option<Duration>) -> Fault {
    Fault::on(Method::BatchGetInstances, Effect::Hang { duration })
}

fn answers(bad: BadAnswer) -> Fault {
    Fault::on(Method::BatchGetInstances, Effect::BadAnswer(bad))
}

#[tokio::test(start_paused = true)]
async fn an_error_has_the_reason_that_belongs_to_its_code() {
    let mock = mock().await;
    for (code, want) in [
        (Code::InvalidArgument, Some("INVALID_REQUEST")),
        (Code::FailedPrecondition, Some("DEPENDENCY_NOT_READY")),
        (Code::Aborted, Some("OPERATION_IN_PROGRESS")),
        (Code::ResourceExhausted, Some("RATE_LIMITED")),
        (Code::Unauthenticated, Some("CREDENTIALS_INVALID")),
        (Code::PermissionDenied, Some("PERMISSION_MISSING")),
        (Code::Unavailable, Some("CLOUD_UNAVAILABLE")),
        (Code::Unimplemented, Some("CAPABILITY_DISABLED")),
        (Code::Internal, None),
        (Code::Unknown, None),
        (Code::NotFound, None),
    ] {
        mock.cloud.inject(fails(InjectedError::new(code)).times(1));
        let error = mock.ask_names(&NAMES).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_deref()), (code, want));
        if let Some(want) = want {
            let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{want}")).unwrap();
            assert_eq!(outrigger_api::code_of(reason), code, "{want}");
        }
        // The contract wants a time for this one alone.
        assert_eq!(retry_after(&error).is_some(), want == Some("RATE_LIMITED"));
        mock.ask_names(&NAMES).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_can_break_the_contract() {
    let mock = mock().await;
    let error = InjectedError::new(Code::Unavailable);
    mock.cloud
        .inject(fails(error.clone().with_reason("OF_A_LATER_MINOR")).times(1));
    mock.cloud
        .inject(fails(error.clone().without_reason()).times(1));
    let after = Duration::from_millis(1500);
    mock.cloud.inject(fails(error.retry_after(after)).times(1));

    let unknown = mock.ask_names(&NAMES).await.unwrap_err();
    assert_eq!(reason(&unknown).as_deref(), Some("OF_A_LATER_MINOR"));
    let bare = mock.ask_names(&NAMES).await.unwrap_err();
    assert_eq!(reason(&bare), None);
    let timed = mock.ask_names(&NAMES).await.unwrap_err();
    assert_eq!(retry_after(&timed), Some(after));
}

#[tokio::test(start_paused = true)]
async fn an_error_concerns_its_method_and_without_one_all() {
    let mut mock = mock().await;
    mock.cloud
        .inject(fails(InjectedError::new(Code::Unavailable)));
    mock.ask_names(&NAMES).await.unwrap_err();
    mock.list().await.unwrap();
    mock.provider.get_status(GetStatusRequest {}).await.unwrap();

    let everywhere = Fault {
        method: None,
        ..fails(InjectedError::new(Code::Internal))
    };
    mock.cloud.inject(everywhere);
    mock.list().await.unwrap_err();
    mock.provider
        .get_status(GetStatusRequest {})
        .await
        .unwrap_err();
    assert_eq!(mock.cloud.clear_faults(), 2);
    mock.ask_names(&NAMES).await.unwrap();
    let counters = mock.cloud.counters();
    assert_eq!(counters.calls("GetStatus", "OK"), 1);
    assert_eq!(counters.calls("GetStatus", "INTERNAL"), 1);
    assert_eq!(counters.calls("ListInstances", "INTERNAL"), 1);
    assert_eq!(counters.calls("Handshake", "OK"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_random_but_its_seed_repeats_it() {
    let mut runs = Vec::new();
    for seed in [3, 3, 4] {
        let mock = Mock::start(|config| config.seed = seed).await;
        mock.cloud
            .inject(fails(InjectedError::new(Code::Unavailable)).with_rate(0.3));
        let mut failed = Vec::new();
        for _ in 0..200 {
            failed.push(mock.ask_names(&["n"]).await.is_err());
        }
        let count = failed.iter().filter(|failed| **failed).count();
        assert!((30..90).contains(&count), "{count} of 200");
        runs.push(failed);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test(start_paused = true)]
async fn single_items_fail_and_the_others_do_not() {
    let mock = mock().await;
    let effect = Effect::ItemError(InjectedError::new(Code::PermissionDenied));
    let fault = Fault::on(Method::BatchGetInstances, effect);
    mock.cloud
        .inject(fault.clone().for_node("n-2".parse().unwrap()).times(1));
    let answer = mock.ask_names(&NAMES).await.unwrap();
    answer.found("n-1");
    let (code, reason) = answer.error("n-2");
    assert_eq!(code, Code::PermissionDenied);
    assert_eq!(reason.as_deref(), Some("PERMISSION_MISSING"));
    answer.found("n-3");
    mock.ask_names(&NAMES).await.unwrap().found("n-2");

    mock.cloud.inject(fault.times(2));
    let answer = mock.ask_names(&NAMES).await.unwrap();
    let failed = NAMES
        .iter()
        .filter(|name| matches!(answer.outcome(name), Outcome::Error(_)));
    assert_eq!(failed.count(), 2, "the count is of items");
}

#[tokio::test(start_paused = true)]
async fn a_call_about_a_node_hangs_and_one_about_others_does_not() {
    let mock = mock().await;
    let day = Duration::from_hours(24);
    mock.cloud
        .inject(hangs(Some(day)).for_node("n-2".parse().unwrap()));
    let started = Instant::now();
    mock.ask_names(&["n-1", "n-3"]).await.unwrap().found("n-3");
    assert_eq!(started.elapsed(), Duration::ZERO);
    mock.ask_names(&NAMES).await.unwrap().found("n-1");
    assert!(started.elapsed() >= day, "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_is_counted_as_cancelled() {
    let mock = mock().await;
    mock.cloud.inject(hangs(None));
    let lookup = mock.ask_within(
        NAMES.iter().map(|name| node(name)).collect(),
        Duration::ZERO,
        Some(Duration::from_secs(5)),
    );
    let started = Instant::now();
    lookup.await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(6));
    let counted = async {
        while mock
            .cloud
            .counters()
            .calls("BatchGetInstances", "CANCELLED")
            == 0
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), counted)
        .await
        .expect("it is not counted");
    assert!(
        !mock.cloud.counters().cloud.contains_key("GetInstances"),
        "the cloud was asked"
    );
}

/// The spoilt results, and those of the next call, which must be good.
async fn spoilt(fault: Fault) -> Vec<InstanceResult> {
    let mock = mock().await;
    mock.cloud.inject(fault.times(1));
    let nodes = || NAMES.iter().map(|name| node(name)).collect();
    let bad = mock.ask(nodes()).await.unwrap();
    let good = Outcomes::of(mock.ask(nodes()).await.unwrap());
    assert_eq!(good.len(), NAMES.len());
    for name in NAMES {
        let instance = good.found(name);
        assert!(
            instance.provider_id.starts_with("mock://i-"),
            "{}",
            instance.provider_id
        );
    }
    bad
}

#[tokio::test(start_paused = true)]
async fn addresses_labels_and_lengths_are_bad() {
    let answer = Outcomes::of(spoilt(answers(BadAnswer::MalformedAddress)).await);
    let address = &answer.found("n-1").addresses[0];
    assert_eq!(
        (address.r#type.as_str(), address.address.as_str()),
        ("InternalIP", "999.0.2.1/33")
    );

    let answer = Outcomes::of(spoilt(answers(BadAnswer::BadLabel)).await);
    let instance = answer.found("n-1");
    assert!(instance.zone.contains(' '));
    assert!(
        instance
            .additional_labels
            .keys()
            .any(|key| key.contains("kubernetes.io/"))
    );

    let answer = Outcomes::of(spoilt(answers(BadAnswer::OversizedStrings)).await);
    let instance = answer.found("n-1");
    assert!(instance.provider_id.len() > 1_024 && instance.zone.len() > 63);
    assert!(
        instance
            .addresses
            .iter()
            .any(|one| one.address.len() > 1_024)
    );
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_stale_false_foreign_or_none() {
    for (bad, age) in [
        (BadAnswer::StaleAbsence, Some(3600)),
        (BadAnswer::FalseAbsence, None),
    ] {
        let answer = Outcomes::of(spoilt(answers(bad)).await);
        for name in NAMES {
            match answer.outcome(name) {
                Outcome::Absent(absent) => {
                    assert_eq!(absent.certainty(), AbsenceCertainty::Confirmed);
                    assert_eq!(absent.age.map(|age| age.seconds), age);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let answer = Outcomes::of(spoilt(answers(BadAnswer::NotManaged)).await);
    assert!(matches!(answer.outcome("n-1"), Outcome::NotManaged(_)));
    let answer = Outcomes::of(spoilt(answers(BadAnswer::Empty)).await);
    assert!(NAMES.iter().all(|name| answer.is_empty_for(name)));
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_larger_than_its_caller_takes() {
    let mock = mock().await;
    mock.cloud
        .inject(answers(BadAnswer::OversizedReply).times(1));
    let error = mock.ask_names(&NAMES).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange, "{error}");
    mock.ask_names(&NAMES).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lists_are_spoilt_too() {
    let mock = mock().await;
    let inject = |bad| {
        mock.cloud
            .inject(Fault::on(Method::ListInstances, Effect::BadAnswer(bad)).times(1));
    };
    inject(BadAnswer::Empty);
    assert_eq!(mock.list().await.unwrap(), (Vec::new(), false));
    inject(BadAnswer::DuplicateResult);
    assert_eq!(mock.list().await.unwrap().0.len(), 2 * NAMES.len());
    inject(BadAnswer::MissingResult);
    assert_eq!(mock.list().await.unwrap(), (Vec::new(), true));
    inject(BadAnswer::WrongPrefix);
    let (listed, complete) = mock.list().await.unwrap();
    assert!(
        complete
            && listed
                .iter()
                .all(|one| one.provider_id.starts_with("another-cloud://"))
    );
    inject(BadAnswer::OversizedReply);
    assert_eq!(mock.list().await.unwrap_err().code(), Code::OutOfRange);
    let (listed, complete) = mock.list().await.unwrap();
    assert!(complete && listed.len() == NAMES.len());
}
