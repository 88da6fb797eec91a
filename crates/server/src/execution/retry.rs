//! Retries transactions after write conflicts, with growing pauses, as mongod does.

use std::time::Duration;

use fathom_engine::Durability;
use fathom_query::Code;

use crate::Result;
use crate::operation_context::OperationContext;

/// Runs `work` in a transaction and commits it; on a write conflict it starts over. The effects of `work` outside the
/// transaction must be repeatable.
pub(crate) fn write_transaction<T>(
    op: &mut OperationContext<'_>,
    mut work: impl FnMut(&mut OperationContext<'_>) -> Result<T>,
) -> Result<T> {
    let mut attempt = 0;
    loop {
        op.session().begin()?;
        op.begin_changes();
        let result = work(op).and_then(|value| {
            op.instance.fail_points.before_commit(op.client, || op.check_interrupt())?;
            let logged = op.log_changes()?;
            op.session().commit(Durability::Buffered)?;
            if let Some(logged) = logged {
                let set = op.instance.set.as_ref();
                let note = |statement: &_, at| {
                    set.into_iter().for_each(|set| set.transactions().note(statement, at))
                };
                op.last = Some(logged.committed(note));
            }
            Ok(value)
        });
        match result {
            Err(failure) if failure.code() == Code::WriteConflict => {
                op.session().rollback();
                op.figures.write_conflicts += 1;
                op.check_interrupt()?;
                pause(attempt);
                attempt += 1;
            }
            Err(failure) => {
                op.session().rollback();
                return Err(failure);
            }
            done => return done,
        }
    }
}

/// The first retries start at once. Later ones wait, so that the transaction that holds the key can finish.
fn pause(attempt: u32) {
    match attempt {
        0..=3 => std::thread::yield_now(),
        4..=10 => std::thread::sleep(Duration::from_micros(100)),
        11..=100 => std::thread::sleep(Duration::from_millis(1)),
        _ => std::thread::sleep(Duration::from_millis(10)),
    }
}
