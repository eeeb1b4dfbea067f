//! Who takes part.

use crate::{
    crowd::{Contender, Crowd, Setting, Shape},
    measure::peers::{
        Peer,
        async_broadcast::AsyncBroadcast,
        bare_wakes::{BareInside, BareWakes},
        broadcast::Broadcast,
        event_listener::EventListener,
        keyed_broadcast::KeyedBroadcast,
        keywake::{Keywake, Relayed, RelayedAtIntervals},
        notify::Notify,
        watch::Watch,
    },
};

/// How to make a crowd of one kind.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether it takes part where crowds are so large that not everybody can.
    pub(crate) in_large_crowds: bool,
    pub(crate) make: fn(Shape, &Setting) -> Box<dyn Contender>,
}

const fn kind<P: Peer>(in_large_crowds: bool) -> Kind {
    Kind { name: P::NAME, in_large_crowds, make: crowd::<P> }
}

pub(crate) fn crowd<P: Peer>(shape: Shape, setting: &Setting) -> Box<dyn Contender> {
    Box::new(Crowd::<P>::new(shape, setting))
}

pub(crate) const ALL: [Kind; 11] = [
    kind::<Relayed>(true),
    kind::<RelayedAtIntervals>(false),
    kind::<Keywake>(true),
    kind::<KeyedBroadcast>(true),
    kind::<Broadcast>(true),
    kind::<Watch>(false),
    kind::<Notify>(false),
    kind::<AsyncBroadcast>(false),
    kind::<EventListener>(false),
    kind::<BareWakes>(true),
    kind::<BareInside>(true),
];
