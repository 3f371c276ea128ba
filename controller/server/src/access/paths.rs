//! `--authorization-always-allow-paths` (AUTH-5).

use super::AccessError;

#[derive(Debug)]
pub(super) struct Paths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl Paths {
    /// A leading slash may be left out; a trailing star stands for anything.
    pub(super) fn parse(patterns: &[String]) -> Result<Self, AccessError> {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for given in patterns {
            let pattern = given.strip_prefix('/').unwrap_or(given);
            let prefix = pattern.strip_suffix('*');
            if prefix.unwrap_or(pattern).contains('*') {
                return Err(AccessError::Pattern(given.clone()));
            }
            match prefix {
                Some(prefix) => prefixes.push(prefix.to_owned()),
                None => exact.push(pattern.to_owned()),
            }
        }
        Ok(Self { exact, prefixes })
    }

    pub(super) fn allow(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|exact| exact == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_may_lack_and_stars_end() {
        let paths = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
            Paths::parse(&patterns)
        };
        let some = paths(&["/healthz", "livez", "/readyz/*"]).unwrap();
        for (path, allowed) in [
            ("/healthz", true),
            ("/healthz/ping", false),
            ("/livez", true),
            ("/readyz", false),
            ("/readyz/provider", true),
            ("/", false),
        ] {
            assert_eq!(some.allow(path), allowed, "{path}");
        }
        assert!(paths(&["/"]).unwrap().allow("/"));
        assert!(paths(&["*"]).unwrap().allow("/metrics"));
        let error = paths(&["/a*/b"]).unwrap_err().to_string();
        assert_eq!(error, "only trailing * allowed in \"/a*/b\"");
    }
}
