//! Publishes from outside to tasks of a runtime with one worker: by the relay, by peers, and bare wakes.

use crate::{
    Context,
    burners::Burners,
    contenders::crowd,
    crowd::{Figures, Place, Setting, Shape, compare},
    measure::{
        peers::{
            bare_wakes::{BareInside, BareWakes},
            keyed_broadcast::KeyedBroadcast,
            keywake::{Keywake, Relayed},
        },
        surroundings::cores,
        words::{grouped, three_digits, time},
    },
    table::Row,
};

const THOUSAND: Shape = Shape { keys: 1, per_key: 1_000 };

/// What a publish itself takes, against waking one task.
pub(crate) fn publish(context: &Context) -> Vec<Row> {
    let setting = context.one_worker();
    let one = Shape { keys: 1, per_key: 1 };
    let mut crowds = [
        crowd::<Relayed>(THOUSAND, &setting),
        crowd::<BareInside>(THOUSAND, &setting),
        crowd::<BareWakes>(one, &setting),
        crowd::<Relayed>(one, &setting),
        crowd::<Keywake>(THOUSAND, &setting),
        crowd::<KeyedBroadcast>(THOUSAND, &setting),
        crowd::<BareWakes>(THOUSAND, &setting),
    ];
    let writer: Vec<f64> = context.compare(&mut crowds).iter().map(|figures| figures.writer_p50).collect();
    let [relay, bare, bare_one, relay_one, inline, broadcast, bare_all] = writer[..] else { unreachable!("seven") };
    let call = "publish call, 1 key x 1,000 parked tasks, relay";
    let against = |value: f64| format!("{} against {}", time(relay), time(value));
    vec![
        Row::new(call, "one bare wake of a task from outside (which then wakes 1,000)").ratio(relay / bare, 1.1, against(bare)),
        Row::new("publish call, 1 key x 1 parked task, relay", "one bare wake of that task").shown(format!(
            "{}x ({} against {})",
            three_digits(relay_one / bare_one),
            time(relay_one),
            time(bare_one)
        )),
        Row::new(call, "`DashMap<K, broadcast>`").shown(format!(
            "1/{} ({})",
            three_digits(broadcast / relay),
            against(broadcast)
        )),
        Row::new(call, "keywake without a relay; 1,000 bare wakes from outside").shown(format!(
            "{}; {}",
            against(inline),
            time(bare_all)
        )),
    ]
}

/// Of all threads, the writer's waiting taken off.
pub(crate) fn cpu_per_delivery(context: &Context) -> Vec<Row> {
    let setting = context.one_worker();
    let shapes =
        [(THOUSAND, 0.4, 1.15), (Shape { keys: 1, per_key: 10_000 }, 0.45, 1.2), (Shape { keys: 100, per_key: 100 }, 0.65, 1.25)];
    shapes
        .into_iter()
        .filter(|(shape, ..)| shape.readers() <= context.options.scale.most_readers)
        .flat_map(|(shape, of_broadcast, of_bare)| {
            let mut crowds = [
                crowd::<Relayed>(shape, &setting),
                crowd::<KeyedBroadcast>(shape, &setting),
                crowd::<BareInside>(shape, &setting),
                crowd::<Keywake>(shape, &setting),
                crowd::<BareWakes>(shape, &setting),
            ];
            let figures = context.compare(&mut crowds);
            let [relay, broadcast, bare, inline, outside] = figures[..] else { unreachable!("five") };
            let work = format!("CPU per delivery, {} x {}, relay", grouped(shape.keys), grouped(shape.per_key as u64));
            let against = |other: Figures| {
                format!(
                    "{} against {}; with the writer's spinning {} and {}",
                    time(relay.cpu),
                    time(other.cpu),
                    time(relay.cpu_with_spinning),
                    time(other.cpu_with_spinning)
                )
            };
            [
                Row::new(&work, "`DashMap<K, broadcast>`").ratio(relay.cpu / broadcast.cpu, of_broadcast, against(broadcast)),
                Row::new(&work, "bare wakes by one task inside").ratio(relay.cpu / bare.cpu, of_bare, against(bare)),
                Row::new(&work, "keywake without a relay; bare wakes from outside").shown(format!(
                    "{}; {}",
                    time(inline.cpu),
                    time(outside.cpu)
                )),
            ]
        })
        .collect()
}

/// Of all threads but the waiting writer, on a quiet box and on one where every core has other work as well.
pub(crate) fn switches(context: &Context) -> Vec<Row> {
    let scale = context.options.scale;
    let quiet = context.one_worker();
    let busy = Setting { sleeps: true, ..quiet.clone() };
    [(&quiet, "quiet"), (&busy, "with other work on every core")]
        .into_iter()
        .map(|(setting, when)| {
            // Other work makes everything slower.
            let sizes: &[usize] = if setting.sleeps { &[1, 1_000] } else { &[1, 10, 100, 1_000, 10_000] };
            let sizes: Vec<usize> = sizes.iter().copied().filter(|readers| *readers <= scale.most_readers).collect();
            let of_all: Vec<[f64; 3]> = sizes
                .iter()
                .map(|readers| {
                    let shape = Shape { keys: 1, per_key: *readers };
                    let mut crowds = [
                        crowd::<Relayed>(shape, setting),
                        crowd::<KeyedBroadcast>(shape, setting),
                        crowd::<BareInside>(shape, setting),
                    ];
                    let _others = setting.sleeps.then(|| Burners::new(cores()));
                    let rounds = if setting.sleeps { scale.rounds } else { 3 * scale.rounds };
                    let figures = context.pinned(|| compare(&mut crowds, Place::Outside, rounds, scale.turn));
                    [0, 1, 2].map(|side: usize| figures[side].switches)
                })
                .collect();
            let list = |side: usize| of_all.iter().map(|of_one| three_digits(of_one[side])).collect::<Vec<_>>().join(", ");
            let most = of_all.iter().map(|of_one| of_one[0]).fold(0.0, f64::max);
            let sizes = sizes.iter().map(|readers| grouped(*readers as u64)).collect::<Vec<_>>().join("; ");
            Row::new(
                format!("context switches per publish, {sizes} readers, relay, {when}"),
                format!("`DashMap<K, broadcast>`: {}; bare inside: {}", list(1), list(2)),
            )
            .with("<= 1.1", most <= 1.1, list(0))
        })
        .collect()
}

pub(crate) fn last_reader(context: &Context) -> Vec<Row> {
    let setting = context.one_worker();
    let mut crowds = [
        crowd::<Relayed>(THOUSAND, &setting),
        crowd::<KeyedBroadcast>(THOUSAND, &setting),
        crowd::<BareInside>(THOUSAND, &setting),
        crowd::<Keywake>(THOUSAND, &setting),
        crowd::<BareWakes>(THOUSAND, &setting),
    ];
    let last: Vec<f64> = context.compare(&mut crowds).iter().map(|figures| figures.last_p50).collect();
    let [relay, broadcast, bare, inline, outside] = last[..] else { unreachable!("five") };
    let work = "time to the last of 1,000 readers, p50, relay";
    let against = |other: f64| format!("{} against {}", time(relay), time(other));
    vec![
        Row::new(work, "`DashMap<K, broadcast>`").ratio(relay / broadcast, 0.5, against(broadcast)),
        Row::new(work, "bare wakes by one task inside").ratio(relay / bare, 1.15, against(bare)),
        Row::new(work, "keywake without a relay; bare wakes from outside").shown(format!("{}; {}", time(inline), time(outside))),
    ]
}
