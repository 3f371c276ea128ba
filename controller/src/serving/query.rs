//! Queries of URLs.

/// The parameters of one request, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &http::Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| percent_decode(&text.replace('+', " "));
            (decode(key), decode(value))
        });
        Self(pairs.collect())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(name, _)| name == key)
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let of_key = self.0.iter().filter(move |(name, _)| name == key);
        of_key.map(|(_, value)| value.as_str())
    }
}

/// `%41` is `A`; what is no such escape stays as it is.
pub(super) fn percent_decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escape = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escape {
            out.push(high << 4 | low);
            rest = &tail[2..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
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
