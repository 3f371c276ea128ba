use super::*;

fn environment(no_proxy: &str) -> Environment {
    Environment {
        https_proxy: "http://proxy.example:3128".into(),
        http_proxy: "plain.example:8080".into(),
        no_proxy: no_proxy.into(),
    }
}

fn to(server: &'static str, no_proxy: &str) -> Option<String> {
    let proxy = Proxy::to(&Uri::from_static(server), None, &environment(no_proxy));
    proxy.unwrap().map(|proxy| format!("{proxy:?}"))
}

#[test]
fn no_proxy_is_read_as_by_go() {
    for (server, no_proxy, direct) in [
        ("https://api.example.com:6443", "", false),
        ("https://api.example.com:6443", "*", true),
        ("https://api.example.com:6443", "example.com", true),
        (
            "https://API.example.com:6443",
            " other , Example.com ",
            true,
        ),
        ("https://api.example.com:6443", ".example.com", true),
        ("https://api.example.com:6443", "*.example.com", true),
        ("https://example.com:6443", ".example.com", false),
        ("https://example.com:6443", "*.example.com", false),
        ("https://example.com:6443", "example.com", true),
        ("https://notexample.com:6443", "example.com", false),
        ("https://api.example.com:6443", "api.example.com:6443", true),
        ("https://api.example.com:6443", "api.example.com:443", false),
        ("https://api.example.com", "api.example.com:443", true),
        ("https://10.96.0.1", "10.96.0.0/12", true),
        ("https://10.96.0.1", "10.0.0.0/16", false),
        ("https://10.96.0.1", "10.96.0.1", true),
        ("https://10.96.0.1:6443", "10.96.0.1:6443", true),
        ("https://10.96.0.1:6443", "10.96.0.1:443", false),
        ("https://[fd00::1]:6443", "fd00::1", true),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", true),
        ("https://[fd00::1]:6443", "[fd00::1]:443", false),
        ("https://[fd00::1]:6443", "fd00::/64", true),
        ("https://api.example.com", ",.,*.,:443,", false),
        // This machine.
        ("https://localhost:6443", "", true),
        ("https://127.0.0.1:6443", "", true),
        ("https://[::1]:6443", "", true),
    ] {
        let proxy = (!direct).then(|| "http://proxy.example:3128/".to_owned());
        assert_eq!(
            to(server, no_proxy),
            proxy,
            "{server} with NO_PROXY={no_proxy}"
        );
    }
    let plain = to("http://api.example.com:8080", "");
    assert_eq!(plain.as_deref(), Some("http://plain.example:8080/"));
}

#[test]
fn the_kubeconfig_goes_before_the_environment() {
    let server = Uri::from_static("https://127.0.0.1:6443");
    let proxy = Proxy::to(&server, Some("socks5://10.0.0.9"), &environment("*"));
    let proxy = proxy.unwrap().unwrap();
    assert_eq!(
        (proxy.kind, proxy.uri.port_u16()),
        (Kind::Socks5, Some(1080))
    );
}

#[test]
fn a_password_is_decoded_and_not_shown() {
    let proxy = Proxy::parse("https://us%40er:p%3Aw@proxy.example").unwrap();
    assert_eq!(proxy.login, Some(("us@er".into(), "p:w".into())));
    assert_eq!(format!("{proxy:?}"), "https://proxy.example:443/");
    let header = proxy.authorization().unwrap();
    assert_eq!(header, "Basic dXNAZXI6cDp3");
    assert!(header.is_sensitive());
}

#[test]
fn an_invalid_proxy_is_named() {
    let server = Uri::from_static("https://10.0.0.1");
    let none = Environment::default();
    let error = Proxy::to(&server, Some("ftp://a"), &none).unwrap_err();
    assert_eq!(
        error,
        "proxy-url: unsupported scheme \"ftp\", must be http, https, or socks5; write it as \
         http://10.0.0.1:3128"
    );
    let environment = Environment {
        https_proxy: "http://a b".into(),
        ..none
    };
    let error = Proxy::to(&server, None, &environment).unwrap_err();
    assert!(
        error.starts_with("the environment variable HTTPS_PROXY: it is not the URL of a proxy"),
        "{error}"
    );
}
