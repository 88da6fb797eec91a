//! Bytes through the network, and segments sent again.

use fathom_errors::{Error, Kind, Result};
use fathom_host::{View, network};

use crate::{Batch, Sampler, Sums};

/// Reads `/proc/net/dev` and `/proc/net/snmp`.
pub(crate) struct Network {
    view: View,
    sums: Sums,
}

impl Network {
    pub(crate) fn new(view: &View) -> Network {
        Network { view: view.clone(), sums: Sums::default() }
    }
}

impl Sampler for Network {
    fn name(&self) -> String {
        "network".into()
    }

    fn sample(&mut self, batch: &mut Batch) -> Result<()> {
        if let Some(segments) = network::retransmits(&self.view) {
            let at_ns = batch.clock.now_ns();
            self.sums.put(batch, "host.network.retransmits", "1", at_ns, segments as f64);
        }
        let traffic = network::traffic(&self.view)
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no /proc/net/dev"))?;
        let at_ns = batch.clock.now_ns();
        let (received, sent) = (traffic.received_bytes as f64, traffic.sent_bytes as f64);
        self.sums.put(batch, "host.network.received_bytes", "bytes", at_ns, received);
        self.sums.put(batch, "host.network.sent_bytes", "bytes", at_ns, sent);
        Ok(())
    }
}
