//! All ways to take events off a subscription.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Barrier},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use futures_core::Stream;
use keywake::{Builder, CloseReason, Received, ReceivedRef, RecvTimeoutError, TryRecvError, hub};

use crate::support::{
    CountingWaker, LIMIT, assert_closed, assert_empty, block_on, drain, event, next_event, park, poll, within_limit,
};

#[test]
fn recv_yields_events_in_publish_order_with_rising_seqs() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    for value in 10..20 {
        publisher.publish("a", value);
    }
    for value in 10..20 {
        let got = event(block_on(sub.recv()).expect("the hub is open"));
        assert_eq!((*got, got.seq()), (value, value - 9));
    }
}

#[test]
fn a_reader_sees_only_events_of_its_key() {
    let (mut publisher, hub) = hub::<String, u64>();
    let (mut a, mut b) = (hub.subscribe("a"), hub.subscribe("b"));
    for value in 1..=6 {
        publisher.publish(if value % 2 == 0 { "a" } else { "b" }, value);
    }
    assert_eq!(drain(&mut a), [2, 4, 6]);
    assert_eq!(drain(&mut b), [1, 3, 5]);
    assert_eq!((a.key().as_str(), b.key().as_str()), ("a", "b"));
}

#[test]
fn every_reader_of_a_key_gets_every_event() {
    let (mut publisher, hub) = hub::<u32, u64>();
    let mut readers: Vec<_> = (0..50).map(|_| hub.subscribe(&7)).collect();
    for value in 0..100 {
        assert_eq!(publisher.publish(&7, value).readers, 50);
    }
    for reader in &mut readers {
        assert_eq!(drain(reader), (1..=100).collect::<Vec<_>>());
    }
}

#[test]
fn try_recv_never_waits_and_tells_empty_from_closed() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    assert!(matches!(sub.try_recv(), Err(TryRecvError::Empty)));
    publisher.publish("a", 5);
    assert_eq!(*next_event(&mut sub), 5);
    assert!(matches!(sub.try_recv(), Err(TryRecvError::Empty)));
    drop(publisher);
    assert_eq!(assert_closed(&mut sub).reason(), &CloseReason::PublisherDropped);
}

#[test]
fn lent_event_can_be_kept_as_an_owned_one() {
    let (mut publisher, hub) = hub::<String, String>();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", "one".to_owned());
    publisher.publish("a", "two".to_owned());
    let kept = match sub.try_recv_ref() {
        Ok(ReceivedRef::Event(lent)) => {
            assert_eq!((lent.as_str(), lent.seq()), ("one", 1));
            assert_eq!(lent.position(), hub_position(&hub, 1));
            lent.to_event()
        }
        _ => panic!("expected a lent event"),
    };
    // Lent counts as received.
    assert_eq!(next_event(&mut sub).as_str(), "two");
    drop((sub, publisher, hub));
    assert_eq!((kept.as_str(), kept.seq()), ("one", 1));
}

fn hub_position<T: Send + Sync + 'static>(hub: &keywake::Hub<String, T>, seq: u64) -> keywake::Position {
    keywake::Position::new(hub.position().epoch(), seq)
}

#[test]
fn recv_ref_waits_and_lends() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    {
        let mut recv = pin!(sub.recv_ref());
        let waker = CountingWaker::new();
        let task = Waker::from(Arc::clone(&waker));
        let mut cx = Context::from_waker(&task);
        assert!(recv.as_mut().poll(&mut cx).is_pending());
        publisher.publish("a", 5);
        assert_eq!(waker.wakes(), 1);
        let Poll::Ready(Ok(ReceivedRef::Event(lent))) = recv.as_mut().poll(&mut cx) else { panic!("expected a lent event") };
        assert_eq!((*lent, lent.seq()), (5, 1));
    }
    assert_empty(&mut sub);
    drop(publisher);
    assert!(block_on(sub.recv_ref()).is_err());
}

