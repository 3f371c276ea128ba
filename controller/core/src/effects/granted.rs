//! Prefixes that the operator grants to a provider.

use std::sync::Arc;

use super::begins;
use crate::{fault::Excerpt, syntax};

/// Domains whose annotations and conditions are no provider's, with their subdomains.
const RESERVED: [&str; 3] = ["outrigger.dev", "kubernetes.io", "k8s.io"];

/// The operator's `--provider-effect-prefixes`; none by default. Each begins with a whole domain, so that it
/// cannot grow into another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedPrefixes(Arc<[Box<str>]>);

impl GrantedPrefixes {
    /// The grant of `prefixes`.
    ///
    /// # Errors
    /// The first that cannot be granted, and why.
    pub fn new(prefixes: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let check = |prefix: String| {
            let domain = prefix.split_once('/').map(|(domain, _)| domain);
            let domain = domain.filter(|domain| syntax::subdomain(domain).is_ok());
            let Some(domain) = domain else {
                return Err(format!(
                    "{} is no domain with a slash, such as vendor.example/ or vendor.example/status-: a prefix \
                     without one would cover other domains that begin so",
                    Excerpt::of(&prefix)
                ));
            };
            let is_within = |reserved: &&str| {
                let rest = domain.strip_suffix(reserved);
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            match RESERVED.into_iter().find(is_within) {
                Some(domain) => Err(format!(
                    "{} belongs to {domain}, which no provider may write to: annotations and conditions there \
                     direct Kubernetes and this controller",
                    Excerpt::of(&prefix)
                )),
                None => Ok(prefix.into()),
            }
        };
        let prefixes = prefixes.into_iter().map(check);
        prefixes.collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if `key` is under one of them.
    pub fn has(&self, key: &str) -> bool {
        begins(key, &self.0)
    }

    /// Returns true if a key under `declared` is under one of them.
    pub fn reaches(&self, declared: &str) -> bool {
        let mut granted = self.0.iter();
        granted.any(|granted| declared.starts_with(&**granted) || granted.starts_with(declared))
    }

    /// The prefixes, as they were given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|prefix| &**prefix)
    }
}
