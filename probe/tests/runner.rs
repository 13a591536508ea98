//! The runner: one check a key, generations, pacing, budget, saved states.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use common::{After, eventually, key_with, refusing, serve, timing};
use portolan_probe::{
    Basis, CheckKey, CommandDef, Event, Host, HttpDef, Initial, KindDef, Match, Runner, RunnerSettings,
    Saved, State, TcpDef, Timing,
};
use tokio::{net::TcpListener, sync::mpsc::Receiver, time::timeout};

fn http(address: SocketAddr, path: &str, timing: Timing) -> CheckKey {
    let kind = KindDef::Http(HttpDef { path: path.into(), ..HttpDef::default() });
    key_with(kind, Host::Ip(address.ip()), address.port(), None, timing)
}

/// A server whose health can be switched, and the number of its connections.
async fn switched() -> (SocketAddr, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let healthy = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&healthy);
    let (address, count) = serve("127.0.0.1:0", After::Close, move |_| {
        let status = if seen.load(Ordering::SeqCst) { "200 OK" } else { "503 Out" };
        vec![format!("HTTP/1.1 {status}\r\n\r\n").into_bytes()]
    })
    .await;
    (address, healthy, count)
}

async fn next(events: &mut Receiver<Event>) -> Event {
    timeout(Duration::from_secs(20), events.recv()).await.expect("no event within 20 s").unwrap()
}

#[tokio::test]
async fn news_and_only_news() {
    let (address, healthy, count) = switched().await;
    let key = http(address, "/", timing(20, 5000));
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    runner.apply([key.clone()]);
    let event = next(&mut events).await;
    assert_eq!((event.health.state, event.health.basis, event.change), (State::Up, Basis::Observed, None));
    eventually("20 checks", || count.load(Ordering::SeqCst) > 20).await;
    assert!(events.try_recv().is_err(), "nothing new happened");

    healthy.store(false, Ordering::SeqCst);
    let event = next(&mut events).await;
    assert_eq!(event.change.map(|change| (change.from, change.to)), Some((State::Up, State::Down)));
    assert_eq!(event.health.reason, "mismatch: 503 Out, expected 200");
    assert_eq!(event.key, key);
    // H23: what is shown is what was told.
    assert_eq!(runner.health(&key).unwrap().state, State::Down);
    assert_eq!(runner.snapshot()[0].health.since_ms, event.health.since_ms);

    healthy.store(true, Ordering::SeqCst);
    let event = next(&mut events).await;
    assert_eq!((event.health.state, event.health.recovered_ms.is_some()), (State::Up, true));
}

/// dns.md case 23 and H18: a server that is well at every other check changes its state once, not each time.
#[tokio::test]
async fn flapping_is_not_followed() {
    let turn = AtomicUsize::new(0);
    let (address, count) = serve("127.0.0.1:0", After::Close, move |_| {
        let status = if turn.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) { "200 OK" } else { "503 Out" };
        vec![format!("HTTP/1.1 {status}\r\n\r\n").into_bytes()]
    })
    .await;
    let held = Timing { failback_delay: Duration::from_secs(3600), ..timing(10, 5000) };
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    runner.apply([http(address, "/", held)]);
    eventually("60 checks", || count.load(Ordering::SeqCst) >= 60).await;
    runner.apply([]);
    let mut changes = Vec::new();
    while let Ok(event) = events.try_recv() {
        changes.extend(event.change.map(|change| change.to));
    }
    assert_eq!(changes, [State::Down]);
}

/// Case H07: whoever asks, however often, one target and definition is one check.
#[tokio::test]
async fn equal_checks_run_once() {
    let (address, _, count) = switched().await;
    let (runner, _events) = Runner::spawn(RunnerSettings::default());
    // A long interval: a second connection could only come from a second check.
    let slow = timing(600_000, 5000);
    let keys: Vec<_> = (0..100).map(|_| http(address, "/", slow.clone())).collect();
    assert_eq!(runner.apply(keys).started, 1);
    let marker = http(address, "/other", slow);
    assert_eq!(runner.apply([http(address, "/", timing(600_000, 5000)), marker]).kept, 1);
    eventually("both ran", || runner.totals().good == 2).await;
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert_eq!(runner.totals().checks, 2);
}

