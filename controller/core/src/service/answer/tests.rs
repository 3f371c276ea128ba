use std::time::Duration;

use super::{Disposition, LoadBalancerAnswer, LoadBalancerCall, MAX_STATUS, RawAnswer, unexpected};
use crate::{
    cidr::Cidr,
    fault::Fault,
    forbidden_addresses::ForbiddenAddresses,
    service::{Ingress, PortStatus},
};

fn check(raw: RawAnswer, call: LoadBalancerCall) -> Result<LoadBalancerAnswer, Fault> {
    let services = Cidr::parse("10.96.0.0/12");
    raw.check(call, &ForbiddenAddresses::new(services))
}

fn ready(ingress: Vec<Ingress>) -> RawAnswer {
    RawAnswer {
        disposition: Some(Disposition::Ready),
        ingress: Some(ingress),
        ..RawAnswer::default()
    }
}

/// Words: `ip=`, `host=`, `mode=`, `port=<number>/<protocol>`, `error=` of the last port.
fn entry(words: &str) -> Ingress {
    let mut entry = Ingress::default();
    let mut ports: Vec<PortStatus> = Vec::new();
    for word in words.split_whitespace() {
        match word.split_once('=').unwrap() {
            ("ip", ip) => entry.ip = ip.into(),
            ("host", name) => entry.hostname = name.into(),
            ("mode", mode) => entry.ip_mode = Some(mode.into()),
            ("port", port) => {
                let (port, protocol) = port.split_once('/').unwrap();
                ports.push(PortStatus {
                    port: port.parse().unwrap(),
                    protocol: protocol.into(),
                    error: None,
                });
            }
            ("error", error) => ports.last_mut().unwrap().error = Some(error.into()),
            _ => unreachable!("{word}"),
        }
    }
    entry.ports = ports.into();
    entry
}

#[test]
fn each_call_has_its_dispositions() {
    use Disposition::{Absent, Differs, InProgress, NotManaged, Ready, Retained};
    for (call, legal) in [
        (
            LoadBalancerCall::Get,
            &[Ready, Differs, InProgress, NotManaged, Absent][..],
        ),
        (LoadBalancerCall::Ensure, &[Ready, InProgress, NotManaged]),
        (
            LoadBalancerCall::Update,
            &[Ready, InProgress, NotManaged, Absent],
        ),
        (
            LoadBalancerCall::Delete,
            &[InProgress, NotManaged, Absent, Retained],
        ),
    ] {
        for disposition in [Ready, Differs, InProgress, NotManaged, Absent, Retained] {
            let raw = RawAnswer {
                disposition: Some(disposition),
                ingress: Some(vec![entry("ip=192.0.2.7")]),
                ..RawAnswer::default()
            };
            let is_legal = check(raw, call).is_ok();
            assert_eq!(
                is_legal,
                legal.contains(&disposition),
                "{call:?} {disposition:?}"
            );
        }
        // An empty answer never means anything.
        let empty = check(RawAnswer::default(), call);
        assert_eq!(empty, Err(unexpected(call, None)), "{call:?}");
    }
    let text = "the provider answered DeleteLoadBalancer with disposition READY, which is no answer to this call";
    let ready = unexpected(LoadBalancerCall::Delete, Some(Disposition::Ready));
    assert_eq!(ready.to_string(), text);
}

/// S-33. An empty status is as none: it names no address, and takes none away.
#[test]
fn a_status_without_address_is_none() {
    for ingress in [None, Some(vec![])] {
        let raw = |disposition| RawAnswer {
            disposition: Some(disposition),
            ingress: ingress.clone(),
            ..RawAnswer::default()
        };
        let refusal = check(raw(Disposition::Ready), LoadBalancerCall::Ensure).unwrap_err();
        let text = "the provider answered EnsureLoadBalancer with READY and without an address in \
                    status.ingress; as long as there is none, the answer is IN_PROGRESS, or it is another program's (address_elsewhere)";
        assert_eq!(refusal.to_string(), text);
        for (call, disposition) in [
            (LoadBalancerCall::Ensure, Disposition::InProgress),
            (LoadBalancerCall::Update, Disposition::Ready),
            (LoadBalancerCall::Get, Disposition::Ready),
        ] {
            assert_eq!(check(raw(disposition), call).unwrap().ingress, None);
        }
    }
}

#[test]
fn an_address_of_a_status_is_canonical() {
    for (said, written) in [
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:DB8:0:0::7", "2001:db8::7"),
    ] {
        let raw = ready(vec![entry(&format!("ip={said}"))]);
        let answer = check(raw, LoadBalancerCall::Ensure).unwrap();
        assert_eq!(*answer.ingress.unwrap(), [entry(&format!("ip={written}"))]);
    }
}

#[test]
fn a_status_that_the_api_server_accepts_is_accepted() {
    for words in [
        "ip=192.0.2.7",
        "ip=2001:db8::7 mode=VIP",
        "ip=192.0.2.7 mode=Proxy host=lb.example.com",
        "host=lb.example.com",
        "host=lb.example.com port=80/TCP port=53/UDP port=9/SCTP",
        "ip=192.0.2.7 port=80/TCP error=example.com/PortInUse",
    ] {
        let answer = check(ready(vec![entry(words)]), LoadBalancerCall::Ensure).unwrap();
        assert_eq!(
            answer.ingress.as_deref(),
            Some(&[entry(words)][..]),
            "{words}"
        );
    }
}

