//! The `MutatingWebhookConfiguration`, from which the API server knows the webhooks: written once if
//! that is asked for, then only its CAs are kept in sync, so that an operator may change the rest.
//!
//! RBAC: `get` and `patch` on the named `mutatingwebhookconfigurations`, `create` with
//! `--register-webhooks`.

use k8s_openapi::{
    ByteString,
    api::admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig},
};
use serde_json::{Value, json};

use super::{Webhook, WebhookAddress};
use outrigger_kubernetes::{
    api::Api,
    error::ApiError,
    patch::{Operation, Patch},
};

const COLLECTION: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// Volumes of a provisioner have their node affinity already, and must not depend on a webhook.
const NOT_PROVISIONED: &str = "!has(object.metadata.annotations) || \
    !('pv.kubernetes.io/provisioned-by' in object.metadata.annotations) || \
    !has(object.spec.nodeAffinity)";

/// How webhooks are made known.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The webhooks that are registered.
    pub webhooks: Vec<Webhook>,
    /// Where the API server reaches them.
    pub address: WebhookAddress,
    /// `--register-webhooks`.
    pub creates: bool,
}

/// The configuration as it was read.
pub(super) struct Registered(MutatingWebhookConfiguration);

impl Registration {
    /// Returns `None` if there is no such configuration, or no right to read it.
    pub(super) async fn read(&self, api: &Api) -> Result<Option<Registered>, ApiError> {
        let path = format!("{COLLECTION}/{}", self.address.name);
        match api.get::<MutatingWebhookConfiguration>(&path).await {
            Ok(object) => Ok(Some(Registered(object))),
            Err(error) if error.is_not_found() => Ok(None),
            // The CA gets there by other means, unless this process was asked to write it.
            Err(error) if error.code() == Some(403) && !self.creates => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the API server trust `bundle`, if that is this process's business. True if something was written.
    pub(super) async fn trust(
        &self,
        api: &Api,
        registered: Option<Registered>,
        bundle: &str,
    ) -> Result<bool, ApiError> {
        let Some(registered) = registered else {
            if self.creates {
                api.create_unread(COLLECTION, &self.object(bundle)).await?;
            }
            return Ok(self.creates);
        };
        let patch = self.patch(&registered, bundle);
        if patch.is_empty() {
            return Ok(false);
        }
        let path = format!("{COLLECTION}/{}", self.address.name);
        api.patch(&path, &Patch::Json(patch)).await?;
        Ok(true)
    }

    /// Empty if all is as it should be.
    fn patch(&self, registered: &Registered, bundle: &str) -> Vec<Operation> {
        let webhooks = registered.0.webhooks.iter().flatten().enumerate();
        let mut patch: Vec<_> = webhooks
            .filter(|(_, webhook)| self.is_ours(&webhook.client_config))
            .filter(|(_, webhook)| !trusts(&webhook.client_config, bundle))
            .map(|(index, _)| Operation::Add {
                path: format!("/webhooks/{index}/clientConfig/caBundle"),
                value: json!(ByteString(bundle.as_bytes().to_vec())),
            })
            .collect();
        if !patch.is_empty() {
            let version = registered.0.metadata.resource_version.as_deref();
            let test = Operation::Test {
                path: "/metadata/resourceVersion".to_owned(),
                value: version.into(),
            };
            patch.insert(0, test);
        }
        patch
    }

    fn is_ours(&self, client: &WebhookClientConfig) -> bool {
        let by_service = client.service.as_ref().is_some_and(|service| {
            (&service.namespace, &service.name) == (&self.address.namespace, &self.address.name)
        });
        let by_url = client.url.as_ref().zip(self.address.url.as_ref());
        let by_url = by_url.is_some_and(|(url, (ours, _))| {
            let path = url.strip_prefix(ours.as_str());
            path.is_some_and(|path| path.starts_with('/'))
        });
        by_service || by_url
    }

    fn object(&self, bundle: &str) -> Value {
        let webhooks = self.webhooks.iter().map(|webhook| match webhook {
            Webhook::PersistentVolumeLabels => json!({
                "name": format!("{}.outrigger.dev", webhook.name()),
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["persistentvolumes"],
                    "operations": ["CREATE"], "scope": "Cluster",
                }],
                "matchConditions": [{"name": "not-provisioned", "expression": NOT_PROVISIONED}],
                "clientConfig": self.client_config(*webhook, bundle),
            }),
        });
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": self.address.name},
            "webhooks": webhooks.collect::<Vec<_>>(),
        })
    }

    fn client_config(&self, webhook: Webhook, bundle: &str) -> Value {
        let ca_bundle = ByteString(bundle.as_bytes().to_vec());
        let WebhookAddress {
            namespace,
            name,
            url,
        } = &self.address;
        let path = format!("/{}", webhook.name());
        match url {
            Some((url, _)) => json!({"caBundle": ca_bundle, "url": format!("{url}{path}")}),
            None => json!({"caBundle": ca_bundle, "service": {
                "namespace": namespace, "name": name, "path": path, "port": 443,
            }}),
        }
    }
}

impl Registered {
    /// The CAs that the API server has for the webhooks of `registration`; none: it has no such webhook.
    pub(super) fn bundle(&self, registration: &Registration) -> Option<String> {
        let webhooks = self.0.webhooks.iter().flatten();
        let ours = webhooks.filter(|webhook| registration.is_ours(&webhook.client_config));
        let mut bundles: Vec<_> = ours
            .map(|webhook| {
                let bundle = webhook.client_config.ca_bundle.as_ref();
                String::from_utf8_lossy(bundle.map_or(&[], |bundle| &bundle.0)).into_owned()
            })
            .collect();
        bundles.dedup();
        (!bundles.is_empty()).then(|| bundles.concat())
    }
}

fn trusts(client: &WebhookClientConfig, bundle: &str) -> bool {
    let present = client.ca_bundle.as_ref();
    present.is_some_and(|present| present.0 == bundle.as_bytes())
}

#[cfg(test)]
mod tests;