/// Cases H06 and dns.md 27: what leaves stops, what stays is not disturbed, what changes is replaced.
#[tokio::test]
async fn generations() {
    let (staying, _, stay_count) = switched().await;
    let (leaving, _, leave_count) = switched().await;
    let slow = timing(600_000, 5000);
    let (stay, leave) = (http(staying, "/", slow.clone()), http(leaving, "/", timing(10, 5000)));
    let (runner, _events) = Runner::spawn(RunnerSettings::default());
    let applied = runner.apply([stay.clone(), leave.clone()]);
    assert_eq!((applied.started, applied.stopped, applied.kept), (2, 0, 0));
    eventually("both ran", || {
        stay_count.load(Ordering::SeqCst) >= 1 && leave_count.load(Ordering::SeqCst) >= 3
    })
    .await;

    let changed = http(leaving, "/changed", slow.clone());
    let applied = runner.apply([stay.clone(), changed.clone()]);
    assert_eq!((applied.started, applied.stopped, applied.kept), (1, 1, 1));
    assert!(runner.health(&leave).is_none());
    eventually("the changed one ran", || runner.health(&changed).unwrap().basis == Basis::Observed).await;
    // At most one connection was under way when it stopped. Then none in many intervals.
    let then = leave_count.load(Ordering::SeqCst);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        runner.apply([stay.clone(), changed.clone()]);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(leave_count.load(Ordering::SeqCst) <= then + 1);
    // Sixty reloads later: no storm, state kept.
    assert_eq!(stay_count.load(Ordering::SeqCst), 1);
    assert_eq!(runner.health(&stay).unwrap().basis, Basis::Observed);
}

/// dns.md case 24 with real connections: many checks are spread over the interval, the first start at once, and
/// until the first verdict each counts as configured.
#[tokio::test]
async fn a_thousand_checks_are_spread() {
    let (address, _, count) = switched().await;
    let interval = 2000;
    let timing = Timing { initial: Initial::Down, ..timing(interval, 5000) };
    let keys: Vec<_> = (0..1000).map(|at| http(address, &format!("/{at}"), timing.clone())).collect();
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let started = Instant::now();
    runner.apply(keys);
    assert!(runner.snapshot().iter().all(|line| line.health.state == State::Down));
    eventually("the first fifty ran", || count.load(Ordering::SeqCst) >= 50).await;
    // A third of the interval in, at most half of them have run: they were not started together.
    while started.elapsed() < Duration::from_millis(interval / 3) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(count.load(Ordering::SeqCst) < 500, "{}", count.load(Ordering::SeqCst));
    eventually("all ran", || runner.snapshot().iter().all(|line| line.health.state == State::Up)).await;
    assert!(started.elapsed() < Duration::from_millis(3 * interval), "{:?}", started.elapsed());
}

