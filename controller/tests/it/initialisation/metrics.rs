//! How long initialisation took, as upstream's metrics tell it.

use outrigger_testbed::nodes::Machine;
use tokio::net::TcpSocket;

use crate::{
    mock::instance,
    stage::Setup,
    wait::{holds, until},
};

/// The value of one line of a scrape.
fn value(scrape: &str, name: &str) -> Option<f64> {
    let mut lines = scrape.lines();
    lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test]
async fn n23_delays_are_counted_from_the_creation_of_the_node() {
    // Holds the port, without listening.
    let port = TcpSocket::new_v4().unwrap();
    port.set_reuseport(true).unwrap();
    port.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = port.local_addr().unwrap();
    let stage = Setup::mock(&[])
        .flag("--bind-address=127.0.0.1")
        .flag(&format!("--secure-port={}", address.port()))
        .flag("--permit-port-sharing=true")
        .flag("--authentication-skip-lookup=true")
        .flag("--authorization-always-allow-paths=/metrics")
        .start()
        .await;
    // Its instance is late: more than two seconds of back-off.
    stage.register(&Machine::new("n23")).await;
    stage.mock.was_asked(10).await;
    stage.mock.create(instance("n23")).await;
    stage.synced("n23").await;

    let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    let client = kube::Client::try_from(config).unwrap();
    let scrape = until("metrics", async || {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let scrape = client.request_text(request).await;
        scrape.map_err(|error| error.to_string())
    })
    .await;
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
    ] {
        assert_eq!(
            value(&scrape, &format!("{name}_count ")),
            Some(1.0),
            "{name}"
        );
        let sum = value(&scrape, &format!("{name}_sum ")).unwrap();
        holds((2.0..90.0).contains(&sum), || format!("{name}: {sum}")).unwrap();
        assert!(
            scrape.contains(&format!("# TYPE {name} histogram")),
            "{name}"
        );
    }
}
