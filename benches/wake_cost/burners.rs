//! Other work on the box: processes that do nothing but use a core each.

use std::{
    env,
    hint::spin_loop,
    io::{self, Read},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// What the child is started with.
pub(crate) const PROBE: &str = "burn";

/// Children that end with this.
pub(crate) struct Burners(Vec<Child>);

impl Burners {
    /// They are processes of their own, so that their context switches are not ours.
    pub(crate) fn new(cores: usize) -> Option<Self> {
        let program = env::current_exe().ok()?;
        let burner = || Command::new(&program).args(["--probe", PROBE]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok();
        let burners = (0..cores).map(|_| burner()).collect::<Option<Vec<_>>>()?;
        // So that they are at it.
        thread::sleep(Duration::from_millis(50));
        Some(Self(burners))
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for burner in &mut self.0 {
            drop(burner.stdin.take());
            // It has ended or will.
            let _ = burner.wait();
        }
    }
}

/// The child: until its standard input ends, and for a minute at most.
pub(crate) fn burn() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let give_up = Instant::now() + Duration::from_secs(60);
    thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        // Relaxed: a flag, nothing hangs on it.
        OVER.store(true, Ordering::Relaxed);
    });
    // Relaxed: as above.
    while !OVER.load(Ordering::Relaxed) && Instant::now() < give_up {
        for _ in 0..10_000 {
            spin_loop();
        }
    }
}
