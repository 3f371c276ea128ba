//! Text that has been checked, so that the cloud has only texts that Kubernetes accepts.
//!
//! Nonsense leaves the mock through a fault, never by mistake.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}: {rule}")]
pub struct BadText {
    pub(super) text: String,
    pub(super) what: &'static str,
    pub(super) rule: &'static str,
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:path, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadText;

            fn from_str(text: &str) -> Result<Self, BadText> {
                if $check(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadText { text: text.to_owned(), what: $what, rule: $rule })
                }
            }
        }

        serde_by_text!($name);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

checked_text!(
    /// The name that a kubelet registers with.
    NodeName,
    "node name",
    is_dns_subdomain,
    "use at most 253 of a-z, 0-9, '-' and '.', with a letter or digit at each end"
);

checked_text!(
    /// The rest after `<provider_name>://` in a provider ID.
    InstanceId,
    "instance id",
    is_instance_id,
    "use at most 200 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit first"
);

checked_text!(
    /// The value of a Kubernetes label; zones, regions and instance types become labels.
    LabelValue,
    "label value",
    is_label_value,
    "use at most 63 of a-z, A-Z, 0-9, '-', '_' and '.', with a letter or digit at each end"
);

checked_text!(
    /// The key of a label that the cloud sets on a Node.
    LabelKey,
    "label key for a cloud",
    is_label_key,
    "write name or domain/name, outside kubernetes.io and k8s.io"
);

checked_text!(
    /// The name of a provider, which is the scheme of its provider IDs.
    ProviderName,
    "provider name",
    is_provider_name,
    "use 1 to 63 of a-z, 0-9 and '-'"
);

impl InstanceId {
    /// The id made of a hash, in the fashion of the large clouds.
    pub(super) fn derived(hash: u64) -> Self {
        Self(format!("i-{hash:016x}").into())
    }
}

pub(super) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        })
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

fn is_instance_id(text: &str) -> bool {
    text.len() <= 200
        && text.bytes().all(is_word_byte)
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric())
}

fn is_label_value(text: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(is_word_byte)
        && ends(text.bytes().next())
        && ends(text.bytes().last())
}

fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_label_value(text),
        Some((domain, name)) => {
            let reserved = |owner: &str| {
                domain
                    .strip_suffix(owner)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            is_dns_subdomain(domain)
                && is_label_value(name)
                && !reserved("kubernetes.io")
                && !reserved("k8s.io")
        }
    }
}

fn is_provider_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: FromStr<Err = BadText> + fmt::Debug>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text:?} should be accepted");
        }
        for text in bad {
            let error = text.parse::<T>().unwrap_err().to_string();
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn names_follow_kubernetes() {
        let long = "a".repeat(254);
        check::<NodeName>(
            &["a", "worker-1", "w.example.com", "0"],
            &["", "A", "a..b", "-a", "a_b", &long],
        );
        check::<InstanceId>(
            &["i-01", "a/b".trim_end_matches("/b"), "X.y_z"],
            &["", "-a", "a/b", "a b"],
        );
        let long = "a".repeat(64);
        check::<LabelValue>(
            &["a", "mock.small", "A-1_b"],
            &["", "-a", "a-", "a b", "ä", &long],
        );
        check::<ProviderName>(&["mock", "my-cloud-2"], &["", "Mock", "a.b", &long]);
    }

    #[test]
    fn a_cloud_may_not_give_kubernetes_own_labels() {
        check::<LabelKey>(
            &["rack", "mock.example/rack", "notk8s.io/x"],
            &[
                "",
                "kubernetes.io/x",
                "topology.kubernetes.io/zone",
                "a.k8s.io/b",
                "a/b/c",
                "/b",
                "a/",
            ],
        );
    }
}
