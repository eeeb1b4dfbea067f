//! Defaults, presets, and what is refused.

use std::time::Duration;

use keywake::{
    load::StreamClass,
    overload::evictor::{ClassOrder, ClassOrderError, EvictorBuilder, Mode, SettingsError, SettingsWarning},
};

fn refused(builder: EvictorBuilder) -> SettingsError {
    builder.build::<u32>().map(drop).expect_err("settings that cannot work")
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn defaults_are_the_documented_table() {
    let documented = "\
mode = off
threshold = 0.9
sustain = 15s
throttled_threshold = 0.25
target = 0.75
recover = 0.8
recover_sustain = 30s
interval = 5s
drain = 10s
cooldown = 15s
min_age = 90s
min_burn_cores = 0.05
max_unready = 300s
max_per_round = 50
max_production_share = 0.5
cool_off = 3600s
nominal = soft limit
strikes = 3
node_stalled = 0.25
min_ready_share = off
retry_after = 1s
retry_spread = 10s
";
    let evictor = EvictorBuilder::new().build::<u32>().unwrap();
    assert_eq!(evictor.settings().to_string(), documented);
    assert_eq!(evictor.warnings(), []);
    assert_eq!(ClassOrder::default().to_string(), "dev,live,catch-up");
}

#[test]
fn preset_s0_has_the_sources_numbers_and_is_accepted_with_warnings() {
    let evictor = EvictorBuilder::s0().build::<u32>().unwrap();
    let settings = evictor.settings();
    let ratios = (settings.threshold, settings.target, settings.recover, settings.min_burn_cores);
    assert_eq!(ratios, (0.9, 0.75, 0.75, 0.05));
    let times =
        [settings.sustain, settings.recover_sustain, settings.interval, settings.cooldown, settings.drain, settings.min_age];
    assert_eq!(times.map(|time| time.as_secs()), [15, 30, 5, 15, 8, 90]);
    assert_eq!((settings.max_per_round, settings.max_production_share, settings.throttled_threshold), (None, None, None));
    assert_eq!(
        evictor.warnings(),
        [
            SettingsWarning::TargetNotBelowRecover { target: 0.75, recover: 0.75 },
            SettingsWarning::DrainInEffect { drain: 8 * SECOND, in_effect: 10 * SECOND }
        ]
    );
}

#[test]
fn end_to_end_settings_of_the_source_are_accepted_with_a_warning_and_only_there() {
    let set = |builder: EvictorBuilder| {
        let builder = builder.target(0.6).recover(0.5).sustain(3 * SECOND).recover_sustain(3 * SECOND);
        builder.interval(SECOND).cooldown(5 * SECOND).drain(SECOND).min_age(2 * SECOND).nominal(8)
    };
    let evictor = set(EvictorBuilder::s0()).build::<u32>().unwrap();
    assert_eq!(evictor.warnings(), [SettingsWarning::TargetNotBelowRecover { target: 0.6, recover: 0.5 }]);
    assert!(matches!(refused(set(EvictorBuilder::new())), SettingsError::Conflict { setting: "target", with: "recover", .. }));
}

#[test]
fn settings_that_cannot_work_are_refused_with_a_message_that_says_what_to_do() {
    let new = EvictorBuilder::new;
    for (builder, setting, says) in [
        (new().target(0.8), "target", "below recover"),
        (new().target(0.85), "target", "below recover"),
        (new().recover(0.9), "recover", "between the two"),
        (new().recover(0.95), "recover", "between the two"),
        (EvictorBuilder::s0().recover(0.9), "recover", "between the two"),
        (EvictorBuilder::s0().target(0.9), "target", "below the threshold"),
        (new().threshold(1.5), "threshold", "never fire"),
        (new().threshold(f64::NAN), "threshold", "not a finite number"),
        (new().recover(f64::INFINITY), "recover", "not a finite number"),
        (new().target(-0.1), "target", "less than zero"),
        (new().min_burn_cores(f64::NAN), "min_burn_cores", "not a finite number"),
        (new().min_burn_cores(-1.0), "min_burn_cores", "less than zero"),
        (new().drain(4 * SECOND), "drain", "no health check would see it"),
        (new().max_unready(10 * SECOND), "max_unready", "before anything is evicted"),
        (new().node_stalled(Some(1.1)), "node_stalled", "say None"),
        (new().max_production_share(Some(f64::NAN)), "max_production_share", "not a finite number"),
        (new().min_ready_share(Some(-0.5)), "min_ready_share", "less than zero"),
        (new().throttled_threshold(Some(2.0)), "throttled_threshold", "say None"),
    ] {
        let message = refused(builder).to_string();
        assert!(message.contains(&format!("setting {setting} = ")) && message.contains(says), "{message}");
    }
}

#[test]
fn explicit_zero_is_taken_or_refused_and_never_replaced() {
    let zero = Duration::ZERO;
    let new = EvictorBuilder::new;
    let taken =
        new().min_age(zero).min_burn_cores(0.0).cool_off(zero).nominal(0).max_of_class(StreamClass::Live, 0).retry(zero, zero);
    let evictor = taken.build::<u32>().unwrap();
    let settings = evictor.settings();
    assert_eq!((settings.min_age, settings.min_burn_cores, settings.cool_off, settings.nominal), (zero, 0.0, zero, Some(0)));
    for (builder, setting) in [
        (new().threshold(0.0), "threshold"),
        (new().target(0.0), "target"),
        (new().recover(0.0), "recover"),
        (new().sustain(zero), "sustain"),
        (new().recover_sustain(zero), "recover_sustain"),
        (new().interval(zero), "interval"),
        (new().drain(zero), "drain"),
        (new().cooldown(zero), "cooldown"),
        (new().max_unready(zero), "max_unready"),
        (new().max_per_round(Some(0)), "max_per_round"),
        (new().strikes(0), "strikes"),
        (new().max_production_share(Some(0.0)), "max_production_share"),
        (new().node_stalled(Some(0.0)), "node_stalled"),
    ] {
        let error = refused(builder);
        assert!(matches!(error, SettingsError::Zero { setting: which, .. } if which == setting), "{error}");
    }
}

#[test]
fn cooldown_below_the_interval_works_and_is_warned_of() {
    let evictor = EvictorBuilder::new().cooldown(SECOND).build::<u32>().unwrap();
    assert_eq!(evictor.warnings(), [SettingsWarning::CooldownBelowInterval { cooldown: SECOND, interval: 5 * SECOND }]);
    assert!(evictor.warnings()[0].to_string().contains("at every tick"));
}

#[test]
fn mode_names_are_exactly_four_and_the_error_lists_them() {
    for (name, mode) in [("off", Mode::Off), ("observe", Mode::Observe), ("dev-only", Mode::DevOnly), ("full", Mode::Full)] {
        assert_eq!((name.parse(), mode.to_string()), (Ok(mode), name.to_owned()));
    }
    for name in ["", "Full", "dev_only", " full", "on"] {
        let error = name.parse::<Mode>().unwrap_err().to_string();
        assert!(error.ends_with("say one of off, observe, dev-only, full") && error.contains(&format!("{name:?}")), "{error}");
    }
}

#[test]
fn order_with_a_duplicate_or_an_unknown_class_is_refused_and_the_empty_one_is_the_default() {
    assert_eq!(" ".parse(), Ok(ClassOrder::default()));
    assert_eq!("dev,prod-live , prod-catchup".parse(), Ok(ClassOrder::s0()));
    let unknown = "dev,,live".parse::<ClassOrder>().unwrap_err();
    assert_eq!(unknown, ClassOrderError::Unknown { word: String::new() });
    let error = "dev,vip".parse::<ClassOrder>().unwrap_err().to_string();
    assert!(error.contains("\"vip\"") && error.contains("dev, cached, catch-up, live"), "{error}");
    let twice = "dev,live,prod-live".parse::<ClassOrder>();
    assert_eq!(twice, Err(ClassOrderError::Duplicate { class: StreamClass::Live }));
    assert_eq!(ClassOrder::new(&[]), Err(ClassOrderError::Empty));
}

#[test]
fn both_orders_of_the_source_can_be_said_and_the_default_is_the_first() {
    use StreamClass::{Cached, CatchUp, Dev, Live};
    assert_eq!(ClassOrder::default().classes(), [Dev, Live, CatchUp]);
    assert_eq!("dev,prod-cached,prod-catchup".parse(), Ok(ClassOrder::protect_live()));
    assert_eq!(ClassOrder::protect_live().classes(), [Dev, Cached, CatchUp]);
    assert_eq!(ClassOrder::protect_live().to_string().parse(), Ok(ClassOrder::protect_live()));
}
