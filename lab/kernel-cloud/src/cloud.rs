//! A cloud of network namespaces on one host: a router, and machines behind it.
//!
//! A link of the router leads to each machine. Its alias names the machine, so that the router alone shows all of them:
//! a machine exists as long as its link does, and runs while the link is up.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::kernel::{Failure, Lock, NAMESPACES, ip_batch, ip_list, run};

/// The router's links to machines: these letters before a number.
pub const MACHINES: &str = "m*";

/// Most bytes that the kernel keeps as the alias of a link.
const MAX_ALIAS: usize = 255;

/// A link with two ends waits for no other host that has its address.
const NO_DUPLICATES: &str = "ipv6/conf/default/accept_dad=0";

/// Why a cloud or a machine cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// A name or a network that cannot be used.
    #[error("{0}")]
    Refused(String),
    /// A command failed.
    #[error(transparent)]
    Kernel(#[from] Failure),
}

/// A cloud on this host, by its name.
#[derive(Clone, Debug)]
pub struct Cloud {
    name: String,
}

/// The alias of the router's loopback interface.
#[derive(Debug, Deserialize, Serialize)]
struct Plan {
    networks: Vec<IpNet>,
}

/// The alias of a link to a machine.
#[derive(Debug, Deserialize, Serialize)]
struct Tag {
    id: String,
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    zone: String,
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    kind: String,
}

/// A machine: a network namespace behind the router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Its name, also its hostname and the name of its Node.
    pub name: String,
    /// `spec.providerID` of its Node. A machine that is made again under its name has another.
    pub provider_id: String,
    /// Name of its network namespace.
    pub namespace: String,
    /// Its zone; may be empty.
    pub zone: String,
    /// Its type; may be empty.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its addresses, IPv4 first.
    pub addresses: Vec<IpAddr>,
    /// The router's addresses on its link, in the same order: its default gateways.
    pub gateways: Vec<IpAddr>,
    /// Its link is up.
    pub running: bool,
    /// The router's link that leads to it.
    pub link: String,
}

/// A machine that is to be made.
#[derive(Clone, Debug)]
pub struct NewMachine {
    /// Its name: 1 to 63 lower case letters, digits, dashes and dots.
    pub name: String,
    /// Its ID, `i-` and eight hexadecimal digits, which no machine of the cloud ever had; `None`: a random one.
    pub id: Option<String>,
    /// A label value, or empty.
    pub zone: String,
    /// A label value, or empty.
    pub kind: String,
}

/// The host's way into a cloud.
#[derive(Clone, Debug)]
pub struct HostLink {
    /// Networks behind the router, besides those of the cloud, that the host sends to it: pools of addresses, Pod CIDRs.
    pub routes: Vec<IpNet>,
}

/// A link as `ip -j link` shows it.
#[derive(Debug, Deserialize)]
struct Link {
    ifname: String,
    #[serde(default)]
    ifalias: String,
    #[serde(default)]
    flags: Vec<String>,
}

