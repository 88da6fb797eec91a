//! One measurement from its specification to its run folder.
//!
//! A verb and a study both make a [`SessionSpec`]; [`run`] opens the run folder, probes, loads and monitors what the specification names,
//! records everything as it comes, judges it, and closes the folder. The caller receives progress through [`Events`] and shows it. A
//! trial of a study is a session in a child process ([`run_in_child`]).

mod assessment;
mod burst_check;
mod capacity;
mod capacity_spec;
mod child;
mod context;
mod device_stack;
mod events;
mod judge_thread;
mod load;
mod load_drive;
mod load_seconds;
mod load_spec;
mod local_server;
mod monitor_session;
mod monitor_spec;
mod probe;
mod probe_spec;
mod recent_window;
mod recorded_companions;
mod recorded_log;
mod recorded_log_owner;
mod recorded_run;
mod recorded_series;
mod recorder;
mod recording;
mod recording_import;
mod replay;
pub mod run_folders;
mod search;
mod session;

pub use assessment::{Assessment, ranked_findings};
pub use capacity_spec::{CapacitySearch, CapacitySpec, SearchSteps};
pub use child::{ChildTools, SessionReport, VERB, become_session, run_in_child};
pub use context::SessionTools;
pub use events::{Events, LoadPart, NoEvents, pause};
pub use judge_thread::JudgeThread;
pub use load::{check_reachable, new_database_name};
pub use load_drive::SearchOutcome;
pub use load_spec::{
    CoreLoad, DocumentLoad, Driver, LoadPlan, LoadSpec, SearchSpec, ServerSpec, WorkloadSpec,
};
pub use local_server::{ENGINES, IS_BUILT_IN, LocalServer, LocalStorage, missing};
pub use monitor_session::{Feed, LiveFeed, MonitorSession, mark};
pub use monitor_spec::MonitorSpec;
pub use probe_spec::{ProbePlan, ProbeSpec};
pub use recent_window::RecentWindow;
pub use recorded_companions::RecordingCompanions;
pub use recorded_log::{found_logs, slow_operations, slow_operations_beside};
pub use recorded_log_owner::{LogAssignment, UnassignedLog};
pub use recorded_run::{MAX_RECORDED_S, RecordedRun};
pub use recorded_series::open_run;
pub use recorder::{RecordSpec, RunRecorder};
pub use recording::{JudgedRecording, MemberClock, host_of, judge_recordings};
pub use recording_import::RecordingImport;
pub use replay::Replay;
pub use session::{SessionResult, SessionSpec, run};
