use super::*;

#[test]
fn an_endpoint_is_an_absolute_path_of_a_socket() {
    for (text, path) in [
        (
            "unix:///run/outrigger/provider.sock",
            "/run/outrigger/provider.sock",
        ),
        ("unix:/run/provider.sock", "/run/provider.sock"),
    ] {
        let endpoint: Endpoint = text.parse().unwrap();
        assert_eq!(endpoint.path().to_str(), Some(path));
        assert_eq!(endpoint.to_string(), format!("unix://{path}"));
    }
    let default: Endpoint = outrigger_api::DEFAULT_ENDPOINT.parse().unwrap();
    assert_eq!(default.to_string(), outrigger_api::DEFAULT_ENDPOINT);
}

#[test]
fn anything_else_is_refused_with_a_sentence_that_helps() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Endpoint>().unwrap_err();
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(error.contains(&format!("{text:?}")), "{error}");
    };
    check("/run/provider.sock", "is not a Unix socket; write unix:///");
    check("", "is not a Unix socket");
    check("file:///run/provider.sock", "is not a Unix socket");
    check("unix:///run/", "has no absolute path");
    check("unix:provider.sock", "has no absolute path");
    check("unix://run/provider.sock", "with three slashes");
    check("unix:///a\0b", "has no absolute path");
    check("unix:", "has no absolute path");
    check("tcp://127.0.0.1:50051", "TCP without mutual TLS");
    check("127.0.0.1:50051", "is a network address");
    check("localhost:50051", "is a network address");
    check(&format!("unix:///{}", "x".repeat(100)), "has 101 bytes");
    assert!(
        format!("unix:///{}", "x".repeat(99))
            .parse::<Endpoint>()
            .is_ok()
    );
}
