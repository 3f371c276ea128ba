//! How long initialisation took, as upstream's metrics tell it.

use outrigger_testbed::nodes::Machine;

use crate::{
    caller::{Port, value},
    mock::instance,
    stage::Setup,
    wait::holds,
};

#[tokio::test]
async fn n23_delays_are_counted_from_the_creation_of_the_node() {
    let port = Port::reserve();
    let stage = Setup::mock(&[]).scraped_at(&port).start().await;
    // Its instance is late: more than two seconds of back-off.
    stage.register(&Machine::new("n23")).await;
    stage.mock.was_asked(10).await;
    stage.mock.create(instance("n23")).await;
    stage.synced("n23").await;

    let scrape = port.scrape().await;
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
