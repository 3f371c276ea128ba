//! The state of a cluster and its cloud, in a form that is the same in each run.

use std::collections::BTreeMap;

use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::{Error, Result, script::Cloud};

/// Lines of all objects and of all that the cloud has.
pub(super) type State = Vec<String>;

/// Fields that differ from run to run and say nothing, besides times.
const DROPPED: [&str; 7] = [
    "creationTimestamp",
    "generation",
    "images",
    "managedFields",
    "nodeInfo",
    "observedGeneration",
    "resourceVersion",
];

/// Fields whose value the API server draws, or follows from one that it draws.
const DRAWN: [&str; 3] = [
    "deletionTimestamp",
    "nodePort",
    "outrigger.dev/last-applied",
];

/// Observes, and names UIDs, addresses and other values that differ from run to run. The second value that an object has in a run for the
/// same thing gets another name: what was deleted and made again is not the same.
#[derive(Debug, Default)]
pub(super) struct Observer {
    names: BTreeMap<String, String>,
    /// Names of Pod CIDRs: one whose Node is gone may be that of any other Node next.
    pod_cidrs: BTreeMap<String, String>,
    /// How many values have a name of this beginning.
    counts: BTreeMap<String, usize>,
}

impl Observer {
    fn give(&mut self, value: &Value, what: impl FnOnce() -> String) {
        let Some(value) = value.as_str().filter(|value| !value.is_empty()) else {
            return;
        };
        if self.names.contains_key(value) {
            return;
        }
        let what = what();
        let number = self.counts.entry(what.clone()).or_default();
        *number += 1;
        let name = match number {
            1 => format!("<{what}>"),
            number => format!("<{what}, the {number}. one>"),
        };
        self.names.insert(value.to_owned(), name);
    }

    fn of(&self, value: &Value) -> String {
        let text = value.as_str().unwrap_or_default();
        self.name(text).unwrap_or(text).to_owned()
    }

    fn name(&self, value: &str) -> Option<&str> {
        let name = self.names.get(value).or_else(|| self.pod_cidrs.get(value));
        name.map(String::as_str)
    }

    /// Replaces and drops what differs from run to run.
    fn put_into(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|key, _| {
                    let is_time = key.ends_with("At") || key.ends_with("Time");
                    !is_time && !DROPPED.contains(&key.as_str())
                });
                for (key, value) in fields {
                    if DRAWN.contains(&key.as_str()) {
                        *value = json!("<drawn>");
                    }
                    self.put_into(value);
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.put_into(value)),
            Value::String(text) => {
                if let Some(name) = self.name(text) {
                    *text = name.to_owned();
                } else {
                    // A UID within another text. Other values are too short: they may be there by chance.
                    for (value, name) in self.names.iter().filter(|(value, _)| value.len() > 30) {
                        *text = text.replace(value, name);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Observes the cluster and the cloud.
    pub(super) async fn observe(&mut self, client: &Client, cloud: &Cloud) -> Result<State> {
        // The cloud first: what it has got, an object asks for.
        let mut balancers: Value = cloud.ask(&["lb", "show", "--all"]).await?;
        let mut balancers = taken(&mut balancers["loadBalancers"]);
        let mut routes: Value = cloud.ask(&["routes", "list"]).await?;
        let mut routes = taken(&mut routes["routes"]);
        let nodes = list(client, "/api/v1/nodes").await?;
        let mut services = list(client, "/api/v1/namespaces/default/services").await?;
        services.retain(|service| service["metadata"]["name"] != "kubernetes");
        let volumes = list(client, "/api/v1/persistentvolumes").await?;

        self.pod_cidrs.clear();
        for object in nodes.iter().chain(&services).chain(&volumes) {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            self.give(&object["metadata"]["uid"], || format!("UID of {name}"));
            for value in object["spec"]["clusterIPs"]
                .as_array()
                .into_iter()
                .flatten()
            {
                self.give(value, || format!("cluster IP of {name}"));
            }
            for value in object["spec"]["podCIDRs"].as_array().into_iter().flatten() {
                let cidr = value.as_str().unwrap_or_default().to_owned();
                let owner = format!("<Pod CIDR of {name}>");
                self.pod_cidrs.entry(cidr).or_insert(owner);
            }
        }
        for balancer in &balancers {
            let balancer = &balancer["loadBalancer"];
            let service = balancer["service"]["name"].as_str().unwrap_or_default();
            self.give(&balancer["id"], || format!("load balancer of {service}"));
            self.give(&balancer["cluster"], || "cluster".to_owned());
            for address in balancer["addresses"].as_array().into_iter().flatten() {
                self.give(address, || format!("address of {service}"));
            }
        }
        for route in &mut routes {
            self.give(&route["cluster"], || "cluster".to_owned());
            // Its own name follows from the rest; one that is made again is made at another time.
            let destination = self.of(&route["destination"]);
            self.give(&route["createdAt"], || format!("route to {destination}"));
            route["name"] = route["createdAt"].take();
        }
        balancers.sort_by_key(|one| self.of(&one["loadBalancer"]["id"]));
        routes.sort_by_key(|one| self.of(&one["destination"]));
        let mut all = json!({
            "nodes": nodes, "services": services, "volumes": volumes,
            "load balancers": balancers, "routes": routes,
        });
        self.put_into(&mut all);
        Ok(format!("{all:#}").lines().map(str::to_owned).collect())
    }
}

async fn list(client: &Client, path: &str) -> Result<Vec<Value>> {
    let request = Request::get(path).body(Vec::new());
    let listed = async {
        let request = request.map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await
    };
    let listed = listed.await;
    let mut listed = listed.map_err(Error::kube(format!("cannot list {path}")))?;
    Ok(taken(&mut listed["items"]))
}

fn taken(list: &mut Value) -> Vec<Value> {
    match list.take() {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

/// The lines of which one state has more than the other: `-` of what is expected, `+` of what is there.
pub(super) fn difference(expected: &State, actual: &State) -> String {
    let count = |state: &State| {
        let mut lines: BTreeMap<String, i64> = BTreeMap::new();
        for line in state {
            *lines.entry(line.clone()).or_default() += 1;
        }
        lines
    };
    let mut balance = count(expected);
    for (line, times) in count(actual) {
        *balance.entry(line).or_default() -= times;
    }
    let lines = balance.into_iter().filter(|(_, times)| *times != 0);
    let lines = lines.map(|(line, times)| {
        let sign = if times > 0 { '-' } else { '+' };
        format!("  {sign} {}\n", line.trim())
    });
    lines.collect()
}
