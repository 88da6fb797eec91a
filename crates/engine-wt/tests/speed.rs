//! How long the engine's operations take: a measurement, not a check, run by hand.
//!
//! ```text
//! cargo test --release -p fathom-engine-wt --test speed -- --ignored --nocapture
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use fathom_engine::{Durability, Engine, Key, Session, Splice, Table, TableSpec};
use fathom_engine_wt::{Options, WiredTiger};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

const RECORDS: u64 = 200_000;

/// What this thread has used of a processor, which others' load does not change much.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

struct Bench {
    session: Box<dyn Session>,
    records: Table,
    index: Table,
    random: Xoshiro256PlusPlus,
}

impl Bench {
    fn number(&mut self) -> i64 {
        (self.random.next_u64() % RECORDS) as i64
    }

    fn key(number: i64) -> [u8; 24] {
        // As long as the KeyString of an ObjectId, spread like hashes.
        let mut key = [60; 24];
        key[1..9].copy_from_slice(&(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    }

    fn measure(&mut self, name: &str, count: u64, mut operation: impl FnMut(&mut Bench)) {
        let (began, used) = (Instant::now(), processor_ns());
        for _ in 0..count {
            operation(self);
        }
        let wall = began.elapsed().as_nanos() as f64 / count as f64;
        let used = (processor_ns() - used) as f64 / count as f64;
        println!("{name:<60} {wall:>9.0} ns, {used:>9.0} ns of this thread's processor");
    }
}

#[test]
#[ignore = "a measurement; run it by hand"]
fn operations() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let engine = WiredTiger::open(Options { cache_bytes: 1 << 30, ..Options::new(dir.path()) }).unwrap();
    println!("opened in {:?}", began.elapsed());
    let records = engine.create_table("records", &TableSpec::records()).unwrap();
    let index = engine.create_table("index", &TableSpec::index()).unwrap();
    let session = engine.session().unwrap();
    let mut bench = Bench { session, records, index, random: Xoshiro256PlusPlus::seed_from_u64(1) };
    let mut value = vec![0; 1000];
    bench.random.fill_bytes(&mut value);
    let mut next = 0;
    bench.measure("insert a record and its index entry, commit", RECORDS, |bench| {
        bench.session.begin().unwrap();
        bench.session.insert(&bench.records, Key::Number(next), &value).unwrap();
        bench.session.insert(&bench.index, Key::Bytes(&Bench::key(next)), &next.to_be_bytes()).unwrap();
        bench.session.commit(Durability::Buffered).unwrap();
        next += 1;
    });
    reads(&mut bench);
    writes(&mut bench, &mut value);
    let began = Instant::now();
    engine.flush_journal().unwrap();
    println!("flushed in {:?}", began.elapsed());
    let began = Instant::now();
    engine.checkpoint().unwrap();
    println!("checkpoint in {:?}", began.elapsed());
    durable(&mut bench, &value);
    drop(bench);
    let began = Instant::now();
    engine.close().unwrap();
    println!("closed in {:?}", began.elapsed());
}

fn reads(bench: &mut Bench) {
    let mut out = Vec::with_capacity(4096);
    bench.measure("begin, rollback", 2_000_000, |bench| {
        bench.session.begin().unwrap();
        bench.session.rollback();
    });
    for round in 0..2 {
        bench.measure(&format!("begin, get a random record, rollback ({round})"), 1_000_000, |bench| {
            let number = bench.number();
            out.clear();
            bench.session.begin().unwrap();
            assert!(bench.session.get(&bench.records, Key::Number(number), &mut out).unwrap());
            bench.session.rollback();
            black_box(&out);
        });
    }
    bench.measure("begin, get its index entry and the record, rollback", 1_000_000, |bench| {
        let number = bench.number();
        out.clear();
        bench.session.begin().unwrap();
        assert!(bench.session.get(&bench.index, Key::Bytes(&Bench::key(number)), &mut out).unwrap());
        assert!(bench.session.get(&bench.records, Key::Number(number), &mut out).unwrap());
        bench.session.rollback();
    });
    bench.measure("get a random record outside a transaction", 1_000_000, |bench| {
        let number = bench.number();
        out.clear();
        assert!(bench.session.get(&bench.records, Key::Number(number), &mut out).unwrap());
    });
    bench.measure("get the same record outside a transaction", 2_000_000, |bench| {
        out.clear();
        assert!(bench.session.get(&bench.records, Key::Number(777), &mut out).unwrap());
    });
    bench.measure("open a cursor, seek, read", 1_000_000, |bench| {
        let number = bench.number();
        let mut cursor = bench.session.cursor(&bench.records).unwrap();
        assert!(cursor.seek(Key::Number(number)).unwrap());
        black_box(cursor.value().len());
    });
    bench.measure("scan of all with values, each record", 5, |bench| {
        bench.session.begin().unwrap();
        let began = Instant::now();
        let mut bytes = 0;
        let mut cursor = bench.session.cursor(&bench.records).unwrap();
        let mut found = cursor.first().unwrap();
        while found {
            bytes += cursor.value().len();
            found = cursor.next().unwrap();
        }
        drop(cursor);
        bench.session.rollback();
        println!("    {:.0} ns a record, {bytes} bytes", began.elapsed().as_nanos() as f64 / RECORDS as f64);
    });
}

fn writes(bench: &mut Bench, value: &mut [u8]) {
    bench.measure("update a random record as a whole, commit", 400_000, |bench| {
        let number = bench.number();
        bench.session.begin().unwrap();
        bench.session.update(&bench.records, Key::Number(number), value, None).unwrap();
        bench.session.commit(Durability::Buffered).unwrap();
    });
    bench.measure("read and update 8 bytes in place, commit", 400_000, |bench| {
        let number = bench.number();
        let mut old = Vec::with_capacity(1024);
        bench.session.begin().unwrap();
        assert!(bench.session.get(&bench.records, Key::Number(number), &mut old).unwrap());
        let data = bench.random.next_u64().to_le_bytes();
        old[100..108].copy_from_slice(&data);
        let splice = Splice { offset: 100, remove: 8, data: data.to_vec() };
        bench.session.update(&bench.records, Key::Number(number), &old, Some(&[splice])).unwrap();
        bench.session.commit(Durability::Buffered).unwrap();
    });
}

fn durable(bench: &mut Bench, value: &[u8]) {
    let (mut count, began) = (0u32, Instant::now());
    while began.elapsed() < Duration::from_secs(1) {
        let number = bench.number();
        bench.session.begin().unwrap();
        bench.session.put(&bench.records, Key::Number(number), value).unwrap();
        bench.session.commit(Durability::Durable).unwrap();
        count += 1;
    }
    println!("durable commits: {:?} each", began.elapsed() / count);
}
