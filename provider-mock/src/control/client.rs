//! Asks on the control socket.

use std::io;
use std::path::PathBuf;

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::commands::{Command, Failure};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No process listens.
    #[error(
        "no provider-mock answers on {}: {source}; start provider-mock serve, or name its \
         --endpoint or --control-endpoint",
        path.display()
    )]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection broke, or its end is no mock.
    #[error("the answer from {} was not understood: {reason}", path.display())]
    Garbled {
        /// The socket.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// It refused.
    #[error("{0}")]
    Refused(String),
}

/// A client of one mock.
#[derive(Debug, Clone)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// A client of the mock that is controlled through this socket.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Sends a command, and reads its answer.
    pub async fn ask<A: DeserializeOwned>(&self, command: &Command) -> Result<A, ClientError> {
        let answer = self.send(command).await?;
        serde_json::from_slice(&answer).map_err(|error| self.garbled(&error))
    }

    /// Sends a command; its answer as the JSON that came.
    pub async fn send(&self, command: &Command) -> Result<Bytes, ClientError> {
        let command = serde_json::to_vec(command).map_err(|error| self.garbled(&error))?;
        let (status, body) = self.exchange(command).await?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<Failure>(&body) {
            Ok(failure) => Err(ClientError::Refused(failure.error)),
            Err(_) => Err(self.garbled(&format!("HTTP status {status}"))),
        }
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<(StatusCode, Bytes), ClientError> {
        let stream =
            UnixStream::connect(&self.path)
                .await
                .map_err(|source| ClientError::Unreachable {
                    path: self.path.clone(),
                    source,
                })?;
        let request = Request::builder()
            .method(Method::POST)
            .uri("/v1")
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(body))
            .map_err(|error| self.garbled(&error))?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.garbled(&error))?;
        let answer = async move {
            let response = sender.send_request(request).await?;
            let status = response.status();
            // The sender ends with this block, and the connection with it.
            Ok((status, response.into_body().collect().await?.to_bytes()))
        };
        let (answer, _) = tokio::join!(answer, connection);
        answer.map_err(|error: hyper::Error| self.garbled(&error))
    }

    fn garbled(&self, reason: &dyn std::fmt::Display) -> ClientError {
        ClientError::Garbled {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }
}
