//! A cloud of namespaces for one test, with servers and clients in it.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use outrigger_provider_linux::balancer::Options;
use outrigger_provider_linux::cloud::{Cloud, MACHINES, Machine, NewMachine};
use outrigger_provider_linux::load_balancer::internal;
use outrigger_provider_linux::pool::Pool;
use outrigger_provider_linux::{LinuxProvider, kernel};
use outrigger_provider_sdk::v1::{ClusterInfo, Node, Service, ServicePort};
use outrigger_provider_sdk::{CancellationToken, Context, Targets};
use tokio::runtime::{Builder, Runtime};

/// Limit of a connection and of an answer.
const LIMIT: Duration = Duration::from_secs(2);

/// A cloud that goes with this value.
pub(crate) struct Rig {
    pub(crate) cloud: Cloud,
    pub(crate) runtime: Runtime,
}

impl Rig {
    /// A cloud without machines, not connected to the host. `None`, with the reason on stderr: this host cannot have one.
    pub(crate) fn new(name: &str) -> Option<Self> {
        if let Some(reason) = missing() {
            eprintln!("skipped: {reason}");
            return None;
        }
        let runtime = Runtime::new().unwrap();
        let cloud = Cloud::named(name).unwrap();
        runtime.block_on(cloud.down()).unwrap();
        let networks = [
            "10.77.0.0/16".parse().unwrap(),
            "fd00:77::/48".parse().unwrap(),
        ];
        runtime.block_on(cloud.up(&networks, None)).unwrap();
        Some(Self { cloud, runtime })
    }

    pub(crate) fn machine(&self, name: &str) -> Machine {
        let new = NewMachine {
            name: name.to_owned(),
            id: None,
            zone: "zone-a".to_owned(),
            kind: "small".to_owned(),
        };
        self.runtime.block_on(self.cloud.add(&new)).unwrap()
    }

    pub(crate) fn machines(&self) -> Vec<Machine> {
        self.runtime.block_on(self.cloud.machines()).unwrap()
    }

    /// A provider as after a start: it knows nothing but what the kernel has.
    pub(crate) fn provider(&self) -> LinuxProvider {
        self.provider_with(false)
    }

    pub(crate) fn provider_with(&self, masquerade: bool) -> LinuxProvider {
        let options = Options {
            pool: Pool::new(&[
                "198.51.100.0/28".parse().unwrap(),
                "2001:db8:1::/124".parse().unwrap(),
            ]),
            masquerade,
            internal_links: vec![MACHINES.to_owned()],
            health_interval: Duration::from_millis(100),
            ..Options::default()
        };
        LinuxProvider::new(options, Some(self.cloud.clone()))
    }

    /// Runs this in the namespace of the router.
    pub(crate) fn in_router<T: Send>(&self, work: impl AsyncFnOnce() -> T + Send) -> T {
        in_namespace(&self.cloud.router(), || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(work())
        })
    }

    /// All that nftables, rules and routes of the router have of the provider.
    pub(crate) fn traces(&self) -> String {
        let router = self.cloud.router();
        let mut traces = inside(&router, &["nft", "list", "ruleset"]).unwrap();
        for family in ["-4", "-6"] {
            for list in [&["rule", "show"][..], &["route", "show", "table", "all"]] {
                let all = inside(&router, &[&["ip", family], list].concat()).unwrap();
                traces.extend(
                    all.lines()
                        .filter(|line| line.contains("proto 201"))
                        .map(|line| format!("{line}\n")),
                );
            }
        }
        traces
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.runtime.block_on(self.cloud.down()).unwrap();
    }
}

/// Why this host cannot have namespaces.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("network namespaces need root".to_owned());
    }
    let is_missing = |program: &&&str| Command::new(program).arg("-V").output().is_err();
    let missing = ["ip", "nft", "conntrack"].iter().find(is_missing)?;
    Some(format!("{missing} is not installed"))
}

/// Runs a program in a namespace; its output, or its error.
pub(crate) fn inside(namespace: &str, command: &[&str]) -> Result<String, String> {
    let output = Command::new("ip")
        .args(["netns", "exec", namespace])
        .args(command)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Runs this on a thread in a namespace.
pub(crate) fn in_namespace<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            kernel::enter(namespace).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}

/// A machine that answers for the addresses of load balancers, as kube-proxy makes a Node do.
pub(crate) struct Server {
    pub(crate) machine: Machine,
}

