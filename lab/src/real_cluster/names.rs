//! The DNS server for the names of Services, on the host's address towards the cloud.

use std::{fs, net::IpAddr, time::Duration};

use outrigger_testbed::{ControlPlane, Error, Result, process::Process};
use tokio::net::TcpStream;

use crate::workloads;

/// Time for it to listen, which it does once it has read the Services.
const STARTS_WITHIN: Duration = Duration::from_secs(30);

/// Starts it at the usual port of `address`.
pub(super) async fn serve(plane: &ControlPlane, address: IpAddr) -> Result<Process> {
    let program = workloads::find(&workloads::COREDNS).await?;
    let kubeconfig = plane.admin_kubeconfig()?;
    let file = plane.dir().join("Corefile");
    let text = format!(
        ".:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa ip6.arpa {{
    kubeconfig {}
    pods insecure
    fallthrough in-addr.arpa ip6.arpa
  }}
}}
",
        kubeconfig.display()
    );
    fs::write(&file, text).map_err(Error::io(format!("write {}", file.display())))?;
    let args = ["-conf".to_owned(), file.display().to_string()];
    let log = plane.dir().join("coredns.log");
    let mut names = Process::start("CoreDNS", &program, &args, log)?;
    let connect = || async {
        let connected = TcpStream::connect((address, 53)).await;
        connected.map(drop).map_err(|error| error.to_string())
    };
    names.ready(STARTS_WITHIN, connect).await?;
    Ok(names)
}
