//! Portable options in traces: each has a word, and one value besides the default.

use outrigger_api::v1::{LoadBalancerOption, LoadBalancerScheme, LoadBalancersCapability, Service};

const INTERNAL: &str = "internal";
const PROXY_PROTOCOL: &str = "proxy-protocol";
const HEALTH_CHECK: &str = "health-check";

/// The words of the options that a provider serves, and can change.
pub(super) fn words(offered: &LoadBalancersCapability) -> impl Iterator<Item = String> + use<> {
    let offered = offered.options.clone().unwrap_or_default();
    let internal = i32::from(LoadBalancerScheme::Internal);
    let options = [
        (
            INTERNAL,
            LoadBalancerOption::Scheme,
            offered.schemes.contains(&internal),
        ),
        (
            PROXY_PROTOCOL,
            LoadBalancerOption::ProxyProtocol,
            !offered.proxy_protocols.is_empty(),
        ),
        (
            HEALTH_CHECK,
            LoadBalancerOption::HealthCheck,
            offered.health_check.is_some(),
        ),
    ];
    let options = options.into_iter().filter(move |(_, option, is_served)| {
        *is_served && !offered.fixed.contains(&i32::from(*option))
    });
    options.map(|(word, ..)| word.to_owned())
}

/// Asks for the option of a word, if it is one.
pub(super) fn ask(word: &str, offered: &LoadBalancersCapability, service: &mut Service) {
    let (Some(options), Some(offered)) = (&mut service.load_balancer_options, &offered.options)
    else {
        return;
    };
    match (word, &mut options.health_check) {
        (INTERNAL, _) => options.scheme = LoadBalancerScheme::Internal.into(),
        (PROXY_PROTOCOL, _) => {
            let first = offered.proxy_protocols.first().copied();
            options.proxy_protocol = first.unwrap_or_default();
        }
        (HEALTH_CHECK, Some(check)) => {
            check.implied = false;
            check.port = 8080;
        }
        _ => {}
    }
}
