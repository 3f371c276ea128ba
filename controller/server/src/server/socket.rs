//! The listening socket.

use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr},
};

use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpSocket};

use crate::settings::Serving;

/// Connections that may wait in the kernel.
const BACKLOG: u32 = 1024;

/// Listens at the address of the flags. A wildcard of either family is `[::]` for both (CLI-50), or
/// `0.0.0.0` where the kernel has no IPv6.
pub(super) fn listen(serving: &Serving) -> io::Result<TcpListener> {
    if serving.address.is_unspecified() {
        match on(Ipv6Addr::UNSPECIFIED.into(), serving) {
            Err(error) if serving.address.is_ipv4() && lacks_ipv6(&error) => {}
            listener => return listener,
        }
    }
    on(serving.address, serving)
}

fn lacks_ipv6(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

fn on(address: IpAddr, serving: &Serving) -> io::Result<TcpListener> {
    let socket = match address {
        IpAddr::V4(_) => TcpSocket::new_v4()?,
        IpAddr::V6(_) => {
            let socket = TcpSocket::new_v6()?;
            sockopt::set_ipv6_v6only(&socket, !address.is_unspecified())?;
            socket
        }
    };
    // Go sets it on every listener: a restart must not wait for connections of its predecessor to
    // time out. It does not let two processes listen at once, so that --permit-address-sharing has
    // nothing to add.
    socket.set_reuseaddr(true)?;
    if serving.permit_port_sharing {
        socket.set_reuseport(true)?;
    }
    socket.bind(SocketAddr::new(address, serving.port))?;
    socket.listen(BACKLOG)
}
