//! The driver as a task of tokio, in a time that is paused.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use keywake::{
    load::StreamClass,
    overload::{
        driver::{DriverBuilder, Line, StreamInfo},
        events::LoadKey,
        evictor::Mode,
        status::EndCause,
    },
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use crate::world::{Says, Scripted, burn, evictor};

/// E29: and that it ticks at the evictor's interval until then.
#[tokio::test(start_paused = true)]
async fn task_ticks_at_the_interval_and_ends_at_once_on_shutdown() {
    let source = Scripted::new(Says::Ratio(1.0));
    let driver = DriverBuilder::new(evictor(Mode::Full)).source(source.clone()).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let run = driver.clone().run(async move { _ = stopped.await }, move |line| log.lock().unwrap().push(line.to_string()));
    let task = tokio::spawn(run);
    sleep(Duration::from_millis(12_500)).await;
    assert_eq!(source.reads(), 3, "at 0, 5 and 10 s");
    sleep(Duration::from_secs(10)).await;
    assert!(!driver.load().is_ready(), "hot since 5 s, unready since 20 s");
    let before = Instant::now();
    drop(stop);
    task.await.unwrap();
    assert!(before.elapsed() < Duration::from_secs(5), "within a tick");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(source.reads(), 5, "at 15 and 20 s, and none since");
    assert!(lines.lock().unwrap().iter().any(|line| line.starts_with("processors overloaded ")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn task_of_a_driver_that_is_off_reads_nothing_and_waits_for_shutdown() {
    let source = Scripted::new(Says::Ratio(1.0));
    let driver = DriverBuilder::new(evictor(Mode::Off)).source(source.clone()).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let mut task = tokio::spawn(driver.run(async move { _ = stopped.await }, |_: &Line| {}));
    assert!(timeout(Duration::from_secs(3_600), &mut task).await.is_err(), "it waits");
    drop(stop);
    task.await.unwrap();
    assert_eq!(source.reads(), 0);
}

#[tokio::test(start_paused = true)]
async fn streams_task_ends_when_it_is_evicted() {
    let source = Scripted::new(Says::Ratio(1.0));
    let driver = DriverBuilder::new(evictor(Mode::Full).min_age(Duration::ZERO)).source(source).build().unwrap();
    let serve = |trace_id: &'static str, class, micros| {
        let stream = driver.streams().register(StreamInfo::new(class, trace_id), Instant::now().into_std());
        tokio::spawn(async move {
            let mut token = stream.token();
            loop {
                tokio::select! {
                    cancelled = token.cancelled() => return (trace_id, cancelled.cause()),
                    () = sleep(Duration::from_secs(1)) => burn(&stream, Duration::from_micros(micros)),
                }
            }
        })
    };
    let (dev, live) = (serve("dev", StreamClass::Dev, 200), serve("live", StreamClass::Live, 100));
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(driver.clone().run(async move { _ = stopped.await }, |_: &Line| {}));
    assert_eq!(dev.await.unwrap(), ("dev", EndCause::Evicted));
    assert_eq!(driver.streams().len(), 1);
    // The process stops: the others are told to go.
    drop(stop);
    task.await.unwrap();
    driver.load().shut_down("SIGTERM", Instant::now().into_std());
    assert_eq!(driver.streams().cancel_all(EndCause::ShuttingDown), 1);
    assert_eq!(live.await.unwrap(), ("live", EndCause::ShuttingDown));
    assert!(driver.streams().is_empty() && driver.load().hub().readers(&LoadKey::Overload) == 1);
}
