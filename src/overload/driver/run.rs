//! A driver as a task of tokio.

use std::{future::poll_fn, pin::pin, task::Poll};

use tokio::time::{Instant, sleep};

use super::{Driver, Line};

impl Driver {
    /// Ticks, whenever it is time, until `shutdown` ends; then [stops](Self::stop). To be spawned; what is to be logged is given to `log` as
    /// well. Where there is nothing to tick for (mode off, and nothing else), it only waits for `shutdown`.
    ///
    /// # Cancel safety
    /// Dropping it ends the ticks without [`stop`](Self::stop): what was set last stays set, and it may be run anew.
    ///
    /// # Panics
    /// As [`tick`](Self::tick), and outside of a runtime with a timer.
    ///
    /// # Examples
    /// ```
    /// use keywake::overload::{driver::DriverBuilder, evictor::{EvictorBuilder, Mode}};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # runtime.block_on(async {
    /// let driver = DriverBuilder::new(EvictorBuilder::new().mode(Mode::Observe)).build().expect("defaults work");
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let shutdown = async move { _ = stopped.await };
    /// let task = tokio::spawn(driver.clone().run(shutdown, |line| eprintln!("{line}")));
    /// drop(stop);
    /// # task.await.expect("it ends");
    /// # });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn run(self, shutdown: impl Future<Output = ()>, mut log: impl FnMut(&Line)) {
        let mut shutdown = pin!(shutdown);
        loop {
            let tick = self.tick(Instant::now().into_std());
            tick.lines.iter().for_each(&mut log);
            let Some(after) = tick.after else {
                shutdown.as_mut().await;
                break;
            };
            let mut pause = pin!(sleep(after));
            // Shutdown first: when both are there, no further tick comes.
            let is_over = poll_fn(|cx| match shutdown.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending => pause.as_mut().poll(cx).map(|()| false),
            });
            if is_over.await {
                break;
            }
        }
        self.stop();
    }
}
