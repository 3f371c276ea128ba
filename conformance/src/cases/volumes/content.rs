//! Labels and node affinity of a volume that was found.

use std::collections::BTreeSet;

use outrigger_api::v1::{VolumeNodeTerm, VolumeTopology};

use super::{found, look_up};
use crate::{
    case::{Check, check},
    labels::{is_kubernetes, is_label_key, is_label_value, is_of_domain},
    subject::Subject,
    verdict::{Verdict, expect},
};

/// The only keys of Kubernetes' own domains.
const TOPOLOGY: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

pub(super) fn checks() -> Vec<Check> {
    vec![
        check("VOL-01", as_in_inputs),
        check("VOL-05", async |subject| each(subject, labels).await),
        check("VOL-10", async |subject| each(subject, terms).await),
    ]
}

/// All volumes of the inputs that exist.
async fn all(subject: &Subject) -> Verdict<Vec<VolumeTopology>> {
    let existing = &subject.inputs().volumes.existing;
    let outcomes = look_up(subject, existing).await?;
    let both = existing.iter().zip(&outcomes);
    both.map(|(input, outcome)| found(input, outcome)).collect()
}

async fn each(subject: &Subject, check: fn(&VolumeTopology) -> Verdict) -> Verdict {
    all(subject).await?.iter().try_for_each(check)
}

async fn as_in_inputs(subject: &Subject) -> Verdict {
    let existing = &subject.inputs().volumes.existing;
    let first = all(subject).await?;
    for (input, topology) in existing.iter().zip(&first) {
        for (key, value) in &input.labels {
            let actual = topology.labels.get(key);
            expect(
                actual == Some(value),
                format!("{} has the label {key}={value}", input.handle),
                format!("{actual:?}"),
            )?;
        }
    }
    let again = all(subject).await?;
    expect(first == again, format!("{first:?}"), format!("{again:?}"))
}

fn labels(topology: &VolumeTopology) -> Verdict {
    let labels = &topology.labels;
    expect(labels.len() <= 32, "at most 32 labels", labels.len())?;
    for (key, value) in labels {
        let allowed = !is_kubernetes(key) || TOPOLOGY.contains(&&**key);
        let of_controller = is_of_domain(key, "outrigger.dev");
        expect(
            is_label_key(key) && is_label_value(value) && allowed && !of_controller,
            "a legal label; of kubernetes.io and k8s.io zone and region only, none of outrigger.dev",
            format!("{key}={value}"),
        )?;
    }
    Ok(())
}

fn terms(topology: &VolumeTopology) -> Verdict {
    let terms = &topology.node_terms;
    expect(terms.len() <= 16, "at most 16 terms", terms.len())?;
    terms.iter().try_for_each(term)
}

fn term(term: &VolumeNodeTerm) -> Verdict {
    let mut keys = BTreeSet::new();
    let count = term.requirements.len();
    expect((1..=16).contains(&count), "1 to 16 requirements", count)?;
    for one in &term.requirements {
        let distinct: BTreeSet<_> = one.values.iter().collect();
        let legal = is_label_key(&one.key)
            && keys.insert(&one.key)
            && (1..=64).contains(&one.values.len())
            && distinct.len() == one.values.len()
            && one.values.iter().all(|value| is_label_value(value));
        expect(
            legal,
            "a legal key, none twice, and 1 to 64 legal values, none twice",
            format!("{one:?}"),
        )?;
    }
    Ok(())
}
