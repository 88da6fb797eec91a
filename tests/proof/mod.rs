//! Tests that are slow by nature, for `make proof`: foreign clients on sets, majority schedules, kill loops, power cuts, a guest, a browser.

mod checkup_surroundings;
mod clients_sets;
mod clients_tools;
mod compare_guest;
mod compare_killed;
mod device_stacks;
mod first_hour;
mod majority;
mod recorded_faults;
mod report_browser;
pub(crate) mod serve_durability;
