//! Why a stream ended is found by type at any depth, a cancel's reason beats what was returned, and one table has each protocol's words.

use std::{
    error::Error,
    fmt, io,
    sync::Arc,
    time::{Duration, Instant},
};

use keywake::{
    CloseReason, Position, TryRecvError,
    load::StreamClass,
    overload::{
        admission::{Admission, AdmissionLimits},
        status::{Classifier, Code, EndCause, Retry, StreamEnd},
        watchdog::{Watchdog, WatchdogLimits},
    },
};

/// An error around another, as handlers add them on the way up.
#[derive(Debug)]
struct Wrapped(&'static str, Box<dyn Error + Send + Sync>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.1)
    }
}

/// A status of an RPC library.
#[derive(Debug)]
struct Status(Code);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {:?}", self.0)
    }
}

impl Error for Status {}

/// The same of another library.
#[derive(Debug)]
struct Connect(Code);

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connect {:?}", self.0)
    }
}

impl Error for Connect {}

/// An error of a module, which fails each time.
#[derive(Debug)]
struct Wasm;

impl fmt::Display for Wasm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panic in map_blocks")
    }
}

impl Error for Wasm {}

fn classifier() -> Classifier {
    Classifier::new()
        .cause(|_: &Wasm| Some(EndCause::Deterministic))
        .status(|status: &Status| status.0)
        .last_resort(|status: &Connect| status.0)
}

/// The words of the source's four wraps, and further ones.
const LAYERS: [&str; 8] = [
    "scheduler run",
    "parallel processing run",
    "run_parallel_process failed",
    "error during init_stores_and_backprocess",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
];

fn wrapped(error: impl Error + Send + Sync + 'static, depth: usize) -> Box<dyn Error + Send + Sync> {
    LAYERS[..depth].iter().fold(Box::new(error), |error, layer| Box::new(Wrapped(layer, error)))
}

fn of(error: &(dyn Error + 'static)) -> StreamEnd {
    classifier().classify(Some(error), None)
}

fn code(error: &(dyn Error + 'static)) -> Code {
    of(error).code()
}

#[test]
fn x1_sentinel_is_found_at_any_depth() {
    for cause in EndCause::ALL {
        for depth in 0..=LAYERS.len() {
            let end = of(&*wrapped(cause, depth));
            assert_eq!((end.cause(), end.code()), (Some(cause), cause.code()), "{depth} deep");
        }
    }
}

#[test]
fn x1_sentinel_is_found_in_boxes_arcs_and_io_errors() {
    let sentinel = EndCause::Evicted;
    let borrowed: &'static EndCause = &EndCause::Evicted;
    let shared: Arc<dyn Error + Send + Sync> = Arc::new(sentinel);
    let local: Arc<dyn Error> = Arc::new(sentinel);
    let shared_twice: Arc<dyn Error + Send + Sync> = Arc::new(Arc::clone(&shared));
    let in_io = io::Error::other(sentinel);
    let chains: [Box<dyn Error>; 13] = [
        Box::new(borrowed),
        Box::new(Box::new(Arc::clone(&shared))),
        Box::new(shared_twice),
        wrapped(borrowed, 3),
        Box::new(Box::new(sentinel)),
        Box::new(Arc::new(sentinel)),
        Box::new(shared),
        Box::new(local),
        Box::new(in_io),
        Box::new(Arc::new(io::Error::other(Box::new(sentinel)))),
        Box::new(io::Error::other(wrapped(sentinel, 4))),
        wrapped(io::Error::other(wrapped(io::Error::other(sentinel), 2)), 3),
        wrapped(Box::new(Wrapped("outer", Box::new(Arc::new(sentinel)))), 2),
    ];
    for chain in chains {
        assert_eq!(of(&*chain).cause(), Some(sentinel), "{chain:?}");
    }
}

#[test]
fn x1_type_that_was_taught_is_found_as_deep() {
    for depth in 0..=8 {
        assert_eq!(code(&*wrapped(Status(Code::NotFound), depth)), Code::NotFound);
        assert_eq!(code(&*wrapped(Box::new(Status(Code::NotFound)), depth)), Code::NotFound);
        assert_eq!(of(&*wrapped(Wasm, depth)).cause(), Some(EndCause::Deterministic));
    }
}

#[test]
fn error_that_is_its_own_source_is_classified_all_the_same() {
    #[derive(Debug)]
    struct Loop;
    impl fmt::Display for Loop {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("loop")
        }
    }
    impl Error for Loop {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }
    assert_eq!(code(&Loop), Code::Internal);
}

#[test]
fn of_a_chain_a_thousand_errors_are_looked_at() {
    let deep = |depth: usize| (1..depth).fold(Box::new(EndCause::Evicted) as _, |error, _| Box::new(Wrapped("on", error)) as _);
    let (found, beyond): (Box<dyn Error + Send + Sync>, Box<dyn Error + Send + Sync>) = (deep(1_000), deep(1_001));
    assert_eq!((of(&*found).cause(), of(&*beyond).cause()), (Some(EndCause::Evicted), None));
}

#[test]
fn sentinel_below_other_causes_counts_by_rank_and_not_by_depth() {
    /// What one layer says, over what the next one says.
    #[derive(Debug)]
    struct Over(EndCause, Option<Box<Self>>);
    impl fmt::Display for Over {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt(f)
        }
    }
    impl Error for Over {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&**self.1.as_ref()?)
        }
    }
    let classifier = classifier().cause(|over: &Over| Some(over.0));
    // From the one that counts most to the one that counts least: 1.4.
    let order = [
        EndCause::Cancelled,
        EndCause::PermissionDenied,
        EndCause::ShuttingDown,
        EndCause::QuickSaved,
        EndCause::DeadlineExceeded,
        EndCause::Deterministic,
        EndCause::InvalidArgument,
    ];
    for (place, stronger) in order.iter().enumerate() {
        for weaker in &order[place + 1..] {
            for [outer, inner] in [[*stronger, *weaker], [*weaker, *stronger]] {
                let error = Over(outer, Some(Box::new(Over(inner, None))));
                assert_eq!(classifier.classify(Some(&error), None).cause(), Some(*stronger), "{outer:?} over {inner:?}");
            }
        }
    }
    // Of two that count the same it is the outer one.
    let error = Over(EndCause::Stalled, Some(Box::new(Over(EndCause::Evicted, None))));
    assert_eq!(classifier.classify(Some(&error), None).cause(), Some(EndCause::Stalled));
}

