//! Fuzzes recordings in files of any kind, including nested archives: found recordings are read, scrubbed and written again with the same metrics.

use fathom_ftdc::{ChunkBuffer, MetricChunk, RecordingEvent, Scrubber, read_recording, visit_stream};

pub(crate) fn take_input(input: &[u8]) {
    let mut buffer = ChunkBuffer::default();
    let mut again = ChunkBuffer::default();
    let _ = visit_stream(&mut &input[..], &mut |file| {
        let end = read_recording(file.contents, &mut buffer, &mut |event| {
            let mut scrubber = Scrubber::default();
            match event {
                RecordingEvent::Metadata { replies, .. } | RecordingEvent::Parameters { replies, .. } => {
                    scrubber.learn(replies)?;
                    scrubber.scrub(replies)?;
                }
                RecordingEvent::Chunk { chunk, .. } => {
                    scrubber.learn(chunk.reference())?;
                    let payload = chunk.with_reference(&scrubber.scrub(chunk.reference())?)?;
                    let scrubbed = MetricChunk::parse(&payload, &mut again)?;
                    assert_eq!(
                        (scrubbed.samples(), scrubbed.metrics().len()),
                        (chunk.samples(), chunk.metrics().len())
                    );
                }
            }
            Ok(())
        })?;
        assert!(end.damages.len() as u64 <= end.bytes + 1);
        Ok(())
    });
}
