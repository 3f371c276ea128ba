use super::*;

fn items(text: &str) -> Vec<String> {
    match text {
        "" => Vec::new(),
        _ => text.split(',').map(Into::into).collect(),
    }
}

fn check(flag: &str, expected: &str) {
    let got = match Controllers::evaluate(&items(flag)) {
        Ok(controllers) => Controller::ALL
            .into_iter()
            .filter(|controller| controllers.enabled(*controller))
            .map(Controller::alias)
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => format!("error: {error}"),
    };
    assert_eq!(got, expected, "--controllers={flag}");
}

const ALL: &str = "cloud-node cloud-node-lifecycle route service";

#[test]
fn cli_20_21_canonical_names_and_aliases() {
    for controller in Controller::ALL {
        check(controller.name(), controller.alias());
        check(controller.alias(), controller.alias());
    }
    check(
        "service-loadbalancer",
        r#"error: "service-loadbalancer" is not in the list of known controllers"#,
    );
}

#[test]
fn a_name_needs_no_controller_at_its_end() {
    for controller in Controller::ALL {
        let name = controller.name().trim_end_matches("-controller");
        check(name, controller.alias());
        check(&format!("-{name},{}", controller.name()), "");
    }
}

/// Another program of the cluster may allocate.
#[test]
fn star_does_not_enable_the_allocator_of_pod_cidrs() {
    let all = "cloud-node cloud-node-lifecycle nodeipam route service";
    check("*,node-ipam", all);
    check("nodeipam,*", all);
    check("*,-nodeipam", ALL);
}

/// Legacy: an operator asks for it.
#[test]
fn star_does_not_enable_labels_of_volumes() {
    let all = "cloud-node cloud-node-lifecycle route persistentvolume-labels service";
    check("*,persistentvolume-labels", all);
    check("persistentvolume-labels-controller,*", all);
    check("*,-persistentvolume-labels", ALL);
}

/// It needs a right that the others do without: an operator asks for it.
#[test]
fn star_does_not_enable_the_approval_of_serving_certificates() {
    let all = "cloud-node cloud-node-lifecycle kubelet-serving-approving route service";
    check("*,kubelet-serving-approving", all);
    check("kubelet-serving-approving-controller,*", all);
    check("*,-kubelet-serving-approving", ALL);
}

#[test]
fn cli_22_star_enables_and_minus_disables() {
    check("*", ALL);
    check("*,-service", "cloud-node cloud-node-lifecycle route");
    check("cloud-node,route", "cloud-node route");
}

#[test]
fn cli_23_aliases_are_translated_with_and_without_the_minus() {
    check("*,-service,-route", "cloud-node cloud-node-lifecycle");
    check("-service,service-lb-controller", "");
    check("service-lb-controller,-service", "service");
}

#[test]
fn cli_24_the_first_item_wins_and_the_star_may_stand_anywhere() {
    check("service,-service", "service");
    check("-service,service", "");
    check("-service,*", "cloud-node cloud-node-lifecycle route");
    check(
        "*,-service,service",
        "cloud-node cloud-node-lifecycle route",
    );
}

#[test]
fn cli_25_without_a_star_the_rest_is_off() {
    check("", "");
    check("-service", "");
    check("-service,route", "route");
}

#[test]
fn cli_26_unknown_names_are_errors_without_the_minus() {
    check(
        "foo",
        r#"error: "foo" is not in the list of known controllers"#,
    );
    check(
        "-foo",
        r#"error: "foo" is not in the list of known controllers"#,
    );
    check(
        "-*",
        r#"error: "*" is not in the list of known controllers"#,
    );
}

#[test]
fn cli_70_webhooks_follow_the_same_rules() {
    let webhooks = |flag: &str| evaluate::<1>(&items(flag), &[], "webhooks");
    assert_eq!(webhooks("*"), Ok(vec![]));
    assert_eq!(
        webhooks("foo"),
        Err(r#""foo" is not in the list of known webhooks"#.into())
    );
}
