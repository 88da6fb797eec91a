//! Discovery over real sockets: the kind of deployment, the servers for writes and reads, before and after a failover, and the time it takes.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use bson::doc;
use fathom_client::{
    Address, Connection, Deployment, DeploymentKind, ReadMode, ReadPreference, Role, Target,
};

use crate::member::{FakeMember, elect};
use crate::names::{name_server, srv};

/// A connection string's time-out that no test waits for: one that did would be ended as hung.
const ENDLESS: &str = "connectTimeoutMS=3600000";

fn target(members: &[&FakeMember], options: &str) -> Target {
    let hosts: Vec<String> = members.iter().map(|member| member.address().to_string()).collect();
    format!("mongodb://{}/?{options}", hosts.join(",")).parse().unwrap()
}

fn refused(target: &Target) -> String {
    Deployment::discover(target).unwrap_err().to_string()
}

fn readable(deployment: &Deployment, mode: ReadMode) -> Vec<Address> {
    let patient = ReadPreference { local_threshold: Duration::from_secs(60), ..mode.into() };
    let mut addresses = deployment.readable(&patient).unwrap();
    addresses.sort();
    addresses
}

#[test]
fn a_server_by_itself() {
    let server = FakeMember::start();
    let deployment = Deployment::discover(&target(&[&server], "")).unwrap();
    assert_eq!(deployment.kind(), &DeploymentKind::Standalone);
    assert_eq!(deployment.writable().unwrap(), [server.address()]);
    assert_eq!(readable(&deployment, ReadMode::Secondary), [server.address()]);
    let mut connection = Connection::open(&server.address(), deployment.target()).unwrap();
    connection.run("admin", &doc! { "ping": 1 }).unwrap();
    assert!(connection.hello_round_trip() > Duration::ZERO);
}

#[test]
fn routers() {
    let routers = [FakeMember::start(), FakeMember::start(), FakeMember::start()];
    routers.iter().for_each(|router| router.say(doc! { "isWritablePrimary": true, "msg": "isdbgrid" }));
    routers[1].stop();
    let mut deployment = Deployment::discover(&target(&routers.each_ref(), "")).unwrap();
    assert_eq!(deployment.kind(), &DeploymentKind::Sharded);
    let others = [routers[0].address(), routers[2].address()];
    assert_eq!(deployment.writable().unwrap(), others);
    assert_eq!(deployment.readable(&ReadMode::Nearest.into()).unwrap(), others);
    routers[0].stop();
    deployment.rediscover().unwrap();
    assert_eq!(deployment.writable().unwrap(), [routers[2].address()]);
}

#[test]
fn a_replica_set_from_one_of_its_members() {
    let members = FakeMember::set_of_three();
    let deployment = Deployment::discover(&target(&[&members[2]], "")).unwrap();
    assert_eq!(deployment.kind(), &DeploymentKind::ReplicaSet { name: "rs".to_owned() });
    assert_eq!(deployment.writable().unwrap(), [members[0].address()]);
    let mut secondaries = vec![members[1].address(), members[2].address()];
    secondaries.sort();
    assert_eq!(readable(&deployment, ReadMode::Secondary), secondaries);
    assert_eq!(readable(&deployment, ReadMode::PrimaryPreferred), [members[0].address()]);
    assert_eq!(readable(&deployment, ReadMode::Nearest).len(), 3);
    let tagged = ReadPreference {
        tag_sets: vec![vec![("rack".to_owned(), "2".to_owned())]],
        ..ReadMode::Secondary.into()
    };
    assert_eq!(deployment.readable(&tagged).unwrap(), [members[2].address()]);
    assert!(deployment.members().iter().all(|member| member.round_trip.is_some()));
    Connection::open(&members[1].address(), deployment.target()).unwrap();
}

#[test]
fn servers_that_are_no_members_are_named_with_the_reason() {
    let members = FakeMember::set_of_three();
    let (alone, dead) = (FakeMember::start(), FakeMember::start());
    dead.stop();
    let seeds = target(&[&members[1], &alone, &dead], "replicaSet=rs");
    let deployment = Deployment::discover(&seeds).unwrap();
    assert_eq!(deployment.members().len(), 3);
    let fault = |server: &FakeMember| {
        let found = deployment.strangers().iter().find(|stranger| stranger.address == server.address());
        found.and_then(|stranger| stranger.fault.clone()).unwrap()
    };
    assert_eq!(deployment.strangers().len(), 2);
    assert_eq!(fault(&alone), "it does not belong to the replica set 'rs'");
    assert!(fault(&dead).contains("Connection refused"), "{}", fault(&dead));
}

#[test]
fn the_new_primary_after_a_failover() {
    let members = FakeMember::set_of_three();
    let mut deployment = Deployment::discover(&target(&[&members[0]], "replicaSet=rs")).unwrap();
    assert_eq!(deployment.writable().unwrap(), [members[0].address()]);
    members[0].stop();
    // The other members have not noticed yet.
    deployment.rediscover().unwrap();
    let error = deployment.writable().unwrap_err().to_string();
    assert!(error.contains("no member of the replica set 'rs' takes writes now"), "{error}");
    assert!(error.contains("Connection refused") && error.contains("is a secondary"), "{error}");
    assert_eq!(readable(&deployment, ReadMode::SecondaryPreferred).len(), 2);
    elect(&members, 2, 2);
    deployment.rediscover().unwrap();
    assert_eq!(deployment.writable().unwrap(), [members[2].address()]);
    members[1].stop();
    members[2].stop();
    let error = deployment.rediscover().unwrap_err().to_string();
    assert!(error.contains("none of the servers can be used"), "{error}");
    assert_eq!(deployment.writable().unwrap(), [members[2].address()]);
}

