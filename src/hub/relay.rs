//! The relay: a future that wakes readers from inside their runtime.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::{
    pulse::{Pulse, Role, Server, Worked},
    shared::FirstPanic,
};
use crate::sync::Arc;

/// Wakes the readers of a hub from inside their runtime; from [`Hub::relay`](crate::Hub::relay).
///
/// Waking N tasks from outside of their runtime costs the publisher N pushes into a contended queue. With a relay, a publish wakes one
/// task, and that wakes the readers, up to 64 at a time, letting others run in between:
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build()?;
/// # runtime.block_on(async {
/// let (mut publisher, hub) = keywake::hub::<String, u64>();
/// tokio::spawn(hub.relay());
/// let mut reader = hub.subscribe("key");
/// let reading = tokio::spawn(async move { reader.recv().await });
/// publisher.publish("key", 1);
/// assert!(reading.await.is_ok());
/// # });
/// # Ok::<_, std::io::Error>(())
/// ```
///
/// # What is promised
/// * A wake of a reader that a relay serves is given when the relay is next polled. Until it was polled for the first time, there is none.
/// * Dropping it in any way (abort, panic of its task, end of its runtime) gives all pending wakes at once, by the thread that drops it,
///   and later ones are given by the publishers. Nothing is lost.
/// * A relay that lives but is not polled (its runtime is not driven, its worker is blocked) delays the wakes of *its* readers until it is
///   polled, or until a publish to their key finds it overdue: 256 events of that key late, or a quarter of
///   [`retain_events`](crate::Builder::retain_events) if that is less. So bind readers to a relay of their own runtime
///   ([`Subscription::on`](crate::Subscription::on)) where there are several.
/// * Blocked threads never depend on a relay.
/// * A reader's waker that panics in it ends neither the relay nor the wakes of others; of that panic the panic hook hears, and
///   [`Stats::relay_panics`](crate::Stats::relay_panics) counts it.
/// * It ends when the hub is shut down, or when the last of its handles is dropped. It does not keep the hub alive.
///
/// The relay that is polled first serves all readers that are bound to none; others stand by until it goes, and serve only those that
/// are bound to them.
///
/// # On tokio
/// A publisher that is itself a task, and computes on after a publish, keeps what it woke last from running: tokio's workers do not
/// steal from the slot of the task that runs next. With the feature `tokio` a relay that is polled on a runtime of several threads spawns a
/// twin, so that the one of the two that was woken first is free to be stolen, and a task that does nothing, to the same end for those who
/// are bound to it. Without the feature, spawn
/// [`twin`](Self::twin) beside it.
#[must_use = "futures do nothing unless they are polled"]
pub struct Relay {
    serving: Pin<Box<dyn Serve>>,
    id: RelayHandle,
}

/// Names a relay, for [`Subscription::on`](crate::Subscription::on).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RelayHandle {
    pub(crate) hub: usize,
    pub(crate) relay: u64,
}

trait Serve: Future<Output = ()> + Send {
    fn twin(&self) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl Relay {
    pub(crate) fn new<K: Send + Sync + 'static, T: Send + Sync + 'static>(pulse: &Arc<Pulse<K, T>>) -> Self {
        let server = pulse.add_server();
        let id = RelayHandle { hub: Arc::as_ptr(pulse).addr(), relay: server.id() };
        Self {
            serving: Box::pin(Serving {
                pulse: Arc::clone(pulse),
                server,
                is_main: false,
                is_alive: false,
                timer: Timer::default(),
            }),
            id,
        }
    }

    /// Its name, for readers that are to be woken by it.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let relay = hub.relay();
    /// let here = relay.handle();
    /// // tokio::spawn(relay); and in the same runtime:
    /// let reader = hub.subscribe("key").on(&here);
    /// # drop((publisher, relay, reader));
    /// ```
    #[must_use]
    pub fn handle(&self) -> RelayHandle {
        self.id
    }

    /// A second task for the relay that serves those who are bound to none: to be spawned beside it on a runtime of several threads
    /// whose tasks publish, where the feature `tokio` does not do that by itself. It ends with the hub.
    ///
    /// # Examples
    /// ```
    /// let (publisher, hub) = keywake::hub::<String, u64>();
    /// let relay = hub.relay();
    /// let twin = relay.twin();
    /// // executor.spawn(relay); executor.spawn(twin);
    /// # drop((publisher, relay, twin));
    /// ```
    pub fn twin(&self) -> impl Future<Output = ()> + Send + use<> {
        self.serving.twin()
    }
}

impl Future for Relay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.serving.as_mut().poll(cx)
    }
}

