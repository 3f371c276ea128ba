//! All of `/metrics`, as the documentation tells it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Identity, scrape, serve};

/// Type and labels of each family.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

const PAGE: &str = include_str!("../../../../../docs/endpoints.md");

/// The families of a scrape in the older format.
fn exposed(scrape: &str) -> Families {
    let mut families = Families::new();
    let mut family = String::new();
    for line in scrape.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            family = name.to_owned();
            families.insert(family.clone(), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((_, labels)) = line.split_once('{') {
            // The text before `="`; no value here holds that.
            let mut parts: Vec<_> = labels.split("=\"").collect();
            parts.pop();
            let names = parts.into_iter().map(|part| part.rsplit([',', '"']).next());
            let names = names.flatten().filter(|name| *name != "le");
            let entry = families.get_mut(&family).unwrap();
            entry.1.extend(names.map(ToOwned::to_owned));
        }
    }
    families
}

/// The families in the tables of the page: `| name | type | labels | meaning |`.
fn documented() -> Families {
    let rows = PAGE.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let name = cells.next()?.trim_matches('`').to_owned();
        let kind = cells.next()?.to_owned();
        let labels = cells.next()?.split(", ").map(|name| name.trim_matches('`'));
        let labels = labels.filter(|name| !name.is_empty());
        let labels = labels.map(ToOwned::to_owned).collect();
        let metric = ["counter", "gauge", "histogram"].contains(&&*kind);
        metric.then_some((name, (kind, labels)))
    });
    rows.collect()
}

#[tokio::test]
async fn the_documentation_names_every_metric_with_type_and_labels() {
    let (server, _queue) = serve().await;
    assert_eq!(server.get(&Identity::Anonymous, "/healthz").await.code, 200);
    let mut served = exposed(&scrape(&server, "/metrics", "*/*").await.body);
    served.extend(exposed(&scrape(&server, "/metrics/slis", "*/*").await.body));
    let documented = documented();
    for (name, family) in &served {
        assert_eq!(documented.get(name), Some(family), "{name}");
    }
    let mut names = documented.keys();
    let gone = names.find(|name| !served.contains_key(*name));
    assert_eq!(gone, None, "is in docs/endpoints.md alone");
}