#[test]
fn refusals_and_verdicts_that_are_returned_are_known_without_being_taught() {
    let limits = AdmissionLimits { hard: 2, per_identity: 1, ..AdmissionLimits::default() };
    let admission = Admission::with_seed(limits, 1).unwrap();
    let came = |identity| admission.try_admit(StreamClass::Live, Some(identity)).into_result();
    let _permits = ["a", "b"].map(|identity| came(identity).unwrap());
    let (full, many) = (came("c").unwrap_err(), came("a").unwrap_err());
    admission.shutdown();
    for (refusal, cause) in
        [(full, EndCause::Overloaded), (many, EndCause::TooManyStreams), (came("c").unwrap_err(), EndCause::ShuttingDown)]
    {
        assert_eq!(refusal.reason().cause(), cause);
        for depth in [0, 4] {
            let end = of(&*wrapped(refusal.clone(), depth));
            assert_eq!((end.cause(), end.code(), end.may_resume()), (Some(cause), cause.code(), true));
        }
    }
    let minute = Duration::from_secs(60);
    let limits = [
        (WatchdogLimits { stall: 2 * minute, item: minute, ..WatchdogLimits::default() }, EndCause::Stalled),
        (WatchdogLimits { stall: Duration::ZERO, item: minute, ..WatchdogLimits::default() }, EndCause::DeadlineExceeded),
        (
            WatchdogLimits { stall: Duration::ZERO, item: Duration::ZERO, absolute: minute, ..WatchdogLimits::default() },
            EndCause::ActiveTooLong,
        ),
    ];
    for (limits, cause) in limits {
        let (watchdog, began) = (Watchdog::new(limits).unwrap(), Instant::now());
        let task = watchdog.watch("a", began);
        let blocks = task.source("blocks");
        let _item = (cause == EndCause::DeadlineExceeded).then(|| blocks.item());
        let verdicts = (1..=5).flat_map(|check| watchdog.check(began + check * minute).verdicts);
        let verdict = verdicts.last().expect("its time is up");
        assert_eq!(verdict.timed_out.cause(), cause);
        for depth in [0, 4] {
            let end = of(&*wrapped(verdict.clone(), depth));
            assert_eq!((end.cause(), end.code()), (Some(cause), Code::DeadlineExceeded));
        }
    }
}