/// A relay at work.
struct Serving<K: Send + Sync + 'static, T: Send + Sync + 'static> {
    pulse: Arc<Pulse<K, T>>,
    server: Arc<Server<K, T>>,
    /// It serves those who are bound to none.
    is_main: bool,
    /// It was polled.
    is_alive: bool,
    timer: Timer,
}

// Nothing points into it.
impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Unpin for Serving<K, T> {}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Serving<K, T> {
    /// One round. `None`: nothing is left to do, and wakers lie ready.
    fn round(&mut self, waker: &Waker, panics: &mut FirstPanic) -> Option<Again> {
        self.server.bell.put(waker);
        if !self.is_alive {
            self.is_alive = true;
            self.server.come_alive();
            spawn_nudge(&self.server);
        }
        if !self.is_main && self.pulse.take_role(Role::Main) {
            self.is_main = true;
            self.pulse.open();
        }
        let mut again = false;
        if self.is_main {
            self.pulse.bell(Role::Main).put(waker);
            spawn_twin(&self.pulse, &self.server);
        }
        if self.pulse.has_ended() {
            return Some(Again::Never);
        }
        if self.is_main {
            match self.pulse.work(panics) {
                Worked::More => again = true,
                Worked::Busy => {}
                Worked::Idle => again = !self.pulse.sleep(),
            }
        }
        again |= self.pulse.serve(&self.server, Pulse::<K, T>::batch(), panics);
        // What came since the waker was laid ready has rung it.
        again.then_some(Again::Now)
    }
}

enum Again {
    Never,
    Now,
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Future for Serving<K, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut panics = FirstPanic::default();
        let again = this.round(cx.waker(), &mut panics);
        this.pulse.swallow(&panics);
        match again {
            Some(Again::Never) => return Poll::Ready(()),
            Some(Again::Now) => cx.waker().wake_by_ref(),
            None => {
                if this.is_main && this.pulse.interval.is_some() && this.timer.is_due(this.pulse.next_due(), cx) {
                    cx.waker().wake_by_ref();
                }
            }
        }
        Poll::Pending
    }
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Serve for Serving<K, T> {
    fn twin(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Twin { pulse: Arc::clone(&self.pulse), is_at_work: false, relay: None })
    }
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Drop for Serving<K, T> {
    fn drop(&mut self) {
        let mut panics = FirstPanic::default();
        self.pulse.remove_server(&self.server, &mut panics);
        if self.is_main {
            self.pulse.close(&mut panics);
        }
        if self.is_alive {
            crate::trace::relay_gone(self.is_main);
        }
        panics.go_on();
    }
}

/// A second one at the main relay's work; see [`Relay`].
struct Twin<K: Send + Sync + 'static, T: Send + Sync + 'static> {
    pulse: Arc<Pulse<K, T>>,
    /// It has the role.
    is_at_work: bool,
    /// The one by which it was spawned, and with which it ends: another one may be polled elsewhere, and needs a twin there.
    relay: Option<Arc<Server<K, T>>>,
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Future for Twin<K, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_at_work && !self.pulse.take_role(Role::Twin) {
            return Poll::Ready(());
        }
        self.is_at_work = true;
        self.pulse.bell(Role::Twin).put(cx.waker());
        if self.pulse.has_ended() || self.relay.as_ref().is_some_and(|relay| !relay.is_alive()) {
            return Poll::Ready(());
        }
        let mut panics = FirstPanic::default();
        if self.pulse.is_open() {
            let again = match self.pulse.work(&mut panics) {
                Worked::More => true,
                Worked::Busy => false,
                Worked::Idle => !self.pulse.sleep(),
            };
            if again {
                cx.waker().wake_by_ref();
            }
            if self.pulse.interval.is_some() {
                // It has the timer.
                self.pulse.ring_main(&mut panics);
            }
        }
        self.pulse.swallow(&panics);
        Poll::Pending
    }
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Drop for Twin<K, T> {
    fn drop(&mut self) {
        if self.is_at_work {
            let mut panics = FirstPanic::default();
            self.pulse.leave_twin(&mut panics);
            panics.go_on();
        }
    }
}

