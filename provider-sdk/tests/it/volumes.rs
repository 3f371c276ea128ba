use std::collections::HashMap;

use outrigger_api::v1::{
    self, AbsenceCertainty, get_volume_response::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use outrigger_provider_sdk::{
    Context, Error, NodeRequirement, ServeError, Server, Volume, VolumeLookup, VolumeSource,
    VolumeSourceKind, VolumeTopology, Volumes, VolumesCapability,
};
use tonic::{Status, transport::Channel};

use crate::harness::{Named, Rig, context, handshake};

/// Finds volumes by their handles.
struct Disks;

impl Volumes for Disks {
    fn capability(&self) -> VolumesCapability {
        VolumesCapability::default()
            .with_csi_drivers(["disk.example".to_owned()])
            .with_source_kinds([VolumeSourceKind::Cinder])
    }

    async fn get_volume(&self, _: &Context, volume: &Volume) -> Result<VolumeLookup, Error> {
        let handle = match &volume.source {
            VolumeSource::Csi { volume_handle, .. } => volume_handle,
            VolumeSource::Cinder { volume_id, .. } => volume_id,
            _ => return Err(Error::unsupported_feature("not looked up here")),
        };
        match handle.as_str() {
            "zonal" => Ok(VolumeLookup::Found(
                VolumeTopology::zonal("r", ["a", "b"])
                    .with_node_terms([vec![NodeRequirement::new("k", ["v"])]]),
            )),
            "gone" => Ok(VolumeLookup::Absent("deleted".to_owned())),
            "young" => Ok(VolumeLookup::NotVisibleYet("made just now".to_owned())),
            "foreign" => Ok(VolumeLookup::NotManaged("another project".to_owned())),
            _ => Err(Error::malformed_volume_handle("no handle")),
        }
    }
}

async fn client(rig: &Rig) -> VolumesServiceClient<Channel> {
    let channel = rig.dial().await;
    let offered = handshake(channel.clone(), 1, 1).await.unwrap();
    let offered = offered.capabilities.unwrap().volumes.unwrap();
    assert_eq!(offered.csi_drivers, ["disk.example"]);
    assert_eq!(offered.source_kinds, [v1::VolumeSourceKind::Cinder as i32]);
    VolumesServiceClient::new(channel)
}

fn csi(handle: &str) -> Source {
    Source::Csi(v1::CsiVolumeSource {
        driver: "disk.example".to_owned(),
        volume_handle: handle.to_owned(),
        volume_attributes: HashMap::new(),
    })
}

async fn ask(
    client: &mut VolumesServiceClient<Channel>,
    source: Option<Source>,
) -> Result<Outcome, Status> {
    let request = v1::GetVolumeRequest {
        context: Some(context("req-1")),
        volume: Some(v1::Volume {
            source: Some(v1::VolumeSource { source }),
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
    for source in [csi("zonal"), cinder, csi("foreign"), csi("young")].map(Some) {
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
    assert_eq!(topology.labels["topology.kubernetes.io/zone"], "a__b");
    assert_eq!(topology.node_terms[0].requirements[0].values, ["v"]);
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

/// A capability that the controller would refuse ends the start.
#[tokio::test]
async fn a_wrong_volumes_capability_is_refused_at_the_start() {
    struct Wrong(VolumesCapability);
    impl Volumes for Wrong {
        fn capability(&self) -> VolumesCapability {
            self.0.clone()
        }

        async fn get_volume(&self, _: &Context, _: &Volume) -> Result<VolumeLookup, Error> {
            unreachable!("not served")
        }
    }
    let drivers = |drivers: &[&str]| {
        let drivers = drivers.iter().map(|driver| (*driver).to_owned());
        VolumesCapability::default().with_csi_drivers(drivers.collect::<Vec<_>>())
    };
    for capability in [
        drivers(&[""]),
        drivers(&["d"; 65]),
        drivers(&["d"]).with_max_in_flight(257),
    ] {
        let mut rig = Rig::serve(Server::new(Named::new()).volumes(Wrong(capability)));
        let ended = rig.ended(std::time::Duration::from_secs(5)).await;
        assert!(matches!(ended, Err(ServeError::Provider(_))), "{ended:?}");
    }
}