#[test]
fn recv_blocking_waits_for_another_threads_publish() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        let start = Arc::new(Barrier::new(2));
        let writer = thread::spawn({
            let start = Arc::clone(&start);
            move || {
                start.wait();
                for value in 0..1_000 {
                    publisher.publish("a", value);
                }
            }
        });
        start.wait();
        for value in 0..1_000 {
            assert_eq!(*event(sub.recv_blocking().expect("still open or buffered")), value);
        }
        assert_eq!(sub.recv_blocking().expect_err("the publisher is gone").reason(), &CloseReason::PublisherDropped);
        writer.join().expect("the writer does not panic");
    });
}

#[test]
fn recv_timeout_ends_without_an_event_and_loses_none() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        assert!(matches!(sub.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout)));
        assert!(matches!(sub.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout)));
        publisher.publish("a", 1);
        publisher.publish("a", 2);
        assert_eq!(*event(sub.recv_timeout(Duration::ZERO).expect("an event is there")), 1);
        // Longer than the clock can count must not panic either.
        assert_eq!(*event(sub.recv_timeout(Duration::MAX).expect("an event is there")), 2);
        drop(publisher);
        assert!(matches!(sub.recv_timeout(LIMIT), Err(RecvTimeoutError::Closed(_))));
    });
}

#[test]
fn recv_timeout_of_any_length_is_woken_by_a_publish() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        let reader = thread::spawn(move || event(sub.recv_timeout(Duration::MAX).expect("woken by the publish")).seq());
        while !reader.is_finished() {
            publisher.publish("a", 1);
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(reader.join().expect("the reader does not panic"), 1);
    });
}

#[test]
fn recv_many_appends_what_is_there_up_to_max() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    for value in 0..10 {
        publisher.publish("a", value);
    }
    let mut buf = Vec::new();
    assert_eq!(block_on(sub.recv_many(&mut buf, 4)), Ok(4));
    assert_eq!(block_on(sub.recv_many(&mut buf, 100)), Ok(6));
    let values: Vec<u64> = buf.into_iter().map(|received| *event(received)).collect();
    assert_eq!(values, (0..10).collect::<Vec<_>>());
}

#[test]
fn recv_many_crosses_blocks_in_order() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    for value in 0..1_000 {
        publisher.publish("a", value);
    }
    let mut buf = Vec::new();
    while buf.len() < 1_000 {
        let before = buf.len();
        let added = block_on(sub.recv_many(&mut buf, 77)).expect("the hub is open");
        assert!((1..=77).contains(&added));
        assert_eq!(buf.len(), before + added);
    }
    for (value, received) in (0..1_000).zip(buf) {
        assert_eq!(*event(received), value);
    }
    assert_eq!(sub.lag(), 0);
}

#[test]
fn recv_many_of_none_is_ready_at_once() {
    let (publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let mut buf = Vec::new();
    assert_eq!(block_on(sub.recv_many(&mut buf, 0)), Ok(0));
    assert!(buf.is_empty());
    drop(publisher);
}

#[test]
fn recv_many_waits_for_the_first_and_delivers_the_buffered_before_the_end() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let mut buf = Vec::new();
    {
        let mut recv = pin!(sub.recv_many(&mut buf, 10));
        let waker = CountingWaker::new();
        let task = Waker::from(Arc::clone(&waker));
        let mut cx = Context::from_waker(&task);
        assert!(recv.as_mut().poll(&mut cx).is_pending());
        publisher.publish("a", 1);
        assert_eq!(waker.wakes(), 1);
        assert_eq!(recv.as_mut().poll(&mut cx), Poll::Ready(Ok(1)));
    }
    publisher.publish("a", 2);
    drop(publisher);
    assert_eq!(block_on(sub.recv_many(&mut buf, 10)), Ok(1));
    assert_eq!(block_on(sub.recv_many(&mut buf, 10)).expect_err("all is read").reason(), &CloseReason::PublisherDropped);
    assert_eq!(buf.len(), 2);
}

