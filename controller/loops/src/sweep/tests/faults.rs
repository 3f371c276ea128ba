//! A sweep that is killed, or whose provider lies, at each place in turn.

use std::collections::BTreeSet;

use super::*;

/// How many calls have changed the cloud.
fn changes(rig: &Fixture) -> u64 {
    rig.calls("DeleteLoadBalancer") + rig.calls("DeleteRoute")
}

/// Nothing that the first run knew is there for the second.
#[tokio::test(start_paused = true)]
async fn wherever_command_and_provider_are_killed_the_next_run_ends_it() {
    let mut place = 0;
    loop {
        place += 1;
        let options = ProviderOptions {
            load_balancers: Some(ServedLoadBalancers {
                max_in_flight: 1,
                ..ServedLoadBalancers::default()
            }),
            ..with_routes()
        };
        let killed = rig(options.clone());
        // The calls end one after the other, so that each is a place.
        killed.cloud.set_latency(Duration::from_millis(10), None);
        for name in ["web", "api", "db"] {
            balance(&killed, GONE, name, |_| {});
            balance(&killed, OTHER, name, |_| {});
        }
        for third in 1..=3 {
            route(&killed, GONE, third);
            route(&killed, OTHER, 100 + third);
        }
        let mut others = left(&killed);
        others.retain(|name| name.contains(OTHER) || name.starts_with("route-10"));
        let reached = async {
            while changes(&killed) < place {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let ended = tokio::select! {
            () = reached => None,
            swept = sweep(&killed) => Some(swept),
        };
        killed.kill();
        let again = processes(killed.cloud.clone(), options);
        drop(killed);
        let have = left(&again);
        assert!(
            others.iter().all(|name| have.contains(name)),
            "{place}: {have:?}"
        );
        let swept = sweep(&again).await;
        assert!(swept.is_clean(), "{place}: {swept:?}");
        assert_eq!(left(&again), others, "{place}");
        if let Some(ended) = ended {
            assert!(ended.is_clean(), "{ended:?}");
            break;
        }
    }
    // Each load balancer is asked about some times while the cloud works on it.
    assert!(place > 10, "{place}");
}

/// How a provider is wrong.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Each object is in its lists twice.
    Twice,
    /// The list of this number is empty.
    Forgets(usize),
    /// From the list of this number on, it lists the same whatever the cluster.
    EveryCluster(usize),
    /// It lists load balancers of another cluster as ours.
    Foreign,
    /// The first lists show one more, which is deleted already.
    Late(usize),
    /// Each list shows another one more.
    Ever,
}

/// A cloud with two load balancers in each cluster.
struct World {
    balancers: BTreeSet<(&'static str, String)>,
    lists: usize,
}

impl World {
    fn new() -> Self {
        let of = |cluster| ["web", "api"].map(|name| (cluster, format!("{cluster}-{name}")));
        Self {
            balancers: [GONE, OTHER].into_iter().flat_map(of).collect(),
            lists: 0,
        }
    }

    fn of(&self, cluster: &str) -> usize {
        let balancers = self.balancers.iter();
        balancers.filter(|(of, _)| *of == cluster).count()
    }

    fn list(&mut self, lie: Lie, cluster_uid: &str) -> Vec<String> {
        self.lists += 1;
        let number = self.lists;
        let is_listed = |cluster: &str| match lie {
            Lie::EveryCluster(from) if number >= from => true,
            Lie::Foreign => cluster_uid == GONE,
            _ => cluster_uid == cluster,
        };
        let balancers = self.balancers.iter();
        let balancers = balancers.filter(|(cluster, _)| is_listed(cluster));
        let mut names: Vec<_> = balancers.map(|(_, name)| name.clone()).collect();
        match lie {
            Lie::Forgets(at) if at == number => names.clear(),
            Lie::Twice => names.extend(names.clone()),
            Lie::Late(lists) if cluster_uid == GONE && number <= lists => {
                names.push("late".to_owned());
            }
            Lie::Ever if cluster_uid == GONE => names.push(format!("new-{number}")),
            _ => {}
        }
        names
    }
}

/// Sweeps a cloud whose provider lies.
async fn swept(lie: Lie) -> (Swept, Arc<Mutex<World>>) {
    let mut tasks = JoinSet::new();
    let (fake, provider) = scripted(true, |_| Vec::new(), &mut tasks);
    let world = Arc::new(Mutex::new(World::new()));
    let listing = Arc::clone(&world);
    fake.balancers.list_by(move |request| {
        let cluster_uid = &request.context.as_ref().unwrap().cluster_uid;
        let names = listing.lock().list(lie, cluster_uid);
        vec![Step::Say(v1::ListLoadBalancersResponse {
            items: names.iter().map(|name| owned(name)).collect(),
            complete: true,
        })]
    });
    let deleting = Arc::clone(&world);
    fake.balancers.delete.on(move |request| {
        let cluster_uid = &request.context.as_ref().unwrap().cluster_uid;
        let uid = &request.service.as_ref().unwrap().uid;
        // A provider that does not tell clusters apart deletes so, too.
        let is_any = matches!(lie, Lie::EveryCluster(_));
        let is_of = |cluster: &str| is_any || cluster == cluster_uid;
        let stays = |cluster: &str, name: &str| !is_of(cluster) || *uid != format!("uid-{name}");
        let balancers = &mut deleting.lock().balancers;
        balancers.retain(|(cluster, name)| stays(cluster, name));
        answer(v1::LoadBalancerDisposition::Absent)
    });
    (sweep_by(provider, Duration::from_mins(10)).await, world)
}

fn answer(disposition: v1::LoadBalancerDisposition) -> Reply<v1::LoadBalancerAnswer> {
    Reply::Say(v1::LoadBalancerAnswer {
        disposition: disposition.into(),
        ..v1::LoadBalancerAnswer::default()
    })
}

#[tokio::test(start_paused = true)]
async fn no_lie_of_a_provider_costs_another_cluster_anything_or_hides_what_is_left() {
    let each = |lie: fn(usize) -> Lie| (1..=8).map(lie);
    let lies = each(Lie::Forgets)
        .chain(each(Lie::EveryCluster))
        .chain(each(Lie::Late))
        .chain([Lie::Twice, Lie::Foreign, Lie::Ever]);
    for lie in lies {
        let (swept, world) = swept(lie).await;
        let world = world.lock();
        assert_eq!(world.of(OTHER), 2, "{lie:?}");
        let is_clean = match lie {
            Lie::Twice | Lie::Forgets(_) | Lie::Late(_) => true,
            // There is no such list.
            Lie::EveryCluster(from) => from > world.lists,
            Lie::Foreign | Lie::Ever => false,
        };
        assert_eq!(swept.is_clean(), is_clean, "{lie:?}: {swept:?}");
        assert!(!is_clean || world.of(GONE) == 0, "{lie:?}");
        // Lists that never end are asked for ever more slowly.
        assert!(world.lists < 80, "{lie:?}: {}", world.lists);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_in_progress_for_ever_ends_with_the_time_and_holds_up_no_other() {
    let mut tasks = JoinSet::new();
    let listed = |cluster: &str| match cluster {
        GONE => vec!["web", "stuck"],
        _ => Vec::new(),
    };
    let (fake, provider) = scripted(true, listed, &mut tasks);
    fake.balancers.delete.on(|request| {
        let uid = &request.service.as_ref().unwrap().uid;
        answer(match &**uid {
            "uid-stuck" => v1::LoadBalancerDisposition::InProgress,
            _ => v1::LoadBalancerDisposition::Absent,
        })
    });
    let began = Instant::now();
    let swept = sweep_by(provider, Duration::from_mins(10)).await;
    assert!(began.elapsed() < Duration::from_mins(11));
    assert_eq!(swept.unfinished.as_deref(), Some("the time was up"));
    let in_progress = Fate::Begun("in progress".to_owned());
    let fates: BTreeMap<_, _> = fates(&swept).into_iter().collect();
    assert_eq!(fates["uid-web"], &Fate::Deleted);
    assert_eq!(fates["uid-stuck"], &in_progress);
}
