//! Header and client certificate of a credential.

use std::{sync::Arc, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use rustls::sign::CertifiedKey;

/// Header and client certificate that a source yields.
#[derive(Clone, Default)]
pub(crate) struct Material {
    pub(super) header: Option<HeaderValue>,
    pub(super) certificate: Option<Arc<CertifiedKey>>,
    /// How long it is good; none: until it is refused.
    pub(super) life: Option<Duration>,
}

impl Material {
    /// A token that is good for `life`.
    ///
    /// # Errors
    /// A text that no HTTP header can hold, as a sentence.
    pub(crate) fn of_token(token: &str, life: Duration) -> Result<Self, String> {
        Ok(Self {
            header: Some(bearer(token)?),
            life: Some(life),
            ..Self::default()
        })
    }
}

/// `Basic …`, not to be logged.
pub(crate) fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let encoded = BASE64_STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {encoded}"))
}

/// `Bearer …`, not to be logged.
pub(super) fn bearer(token: &str) -> Result<HeaderValue, String> {
    secret(&format!("Bearer {}", token.trim()))
        .ok_or_else(|| "the token holds characters that no HTTP header can".to_owned())
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
