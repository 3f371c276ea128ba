//! `VolumesService`: lookups of volumes.

use std::collections::BTreeSet;

use outrigger_api::v1::{
    AbsenceCertainty, CsiVolumeSource, ErrorReason, GetVolumeRequest, Volume, VolumeNodeTerm,
    VolumeSource, VolumeTopology, get_volume_response::Outcome, volume_source::Source,
};

use crate::{
    call_error::CallError,
    case::{Check, check},
    inputs,
    labels::{is_kubernetes, is_label_key, is_label_value, is_of_domain},
    subject::Subject,
    verdict::{Verdict, expect, failed},
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
        check("VOL-02", async |subject| {
            let is_right = |answer: &Answer| is_error(answer, ErrorReason::MalformedVolumeHandle);
            let input = subject.inputs().volumes.malformed.as_ref();
            is(subject, input, "MALFORMED_VOLUME_HANDLE", is_right).await
        }),
        check("VOL-03", async |subject| {
            let is_right = |answer: &Answer| is_absent(answer, AbsenceCertainty::Confirmed);
            let input = subject.inputs().volumes.absent.as_ref();
            is(subject, input, "absent, CONFIRMED", is_right).await
        }),
        check("VOL-07", async |subject| {
            let is_right = |answer: &Answer| matches!(answer, Ok(Outcome::NotManaged(_)));
            let input = subject.inputs().volumes.foreign.as_ref();
            is(subject, input, "not_managed", is_right).await
        }),
        check("VOL-06", async |subject| {
            let is_right = |answer: &Answer| {
                matches!(answer, Ok(Outcome::Found(_)))
                    || is_absent(answer, AbsenceCertainty::NotVisibleYet)
                    || is_error(answer, ErrorReason::DependencyNotReady)
            };
            let what = "found, or absent with NOT_VISIBLE_YET";
            let input = subject.inputs().volumes.young.as_ref();
            is(subject, input, what, is_right).await
        }),
        check("VOL-08", failing_cloud),
        check("VOL-01", as_in_inputs),
        check("VOL-05", topology),
    ]
}

/// The outcome of a volume, or its error.
pub(crate) type Answer = Result<Outcome, CallError>;

/// Looks up a volume of the inputs.
async fn ask(subject: &Subject, input: &inputs::Volume) -> Verdict<Answer> {
    let volume = Volume {
        name: "conformance".to_owned(),
        source: Some(VolumeSource {
            source: Some(Source::Csi(CsiVolumeSource {
                driver: input.driver.clone(),
                volume_handle: input.handle.clone(),
                volume_attributes: input.attributes.clone().into_iter().collect(),
            })),
        }),
        ..Volume::default()
    };
    let request = GetVolumeRequest {
        context: None,
        volume: Some(volume),
    };
    match subject.client.call(request).await {
        Ok(answer) => {
            let none = || failed("GetVolume has an outcome", "none");
            answer.outcome.map(Ok).ok_or_else(none)
        }
        Err(error) => Ok(Err(error)),
    }
}

fn describe(answer: &Answer) -> String {
    match answer {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => error.to_string(),
    }
}

fn found(input: &inputs::Volume, answer: &Answer) -> Verdict<VolumeTopology> {
    match answer {
        Ok(Outcome::Found(topology)) => Ok(topology.clone()),
        other => Err(failed(
            format!("{} of {} is found", input.handle, input.driver),
            describe(other),
        )),
    }
}

/// Holds the answer about a volume of the inputs against what the volume is.
async fn is(
    subject: &Subject,
    input: Option<&inputs::Volume>,
    what: &str,
    is_right: fn(&Answer) -> bool,
) -> Verdict {
    let input = input.cloned().unwrap_or_default();
    let answer = ask(subject, &input).await?;
    let expected = format!("{} of {} is {what}", input.handle, input.driver);
    expect(is_right(&answer), expected, describe(&answer))
}

fn is_error(answer: &Answer, reason: ErrorReason) -> bool {
    answer.as_ref().is_err_and(|error| error.is(reason))
}

fn is_absent(answer: &Answer, certainty: AbsenceCertainty) -> bool {
    matches!(answer, Ok(Outcome::Absent(absent)) if absent.certainty() == certainty)
}

async fn failing_cloud(subject: &Subject) -> Verdict {
    let input = &subject.inputs().volumes.existing[0];
    let check = async {
        let answer = ask(subject, input).await?;
        expect(
            !matches!(answer, Ok(Outcome::Absent(_) | Outcome::NotManaged(_))),
            format!(
                "{} is found or an error while the cloud fails",
                input.handle
            ),
            describe(&answer),
        )
    };
    subject.without_cloud(check).await?;
    let look = async || found(input, &ask(subject, input).await?);
    subject.recovers("lookups", look).await
}

/// All volumes of the inputs that exist.
async fn all(subject: &Subject) -> Verdict<Vec<VolumeTopology>> {
    let mut all = Vec::new();
    for input in &subject.inputs().volumes.existing {
        all.push(found(input, &ask(subject, input).await?)?);
    }
    Ok(all)
}

async fn topology(subject: &Subject) -> Verdict {
    for topology in all(subject).await? {
        labels(&topology)?;
        let terms = &topology.node_terms;
        expect(terms.len() <= 16, "at most 16 terms", terms.len())?;
        terms.iter().try_for_each(term)?;
    }
    Ok(())
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
