//! The user that a proxy speaks for: request headers (AUTH-1).

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::caller::Caller;

/// Names of the headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) user: Vec<String>,
    pub(super) uid: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra_prefixes: Vec<String>,
}

impl Names {
    /// None if no header names a user.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        let first = |names: &[String]| {
            let mut values = names.iter().flat_map(|name| values(headers, name));
            values.find(|value| !value.is_empty())
        };
        let groups = self.groups.iter().flat_map(|name| values(headers, name));
        Some(Caller {
            name: first(&self.user)?,
            uid: first(&self.uid).unwrap_or_default(),
            groups: groups.collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::<_, Vec<_>>::new();
        for (name, value) in headers {
            let prefixes = self.extra_prefixes.iter();
            // Names of headers are lower-case here; a key's odd characters are escaped in them.
            let mut keys = prefixes.filter_map(|prefix| {
                let key = name.as_str().strip_prefix(&prefix.to_ascii_lowercase())?;
                Some(percent_decode_str(key).decode_utf8_lossy().into_owned())
            });
            if let (Some(key), Ok(value)) = (keys.next(), value.to_str()) {
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.map(ToOwned::to_owned).collect()
}
