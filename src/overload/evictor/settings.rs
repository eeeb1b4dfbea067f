//! The evictor's settings: defaults, presets, and what is refused because it cannot work.

use std::{fmt, str::FromStr, time::Duration};

use super::{
    Evictor,
    check::{SettingsError, check},
    order::ClassOrder,
    victims::{ClassCap, VictimPolicy},
};
use crate::load::StreamClass;

/// How much of what it decides an evictor has carried out. It is the evictor's alone: admission, adaptive concurrency and the watchdog have no
/// mode, and act if the [driver](crate::overload::driver) was given them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Unready, refusing and evicting, but only of class [`Dev`](StreamClass::Dev), whatever the class order says.
    DevOnly,
    /// Unready, refusing and evicting, in class order.
    Full,
    /// Says what it would do, and does nothing.
    Observe,
    /// Nothing is looked at.
    #[default]
    Off,
}

impl Mode {
    const NAMED: [(&'static str, Self); 4] =
        [("off", Self::Off), ("observe", Self::Observe), ("dev-only", Self::DevOnly), ("full", Self::Full)];

    /// Whether readiness, admission and streams feel what the evictor decides.
    #[must_use]
    pub fn enforces(self) -> bool {
        matches!(self, Self::DevOnly | Self::Full)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMED.iter().find(|(_, mode)| mode == self).map_or("", |(name, _)| name);
        f.pad(name)
    }
}

/// A text that names no [`Mode`]. Its message lists those there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseModeError {
    /// What was given.
    pub value: String,
}

impl fmt::Display for ParseModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eviction mode {:?} is not known: say one of off, observe, dev-only, full", self.value)
    }
}

impl std::error::Error for ParseModeError {}

impl FromStr for Mode {
    type Err = ParseModeError;

    /// `off`, `observe`, `dev-only` or `full`, exactly.
    ///
    /// # Errors
    /// On anything else, the empty text included.
    fn from_str(text: &str) -> Result<Self, ParseModeError> {
        let named = Self::NAMED.iter().find(|(name, _)| *name == text);
        named.map(|(_, mode)| *mode).ok_or_else(|| ParseModeError { value: text.to_owned() })
    }
}

