//! Invariants Z1 to Z7 over numbers of every kind. Seeded, so that a failure can be run again.

use std::time::{Duration, Instant};

use keywake::scaling::{
    AdaptiveLimits, Backlog, Fate, Fleet, Instance, Placing, Reason, Sample, ScaleDown, Scaler, ScalerBuilder, Starting, Supply,
    Verdict, max_wait, place,
};

use crate::{random::Random, totals::seconds};

impl Random {
    fn below(&mut self, most: u32) -> u32 {
        u32::try_from(self.next() % u64::from(most)).expect("it fits")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.next() % from.len() as u64).expect("it fits")]
    }

    /// Thousandths, often at a boundary.
    fn usage(&mut self) -> f64 {
        let whole = self.below(200) * self.pick(&[1, 60, 54, 66, 100]);
        f64::from(whole + self.below(3)) / f64::from(self.pick(&[1_u32, 10, 100, 1000]))
    }

    /// Any bits that there are, as well.
    fn any(&mut self) -> f64 {
        match self.below(4) {
            0 => f64::from_bits(self.next()),
            1 => self.pick(&[
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                -1.0,
                -0.0,
                0.0,
                f64::MAX,
                f64::MIN_POSITIVE,
                5e-324,
                1e9,
            ]),
            _ => self.usage(),
        }
    }

    fn maybe(&mut self) -> Option<f64> {
        (self.below(5) > 0).then(|| self.any())
    }

    fn count(&mut self) -> u32 {
        match self.below(10) {
            0 => self.pick(&[0, 1, u32::MAX, u32::MAX - 1]),
            _ => self.below(60),
        }
    }

    /// All drivers, or some.
    fn scaler(&mut self, min: u32, max: u32) -> Scaler {
        let builder = ScalerBuilder::new().cpus(self.pick(&[0.5, 1.0, 1.5, 2.0, 1e-6, 64.0])).min(min).max(max);
        let builder = builder.cpu_target(self.pick(&[0.1, 0.6, 0.95])).tolerance(self.pick(&[0.0, 0.1, 0.5]));
        let builder = builder.max_concurrency(self.pick(&[1, 10, 80, u32::MAX / 8])).demand(self.below(2) == 0);
        let builder = builder.queue(self.below(2) == 0).refusals(self.below(2) == 0).adaptive(self.below(2) == 0);
        let builder = if self.below(2) == 0 { builder.nominal(14) } else { builder };
        let builder = if self.below(2) == 0 { builder.backlog(50.0, seconds(60)) } else { builder };
        builder.build().expect("settings that work")
    }

    /// What a fleet might tell on a good day: all numbers are there.
    fn sane(&mut self) -> Sample {
        let mut sample = Sample::default();
        sample.cpu_cores = Some(self.usage() + 0.001);
        sample.demand_cores = Some(self.usage() + 0.001);
        (sample.concurrency_1m, sample.concurrency_10m) = (Some(self.usage()), Some(self.usage()));
        (sample.queued, sample.refused) = (Some(self.usage()), Some(self.usage()));
        sample.effective_streams = Some(self.usage());
        sample.adaptive_limits = Some(AdaptiveLimits { total: u64::from(self.below(900)) + 1, instances: self.below(12) + 1 });
        sample.backlog = Some(Backlog { arriving: self.usage(), unread: self.usage() });
        sample
    }

    fn any_sample(&mut self, now: Instant) -> Sample {
        let mut sample = self.sane();
        (sample.cpu_cores, sample.demand_cores) = (self.maybe(), self.maybe());
        (sample.concurrency_1m, sample.concurrency_10m) = (self.maybe(), self.maybe());
        (sample.queued, sample.refused, sample.effective_streams) = (self.maybe(), self.maybe(), self.maybe());
        sample.backlog = (self.below(3) > 0).then(|| Backlog { arriving: self.any(), unread: self.any() });
        let (total, instances) = (self.pick(&[0, 1, 80, u64::MAX]), self.count());
        sample.adaptive_limits = (self.below(3) > 0).then_some(AdaptiveLimits { total, instances });
        sample.in_flight = (self.below(3) > 0).then(|| u64::from(self.below(2)));
        sample.last_request = (self.below(3) > 0).then(|| now + seconds(1000) - seconds(u64::from(self.below(2500))));
        sample.reporting = (self.below(3) == 0).then(|| self.count());
        sample.complete = self.below(4) > 0;
        sample.stabilized = (self.below(3) == 0).then(|| self.count());
        sample
    }
}

