//! The mock's route table.

use outrigger_provider_mock::{
    control::{Command, ShownRoutes, Targets},
    routes::Route,
};

use super::Mock;

impl Mock {
    /// All routes, by name.
    pub(crate) async fn routes(&self) -> Vec<Route> {
        let shown: ShownRoutes = self.control.ask(&Command::Routes).await.unwrap();
        shown.routes
    }

    /// Another client deletes all of them.
    pub(crate) async fn lose_routes(&self) {
        let all = Targets {
            all: true,
            ..Targets::default()
        };
        self.command(Command::RemoveRoutes(all)).await;
    }
}
