//! Credentials of a kubeconfig's user that are given there, or in files that it names. All are read again.

use std::path::{Path, PathBuf};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::HeaderValue;
use kube::config::{AuthInfo, ExecConfig};
use secrecy::ExposeSecret;

use super::{
    material::{Material, basic, bearer},
    tls,
};
use crate::kubeconfig::Kubeconfig;

/// A text that is given, or in a file.
#[derive(Clone, Debug)]
enum Text {
    Given(Vec<u8>),
    File(PathBuf),
}

/// Credentials of the user; all absent for an anonymous one.
#[derive(Clone, Default)]
pub(super) struct Files {
    certificate: Option<(Text, Text)>,
    token_file: Option<PathBuf>,
    /// Where there is no file with a token, or it cannot be read.
    header: Option<HeaderValue>,
    /// The kubeconfig that has all of it.
    kubeconfig: Option<Kubeconfig>,
}

impl Files {
    /// # Errors
    /// An entry that is no base64, a certificate without a key, or an `auth-provider`.
    pub(super) fn of(user: &AuthInfo) -> Result<Self, String> {
        if let Some(provider) = &user.auth_provider {
            return Err(format!(
                "no Auth Provider found for name {:?}; name a credential plugin in the user's \
                 `exec` instead of `auth-provider`",
                provider.name
            ));
        }
        let certificate = text(
            "client-certificate",
            user.client_certificate_data.as_deref(),
            user.client_certificate.as_deref(),
        )?;
        let key = text(
            "client-key",
            user.client_key_data
                .as_ref()
                .map(ExposeSecret::expose_secret),
            user.client_key.as_deref(),
        )?;
        let certificate = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => {
                return Err("the user has a client-certificate and no client-key".into());
            }
            (None, Some(_)) => {
                return Err("the user has a client-key and no client-certificate".into());
            }
        };
        let header = match (&user.username, &user.password, &user.token) {
            (Some(name), Some(password), _) if !name.is_empty() => {
                basic(name, password.expose_secret())
            }
            (_, _, Some(token)) if !token.expose_secret().is_empty() => {
                Some(bearer(token.expose_secret())?)
            }
            _ => None,
        };
        let file = user.token_file.as_ref().filter(|file| !file.is_empty());
        Ok(Self {
            certificate,
            token_file: file.map(PathBuf::from),
            header,
            kubeconfig: None,
        })
    }

    /// The same, to be read again from there.
    pub(super) fn in_kubeconfig(self, kubeconfig: Option<Kubeconfig>) -> Self {
        Self { kubeconfig, ..self }
    }

    /// The credentials of the user that the kubeconfig names now.
    fn again(&self) -> Result<Self, String> {
        let Some(kubeconfig) = &self.kubeconfig else {
            return Ok(self.clone());
        };
        let user = kubeconfig.read()?;
        let files = Self::of(&user)?;
        if files.exec(&user).is_some() {
            return Err(
                "the kubeconfig's user has a credential plugin by now, which takes a restart"
                    .into(),
            );
        }
        Ok(files)
    }

    /// The plugin of the user, if nothing goes before it.
    pub(super) fn exec<'a>(&self, user: &'a AuthInfo) -> Option<&'a ExecConfig> {
        let given = self.header.is_some() || self.token_file.is_some();
        user.exec.as_ref().filter(|_| !given)
    }

    /// True if any of it is in a file that is read again.
    pub(super) fn change(&self) -> bool {
        let file = |text: &Text| matches!(text, Text::File(_));
        self.kubeconfig.is_some()
            || self.token_file.is_some()
            || self
                .certificate
                .as_ref()
                .is_some_and(|(certificate, key)| file(certificate) || file(key))
    }

    /// Reads the files. Blocks on the disk.
    ///
    /// # Errors
    /// A file that cannot be read or used, with its name.
    pub(super) fn read(&self) -> Result<Material, String> {
        let mut material = Material {
            header: self.header.clone(),
            ..Material::default()
        };
        if let Some((certificate, key)) = &self.certificate {
            let pair = tls::pair(&certificate.read()?, &key.read()?);
            let pair = pair.map_err(|reason| match (certificate, key) {
                (Text::File(certificate), Text::File(key)) => {
                    format!("{}, {}: {reason}", certificate.display(), key.display())
                }
                _ => reason,
            })?;
            material.certificate = Some(pair);
        }
        if let Some(path) = &self.token_file {
            let token = read(path).map(|token| String::from_utf8_lossy(&token).into_owned());
            let header = token.and_then(|token| match token.trim() {
                "" => Err(format!(
                    "{}: the file with the token is empty",
                    path.display()
                )),
                token => bearer(token).map_err(|reason| format!("{}: {reason}", path.display())),
            });
            match header {
                Ok(header) => material.header = Some(header),
                Err(reason) if material.header.is_none() => return Err(reason),
                Err(_) => {}
            }
        }
        Ok(material)
    }

    /// Reads them as they are now, off the runtime's threads.
    pub(super) async fn read_again(&self) -> Result<Material, String> {
        let files = self.clone();
        let read = tokio::task::spawn_blocking(move || files.again()?.read());
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

impl Text {
    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Given(text) => Ok(text.clone()),
            Self::File(path) => read(path),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// `NAME-data`, which goes before `NAME`.
fn text(name: &str, data: Option<&str>, file: Option<&str>) -> Result<Option<Text>, String> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = BASE64_STANDARD
            .decode(data.trim())
            .map_err(|error| format!("{name}-data is no base64: {error}"))?;
        return Ok(Some(Text::Given(decoded)));
    }
    let file = file.filter(|file| !file.is_empty());
    Ok(file.map(|file| Text::File(PathBuf::from(file))))
}
