use outrigger_api::v1::{
    self, AbsenceCertainty, get_volume_response::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use outrigger_provider_sdk::{Context, Error, Outcome as Answer, Server, Volumes};
use tonic::{Status, transport::Channel};

use crate::harness::{Named, Rig, context, handshake};

/// Finds volumes by their handles.
struct Disks;

impl Volumes for Disks {
    fn capability(&self) -> v1::VolumesCapability {
        v1::VolumesCapability {
            csi_drivers: vec!["disk.example".to_owned()],
            ..Default::default()
        }
    }

    async fn get_volume(
        &self,
        _: &Context,
        volume: &v1::Volume,
    ) -> Result<Answer<v1::VolumeTopology>, Error> {
        let source = volume.source.as_ref().and_then(|one| one.source.as_ref());
        let handle = match source {
            Some(Source::Csi(volume)) => &volume.volume_handle,
            Some(Source::Cinder(volume)) => &volume.volume_id,
            _ => return Err(Error::unsupported_feature("not looked up here")),
        };
        match handle.as_str() {
            "zonal" => Ok(Answer::Found(v1::VolumeTopology {
                labels: [("zone".to_owned(), "a".to_owned())].into(),
                ..Default::default()
            })),
            "gone" => Ok(Answer::absent("deleted")),
            "young" => Ok(Answer::not_visible_yet("made just now")),
            "foreign" => Ok(Answer::not_managed("another project")),
            _ => Err(Error::malformed_volume_handle("no handle")),
        }
    }
}

async fn client(rig: &Rig) -> VolumesServiceClient<Channel> {
    let channel = rig.dial().await;
    let offered = handshake(channel.clone(), 1, 1).await.unwrap();
    let offered = offered.capabilities.unwrap().volumes.unwrap();
    assert_eq!(offered.csi_drivers, ["disk.example"]);
    VolumesServiceClient::new(channel)
}

fn csi(handle: &str) -> Source {
    Source::Csi(v1::CsiVolumeSource {
        driver: "disk.example".to_owned(),
        volume_handle: handle.to_owned(),
        ..Default::default()
    })
}

async fn ask(
    client: &mut VolumesServiceClient<Channel>,
    source: impl Into<Option<Source>>,
) -> Result<Outcome, Status> {
    let request = v1::GetVolumeRequest {
        context: Some(context("req-1")),
        volume: Some(v1::Volume {
            source: Some(v1::VolumeSource {
                source: source.into(),
            }),
            ..v1::Volume::default()
        }),
    };
    let answer = client.get_volume(request).await?;
    Ok(answer.into_inner().outcome.unwrap())
}

/// VOL-01, VOL-02, VOL-03.
#[tokio::test]
async fn each_outcome_of_a_volume_travels() {
    let rig = Rig::serve(Server::new(Named::new()).volumes(Disks));
    let mut client = client(&rig).await;
    let cinder = Source::Cinder(v1::CinderVolumeSource {
        volume_id: "gone".to_owned(),
    });
    let mut outcomes = Vec::new();
    for source in [csi("zonal"), cinder, csi("foreign"), csi("young")] {
        outcomes.push(ask(&mut client, source).await.unwrap());
    }
    let [
        Outcome::Found(topology),
        Outcome::Absent(absent),
        Outcome::NotManaged(foreign),
        Outcome::Absent(young),
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}");
    };
    assert_eq!(topology.labels["zone"], "a");
    assert_eq!(
        (&*absent.reason, &*foreign.reason),
        ("deleted", "another project")
    );
    assert_eq!(
        (absent.certainty(), young.certainty()),
        (AbsenceCertainty::Confirmed, AbsenceCertainty::NotVisibleYet)
    );
    // A controller of a later minor asks about a kind that is not declared.
    for (source, says) in [(Some(csi("?")), "no handle"), (None, "not looked up here")] {
        let error = ask(&mut client, source).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::InvalidArgument);
        assert_eq!(error.message(), says);
    }
}
