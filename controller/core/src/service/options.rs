//! Options of a load balancer that mean the same with every provider: annotations of its Service.

use super::{Ingress, ServiceView, answer::check_hostname};
use crate::{fault::Excerpt, forbidden_addresses::ForbiddenAddresses, syntax::Complaint};

/// Prefix of the annotations. A key below it that is no option is refused, since a typo must not make another load balancer
/// than its user wants.
pub(super) const PREFIX: &str = "outrigger.dev/load-balancer-";

const HOSTNAME: &str = "outrigger.dev/load-balancer-hostname";

/// The keys of all options.
const KEYS: [&str; 1] = [HOSTNAME];

/// The options of one load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerOptions {
    /// Host name that the status shows in place of the addresses.
    pub hostname: Option<Box<str>>,
}

impl LoadBalancerOptions {
    /// The options of `service`.
    ///
    /// # Errors
    /// A sentence for people about the first annotation that is refused: its key, its value, and the keys of all options.
    pub fn of(service: &ServiceView) -> Result<Self, String> {
        let mut options = Self::default();
        let annotations = service.annotations.iter();
        for (key, value) in annotations.filter(|(key, _)| key.starts_with(PREFIX)) {
            options.set(key, value).map_err(|complaint| {
                let (shown, keys) = (Excerpt::of(value), KEYS.join(", "));
                format!("the annotation {key}={shown} {complaint}; the options are {keys}")
            })?;
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Complaint> {
        match key {
            HOSTNAME => {
                check_hostname(value, &ForbiddenAddresses::default())?;
                self.hostname = Some(value.into());
            }
            _ => return Err("is no option"),
        }
        Ok(())
    }
}

/// The status of `service` for the addresses `named` of its load balancer. The result is none where the present status
/// stays: the options are refused, or not kept in memory.
pub(super) fn status_ingress(service: &ServiceView, named: &[Ingress]) -> Option<Vec<Ingress>> {
    if service.is_too_large {
        return None;
    }
    let options = LoadBalancerOptions::of(service).ok()?;
    Some(match options.hostname {
        Some(hostname) => vec![Ingress {
            hostname,
            ..Ingress::default()
        }],
        None => named.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{HOSTNAME, LoadBalancerOptions};
    use crate::fixture::load_balancer;

    fn options(annotations: &[(&str, &str)]) -> Result<LoadBalancerOptions, String> {
        let mut service = load_balancer("web");
        service.annotations = annotations.iter().copied().collect();
        LoadBalancerOptions::of(&service)
    }

    #[test]
    fn a_host_name_is_read_and_anything_else_below_the_prefix_is_refused() {
        let ours = ("outrigger.dev/node-selector", "x");
        let theirs = ("example.com/load-balancer-scheme", "x");
        assert_eq!(options(&[ours, theirs]), Ok(LoadBalancerOptions::default()));
        for name in ["web.example.com", "a", "xn--bcher-kva.example", "1.example"] {
            let read = options(&[(HOSTNAME, name)]).unwrap();
            assert_eq!(read.hostname.as_deref(), Some(name));
        }
        let long = format!("{}.example.com", "a.".repeat(125));
        let subdomain = "is no DNS subdomain of at most 253 bytes, in lower case";
        for (value, complaint) in [
            ("", subdomain),
            (" a ", subdomain),
            ("Web.example.com", subdomain),
            ("*.example.com", subdomain),
            ("web.example.com.", subdomain),
            ("web_1.example.com", subdomain),
            (&*long, subdomain),
            ("192.0.2.1", "is an IP address"),
            ("2001:db8::1", "is an IP address"),
            ("localhost", "means the machine itself"),
            ("web.shop.svc.cluster.local", "means the machine itself"),
        ] {
            let refused = options(&[(HOSTNAME, value)]).unwrap_err();
            assert!(refused.contains(complaint), "{value}: {refused}");
        }
        let keys = [
            "outrigger.dev/load-balancer-",
            "outrigger.dev/load-balancer-host-name",
            "outrigger.dev/load-balancer-hostname2",
        ];
        for key in keys {
            let refused = options(&[(HOSTNAME, "a"), (key, "web.example.com")]).unwrap_err();
            let expected = format!(
                "the annotation {key}=\"web.example.com\" is no option; the options are {HOSTNAME}"
            );
            assert_eq!(refused, expected);
        }
    }

    proptest! {
        #[test]
        fn no_text_does_harm(end in "(hostname)?\\PC{0,8}", value in "\\PC{0,300}") {
            let key = format!("outrigger.dev/load-balancer-{end}");
            if let Err(refused) = options(&[(&key, &value)]) {
                prop_assert!(refused.len() < 2_000 && refused.contains(&*key));
            }
        }
    }
}
