//! Life-cycle events for `tracing`.

use std::{
    fmt::{self, Write},
    sync::{Arc, Mutex},
    task::{Context, Waker},
};

use keywake::{Builder, CloseReason, Slow};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::with_default,
};

/// Keeps what the crate says, without the levels, one text per event.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Vec<String>>>);

impl Listener {
    /// What was said since the last call.
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "keywake"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        assert!(*event.metadata().level() >= Level::DEBUG, "nothing of it is for every day");
        let mut said = Said::default();
        event.record(&mut said);
        self.0.lock().expect("nobody panics with it").push(said.message + &said.fields);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Said {
    message: String,
    fields: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
        written.expect("a string takes it");
    }
}

#[test]
fn topics_gaps_early_ends_and_the_shutdown_are_told_and_events_are_not() {
    let listener = Listener::default();
    with_default(listener.clone(), || {
        let (mut publisher, hub) = Builder::<String, u64>::new().retain_events(1).build();
        let mut reader = hub.subscribe("key");
        let mut strict = hub.subscribe("key").slow(Slow::Close);
        publisher.publish("key", 0);
        assert_eq!(listener.heard(), ["topics made number=1"]);
        for event in 1..1_000 {
            publisher.publish("key", event);
        }
        assert_eq!(listener.heard(), [""; 0], "never one per event");

        assert!(reader.try_recv().is_ok());
        let heard = listener.heard();
        assert!(heard.len() == 1 && heard[0].starts_with("gap told from=0 to="), "{heard:?}");
        assert!(heard[0].ends_with("cause=Retention"), "{heard:?}");
        assert!(strict.try_recv().is_err());
        assert_eq!(listener.heard(), [format!("subscription ended early reason={} seq=0", CloseReason::SlowReader)]);

        drop((reader, strict));
        assert_eq!(listener.heard(), ["topics removed number=1"]);
        hub.shutdown(CloseReason::Shutdown);
        hub.shutdown(CloseReason::Shutdown);
        assert_eq!(listener.heard(), [format!("hub shut down reason={}", CloseReason::Shutdown)], "once");
    });
}

#[test]
fn loss_of_a_relay_is_told_whomever_it_served() {
    let listener = Listener::default();
    with_default(listener.clone(), || {
        let (publisher, hub) = keywake::hub::<String, u64>();
        let (mut main, mut second) = (Box::pin(hub.relay()), Box::pin(hub.relay()));
        for relay in [&mut main, &mut second] {
            assert!(Future::poll(relay.as_mut(), &mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(hub.relay());
        assert_eq!(listener.heard(), [""; 0], "one that was never polled is none");
        drop(second);
        assert_eq!(listener.heard(), ["relay gone serves_all=false"]);
        drop(main);
        assert_eq!(listener.heard(), ["relay gone serves_all=true"]);
        drop(publisher);
    });
}
