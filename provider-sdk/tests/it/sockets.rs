use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use outrigger_provider_sdk::{Endpoint, Listener, ServeError, SocketError};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::{channel, finds_all, handshake};

type Served = JoinSet<Result<(), ServeError>>;

fn serve(path: &Path, stop: &CancellationToken) -> Served {
    let endpoint = Endpoint::unix(path).unwrap();
    let shutdown = stop.clone().cancelled_owned();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { finds_all().serve_until(&endpoint, shutdown).await });
    tasks
}

async fn within<T>(limit: u64, what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(limit), what)
        .await
        .expect("took too long")
}

/// Serves and waits until a server answers at `path`.
async fn served(path: &Path, stop: &CancellationToken) -> Served {
    let mut tasks = serve(path, stop);
    let answers = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while UnixStream::connect(path).await.is_err() {
            ticks.tick().await;
        }
    };
    tokio::select! {
        ended = tasks.join_next() => panic!("{ended:?}"),
        () = within(10, answers) => {}
    }
    tasks
}

async fn refusal(mut tasks: Served) -> ServeError {
    within(10, tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap_err()
}

fn directory() -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("p.sock");
    (directory, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test]
async fn the_socket_is_for_owner_and_group_and_goes_with_its_provider() {
    let (directory, path) = directory();
    let stop = CancellationToken::new();
    let mut tasks = served(&path, &stop).await;
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    assert_eq!(mode(&path), 0o660);
    assert_eq!(names(directory.path()), ["p.sock"]);
    let client = channel(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(handshake(client, 1, 1).await.unwrap().minor, 1);

    stop.cancel();
    within(10, tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
}

#[tokio::test]
async fn directories_that_are_missing_are_made_for_the_group_and_others_are_left() {
    let (directory, _) = directory();
    let root = directory.path();
    fs::set_permissions(root, Permissions::from_mode(0o1777)).unwrap();
    let stop = CancellationToken::new();
    let _tasks = served(&root.join("a/b/p.sock"), &stop).await;
    assert_eq!(mode(root), 0o1777);
    assert_eq!(
        (mode(&root.join("a")), mode(&root.join("a/b"))),
        (0o770, 0o770)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_start_at_once_one_serves() {
    for _ in 0..3 {
        let (directory, path) = directory();
        drop(UnixListener::bind(&path).unwrap());
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        for _ in 0..8 {
            let mut one = serve(&path, &stop);
            tasks.spawn(async move { one.join_next().await.unwrap().unwrap() });
        }
        for _ in 0..7 {
            let refused = within(10, tasks.join_next())
                .await
                .unwrap()
                .unwrap()
                .unwrap_err();
            assert!(
                matches!(refused, ServeError::Socket(SocketError::Live { .. })),
                "{refused}"
            );
        }
        assert_eq!(names(directory.path()), ["p.sock"]);
        let client = channel(UnixStream::connect(&path).await.unwrap()).await;
        assert!(handshake(client, 1, 1).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_waits_for_another_in_its_directory() {
    let (directory, path) = directory();
    let other = fs::File::open(directory.path()).unwrap();
    other.lock().unwrap();
    let refused = refusal(serve(&path, &CancellationToken::new())).await;
    assert!(
        matches!(refused, ServeError::Socket(SocketError::Locked { .. })),
        "{refused}"
    );

    let waiting = serve(&path, &CancellationToken::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!path.exists());
    drop(other);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(path.exists());
    drop(waiting);
}

#[tokio::test]
async fn a_listener_takes_the_same_care_for_other_sockets() {
    let (directory, path) = directory();
    let endpoint = Endpoint::unix(&path).unwrap();
    let listener = Listener::bind(&endpoint).await.unwrap();
    assert_eq!(mode(&path), 0o660);
    let refused = Listener::bind(&endpoint).await.unwrap_err();
    assert!(matches!(refused, SocketError::Live { .. }), "{refused}");
    let client = UnixStream::connect(&path);
    let (accepted, connected) = tokio::join!(listener.accept(), client);
    assert!(accepted.is_ok() && connected.is_ok());
    drop(listener);
    assert_eq!(names(directory.path()), [""; 0]);

    let listener = Listener::bind(&endpoint).await.unwrap();
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(finds_all().serve_on(listener, stop.clone().cancelled_owned()));
    let client = channel(UnixStream::connect(&path).await.unwrap()).await;
    assert!(handshake(client, 1, 1).await.is_ok());
    stop.cancel();
    within(10, tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(!path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_left_alone() {
    let (_directory, path) = directory();
    fs::write(&path, "precious").unwrap();
    let refused = refusal(serve(&path, &CancellationToken::new())).await;
    assert!(
        matches!(refused, ServeError::Socket(SocketError::NotASocket { .. })),
        "{refused}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let (directory, path) = directory();
    fs::write(directory.path().join("file"), "").unwrap();
    let path = path.with_file_name("file").join("p.sock");
    let refused = refusal(serve(&path, &CancellationToken::new()))
        .await
        .to_string();
    assert!(refused.contains("file"), "{refused}");
}

#[tokio::test]
async fn a_socket_that_is_anothers_by_now_is_not_removed() {
    let (_directory, path) = directory();
    let stop = CancellationToken::new();
    let mut tasks = served(&path, &stop).await;
    fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    stop.cancel();
    within(10, tasks.join_next())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(path.exists());
}