/// What an evictor was built with; made by [`EvictorBuilder`], whose methods say what each means. Its `Display` is one setting a line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// See [`EvictorBuilder::mode`].
    pub mode: Mode,
    /// See [`EvictorBuilder::threshold`].
    pub threshold: f64,
    /// See [`EvictorBuilder::sustain`].
    pub sustain: Duration,
    /// See [`EvictorBuilder::throttled_threshold`].
    pub throttled_threshold: Option<f64>,
    /// See [`EvictorBuilder::target`].
    pub target: f64,
    /// See [`EvictorBuilder::recover`].
    pub recover: f64,
    /// See [`EvictorBuilder::recover_sustain`].
    pub recover_sustain: Duration,
    /// See [`EvictorBuilder::interval`].
    pub interval: Duration,
    /// See [`EvictorBuilder::drain`].
    pub drain: Duration,
    /// See [`EvictorBuilder::cooldown`].
    pub cooldown: Duration,
    /// See [`EvictorBuilder::min_age`].
    pub min_age: Duration,
    /// See [`EvictorBuilder::min_burn_cores`].
    pub min_burn_cores: f64,
    /// See [`EvictorBuilder::max_unready`].
    pub max_unready: Duration,
    /// See [`EvictorBuilder::max_per_round`].
    pub max_per_round: Option<usize>,
    /// See [`EvictorBuilder::max_production_share`].
    pub max_production_share: Option<f64>,
    /// See [`EvictorBuilder::max_of_class`].
    pub class_caps: Vec<ClassCap>,
    /// See [`EvictorBuilder::cool_off`].
    pub cool_off: Duration,
    /// See [`EvictorBuilder::nominal`].
    pub nominal: Option<usize>,
    /// See [`EvictorBuilder::strikes`].
    pub strikes: u32,
    /// See [`EvictorBuilder::node_stalled`].
    pub node_stalled: Option<f64>,
    /// See [`EvictorBuilder::min_ready_share`].
    pub min_ready_share: Option<f64>,
    /// See [`EvictorBuilder::retry`].
    pub retry_after: Duration,
    /// See [`EvictorBuilder::retry`].
    pub retry_spread: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            mode: Mode::Off,
            threshold: 0.9,
            sustain: seconds(15),
            throttled_threshold: Some(0.25),
            target: 0.75,
            recover: 0.8,
            recover_sustain: seconds(30),
            interval: seconds(5),
            drain: seconds(10),
            cooldown: seconds(15),
            min_age: seconds(90),
            min_burn_cores: 0.05,
            max_unready: seconds(300),
            max_per_round: Some(50),
            max_production_share: Some(0.5),
            class_caps: Vec::new(),
            cool_off: seconds(3600),
            nominal: None,
            strikes: 3,
            node_stalled: Some(0.25),
            min_ready_share: None,
            retry_after: seconds(1),
            retry_spread: seconds(10),
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn or<T: fmt::Debug>(value: Option<T>, none: &str) -> String {
            value.map_or_else(|| none.to_owned(), |value| format!("{value:?}"))
        }
        writeln!(f, "mode = {}", self.mode)?;
        writeln!(f, "threshold = {:?}", self.threshold)?;
        writeln!(f, "sustain = {:?}", self.sustain)?;
        writeln!(f, "throttled_threshold = {}", or(self.throttled_threshold, "off"))?;
        writeln!(f, "target = {:?}", self.target)?;
        writeln!(f, "recover = {:?}", self.recover)?;
        writeln!(f, "recover_sustain = {:?}", self.recover_sustain)?;
        writeln!(f, "interval = {:?}", self.interval)?;
        writeln!(f, "drain = {:?}", self.drain)?;
        writeln!(f, "cooldown = {:?}", self.cooldown)?;
        writeln!(f, "min_age = {:?}", self.min_age)?;
        writeln!(f, "min_burn_cores = {:?}", self.min_burn_cores)?;
        writeln!(f, "max_unready = {:?}", self.max_unready)?;
        writeln!(f, "max_per_round = {}", or(self.max_per_round, "no cap"))?;
        writeln!(f, "max_production_share = {}", or(self.max_production_share, "no cap"))?;
        for ClassCap { class, most } in &self.class_caps {
            writeln!(f, "max_of_class {class:?} = {most}")?;
        }
        writeln!(f, "cool_off = {:?}", self.cool_off)?;
        writeln!(f, "nominal = {}", or(self.nominal, "soft limit"))?;
        writeln!(f, "strikes = {}", self.strikes)?;
        writeln!(f, "node_stalled = {}", or(self.node_stalled, "off"))?;
        writeln!(f, "min_ready_share = {}", or(self.min_ready_share, "off"))?;
        writeln!(f, "retry_after = {:?}", self.retry_after)?;
        writeln!(f, "retry_spread = {:?}", self.retry_spread)
    }
}

