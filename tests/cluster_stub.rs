//! A stand-in for mongod and mongos of each version: it records the exact command line, answers `--version` and `--help`, and
//! simulates the few commands that create sets and shards. It holds no data and elects the member that receives the initiate command.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use fathom_client::{Address, Connection, Target};
use fathom_wire::{Header, Message, OpMsgWriter};

/// The variable with the file in which the helper process records its commands.
const RECORD: &str = "FATHOM_TEST_STUB_RECORD";

/// The variable with the name of its set from the start; without a name it is in no set, whatever its command line.
pub(crate) const SET: &str = "FATHOM_TEST_STUB_SET";

/// The variable with the difference between its own port and the lower one that other servers use.
pub(crate) const SHIFT: &str = "FATHOM_TEST_STUB_SHIFT";

/// The versions that are simulated.
pub(crate) const VERSIONS: [&str; 7] = ["4.0.28", "4.2.24", "4.4.29", "5.0.31", "6.0.20", "7.0.16", "8.0.4"];

/// Options that `mongod --help` lists, with the first and the last version that has them.
const MONGOD: [(&str, &str, &str); 30] = [
    ("-h [ --help ]", "0", "9"),
    ("-f [ --config ] arg", "0", "9"),
    ("-v [ --verbose ] [=arg(=v)]", "0", "9"),
    ("--port arg", "0", "9"),
    ("--bind_ip arg", "0", "9"),
    ("--bind_ip_all", "0", "9"),
    ("--dbpath arg", "0", "9"),
    ("--logpath arg", "0", "9"),
    ("--fork", "0", "9"),
    ("--keyFile arg", "0", "9"),
    ("--setParameter arg", "0", "9"),
    ("--slowms arg (=100)", "0", "9"),
    ("--replSet arg", "0", "9"),
    ("--oplogSize arg", "0", "9"),
    ("--configsvr", "0", "9"),
    ("--shardsvr", "0", "9"),
    ("--storageEngine arg", "0", "9"),
    ("--wiredTigerCacheSizeGB arg", "0", "9"),
    ("--inMemorySizeGB arg", "0", "9"),
    ("--journal", "0", "6.0"),
    ("--nojournal", "0", "6.0"),
    ("--smallfiles", "0", "4.0"),
    ("--noprealloc", "0", "4.0"),
    ("--nssize arg (=16)", "0", "4.0"),
    ("--sslMode arg", "0", "4.0"),
    ("--sslPEMKeyFile arg", "0", "4.0"),
    ("--sslCAFile arg", "0", "4.0"),
    ("--tlsMode arg", "4.2", "9"),
    ("--tlsCertificateKeyFile arg", "4.2", "9"),
    ("--tlsCAFile arg", "4.2", "9"),
];

/// Options that only mongos has.
const MONGOS: [&str; 9] = [
    "-h [ --help ]",
    "-f [ --config ] arg",
    "-v [ --verbose ] [=arg(=v)]",
    "--port arg",
    "--logpath arg",
    "--keyFile arg",
    "--configdb arg",
    "--localThreshold arg",
    "--setParameter arg",
];

/// A folder with `mongod` and `mongos` of a version.
pub(crate) struct Binaries {
    pub(crate) folder: PathBuf,
    record: PathBuf,
}

impl Binaries {
    pub(crate) fn new(parent: &Path, version: &str) -> Binaries {
        let folder = parent.join(format!("bin-{version}"));
        fs::create_dir_all(&folder).unwrap();
        let record = folder.join("record");
        let release = version.rsplit_once('.').unwrap().0;
        let has = |(_, first, last): &&(&str, &str, &str)| *first <= release && release <= *last;
        let mongod: Vec<&str> = MONGOD.iter().filter(has).map(|(option, ..)| *option).collect();
        write_stub(&folder, "mongod", &format!("db version v{version}"), &mongod);
        write_stub(&folder, "mongos", &format!("mongos version v{version}"), &MONGOS);
        Binaries { folder, record }
    }

    pub(crate) fn path(&self) -> String {
        self.folder.display().to_string()
    }

    /// The recorded lines: command lines, sorted, and commands in their order.
    pub(crate) fn recorded(&self, kind: &str) -> Vec<String> {
        let text = fs::read_to_string(&self.record).unwrap_or_default();
        let prefix = format!("{kind} ");
        text.lines().filter_map(|line| line.strip_prefix(&prefix).map(str::to_owned)).collect()
    }
}