/// HC5, and the budget: no check runs beside itself, and no more checks at once than allowed.
#[tokio::test]
async fn slow_checks_skip_and_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (open, peak) = (Arc::clone(&now), Arc::clone(&most));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = open.fetch_add(1, Ordering::SeqCst) + 1;
            peak.fetch_max(count, Ordering::SeqCst);
            let open = Arc::clone(&open);
            tokio::spawn(async move {
                let mut buffer = [0; 16];
                // Silent until the client gives up.
                while let Ok(1..) = tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await {}
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    let silent = |text: &str| {
        let kind = KindDef::Tcp(TcpDef { send: None, expect: Some(Match::Text(text.into())) });
        key_with(kind, Host::Ip(address.ip()), address.port(), None, timing(20, 100))
    };
    let (runner, mut events) = Runner::spawn(RunnerSettings { in_flight: 1, ..RunnerSettings::default() });
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    runner.apply([silent("a")]);
    eventually("it timed out some times", || runner.totals().bad >= 3).await;
    assert!(runner.totals().skipped >= 3 * 3, "{:?}", runner.totals());
    assert_eq!(runner.totals().waits, 0);
    runner.apply([silent("a"), silent("b"), silent("c")]);
    eventually("all ran", || runner.snapshot().iter().all(|line| line.stats.bad >= 2)).await;
    assert!(runner.totals().waits > 0 && runner.totals().waited > Duration::ZERO);
    // A closed connection may be seen by the server a moment after the next one.
    assert!(most.load(Ordering::SeqCst) <= 2, "{most:?}");
    runner.apply([]);
    eventually("no connection is left", || now.load(Ordering::SeqCst) == 0).await;
    assert_eq!(runner.totals().in_flight, 0);
}

/// T1, cases H01 and H02: a restart goes on with the states it had, until verdicts say otherwise.
#[tokio::test]
async fn states_survive_a_restart() {
    let (live, _, _) = switched().await;
    let (dead, _refusing) = refusing();
    let fast = timing(20, 5000);
    let (good, bad) = (http(live, "/", fast.clone()), http(dead, "/", fast));
    let (before, mut events) = Runner::spawn(RunnerSettings::default());
    before.apply([good.clone(), bad.clone()]);
    let told: HashSet<_> = [next(&mut events).await.key, next(&mut events).await.key].into();
    assert_eq!(told.len(), 2);
    // Through text and back, as a state file would.
    let text = serde_json::to_string(&before.save()).unwrap();
    drop((before, events));
    let states: Vec<(String, Saved)> = serde_json::from_str(&text).unwrap();

    let (after, _events) = Runner::spawn(RunnerSettings::default());
    after.restore(states.clone());
    after.apply([good.clone(), bad.clone()]);
    // This test's only thread has not let the checks run yet.
    for (key, state) in [(&good, State::Up), (&bad, State::Down)] {
        let health = after.health(key).unwrap();
        assert_eq!((health.state, health.basis), (state, Basis::Saved));
        assert!(health.since_ms <= after.now_ms());
    }
    // Before any verdict it is saved as it was.
    let sorted = |mut states: Vec<(String, Saved)>| {
        states.sort_by(|a, b| a.0.cmp(&b.0));
        states
    };
    assert_eq!(sorted(after.save()), sorted(states.clone()));
    eventually("verdicts came", || after.snapshot().iter().all(|l| l.health.basis == Basis::Observed)).await;

    // Too old: unknown again, which counts as `initial`.
    let old = states.into_iter().map(|(id, mut saved)| {
        saved.seen_unix_s -= 3601;
        (id, saved)
    });
    let (late, _events) = Runner::spawn(RunnerSettings::default());
    late.restore(old);
    late.apply([bad.clone()]);
    let health = late.health(&bad).unwrap();
    assert_eq!((health.state, health.basis), (State::Up, Basis::Initial));
}

/// A check that leaves by a mistaken reload and comes back knows its state.
#[tokio::test]
async fn a_returning_check_knows_its_state() {
    let (dead, _refusing) = refusing();
    let key = http(dead, "/", timing(20, 5000));
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    runner.apply([key.clone()]);
    next(&mut events).await;
    runner.apply([]);
    runner.apply([key.clone()]);
    let health = runner.health(&key).unwrap();
    assert_eq!((health.state, health.basis), (State::Down, Basis::Saved));
}

/// With the last handle all checks end.
#[tokio::test]
async fn the_last_handle_ends_all_checks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs");
    let script = format!("echo >> {}", file.display());
    let kind = KindDef::Command(CommandDef { argv: vec!["sh".into(), "-c".into(), script], env: Vec::new() });
    let (runner, mut events) = Runner::spawn(RunnerSettings::default());
    runner.apply([key_with(kind, Host::Name("x".into()), 0, None, timing(10, 5000))]);
    let other = runner.clone();
    drop(runner);
    let length = || std::fs::read(&file).map_or(0, |bytes| bytes.len());
    eventually("it goes on", || length() > 3).await;
    drop(other);
    // The channel ends only when no check holds its sender any more.
    while timeout(Duration::from_secs(20), events.recv()).await.expect("still open after 20 s").is_some() {}
}
