//! Properties of every Service and every course of answers.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;
use crate::fixture::any_service;

/// The next event.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Answer(Disposition, &'static str),
    Fail(ErrorClass),
    Restart,
    Port(i32),
    Kind(&'static str),
    Delete,
    StripFinalizer,
    Nodes(&'static str),
    Wait,
}

fn turn() -> impl Strategy<Value = Turn> {
    let edit = select(vec![
        Turn::Restart,
        Turn::Port(80),
        Turn::Port(81),
        Turn::Kind("ClusterIP"),
        Turn::Kind("LoadBalancer"),
        Turn::Delete,
        Turn::StripFinalizer,
        Turn::Nodes("n1 n2"),
        Turn::Nodes("n3"),
        Turn::Wait,
    ]);
    let answer = select(vec![
        Turn::Answer(Disposition::Ready, "192.0.2.7"),
        Turn::Answer(Disposition::Ready, "192.0.2.7"),
        Turn::Answer(Disposition::Ready, ""),
        Turn::Answer(Disposition::InProgress, ""),
        Turn::Answer(Disposition::NotManaged, ""),
        Turn::Answer(Disposition::Absent, ""),
        Turn::Fail(ErrorClass::Transient),
        Turn::Fail(ErrorClass::Invalid),
        Turn::Fail(ErrorClass::Unavailable),
    ]);
    prop_oneof![edit, answer]
}

/// Answers whatever is asked; `InProgress` where the call cannot have the answer.
fn respond(stage: &mut Stage, disposition: Disposition, addresses: &str) {
    let fit = |call: LoadBalancerCall| {
        let raw = |disposition| RawAnswer {
            disposition: Some(disposition),
            ingress: Some(addresses.split_whitespace().map(ip).collect()),
            ..RawAnswer::default()
        };
        let first = raw(disposition).check(call, &ForbiddenAddresses::default());
        first
            .or_else(|_| raw(Disposition::InProgress).check(call, &ForbiddenAddresses::default()))
            .unwrap()
    };
    let had_address = !stage.service.ingress.is_empty();
    match stage.step() {
        Step::Ensure(question) => {
            stage.answer(&question, Ok(&fit(LoadBalancerCall::Ensure)));
            assert!(!had_address || !stage.service.ingress.is_empty());
        }
        Step::Update => {
            stage.update(Ok(&fit(LoadBalancerCall::Update)));
            assert!(!had_address || !stage.service.ingress.is_empty());
        }
        Step::Delete { .. } => {
            let answer = fit(LoadBalancerCall::Delete);
            let before = stage.service.clone();
            stage.delete(Ok(&answer));
            let unproven = Failure::of_withdrawn(&answer, &before, &stage.capability);
            let over = answer.disposition != Disposition::InProgress && unproven.is_none();
            assert_eq!(stage.service.has_finalizer(), !over);
        }
        Step::Idle | Step::Hold { .. } | Step::At(_) => {}
        Step::Write(_) => unreachable!("written by step"),
    }
}

fn fail(stage: &mut Stage, class: ErrorClass) {
    let failure = failure(class);
    match stage.step() {
        Step::Ensure(question) => {
            stage.answer(&question, Err(&failure));
        }
        Step::Update => {
            stage.update(Err(&failure));
        }
        Step::Delete { .. } => {
            stage.delete(Err(&failure));
        }
        _ => return,
    }
    assert!(
        stage.service.has_finalizer(),
        "an error took the finalizer away"
    );
}

fn play(stage: &mut Stage, turn: Turn) {
    match turn {
        Turn::Answer(disposition, addresses) => respond(stage, disposition, addresses),
        Turn::Fail(class) => fail(stage, class),
        Turn::Restart => stage.progress = Progress::default(),
        Turn::Port(port) => {
            for entry in &mut stage.service.spec.ports {
                entry.port = port;
            }
        }
        Turn::Kind(kind) => {
            // The API server's defaults.
            if &*stage.service.spec.kind != kind {
                stage.service.spec.kind = kind.into();
                stage.service.spec.load_balancer_class = None;
                stage.service.ingress = [].into();
            }
        }
        Turn::Delete => stage.service.deleted = Some(stage.now),
        Turn::StripFinalizer => stage.service.finalizers = [].into(),
        Turn::Nodes(names) => stage.targets = nodes(names),
        Turn::Wait => stage.now += Duration::from_secs(11),
    }
}

proptest! {
    /// However it came there: a cloud that answers at last is asked a few times, and then no more,
    /// by this process and by the next.
    #[test]
    fn every_course_settles(service in any_service(), turns in vec(turn(), 0..30)) {
        let mut stage = Stage::new(service);
        for turn in turns {
            play(&mut stage, turn);
            // Whatever is called has its finalizer first, and is wanted.
            let ownership = Ownership::of(&stage.service, Some(&stage.capability));
            match stage.next() {
                Step::Ensure(_) | Step::Update => {
                    prop_assert!(stage.service.has_finalizer());
                    prop_assert!(stage.service.deleted.is_none() && !stage.service.is_paused());
                    prop_assert_eq!(ownership, Ownership::Provide);
                }
                Step::Delete { .. } => prop_assert_eq!(ownership, Ownership::Cleanup),
                Step::Idle | Step::Hold { .. } | Step::At(_) | Step::Write(_) => {}
            }
        }
        stage.progress.provider_changed(&stage.service, None);
        let mut calls = 0;
        loop {
            let disposition = match stage.step() {
                Step::Idle | Step::Hold { .. } => break,
                Step::Delete { .. } => Disposition::Absent,
                _ => Disposition::Ready,
            };
            respond(&mut stage, disposition, "192.0.2.7");
            calls += 1;
            prop_assert!(calls <= 3, "{:?}", stage.next());
        }
        let ownership = Ownership::of(&stage.service, Some(&stage.capability));
        prop_assert!(stage.service.is_paused() || ownership != Ownership::Cleanup);
        stage.restart();
        let step = stage.next();
        prop_assert!(step == Step::Idle || stage.is_held(), "{:?}", step);
        if ownership == Ownership::Provide && !stage.service.is_paused() {
            let accepted = stage.service.condition(ACCEPTED).unwrap();
            let is_managed = &*accepted.status == "True";
            let hostname = stage.service.annotations.get("outrigger.dev/load-balancer-hostname");
            let shown = stage.service.ingress.first();
            let shown = shown.map(|one| (&*one.ip, &*one.hostname));
            let address = hostname.map_or(("192.0.2.7", ""), |name| ("", name));
            prop_assert!(!is_managed || shown == Some(address));
        }
    }
}
