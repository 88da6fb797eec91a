//! The gate for a collection's writes: writes from routers pass through it. A migration, or the sharding of the collection,
//! shuts it and waits until no write is inside.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::Result;

/// The interval at which a waiting operation checks whether it must end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct GateState {
    inside: usize,
    shut: bool,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

/// The gates of all collections that were written to.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<String, Arc<Gate>>>);

/// A write inside the gate.
#[derive(Debug)]
pub(crate) struct WritePermit(Arc<Gate>);

/// Keeps the gate shut until it is dropped.
#[derive(Debug)]
pub(crate) struct GateClosure(Arc<Gate>);

impl Gates {
    fn gate_for(&self, namespace: &str) -> Arc<Gate> {
        let mut gates = self.0.lock();
        if let Some(gate) = gates.get(namespace) {
            return Arc::clone(gate);
        }
        let gate = Arc::new(Gate::default());
        gates.insert(namespace.to_owned(), Arc::clone(&gate));
        gate
    }

    /// Enters the gate; waits while the gate is shut, as long as `check` allows.
    pub(crate) fn enter(&self, namespace: &str, check: &dyn Fn() -> Result<()>) -> Result<WritePermit> {
        let gate = self.gate_for(namespace);
        let mut state = gate.state.lock();
        while state.shut {
            gate.changed.wait_for(&mut state, CHECK_INTERVAL);
            if state.shut {
                check()?;
            }
        }
        state.inside += 1;
        drop(state);
        Ok(WritePermit(gate))
    }

    /// Shuts the gate and waits until no write is inside. If `check` ends the wait, the gate opens again.
    pub(crate) fn shut(&self, namespace: &str, check: &dyn Fn() -> Result<()>) -> Result<GateClosure> {
        let gate = self.gate_for(namespace);
        let mut state = gate.state.lock();
        while state.shut {
            gate.changed.wait_for(&mut state, CHECK_INTERVAL);
            check()?;
        }
        state.shut = true;
        drop(state);
        let shut = GateClosure(gate);
        let mut state = shut.0.state.lock();
        while state.inside > 0 {
            shut.0.changed.wait_for(&mut state, CHECK_INTERVAL);
            check()?;
        }
        drop(state);
        Ok(shut)
    }
}

impl Drop for WritePermit {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside = state.inside.saturating_sub(1);
        if state.shut {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for GateClosure {
    fn drop(&mut self) {
        self.0.state.lock().shut = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use fathom_query::{Code, Failure};

    use super::*;

    #[test]
    fn who_shuts_waits_for_those_inside_and_others_wait_outside() {
        let gates = Arc::new(Gates::default());
        let inside = gates.enter("a.b", &|| Ok(())).unwrap();
        let shut = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let held = gates.shut("a.b", &|| Ok(())).unwrap();
                shut.store(true, Ordering::SeqCst);
                held
            });
            std::thread::sleep(Duration::from_millis(100));
            assert!(!shut.load(Ordering::SeqCst));
            drop(inside);
            let held = waiting.join().unwrap();
            let refuse = || Err(Failure::new(Code::MaxTimeMSExpired, "time is over"));
            assert!(gates.enter("a.b", &refuse).is_err());
            assert!(gates.enter("a.c", &refuse).is_ok());
            drop(held);
            assert!(gates.enter("a.b", &refuse).is_ok());
        });
    }
}
