//! The table of options: flags and configuration files have the same effect, and an invalid value is refused in one sentence.

use std::collections::BTreeSet;
use std::path::Path;

use bson::{Document, doc};
use fathom_server::Config;
use fathom_server::config::{EngineName, Flag, SETTINGS, Sets, Setting, Shape, TypedFlag};

/// The option that another one requires.
static BESIDE: &[(&str, &str)] = &[("fork", "logpath"), ("logRotate", "logpath"), ("logRotate", "logappend")];

fn given(flag: &str, values: &[&str]) -> TypedFlag {
    TypedFlag { flag: flag.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
}

fn assemble(flags: &[TypedFlag]) -> Result<Config, String> {
    Config::assemble(Vec::new(), flags, None).map_err(|error| error.to_string())
}

fn of_yaml(text: &str) -> Result<Config, String> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("serve.yaml");
    std::fs::write(&file, text).unwrap();
    let mut config = Config::assemble(Vec::new(), &[], Some(&file)).map_err(|error| error.to_string())?;
    assert!(config.parsed.remove("config").is_some());
    Ok(config)
}

/// A value that differs from the default, in the form of a flag and of a file.
fn sample(setting: &Setting, flag: &Flag) -> (TypedFlag, String) {
    let value = match (setting.key, setting.shape) {
        ("net.compression.compressors", _) => "zlib".to_owned(),
        ("fathom.claimedVersion", _) => "4.2.7".to_owned(),
        (_, Shape::Boolean) => (setting.default != "true").to_string(),
        (_, Shape::Integer(least, most)) => (least + (most - least) / 3 + 1).to_string(),
        (_, Shape::Number(least, most)) => (least.ceil() + 2.5).min(f64::midpoint(least, most)).to_string(),
        (_, Shape::Text) => "some=text".to_owned(),
        (_, Shape::Path) => "/some/where".to_owned(),
        (_, Shape::Choice(words)) => (*words.last().unwrap()).to_owned(),
        (_, Shape::Pairs) => "syncdelay=7".to_owned(),
        (_, Shape::Refused(_)) => "any".to_owned(),
    };
    match (flag.sets, setting.shape) {
        (Sets::Always(value), _) => (given(flag.name, &[]), value.to_owned()),
        (Sets::Count(_), _) => (given(flag.name, &["", ""]), "2".to_owned()),
        (Sets::Place(_), Shape::Choice(words)) => {
            (given(flag.name, &[&(words.len() - 1).to_string()]), value)
        }
        (Sets::Pair, _) => (given(flag.name, &[&value]), "\n  syncdelay: 7".to_owned()),
        _ => (given(flag.name, &[&value]), value),
    }
}

fn as_yaml(key: &str, value: &str) -> String {
    let mut text = String::new();
    let parts: Vec<&str> = key.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let end = if depth + 1 == parts.len() { format!(" {value}\n") } else { "\n".to_owned() };
        text.push_str(&format!("{}{part}:{end}", "  ".repeat(depth)));
    }
    text
}

#[test]
fn each_flag_and_its_key_give_the_same_configuration() {
    let mut flags_seen = BTreeSet::new();
    for setting in SETTINGS {
        for flag in setting.flags {
            assert!(flags_seen.insert(flag.name), "{} is there twice", flag.name);
            let (typed, written) = sample(setting, flag);
            let mut flags = vec![typed];
            for (_, needed) in BESIDE.iter().filter(|(of, _)| *of == flag.name) {
                let values: &[&str] = if *needed == "logpath" { &["/some/log"] } else { &[] };
                flags.push(given(needed, values));
            }
            let mut yaml = as_yaml(setting.key, &written);
            if flags.len() > 1 || setting.key == "systemLog.path" {
                let log = if setting.key == "systemLog.path" { "/some/where" } else { "/some/log" };
                let more = format!("  destination: file\n  path: {log}\n");
                let append = if flag.name == "logRotate" { "  logAppend: true\n" } else { "" };
                yaml = match setting.key.starts_with("systemLog.") {
                    true if setting.key == "systemLog.path" => format!("systemLog:\n{more}"),
                    true => format!("{yaml}{more}{append}"),
                    false => format!("{yaml}systemLog:\n{more}{append}"),
                };
            }
            match setting.shape {
                Shape::Refused(reason) => {
                    let (by_flag, by_file) = (assemble(&flags).unwrap_err(), of_yaml(&yaml).unwrap_err());
                    assert!(by_flag.contains(flag.name) && by_flag.contains(reason), "{by_flag}");
                    assert!(by_file.contains(setting.key) && by_file.contains(reason), "{by_file}");
                }
                _ => {
                    let (by_flag, by_file) = (assemble(&flags).unwrap(), of_yaml(&yaml).unwrap());
                    assert_eq!(by_flag, by_file, "{}\n{yaml}", flag.name);
                    let again = setting.default == written;
                    assert!(again || by_flag != Config::default(), "--{} changes nothing", flag.name);
                }
            }
        }
    }
}

