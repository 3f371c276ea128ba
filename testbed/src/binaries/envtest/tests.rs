use std::process;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};

use super::*;

/// An archive as it is published.
fn archive() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let inner = dir.path().join("controller-tools/envtest");
    fs::create_dir_all(&inner).unwrap();
    for program in ["etcd", "kube-apiserver", "kubectl"] {
        fs::write(inner.join(program), program).unwrap();
    }
    let file = dir.path().join("archive");
    let mut tar = process::Command::new("tar");
    tar.arg("--directory").arg(dir.path());
    let status = tar.arg("-czf").arg(&file).arg("controller-tools").status();
    assert!(status.unwrap().success());
    fs::read(file).unwrap()
}

fn sha512(bytes: &[u8]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    digest(file.path()).unwrap()
}

/// Answers each request with `body`, and says where it listens.
async fn serve(body: Vec<u8>) -> (String, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..read]);
            let path = "GET /envtest-v1.36.9/envtest-v1.36.9-linux-amd64.tar.gz ";
            let status = if request.starts_with(path) {
                "200 OK"
            } else {
                "404 Not Found"
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&body).await.unwrap();
        }
    });
    (url, server)
}

fn pinned(sha512: &str) -> Archive<'_> {
    Archive {
        version: "1.36.9",
        platform: "linux-amd64",
        sha512,
    }
}

#[tokio::test]
async fn an_archive_with_the_pinned_checksum_is_unpacked_once() {
    let archive = archive();
    let checksum = sha512(&archive);
    let dir = tempfile::tempdir().unwrap();
    let (url, _server) = serve(archive).await;
    let binaries = download(&pinned(&checksum), &url, dir.path()).await;
    let binaries = binaries.unwrap().unwrap();
    let text = fs::read_to_string(binaries.kube_apiserver).unwrap();
    assert_eq!(text, "kube-apiserver");
    let (version, _) = newest_below(dir.path(), "1.36", "linux-amd64").unwrap();
    assert_eq!(version, "1.36.9", "setup-envtest would find it");
    // No server is left to ask.
    let again = download(&pinned(&checksum), "http://127.0.0.1:1", dir.path()).await;
    again.unwrap().unwrap();
}

#[tokio::test]
async fn an_archive_with_another_checksum_is_never_used() {
    let archive = archive();
    let mut changed = archive.clone();
    *changed.last_mut().unwrap() ^= 1;
    let checksum = sha512(&changed);
    let dir = tempfile::tempdir().unwrap();
    let (url, _server) = serve(archive).await;
    let reason = download(&pinned(&checksum), &url, dir.path()).await;
    let reason = reason.unwrap().unwrap_err();
    assert!(reason.contains("is not used"), "{reason}");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the lock: {left:?}");
}

#[test]
fn the_newest_release_of_the_minor_version_is_taken() {
    let checksums = "# comment\n1.36.9 linux-amd64 a\n1.36.10 linux-amd64 b\n1.37.0 linux-amd64 c\n1.36.11 linux-arm64 d\n";
    let newest = |minor, platform| newest(checksums, minor, platform).map(|entry| entry.sha512);
    assert_eq!(newest("1.36", "linux-amd64"), Some("b"));
    assert_eq!(newest("1.36", "linux-arm64"), Some("d"));
    assert_eq!(newest("1.35", "linux-amd64"), None);
    assert_eq!(newest("1.3", "linux-amd64"), None);
}

#[test]
fn an_archive_is_pinned_for_the_version_that_would_be_built() {
    for platform in ["linux-amd64", "linux-arm64"] {
        let archive = newest(CHECKSUMS, minor(), platform).unwrap();
        assert_eq!(archive.sha512.len(), 128);
    }
}

#[test]
fn complete_programs_that_setup_envtest_installed_are_newest_version() {
    let store = tempfile::tempdir().unwrap();
    let install = |name: &str, programs: &[&str]| {
        let dir = store.path().join(name);
        fs::create_dir(&dir).unwrap();
        for program in programs {
            fs::write(dir.join(program), "").unwrap();
        }
    };
    let newest_version =
        || newest_below(store.path(), "1.36", "linux-amd64").map(|(version, _)| version);
    assert_eq!(newest_version(), None);
    let both = ["etcd", "kube-apiserver"];
    install("1.36.9-linux-amd64", &both);
    install("1.36.10-linux-amd64", &both);
    install("1.36.11-linux-amd64", &both[..1]);
    install("1.36.12-linux-arm64", &both);
    install("1.37.0-linux-amd64", &both);
    assert_eq!(newest_version().as_deref(), Some("1.36.10"));
}
