//! The cloud's operations on routes and volumes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cloud, CloudError, RateLimited};
use crate::routes::{Route, RouteSpec, RouteTable};
use crate::volumes::Volume;

impl Cloud {
    // ---- calls of a provider -------------------------------------------------------------

    /// One call to the cloud for the page of all routes after a name, and whether there are more.
    pub async fn route_page(
        &self,
        after: Option<&str>,
    ) -> Result<(Vec<Arc<Route>>, bool), RateLimited> {
        let page = |size| self.0.holdings.lock().routes.page(after, size);
        self.page("ListRoutes", page).await
    }

    /// One call to the cloud that makes a route with its tag, or finds it made.
    pub async fn create_route(&self, spec: RouteSpec) -> Result<Arc<Route>, CloudError> {
        self.pay("CreateRoute").await?;
        let (most, now) = (self.config().max_routes, self.config().clock.now());
        let made = self.0.holdings.lock().routes.create(spec, most, now)?;
        self.changed();
        self.kept().await;
        Ok(made)
    }

    /// One call to the cloud that removes a route of a cluster; with `of_any`, of no cluster too.
    pub async fn delete_route(&self, unwanted: &RouteSpec, of_any: bool) -> Result<(), CloudError> {
        self.pay("DeleteRoute").await?;
        self.0.holdings.lock().routes.delete(unwanted, of_any)?;
        self.changed();
        self.kept().await;
        Ok(())
    }

    // ---- actions of people -------------------------------------------------------------------

    /// All routes, by name.
    pub fn routes(&self) -> Vec<Arc<Route>> {
        self.0.holdings.lock().routes.iter().cloned().collect()
    }

    /// Changes the table behind every provider's back.
    pub fn edit_routes<T>(&self, edit: impl FnOnce(&mut RouteTable) -> T) -> T {
        let edited = edit(&mut self.0.holdings.lock().routes);
        self.changed();
        edited
    }
}

impl Cloud {
    /// One call to the cloud about a volume; none: there is no such volume.
    pub async fn look_up_volume(&self, handle: &str) -> Result<Option<Volume>, RateLimited> {
        self.pay("GetVolume").await?;
        Ok(self.0.holdings.lock().volumes.get(handle).cloned())
    }

    /// All volumes, by handle.
    pub fn volumes(&self) -> Vec<Volume> {
        self.0.holdings.lock().volumes.values().cloned().collect()
    }

    /// Adds those whose handles no volume has.
    pub(super) fn add_volumes(&self, described: Vec<Volume>) {
        self.edit_volumes(|volumes| {
            for volume in described {
                volumes.entry(volume.handle.clone()).or_insert(volume);
            }
        });
    }

    /// Makes, changes and deletes volumes behind every provider's back.
    pub fn edit_volumes<T>(&self, edit: impl FnOnce(&mut BTreeMap<String, Volume>) -> T) -> T {
        let edited = edit(&mut self.0.holdings.lock().volumes);
        self.changed();
        edited
    }
}
