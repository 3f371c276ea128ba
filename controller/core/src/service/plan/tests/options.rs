//! Options that a status shows, and options that are refused.

use super::*;

const HOSTNAME: &str = "outrigger.dev/load-balancer-hostname";

const TYPO: &str = "outrigger.dev/load-balancer-host-name";

const PROXY: &str = "outrigger.dev/load-balancer-proxy-protocol";

fn shown(stage: &Stage) -> String {
    let entries = stage.service.ingress.iter();
    let entries: Vec<_> = entries
        .map(|one| format!("{}{}", one.ip, one.hostname))
        .collect();
    entries.join(" ")
}

fn differs(stage: &mut Stage, addresses: &str) -> bool {
    let answer = answer(LoadBalancerCall::Get, Disposition::Ready, addresses);
    let differs = stage.observed(&answer);
    if differs {
        stage.ensured(Disposition::Ready, addresses);
    }
    differs
}

#[test]
fn a_host_name_stands_in_the_status_whatever_addresses_answers_name() {
    let mut stage = Stage::new(load_balancer("web"));
    stage.annotate(HOSTNAME, "web.example.com");
    stage.ensured(Disposition::InProgress, "");
    assert_eq!(shown(&stage), "");
    stage.now = at(10);
    stage.ensured(Disposition::InProgress, "192.0.2.7");
    assert_eq!(shown(&stage), "web.example.com");
    stage.now = at(20);
    stage.ensured(Disposition::Ready, "192.0.2.7 2001:db8::7");
    assert_eq!(shown(&stage), "web.example.com");
    stage.targets = nodes("n3");
    stage.updated(Disposition::Ready, "192.0.2.8");
    assert_eq!(shown(&stage), "web.example.com");
    assert!(!differs(&mut stage, "192.0.2.9"));
    stage.restart();
    assert_eq!(stage.next(), Step::Idle);
    // Another client's write is put right without a call.
    stage.service.ingress = [ip("203.0.113.9")].into();
    let repair = stage.prepare().unwrap();
    stage.write(&repair);
    assert_eq!(shown(&stage), "web.example.com");
    // Each change is one Ensure.
    for (name, status) in [("b.example", "b.example"), ("", "192.0.2.9")] {
        if name.is_empty() {
            stage.service.annotations = stage.service.annotations.clone().without(HOSTNAME);
        } else {
            stage.annotate(HOSTNAME, name);
        }
        assert_eq!(stage.question().cause, EnsureCause::Changed, "{name}");
        stage.ensured(Disposition::Ready, "192.0.2.9");
        assert_eq!((&*shown(&stage), stage.next()), (status, Step::Idle));
    }
    assert!(differs(&mut stage, "192.0.2.7"));
}

#[test]
fn options_that_are_refused_leave_the_status_and_do_not_keep_targets_back() {
    let mut stage = Stage::settled();
    stage.annotate(TYPO, "web.example.com");
    let refusal = failure(ErrorClass::Invalid);
    let outcome = stage.ensure(Err(&refusal));
    assert_eq!(outcome.requeue, Some(Requeue::OnChange));
    assert_eq!(reasons(&outcome), ["SyncLoadBalancerFailed"]);
    assert!(stage.conditions().starts_with("False:"));
    assert_eq!(stage.next(), Step::Idle);
    stage.targets = nodes("n3");
    assert_eq!(stage.next(), Step::Update);
    stage.updated(Disposition::Ready, "192.0.2.8");
    assert_eq!(shown(&stage), "192.0.2.7");
    assert!(!differs(&mut stage, "192.0.2.9"));
    stage.service.annotations = stage.service.annotations.clone().without(TYPO);
    stage.ensured(Disposition::Ready, "192.0.2.8");
    assert_eq!((&*shown(&stage), stage.next()), ("192.0.2.8", Step::Idle));
}

