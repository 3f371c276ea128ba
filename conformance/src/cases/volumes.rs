//! `VolumesService`: lookups of volumes.

mod content;

use outrigger_api::v1::{
    BatchGetVolumesRequest, CsiVolumeSource, ErrorReason, Volume, VolumeResult, VolumeSource,
    VolumeTopology, volume_result::Outcome, volume_source::Source,
};

use crate::{
    case::{Capability::Volumes, Case, Input, must, should},
    client::{CallError, Client},
    inputs,
    subject::Subject,
    verdict::{Verdict, expect, failed},
};

const FILE: &str = "volumes.proto";

pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        must("VOL-02", "of a batch, the volume with a malformed handle is MALFORMED_VOLUME_HANDLE, and no other")
            .of(Volumes)
            .needs(Input::ExistingVolume)
            .needs(Input::MalformedVolume)
            .clause(FILE, "BatchGetVolumes", "An error of one volume is its own result; an error of the call is that of each.")
            .check(|subject| Box::pin(malformed(subject))),
        must("VOL-03", "a volume that does not exist is absent, and no error")
            .of(Volumes)
            .needs(Input::AbsentVolume)
            .clause(FILE, "VolumeResult.absent", "The provider looked and there is none.")
            .check(|subject| Box::pin(absent(subject))),
        must("VOL-07", "a volume of another account or project is not_managed, and no error")
            .of(Volumes)
            .needs(Input::ForeignVolume)
            .clause(FILE, "VolumeResult.not_managed", "Not this provider's volume.")
            .check(|subject| Box::pin(foreign(subject))),
        must("VOL-08", "while the cloud fails no volume is absent")
            .of(Volumes)
            .needs(Input::ExistingVolume)
            .needs(Input::CloudSwitch)
            .clause(FILE, "VolumeAbsent", "There is no such volume. A provider that cannot be certain, since a young volume may not be visible, answers DEPENDENCY_NOT_READY instead.")
            .check(|subject| Box::pin(failing_cloud(subject))),
        should("VOL-06", "a volume that was made a moment ago is found or DEPENDENCY_NOT_READY, not absent")
            .of(Volumes)
            .needs(Input::YoungVolume)
            .clause(FILE, "VolumeAbsent", "A provider that cannot be certain, since a young volume may not be visible, answers DEPENDENCY_NOT_READY instead.")
            .check(|subject| Box::pin(young(subject))),
        should("VOL-09", "a batch without volumes, or with one key twice, is INVALID_REQUEST")
            .of(Volumes)
            .clause(FILE, "BatchGetVolumesRequest.volumes", "1 to VolumesCapability.max_batch_size, no key twice.")
            .check(|subject| Box::pin(malformed_batches(subject))),
    ];
    cases.extend(content::cases());
    cases
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

/// The results as they came.
async fn ask(
    subject: &Subject,
    client: &Client,
    volumes: Vec<Volume>,
) -> Result<Vec<VolumeResult>, CallError> {
    let request = BatchGetVolumesRequest {
        context: subject.context(),
        volumes,
    };
    Ok(client.batch_get_volumes(request).await?.results)
}

/// The outcomes in the order of the volumes; fails unless there is one result for each.
fn one_each(volumes: &[Volume], results: &[VolumeResult]) -> Verdict<Vec<Outcome>> {
    let keys: Vec<_> = results.iter().map(|result| &result.key).collect();
    expect(
        results.len() == volumes.len(),
        format!(
            "BatchGetVolumes has exactly one result for each of {}",
            volumes.len()
        ),
        format!("results for {keys:?}"),
    )?;
    let outcome = |volume: &Volume| {
        let of_key: Vec<_> = results.iter().filter(|one| one.key == volume.key).collect();
        let expected = format!("one result for {:?}, with an outcome", volume.key);
        match of_key.as_slice() {
            [result] => match &result.outcome {
                Some(outcome) => Ok(outcome.clone()),
                None => Err(failed(expected, "no outcome")),
            },
            _ => Err(failed(expected, format!("results for {keys:?}"))),
        }
    };
    volumes.iter().map(outcome).collect()
}

/// Batches of volumes of the inputs, each under a key of its own.
async fn look_up(
    subject: &Subject,
    client: &Client,
    inputs: &[inputs::Volume],
) -> Verdict<Vec<Outcome>> {
    let declared = subject.capabilities().volumes.unwrap_or_default();
    let size = match declared.max_batch_size {
        0 => 100,
        size => size.min(500) as usize,
    };
    let mut outcomes = Vec::with_capacity(inputs.len());
    for batch in inputs.chunks(size) {
        let volumes: Vec<_> = (0..)
            .zip(batch)
            .map(|(key, input)| volume(&key.to_string(), input))
            .collect();
        let results = ask(subject, client, volumes.clone()).await?;
        outcomes.extend(one_each(&volumes, &results)?);
    }
    Ok(outcomes)
}

