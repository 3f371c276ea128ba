//! The mock's route table.

use outrigger_provider_mock::{
    control::{
        Targets,
        operations::{COUNTERS, REMOVE_ROUTES, ROUTES},
    },
    routes::Route,
};

use super::Mock;

impl Mock {
    /// All routes, by name.
    pub(crate) async fn routes(&self) -> Vec<Route> {
        self.control.ask(ROUTES, &()).await.unwrap().routes
    }

    /// Another client deletes all of them.
    pub(crate) async fn lose_routes(&self) {
        let all = Targets {
            all: true,
            ..Targets::default()
        };
        self.control.ask(REMOVE_ROUTES, &all).await.unwrap();
    }

    /// How many calls of each of these methods succeeded.
    pub(crate) async fn succeeded<const N: usize>(&self, methods: [&str; N]) -> [u64; N] {
        let counts = self.control.ask(COUNTERS, &()).await.unwrap();
        methods.map(|method| counts.calls(method, "OK"))
    }
}