#[test]
fn x2_reason_of_a_cancel_beats_the_error_that_was_returned() {
    let returned: [Box<dyn Error>; 5] = [
        Box::new(io::Error::from(io::ErrorKind::BrokenPipe)),
        Box::new(EndCause::Cancelled),
        wrapped(EndCause::Cancelled, 4),
        Box::new(Status(Code::NotFound)),
        wrapped(Wasm, 2),
    ];
    for error in &returned {
        for depth in [0, 4] {
            let reason = wrapped(EndCause::Evicted, depth);
            let end = classifier().classify(Some(&**error), Some(&*reason));
            assert_eq!((end.code(), end.cause()), (Code::Unavailable, Some(EndCause::Evicted)), "{error:?}");
        }
    }
}

#[test]
fn e17_client_of_an_evicted_stream_is_told_unavailable_and_to_reconnect() {
    let text = "server CPU overloaded, please reconnect";
    for depth in 0..=8 {
        let end = of(&*wrapped(EndCause::Evicted, depth));
        assert_eq!((end.code(), end.code().wire().grpc, end.message()), (Code::Unavailable, 14, text));
    }
    let unrelated = io::Error::other("the sink is gone");
    let end = classifier().classify(Some(&unrelated), Some(&EndCause::Evicted));
    assert_eq!((end.code(), end.message()), (Code::Unavailable, text));
}

#[test]
fn x3_row_1_no_error_is_ok() {
    assert_eq!(classifier().classify(None, None).code(), Code::Ok);
    assert_eq!(classifier().classify(None, Some(&EndCause::Evicted)).code(), Code::Ok, "it was complete before it noticed");
}

#[test]
fn x3_row_2_cancel_is_replaced_by_its_reason_and_stays_one_without() {
    for depth in 0..=8 {
        let cancelled = wrapped(EndCause::Cancelled, depth);
        let end = classifier().classify(Some(&*cancelled), Some(&EndCause::ShuttingDown));
        assert_eq!(end.code(), Code::Unavailable);
        let end = classifier().classify(Some(&*cancelled), Some(&EndCause::Cancelled));
        assert_eq!(end.code(), Code::Cancelled);
        assert_eq!(code(&*cancelled), Code::Cancelled);
    }
    assert_eq!(over(EndCause::Cancelled).code(), Code::Cancelled, "before all that comes after it");
}

#[test]
fn x3_row_3_errors_of_the_session() {
    for (cause, expected) in [
        (EndCause::SessionUnavailable, Code::Unavailable),
        (EndCause::PermissionDenied, Code::PermissionDenied),
        (EndCause::QuotaExceeded, Code::ResourceExhausted),
        (EndCause::TooManyStreams, Code::ResourceExhausted),
    ] {
        assert_eq!(code(&*wrapped(cause, 2)), expected);
    }
}

#[test]
fn x3_row_4_shutdown_is_unavailable_whatever_is_around_it() {
    assert_eq!(code(&*wrapped(EndCause::ShuttingDown, 4)), Code::Unavailable);
    assert_eq!(over(EndCause::ShuttingDown).cause(), Some(EndCause::ShuttingDown));
}

/// A status with a source.
#[derive(Debug)]
struct StatusOver(Status, EndCause);

impl fmt::Display for StatusOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for StatusOver {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.1)
    }
}

/// What a status over this cause is classified as.
fn over(cause: EndCause) -> StreamEnd {
    let classifier = classifier().status(|over: &StatusOver| over.0.0);
    classifier.classify(Some(&StatusOver(Status(Code::NotFound), cause)), None)
}

#[test]
fn x3_row_5_status_is_passed_on_code_by_code() {
    for passed in Code::ALL {
        let end = of(&*wrapped(Status(passed), 3));
        assert_eq!((end.code(), end.cause(), end.message()), (passed, None, format!("status {passed:?}").as_str()));
        let end = of(&*wrapped(StreamEnd::new(passed, "of a layer below"), 3));
        assert_eq!((end.code(), end.message()), (passed, "of a layer below"));
    }
}

#[test]
fn x3_rows_before_a_status_beat_it_and_rows_after_do_not() {
    for cause in EndCause::ALL {
        let beats = !matches!(
            cause,
            EndCause::QuickSaved
                | EndCause::DeadlineExceeded
                | EndCause::Deterministic
                | EndCause::StoreTooLarge
                | EndCause::InvalidArgument
        );
        assert_eq!(over(cause).cause(), beats.then_some(cause), "{cause:?}");
    }
}

#[test]
fn x3_row_6_quick_save_is_unavailable() {
    assert_eq!(code(&EndCause::QuickSaved), Code::Unavailable);
}