impl Cloud {
    /// The cloud of this name, whether it exists or not: 1 to 12 lower case letters and digits.
    pub fn named(name: &str) -> Result<Self, CloudError> {
        let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.is_empty() || name.len() > 12 || !name.chars().all(is_legal) {
            return Err(CloudError::Refused(format!(
                "the name of a cloud is 1 to 12 lower case letters and digits, which {name:?} is not"
            )));
        }
        let name = name.to_owned();
        Ok(Self { name })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the router's network namespace.
    pub fn router(&self) -> String {
        self.namespace("router")
    }

    fn namespace(&self, machine: &str) -> String {
        format!("or-{}-{machine}", self.name)
    }

    /// The host's link to the router.
    fn host_link(&self) -> String {
        format!("or-{}", self.name)
    }

    /// Makes the router, and the host's link to it where that is asked for. Each machine will have a /24 of an IPv4 network
    /// and a /64 of an IPv6 network; the first of them is the host's.
    ///
    /// # Errors
    ///
    /// The cloud exists already, or the process may not make it. The parts that were made before the error are removed.
    pub async fn up(&self, networks: &[IpNet], host: Option<&HostLink>) -> Result<(), CloudError> {
        if networks.is_empty() {
            return Err(CloudError::Refused("a cloud needs a network".to_owned()));
        }
        let subnets = subnets(networks, 0)?;
        let router = self.router();
        run("ip", &["netns", "add", &router], "")
            .await
            .map_err(|failure| {
                if failure.says("File exists") {
                    let name = &self.name;
                    return CloudError::Refused(format!(
                        "the cloud {name} exists already; `cloud down --cloud {name}` removes it"
                    ));
                }
                failure.into()
            })?;
        let made = self.furnish(networks, &subnets, host).await;
        if made.is_err() {
            // The error above is the one to show.
            let _ = self.down().await;
        }
        made
    }

    async fn furnish(
        &self,
        networks: &[IpNet],
        subnets: &[Subnet],
        host: Option<&HostLink>,
    ) -> Result<(), CloudError> {
        let router = self.router();
        let alias = alias(&Plan {
            networks: networks.to_vec(),
        })?;
        // Replies come from the addresses of load balancers, which no route leads back to: no filter by reverse path.
        // A machine that is stopped and started keeps its IPv6 addresses.
        settings(
            &router,
            &[
                "ipv4/conf/all/rp_filter=0",
                "ipv4/conf/default/rp_filter=0",
                "ipv4/ip_forward=1",
                "ipv6/conf/all/forwarding=1",
                "ipv6/conf/all/keep_addr_on_down=1",
                "ipv6/conf/default/keep_addr_on_down=1",
                NO_DUPLICATES,
            ],
        )
        .await?;
        run(
            "ip",
            &["-n", &router, "link", "set", "lo", "up", "alias", &alias],
            "",
        )
        .await?;
        let Some(host) = host else {
            return Ok(());
        };
        let link = self.host_link();
        let mut lines = vec![format!(
            "link add {link} type veth peer name host netns {router}"
        )];
        lines.push(format!("link set {link} up"));
        let mut inside = vec!["link set host up".to_owned()];
        for subnet in subnets {
            inside.push(subnet.address_line(subnet.gateway, "host"));
            lines.push(subnet.address_line(subnet.machine, &link));
        }
        ip_batch(&[], &lines).await?;
        ip_batch(&["-n", &router], &inside).await?;
        let routes = networks.iter().chain(&host.routes);
        let routes = routes.filter_map(|route| {
            let subnet = subnets
                .iter()
                .find(|one| is_same_family(one.gateway, route))?;
            Some(format!(
                "route add {route} via {} dev {link}",
                subnet.gateway
            ))
        });
        Ok(ip_batch(&[], &routes.collect::<Vec<_>>()).await?)
    }

    /// Removes the machines, the router and the host's link. A cloud that does not exist is a success. Processes in the
    /// namespaces are left alone, without a network.
    pub async fn down(&self) -> Result<(), CloudError> {
        let link = self.host_link();
        match run("ip", &["link", "delete", &link], "").await {
            Err(failure) if !failure.says("Cannot find device") => return Err(failure.into()),
            _ => {}
        }
        // The router is last: a second `down` finds it and goes on where the first one ended.
        let prefix = self.namespace("");
        let router = self.router();
        let mut names: Vec<_> = namespaces().await?.into_iter().collect();
        names.retain(|name| name.starts_with(&prefix));
        names.sort_by_key(|name| *name == router);
        if names.contains(&router) {
            let links: Vec<Link> = ip_list(&["-n", &router, "link", "show"]).await?;
            let links = links
                .iter()
                .filter(|link| !link.ifalias.is_empty() && link.ifname != "lo");
            let links = links.map(|link| format!("link delete {}", link.ifname));
            ip_batch(&["-n", &router], &links.collect::<Vec<_>>()).await?;
        }
        let lines = names.iter().map(|name| format!("netns delete {name}"));
        Ok(ip_batch(&[], &lines.collect::<Vec<_>>()).await?)
    }

    /// All machines, by name.
    ///
    /// # Errors
    ///
    /// There is no such cloud, or it cannot be read.
    pub async fn machines(&self) -> Result<Vec<Machine>, CloudError> {
        let (plan, links) = self.read().await?;
        let machines = links.iter().filter_map(|link| self.machine(&plan, link));
        let mut machines: Vec<_> = machines.collect();
        machines.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(machines)
    }

    /// The machine that a link leads to.
    fn machine(&self, plan: &Plan, link: &Link) -> Option<Machine> {
        let tag: Tag = serde_json::from_str(&link.ifalias).ok()?;
        let subnets = subnets(&plan.networks, number(&link.ifname)?).ok()?;
        Some(Machine {
            provider_id: format!("linux://{}/{}", self.name, tag.id),
            namespace: self.namespace(&tag.name),
            name: tag.name,
            zone: tag.zone,
            kind: tag.kind,
            addresses: subnets.iter().map(|subnet| subnet.machine).collect(),
            gateways: subnets.iter().map(|subnet| subnet.gateway).collect(),
            running: link.flags.iter().any(|flag| flag == "UP"),
            link: link.ifname.clone(),
        })
    }

    async fn lock(&self) -> Result<Lock, Failure> {
        Lock::of(&format!("{NAMESPACES}/{}", self.router())).await
    }

    /// The plan and the links of the router.
    async fn read(&self) -> Result<(Plan, Vec<Link>), CloudError> {
        let no_cloud = || {
            let name = &self.name;
            CloudError::Refused(format!(
                "there is no cloud {name}; `cloud up --cloud {name}` makes it"
            ))
        };
        let links: Vec<Link> = match ip_list(&["-n", &self.router(), "link", "show"]).await {
            Err(failure) if failure.says("No such file or directory") => return Err(no_cloud()),
            links => links?,
        };
        let loopback = links.iter().find(|link| link.ifname == "lo");
        let plan = loopback.and_then(|link| serde_json::from_str(&link.ifalias).ok());
        Ok((plan.ok_or_else(no_cloud)?, links))
    }

    /// Makes a machine that runs.
    ///
    /// # Errors
    ///
    /// There is one of that name, a field cannot be used, or the network is full.
    pub async fn add(&self, new: &NewMachine) -> Result<Machine, CloudError> {
        let is_legal =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        let name = &new.name;
        if name.is_empty() || name.len() > 63 || !name.chars().all(is_legal) || name == "router" {
            return Err(CloudError::Refused(format!(
                "the name of a machine is 1 to 63 lower case letters, digits, dashes and dots, and not \"router\"; {name:?} is \
                 none"
            )));
        }
        let _lock = self.lock().await?;
        let random = || format!("i-{:08x}", fastrand::u32(..));
        let id = new.id.clone().unwrap_or_else(random);
        if !is_id(&id) {
            return Err(CloudError::Refused(format!(
                "the ID of a machine is i- and eight hexadecimal digits in lower case, which {id:?} is not"
            )));
        }
        let (plan, links) = self.read().await?;
        let mut machines = links.iter().filter_map(|link| self.machine(&plan, link));
        if machines.any(|machine| machine.name == *name) {
            return Err(CloudError::Refused(format!(
                "there is a machine {name} already"
            )));
        }
        let numbers: BTreeSet<usize> = links
            .iter()
            .filter_map(|link| number(&link.ifname))
            .collect();
        // The loopback interface is a link too: one of these is free.
        let number = (1..=links.len())
            .find(|number| !numbers.contains(number))
            .unwrap_or(1);
        let subnets = subnets(&plan.networks, number)?;
        let tag = alias(&Tag {
            id: id.clone(),
            name: name.clone(),
            zone: new.zone.clone(),
            kind: new.kind.clone(),
        })?;
        let namespace = self.namespace(name);
        // A namespace without a link is what an earlier call left.
        if namespaces().await?.contains(&namespace) {
            run("ip", &["netns", "delete", &namespace], "").await?;
        }
        run("ip", &["netns", "add", &namespace], "").await?;
        settings(
            &namespace,
            &[
                "ipv4/ip_forward=1",
                "ipv6/conf/all/forwarding=1",
                NO_DUPLICATES,
            ],
        )
        .await?;
        let link = format!("m{number}");
        let mut router = vec![format!(
            "link add {link} type veth peer name eth0 netns {namespace}"
        )];
        let mut machine = vec!["link set lo up".to_owned(), "link set eth0 up".to_owned()];
        for subnet in &subnets {
            router.push(subnet.address_line(subnet.gateway, &link));
            machine.push(subnet.address_line(subnet.machine, "eth0"));
        }
        machine.extend(
            subnets
                .iter()
                .map(|subnet| format!("route add default via {}", subnet.gateway)),
        );
        router.push(format!("link set {link} up"));
        ip_batch(&["-n", &self.router()], &router).await?;
        ip_batch(&["-n", &namespace], &machine).await?;
        // From here on the machine exists.
        run(
            "ip",
            &["-n", &self.router(), "link", "set", &link, "alias", &tag],
            "",
        )
        .await?;
        self.find(name).await
    }

    /// The machine of this name.
    async fn find(&self, name: &str) -> Result<Machine, CloudError> {
        let machines = self.machines().await?;
        let machine = machines.into_iter().find(|machine| machine.name == name);
        machine.ok_or_else(|| {
            CloudError::Refused(format!(
                "there is no machine {name} in the cloud {}",
                self.name
            ))
        })
    }

    /// Starts or stops a machine: its link goes up or down. Processes in it go on.
    pub async fn power(&self, name: &str, is_on: bool) -> Result<(), CloudError> {
        let link = self.find(name).await?.link;
        let state = if is_on { "up" } else { "down" };
        let args = ["-n", &self.router(), "link", "set", &link, state];
        Ok(run("ip", &args, "").await.map(drop)?)
    }

    /// Deletes a machine. A machine that does not exist is an error.
    pub async fn delete(&self, name: &str) -> Result<(), CloudError> {
        let machine = self.find(name).await?;
        run(
            "ip",
            &["-n", &self.router(), "link", "delete", &machine.link],
            "",
        )
        .await?;
        Ok(run("ip", &["netns", "delete", &machine.namespace], "")
            .await
            .map(drop)?)
    }
}

/// Returns whether this can be the ID of a machine: `i-` and eight hexadecimal digits in lower case.
pub(crate) fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix("i-").unwrap_or_default();
    digits.len() == 8 && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

/// The number of a machine, from the name of its link.
fn number(link: &str) -> Option<usize> {
    link.strip_prefix('m')?.parse().ok()
}

fn alias(content: &impl Serialize) -> Result<String, CloudError> {
    let alias = serde_json::to_string(content).unwrap_or_default();
    if alias.len() > MAX_ALIAS {
        return Err(CloudError::Refused(format!(
            "{alias} has {} bytes, and the alias of a link at most {MAX_ALIAS}; use shorter names",
            alias.len()
        )));
    }
    Ok(alias)
}

/// Names of all named network namespaces.
async fn namespaces() -> Result<BTreeSet<String>, Failure> {
    #[derive(Deserialize)]
    struct Namespace {
        name: String,
    }
    let listed: Vec<Namespace> = ip_list(&["netns", "list"]).await?;
    Ok(listed.into_iter().map(|one| one.name).collect())
}

/// Writes settings below /proc/sys/net of a namespace, each as `path=value`.
async fn settings(namespace: &str, settings: &[&str]) -> Result<(), Failure> {
    let script = settings
        .iter()
        .filter_map(|setting| setting.split_once('='));
    let script: Vec<_> = script
        .map(|(path, value)| format!("echo {value} > /proc/sys/net/{path}"))
        .collect();
    let args = ["netns", "exec", namespace, "sh", "-ec", &script.join("\n")];
    run("ip", &args, "").await.map(drop)
}

/// The two addresses of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Subnet {
    gateway: IpAddr,
    machine: IpAddr,
    length: u8,
}