#[cfg(not(all(feature = "tokio", not(keywake_loom))))]
mod runtime {
    use super::*;

    /// Whether the caller may run on a worker of a runtime. Not known: it is taken for one.
    pub(crate) fn is_in_runtime() -> bool {
        true
    }

    pub(super) fn spawn_twin<K: Send + Sync + 'static, T: Send + Sync + 'static>(_: &Arc<Pulse<K, T>>, _: &Arc<Server<K, T>>) {}

    pub(super) fn spawn_nudge<K: Send + Sync + 'static, T: Send + Sync + 'static>(_: &Arc<Server<K, T>>) {}

    /// Without a timer [`Hub::sweep`](crate::Hub::sweep) tells the time.
    #[derive(Default)]
    pub(super) struct Timer(());

    impl Timer {
        #[expect(clippy::needless_pass_by_ref_mut, reason = "as the one that there is with tokio")]
        pub(super) fn is_due(&mut self, _: Option<std::time::Instant>, _: &mut Context<'_>) -> bool {
            false
        }
    }
}

#[cfg(all(feature = "tokio", not(keywake_loom)))]
mod runtime {
    use tokio::runtime::{Handle, RuntimeFlavor};

    use super::*;

    /// Whether the caller may run on a worker of a runtime.
    pub(crate) fn is_in_runtime() -> bool {
        Handle::try_current().is_ok()
    }

    /// Spawns the twin, where there are several workers and it is not there.
    pub(super) fn spawn_twin<K: Send + Sync + 'static, T: Send + Sync + 'static>(
        pulse: &Arc<Pulse<K, T>>,
        server: &Arc<Server<K, T>>,
    ) {
        if !pulse.lacks_twin() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if runtime.runtime_flavor() == RuntimeFlavor::MultiThread && pulse.take_role(Role::Twin) {
            let relay = Some(Arc::clone(server));
            drop(runtime.spawn(Twin { pulse: Arc::clone(pulse), is_at_work: true, relay }));
        }
    }

    /// Spawns what is woken after a relay that readers are bound to, so that no worker keeps the relay as what it runs next.
    pub(super) fn spawn_nudge<K: Send + Sync + 'static, T: Send + Sync + 'static>(server: &Arc<Server<K, T>>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            drop(runtime.spawn(Nudge { server: Arc::clone(server) }));
        }
    }

    /// Does nothing. It ends with its relay.
    struct Nudge<K: Send + Sync + 'static, T: Send + Sync + 'static> {
        server: Arc<Server<K, T>>,
    }

    impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Future for Nudge<K, T> {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            self.server.nudge.put(cx.waker());
            // Asked when the waker lies ready: a relay that goes after this rings.
            if self.server.is_alive() { Poll::Pending } else { Poll::Ready(()) }
        }
    }

    impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Drop for Nudge<K, T> {
        fn drop(&mut self) {
            self.server.nudge.take();
        }
    }

    /// A timer of the runtime that polls the relay, if that has one.
    #[derive(Default)]
    pub(super) struct Timer {
        sleep: Option<Pin<Box<tokio::time::Sleep>>>,
        /// The runtime has none.
        is_missing: bool,
    }

    impl Timer {
        /// True: it is past `due`. False: it will wake the task then.
        pub(super) fn is_due(&mut self, due: Option<std::time::Instant>, cx: &mut Context<'_>) -> bool {
            let Some(due) = due else {
                self.sleep = None;
                return false;
            };
            // Another executor's task, or what a runtime without a timer polls: there `Hub::sweep` tells the time.
            if self.is_missing || self.sleep.is_none() && Handle::try_current().is_err() {
                return false;
            }
            // A runtime without a timer panics here, once.
            let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let due = tokio::time::Instant::from_std(due);
                let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
                if sleep.deadline() != due {
                    sleep.as_mut().reset(due);
                }
                sleep.as_mut().poll(cx)
            }));
            self.is_missing = polled.is_err();
            matches!(polled, Ok(Poll::Ready(())))
        }
    }
}

pub(crate) use runtime::is_in_runtime;
use runtime::{Timer, spawn_nudge, spawn_twin};

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("id", &self.id).finish_non_exhaustive()
    }
}
