//! `VolumesService`: lookups of volumes.

mod content;

use outrigger_api::v1::{
    AbsenceCertainty, CsiVolumeSource, ErrorReason, GetVolumeRequest, Volume, VolumeSource,
    VolumeTopology, get_volume_response::Outcome, volume_source::Source,
};

use crate::{
    call_error::CallError,
    case::{Check, check},
    inputs,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("VOL-02", malformed),
        check("VOL-03", absent),
        check("VOL-07", foreign),
        check("VOL-08", failing_cloud),
        check("VOL-06", young),
    ];
    checks.extend(content::checks());
    checks
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

/// Looks up volumes of the inputs, one after the other.
pub(crate) async fn look_up(subject: &Subject, inputs: &[inputs::Volume]) -> Verdict<Vec<Answer>> {
    let mut answers = Vec::with_capacity(inputs.len());
    for input in inputs {
        answers.push(ask(subject, input).await?);
    }
    Ok(answers)
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

async fn malformed(subject: &Subject) -> Verdict {
    let is_right = |answer: &Answer| {
        let error = answer.as_ref().err();
        error.is_some_and(|error| error.is(ErrorReason::MalformedVolumeHandle))
    };
    let input = subject.inputs().volumes.malformed.as_ref();
    is(subject, input, "MALFORMED_VOLUME_HANDLE", is_right).await
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

fn is_absent(answer: &Answer, certainty: AbsenceCertainty) -> bool {
    matches!(answer, Ok(Outcome::Absent(absent)) if absent.certainty() == certainty)
}

async fn absent(subject: &Subject) -> Verdict {
    let is_right = |answer: &Answer| is_absent(answer, AbsenceCertainty::Confirmed);
    let input = subject.inputs().volumes.absent.as_ref();
    is(subject, input, "absent, CONFIRMED", is_right).await
}

async fn foreign(subject: &Subject) -> Verdict {
    let is_right = |answer: &Answer| matches!(answer, Ok(Outcome::NotManaged(_)));
    let input = subject.inputs().volumes.foreign.as_ref();
    is(subject, input, "not_managed", is_right).await
}

async fn young(subject: &Subject) -> Verdict {
    let is_right = |answer: &Answer| match answer {
        Ok(Outcome::Found(_)) => true,
        Ok(_) => is_absent(answer, AbsenceCertainty::NotVisibleYet),
        Err(error) => error.is(ErrorReason::DependencyNotReady),
    };
    let input = subject.inputs().volumes.young.as_ref();
    let what = "found, or absent with NOT_VISIBLE_YET";
    is(subject, input, what, is_right).await
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
