//! Queries of URLs.

/// The parameters of one request, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &http::Uri) -> Self {
        let query = uri.query().unwrap_or_default();
        Self(
            form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let of_key = self.0.iter().filter(move |(name, _)| name == key);
        of_key.map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let uri = "/readyz?verbose&exclude=a%2Fb&exclude=c+d%zz"
            .parse()
            .unwrap();
        let query = Query::of(&uri);
        assert!(query.has("verbose") && !query.has("verb"));
        assert_eq!(query.all("exclude").collect::<Vec<_>>(), ["a/b", "c d%zz"]);
    }
}