fn describe(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Found(topology) => format!("found, {topology:?}"),
        Outcome::Absent(absent) => format!("absent: {:?}", absent.reason),
        Outcome::NotManaged(of_another) => format!("not_managed: {:?}", of_another.reason),
        Outcome::Error(status) => CallError::of_item("BatchGetVolumes", status).to_string(),
    }
}

fn found(input: &inputs::Volume, outcome: &Outcome) -> Verdict<VolumeTopology> {
    match outcome {
        Outcome::Found(topology) => Ok(topology.clone()),
        other => Err(failed(
            format!("{} of {} is found", input.handle, input.driver),
            describe(other),
        )),
    }
}

async fn malformed(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let volumes = &subject.inputs().volumes;
    let bad = volumes.malformed.clone().unwrap_or_default();
    let mut asked = volumes.existing.clone();
    asked.insert(asked.len() / 2, bad.clone());
    let outcomes = look_up(subject, &client, &asked).await?;
    for (input, outcome) in asked.iter().zip(&outcomes) {
        if *input != bad {
            found(input, outcome)?;
            continue;
        }
        let is_malformed = match outcome {
            Outcome::Error(status) => {
                CallError::of_item("BatchGetVolumes", status).is(ErrorReason::MalformedVolumeHandle)
            }
            _ => false,
        };
        expect(
            is_malformed,
            format!("{:?} is MALFORMED_VOLUME_HANDLE", input.handle),
            describe(outcome),
        )?;
    }
    Ok(())
}

async fn absent(subject: &Subject) -> Verdict {
    let input = subject.inputs().volumes.absent.clone().unwrap_or_default();
    let outcome = alone(subject, &input).await?;
    expect(
        matches!(outcome, Outcome::Absent(_)),
        format!("{} of {} is absent", input.handle, input.driver),
        describe(&outcome),
    )
}

async fn foreign(subject: &Subject) -> Verdict {
    let input = subject.inputs().volumes.foreign.clone().unwrap_or_default();
    let outcome = alone(subject, &input).await?;
    expect(
        matches!(outcome, Outcome::NotManaged(_)),
        format!("{} of {} is not_managed", input.handle, input.driver),
        describe(&outcome),
    )
}

async fn young(subject: &Subject) -> Verdict {
    let input = subject.inputs().volumes.young.clone().unwrap_or_default();
    let outcome = alone(subject, &input).await?;
    let right = match &outcome {
        Outcome::Found(_) => true,
        Outcome::Error(status) => {
            CallError::of_item("BatchGetVolumes", status).is(ErrorReason::DependencyNotReady)
        }
        Outcome::Absent(_) | Outcome::NotManaged(_) => false,
    };
    expect(
        right,
        format!(
            "{} of {} is found or DEPENDENCY_NOT_READY",
            input.handle, input.driver
        ),
        describe(&outcome),
    )
}

async fn alone(subject: &Subject, input: &inputs::Volume) -> Verdict<Outcome> {
    let client = subject.connect().await?;
    let only = std::slice::from_ref(input);
    Ok(look_up(subject, &client, only).await?.remove(0))
}

async fn failing_cloud(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let input = &subject.inputs().volumes.existing[0];
    let volumes = vec![volume("0", input)];
    let asked = async {
        // An error of the whole call says nothing about any volume.
        let Ok(results) = ask(subject, &client, volumes.clone()).await else {
            return Ok(());
        };
        let outcome = one_each(&volumes, &results)?.remove(0);
        expect(
            !matches!(outcome, Outcome::Absent(_) | Outcome::NotManaged(_)),
            format!(
                "{} is found or an error while the cloud fails",
                input.handle
            ),
            describe(&outcome),
        )
    };
    subject.without_cloud(asked).await?;
    let look = async || {
        let outcome = alone(subject, input).await;
        let seen = outcome.and_then(|outcome| found(input, &outcome));
        seen.map_err(|stop| format!("{stop:?}"))
    };
    let limit = std::time::Duration::from_mins(1);
    subject
        .wait_for("lookups work again with the cloud", limit, look)
        .await?;
    Ok(())
}

async fn malformed_batches(subject: &Subject) -> Verdict {
    let client = subject.connect().await?;
    let declared = subject.capabilities().volumes.unwrap_or_default();
    let input = inputs::Volume {
        driver: declared.csi_drivers.first().cloned().unwrap_or_default(),
        handle: subject.name(),
        ..inputs::Volume::default()
    };
    let one = volume("0", &input);
    for (batch, text) in [
        (Vec::new(), "without volumes"),
        (vec![one.clone(), one], "with one key twice"),
    ] {
        let expected = format!("a batch {text} is INVALID_REQUEST");
        match ask(subject, &client, batch).await {
            Ok(_) => return Err(failed(expected, "it is answered")),
            Err(error) => expect(error.is(ErrorReason::InvalidRequest), expected, error)?,
        }
    }
    Ok(())
}