#[test]
fn options_are_shown_as_mongod_shows_them() {
    let flags = [
        given("dbpath", &["/data/a"]),
        given("port", &["27610"]),
        given("bind_ip", &["127.0.0.1"]),
        given("wiredTigerCacheSizeGB", &["0.5"]),
        given("logpath", &["/data/a.log"]),
    ];
    let config = assemble(&flags).unwrap();
    let parsed: Document = config.parsed.into_iter().collect();
    // The contents of data/mongod-4.0.3/getCmdLineOpts.json, without the replica set.
    let expected = doc! {
        "net": { "bindIp": "127.0.0.1", "port": 27610 },
        "storage": { "dbPath": "/data/a", "wiredTiger": { "engineConfig": { "cacheSizeGB": 0.5 } } },
        "systemLog": { "destination": "file", "path": "/data/a.log" },
    };
    assert_eq!(parsed, expected);
}

#[test]
fn the_command_line_counts_before_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mongod.conf");
    let text = "\
# A file as packages install it.
storage:
  dbPath: /var/lib/mongodb
  engine: rocksdb
#  rocksdb:
systemLog:
  destination: file
  logAppend: true
  path: /var/log/mongod.log
net:
  port: 27017
security:
setParameter:
  syncdelay: 5
  enableTestCommands: 1
";
    std::fs::write(&file, text).unwrap();
    let flags = [given("port", &["1"]), given("setParameter", &["syncdelay=9", "ttlMonitorSleepSecs=2"])];
    let config = Config::assemble(vec!["fathom".to_owned()], &flags, Some(&file)).unwrap();
    assert_eq!((config.net.port, config.storage.engine), (1, EngineName::RocksDb));
    assert_eq!(config.storage.db_path, Path::new("/var/lib/mongodb"));
    assert!(config.log_append);
    let parameters: Vec<_> =
        config.set_parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(parameters, ["enableTestCommands=1", "syncdelay=9", "ttlMonitorSleepSecs=2"]);
    assert_eq!(config.parsed["config"].as_str(), Some(file.to_str().unwrap()));
}

#[test]
fn what_makes_no_sense_is_one_sentence_that_names_it() {
    for (flags, words) in [
        (vec![given("port", &["70000"])], "--port takes a whole number from 0 to 65535, not '70000'"),
        (vec![given("syncdelay", &["NaN"])], "--syncdelay takes a number"),
        (vec![given("storageEngine", &["mmapv1"])], "--storageEngine takes one of wiredTiger"),
        (vec![given("profile", &["3"])], "--profile takes a number from 0 to 2, not '3'"),
        (vec![given("fork", &[])], "--fork needs --logpath"),
        (vec![given("journal", &[]), given("nojournal", &[])], "cannot both be given"),
        (vec![given("bind_ip", &["::1"]), given("bind_ip_all", &[])], "cannot both be given"),
        (vec![given("claimedVersion", &["7.0"])], "drivers expect commands of later versions"),
        (vec![given("networkMessageCompressors", &["lz4"])], "not 'lz4'"),
        (vec![given("setParameter", &["syncdelay"])], "--setParameter takes name=value"),
        (vec![given("setParameter", &["nope=1"])], "Unknown --setParameter 'nope'"),
        (vec![given("setParameter", &["journalCommitInterval=501"])], "not less than or equal to 500"),
        (vec![given("logRotate", &["reopen"])], "needs --logappend"),
    ] {
        let refused = assemble(&flags).unwrap_err();
        assert!(refused.contains(words) && !refused.contains('\n'), "{refused}");
    }
    for (text, words) in [
        (
            "storage:\n  dbpath: /x\n",
            "'storage.dbpath' is not an option of fathom serve; did you mean 'storage.dbPath'?",
        ),
        ("port: 1\n", "'port' is not an option of fathom serve; did you mean 'net.port'?"),
        ("storage: 5\n", "'storage' is not an option"),
        ("net:\n  port: [1]\n", "'net.port' takes one value"),
        ("net:\n  port: true\n", "net.port takes a whole number"),
        ("net: {port: 1\n", "is not YAML"),
        ("just words\n", "holds no options"),
        ("net:\n  port: 1\nnet:\n  port: 2\n", "is not YAML"),
        ("systemLog:\n  destination: syslog\n", "systemLog.destination takes one of file"),
        ("systemLog:\n  destination: file\n", "needs systemLog.path"),
        ("setParameter:\n  a: [1]\n", "takes names with one value each"),
        ("replication:\n  replSetName: /a,b\n", "--replSet takes the name of a replica set"),
    ] {
        let refused = of_yaml(text).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
    assert!(of_yaml("").is_ok() && of_yaml("# nothing\nsecurity:\n").is_ok());
}
