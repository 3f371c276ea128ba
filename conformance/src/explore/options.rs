//! Portable options in traces: each has a word, and one value besides the default.

use outrigger_api::v1::{
    LoadBalancerOption as Name, LoadBalancerScheme, LoadBalancersCapability, Service,
};

const INTERNAL: &str = "internal";
const PROXY_PROTOCOL: &str = "proxy-protocol";
const HEALTH_CHECK: &str = "health-check";

/// The words of the options that a provider serves, and can change.
pub(super) fn words(offered: &LoadBalancersCapability) -> Vec<String> {
    let offered = offered.options.clone().unwrap_or_default();
    let internal = i32::from(LoadBalancerScheme::Internal);
    let has_proxy = !offered.proxy_protocols.is_empty();
    let has_check = offered.health_check.is_some();
    let word = |is_served: bool, option: Name, word: &str| {
        let is_fixed = offered.fixed.contains(&option.into());
        (is_served && !is_fixed).then(|| word.to_owned())
    };
    let words = [
        word(offered.schemes.contains(&internal), Name::Scheme, INTERNAL),
        word(has_proxy, Name::ProxyProtocol, PROXY_PROTOCOL),
        word(has_check, Name::HealthCheck, HEALTH_CHECK),
    ];
    words.into_iter().flatten().collect()
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
