//! Removes all objects of a script, when no controller runs any more.

use k8s_openapi::api::core::v1::{Event, Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams},
};
use outrigger_testbed::{
    Error, Result,
    nodes::{self, Load},
    wire,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{LEASE, SERVICES};

/// Leaves the API server's own Service and the namespaces.
pub(crate) async fn clean(client: &Client) -> Result<()> {
    let names = nodes::names(client, "").await?;
    nodes::delete_all(client, names, Load::default(), |_| {}).await?;
    let services = Api::<Service>::namespaced(client.clone(), "default");
    let services = services.list(&ListParams::default()).await;
    for service in services.map_err(Error::kube("cannot list Services"))? {
        let name = service.name_any();
        if name == "kubernetes" {
            continue;
        }
        let path = format!("{SERVICES}/{name}");
        // A Service that is deleted already goes with its last finalizer.
        if !service.finalizers().is_empty() {
            let patch = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
            wire::patch(client, &path, &patch, &name).await?;
        }
        wire::delete(client, &path, &name).await?;
    }
    wire::delete(client, LEASE, "the Lease").await?;
    for namespace in ["default", "kube-system"] {
        delete(&Api::<Event>::namespaced(client.clone(), namespace)).await?;
    }
    Ok(())
}

async fn delete<K>(all: &Api<K>) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let (delete, list) = (DeleteParams::default(), ListParams::default());
    let deleted = all.delete_collection(&delete, &list).await;
    let what = format!("cannot delete the objects of kind {}", K::kind(&()));
    deleted.map(drop).map_err(Error::kube(what))
}
