//! What is shared by counted references is dropped once, by the last of them, who sees all that the others did with it.

#![cfg(keywake_loom)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use keywake::ModelledArc;
use loom::cell::UnsafeCell;
use loom_tests::{model, race, race3};

/// One cell per holder, who alone touches it until the value is dropped: loom fails the model if the drop does not come after that.
struct Value {
    cells: [UnsafeCell<()>; 3],
    /// The real one: orders nothing in models.
    drops: Arc<AtomicUsize>,
}

// SAFETY: each cell is touched by one holder, and by the drop, which is what the models are to prove the last.
unsafe impl Sync for Value {}

impl Value {
    fn shared() -> (ModelledArc<Self>, Arc<AtomicUsize>) {
        let drops = Arc::new(AtomicUsize::new(0));
        let cells = std::array::from_fn(|_| UnsafeCell::new(()));
        (ModelledArc::new(Self { cells, drops: Arc::clone(&drops) }), drops)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        for cell in &self.cells {
            cell.with_mut(|_| ());
        }
        // Relaxed: a count.
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn use_and_drop(value: ModelledArc<Value>, holder: usize) {
    value.cells[holder].with_mut(|_| ());
    drop(value);
}

#[test]
fn two_holders_leave() {
    model(|| {
        let (value, drops) = Value::shared();
        let other = value.clone();
        race(move || use_and_drop(value, 0), move || use_and_drop(other, 1));
        // Relaxed: all threads are joined.
        assert_eq!(drops.load(Ordering::Relaxed), 1, "times dropped");
    });
}

#[test]
fn one_holder_makes_another_while_two_leave() {
    model(|| {
        let (value, drops) = Value::shared();
        let (one, two) = (value.clone(), value.clone());
        race3(
            move || {
                let further = value.clone();
                drop(value);
                use_and_drop(further, 0);
            },
            move || use_and_drop(one, 1),
            move || use_and_drop(two, 2),
        );
        // Relaxed: all threads are joined.
        assert_eq!(drops.load(Ordering::Relaxed), 1, "times dropped");
    });
}
