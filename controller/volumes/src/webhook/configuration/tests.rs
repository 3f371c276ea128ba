use super::*;

fn registration(url: Option<(&str, &str)>) -> Registration {
    Registration {
        webhooks: Webhook::ALL.to_vec(),
        address: WebhookAddress {
            namespace: "kube-system".to_owned(),
            name: "hooks".to_owned(),
            url: url.map(|(url, host)| (url.to_owned(), host.to_owned())),
        },
        creates: true,
    }
}

fn read(object: Value) -> Registered {
    Registered(serde_json::from_value(object).unwrap())
}

#[test]
fn its_own_configuration_is_left_alone_until_the_cas_change() {
    for url in [None, Some(("https://10.0.0.7:10260", "10.0.0.7"))] {
        let registration = registration(url);
        let mut object = registration.object("CA");
        object["metadata"]["resourceVersion"] = "7".into();
        // An operator has changed this field.
        object["webhooks"][0]["failurePolicy"] = "Ignore".into();
        let registered = read(object);
        assert_eq!(registered.bundle(&registration).as_deref(), Some("CA"));

        let patch = serde_json::to_value(registration.patch(&registered, "next")).unwrap();
        let expected = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "bmV4dA=="},
        ]);
        assert_eq!(patch, expected);
    }
}

#[test]
fn webhooks_of_others_keep_their_cas() {
    let ours = registration(Some(("https://10.0.0.7:10260", "10.0.0.7")));
    for client in [
        json!({"url": "https://10.0.0.7:102600/persistentvolume-labels"}),
        json!({"url": "https://10.0.0.8:10260/persistentvolume-labels"}),
        json!({"service": {"namespace": "default", "name": "hooks"}}),
    ] {
        let object = json!({"metadata": {}, "webhooks": [{
            "name": "x.example.org", "clientConfig": client,
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
        }]});
        assert!(ours.patch(&read(object), "CA").is_empty(), "{client}");
    }
}