#[test]
fn stream_yields_everything_and_ends_with_none_and_a_reason() {
    let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(4).build();
    let mut sub = hub.subscribe("a");
    assert_eq!(sub.close_reason(), None);
    for value in 0..500 {
        publisher.publish("a", value);
    }
    hub.shutdown(CloseReason::Other("planned".into()));
    let (mut gaps, mut events) = (0, 0);
    block_on(poll_fn(|cx| {
        while let Poll::Ready(next) = Pin::new(&mut sub).poll_next(cx) {
            match next {
                Some(Received::Event(_)) => events += 1,
                Some(Received::Gap(gap)) => gaps += gap.missed.expect("retention counts exactly"),
                Some(_) => panic!("neither an event nor a gap"),
                None => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }));
    assert_eq!(gaps + events, 500);
    assert!(gaps > 0 && events >= 4);
    assert_eq!(sub.close_reason(), Some(&CloseReason::Other("planned".into())));
    // A stream that has ended stays at its end.
    assert!(block_on(poll_fn(|cx| Pin::new(&mut sub).poll_next(cx))).is_none());
}

#[test]
fn close_reason_is_told_only_when_the_buffered_events_are_read() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    publisher.publish("a", 1);
    drop(publisher);
    assert_eq!(*next_event(&mut sub), 1);
    let closed = assert_closed(&mut sub);
    assert_eq!(sub.close_reason(), Some(closed.reason()));
    assert_eq!(assert_closed(&mut sub), closed);
}

#[test]
fn poll_recv_registers_the_waker_and_the_publish_takes_it() {
    let (mut publisher, hub) = hub::<String, u64>();
    let mut sub = hub.subscribe("a");
    let waker = CountingWaker::new();
    park(&mut sub, &waker);
    assert_eq!(waker.wakes(), 0);
    publisher.publish("a", 3);
    assert_eq!(waker.wakes(), 1);
    let Poll::Ready(Ok(received)) = poll(&mut sub, &waker) else { panic!("expected an event") };
    assert_eq!(*event(received), 3);
    park(&mut sub, &waker);
    drop(publisher);
    assert_eq!(waker.wakes(), 2);
    assert!(matches!(poll(&mut sub, &waker), Poll::Ready(Err(_))));
}

#[test]
fn ways_to_receive_can_be_mixed_on_one_handle() {
    within_limit(|| {
        let (mut publisher, hub) = hub::<String, u64>();
        let mut sub = hub.subscribe("a");
        for value in 0..7 {
            publisher.publish("a", value);
        }
        let mut values = vec![*next_event(&mut sub)];
        values.push(*event(block_on(sub.recv()).expect("open")));
        values.push(*event(sub.recv_blocking().expect("open")));
        values.push(*event(sub.recv_timeout(LIMIT).expect("open")));
        if let Ok(ReceivedRef::Event(lent)) = sub.try_recv_ref() {
            values.push(*lent);
        }
        if let Ok(ReceivedRef::Event(lent)) = block_on(sub.recv_ref()) {
            values.push(*lent);
        }
        if let Some(Received::Event(last)) = block_on(poll_fn(|cx| Pin::new(&mut sub).poll_next(cx))) {
            values.push(*last);
        }
        assert_eq!(values, (0..7).collect::<Vec<_>>());
    });
}

#[test]
fn recv_works_on_a_runtime_of_several_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let (mut publisher, hub) = hub::<u32, u64>();
        let readers: Vec<_> = (0..20)
            .map(|reader| {
                let mut sub = hub.subscribe(&(reader % 4));
                tokio::spawn(async move {
                    let mut sum = 0;
                    while let Ok(received) = sub.recv().await {
                        sum += *event(received);
                    }
                    sum
                })
            })
            .collect();
        for value in 0..400_u64 {
            publisher.publish(&u32::try_from(value % 4).expect("small"), value);
            if value % 16 == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(publisher);
        for (reader, task) in (0_u64..).zip(readers) {
            let expected: u64 = (0..400).filter(|value| value % 4 == reader % 4).sum();
            assert_eq!(task.await.expect("the reader does not panic"), expected);
        }
    });
}
