//! The reply of `hostInfo`: the machine, its system and its limits, as Linux reports them. Recordings of the server also begin with it.
//!
//! The version of the C library is left out: only unsafe code could query it.

use bson::DateTime;
use fathom_wire::DocumentWriter;
use rustix::process::{Resource, getrlimit};

use crate::instance::Instance;

const MIB: u64 = 1 << 20;

/// Writes the sections `system`, `os` and `extra`.
pub(crate) fn write(instance: &Instance, reply: &mut DocumentWriter<'_>) {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let machine = rustix::system::sysinfo();
    let memory_bytes = machine.totalram.saturating_mul(u64::from(machine.mem_unit));
    let page_bytes = rustix::param::page_size();

    let mut system = reply.begin_document("system");
    system.date_time("currentTime", DateTime::now());
    let port = instance.port.get().copied().unwrap_or(0);
    system.string("hostname", &format!("{}:{port}", name.nodename().to_string_lossy()));
    system.i32("cpuAddrSize", 64);
    system.i64("memSizeMB", whole(memory_bytes / MIB));
    system.i64("memLimitMB", whole(crate::engines::memory_bytes() / MIB));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    system.i32("numCores", i32::try_from(cores).unwrap_or(i32::MAX));
    system.string("cpuArch", &name.machine().to_string_lossy());
    system.bool("numaEnabled", std::path::Path::new("/sys/devices/system/node/node1").exists());
    system.end();

    let mut os = reply.begin_document("os");
    os.string("type", "Linux");
    os.string("name", &distribution());
    os.string("version", &format!("Kernel {release}"));
    os.end();

    let mut extra = reply.begin_document("extra");
    extra.string("versionString", first_line("/proc/version").as_deref().unwrap_or_default());
    extra.string("kernelVersion", &release);
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    extra.string("cpuFrequencyMHz", of_processor(&processor, "cpu MHz"));
    extra.string("cpuFeatures", of_processor(&processor, "flags"));
    extra.i64("pageSize", i64::try_from(page_bytes).unwrap_or(i64::MAX));
    extra.i64("numPages", whole(memory_bytes / u64::try_from(page_bytes).unwrap_or(4096).max(1)));
    extra.i64("maxOpenFiles", getrlimit(Resource::Nofile).current.map_or(i64::MAX, whole));
    extra.end();
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

/// The distribution's display name, or an empty text.
fn distribution() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

/// A field of the first processor.
fn of_processor<'t>(text: &'t str, field: &str) -> &'t str {
    let value = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == field).then_some(value.trim())
    });
    value.unwrap_or_default()
}
