//! Annotations that are read only now.

use outrigger_core::annotations::ReadAnnotations;

use super::*;

#[tokio::test(start_paused = true)]
async fn annotations_that_are_read_only_now_are_listed_once_more() {
    let open = Mutex::new(Vec::new());
    let fixture = Fixture::start(move |_, uri| {
        if !is_list(uri) {
            let (events, watch) = scripted::live_watch();
            open.lock().push(events);
            return Some(watch);
        }
        let mut node = node("n1", 7);
        node["metadata"]["annotations"] = json!({"a.example/x": "1", "b.example/x": "2"});
        let body = json!({"metadata": {"resourceVersion": "7"}, "items": [node]});
        Some(scripted::json(200, &body))
    });
    let reads = |prefixes: &[&str]| {
        let prefixes: Vec<Box<str>> = prefixes.iter().map(|prefix| (*prefix).into()).collect();
        ReadAnnotations::of_nodes(&prefixes, &[])
    };
    let kept = |f: &Fixture| f.store.get("n1").map_or(0, |node| node.annotations.len());
    let lists = |f: &Fixture| {
        f.requests
            .lock()
            .iter()
            .filter(|(_, uri)| is_list(uri))
            .count()
    };
    fixture.until(|f| f.requests.lock().len() == 2).await;
    assert_eq!((kept(&fixture), lists(&fixture)), (2, 1));
    // Fewer are taken out of memory; the same cause nothing.
    fixture.store.keep_annotations(&reads(&["a.example/"]));
    fixture.store.keep_annotations(&reads(&["a.example/"]));
    assert_eq!((kept(&fixture), lists(&fixture)), (1, 1));
    fixture
        .store
        .keep_annotations(&reads(&["a.example/", "b.example/"]));
    fixture.until(|f| kept(f) == 2).await;
    assert_eq!(lists(&fixture), 2);
}
