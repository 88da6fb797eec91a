//! A slow disk on this machine; `testkit/src/slow_disk.rs` tests the same order of requests by events.

mod timed {
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::thread;
    use std::time::{Duration, Instant};

    use fathom_testkit::{Filesystem, SlowDisk, Speed, assert, test};
    use fathom_units::Bytes;

    #[test]
    fn eight_requests_in_parallel_take_as_long_as_one() {
        let speed = Speed { service: Duration::from_millis(5), parallel: 8 };
        let disk = SlowDisk::new(Filesystem::Ext4, Bytes(64 << 20), speed);
        let device = Path::new("/dev").join(disk.device_name());
        disk.set_service(Duration::from_millis(100));
        let begun = Instant::now();
        thread::scope(|scope| {
            for place in 0..8_u64 {
                let device = &device;
                scope.spawn(move || {
                    let file = File::open(device).unwrap();
                    file.read_exact_at(&mut [0; 512], (10 + place) << 20).unwrap();
                });
            }
        });
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
        disk.set_service(Duration::ZERO);
    }
}
