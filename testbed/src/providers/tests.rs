use std::{fs, path::Path, time::Duration};

use super::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn provider(step: Step) -> Provider {
    Provider {
        name: "test",
        requires: "Test 1.0 or newer",
        steps: vec![step],
        ..Provider::default()
    }
}

#[test]
fn rows_name_files_that_exist_and_no_name_twice() {
    serde_saphyr::from_str::<Vec<Provider>>(FILE).unwrap();
    // A step makes what is below target/.
    let is_there = |path: &str| path.contains("target/") || Path::new(ROOT).join(path).exists();
    for (index, provider) in PROVIDERS.iter().enumerate() {
        let name = provider.name;
        assert!(
            PROVIDERS[..index].iter().all(|other| other.name != name),
            "{name} twice"
        );
        let files = provider.conformance.iter();
        let files = files.flat_map(|files| std::iter::once(files.inputs).chain(files.waivers));
        for path in files {
            let path = Path::new(provider.folder).join(path);
            assert!(
                is_there(&path.display().to_string()),
                "{name}: {}",
                path.display()
            );
        }
        for step in &provider.steps {
            assert!(is_there(step.folder), "{name}: {}", step.folder);
            let from = step.makes.iter().flat_map(|makes| &makes.from);
            for path in from.filter(|path| !path.contains("node_modules")) {
                assert!(is_there(path), "{name}: {path}");
            }
        }
    }
}

#[test]
fn names_are_those_of_the_table_and_machines_those_of_the_cloud() {
    assert_eq!(by_name("python").unwrap().name, "python");
    let aws = by_name("aws").unwrap().machines("node-", 2);
    assert_eq!(
        aws,
        ["ip-10-0-1-1.ec2.internal", "ip-10-0-1-2.ec2.internal"]
    );
    let error = by_name("ruby").unwrap_err();
    assert!(
        error.contains("mock, go, digitalocean, python, node, java, aws"),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_tool_is_one_sentence_with_the_version_that_is_needed() {
    let step = Step {
        action: "building it",
        folder: ".",
        command: vec!["no-such-compiler", "build"],
        makes: None,
    };
    let mut begun = Vec::new();
    let built = provider(step)
        .build(|action| begun.push(action.to_owned()))
        .await;
    let error = built.unwrap_err().to_string();
    assert_eq!(
        error,
        "cannot build the provider test: there is no `no-such-compiler` command. Install Test 1.0 or newer"
    );
    assert_eq!(begun, ["building it"]);
}

#[test]
fn a_step_is_left_out_while_its_file_is_the_youngest() {
    let makes = Makes {
        file: "made",
        from: vec!["from"],
    };
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir_all(root.join("from/inner")).unwrap();
    let source = root.join("from/inner/source");
    fs::write(&source, "").unwrap();
    assert!(!makes.is_current(root), "there is nothing yet");
    fs::write(root.join("made"), "").unwrap();
    assert!(makes.is_current(root));
    let made = fs::metadata(root.join("made")).unwrap().modified().unwrap();
    let later = made + Duration::from_mins(1);
    fs::File::open(&source)
        .unwrap()
        .set_modified(later)
        .unwrap();
    assert!(!makes.is_current(root), "the source is younger");
    fs::remove_dir_all(root.join("from")).unwrap();
    assert!(!makes.is_current(root), "the source is not there");
}

#[tokio::test]
async fn a_cloud_of_another_run_is_not_taken_for_this_ones() {
    let dir = tempfile::tempdir().unwrap();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let begun = dir.path().join("begun");
    let begun = begun.to_str().unwrap();
    let provider = Provider {
        cloud: Some(Cloud {
            command: vec!["touch", "{nodes}"],
            port: other.local_addr().unwrap().port(),
        }),
        ..Provider::default()
    };
    let launch = provider.launch(dir.path(), &[begun.to_owned()]).unwrap();
    let started = launch.start_cloud(dir.path().join("log")).await;
    let error = started.unwrap_err().to_string();
    assert!(error.contains("is taken, by another run"), "{error}");
    assert!(!Path::new(begun).exists(), "it was started all the same");
}
