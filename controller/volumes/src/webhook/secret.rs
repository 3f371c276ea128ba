//! The Secret of the certificate that replicas share. If two replicas write at the same time, the API server
//! accepts one of them: each write names the version that it was decided upon.
//!
//! RBAC: `get` and `update` on the named Secret, which the operator makes, empty: the right to create Secrets
//! cannot name one, and a Secret of a type that the API server fills would be a token of any account.

use std::collections::BTreeMap;

use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::{WebhookAddress, certificate::Contents};
use outrigger_kubernetes::{api::Api, error::ApiError};
use outrigger_server::Pem;

const BUNDLE: &str = "ca.crt";
const CURRENT: [&str; 2] = ["tls.crt", "tls.key"];
const NEXT: [&str; 2] = ["next.crt", "next.key"];

/// The Secret as it was read.
pub(super) struct Stored {
    secret: Secret,
}

impl Stored {
    /// # Errors
    /// HTTP 404 if an operator has not made it.
    pub(super) async fn read(api: &Api, address: &WebhookAddress) -> Result<Self, ApiError> {
        let secret = api.get(&path(address)).await?;
        Ok(Self { secret })
    }

    /// Absent if a part is missing.
    pub(super) fn contents(&self) -> Option<Contents> {
        let data = self.secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok();
        let pair = |[certificate, key]: [&str; 2]| {
            Some(Pem {
                certificate: text(certificate)?,
                key: text(key)?,
            })
        };
        Some(Contents {
            bundle: text(BUNDLE)?,
            current: pair(CURRENT)?,
            next: pair(NEXT),
        })
    }

    /// Replaces the contents.
    ///
    /// # Errors
    /// HTTP 409 if another replica was faster.
    pub(super) async fn write(
        self,
        api: &Api,
        address: &WebhookAddress,
        contents: &Contents,
    ) -> Result<(), ApiError> {
        let mut secret = self.secret;
        let data = secret.data.get_or_insert_default();
        data.retain(|key, _| !NEXT.contains(&&**key));
        data.extend(data_of(contents));
        api.update::<Secret>(&path(address), &secret)
            .await
            .map(drop)
    }
}

fn path(
    WebhookAddress {
        namespace, name, ..
    }: &WebhookAddress,
) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

fn data_of(contents: &Contents) -> BTreeMap<String, ByteString> {
    let Contents {
        bundle,
        current,
        next,
    } = contents;
    let mut data = BTreeMap::new();
    let mut put = |key: &str, text: &str| {
        data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
    };
    put(BUNDLE, bundle);
    let pairs = [(CURRENT, Some(current)), (NEXT, next.as_ref())];
    for ([certificate, key], pem) in pairs {
        if let Some(pem) = pem {
            put(certificate, &pem.certificate);
            put(key, &pem.key);
        }
    }
    data
}