impl Subnet {
    fn address_line(&self, address: IpAddr, link: &str) -> String {
        let option = if address.is_ipv6() { " nodad" } else { "" };
        format!("address add {address}/{} dev {link}{option}", self.length)
    }
}

fn is_same_family(address: IpAddr, network: &IpNet) -> bool {
    address.is_ipv4() == network.network().is_ipv4()
}

/// The subnet of this number of each network, IPv4 first.
fn subnets(networks: &[IpNet], number: usize) -> Result<Vec<Subnet>, CloudError> {
    let mut subnets = Vec::new();
    for network in networks {
        let length = if network.network().is_ipv4() { 24 } else { 64 };
        let subnet = network
            .subnets(length)
            .ok()
            .and_then(|mut all| all.nth(number));
        let subnet = subnet.ok_or_else(|| {
            CloudError::Refused(format!(
                "the network {network} has no /{length} number {number}; use a larger one"
            ))
        })?;
        let gateway = next(subnet.network());
        subnets.push(Subnet {
            gateway,
            machine: next(gateway),
            length,
        });
    }
    subnets.sort_by_key(|subnet| subnet.gateway);
    Ok(subnets)
}

fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(ip) => std::net::Ipv4Addr::from_bits(ip.to_bits().wrapping_add(1)).into(),
        IpAddr::V6(ip) => std::net::Ipv6Addr::from_bits(ip.to_bits().wrapping_add(1)).into(),
    }
}
