//! What is slow by nature, for `make proof`: foreign clients on sets, kill loops, power cuts, a browser.

mod clients_sets;
mod clients_tools;
mod compare_killed;
mod report_browser;
pub(crate) mod serve_durability;
