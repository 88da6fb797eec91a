//! Decodes recordings into columns and drops them, for the bench: `decode_recordings all|judged PATH...` prints how much that was.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;

use fathom_ftdc::{ChunkBuffer, RecordingEvent, read_recording, visit_recordings};
use fathom_monitor::recorded_metrics;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let is_judged = recorded_metrics();
    let is_wanted: &dyn Fn(&str) -> bool = match arguments.next().as_deref().and_then(|word| word.to_str()) {
        Some("all") => &|_| true,
        Some("judged") => &is_judged,
        _ => return Err("usage: decode_recordings all|judged PATH...".into()),
    };
    let inputs: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let mut buffer = ChunkBuffer::default();
    let mut wanted: (u64, Vec<bool>) = (0, Vec::new());
    let (mut file_bytes, mut inflated_bytes, mut values) = (0, 0, 0);
    let problems = visit_recordings(&inputs, &mut |file| {
        let end = read_recording(file.contents, &mut buffer, &mut |event| {
            let RecordingEvent::Chunk { chunk, .. } = event else { return Ok(()) };
            if wanted.0 != chunk.schema() {
                let chosen = chunk.metrics().iter().map(|metric| is_wanted(&metric.path));
                wanted = (chunk.schema(), chosen.collect());
            }
            inflated_bytes += chunk.inflated_bytes();
            chunk.columns(
                |number| wanted.1.get(number) == Some(&true),
                |_, column| values += black_box(column).len(),
            )
        })?;
        file_bytes += end.bytes;
        Ok(())
    })?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem.into());
    }
    writeln!(io::stdout(), "{file_bytes} bytes, {inflated_bytes} inflated, {values} values")?;
    Ok(())
}