#[test]
fn a_status_that_the_api_server_would_refuse_is_refused() {
    for (words, expected) in [
        (
            "port=80/TCP",
            "status.ingress[1] has neither ip nor hostname",
        ),
        (
            "ip=192.0.2",
            "status.ingress[1].ip \"192.0.2\" is no IP address",
        ),
        (
            "ip=192.0.2.07",
            "status.ingress[1].ip \"192.0.2.07\" is no IP address",
        ),
        ("ip=192.0.2.7/32", "is no IP address"),
        ("ip=169.254.169.254", "is a link-local address"),
        ("ip=::ffff:127.0.0.1", "is a loopback address"),
        ("ip=10.96.0.1", "is inside --service-cluster-ip-range"),
        (
            "host=kubernetes.default.svc",
            "means the machine itself, a Service",
        ),
        (
            "host=LB.example.com",
            "hostname \"LB.example.com\" is no DNS subdomain",
        ),
        ("host=lb_1.example.com", "is no DNS subdomain"),
        ("host=192.0.2.7", "hostname \"192.0.2.7\" is an IP address"),
        (
            "ip=192.0.2.7 mode=vip",
            "ip_mode \"vip\" is neither VIP nor Proxy",
        ),
        (
            "host=lb.example.com mode=VIP",
            "ip_mode \"VIP\" stands where there is no ip",
        ),
        (
            "ip=192.0.2.7 port=0/TCP",
            "ports has port 0, which is not in 1-65535",
        ),
        ("ip=192.0.2.7 port=65536/TCP", "ports has port 65536"),
        (
            "ip=192.0.2.7 port=80/tcp",
            "ports[0].protocol \"tcp\" is none of",
        ),
        (
            "ip=192.0.2.7 port=80/TCP error=no!",
            "ports[0].error \"no!\" is no label key",
        ),
    ] {
        let raw = ready(vec![entry("ip=192.0.2.1"), entry(words)]);
        let refusal = check(raw, LoadBalancerCall::Ensure)
            .unwrap_err()
            .to_string();
        assert!(refusal.contains(expected), "{words}: {refusal}");
    }
    let port = |number: i32| PortStatus {
        port: number,
        protocol: "TCP".into(),
        error: Some(format!("example.com/{}", "E".repeat(60)).into()),
    };
    let wide = Ingress {
        ports: (1..=128).map(port).collect(),
        ..entry("ip=192.0.2.7")
    };
    assert!(check(ready(vec![wide.clone(); 2]), LoadBalancerCall::Ensure).is_ok());
    let refusal = check(ready(vec![wide.clone(); 64]), LoadBalancerCall::Ensure).unwrap_err();
    assert!(
        refusal.to_string().contains("bytes, more than"),
        "{refusal}"
    );
    let filled = |host: usize| {
        let text = format!("host={} port=53/UDP", "h".repeat(host));
        let last = entry(&text);
        let ports = (1..=74).map(port).chain(last.ports.iter().cloned());
        let last = Ingress {
            ports: ports.collect(),
            ..last
        };
        vec![wide.clone(), wide.clone(), last]
    };
    let bytes = 2 * (9 + 128 * 99) + 74 * 99 + 27;
    assert!(check(ready(filled(MAX_STATUS - bytes)), LoadBalancerCall::Ensure).is_ok());
    assert!(
        check(
            ready(filled(MAX_STATUS - bytes + 1)),
            LoadBalancerCall::Ensure
        )
        .is_err()
    );
    let many = vec![entry("ip=192.0.2.7"); 65];
    let refusal = check(ready(many), LoadBalancerCall::Ensure).unwrap_err();
    let text = "the provider's status.ingress has 65 entries, more than 64";
    assert_eq!(refusal.to_string(), text);
}

#[test]
fn times_are_clamped_and_texts_cut() {
    for (given, expected) in [(None, 10), (Some(0), 1), (Some(7), 7), (Some(3_600), 300)] {
        let raw = RawAnswer {
            disposition: Some(Disposition::InProgress),
            retry_after: given.map(Duration::from_secs),
            message: "x".repeat(2_000),
            ..RawAnswer::default()
        };
        let answer = check(raw, LoadBalancerCall::Ensure).unwrap();
        assert_eq!(
            answer.retry_after,
            Duration::from_secs(expected),
            "{given:?}"
        );
        assert_eq!(answer.message.len(), 1_024);
    }
    let raw = RawAnswer {
        address_elsewhere: false,
        reason: "not camel case".into(),
        ..ready(vec![entry("ip=192.0.2.7")])
    };
    let refusal = check(raw, LoadBalancerCall::Ensure)
        .unwrap_err()
        .to_string();
    assert_eq!(
        refusal,
        "the provider's reason \"not camel case\" is no CamelCase reason"
    );
}
