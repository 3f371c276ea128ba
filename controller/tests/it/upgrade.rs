//! From one version to another and back.

mod rolling;

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{controller::program, mock};

/// The programs of one version.
struct Version {
    controller: PathBuf,
    mock: PathBuf,
}

impl Version {
    /// The programs that are built with the tests.
    async fn present() -> Self {
        Self {
            controller: program(),
            mock: mock::binary().await.to_owned(),
        }
    }

    /// The programs that the environment names; the present program stands in for one that it does not name.
    async fn other() -> Self {
        let present = Self::present().await;
        let named = |variable: &str| env::var_os(variable).map(PathBuf::from);
        let other = Self {
            controller: named("OUTRIGGER_OLDER_CONTROLLER").unwrap_or(present.controller),
            mock: named("OUTRIGGER_OLDER_MOCK").unwrap_or(present.mock),
        };
        for program in [&other.controller, &other.mock] {
            assert!(Path::is_file(program), "{} is no file", program.display());
        }
        other
    }
}
