//! The mock's route table.

use outrigger_provider_mock::routes::Route;

use super::Mock;

impl Mock {
    /// All routes, by name.
    pub(crate) async fn routes(&self) -> Vec<Route> {
        self.control.routes().await.unwrap().routes
    }

    /// How many calls of each of these methods succeeded.
    pub(crate) async fn succeeded<const N: usize>(&self, methods: [&str; N]) -> [u64; N] {
        let counts = self.control.counters(false).await.unwrap();
        methods.map(|method| counts.calls(method, "OK"))
    }
}
