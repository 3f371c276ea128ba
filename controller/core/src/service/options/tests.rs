use proptest::prelude::*;

use super::*;
use crate::fixture::{capability, load_balancer};

const HTTPS: &str = "https";

fn all() -> ServedOptions {
    ServedOptions {
        schemes: ["internet-facing", "internal"].into(),
        max_requested_addresses: 2,
        max_reserved_address_names: 8,
        proxy_protocols: ["v1", "v2"].into(),
        health_check: Some(ServedHealthChecks {
            protocols: [TCP, HTTP, HTTPS].into(),
            interval_seconds: Some(5..=300),
            timeout_seconds: Some(1..=60),
            healthy_threshold: Some(2..=10),
            unhealthy_threshold: Some(1..=1),
        }),
    }
}

fn checks(protocols: &[&'static str]) -> ServedOptions {
    ServedOptions {
        health_check: Some(ServedHealthChecks {
            protocols: protocols.into(),
            ..ServedHealthChecks::default()
        }),
        ..ServedOptions::default()
    }
}

/// With these options as `name=value`; `N*c` at the end of a value is the character N times.
fn service(options: &[&str]) -> ServiceView {
    let mut service = load_balancer("web");
    let annotations = options.iter().map(|option| {
        let (name, value) = option.split_once('=').unwrap();
        (format!("{PREFIX}{name}"), expanded(value))
    });
    service.annotations = annotations.collect();
    service
}

fn expanded(value: &str) -> String {
    let repeated = value.split_once('*').and_then(|(start, character)| {
        let digits = start.trim_start_matches(|c: char| !c.is_ascii_digit());
        let before = start.strip_suffix(digits)?;
        Some(format!(
            "{before}{}",
            character.repeat(digits.parse().ok()?)
        ))
    });
    repeated.unwrap_or_else(|| value.to_owned())
}

fn read(
    service: &ServiceView,
    options: &ServedOptions,
) -> Result<LoadBalancerOptions, OptionsRefusal> {
    let options = options.clone();
    let capability = Capability {
        options,
        ..capability()
    };
    LoadBalancerOptions::of(service, &capability)
}

fn refusal(service: &ServiceView, options: &ServedOptions, reason: &str) -> String {
    let refusal = read(service, options).unwrap_err();
    assert_eq!(refusal.reason, reason, "{}", refusal.message);
    refusal.message
}

/// The options of `service`, in words; of the health check only what a user asks for.
fn shown(service: &ServiceView) -> String {
    let options = read(service, &all()).unwrap();
    let mut parts = Vec::new();
    parts.extend(options.hostname.map(String::from));
    parts.extend(options.scheme.map(str::to_owned));
    let addresses = options.requested_addresses.iter();
    parts.extend(addresses.map(ToString::to_string));
    parts.extend(options.reserved_address_names.into_iter().map(String::from));
    parts.extend(options.proxy_protocol.map(str::to_owned));
    if let Some(check) = options.health_check.filter(|check| !check.implied) {
        let times = [check.interval_seconds, check.timeout_seconds].into_iter();
        let numbers = times.chain([check.healthy_threshold, check.unhealthy_threshold]);
        let (protocol, port, path) = (check.protocol, check.port, check.path);
        parts.push(format!("{protocol}:{port}{path}"));
        parts.extend(numbers.map(|number| number.map_or("-".to_owned(), |n| n.to_string())));
    }
    parts.join(" ")
}

#[test]
fn each_option_is_read_as_its_user_writes_it() {
    let table = "hostname=web.example.com | web.example.com
        hostname=xn--bcher-kva.example | xn--bcher-kva.example
        hostname=1.example | 1.example
        scheme=internal | internal
        scheme=internet-facing | internet-facing
        addresses=192.0.2.7 | 192.0.2.7
        addresses=2001:DB8:0::7, 192.0.2.7 | 2001:db8::7 192.0.2.7
        addresses=::ffff:192.0.2.7 | 192.0.2.7
        reserved-addresses=eip-b, eip-a | eip-b eip-a
        reserved-addresses=255*n | 255*n
        reserved-addresses=a,b,c,d,e,f,g,h | a b c d e f g h
        proxy-protocol=v1 | v1
        proxy-protocol=v2 | v2
        health-check-protocol=tcp | tcp:10256 - - - -
        health-check-protocol=https | https:10256/healthz - - - -
        health-check-port=65535 | http:65535/ - - - -
        health-check-path=/live?a=b | http:10256/live?a=b - - - -
        health-check-interval=5m | http:10256/healthz 300 - - -
        health-check-timeout=1s | http:10256/healthz - 1 - -
        health-check-healthy-threshold=2 | http:10256/healthz - - 2 -
        health-check-unhealthy-threshold=1 | http:10256/healthz - - - 1";
    for row in table.lines() {
        let (option, expected) = row.trim().split_once(" | ").unwrap();
        assert_eq!(shown(&service(&[option])), expanded(expected), "{row}");
    }
    let longest = read(&service(&["health-check-path=/1023*p"]), &all());
    assert_eq!(longest.unwrap().health_check.unwrap().path.len(), 1_024);
    let mut foreign = load_balancer("web");
    let keys = [
        "outrigger.dev/node-selector",
        "example.com/load-balancer-scheme",
    ];
    foreign.annotations = keys.into_iter().map(|key| (key, "x")).collect();
    let none = read(&foreign, &ServedOptions::default());
    assert_eq!(none, Ok(LoadBalancerOptions::default()));
}

#[test]
fn a_value_that_is_wrong_is_refused_with_what_is_served() {
    let table = "hostname= | is no DNS subdomain of at most 253 bytes, in lower case | a DNS name in lower case
        hostname= a  | is no DNS subdomain |
        hostname=Web.example.com | is no DNS subdomain |
        hostname=*.example.com | is no DNS subdomain |
        hostname=web.example.com. | is no DNS subdomain |
        hostname=web_1.example.com | is no DNS subdomain |
        hostname=254*a | is no DNS subdomain |
        hostname=192.0.2.1 | is an IP address |
        hostname=2001:db8::1 | is an IP address |
        hostname=localhost | means the machine itself |
        hostname=web.shop.svc.cluster.local | means the machine itself |
        scheme=Internal | is not served | internet-facing, internal
        scheme= | is not served | internet-facing, internal
        addresses= | is no IP address | IP addresses, at most 2
        addresses=192.0.2.7, | is no IP address |
        addresses=192.0.2.7/32 | is no IP address |
        addresses=127.0.0.1 | is a loopback address |
        addresses=192.0.2.7,192.0.2.8 | names two addresses of one family |
        addresses=192.0.2.7,::ffff:192.0.2.7 | names two addresses of one family |
        addresses=192.0.2.7,2001:db8::7,2001:db8::8 | names two addresses of one family |
        reserved-addresses= | has a name that is not 1 to 255 visible ASCII characters | names, at most 8
        reserved-addresses=a,,b | has a name that is not |
        reserved-addresses=a b | has a name that is not |
        reserved-addresses=ä | has a name that is not |
        reserved-addresses=256*n | has a name that is not |
        reserved-addresses=a,b,a | has a name twice |
        reserved-addresses=a,b,c,d,e,f,g,h,i | names too many |
        proxy-protocol=v3 | is not served | v1, v2
        health-check-protocol=grpc | is not served | tcp, http, https
        health-check-port=0 | is out of range | 1 to 65535
        health-check-port=65536 | is out of range |
        health-check-port=+80 | is no number |
        health-check-port= | is no number |
        health-check-path=live | is no path from / on | a path with http and https
        health-check-path=/a b | is no path from / on |
        health-check-path=/1024*p | is no path from / on |
        health-check-interval=4s | is out of range | 5s to 300s
        health-check-interval=301s | is out of range |
        health-check-interval=99999999999s | is out of range |
        health-check-interval=10 | is no duration such as 10s |
        health-check-interval=-10s | is no duration such as 10s |
        health-check-interval=5500ms | has a fraction of a second |
        health-check-timeout=61s | is out of range | 1s to 60s
        health-check-healthy-threshold=1 | is out of range | 2 to 10
        health-check-unhealthy-threshold=2 | is out of range | 1 to 1";
    for row in table.lines() {
        let row = row.trim_start();
        let [option, complaint, served] = [0, 1, 2].map(|n| row.split(" |").nth(n).unwrap());
        let message = refusal(&service(&[option]), &all(), "UnsupportedOptions");
        let (name, value) = option.split_once('=').unwrap();
        let shown = Excerpt::of(&expanded(value));
        let before = format!("the annotation {PREFIX}{name}={shown}{complaint}");
        let after = format!("; provider mock serves{served}");
        assert!(message.starts_with(&before), "{row}: {message}");
        assert!(message.contains(&after), "{row}: {message}");
    }
    let one = ServedOptions {
        max_requested_addresses: 1,
        ..ServedOptions::default()
    };
    let dual_stack = service(&["addresses=192.0.2.7,2001:db8::7"]);
    let message = refusal(&dual_stack, &one, "UnsupportedOptions");
    assert!(message.ends_with("names too many; provider mock serves IP addresses, at most 1"));
    let tcp = service(&["health-check-protocol=tcp", "health-check-path=/"]);
    let message = refusal(&tcp, &all(), "UnsupportedOptions");
    assert!(
        message.contains(r#"path="/" stands beside the protocol tcp"#),
        "{message}"
    );
}

#[test]
fn an_option_that_is_not_served_is_refused_like_a_key_that_is_none() {
    let check = |options: &ServedOptions, names: &[&str], complaint: &str, served: &str| {
        for name in names {
            let web = service(&["hostname=a", &format!("{name}=1")]);
            let expected = format!(
                "the annotation {PREFIX}{name}=\"1\" {complaint}; provider mock serves the options {served}"
            );
            assert_eq!(refusal(&web, options, "UnsupportedOptions"), expected);
        }
    };
    let keys = KEYS.map(|key| key.strip_prefix(PREFIX).unwrap());
    check(
        &all(),
        &["", "host-name", "hostname2"],
        "is no option",
        &keys.join(", "),
    );
    let none = ServedOptions::default();
    check(&none, &keys[1..], "is not served", "hostname");
    check(&none, &["health-check-"], "is no option", "hostname");
    let names = ["scheme", "health-check-path", "health-check-timeout"];
    let served = "hostname, health-check-protocol, health-check-port";
    check(&checks(&[TCP]), &names, "is not served", served);
}

#[test]
fn the_address_of_the_spec_is_a_requested_one_and_contradicts_no_other() {
    let with_ip = |ip: &str, options: &[&str]| {
        let mut service = service(options);
        service.spec.load_balancer_ip = ip.into();
        service
    };
    let both = &["addresses=2001:db8::7,192.0.2.7"][..];
    for (ip, options, expected) in [
        ("", both, "2001:db8::7 192.0.2.7"),
        ("192.0.2.7", &[], "192.0.2.7"),
        ("2001:DB8::7", &[], "2001:db8::7"),
        ("192.0.2.7", both, "2001:db8::7 192.0.2.7"),
    ] {
        assert_eq!(shown(&with_ip(ip, options)), expected);
    }
    for ip in ["192.0.2.8", "pool-a"] {
        let message = refusal(&with_ip(ip, both), &all(), "ConflictingOptions");
        for part in [
            ip,
            "2001:db8::7,192.0.2.7",
            ADDRESSES,
            "spec.loadBalancerIP",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
    assert_eq!(
        refusal(&with_ip("pool-a", &[]), &all(), "UnsupportedOptions"),
        "spec.loadBalancerIP=\"pool-a\" is no IP address; provider mock serves IP addresses, at most 2"
    );
    // A provider that declares no requested addresses reads the field itself.
    let unread = read(&with_ip("pool-a", &[]), &ServedOptions::default());
    assert_eq!(unread, Ok(LoadBalancerOptions::default()));
}

#[test]
fn a_health_check_asks_kube_proxy_where_the_user_says_nothing_else() {
    for (policy, protocols, options, expected) in [
        (
            "Cluster",
            &[TCP, HTTP][..],
            &[][..],
            "implied http:10256/healthz",
        ),
        ("Local", &[TCP, HTTP], &[], "implied http:30999/healthz"),
        ("Local", &[HTTPS, TCP], &[], "implied https:30999/healthz"),
        ("Local", &[TCP, HTTPS], &[], "implied tcp:30999"),
        (
            "Local",
            &[HTTP],
            &["hostname=a"],
            "implied http:30999/healthz",
        ),
        (
            "Local",
            &[HTTP],
            &["health-check-protocol=http"],
            "http:30999/healthz",
        ),
        ("Local", &[HTTP], &["health-check-port=8080"], "http:8080/"),
        (
            "Local",
            &[HTTP],
            &["health-check-port=10256"],
            "http:10256/healthz",
        ),
        (
            "Local",
            &[HTTP],
            &["health-check-port=30999"],
            "http:30999/healthz",
        ),
        ("Local", &[TCP], &["health-check-port=8080"], "tcp:8080"),
        (
            "Cluster",
            &[HTTP],
            &["health-check-path=/live"],
            "http:10256/live",
        ),
    ] {
        let mut service = service(options);
        service.spec.external_traffic_policy = policy.into();
        service.spec.health_check_node_port = if policy == "Local" { 30_999 } else { 0 };
        let options = read(&service, &checks(protocols)).unwrap();
        let check = options.health_check.unwrap();
        let implied = if check.implied { "implied " } else { "" };
        let (protocol, port, path) = (check.protocol, check.port, check.path);
        assert_eq!(format!("{implied}{protocol}:{port}{path}"), expected);
    }
}

proptest! {
    #[test]
    fn no_text_does_harm(
        option in prop::sample::select(KEYS.to_vec()),
        end in "\\PC{0,2}",
        value in "[0-9a-f:., /smh-]{0,24}|\\PC{0,300}",
        ip in "[0-9.:]{0,12}",
    ) {
        let key = format!("{option}{end}");
        let mut web = load_balancer("web");
        web.annotations = [(&*key, &*value)].into_iter().collect();
        web.spec.load_balancer_ip = ip.into();
        match read(&web, &all()) {
            Err(refusal) => {
                prop_assert!(refusal.message.len() < 2_000, "{}", refusal.message);
                let names = [&*key, "spec.loadBalancerIP"];
                prop_assert!(names.iter().any(|name| refusal.message.contains(name)));
            }
            Ok(options) => {
                prop_assert!(options.requested_addresses.len() <= 2);
                prop_assert!(options.reserved_address_names.len() <= 8);
                let check = options.health_check.unwrap();
                prop_assert!((1..=65_535).contains(&check.port) && check.path.len() <= 1_024);
                prop_assert!(check.interval_seconds.is_none_or(|n| (5..=300).contains(&n)));
                prop_assert!(check.timeout_seconds.is_none_or(|n| (1..=60).contains(&n)));
                prop_assert!(check.healthy_threshold.is_none_or(|n| (2..=10).contains(&n)));
                prop_assert!(check.unhealthy_threshold.is_none_or(|n| n == 1));
            }
        }
    }
}
