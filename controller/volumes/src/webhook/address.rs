//! Where the API server reaches the webhooks.

/// Where the API server reaches the webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookAddress {
    /// Namespace of the Service, and of the Secret.
    pub namespace: String,
    /// Name of the Service, of the Secret and of the `MutatingWebhookConfiguration`.
    pub name: String,
    /// `--webhook-url`, without a path, and its host.
    pub url: Option<(String, String)>,
}
