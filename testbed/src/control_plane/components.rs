//! The files and command lines of the control plane's components; what is not as in production is commented here.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use rcgen::KeyPair;

use super::{Options, write_private};
use crate::{Error, Result, identity::Authority};

/// Certificates and keys that kube-apiserver reads from files.
pub(super) fn write_files(dir: &Path, authority: &Authority, address: IpAddr) -> Result<()> {
    let server = authority.server(
        "kube-apiserver",
        &[
            "127.0.0.1",
            &address.to_string(),
            "localhost",
            "10.96.0.1",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
        ],
    )?;
    // It is not used, but without it the ConfigMap extension-apiserver-authentication lacks the
    // entries that delegated authentication looks for.
    let front_proxy = Authority::new("outrigger-testbed-front-proxy")?;
    let service_account = KeyPair::generate().map_err(|source| Error::Certificate {
        subject: "service-account".to_owned(),
        source,
    })?;
    let to_kubelet = authority.client("kube-apiserver", Some(super::MASTERS))?;
    for (name, text) in [
        ("ca.crt", authority.pem()),
        ("ca.key", &authority.key()),
        ("front-proxy-ca.crt", front_proxy.pem()),
        ("apiserver.crt", &server.certificate),
        ("apiserver.key", &server.key),
        ("kubelet-client.crt", &to_kubelet.certificate),
        ("kubelet-client.key", &to_kubelet.key),
        ("service-account.pub", &service_account.public_key_pem()),
        ("service-account.key", &service_account.serialize_pem()),
    ] {
        write_private(&dir.join(name), text)?;
    }
    Ok(())
}

/// Sockets in our directory need no ports that another process could bind.
pub(super) fn etcd_socket(dir: &Path) -> PathBuf {
    dir.join("etcd.sock")
}

pub(super) fn etcd_args(dir: &Path) -> Vec<String> {
    let client = format!("unix://{}", etcd_socket(dir).display());
    let peer = format!("unix://{}", dir.join("etcd-peer.sock").display());
    vec![
        "--name=testbed".to_owned(),
        format!("--data-dir={}", dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=testbed={peer}"),
        // The data is worth nothing after a power failure, and syncing it is most of
        // the time of a write.
        "--unsafe-no-fsync".to_owned(),
        "--quota-backend-bytes=8589934592".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(super) fn apiserver_args(dir: &Path, address: SocketAddr, options: &Options) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=unix://{}", etcd_socket(dir).display()),
        format!("--bind-address={}", address.ip()),
        format!("--secure-port={}", address.port()),
        "--permit-port-sharing=true".to_owned(),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!(
            "--requestheader-client-ca-file={}",
            file("front-proxy-ca.crt")
        ),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!(
            "--service-account-signing-key-file={}",
            file("service-account.key")
        ),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112".to_owned(),
        "--service-node-port-range=20000-60000".to_owned(),
        "--allow-privileged=true".to_owned(),
        // The client is measured, so these are out of its way. Clients that are not in
        // system:masters still pass through priority and fairness.
        "--max-requests-inflight=4000".to_owned(),
        "--max-mutating-requests-inflight=4000".to_owned(),
    ];
    if address.ip().is_loopback() {
        // It cannot be advertised; nothing dials the Service anyway.
        args.push("--endpoint-reconciler-type=none".to_owned());
    }
    // A kubelet may do here what it may in a cluster, and no more.
    args.push("--authorization-mode=Node,RBAC".to_owned());
    args.push("--enable-admission-plugins=NodeRestriction".to_owned());
    if options.workloads {
        // Nothing resolves the name of a Node here.
        args.push("--kubelet-preferred-address-types=InternalIP".to_owned());
        for (flag, name) in [("certificate", "crt"), ("key", "key")] {
            let path = file(&format!("kubelet-client.{name}"));
            args.push(format!("--kubelet-client-{flag}={path}"));
        }
        if options.serving_certificates {
            let authority = file("ca.crt");
            args.push(format!("--kubelet-certificate-authority={authority}"));
        }
    } else {
        // Neither tokens of Pods nor the protection of volumes has its controller here: a volume would keep its
        // finalizer for ever.
        let without = "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection";
        args.push(without.to_owned());
    }
    args.extend_from_slice(&options.apiserver_args);
    args
}
