//! Names of objects, and the table of an answer.

use super::*;

#[test]
fn an_object_is_a_node_or_a_service() {
    for (object, expected) in [
        ("node/a.example", Some("/explain/nodes/a.example")),
        ("nodes/a", Some("/explain/nodes/a")),
        ("svc/default/web", Some("/explain/services/default/web")),
        ("service/default/web", Some("/explain/services/default/web")),
        ("pod/default/a", None),
    ] {
        let path = path(object).ok();
        assert_eq!(path.as_deref(), expected, "{object}");
    }
}

#[test]
fn only_a_server_on_this_machine_is_trusted_without_a_ca() {
    for (server, is) in [
        ("https://127.0.0.1:10258", true),
        ("https://[::1]:10258", true),
        ("https://10.0.0.1:10258", false),
        // Whatever it resolves to.
        ("https://localhost:10258", false),
        ("https://127.0.0.1.example.com", false),
    ] {
        assert_eq!(is_local(&server.parse().unwrap()), is, "{server}");
    }
}

#[test]
fn a_refused_caller_gets_its_remedy_and_the_words_of_the_server_escaped() {
    let server = "https://127.0.0.1:10258".parse().unwrap();
    let remedy = |code| {
        let status = ApiError::Status {
            code,
            reason: String::new(),
            message: "no \u{1b}]0;title\u{7}".into(),
            retry_after: None,
        };
        let text = refused(&server, status).to_string();
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        text
    };
    assert!(remedy(401).contains("--kubeconfig") && !remedy(401).contains(GRANT));
    assert!(remedy(403).contains(GRANT));
}

#[test]
fn the_table_shows_what_was_decided_and_nothing_that_moves_a_cursor() {
    let answer = r#"{"object":"node/a\u001b[2J","exists":false,"leader":"ccm-0","decisions":[
        {"count":3,"first":"2026-01-01T00:00:00Z","last":"2026-01-01T00:01:00.5Z",
         "source":"cloud-node-controller","kind":"sync","rule":"not_ready","text":"no \u001b[2J instance"}]}"#;
    let explanation: Explanation = serde_json::from_str(answer).unwrap();
    let shown = table(&explanation);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "node/a\\u{1b}[2J, which is gone: as ccm-0 knows");
    for part in [
        "2026-01-01T00:01:0",
        "3 since 2026-01-01T00:00:00Z",
        "not_ready",
        "no \\u{1b}[2J instance",
    ] {
        assert!(lines[2].contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    let nothing = Explanation {
        decisions: Vec::new(),
        ..explanation
    };
    assert!(table(&nothing).contains("Nothing was decided about it"));
}

#[test]
fn a_leader_that_does_not_answer_well_is_not_called_the_api_server() {
    let server = "https://127.0.0.1:10258".parse().unwrap();
    let errors = [
        ApiError::Timeout(std::time::Duration::from_secs(30)),
        ApiError::Decode("no object \u{1b}[2J".to_owned()),
    ];
    for error in errors {
        let text = refused(&server, error).to_string();
        let names_leader = text.contains("127.0.0.1:10258");
        assert!(names_leader && !text.contains("API server"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
