use proptest::prelude::*;

use super::{Complaint, dns_name, label_key, label_value, node_name, reason, subdomain};

fn check(rule: fn(&str) -> Result<(), Complaint>, legal: &[&str], illegal: &[&str]) {
    for text in legal {
        assert_eq!(rule(text), Ok(()), "{text:?}");
    }
    for text in illegal {
        assert!(rule(text).is_err(), "{text:?}");
    }
}

#[test]
fn subdomains_and_reasons() {
    check(
        subdomain,
        &["a", "lb-1.example.com"],
        &["", "A", "lb.", "a_b", "-a", "a..b", &"a".repeat(254)],
    );
    let longest = "R".repeat(128);
    check(
        reason,
        &["R", "NotManaged", "a:b,c_", "Q1", &longest],
        &["", "1R", "two words", "R:", ",R", "Ä", &"R".repeat(129)],
    );
}

#[test]
fn label_values() {
    let longest = "a".repeat(63);
    let too_long = "a".repeat(64);
    check(
        label_value,
        &["", "a", "A.b_c-9", "9", &longest],
        &[
            "-a",
            "a-",
            ".a",
            "a_",
            "a b",
            "a/b",
            "ä",
            "a\n",
            "\u{202e}a",
            &too_long,
        ],
    );
}

#[test]
fn label_keys() {
    let name = "n".repeat(63);
    let long_name = "n".repeat(64);
    let prefix = format!(
        "{}/x",
        [
            "p".repeat(63),
            "q".repeat(63),
            "r".repeat(63),
            "s".repeat(61)
        ]
        .join(".")
    );
    let long_prefix = format!("p{prefix}");
    assert_eq!(prefix.len(), 253 + 2);
    check(
        label_key,
        &["a", "A_b.c-9", "example.com/a", "a-b.c/A", &name, &prefix],
        &[
            "",
            "/",
            "/a",
            "a/",
            "a/b/c",
            "Example.com/a",
            "example_com/a",
            ".com/a",
            "a..b/c",
            "-a.com/b",
            "a.com/-b",
            "a b",
            "a.com/ä",
            "a.com/b\0",
            &long_name,
            &long_prefix,
        ],
    );
}

#[test]
fn node_names() {
    check(
        node_name,
        &[
            "n1",
            "ip-10-0-0-5.eu-west-1.compute.internal",
            "1",
            &"n".repeat(253),
        ],
        &[
            "",
            "N1",
            "n_1",
            "-n",
            "n-",
            "n..m",
            "n.",
            "my vm",
            &"n".repeat(254),
        ],
    );
}

#[test]
fn dns_names() {
    check(
        dns_name,
        &[
            "n1",
            "N1.Example.com",
            "n_1.internal",
            "n1.internal.",
            "1",
            // 253 bytes.
            &format!("{}nnn", "n.".repeat(125)),
        ],
        &[
            "",
            ".",
            "a..b",
            ".a",
            "a..",
            "-a",
            "a-.b",
            "a b",
            "a/b",
            "ä.de",
            &"n".repeat(64),
            &"n.".repeat(127),
        ],
    );
}

proptest! {
    #[test]
    fn no_text_is_too_odd(text in any::<String>()) {
        for rule in [label_value, label_key, node_name, dns_name] {
            let _ = rule(&text);
        }
    }
}
