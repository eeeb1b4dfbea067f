//! What a saturated process does: sheds its most expensive streams, says so, and lets in no more than it can serve.
//!
//! | module | what it decides or does | acts when |
//! |---|---|---|
//! | [`evictor`] | which streams go, and when | its [mode](evictor::Mode) says so; the default is off |
//! | [`readiness`], [`events`] | whether the process wants new work, told through a hub | somebody sets a condition |
//! | [`admission`], [`pending`] | who may come in, and who waits | a limit is not 0, or the evictor says that it is overloaded |
//! | [`concurrency`] | a limit that follows the processors | it was given to the driver |
//! | [`watchdog`] | what does not get on | it was given to the driver |
//! | [`status`] | why a stream ended, in each protocol's words | it is asked |
//! | [`driver`] | reads, steps all of these, and cancels | it is ticked |
//!
//! Policies are pure: each is stepped with a sample and the time, and answers with what to do. Permits and the driver stand beside them.
//! For operators, with settings and what to watch: `docs/overload.md`.
//!
//! # Examples
//! A stream from its arrival to its end. (Any executor does; `select!` and the runtime here are tokio's.)
//! ```
//! use std::{error::Error, future::pending, time::Instant};
//!
//! use keywake::load::StreamClass;
//! use keywake::overload::{
//!     admission::{Admission, AdmissionLimits, Decision},
//!     driver::{Driver, DriverBuilder, StreamInfo},
//!     evictor::{EvictorBuilder, Mode},
//!     status::{Classifier, Code, EndCause, StreamEnd},
//! };
//!
//! async fn serve(driver: &Driver, admission: &Admission, work: impl Future<Output = Result<(), Box<dyn Error>>>) -> StreamEnd {
//!     let classifier = Classifier::new(); // taught the host's own errors, and made once
//!     let class = StreamClass::Live;
//!     // May wait for room. Who is refused is sent `refusal.retry_after()`.
//!     let permit = match admission.admit(class, Some("alice"), Instant::now()).await {
//!         Decision::Admit(permit) => permit,
//!         Decision::Reject(refusal) => return classifier.classify(Some(&refusal), None),
//!     };
//!     // Both belong to what does the work: dropping them is the end of the stream.
//!     let stream = driver.streams().register(StreamInfo::new(class, "request-1").permit(permit), Instant::now());
//!     let mut token = stream.token();
//!     let returned = tokio::select! {
//!         biased;
//!         cancelled = token.cancelled() => Err(cancelled.into()), // as an error: without one it would count as complete
//!         returned = stream.meter().run(work) => returned,
//!     };
//!     let cancelled = stream.cancelled();
//!     let reason = cancelled.as_ref().map(|cancelled| cancelled as &(dyn Error + 'static));
//!     match returned {
//!         Ok(()) => classifier.classify(None, reason),
//!         Err(error) => classifier.classify(Some(&*error), reason),
//!     }
//! }
//!
//! let admission = Admission::new(AdmissionLimits { soft: 60, hard: 64, ..AdmissionLimits::default() })?;
//! let evictor = EvictorBuilder::new().mode(Mode::Observe);
//! let driver = DriverBuilder::new(evictor).admission(admission.clone()).build()?;
//! // What the health endpoint answers.
//! let health = || if driver.load().is_ready() { 200 } else { 503 };
//! # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! # runtime.block_on(async {
//! // Somebody has to tick: `driver.run`, or a loop of the host's.
//! driver.tick(Instant::now());
//! assert_eq!((serve(&driver, &admission, async { Ok(()) }).await.code(), health()), (Code::Ok, 200));
//!
//! // The process stops: no new work, and what is still there when its time is over is told to end.
//! let stop = async {
//!     driver.load().shut_down("SIGTERM", Instant::now());
//!     driver.streams().cancel_all(EndCause::ShuttingDown)
//! };
//! let (end, cancelled) = tokio::join!(serve(&driver, &admission, pending()), stop);
//! assert_eq!((end.code(), cancelled, health()), (Code::Unavailable, 1, 503));
//! # });
//! # Ok::<(), Box<dyn Error>>(())
//! ```

pub mod admission;
pub mod concurrency;
pub mod driver;
pub mod events;
pub mod evictor;
pub mod pending;
pub mod readiness;
pub mod status;
pub mod watchdog;
