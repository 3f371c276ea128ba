use std::os::unix::fs::PermissionsExt;

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
        let error = text.parse::<Endpoint>().unwrap_err().to_string();
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

#[test]
fn only_another_users_socket_or_directory_is_suspicious() {
    assert!(!is_foreign(0, 65532) && !is_foreign(65532, 65532) && !is_foreign(0, 0));
    assert!(is_foreign(1000, 65532) && is_foreign(1000, 0));
    let endpoint = |path: &Path| Endpoint { path: path.into() };
    let dir = tempfile::tempdir().unwrap();
    // Of this process; an emptyDir is open to all.
    for mode in [0o755, 0o777, 0o2777] {
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(endpoint(&dir.path().join("x")).suspicion(), None);
    }
    assert_eq!(endpoint(Path::new("/run/x")).suspicion(), None);
}

#[test]
fn each_error_of_a_socket_has_its_hint() {
    let hint = |kind: io::ErrorKind| Endpoint::hint(&kind.into());
    assert!(hint(io::ErrorKind::PermissionDenied).contains("mode 0660"));
    assert!(hint(io::ErrorKind::PermissionDenied).contains("fsGroup"));
    assert!(hint(io::ErrorKind::ConnectionRefused).contains("no process listens"));
    assert!(hint(io::ErrorKind::NotFound).contains("is this its endpoint"));
}
