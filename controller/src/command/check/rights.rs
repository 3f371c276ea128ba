//! The rights that the loops need, beside those that the API server says the caller has. The files of `deploy/rights` are the
//! list: the chart renders them, and the whole-process tests run with exactly them.

use k8s_openapi::api::authorization::v1::{ResourceRule, SubjectRulesReviewStatus};

use crate::options::{Config, controllers::Controller};

const FILES: [(Option<Controller>, &str); 3] = [
    (None, include_str!("../../../../deploy/rights/always.yaml")),
    (
        Some(Controller::VolumeLabels),
        include_str!("../../../../deploy/rights/volumes.yaml"),
    ),
    (
        Some(Controller::KubeletServing),
        include_str!("../../../../deploy/rights/serving-certificates.yaml"),
    ),
];

/// Verbs that are needed on a resource.
#[derive(Clone, Debug, Default)]
struct Rule {
    group: &'static str,
    resource: &'static str,
    name: Option<&'static str>,
    verbs: Vec<&'static str>,
}

/// The rules of a rendered file, which has each list on one line, each with its part, which a comment names.
fn rules(file: &'static str) -> Vec<(&'static str, Rule)> {
    let (mut part, mut rule, mut rules) = ("", Rule::default(), Vec::new());
    for line in file.lines() {
        part = line.strip_prefix("  # ").unwrap_or(part);
        let Some((key, list)) = line.trim_matches([' ', '-', ']']).split_once(": [") else {
            continue;
        };
        let list = list.split(", ").map(|item| item.trim_matches('"'));
        let verbs: Vec<_> = list.collect();
        let first = verbs.first().copied().unwrap_or_default();
        match key {
            "apiGroups" => (rule.group, rule.name) = (first, None),
            "resources" => rule.resource = first,
            "resourceNames" => rule.name = Some(first),
            "verbs" => rules.push((
                part,
                Rule {
                    verbs,
                    ..rule.clone()
                },
            )),
            _ => {}
        }
    }
    rules
}

/// Returns true if the flags ask for the part of the controller.
fn runs(config: &Config, part: &str) -> bool {
    match part {
        "leader election" => config.election.is_some(),
        "HTTPS server" => config.serving.is_some(),
        // For callers in the Pod alone.
        "explain" => false,
        part => {
            let is_it = |one: &Controller| one.name().strip_suffix("-controller") == Some(part);
            let controller = Controller::ALL.into_iter().find(is_it);
            controller.is_none_or(|controller| config.controllers.enabled(controller))
        }
    }
}

/// The rights that the flags need and `granted` lacks, for people: `cloud-node: patch nodes/status`.
pub(super) fn missing(config: &Config, granted: &SubjectRulesReviewStatus) -> String {
    let election = config.election.as_ref();
    let files = FILES.iter().filter(|(controller, _)| {
        controller.is_none_or(|controller| config.controllers.enabled(controller))
    });
    let all = files.flat_map(|(_, file)| rules(file));
    let lacks = |(part, mut rule): (&str, Rule)| {
        let mut name = rule.name;
        if let (Some(_), "leases", Some(election)) = (name, rule.resource, election) {
            name = Some(&election.name);
        }
        rule.verbs.retain(|verb| {
            let mut rules = granted.resource_rules.iter();
            let is_needed = *verb != "delete" || config.lifecycle.limits.enabled;
            is_needed && !rules.any(|one| allows(one, [rule.group, rule.resource, verb], name))
        });
        let (verbs, resource) = (rule.verbs.join(", "), rule.resource);
        (!verbs.is_empty()).then(|| format!("{part}: {verbs} {resource}"))
    };
    let needed = all.filter(|(part, _)| runs(config, part));
    needed.filter_map(lacks).collect::<Vec<_>>().join("; ")
}

/// Returns true if `rule` allows the verb on the resource, or on its object called `name`.
fn allows(rule: &ResourceRule, [group, resource, verb]: [&str; 3], name: Option<&str>) -> bool {
    let has = |list: &[String], word: &str| list.iter().any(|one| one == "*" || one == word);
    let names = rule.resource_names.as_deref().unwrap_or_default();
    has(rule.api_groups.as_deref().unwrap_or_default(), group)
        && has(rule.resources.as_deref().unwrap_or_default(), resource)
        && has(&rule.verbs, verb)
        && (names.is_empty() || name.is_some_and(|name| has(names, name)))
}
