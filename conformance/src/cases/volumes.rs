//! `VolumesService`: lookups of volumes.

mod content;

use outrigger_api::v1::{
    AbsenceCertainty, BatchGetVolumesRequest, CsiVolumeSource, ErrorReason, Volume, VolumeSource,
    VolumeTopology, volume_result::Outcome, volume_source::Source,
};

use crate::{
    call_error::CallError,
    case::{Check, check},
    client::{Answered, Client},
    inputs,
    subject::{Subject, batch_size},
    verdict::{Verdict, expect, failed},
};

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        check("VOL-02", malformed),
        check("VOL-03", absent),
        check("VOL-11", absent_is_confirmed),
        check("VOL-07", foreign),
        check("VOL-08", failing_cloud),
        check("VOL-06", young),
    ];
    checks.extend(content::checks());
    checks
}

/// A volume of the inputs under a key.
fn volume(key: &str, input: &inputs::Volume) -> Volume {
    Volume {
        key: key.to_owned(),
        name: format!("conformance-{key}"),
        source: Some(VolumeSource {
            source: Some(Source::Csi(CsiVolumeSource {
                driver: input.driver.clone(),
                volume_handle: input.handle.clone(),
                volume_attributes: input.attributes.clone().into_iter().collect(),
            })),
        }),
        ..Volume::default()
    }
}

/// The outcome of a volume, or its error.
pub(crate) type Answer = Answered<BatchGetVolumesRequest>;

/// The outcomes in the order of the volumes, or the error of the call.
async fn ask(client: &Client, volumes: Vec<Volume>) -> Verdict<Result<Vec<Answer>, CallError>> {
    let request = BatchGetVolumesRequest {
        items: volumes,
        ..BatchGetVolumesRequest::default()
    };
    client.batch(request).await
}

/// Batches of volumes of the inputs, each under a key of its own.
pub(crate) async fn look_up(subject: &Subject, inputs: &[inputs::Volume]) -> Verdict<Vec<Answer>> {
    let declared = subject.capabilities().volumes.unwrap_or_default();
    let mut answers = Vec::with_capacity(inputs.len());
    for batch in inputs.chunks(batch_size(declared.max_batch_size)) {
        let volumes = batch.iter().zip(0..);
        let volumes = volumes.map(|(input, key)| volume(&i32::to_string(&key), input));
        answers.extend(ask(&subject.client, volumes.collect()).await??);
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
    let volumes = &subject.inputs().volumes;
    let bad = volumes.malformed.clone().unwrap_or_default();
    let mut items = volumes.existing.clone();
    items.insert(items.len() / 2, bad.clone());
    let outcomes = look_up(subject, &items).await?;
    for (input, outcome) in items.iter().zip(&outcomes) {
        if *input != bad {
            found(input, outcome)?;
            continue;
        }
        let error = outcome.as_ref().err();
        expect(
            error.is_some_and(|error| error.is(ErrorReason::MalformedVolumeHandle)),
            format!("{:?} is MALFORMED_VOLUME_HANDLE", input.handle),
            describe(outcome),
        )?;
    }
    Ok(())
}

/// Holds the answer about a volume of the inputs against what the volume is.
async fn is(
    subject: &Subject,
    input: Option<&inputs::Volume>,
    what: &str,
    is_right: fn(&Answer) -> bool,
) -> Verdict {
    let input = input.cloned().unwrap_or_default();
    let answer = alone(subject, &input).await?;
    let expected = format!("{} of {} is {what}", input.handle, input.driver);
    expect(is_right(&answer), expected, describe(&answer))
}

fn is_absent(answer: &Answer, certainty: AbsenceCertainty) -> bool {
    matches!(answer, Ok(Outcome::Absent(absent)) if absent.certainty() == certainty)
}

async fn absent(subject: &Subject) -> Verdict {
    let is_right = |answer: &Answer| matches!(answer, Ok(Outcome::Absent(_)));
    let input = subject.inputs().volumes.absent.as_ref();
    is(subject, input, "absent", is_right).await
}

async fn absent_is_confirmed(subject: &Subject) -> Verdict {
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

async fn alone(subject: &Subject, input: &inputs::Volume) -> Verdict<Answer> {
    let only = std::slice::from_ref(input);
    Ok(look_up(subject, only).await?.remove(0))
}

async fn failing_cloud(subject: &Subject) -> Verdict {
    let input = &subject.inputs().volumes.existing[0];
    let check = async {
        // An error of the whole call says nothing about any volume.
        let answers = ask(&subject.client, vec![volume("0", input)]).await?;
        answers.unwrap_or_default().iter().try_for_each(|answer| {
            expect(
                !matches!(answer, Ok(Outcome::Absent(_) | Outcome::NotManaged(_))),
                format!(
                    "{} is found or an error while the cloud fails",
                    input.handle
                ),
                describe(answer),
            )
        })
    };
    subject.without_cloud(check).await?;
    let look = async || found(input, &alone(subject, input).await?);
    subject.recovers("lookups", look).await
}