#[test]
fn z1_count_is_within_its_limits_whatever_is_given() {
    let mut random = Random(1);
    let now = Instant::now() + seconds(5000);
    for round in 0..200_000 {
        let (one, other) = (random.count(), random.count());
        let (min, max) = (one.min(other), one.max(other).max(1));
        let sample = random.any_sample(now);
        let fleet = Fleet { desired: random.count(), running: random.count() };
        let decision = random.scaler(min, max).decide(&sample, fleet, now);
        assert!((min..=max).contains(&decision.count), "{round}: {decision} for {sample:?}, {fleet:?}");
        let strange = decision.votes.iter().filter_map(|vote| vote.utilisation).find(|share| !share.is_finite() || *share < 0.0);
        assert_eq!(strange, None, "{round}: {decision}");
    }
}

#[test]
fn z2_number_that_says_nothing_never_lowers_the_count() {
    let mut random = Random(2);
    let now = Instant::now() + seconds(5000);
    for round in 0..100_000 {
        let scaler = random.scaler(0, u32::MAX);
        let sample = random.any_sample(now);
        let fleet = Fleet { desired: random.count(), running: random.count() };
        let decision = scaler.decide(&sample, fleet, now);
        if !decision.is_valid() && decision.reason != Reason::Idle {
            assert!(decision.count >= fleet.desired, "{round}: {decision} for {sample:?}, {fleet:?}");
        }
    }
}

#[test]
fn z3_answer_outside_the_band_is_that_of_use_alone() {
    let mut random = Random(3);
    let now = Instant::now();
    for round in 0..50_000 {
        let scaler = random.scaler(0, u32::MAX);
        let sample = random.sane();
        let decisions = [random.below(80) + 1, random.below(80) + 1].map(|n| scaler.decide(&sample, Fleet::settled(n), now));
        for (one, other) in decisions[0].votes.iter().zip(&decisions[1].votes) {
            let moved = |verdict| matches!(verdict, Verdict::Above | Verdict::Below);
            if moved(one.verdict) && moved(other.verdict) {
                assert_eq!(one.count, other.count, "{round}: {one} and {other} for {sample:?}");
            }
        }
    }
}

#[test]
fn z4_decision_that_is_carried_out_is_not_followed_by_another() {
    let mut random = Random(4);
    let now = Instant::now() + seconds(5000);
    for round in 0..100_000 {
        let (one, other) = (random.below(50), random.below(50));
        let scaler = random.scaler(one.min(other), one.max(other).max(1));
        let mut sample = if random.below(2) == 0 { random.sane() } else { random.any_sample(now) };
        // Whoever is silent stays so: with the count, that many more or fewer would be.
        sample.reporting = None;
        // From none, the numbers would be of what does not run yet.
        let first = scaler.decide(&sample, Fleet::settled(random.count().max(1)), now);
        let second = scaler.decide(&sample, Fleet::settled(first.count), now);
        assert_eq!(first.count, second.count, "{round}: {first} then {second} for {sample:?}");
    }
}

#[test]
fn z5_more_use_never_leads_to_fewer() {
    let mut random = Random(5);
    let now = Instant::now();
    for round in 0..100_000 {
        let scaler = random.scaler(0, u32::MAX);
        let less = random.sane();
        let mut more = less.clone();
        let raise = random.usage();
        let which = match random.below(7) {
            0 => &mut more.cpu_cores,
            1 => &mut more.demand_cores,
            2 => &mut more.concurrency_1m,
            3 => &mut more.concurrency_10m,
            4 => &mut more.queued,
            5 => &mut more.refused,
            _ => &mut more.effective_streams,
        };
        *which = which.map(|usage| usage + raise);
        let fleet = Fleet::settled(random.below(200));
        let (before, after) = (scaler.decide(&less, fleet, now), scaler.decide(&more, fleet, now));
        assert!(after.count >= before.count, "{round}: {before} then {after} with {raise} more of {less:?}");
    }
}

