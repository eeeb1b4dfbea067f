//! The lines of the feature `tracing`. Alone in its process: a scoped subscriber is not seen where threads without one come first.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use keywake::{load::StreamClass, overload::evictor::Mode};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

#[path = "overload_driver/world.rs"]
#[expect(dead_code, reason = "the driver's other tests use the rest")]
mod world;

use world::{Says, World};

type Fields = BTreeMap<&'static str, String>;

/// Notes the events of the overload target.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<(Level, Fields)>>>);

struct Reads(Fields);

impl Visit for Reads {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "keywake::overload"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut reads = Reads(Fields::new());
        event.record(&mut reads);
        self.0.lock().expect("nobody panics with it").push((*event.metadata().level(), reads.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// E18.
#[test]
fn each_eviction_is_one_structured_line() {
    let notes = Notes::default();
    tracing::subscriber::with_default(notes.clone(), || {
        let mut world = World::new(Mode::Full);
        let (hot, cool) = (world.stream(StreamClass::Dev, "3f2a"), world.stream(StreamClass::Live, "cool"));
        hot.set_position(7);
        world.ticks(6, &[&hot, &cool]);
        world.source.says(Says::Ratio(0.5));
        world.ticks(7, &[&cool]);
        // Saturated for longer than it may be unready, with nobody to let go; then nothing can be read of it.
        let mut world = World::new(Mode::Full);
        world.ticks(64, &[]);
        let mut world = World::new(Mode::Full);
        world.ticks(4, &[]);
        world.source.says(Says::Failed);
        world.ticks(3, &[]);
    });
    let notes = notes.0.lock().unwrap();
    let messages: Vec<_> = notes.iter().map(|(level, fields)| (*level, &*fields["message"])).collect();
    let expected = [
        (Level::INFO, "evictor started"),
        (Level::WARN, "processors overloaded"),
        (Level::WARN, "evicting stream to relieve the processors"),
        (Level::INFO, "processors recovered"),
        (Level::INFO, "evictor started"),
        (Level::WARN, "processors overloaded"),
        (Level::WARN, "overloaded, and no stream may be evicted: 1.000 cores too many"),
        (Level::WARN, "ready again by force, still overloaded"),
        (Level::INFO, "evictor started"),
        (Level::WARN, "processors overloaded"),
        (Level::WARN, "nothing could be read of the processors 3 times in a row: as if nothing were wrong from here on"),
        (Level::WARN, "overload given up, nothing could be read of the processors"),
    ];
    assert_eq!(messages, expected);
    let of = |place: usize, name: &str| notes[place].1.get(name).cloned().unwrap_or_else(|| panic!("no {name}: {notes:?}"));
    assert_eq!((of(0, "mode"), of(0, "quota_cores")), ("full".to_owned(), "4.0".to_owned()));
    assert_eq!((of(1, "enforced"), of(1, "cpu_usage_ratio")), ("true".to_owned(), "1.0".to_owned()));
    assert_eq!((of(2, "trace_id"), of(2, "class"), of(2, "current_block")), ("\"3f2a\"".into(), "dev".into(), "7".into()));
    assert_eq!((of(2, "age"), of(2, "cpu_usage_ratio")), ("1030s".to_owned(), "1.0".to_owned()));
    assert!(of(2, "burn_cores").parse::<f64>().is_ok_and(|burn| burn > 0.0));
    assert_eq!((of(3, "enforced"), of(3, "cpu_usage_ratio")), ("true".to_owned(), "0.5".to_owned()));
}
