//! The gate of a collection's writes: writes by routers go in and out; who gives a chunk away, or has the collection sharded, shuts
//! it and waits until nobody is inside.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::Result;

/// Between two looks at whether the operation that waits is to end.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
struct State {
    inside: usize,
    shut: bool,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// One gate for each collection that anybody wrote to.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<String, Arc<Gate>>>);

/// A write that is inside.
#[derive(Debug)]
pub(crate) struct Inside(Arc<Gate>);

/// The gate is shut until this goes.
#[derive(Debug)]
pub(crate) struct Shut(Arc<Gate>);

impl Gates {
    fn of(&self, namespace: &str) -> Arc<Gate> {
        let mut gates = self.0.lock();
        if let Some(gate) = gates.get(namespace) {
            return Arc::clone(gate);
        }
        let gate = Arc::new(Gate::default());
        gates.insert(namespace.to_owned(), Arc::clone(&gate));
        gate
    }

    /// Goes in; waits while the gate is shut, as long as `check` allows.
    pub(crate) fn enter(&self, namespace: &str, check: &dyn Fn() -> Result<()>) -> Result<Inside> {
        let gate = self.of(namespace);
        let mut state = gate.state.lock();
        while state.shut {
            gate.changed.wait_for(&mut state, LOOK);
            if state.shut {
                check()?;
            }
        }
        state.inside += 1;
        drop(state);
        Ok(Inside(gate))
    }

    /// Shuts the gate and waits until nobody is inside; opened again where `check` ends the wait.
    pub(crate) fn shut(&self, namespace: &str, check: &dyn Fn() -> Result<()>) -> Result<Shut> {
        let gate = self.of(namespace);
        let mut state = gate.state.lock();
        while state.shut {
            gate.changed.wait_for(&mut state, LOOK);
            check()?;
        }
        state.shut = true;
        drop(state);
        let shut = Shut(gate);
        let mut state = shut.0.state.lock();
        while state.inside > 0 {
            shut.0.changed.wait_for(&mut state, LOOK);
            check()?;
        }
        drop(state);
        Ok(shut)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside = state.inside.saturating_sub(1);
        if state.shut {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Shut {
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