#[test]
fn z6_count_is_that_of_the_formula_in_whole_numbers() {
    let mut random = Random(6);
    for _ in 0..100_000 {
        let (used, running, cpus) =
            (u64::from(random.below(200_000)) + 1, u64::from(random.below(100)) + 1, random.pick(&[1_u32, 2, 4]));
        let scaler = ScalerBuilder::new().cpus(f64::from(cpus)).max(u32::MAX).build().unwrap();
        let mut sample = Sample::default();
        sample.cpu_cores = Some(used as f64 / 1000.0);
        let fleet = Fleet::settled(u32::try_from(running).unwrap());
        // In thousandths of a core: the band is 540 to 660 for each CPU.
        let full = running * u64::from(cpus);
        let held = (540 * full..=660 * full).contains(&used);
        let expected = if held { running } else { used.div_ceil(600 * u64::from(cpus)) };
        let decision = scaler.decide(&sample, fleet, Instant::now());
        assert_eq!(u64::from(decision.count), expected, "{used} of {cpus} CPUs, {running} run");
    }
}

#[test]
fn z7_last_instance_goes_only_where_no_request_was_for_the_whole_limit() {
    let mut random = Random(7);
    let now = Instant::now() + seconds(5000);
    let mut gone = 0;
    for round in 0..100_000 {
        let sample = random.any_sample(now);
        let fleet = Fleet::settled(random.below(3) + 1);
        let decision = random.scaler(0, 50).decide(&sample, fleet, now);
        if decision.count == 0 {
            gone += 1;
            let idle = now.saturating_duration_since(sample.last_request.unwrap());
            assert!(sample.in_flight == Some(0) && idle >= seconds(900), "{round}: {decision} for {sample:?}");
        }
    }
    assert!(gone > 100, "{gone} of them went");
}

#[test]
fn z8_scale_down_ends_nobody_that_is_recommended_used_or_busy() {
    let mut random = Random(8);
    let now = Instant::now() + seconds(5000);
    for round in 0..20_000 {
        let instances: Vec<_> = (0..random.below(12))
            .map(|id| Instance {
                id,
                utilisation: if random.below(2) == 0 { random.maybe() } else { Some(f64::from(random.below(20)) / 100.0) },
                in_flight: u64::from(random.below(2)),
                last_active: now + seconds(500) - seconds(u64::from(random.below(2000))),
            })
            .collect();
        let (recommended, min) = (random.below(8), random.below(4));
        let reserve = usize::try_from(random.below(3)).unwrap();
        let fates = ScaleDown::new().reserve(reserve).min(min).plan(&instances, recommended, now);
        let left = fates.iter().filter(|fate| !fate.ends()).count();
        assert!(left >= instances.len().min(recommended.max(min) as usize), "{round}");
        assert!(fates.iter().filter(|fate| **fate == Fate::KeepReserve).count() <= reserve, "{round}");
        for (instance, fate) in instances.iter().zip(&fates).filter(|(_, fate)| fate.ends()) {
            let low = instance.utilisation.is_some_and(|share| share < 0.1);
            assert!(low && instance.in_flight == 0, "{round}: {fate:?} for {instance:?}");
        }
    }
}

#[test]
fn requests_are_placed_within_what_there_is() {
    let mut random = Random(9);
    for round in 0..20_000 {
        let time = |random: &mut Random| seconds(u64::from(random.below(30)));
        let supply = Supply {
            free: random.below(4),
            frees_every: (random.below(2) == 0).then(|| time(&mut random)),
            starting: (0..random.below(3)).map(|_| Starting { ready_in: time(&mut random), room: random.below(4) }).collect(),
            instances: random.below(6),
            max: random.below(8),
            start_up: time(&mut random),
            max_concurrency: random.below(4),
        };
        let mut waited: Vec<Duration> = (0..random.below(20)).map(|_| time(&mut random) * 2).collect();
        waited.sort_by(|one, other| other.cmp(one));
        let placed = place(&supply, &waited);
        assert_eq!(placed.len(), waited.len());
        let of = |placing| u32::try_from(placed.iter().filter(|each| **each == placing).count()).unwrap();
        let started = of(Placing::Start);
        assert!(started <= supply.max.saturating_sub(supply.instances), "{round}");
        let room: u32 = supply.starting.iter().map(|starting| starting.room).sum();
        assert!(of(Placing::WaitForStarting) + started <= room + started * supply.max_concurrency.max(1), "{round}");
        assert_eq!(
            of(Placing::Serve),
            supply.free.min(u32::try_from(waited.len()).unwrap()),
            "{round}: nobody waits beside room"
        );
        for (placing, waited) in placed.iter().zip(&waited).filter(|(placing, _)| **placing == Placing::Refuse) {
            assert!(*waited >= max_wait(supply.start_up), "{round}: {placing:?} after {waited:?}");
        }
    }
}
