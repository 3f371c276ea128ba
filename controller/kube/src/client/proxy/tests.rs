use super::*;

fn to(server: &'static str, no_proxy: &str) -> Option<String> {
    let environment = Matcher::builder()
        .https("http://proxy.example:3128")
        .http("plain.example:8080")
        .no(no_proxy)
        .build();
    let proxy = proxy(&Uri::from_static(server), None, &environment).unwrap();
    proxy.map(|proxy| proxy.uri().to_string())
}

/// kube 5.0.0 compares `NO_PROXY` with the address of the proxy.
#[test]
fn no_proxy_is_about_the_api_server() {
    for (server, no_proxy, is_direct) in [
        ("https://api.example.com:6443", "", false),
        ("https://api.example.com:6443", "proxy.example", false),
        ("https://api.example.com:6443", "*", true),
        (
            "https://API.example.com:6443",
            " other , Example.com ",
            true,
        ),
        ("https://api.example.com:6443", ".example.com", true),
        ("https://notexample.com:6443", "example.com", false),
        ("https://10.96.0.1", "10.96.0.0/12", true),
        ("https://10.96.0.1", "10.0.0.0/16", false),
        ("https://10.96.0.1:6443", "10.96.0.1", true),
        ("https://[fd00::1]:6443", "fd00::/64", true),
        // This machine.
        ("https://localhost:6443", "", true),
        ("https://127.0.0.1:6443", "", true),
        ("https://[::1]:6443", "", true),
    ] {
        let proxy = (!is_direct).then(|| "http://proxy.example:3128/".to_owned());
        let context = format!("{server} with NO_PROXY={no_proxy}");
        assert_eq!(to(server, no_proxy), proxy, "{context}");
    }
    let plain = to("http://api.example.com:8080", "");
    assert_eq!(plain.as_deref(), Some("http://plain.example:8080/"));
}

#[test]
fn the_kubeconfig_goes_before_the_environment() {
    let server = Uri::from_static("https://127.0.0.1:6443");
    let environment = Matcher::builder().no("*").build();
    let socks = proxy(&server, Some("socks5://10.0.0.9"), &environment);
    let socks = socks.unwrap().unwrap();
    assert_eq!(socks.uri(), "socks5://10.0.0.9/");
    dialer(Some(socks)).unwrap();
    for url in ["ftp://a", "http://user:hush@a b"] {
        let error = proxy(&server, Some(url), &environment).unwrap_err();
        assert!(error.starts_with("proxy-url is not"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}