fn write_stub(folder: &Path, name: &str, version: &str, options: &[&str]) {
    let help: String = options.iter().map(|option| format!("  {option:38}what it does\n")).collect();
    fs::write(folder.join(format!("{name}.help")), format!("Options:\n{help}")).unwrap();
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\n--version) echo '{version}' ;;\n--help) cat '{0}/{name}.help' ;;\n\
         *) echo \"line {name} $*\" >> '{0}/record'\n\
         {RECORD}='{0}/record' exec '{1}' --exact cluster_stub::helper_process --ignored --nocapture -- \"$@\" ;;\nesac\n",
        folder.display(),
        this.display()
    );
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Not a test: one server, until it is killed.
#[test]
#[ignore = "the helper process of other tests"]
fn helper_process() {
    let record = PathBuf::from(std::env::var_os(RECORD).expect("only another test runs this"));
    let words: Vec<String> = std::env::args().collect();
    let value =
        |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).cloned();
    let port: u16 = value("--port").unwrap().parse().unwrap();
    if let Some(log) = value("--logpath") {
        fs::write(&log, "stub\n").unwrap();
        if value("--dbpath").is_none() {
            // mongos keeps its diagnostics next to its log, and mongod in its data folder.
            let diagnostics = Path::new(&log).with_extension("diagnostic.data");
            fs::create_dir_all(&diagnostics).unwrap();
            fs::write(diagnostics.join("metrics.interim"), "stub\n").unwrap();
        }
    }
    let given_set = std::env::var(SET).ok();
    let memory = value("--dbpath").map(|folder| Path::new(&folder).join("stub"));
    let shift: u16 = std::env::var(SHIFT).map_or(0, |shift| shift.parse().unwrap());
    let server = Arc::new(Stub {
        record,
        port: port - shift,
        memory: memory.clone(),
        is_router: value("--configdb").is_some(),
        set: value("--replSet").filter(|_| given_set.as_deref() != Some("")),
        given_set: given_set.filter(|set| !set.is_empty()),
        state: Mutex::new(State { config: memory.and_then(|path| remembered(&path)), ..State::default() }),
    });
    for socket in TcpListener::bind(("127.0.0.1", port)).unwrap().incoming().flatten() {
        let server = Arc::clone(&server);
        thread::spawn(move || drop(server.talk(socket)));
    }
}

fn remembered(path: &Path) -> Option<(Document, bool)> {
    let memory = Document::from_reader(fs::read(path).ok()?.as_slice()).unwrap();
    Some((memory.get_document("config").unwrap().clone(), memory.get_bool("primary").unwrap()))
}

struct Stub {
    record: PathBuf,
    port: u16,
    /// The file that keeps the set's configuration.
    memory: Option<PathBuf>,
    is_router: bool,
    set: Option<String>,
    given_set: Option<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The set's configuration, and whether this member is the primary.
    config: Option<(Document, bool)>,
    shards: Vec<Document>,
    /// How often it was asked for users; it has them from the second time on, as a member that applies them late.
    users_asked: u32,
}

impl Stub {
    fn talk(&self, mut socket: TcpStream) -> io::Result<()> {
        loop {
            let mut head = [0; Header::BYTES];
            socket.read_exact(&mut head)?;
            let header = Header::parse(&head).map_err(|error| io::Error::other(format!("{error:?}")))?;
            let mut frame = head.to_vec();
            frame.resize(header.length_bytes, 0);
            socket.read_exact(&mut frame[Header::BYTES..])?;
            let Ok(Message::Msg(message)) = Message::parse(&frame) else { return Ok(()) };
            let command = Document::try_from(message.body).unwrap();
            let reply = self.answer(&command).unwrap_or_else(|(code, text)| {
                doc! { "ok": 0.0, "code": code, "errmsg": text }
            });
            let mut frame = Vec::new();
            let mut writer = OpMsgWriter::begin(&mut frame, 1, header.request_id);
            writer.raw_body(&bson::RawDocumentBuf::try_from(&reply).unwrap());
            writer.finish().unwrap();
            socket.write_all(&frame)?;
        }
    }

