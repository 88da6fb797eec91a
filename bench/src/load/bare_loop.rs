//! A minimal client: one thread, many sockets, and the same request written again as soon as a reply is complete.
//!
//! It makes no document, draws no key, parses no reply and measures no latency.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fathom_wire::{Header, OpMsgWriter};
use rustix::event::epoll;

#[derive(Clone, Copy, Debug)]
pub(super) struct BareLoopResult {
    pub(super) per_s: f64,
    pub(super) cpu_us: f64,
}

/// The request of a read of YCSB's.
fn request() -> Vec<u8> {
    let mut frame = Vec::new();
    let mut message = OpMsgWriter::begin(&mut frame, 1, 0);
    message.raw_body(&bson::rawdoc! {
        "find": "usertable", "filter": { "_id": "user6284781860667377211" },
        "limit": 1, "singleBatch": true, "$db": "ycsb",
    });
    // It is far from the limit of a message.
    let _ = message.finish();
    frame
}

/// Drives this number of connections for a time.
pub(super) fn work(port: u16, connections: usize, time: Duration) -> Result<BareLoopResult> {
    let request = request();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut sockets = Vec::new();
    for place in 0..connections {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).context("cannot connect")?;
        socket.set_nodelay(true)?;
        socket.write_all(&request)?;
        socket.set_nonblocking(true)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &socket, epoll::EventData::new_u64(place as u64), flags)?;
        sockets.push((socket, 0_usize));
    }
    let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
    let mut scratch = vec![0; 64 << 10];
    let (begun, cpu_s) = (Instant::now(), thread_cpu_s());
    let mut operations = 0_u64;
    let mut reply_bytes = 0;
    while begun.elapsed() < time {
        events.clear();
        let second = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&second))?;
        for event in &events {
            let place = usize::try_from(event.data.u64())?;
            let Some((socket, filled)) = sockets.get_mut(place) else { continue };
            match socket.read(&mut scratch) {
                Ok(0) => bail!("the responder closed a connection"),
                Ok(count) => *filled += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            }
            if reply_bytes == 0 {
                let header = scratch.first_chunk().context("no header")?;
                reply_bytes =
                    Header::parse(header).map_err(|failure| anyhow::anyhow!("{failure:?}"))?.length_bytes;
            }
            if *filled >= reply_bytes {
                *filled -= reply_bytes;
                operations += 1;
                socket.write_all(&request)?;
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_us = (thread_cpu_s() - cpu_s) * 1e6 / operations.max(1) as f64;
    Ok(BareLoopResult { per_s: operations as f64 / seconds, cpu_us })
}

fn thread_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