impl Server {
    /// Serves these ports of TCP and UDP with the name of the machine and the address of the client.
    pub(crate) fn start(machine: Machine, addresses: &[&str], ports: &[u16]) -> Self {
        for address in addresses {
            inside(
                &machine.namespace,
                &["ip", "address", "add", address, "dev", "lo", "nodad"],
            )
            .unwrap();
        }
        for port in ports {
            let (name, namespace) = (machine.name.clone(), machine.namespace.clone());
            let listener = in_namespace(&namespace, || {
                TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).unwrap()
            });
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let name = name.clone();
                    thread::spawn(move || converse(&stream, &name));
                }
            });
            let name = machine.name.clone();
            for address in addresses {
                let address: IpAddr = address.parse().unwrap();
                let name = name.clone();
                // Bound to the address, so that the answer comes from it.
                let socket =
                    in_namespace(&namespace, || UdpSocket::bind((address, *port)).unwrap());
                thread::spawn(move || {
                    let mut buffer = [0; 512];
                    while let Ok((_, client)) = socket.recv_from(&mut buffer) {
                        let _ = socket.send_to(answer(&name, client).as_bytes(), client);
                    }
                });
            }
        }
        Self { machine }
    }

    /// Its Node.
    pub(crate) fn node(&self) -> Node {
        let addresses = self.machine.addresses.iter().copied();
        Node {
            name: self.machine.name.clone(),
            provider_id: self.machine.provider_id.clone(),
            addresses: addresses.map(internal).collect(),
            ..Node::default()
        }
    }
}

fn answer(name: &str, client: SocketAddr) -> String {
    format!("{name} {}\n", client.ip().to_canonical())
}

/// Answers each line with a line.
fn converse(stream: &TcpStream, name: &str) {
    let Ok(client) = stream.peer_addr() else {
        return;
    };
    for line in BufReader::new(stream).lines() {
        if line.is_err()
            || (&*stream)
                .write_all(answer(name, client).as_bytes())
                .is_err()
        {
            return;
        }
    }
}

/// Targets of these servers.
pub(crate) fn targets(servers: &[&Server]) -> Targets {
    Targets::new(servers.iter().map(|server| server.node()))
}

/// The context of a call for the cluster of this UID.
pub(crate) fn context(cluster: &str) -> Context {
    let cluster = ClusterInfo {
        uid: cluster.to_owned(),
        ..ClusterInfo::default()
    };
    Context::detached("test", cluster, CancellationToken::new())
}

/// A Service with these ports, as (protocol, port), and with these families.
pub(crate) fn service(name: &str, ports: &[(&str, i32)], families: &[&str]) -> Service {
    let ports = ports.iter().map(|(protocol, port)| ServicePort {
        protocol: (*protocol).to_owned(),
        port: *port,
        node_port: 30_080,
        ..ServicePort::default()
    });
    Service {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        ports: ports.collect(),
        ip_families: families.iter().map(|&family| family.to_owned()).collect(),
        external_traffic_policy: "Cluster".to_owned(),
        session_affinity: "None".to_owned(),
        ..Service::default()
    }
}

/// A client's connection of TCP.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(client: &Machine, address: &str, port: u16) -> Result<Self, ErrorKind> {
        let endpoint = SocketAddr::new(address.parse().unwrap(), port);
        let connect = || TcpStream::connect_timeout(&endpoint, LIMIT);
        let stream = in_namespace(&client.namespace, connect).map_err(|error| error.kind())?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Ok(Self(BufReader::new(stream)))
    }

    /// Server and address of the client, as the server saw it.
    pub(crate) fn ask(&mut self) -> Result<(String, String), ErrorKind> {
        let mut answer = String::new();
        self.0
            .get_ref()
            .write_all(b"?\n")
            .map_err(|error| error.kind())?;
        self.0
            .read_line(&mut answer)
            .map_err(|error| error.kind())?;
        parse(&answer)
    }
}

fn parse(answer: &str) -> Result<(String, String), ErrorKind> {
    let (server, client) = answer
        .trim()
        .split_once(' ')
        .ok_or(ErrorKind::UnexpectedEof)?;
    Ok((server.to_owned(), client.to_owned()))
}

/// The server that a new connection of TCP is answered by.
pub(crate) fn tcp(client: &Machine, address: &str, port: u16) -> Result<String, ErrorKind> {
    Ok(Connection::open(client, address, port)?.ask()?.0)
}

/// A client's socket of UDP.
pub(crate) struct Datagrams(UdpSocket);

impl Datagrams {
    pub(crate) fn open(client: &Machine, address: &str, port: u16) -> Self {
        let endpoint = SocketAddr::new(address.parse().unwrap(), port);
        let any: SocketAddr = if endpoint.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        }
        .parse()
        .unwrap();
        let socket = in_namespace(&client.namespace, || {
            let socket = UdpSocket::bind(any).unwrap();
            socket.connect(endpoint).unwrap();
            socket
        });
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        Self(socket)
    }

    /// The server that answers.
    pub(crate) fn ask(&self) -> Result<String, ErrorKind> {
        let mut buffer = [0; 512];
        self.0.send(b"?").map_err(|error| error.kind())?;
        let length = self.0.recv(&mut buffer).map_err(|error| error.kind())?;
        Ok(parse(&String::from_utf8_lossy(&buffer[..length]))?.0)
    }
}