    fn answer(&self, command: &Document) -> Result<Document, (i32, &'static str)> {
        let name = command.keys().next().cloned().unwrap_or_default();
        if !["hello", "isMaster", "ping", "replSetStepUp", "saslStart", "stubJoin", "stubPing"]
            .contains(&name.as_str())
        {
            let mut noted = command.clone();
            ["$db", "lsid", "pwd"].iter().for_each(|field| drop(noted.remove(*field)));
            let mut file = OpenOptions::new().create(true).append(true).open(&self.record).unwrap();
            // In one write: several servers append to the same file at the same time.
            file.write_all(format!("command {} {noted}\n", self.port).as_bytes()).unwrap();
        }
        let mut state = self.state.lock().unwrap();
        match name.as_str() {
            "hello" | "isMaster" => Ok(self.hello(&state)),
            "ping" | "createUser" | "enableSharding" | "shardCollection" | "setDefaultRWConcern" => {
                Ok(doc! { "ok": 1.0 })
            }
            "serverStatus" => Ok(doc! { "process": "stub", "ok": 1.0 }),
            "usersInfo" => {
                state.users_asked += 1;
                let users: Vec<Document> =
                    (state.users_asked > 1).then(|| doc! { "user": "user" }).into_iter().collect();
                Ok(doc! { "users": users, "ok": 1.0 })
            }
            "listShards" if self.is_router => Ok(doc! { "shards": state.shards.clone(), "ok": 1.0 }),
            "addShard" if self.is_router => {
                let id = command.get_str("name").unwrap();
                state.shards.push(doc! { "_id": id, "host": command.get_str("addShard").unwrap() });
                Ok(doc! { "shardAdded": id, "ok": 1.0 })
            }
            "replSetInitiate" if self.set.is_some() => {
                if state.config.is_some() {
                    return Err((23, "already initialized"));
                }
                let config = command.get_document("replSetInitiate").unwrap().clone();
                for port in ports(&config).into_iter().filter(|port| *port != self.port) {
                    let target = Target::at(Address::new("127.0.0.1", port));
                    let joined = Connection::connect(&target).and_then(|mut connection| {
                        connection.run("admin", &doc! { "stubJoin": config.clone() })
                    });
                    joined.map_err(|_| (74, "a member does not answer"))?;
                }
                self.remember(&mut state, config, true);
                Ok(doc! { "ok": 1.0 })
            }
            "stubJoin" => {
                self.remember(&mut state, command.get_document("stubJoin").unwrap().clone(), false);
                Ok(doc! { "ok": 1.0 })
            }
            "stubPing" => {
                let port = u16::try_from(command.get_i32("stubPing").unwrap()).unwrap();
                let mut target = Target::at(Address::new("127.0.0.1", port));
                target.connect_timeout =
                    Duration::from_millis(u64::try_from(command.get_i64("timeoutMS").unwrap()).unwrap());
                drop(state);
                Ok(doc! { "reached": Connection::connect(&target).is_ok(), "ok": 1.0 })
            }
            "replSetGetStatus" => state.config.as_ref().map(|_| doc! { "ok": 1.0 }).ok_or((94, "no config")),
            _ => Err((59, "no such command")),
        }
    }

    fn remember(&self, state: &mut State, config: Document, primary: bool) {
        let memory = doc! { "config": config.clone(), "primary": primary };
        fs::write(self.memory.as_ref().unwrap(), memory.to_vec().unwrap()).unwrap();
        state.config = Some((config, primary));
    }

    fn hello(&self, state: &State) -> Document {
        let mut hello = doc! { "helloOk": true, "maxWireVersion": 9, "minWireVersion": 0, "ok": 1.0 };
        match (&self.set, &state.config) {
            _ if self.is_router => hello.extend(doc! { "isWritablePrimary": true, "msg": "isdbgrid" }),
            _ if self.given_set.is_some() => {
                hello.extend(doc! { "setName": self.given_set.clone(), "isWritablePrimary": true })
            }
            (None, _) => hello.extend(doc! { "isWritablePrimary": true }),
            (Some(_), None) => hello.extend(doc! { "isreplicaset": true, "isWritablePrimary": false }),
            (Some(set), Some((config, is_primary))) => {
                let own = members(config).into_iter().find(|member| port(member) == self.port).unwrap();
                let is_arbiter = own.get_bool("arbiterOnly").unwrap_or(false);
                hello.extend(doc! {
                    "setName": set, "isWritablePrimary": *is_primary, "secondary": !is_primary && !is_arbiter,
                    "arbiterOnly": is_arbiter, "hidden": own.get_bool("hidden").unwrap_or(false),
                });
            }
        }
        hello
    }
}

fn members(config: &Document) -> Vec<Document> {
    let members = config.get_array("members").unwrap().iter();
    members.map(|member| member.as_document().unwrap().clone()).collect()
}

fn port(member: &Document) -> u16 {
    member.get_str("host").unwrap().rsplit_once(':').unwrap().1.parse().unwrap()
}

fn ports(config: &Document) -> Vec<u16> {
    members(config).iter().map(port).collect()
}

#[test]
fn versions_differ_in_what_they_list() {
    let scratch = fathom_testkit::Scratch::new().unwrap();
    let listed: BTreeSet<String> = VERSIONS
        .iter()
        .map(|version| {
            fs::read_to_string(Binaries::new(&scratch.path(), version).folder.join("mongod.help")).unwrap()
        })
        .collect();
    assert_eq!(listed.len(), 3);
}
