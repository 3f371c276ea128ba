//! One API server on which scenarios are swept, one run after the other.

use std::path::PathBuf;

use kube::Client;

use super::{Fault, Scenario, run::Place};
use crate::{ControlPlane, Error, Options, Result};

/// Paths of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// cloud-controller-manager.
    pub(crate) controller: PathBuf,
    /// provider-mock.
    pub(crate) mock: PathBuf,
}

/// A control plane for any number of runs.
pub(crate) struct Rig {
    pub(super) plane: ControlPlane,
    pub(super) client: Client,
    pub(super) programs: Programs,
    /// The files of runs stay.
    pub(super) keep: bool,
}

/// The result of a scenario with a fault at every place.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) scenario: &'static str,
    pub(crate) fault: Fault,
    /// How many places there are.
    pub(crate) places: usize,
    pub(crate) failures: Vec<Failure>,
}

/// A run that did not go as without a fault.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The place of the fault.
    pub(crate) place: usize,
    pub(crate) error: Error,
    /// The folder of its logs and states, if they stay.
    pub(crate) folder: Option<PathBuf>,
}

impl Rig {
    pub(crate) async fn start(programs: Programs, keep: bool) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        Ok(Self {
            client: plane.client()?,
            plane,
            programs,
            keep,
        })
    }

    pub(crate) async fn stop(self) -> Result<()> {
        self.plane.stop().await
    }

    /// Plays a scenario with each fault at each place, or only at the place `at`, and calls `done` with each result.
    pub(crate) async fn sweep(
        &self,
        scenario: &'static Scenario,
        faults: &[Fault],
        at: Option<usize>,
        mut done: impl FnMut(Swept),
    ) -> Result<()> {
        let unharmed = self.play(scenario, None, &[]).await?.states?;
        for fault in faults {
            let mut swept = Swept {
                scenario: &scenario.name,
                fault: *fault,
                places: 0,
                failures: Vec::new(),
            };
            for number in at.unwrap_or(1)..=at.unwrap_or(usize::MAX) {
                let place = Place {
                    fault: *fault,
                    number,
                };
                let played = self.play(scenario, Some(place), &unharmed).await?;
                if let Err(error) = played.states {
                    swept.failures.push(Failure {
                        place: number,
                        error,
                        folder: played.folder,
                    });
                }
                if !played.has_happened {
                    break;
                }
                swept.places += 1;
            }
            done(swept);
        }
        Ok(())
    }
}