/// Makes an [`Evictor`].
///
/// | setting | default | [`s0`](Self::s0) |
/// |---|---|---|
/// | `mode` | off | |
/// | `threshold`, `sustain` | 0.90, 15 s | |
/// | `throttled_threshold` | 0.25 | off |
/// | `target` | 0.75 | |
/// | `recover`, `recover_sustain` | 0.80, 30 s | 0.75, 30 s |
/// | `interval` | 5 s | |
/// | `drain` | 10 s | 8 s |
/// | `cooldown` | 15 s | |
/// | `min_age`, `min_burn_cores` | 90 s, 0.05 | |
/// | `max_unready` | 5 min | |
/// | `max_per_round`, `max_production_share` | 50, half | no caps |
/// | `cool_off` | 1 h | |
/// | `nominal` | the soft limit | |
/// | order | dev, live, catch-up | |
///
/// Nothing here takes zero for "not set": what is not called keeps its default, and a zero is taken as one or refused.
///
/// # Examples
/// ```
/// use keywake::overload::{evictor::{Evictor, EvictorBuilder, Mode}};
/// let evictor: Evictor<String> = EvictorBuilder::new().mode(Mode::Observe).build()?;
/// assert!(evictor.warnings().is_empty());
/// # Ok::<(), keywake::overload::evictor::SettingsError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until it builds"]
pub struct EvictorBuilder {
    pub(super) settings: Settings,
    pub(super) policy: Box<dyn VictimPolicy>,
    /// From `s0()`: what contradicts itself there is a warning.
    source: bool,
}

impl Default for EvictorBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl EvictorBuilder {
    /// The defaults of the table.
    pub fn new() -> Self {
        Self { settings: Settings::default(), policy: Box::new(ClassOrder::default()), source: false }
    }

    /// The numbers of the source, Substreams' CPU evictor: recover 0.75, drain 8 s, no caps, usage alone as the signal.
    ///
    /// Its recover ratio is not above its target, so that a round which lands on its target never recovers by itself: that is a
    /// [warning](super::SettingsWarning::TargetNotBelowRecover) here and an error otherwise, and `max_unready` ends it.
    pub fn s0() -> Self {
        let settings = Settings {
            throttled_threshold: None,
            recover: 0.75,
            drain: Duration::from_secs(8),
            max_per_round: None,
            max_production_share: None,
            ..Settings::default()
        };
        Self { settings, source: true, ..Self::new() }
    }

    /// The order dev, cached, catch-up; live streams are never let go. See [`ClassOrder::protect_live`] for when to use it.
    pub fn protect_live(self) -> Self {
        self.order(ClassOrder::protect_live())
    }

    /// What is carried out. Default [`Mode::Off`].
    pub fn mode(mut self, mode: Mode) -> Self {
        self.settings.mode = mode;
        self
    }

    /// The share of the quota in use from which on the processors count as saturated. Above 0, at most 1: the kernel lets no group
    /// use more for long.
    pub fn threshold(mut self, ratio: f64) -> Self {
        self.settings.threshold = ratio;
        self
    }

    /// For how long they must be saturated, without a sample to the contrary.
    pub fn sustain(mut self, time: Duration) -> Self {
        self.settings.sustain = time;
        self
    }

    /// The share of throttled periods from which on the *demand* counts against `threshold`, not the usage: bursts are throttled at a usage
    /// that is below the quota on average. `None`: the usage alone, as the source does.
    pub fn throttled_threshold(mut self, share: Option<f64>) -> Self {
        self.settings.throttled_threshold = share;
        self
    }

    /// The share of the quota that a round aims for.
    pub fn target(mut self, ratio: f64) -> Self {
        self.settings.target = ratio;
        self
    }

    /// The share of the quota below which the processors count as recovered.
    pub fn recover(mut self, ratio: f64) -> Self {
        self.settings.recover = ratio;
        self
    }

    /// For how long they must be below.
    pub fn recover_sustain(mut self, time: Duration) -> Self {
        self.settings.recover_sustain = time;
        self
    }

    /// How often the driver steps. Steps that come within half of it are passed over.
    pub fn interval(mut self, time: Duration) -> Self {
        self.settings.interval = time;
        self
    }

    /// From unready to the first eviction: what load balancers need to notice. At least the interval, so that a health check can see it.
    /// Kubernetes' default probe needs up to 30 s.
    pub fn drain(mut self, time: Duration) -> Self {
        self.settings.drain = time;
        self
    }

    /// From one round to the next.
    pub fn cooldown(mut self, time: Duration) -> Self {
        self.settings.cooldown = time;
        self
    }

