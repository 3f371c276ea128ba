use std::collections::HashMap;

use outrigger_api::v1::{
    self, AbsenceCertainty, BatchGetVolumesRequest, volume_result::Outcome, volume_source::Source,
    volumes_service_client::VolumesServiceClient,
};
use outrigger_provider_sdk::{
    Context, Error, NodeRequirement, ServeError, Server, Volume, VolumeLookup, VolumeLookups,
    VolumeSource, VolumeSourceKind, VolumeTopology, Volumes, VolumesCapability,
};
use tonic::transport::Channel;

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
            "panics" => panic!("as scripted"),
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

fn volume(key: &str, source: Option<Source>) -> v1::Volume {
    v1::Volume {
        key: key.to_owned(),
        source: Some(v1::VolumeSource { source }),
        ..v1::Volume::default()
    }
}

fn csi(key: &str, handle: &str) -> v1::Volume {
    let source = v1::CsiVolumeSource {
        driver: "disk.example".to_owned(),
        volume_handle: handle.to_owned(),
        volume_attributes: HashMap::new(),
    };
    volume(key, Some(Source::Csi(source)))
}

fn ask(volumes: Vec<v1::Volume>) -> BatchGetVolumesRequest {
    BatchGetVolumesRequest {
        context: Some(context("req-1")),
        items: volumes,
    }
}

/// VOL-01, VOL-02, VOL-03.
#[tokio::test]
async fn each_outcome_of_a_volume_travels() {
    let rig = Rig::serve(Server::new(Named::new()).volumes(Disks));
    let mut client = client(&rig).await;
    let cinder = Source::Cinder(v1::CinderVolumeSource {
        volume_id: "gone".to_owned(),
    });
    let volumes = vec![
        csi("0", "zonal"),
        volume("1", Some(cinder)),
        csi("2", "foreign"),
        csi("3", "?"),
        csi("4", "young"),
    ];
    let answer = client.batch_get_volumes(ask(volumes)).await.unwrap();
    let results = answer.into_inner().results;
    let keys: Vec<_> = results.iter().map(|result| &*result.key).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4"]);
    let outcomes: Vec<_> = results
        .iter()
        .map(|r| r.outcome.as_ref().unwrap())
        .collect();
    let [
        Outcome::Found(topology),
        Outcome::Absent(absent),
        Outcome::NotManaged(foreign),
        Outcome::Error(status),
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
    assert_eq!(status.code, tonic::Code::InvalidArgument as i32);
}

#[tokio::test]
async fn a_panic_about_one_volume_is_its_own() {
    let rig = Rig::serve(Server::new(Named::new()).volumes(Disks));
    let volumes = vec![csi("0", "panics"), csi("1", "zonal")];
    let answer = client(&rig).await.batch_get_volumes(ask(volumes)).await;
    let results = answer.unwrap().into_inner().results;
    assert!(matches!(results[0].outcome, Some(Outcome::Error(_))));
    assert!(matches!(results[1].outcome, Some(Outcome::Found(_))));
}

/// A controller of a later minor asks about a kind that is not declared.
#[tokio::test]
async fn a_volume_of_no_known_source_reaches_its_handler_as_unknown() {
    let rig = Rig::serve(Server::new(Named::new()).volumes(Disks));
    let volumes = vec![volume("0", None), csi("1", "zonal")];
    let answer = client(&rig).await.batch_get_volumes(ask(volumes)).await;
    let results = answer.unwrap().into_inner().results;
    let Some(Outcome::Error(status)) = &results[0].outcome else {
        panic!("{results:?}")
    };
    assert_eq!(status.message, "not looked up here");
    assert!(matches!(results[1].outcome, Some(Outcome::Found(_))));
}

/// A handler of its own batches that leaves one out.
struct Forgetful;

impl Volumes for Forgetful {
    fn capability(&self) -> VolumesCapability {
        VolumesCapability::default().with_csi_drivers(["disk.example".to_owned()])
    }

    async fn get_volume(&self, _: &Context, _: &Volume) -> Result<VolumeLookup, Error> {
        unreachable!("the batch is asked")
    }

    async fn get_volumes(&self, _: &Context, volumes: &[Volume]) -> Result<VolumeLookups, Error> {
        let lookup = || Ok(VolumeLookup::Found(VolumeTopology::default()));
        Ok([
            (volumes[0].key.clone(), lookup()),
            ("stray".to_owned(), lookup()),
        ]
        .into())
    }
}

#[tokio::test]
async fn a_volume_without_a_result_gets_an_error() {
    let rig = Rig::serve(Server::new(Named::new()).volumes(Forgetful));
    let channel = rig.dial().await;
    handshake(channel.clone(), 1, 1).await.unwrap();
    let mut client = VolumesServiceClient::new(channel);
    let volumes = vec![csi("0", "a"), csi("1", "b")];
    let results = client.batch_get_volumes(ask(volumes)).await.unwrap();
    let results = results.into_inner().results;
    assert_eq!(results.len(), 2);
    assert!(matches!(results[0].outcome, Some(Outcome::Found(_))));
    assert!(matches!(results[1].outcome, Some(Outcome::Error(_))));
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
        drivers(&["d"]).with_max_batch_size(501),
        drivers(&["d"]).with_max_in_flight(65),
    ] {
        let mut rig = Rig::serve(Server::new(Named::new()).volumes(Wrong(capability)));
        let ended = rig.ended(std::time::Duration::from_secs(5)).await;
        assert!(matches!(ended, Err(ServeError::Provider(_))), "{ended:?}");
    }
}
