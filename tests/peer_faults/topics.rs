//! Keys that come and go: nothing leaks, nobody is orphaned.

use std::time::{Duration, Instant};

use keywake::{Builder, CloseReason, Start, hub};

use crate::support::{CountingWaker, Ledger, assert_empty, drain, next_event, park};

// mini-redis #63 (open since 2020), tokio #3736, p2panda #728, hyprstream #248: the map of topics only grew.
#[test]
fn topics_go_with_their_last_reader() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().max_tombstones(256).build();
    for key in 0..20_000 {
        let mut sub = hub.subscribe(&key);
        publisher.publish(&key, key);
        assert_eq!(drain(&mut sub), [key + 1]);
        drop(sub);
        assert_eq!(hub.topics(), 0);
    }
    let stats = hub.stats();
    assert_eq!((stats.topics, stats.readers, stats.retained_bytes), (0, 0, 0));
    assert!(stats.tombstones <= 256);
}

// consul #3941, #4482, #10637, #6866, nomad #27312: an unsubscribe was forgotten on one of the paths.
#[test]
fn subscription_is_given_back_on_every_path() {
    let (mut publisher, hub) = hub::<String, u64>();
    // Never used; used; parked; woken; in a future that is dropped; moved away; after a panic; in a closed key.
    drop(hub.subscribe("a"));
    let mut used = hub.subscribe("a");
    publisher.publish("a", 1);
    assert_eq!(drain(&mut used).len(), 1);
    drop(used);
    let mut parked = hub.subscribe("a");
    park(&mut parked, &CountingWaker::new());
    drop(parked);
    let mut woken = hub.subscribe("a");
    park(&mut woken, &CountingWaker::new());
    publisher.publish("a", 2);
    drop(woken);
    let mut moved = hub.subscribe("a");
    let future = async move { moved.recv().await.is_ok() };
    drop(future);
    let panicking = hub.subscribe("a");
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = panicking;
        panic!("the reader panics");
    }));
    let closed = hub.subscribe("a");
    hub.close("a", CloseReason::KeyClosed);
    drop(closed);
    let stats = hub.stats();
    assert_eq!((stats.readers, stats.topics), (0, 0));
}

// pubsub-rs: dropping any handle unsubscribed the others.
#[test]
fn one_reader_leaving_does_not_unsubscribe_the_others() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut stays = hub.subscribe("a");
    for value in 0..100 {
        let comes_and_goes = hub.subscribe("a");
        assert_eq!(publisher.publish("a", value).readers, 2);
        drop(comes_and_goes);
        assert_eq!(*next_event(&mut stays), value);
    }
    assert_eq!(hub.readers("a"), 1);
}

// hyperlane-broadcast, event_bus_rs: get-then-insert gave two first subscribers a channel each.
#[test]
fn readers_of_one_key_share_one_topic_in_any_order_of_coming_and_going() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let mut subs = Vec::new();
    for round in 0..200_u64 {
        subs.push(hub.subscribe(&7));
        if round % 3 == 2 {
            subs.swap_remove(usize::try_from(round % 5).expect("small") % subs.len());
        }
        assert_eq!(publisher.publish(&7, round).readers, subs.len());
        for sub in &mut subs {
            assert_eq!(*next_event(sub), round);
        }
        assert_eq!(hub.topics(), 1);
    }
}

// multiqueue2 #3, hyperlane-broadcast ("send panics without receivers"): a bus without readers was unusable.
#[test]
fn hub_without_readers_takes_publishes_and_then_readers() {
    let (mut publisher, hub) = hub::<String, u64>();
    for value in 0..10 {
        assert_eq!(publisher.publish("a", value).readers, 0);
    }
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 10);
    assert_eq!(drain(&mut sub), [11]);
}

// topic-stream: a topic that closes ended the receivers of all others.
#[test]
fn close_of_one_key_ends_no_reader_of_another() {
    let (mut publisher, hub) = hub::<u64, u64>();
    let mut subs: Vec<_> = (0..100).map(|key| hub.subscribe(&key)).collect();
    assert!(hub.close(&50, CloseReason::KeyClosed));
    for key in 0..100 {
        assert_eq!(publisher.publish(&key, key).readers, usize::from(key != 50));
    }
    for (key, sub) in subs.iter_mut().enumerate() {
        assert_eq!(drain(sub).len(), usize::from(key != 50));
    }
}

// consul: the writer publishes to a topic it knows of; many newborns at once must all become known to it.
#[test]
fn every_one_of_many_newborn_topics_gets_its_events() {
    let (mut publisher, hub) = hub::<u64, u64>();
    publisher.publish(&0, 0);
    let mut subs: Vec<_> = (0..10_000).map(|key| hub.subscribe(&key)).collect();
    // One publish may adopt newborns of other keys; none may be passed over.
    for key in (0..10_000).rev() {
        assert_eq!(publisher.publish(&key, key).readers, 1, "key {key}");
    }
    for (key, sub) in subs.iter_mut().enumerate() {
        assert_eq!(Ok(*next_event(sub)), u64::try_from(key));
        assert_empty(sub);
    }
}

