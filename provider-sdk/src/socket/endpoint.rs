//! [`Endpoint`]: the address of a provider, the same text for the controller, the provider and its probes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Longest path, in bytes. The system's limit is 107 on Linux and 103 elsewhere; a few bytes are
/// needed for the temporary name beside it.
const MAX_PATH_BYTES: usize = 100;

/// Where a provider is reached: `unix:///absolute/path`.
///
/// ```
/// use std::path::Path;
/// use outrigger_provider_sdk::Endpoint;
///
/// let endpoint: Endpoint = "unix:///run/outrigger/provider.sock".parse().unwrap();
/// assert_eq!(endpoint.path(), Path::new("/run/outrigger/provider.sock"));
///
/// let error = "unix://run/provider.sock".parse::<Endpoint>().unwrap_err();
/// assert!(error.to_string().contains("write unix:///absolute/path"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    path: PathBuf,
}

/// Why a text names no endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {endpoint:?} {problem}")]
pub struct InvalidEndpoint {
    endpoint: String,
    problem: String,
}

impl Endpoint {
    /// The socket at `path`, which must be absolute, name a file, and have at most 100 bytes. It need not exist.
    ///
    /// # Errors
    ///
    /// The text says what is wrong with the path, and how to write it.
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self, InvalidEndpoint> {
        let path = path.into();
        let bytes = path.as_os_str().len();
        let problem = if !path.is_absolute() {
            "has no absolute path; write unix:///absolute/path".to_owned()
        } else if path.file_name().is_none() || path.to_string_lossy().ends_with('/') {
            "names a directory; write unix:///absolute/path/of.sock".to_owned()
        } else if bytes > MAX_PATH_BYTES {
            format!("has a path of {bytes} bytes; a Unix socket's may have {MAX_PATH_BYTES}")
        } else {
            return Ok(Self { path });
        };
        Err(InvalidEndpoint {
            endpoint: format!("unix://{}", path.display()),
            problem,
        })
    }

    /// From the environment: `CLOUDPROVIDER_ENDPOINT`, else `unix:///run/outrigger/provider.sock`.
    ///
    /// # Errors
    ///
    /// The variable names no endpoint.
    pub fn from_env() -> Result<Self, InvalidEndpoint> {
        match std::env::var_os(outrigger_api::ENDPOINT_ENV) {
            Some(text) => text.to_string_lossy().parse(),
            None => outrigger_api::DEFAULT_ENDPOINT.parse(),
        }
    }

    /// Path of the socket file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Name under which the socket is made before it appears at its path.
    pub(crate) fn temporary_path(&self) -> PathBuf {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(".new");
        self.path.with_file_name(name)
    }
}

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem: &str| InvalidEndpoint {
            endpoint: text.to_owned(),
            problem: problem.to_owned(),
        };
        let path = text
            .strip_prefix("unix://")
            .or_else(|| text.strip_prefix("unix:"))
            .ok_or_else(|| invalid("is no Unix socket; write unix:///absolute/path"))?;
        Self::unix(path).map_err(|error| invalid(&error.problem))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_of_files_are_endpoints() {
        for (text, expected) in [
            ("unix:///run/a.sock", Ok("/run/a.sock")),
            ("unix:/run/a.sock", Ok("/run/a.sock")),
            ("unix://run/a.sock", Err("absolute")),
            ("unix:a.sock", Err("absolute")),
            ("unix://", Err("absolute")),
            ("unix:///", Err("directory")),
            ("unix:///run/outrigger/", Err("directory")),
            ("/run/a.sock", Err("no Unix socket")),
            ("tcp://localhost:1", Err("no Unix socket")),
            ("unix-abstract:a", Err("no Unix socket")),
        ] {
            match (text.parse::<Endpoint>(), expected) {
                (Ok(endpoint), Ok(path)) => assert_eq!(endpoint.path(), Path::new(path)),
                (Err(error), Err(why)) => {
                    assert!(error.to_string().contains(why), "{text}: {error}");
                    assert!(error.to_string().contains(text), "{text}: {error}");
                }
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn a_path_that_no_socket_can_have_is_refused_with_its_length() {
        let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
        assert!(Endpoint::unix(path(100)).is_ok());
        let error = Endpoint::unix(path(101)).unwrap_err().to_string();
        assert!(
            error.contains("101 bytes") && error.contains("100"),
            "{error}"
        );
    }
}