    /// Younger streams are spared. Zero spares none.
    pub fn min_age(mut self, age: Duration) -> Self {
        self.settings.min_age = age;
        self
    }

    /// Streams that burn less are spared, in cores. Zero spares those only that burn nothing.
    pub fn min_burn_cores(mut self, cores: f64) -> Self {
        self.settings.min_burn_cores = cores;
        self
    }

    /// For how long the process may be unready at a stretch. Then it is ready again, whatever the processors say, for at least as long or
    /// until it has recovered.
    pub fn max_unready(mut self, time: Duration) -> Self {
        self.settings.max_unready = time;
        self
    }

    /// The most streams of one round. `None`: no cap.
    pub fn max_per_round(mut self, streams: Option<usize>) -> Self {
        self.settings.max_per_round = streams;
        self
    }

    /// The most of one round, as a share of the production streams there are, rounded down: with one half, a lone one stays. `None`: no cap.
    pub fn max_production_share(mut self, share: Option<f64>) -> Self {
        self.settings.max_production_share = share;
        self
    }

    /// The most streams of one class in one round, besides the other caps. Zero: none of that class. Said twice, the last counts.
    pub fn max_of_class(mut self, class: StreamClass, most: usize) -> Self {
        self.settings.class_caps.retain(|cap| cap.class != class);
        self.settings.class_caps.push(ClassCap { class, most });
        self
    }

    /// For how long an identity that was evicted, here or (as its client tells) elsewhere, is spared. Zero: not at all.
    pub fn cool_off(mut self, time: Duration) -> Self {
        self.settings.cool_off = time;
        self
    }

    /// How many streams the process is sized for, for [`Evictor::effective_active`]. Not set: the soft limit. Zero: the plain count.
    pub fn nominal(mut self, streams: usize) -> Self {
        self.settings.nominal = Some(streams);
        self
    }

    /// How many readings in a row must fail before an overload is given up. One or two change nothing.
    pub fn strikes(mut self, readings: u32) -> Self {
        self.settings.strikes = readings;
        self
    }

    /// The share of time in which all tasks are stalled (pressure, `full`) from which on, without throttling and below `threshold`, the
    /// machine is held to be full with others: unready then, but nothing is evicted, since the quota is not what is short. `None`: off.
    pub fn node_stalled(mut self, share: Option<f64>) -> Self {
        self.settings.node_stalled = share;
        self
    }

    /// Stays ready while fewer of the fleet than this share are, as [`Evictor::observe_peers`] was told. `None`, the default: off.
    pub fn min_ready_share(mut self, share: Option<f64>) -> Self {
        self.settings.min_ready_share = share;
        self
    }

    /// When the first of a round may come again, and over which time the others are spread behind it. Default 1 s and 10 s.
    pub fn retry(mut self, after: Duration, spread: Duration) -> Self {
        self.settings.retry_after = after;
        self.settings.retry_spread = spread;
        self
    }

    /// In which order classes are let go. Default [`ClassOrder::s0`].
    pub fn order(self, order: ClassOrder) -> Self {
        self.policy(order)
    }

    /// A policy of one's own instead of an order of classes. Modes, ages, caps and memory apply to it as well.
    pub fn policy(mut self, policy: impl VictimPolicy) -> Self {
        self.policy = Box::new(policy);
        self
    }

    /// Checks the settings, and makes the evictor.
    ///
    /// # Errors
    /// When they cannot work: ratios not in order (`target` < `recover` < `threshold`), not numbers, zero where zero is no choice; a drain
    /// that is shorter than the interval; a bound on unreadiness that leaves no time to evict.
    pub fn build<K: Clone + Ord>(self) -> Result<Evictor<K>, SettingsError> {
        let warnings = check(&self.settings, self.source)?;
        Ok(Evictor::from_parts(self.settings, self.policy, warnings))
    }
}