#[test]
fn x3_row_7_deadline_and_stalls_are_deadline_exceeded_and_told_apart() {
    for cause in [EndCause::DeadlineExceeded, EndCause::Stalled, EndCause::ActiveTooLong] {
        assert_eq!(code(&*wrapped(cause, 3)), Code::DeadlineExceeded);
    }
    assert_eq!(of(&EndCause::Stalled).message(), "request stalled, no block progress");
    assert_eq!(of(&EndCause::ActiveTooLong).message(), "request active for too long");
}

#[test]
fn x3_row_8_what_fails_each_time_is_an_invalid_argument_and_says_so() {
    let end = of(&*wrapped(Wasm, 2));
    assert_eq!((end.code(), end.message()), (Code::InvalidArgument, "panic in map_blocks (deterministic error)"));
    let end = of(&*wrapped(EndCause::StoreTooLarge, 2));
    assert_eq!(end.code(), Code::InvalidArgument);
    assert!(end.message().ends_with("(deterministic error)"));
    assert!(!end.may_resume(), "it would fail again");
}

#[test]
fn x3_row_9_invalid_argument() {
    assert_eq!(code(&*wrapped(EndCause::InvalidArgument, 1)), Code::InvalidArgument);
}

#[test]
fn x3_row_10_last_resort_counts_where_nothing_else_is_known() {
    assert_eq!(code(&*wrapped(Connect(Code::NotFound), 5)), Code::NotFound);
    assert_eq!(code(&Connect(Code::Unavailable)), Code::Unavailable, "and not Cancelled, as the source's tier2 had it");
    let both = ConnectOver(Connect(Code::NotFound), EndCause::InvalidArgument);
    let classifier = classifier().last_resort(|over: &ConnectOver| over.0.0);
    assert_eq!(classifier.classify(Some(&both), None).cause(), Some(EndCause::InvalidArgument));
}

/// A last resort with a source.
#[derive(Debug)]
struct ConnectOver(Connect, EndCause);

impl fmt::Display for ConnectOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for ConnectOver {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.1)
    }
}

#[test]
fn x4_text_means_nothing() {
    for text in [
        EndCause::Evicted.to_string(),
        EndCause::ShuttingDown.to_string(),
        "service currently overloaded".into(),
        "context canceled".into(),
        "DeadlineExceeded".into(),
        "rpc error: code = Unavailable".into(),
    ] {
        assert_eq!(code(&*wrapped(io::Error::other(text), 2)), Code::Internal);
    }
}

#[test]
fn x5_unknown_is_internal_and_its_text_stays_here() {
    let secret = io::Error::other("password=hunter2");
    let end = of(&*wrapped(secret, 3));
    assert_eq!((end.code(), end.cause(), end.message()), (Code::Internal, None, "internal error"));
    assert!(!end.to_string().contains("hunter2") && !format!("{end:?}").contains("hunter2"));
}

#[test]
fn x6_shutdown_bare_and_wrapped_and_a_quick_save_bare_and_wrapped_are_unavailable() {
    for cause in [EndCause::ShuttingDown, EndCause::QuickSaved] {
        for depth in [0, 4] {
            let end = of(&*wrapped(cause, depth));
            assert_eq!((end.code(), end.cause()), (Code::Unavailable, Some(cause)), "{depth} deep");
            assert!(end.may_resume());
        }
    }
}

#[test]
fn cancel_that_another_server_tells_of_is_not_ours() {
    let end = of(&*wrapped(Status(Code::Cancelled), 2));
    assert_eq!((end.code(), end.cause()), (Code::Cancelled, None));
    let end = classifier().classify(Some(&Status(Code::Cancelled)), Some(&EndCause::Evicted));
    assert_eq!(end.code(), Code::Unavailable);
}

#[test]
fn retry_is_safe_only_before_the_first_data_and_then_the_error_says_how_to_go_on() {
    let end = of(&EndCause::Evicted);
    assert!(end.is_retry_safe());
    assert_eq!(end.to_string(), "server CPU overloaded, please reconnect");
    let cursor = Position::new(0xbeef, 7);
    let end = end.after(true, Some(cursor));
    assert!(!end.is_retry_safe() && end.may_resume());
    assert_eq!(end.cursor(), Some(cursor));
    assert_eq!(
        end.to_string(),
        "server CPU overloaded, please reconnect; data was sent, so it must not be tried again, but resumed from v1.beef.7"
    );
    // Of a layer below: what it knew is kept.
    let again = of(&*wrapped(end.clone(), 2));
    assert_eq!(again, end);
    // Three chunks, then the transport fails.
    let end = of(&Status(Code::Unavailable)).after(true, None);
    assert!(!end.is_retry_safe() && end.to_string().contains("must not be tried again"));
    assert!(!of(&EndCause::InvalidArgument).is_retry_safe(), "it fails again");
}

