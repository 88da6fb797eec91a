//! Bytes through the machine's network interfaces, and segments that TCP had to send again.
//!
//! From `/proc/net/dev` and `/proc/net/snmp` (proc(5)), which show the network namespace of this process. The loopback
//! interface is left out: its traffic never leaves the machine.

use crate::View;

/// Running totals of all interfaces but the loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// Reads the traffic; `None` where the kernel does not tell.
pub fn traffic(view: &View) -> Option<Traffic> {
    Some(parse_traffic(&view.text("proc/net/dev")?))
}

/// Parses `/proc/net/dev`; a line that does not follow the grammar is passed over.
pub fn parse_traffic(text: &str) -> Traffic {
    let mut sum = Traffic::default();
    for line in text.lines() {
        let Some((name, counters)) = line.rsplit_once(':') else { continue };
        if name.trim() == "lo" {
            continue;
        }
        // Eight counters of receiving, then eight of sending; bytes come first in both.
        let mut fields = counters.split_ascii_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(received)), Some(Ok(sent))) = (fields.next(), fields.nth(7)) {
            sum.received_bytes = sum.received_bytes.saturating_add(received);
            sum.sent_bytes = sum.sent_bytes.saturating_add(sent);
        }
    }
    sum
}

/// Segments that TCP sent again since boot; `None` where the kernel does not tell.
pub fn retransmits(view: &View) -> Option<u64> {
    parse_retransmits(&view.text("proc/net/snmp")?)
}

/// `RetransSegs` of the two `Tcp:` lines of `/proc/net/snmp`: names, then values.
pub fn parse_retransmits(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|name| name == "RetransSegs")?;
    values.split_ascii_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interfaces_are_summed_without_the_loopback() {
        let text = "\
Inter-|   Receive            |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop
    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0
  eth0:100 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0
eth0:1: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0
  bad0: 1 2 3
";
        assert_eq!(parse_traffic(text), Traffic { received_bytes: 101, sent_bytes: 22 });
    }

    #[test]
    fn segments_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 2870\n";
        assert_eq!(parse_retransmits(text), Some(2870));
        assert_eq!(parse_retransmits("Tcp: RetransSegs\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(Tcp:|lo:|e:)?( RetransSegs| [0-9]{1,22}|\n|.){0,24}") {
            parse_traffic(&text);
            parse_retransmits(&text);
        }
    }
}
