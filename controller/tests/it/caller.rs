//! Whoever asks the controller's HTTPS server for something.

use std::net::Ipv4Addr;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use outrigger_testbed::ControlPlane;
use tokio::net::TcpSocket;

use crate::wait::{holds, until};

/// A port that no other process can take, shared with the controller.
pub(crate) struct Port {
    reserved: TcpSocket,
}

impl Port {
    pub(crate) fn reserve() -> Self {
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuseport(true).unwrap();
        reserved.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self { reserved }
    }

    /// The flags that make the controller serve here.
    pub(crate) fn flags(&self) -> [String; 3] {
        [
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.number()),
            "--permit-port-sharing".to_owned(),
        ]
    }

    pub(crate) fn number(&self) -> u16 {
        self.reserved.local_addr().unwrap().port()
    }

    /// A caller without credentials.
    pub(crate) fn anonymous(&self) -> Caller {
        self.caller(AuthInfo::default())
    }

    /// A caller with a token.
    pub(crate) fn with_token(&self, token: &str) -> Caller {
        self.caller(AuthInfo {
            token: Some(token.to_owned().into()),
            ..AuthInfo::default()
        })
    }

    /// A caller with a client certificate of the cluster's CA.
    pub(crate) async fn with_certificate(
        &self,
        plane: &ControlPlane,
        user: &str,
        group: Option<&str>,
    ) -> Caller {
        let file = Kubeconfig::read_from(plane.kubeconfig(user, group).unwrap()).unwrap();
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
        self.caller(config.unwrap().auth_info)
    }

    /// The metrics, where every caller may read them.
    pub(crate) async fn scrape(&self) -> String {
        self.anonymous().gets("/metrics", 200).await.body
    }

    fn caller(&self, auth_info: AuthInfo) -> Caller {
        let url = format!("https://127.0.0.1:{}", self.number());
        let mut config = Config::new(url.parse().unwrap());
        config.default_retry = false;
        // The controller made its certificate itself.
        config.accept_invalid_certs = true;
        config.auth_info = auth_info;
        Caller(Client::try_from(config).unwrap())
    }
}

/// The value of one line of a scrape: `name`, with its labels, and the blank behind it.
pub(crate) fn value(scrape: &str, name: &str) -> Option<f64> {
    let mut lines = scrape.lines();
    lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// A client that calls the provider.
#[derive(Clone)]
pub(crate) struct Caller(Client);

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: String,
}

impl Caller {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, "").await
    }

    /// Waits until that is answered with `code`.
    pub(crate) async fn gets(&self, path: &str, code: u16) -> Answer {
        until(&format!("{code} for {path}"), async || {
            let answer = self.get(path).await;
            holds(answer.code == code, || format!("{answer:?}"))?;
            Ok(answer)
        })
        .await
    }

    /// The status alone.
    pub(crate) async fn code(&self, path: &str) -> u16 {
        self.get(path).await.code
    }

    /// Waits for the server, if it is not there yet.
    pub(crate) async fn ask(&self, method: Method, path: &str, body: &'static str) -> Answer {
        until(&format!("an answer to {method} {path}"), async || {
            let answer = self.try_ask(method.clone(), path, body).await;
            answer.map_err(|error| error.to_string())
        })
        .await
    }

    async fn try_ask(
        &self,
        method: Method,
        path: &str,
        body: &'static str,
    ) -> Result<Answer, kube::Error> {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let (head, body) = self.0.send(request).await?.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Ok(Answer {
            code: head.status.as_u16(),
            body: String::from_utf8(body.to_vec()).unwrap(),
        })
    }
}