#[test]
fn one_member_only_when_asked_for() {
    let members = FakeMember::set_of_three();
    let deployment = Deployment::discover(&target(&[&members[1]], "directConnection=true")).unwrap();
    assert_eq!(deployment.members().len(), 1);
    assert_eq!(readable(&deployment, ReadMode::Primary), [members[1].address()]);
    let error = deployment.writable().unwrap_err().to_string();
    assert!(error.contains("is a secondary; leave out directConnection=true"), "{error}");
    assert!(refused(&target(&[&members[1]], "replicaSet=x")).contains("belongs to the replica set 'rs'"));
}

#[test]
fn members_by_names_that_nobody_knows_here() {
    let hidden = FakeMember::start();
    hidden.say(doc! { "isWritablePrimary": true, "setName": "rs", "hosts": ["mongo1.invalid:27017"] });
    let error = refused(&target(&[&hidden], "connectTimeoutMS=2000"));
    assert!(error.contains("mongo1.invalid:27017") && error.contains("directConnection=true"), "{error}");
    let direct = Deployment::discover(&target(&[&hidden], "directConnection=true")).unwrap();
    assert_eq!(direct.writable().unwrap(), [hidden.address()]);
}

#[test]
fn a_silent_member_does_not_hold_up_the_rest() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = listener.local_addr().unwrap();
    let primary = FakeMember::start();
    let hosts = [primary.address().to_string(), mute.to_string(), "10.255.255.1:27017".to_owned()];
    primary.say(doc! { "isWritablePrimary": true, "setName": "rs", "hosts": &hosts[..] });
    let uri = format!("mongodb://{mute},{closed},10.255.255.1,{}/?{ENDLESS}", primary.address());
    let mut deployment = Deployment::discover(&uri.parse().unwrap()).unwrap();
    assert_eq!(deployment.writable().unwrap(), [primary.address()]);
    // Nor for a member that stops silently while the others vote.
    primary.say(doc! { "secondary": true, "setName": "rs", "hosts": &hosts[..] });
    deployment.rediscover().unwrap();
    assert!(deployment.writable().is_err());
    let late = deployment.members().iter().filter(|member| member.role == Role::Unknown);
    assert_eq!(late.count(), 2);
}

#[test]
fn members_are_asked_at_the_same_time() {
    let mute = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let hosts = mute.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let uri = format!("mongodb://{}/?{ENDLESS}", hosts.join(","));
    let asking = thread::spawn(move || Deployment::discover(&uri.parse().unwrap()).unwrap_err().to_string());
    // One after another, the second would be asked only when the first is given up.
    drop(mute.each_ref().map(|listener| listener.accept().unwrap()));
    let error = asking.join().unwrap();
    assert!(hosts.iter().all(|host| error.contains(host)), "{error}");
}

#[test]
fn those_who_do_not_answer_in_time_are_named() {
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = mute.local_addr().unwrap();
    let uri = format!("mongodb://{mute},10.255.255.1,10.255.255.2/?connectTimeoutMS=200");
    let error = Deployment::discover(&uri.parse().unwrap()).unwrap_err().to_string();
    for host in [mute.to_string().as_str(), "10.255.255.1:27017", "10.255.255.2:27017"] {
        assert!(error.contains(host), "{host}: {error}");
    }
}

#[test]
fn a_wrong_password_is_said_as_such() {
    let members = FakeMember::set_of_three();
    let mut target = target(&[&members[1]], "");
    let with_user: Target = "mongodb://me:geheim@h/shop".parse().unwrap();
    target.credential = with_user.credential;
    let error = refused(&target);
    let expected = format!(
        "{} does not let in the user 'me' of the database 'shop': Authentication failed; check",
        members[0].address()
    );
    assert!(error.contains(&expected) && !error.contains("geheim"), "{error}");
    // Discovering members needs no login.
    target.credential = None;
    Deployment::discover(&target).unwrap();
}

#[test]
fn from_a_name_to_its_servers() {
    let names = name_server(vec![srv("_mongodb._tcp.c.nowhere.example.com", 27018, "a.nowhere.example.com")]);
    // Only the name service of this test knows the server, so it cannot be reached; but it was tried.
    let target: Target =
        "mongodb+srv://c.nowhere.example.com/?tls=false&connectTimeoutMS=2000".parse().unwrap();
    let error = Deployment::discover_by(&target, &names).unwrap_err().to_string();
    assert!(error.contains("a.nowhere.example.com:27018"), "{error}");
    let missing: Target = "mongodb+srv://none.nowhere.example.com".parse().unwrap();
    let error = Deployment::discover_by(&missing, &names).unwrap_err().to_string();
    assert!(error.contains("no SRV records"), "{error}");
}

#[test]
fn files_that_are_no_use_are_said_before_anybody_is_asked() {
    let error = refused(&"mongodb://10.255.255.1/?tlsCAFile=%2Fno%2Fsuch.pem".parse().unwrap());
    assert!(error.contains("/no/such.pem"), "{error}");
}

mod timed {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn nobody_answers_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = listener.local_addr().unwrap();
        let began = Instant::now();
        let uri = format!("mongodb://{mute},10.255.255.1,10.255.255.2/?connectTimeoutMS=4000");
        let error = Deployment::discover(&uri.parse().unwrap()).unwrap_err().to_string();
        // One after another they would take three times as long.
        assert!(began.elapsed() < Duration::from_secs(11), "{:?}", began.elapsed());
        for host in [mute.to_string().as_str(), "10.255.255.1:27017", "10.255.255.2:27017"] {
            assert!(error.contains(host), "{host}: {error}");
        }
    }
}