// Topics that were born and died before any publish, in between, and after the writer knew of them.
#[test]
fn key_that_was_left_and_taken_again_works_at_every_stage() {
    let ledger = Ledger::new(400);
    let (mut publisher, hub) = hub::<u64, crate::support::Counted>();
    let mut number = 0;
    for key in 0..100 {
        drop(hub.subscribe(&key));
        let mut sub = hub.subscribe(&key);
        for _ in 0..2 {
            publisher.publish(&key, ledger.payload(number));
            assert_eq!(next_event(&mut sub).number, number);
            number += 1;
        }
        drop(sub);
        drop(hub.subscribe(&key));
        // To a topic that the writer knows and that is dead.
        assert_eq!(publisher.publish(&key, ledger.payload(number)).readers, 0);
        number += 1;
        let mut sub = hub.subscribe_from(&key, Start::Oldest);
        assert_empty(&mut sub);
        publisher.publish(&key, ledger.payload(number));
        assert_eq!(next_event(&mut sub).number, number);
        number += 1;
    }
    // Events of topics that are gone do not wait for the hub's end.
    ledger.assert_each_dropped_once();
}

// consul #9474, #9555, #10112: the idle time ran from the wrong moment, and expiry raced with use.
#[test]
fn idle_time_counts_from_the_last_leaving() {
    let (mut publisher, hub) = Builder::<String, u64>::new().keep_idle(Duration::from_secs(100)).build();
    drop(hub.subscribe("a"));
    let left = Instant::now();
    hub.sweep(left + Duration::from_secs(99));
    assert_eq!(hub.topics(), 1);
    // Used again: the old idle time is forgotten.
    let mut sub = hub.subscribe("a");
    hub.sweep(left + Duration::from_secs(1_000));
    publisher.publish("a", 1);
    assert_eq!(drain(&mut sub), [1]);
    drop(sub);
    hub.sweep(Instant::now() + Duration::from_secs(99));
    assert_eq!(hub.topics(), 1);
    hub.sweep(Instant::now() + Duration::from_secs(101));
    assert_eq!(hub.topics(), 0);
}

// The same where the reader was there only for a moment, and nobody looked.
#[test]
fn idle_time_starts_anew_with_every_reader() {
    let idle = Duration::from_millis(200);
    let (_publisher, hub) = Builder::<String, u64>::new().keep_idle(idle).build();
    drop(hub.subscribe("a"));
    let first_left = Instant::now();
    std::thread::sleep(Duration::from_millis(150));
    drop(hub.subscribe("a"));
    // The time of the first reader is over, that of the second is not.
    hub.sweep(first_left + Duration::from_millis(210));
    assert_eq!(hub.topics(), 1);
    hub.sweep(Instant::now() + 3 * idle);
    assert_eq!(hub.topics(), 0);
}

// consul, "stale timer evicts by key": an old expiry must not remove the key's new topic.
#[test]
fn old_expiry_does_not_remove_a_new_topic_of_the_same_key() {
    let (mut publisher, hub) = Builder::<String, u64>::new().keep_idle(Duration::from_secs(10)).build();
    drop(hub.subscribe("a"));
    assert!(hub.close("a", CloseReason::KeyClosed));
    let mut new = hub.subscribe("a");
    hub.sweep(Instant::now() + Duration::from_secs(60));
    assert_eq!(publisher.publish("a", 1).readers, 1);
    assert_eq!(drain(&mut new), [1]);
}

// centrifuge-like hubs and Consul's leak of buffers: what is idle is bounded by the limit on topics.
#[test]
fn unread_keys_are_bounded_by_the_limit_on_topics() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().retain_unread(true).max_topics(100).build();
    for key in 0..10_000 {
        publisher.publish(&key, key);
    }
    assert!(hub.topics() <= 100);
    assert_eq!(hub.stats().unread, 9_900);
}

// The same leak through another door: a topic without readers that holds nothing is of no use to anybody.
#[test]
fn keys_that_hold_nothing_go_also_where_unread_events_are_kept() {
    let (mut publisher, hub) =
        Builder::<u64, u64>::new().retain_unread(true).retain_for(Duration::from_secs(10)).max_topics(1_000).build();
    for key in 0..10_000 {
        assert_empty(&mut hub.subscribe(&key));
    }
    assert_eq!(hub.topics(), 0);
    for key in 0..1_000 {
        publisher.publish(&key, key);
    }
    assert_eq!(hub.topics(), 1_000);
    hub.sweep(Instant::now() + Duration::from_secs(60));
    assert_eq!(hub.topics(), 0);
    assert_eq!(publisher.publish(&5_000, 1).seq, 1_001);
    assert_eq!(drain(&mut hub.subscribe_from(&5_000, Start::Oldest)), [1_001]);
}

#[test]
fn close_and_shutdown_free_what_nobody_reads() {
    let ledger = Ledger::new(20);
    let (mut publisher, hub) = Builder::<u64, crate::support::Counted>::new().retain_unread(true).build();
    for number in 0..20 {
        publisher.publish(&(number as u64 % 2), ledger.payload(number));
    }
    assert!(hub.close(&0, CloseReason::KeyClosed));
    assert_eq!(ledger.dropped(), 10);
    hub.shutdown(CloseReason::Shutdown);
    ledger.assert_each_dropped_once();
}

// A client that reconnects all day must not push the exact memory of quiet keys out.
#[test]
fn key_that_comes_and_goes_does_not_make_the_hub_forget_others() {
    let (mut publisher, hub) = Builder::<u64, u64>::new().build();
    for key in 0..1_000 {
        let sub = hub.subscribe(&key);
        publisher.publish(&key, key);
        drop(sub);
    }
    assert_eq!(hub.stats().tombstones, 1_000);
    for value in 0..5_000 {
        let sub = hub.subscribe(&7);
        publisher.publish(&7, value);
        drop(sub);
    }
    assert_eq!(hub.stats().tombstones, 1_000);
}
