//! Every command of `docs/first-hour.md`, as it is written and in its order, in a shell with an empty home.
//!
//! Only `/data` is replaced, by a folder of the test, and the commands that install are left out: the program is there. The server has the port
//! of the page in a network of the test's own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use fathom_testkit::{Fathom, Network, Scratch, assert, assert_eq, test};

const PAGE: &str = include_str!("../../docs/first-hour.md");
/// Runs each line of standard input and ends with the first command that fails; exit codes 1 (found) and 4 (cannot tell) are no failures.
const SHELL: &str = r#"
exec 3<&0 0</dev/null
while IFS= read -r line <&3; do
    echo "== $line"
    case $line in
    'fathom serve '*) $line > server.log 2>&1 & server=$!
        for _ in $(seq 100); do grep -q 'Waiting for connections' server.log && break; sleep 0.1; done ;;
    'fathom cleanup') kill -INT "$server"; wait "$server" || exit; eval "$line" || exit ;;
    *) eval "$line"; code=$?
        case $code in 0|1|4) ;; *) echo "exit code $code"; exit 1 ;; esac ;;
    esac
done
wait
"#;

/// The commands of the page: whole lines of shell blocks, and what follows a prompt in the others.
fn commands() -> Vec<String> {
    let mut block = None;
    let mut commands = Vec::new();
    for line in PAGE.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh")) => commands.push(line.split(" #").next().unwrap_or(line).trim().to_owned()),
            (None, Some("console")) => commands.extend(line.strip_prefix("$ ").map(str::to_owned)),
            _ => {}
        }
    }
    commands.retain(|command| {
        !command.is_empty() && command != "make build" && !command.starts_with("export PATH")
    });
    commands
}

#[test]
fn every_command_works_as_written() {
    let commands = commands();
    assert!(commands.len() >= 12, "{commands:#?}");
    let scratch = Scratch::new().unwrap();
    let (bin, home, data) =
        (scratch.path().join("bin"), scratch.path().join("home"), scratch.path().join("data"));
    for folder in [&bin, &home, &data] {
        fs::create_dir(folder).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_fathom"), bin.join("fathom")).unwrap();
    let script = commands.join("\n").replace("/data", data.to_str().unwrap()) + "\n";
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = |network: &Network| {
        let call = Fathom::new(Path::new("/bin/bash"))
            .args(["-c", SHELL])
            .stdin(script.as_str())
            .env("HOME", &home)
            .env("PATH", format!("{}:{path}", bin.display()))
            .state(home.join("state"))
            .current_dir(scratch.path())
            .limit(Duration::from_secs(400));
        network.among_clients(|| call.run()).unwrap()
    };
    let output = shell(&Network::new(1));
    println!("{}", output.stdout);
    assert_eq!(output.code, 0, "{}\n{}", output.stdout, output.stderr);
    assert_eq!(output.stdout.matches("\n== ").count() + 1, commands.len(), "{}", output.stdout);
    assert!(data.join("findings.html").exists());
}
