//! The fleet that the story is of: owners with bursts, on processes of one core that measure them.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use keywake::placement::{
    Cores, Fleet, FleetView, Index, LoadModel, Owner, OwnerView, Plan, ProcessState, ProcessView, Recorder, Settings, StoreTime,
    Table, Version,
};

use crate::random::Random;

const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const OWNERS: usize = 200;
/// In cores, bursts included.
const TOTAL: f64 = 5.66;
/// What an owner wants in a minute of burst, in cores, and how often: once in so many minutes.
const BURST: f64 = 0.98;
const BURST_EVERY: u64 = 120;
const SEED: u64 = 19_919;
/// Minutes that the models of peaks look back.
pub(crate) const REMEMBERED: usize = 360;

impl Random {
    /// From 0 to 1, without the ends.
    fn share(&mut self) -> f64 {
        ((self.next() >> 32) as f64 + 0.5) / 4_294_967_296.0
    }
}

/// The owners, and what each wants from minute to minute.
pub(crate) struct Town {
    random: Random,
    pub(crate) owners: Vec<(Owner, f64)>,
}

impl Town {
    fn new(seed: u64) -> Result<Self, Box<dyn Error>> {
        let mut random = Random(seed);
        let weights: Vec<f64> = (0..OWNERS).map(|_| random.share().powf(-1.0 / 1.15)).collect();
        let bursts = OWNERS as f64 * BURST / BURST_EVERY as f64;
        let scale = (TOTAL - bursts) / weights.iter().sum::<f64>();
        let named =
            weights.iter().enumerate().map(|(number, weight)| Ok((Owner::new(&format!("owner-{number}"))?, weight * scale)));
        Ok(Self { owners: named.collect::<Result<_, keywake::placement::NameError>>()?, random })
    }

    /// What each wants in the next minute, in cores.
    fn minute(&mut self) -> Vec<f64> {
        let random = &mut self.random;
        let demand = self.owners.iter().map(|(_, base)| {
            let burst = if random.next() % BURST_EVERY == 0 { BURST } else { 0.0 };
            base * (0.5 + random.share()) + burst
        });
        demand.collect()
    }

    /// What each wants in the mean.
    pub(crate) fn mean(&self, owner: usize) -> f64 {
        self.owners[owner].1 + BURST / BURST_EVERY as f64
    }
}

/// Processes of one core, with a recorder each, and the planner's load model.
pub(crate) struct World {
    pub(crate) town: Town,
    table: Table,
    pub(crate) processes: u32,
    recorders: Vec<Recorder>,
    cpu: Vec<Duration>,
    start: Instant,
    minute: u32,
    pub(crate) model: LoadModel,
    /// The last hours of each owner and of each process, as measured: what the models of peaks go by.
    pub(crate) owner_hours: Vec<Vec<f64>>,
    pub(crate) process_hours: Vec<Vec<f64>>,
}

impl World {
    pub(crate) fn new(fleet: &Fleet, processes: u32) -> Result<Self, Box<dyn Error>> {
        let recorder = |index| Recorder::new(fleet.clone(), Index(index), 1).ceiling(Cores::ONE);
        let mut world = Self {
            town: Town::new(SEED)?,
            table: Table::empty(fleet.clone()),
            processes,
            recorders: (0..processes).map(recorder).collect(),
            cpu: vec![Duration::ZERO; processes as usize],
            start: Instant::now(),
            minute: 0,
            model: LoadModel::new(fleet.clone()),
            owner_hours: vec![Vec::new(); OWNERS],
            process_hours: vec![Vec::new(); processes as usize],
        };
        for (recorder, cpu) in world.recorders.iter_mut().zip(&world.cpu) {
            drop(recorder.close(world.start, Some(*cpu), processes));
        }
        Ok(world)
    }

    fn now(&self) -> Instant {
        self.start + MINUTE * self.minute
    }

    fn place(&self, owner: usize) -> Result<usize, Box<dyn Error>> {
        Ok(self.table.resolve(&self.town.owners[owner].0, self.processes)?.index.0 as usize)
    }

    /// Everybody works for a minute, no process for more than that, and all report.
    pub(crate) fn work(&mut self) -> Result<(), Box<dyn Error>> {
        let demand = self.town.minute();
        let mut wanted = vec![0.0_f64; self.processes as usize];
        for (owner, cores) in demand.iter().enumerate() {
            let process = self.place(owner)?;
            wanted[process] += cores;
            self.recorders[process].record(&self.town.owners[owner].0, MINUTE.mul_f64(*cores));
        }
        self.minute += 1;
        let now = self.now();
        let mut reports = Vec::new();
        for (process, recorder) in self.recorders.iter_mut().enumerate() {
            self.cpu[process] += MINUTE.mul_f64(wanted[process].min(1.0));
            reports.push(recorder.close(now, Some(self.cpu[process]), self.processes)?);
        }
        for (process, report) in reports.iter().enumerate() {
            remember(&mut self.process_hours[process], report.process.as_f64());
            for (owner, hour) in self.owner_hours.iter_mut().enumerate() {
                let name = &self.town.owners[owner].0;
                let told = report.owners.binary_search_by(|load| load.owner.cmp(name));
                if let Ok(at) = told {
                    remember(hour, report.owners[at].cores.as_f64());
                }
            }
        }
        self.model.fold(&reports, &self.table, self.processes, now);
        Ok(())
    }

    pub(crate) fn view(&self, settings: &Settings) -> FleetView {
        let mut view = self.model.view(&self.table, self.processes, self.now(), settings);
        view.now = self.store_time();
        view
    }

    fn store_time(&self) -> StoreTime {
        StoreTime(MINUTE * (1_000_000 + self.minute))
    }

    pub(crate) fn carry_out(&mut self, plan: &Plan) -> Result<usize, Box<dyn Error>> {
        let Some(changes) = plan.changes() else { return Ok(0) };
        let next = Version(changes.base.0 + 1);
        self.table.apply(&changes, next, self.store_time())?;
        Ok(changes.changes.len())
    }

    /// The same fleet as somebody sees it who takes these for the weights of owners, and, if told, these for the loads of processes.
    pub(crate) fn seen_by(
        &self,
        weight: impl Fn(usize) -> f64,
        load: Option<&dyn Fn(usize) -> f64>,
    ) -> Result<FleetView, Box<dyn Error>> {
        let mut view = FleetView::new(self.table.fleet().clone(), self.table.version(), self.store_time());
        view.processes = (0..self.processes).map(|_| ProcessView::new(ProcessState::Reporting)).collect();
        let mut sums = vec![0.0; self.processes as usize];
        (0..OWNERS).try_for_each(|owner| self.place(owner).map(|process| sums[process] += weight(owner)))?;
        for owner in 0..OWNERS {
            let process = self.place(owner)?;
            // Weights that add up to the load that the process is said to have.
            let factor = load.map_or(1.0, |load| load(process) / sums[process]);
            let (name, weight) = (self.town.owners[owner].0.clone(), cores(weight(owner) * factor));
            view.processes[process].owners.push(OwnerView { owner: name, weight, pinned: false, moved_at: None });
        }
        Ok(view)
    }
}

fn remember(hour: &mut Vec<f64>, cores: f64) {
    hour.push(cores);
    if hour.len() > REMEMBERED {
        hour.remove(0);
    }
}

pub(crate) fn peak(hour: &[f64]) -> f64 {
    hour.iter().copied().fold(0.0, f64::max)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cores of an example")]
fn cores(cores: f64) -> Cores {
    Cores::from_nanos((cores * 1e9) as u64)
}
