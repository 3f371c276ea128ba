//! `outrigger-testbed conformance`: builds a provider of this repository, starts it with its cloud, and runs the
//! conformance suite against it.

use std::path::Path;

use clap::Args;
use tokio::process::Command;

use super::note;
use crate::{
    Error, Result,
    binaries::of_this_project,
    process::Scratch,
    providers::{self, Provider, Run},
};

#[derive(Debug, Args)]
pub(super) struct Conformance {
    /// The provider. It is built first, and a fake of its cloud is started if it needs one.
    #[arg(value_name = "NAME", value_parser = providers::by_name)]
    provider: &'static Provider,
    /// Explore transitions instead of running the cases
    #[arg(long)]
    explore: bool,
    /// Further arguments of `provider-conformance run`, or of `explore`.
    #[arg(last = true, value_name = "ARGUMENT")]
    args: Vec<String>,
}

impl Conformance {
    pub(super) async fn run(self) -> Result<()> {
        let provider = self.provider;
        let suite = of_this_project("provider-conformance")?;
        let programs = suite.parent().unwrap_or(Path::new("."));
        provider.build(note).await?;
        let Run { command, launch } = provider.conformance(programs, self.explore)?;
        let scratch = Scratch::new(false)?;
        let _cloud = launch.start_cloud(scratch.path().join("cloud.log")).await?;
        let mut suite = Command::new("/usr/bin/env");
        suite.args(command).args(self.args).kill_on_drop(true);
        let status = suite.status().await;
        let status = status.map_err(Error::io("run provider-conformance"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::NotConforming {
            provider: provider.name,
            status,
        })
    }
}
