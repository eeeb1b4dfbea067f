//! Wakes that find nothing, and wakes of readers of other keys: both must not be. Keys are made and left all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    Context,
    crowd::Setting,
    measure::{
        peers::{
            Peer,
            keywake::{Keywake, Relayed},
        },
        words::grouped,
    },
    pace::keep,
    table::Row,
};

const PER_SECOND: f64 = 100_000.0;
const BUSY_KEYS: u64 = 20;
const READERS_OF_EACH: u64 = 20;
/// Nothing is published to these: whoever polls one of their readers was woken for another key.
const QUIET_KEYS: u64 = 1_000;
const KEPT: usize = 1_024;

pub(crate) fn run(context: &Context) -> Vec<Row> {
    vec![row::<Relayed>(context, |hub| &hub.0, "relay"), row::<Keywake>(context, |hub| hub, "without a relay")]
}

#[expect(clippy::print_stdout, reason = "what must be known beside the table")]
fn row<P: Peer>(context: &Context, hub_of: fn(&P) -> &Keywake, how: &str) -> Row {
    let runtime = Setting::new(2, context.pins.as_ref()).runtime();
    let (mut writer, hub) = P::open(KEPT);
    hub.serve(runtime.handle());
    for key in 0..BUSY_KEYS * READERS_OF_EACH {
        let mut reader = hub.subscribe(key % BUSY_KEYS);
        runtime.spawn(async move {
            loop {
                P::recv(&mut reader).await;
            }
        });
    }
    let polls = Arc::new(AtomicU64::new(0));
    let quiet = |number| BUSY_KEYS + number;
    for number in 0..QUIET_KEYS {
        let (mut reader, polls) = (hub.subscribe(quiet(number)), Arc::clone(&polls));
        runtime.spawn(async move {
            let mut receive = std::pin::pin!(P::recv(&mut reader));
            std::future::poll_fn(|context| {
                // Relaxed: a count.
                polls.fetch_add(1, Ordering::Relaxed);
                receive.as_mut().poll(context)
            })
            .await
        });
    }
    // Relaxed: a count.
    while polls.load(Ordering::Relaxed) < QUIET_KEYS {
        thread::sleep(Duration::from_millis(1));
    }
    let over = Arc::new(AtomicBool::new(false));
    let churn = thread::spawn({
        let (hub, over) = (hub.clone(), Arc::clone(&over));
        move || {
            // Relaxed: a flag, nothing hangs on it.
            for number in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                // Half of them are readers more of a quiet key, half are keys of their own.
                let key = quiet(number % (2 * QUIET_KEYS));
                let reader = hub.subscribe(key);
                hub.unsubscribe(key, reader);
            }
        }
    });
    let mut event = 0;
    let paced = keep(PER_SECOND, context.options.scale.turn * 50, || {
        event += 1;
        P::publish(&mut writer, event % BUSY_KEYS, event);
    });
    // Relaxed: as above.
    over.store(true, Ordering::Relaxed);
    churn.join().expect("nothing panics there");
    if let Some(warning) = paced.warning() {
        println!("{warning}\n");
    }
    let stats = hub_of(&hub).0.stats();
    // Before the writer, whose end is the hub's.
    drop(runtime);
    // Relaxed: a count.
    let foreign = polls.load(Ordering::Relaxed) - QUIET_KEYS;
    Row::new(format!("empty wakes, foreign wakes; {how}, 2 workers, churn of {} keys", grouped(QUIET_KEYS)), "").with(
        "exactly 0",
        stats.empty_wakes == 0 && foreign == 0,
        format!("{}, {foreign} (of {} wakes)", stats.empty_wakes, grouped(stats.wakes)),
    )
}