/// Also where the Service is too large meanwhile, so that its options are forgotten: it is ensured again, though both are
/// over before the next step.
#[test]
fn an_answer_that_meets_refused_options_settles_nothing() {
    for is_too_large in [false, true] {
        let mut stage = Stage::new(load_balancer("web"));
        let question = stage.question();
        stage.service.is_too_large = is_too_large;
        if !is_too_large {
            stage.annotate(TYPO, "x");
        }
        let ready = answer(LoadBalancerCall::Ensure, Disposition::Ready, "192.0.2.7");
        stage.answer(&question, Ok(&ready));
        assert_eq!(shown(&stage), "");
        stage.service.is_too_large = false;
        stage.service.annotations = stage.service.annotations.clone().without(TYPO);
        stage.ensured(Disposition::Ready, "192.0.2.7");
        assert_eq!((&*shown(&stage), stage.next()), ("192.0.2.7", Step::Idle));
    }
}

#[test]
fn addresses_with_the_proxy_protocol_have_the_mode_proxy_whatever_answers_say() {
    let modes = |stage: &Stage| {
        let entries = stage.service.ingress.iter();
        let modes: Vec<_> = entries
            .map(|one| format!("{} {}", one.ip, one.ip_mode.as_deref().unwrap_or("-")))
            .collect();
        modes.join(", ")
    };
    let mut stage = Stage::settled();
    stage.capability.options.proxy_protocols = ["v2"].into();
    stage.annotate(PROXY, "v2");
    assert_eq!(stage.question().cause, EnsureCause::Changed);
    stage.ensured(Disposition::Ready, "192.0.2.7 2001:db8::7");
    assert_eq!(modes(&stage), "192.0.2.7 Proxy, 2001:db8::7 Proxy");
    assert_eq!(stage.next(), Step::Idle);
    stage.targets = nodes("n3");
    stage.updated(Disposition::Ready, "192.0.2.7");
    assert_eq!(modes(&stage), "192.0.2.7 Proxy, 2001:db8::7 Proxy");
    assert!(!differs(&mut stage, "192.0.2.7 2001:db8::7"));
    stage.restart();
    assert_eq!(stage.next(), Step::Idle);
    // A version that is refused leaves the mode; the host name goes before; without the option it is over.
    stage.annotate(PROXY, "v1");
    stage.ensure(Err(&failure(ErrorClass::Invalid)));
    assert_eq!(modes(&stage), "192.0.2.7 Proxy, 2001:db8::7 Proxy");
    stage.annotate(PROXY, "v2");
    stage.annotate(HOSTNAME, "web.example.com");
    stage.ensured(Disposition::Ready, "192.0.2.7");
    assert_eq!(shown(&stage), "web.example.com");
    let annotations = stage.service.annotations.clone();
    stage.service.annotations = annotations.without(PROXY).without(HOSTNAME);
    stage.ensured(Disposition::Ready, "192.0.2.7");
    assert_eq!(
        (&*modes(&stage), stage.next()),
        ("192.0.2.7 VIP", Step::Idle)
    );
}

/// Another version of the provider, with the configuration of the last one.
#[test]
fn a_settled_service_says_that_its_options_are_served_no_longer() {
    let declare = |stage: &mut Stage, served: &[&'static str]| {
        stage.capability.options.proxy_protocols = served.into();
        let capability = Some(&stage.capability);
        stage.progress.provider_changed(&stage.service, capability);
    };
    let mut stage = Stage::settled();
    declare(&mut stage, &["v2"]);
    stage.annotate(PROXY, "v2");
    stage.ensured(Disposition::Ready, "192.0.2.7");
    declare(&mut stage, &["v1", "v2"]);
    assert_eq!(stage.next(), Step::Idle);
    declare(&mut stage, &["v1"]);
    assert!(is_background(&stage));
    let outcome = stage.ensure(Err(&failure(ErrorClass::Invalid)));
    assert_eq!(reasons(&outcome), ["SyncLoadBalancerFailed"]);
    assert!(stage.conditions().starts_with("False:"));
    assert_eq!((&*shown(&stage), stage.next()), ("192.0.2.7", Step::Idle));
    declare(&mut stage, &["v2"]);
    stage.ensured(Disposition::Ready, "192.0.2.7");
    assert_eq!(stage.next(), Step::Idle);
}