#[test]
fn every_end_of_a_subscription_has_its_code_and_may_resume_as_it_says() {
    for (reason, expected) in [
        (CloseReason::KeyClosed, Code::Ok),
        (CloseReason::Other("a secret".into()), Code::Unknown),
        (CloseReason::PredicatePanicked, Code::Internal),
        (CloseReason::PublisherDropped, Code::Unavailable),
        (CloseReason::Shutdown, Code::Unavailable),
        (CloseReason::SlowReader, Code::Unavailable),
        (CloseReason::TopicLimit, Code::ResourceExhausted),
    ] {
        let end = StreamEnd::from(&reason);
        assert_eq!((end.code(), end.may_resume()), (expected, reason.may_resume()), "{reason:?}");
        assert!(!end.message().contains("secret"));
        let (publisher, hub) = keywake::hub::<u8, u8>();
        let mut reader = hub.subscribe(&1);
        hub.close(&1, reason.clone());
        let Err(TryRecvError::Closed(closed)) = reader.try_recv() else { panic!("the end") };
        drop(publisher);
        assert_eq!(StreamEnd::from(&closed), end);
        assert_eq!(of(&*wrapped(closed, 3)), end);
    }
    assert_eq!(StreamEnd::from(&CloseReason::Shutdown).cause(), Some(EndCause::ShuttingDown));
}

#[test]
fn table_has_the_words_of_each_protocol() {
    let table = [
        (Code::Ok, 0, 200, 1000, Retry::Never),
        (Code::Cancelled, 1, 499, 1000, Retry::Never),
        (Code::Unknown, 2, 500, 1011, Retry::Never),
        (Code::InvalidArgument, 3, 400, 1008, Retry::Never),
        (Code::DeadlineExceeded, 4, 504, 3008, Retry::Soon),
        (Code::NotFound, 5, 404, 1008, Retry::Never),
        (Code::AlreadyExists, 6, 409, 1008, Retry::Never),
        (Code::PermissionDenied, 7, 403, 3003, Retry::Never),
        (Code::ResourceExhausted, 8, 429, 1013, Retry::Later),
        (Code::FailedPrecondition, 9, 400, 1008, Retry::Never),
        (Code::Aborted, 10, 409, 1013, Retry::Soon),
        (Code::OutOfRange, 11, 400, 1008, Retry::Never),
        (Code::Unimplemented, 12, 501, 1003, Retry::Never),
        (Code::Internal, 13, 500, 1011, Retry::Never),
        (Code::Unavailable, 14, 503, 1013, Retry::Soon),
        (Code::DataLoss, 15, 500, 1011, Retry::Never),
        (Code::Unauthenticated, 16, 401, 3000, Retry::Never),
    ];
    assert_eq!(table.map(|(code, ..)| code), Code::ALL);
    for (code, grpc, http, websocket, retry) in table {
        let wire = code.wire();
        assert_eq!((wire.grpc, wire.http, wire.websocket, wire.retry), (grpc, http, websocket, retry), "{code:?}");
        assert_eq!(wire.sse_event, "goaway");
        assert_eq!(Code::from_grpc(grpc.into()), code);
    }
    assert_eq!([17, 99, u32::MAX].map(Code::from_grpc), [Code::Unknown; 3]);
}

#[test]
fn hint_when_to_come_back_is_spread_and_longer_for_want_of_room() {
    let second = Duration::from_secs(1);
    let after = |cause: EndCause, spread| StreamEnd::from(cause).retry_after(second, spread);
    assert_eq!([0.0, 0.5, 1.0].map(|spread| after(EndCause::Evicted, spread)), [1, 2, 3].map(|n| Some(n * second)));
    assert_eq!([0.0, 1.0].map(|spread| after(EndCause::QuotaExceeded, spread)), [10, 30].map(|n| Some(n * second)));
    assert_eq!(after(EndCause::InvalidArgument, 0.5), None);
    for odd in [f64::NAN, -1.0, f64::NEG_INFINITY] {
        assert_eq!(after(EndCause::Evicted, odd), Some(second));
    }
    assert_eq!(after(EndCause::Evicted, f64::INFINITY), Some(3 * second));
    assert_eq!(StreamEnd::from(EndCause::Overloaded).retry_after(Duration::MAX, 1.0), Some(Duration::MAX));
}
