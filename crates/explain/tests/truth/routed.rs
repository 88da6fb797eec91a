//! A simulated cluster: the shares of the path through a router, a hot or slow shard, operations of several shards, and no
//! finding if all shards are equal.

use fathom_explain::{Evidence, Judgement, judge};
use fathom_record::Finding;
use fathom_record::budget::Budget;
use fathom_stats::SeededRandom;

use crate::seconds::Seconds;

const SECONDS: usize = 100;

/// A cluster; times in microseconds.
#[derive(Clone, Debug)]
struct Cluster {
    per_s: f64,
    network_us: f64,
    router_us: f64,
    way_us: f64,
    /// Of each shard: its part of the operations, and its mean time.
    shards: Vec<(f64, f64)>,
    /// Part of the reads that all shards must answer.
    scattered: f64,
    /// Whether the router times its operations, as mongos does not.
    times: bool,
}

impl Default for Cluster {
    fn default() -> Cluster {
        Cluster {
            per_s: 500.0,
            network_us: 500.0,
            router_us: 150.0,
            way_us: 200.0,
            shards: vec![(1.0, 1500.0), (1.0, 1500.0)],
            scattered: 0.0,
            times: true,
        }
    }
}

/// Mean microseconds of schedule, network, router, the way to shards, shards.
struct Truth {
    mean_us: f64,
    layers: [f64; 5],
}

fn simulate(cluster: &Cluster, seed: u64) -> (Evidence, Truth) {
    let mut random = SeededRandom::from_seed(seed);
    let mut seconds = Seconds::default();
    let router = cluster.shards.len();
    let parts: f64 = cluster.shards.iter().map(|(part, _)| part).sum();
    let mut truth = Truth { mean_us: 0.0, layers: [0.0; 5] };
    let (mut now_us, mut count) = (0.0, 0.0);
    while now_us < SECONDS as f64 * 1e6 {
        now_us += random.exponential(1e6 / cluster.per_s);
        let is_read = random.uniform() < 0.5;
        let kind = if is_read { "reads" } else { "writes" };
        let network_us = random.exponential(cluster.network_us);
        let own_us = random.exponential(cluster.router_us);
        let mut pick = random.uniform() * parts;
        let only = cluster.shards.iter().position(|(part, _)| {
            pick -= part;
            pick < 0.0
        });
        let asked: Vec<usize> = if is_read && random.uniform() < cluster.scattered {
            (0..cluster.shards.len()).collect()
        } else {
            vec![only.unwrap_or(0)]
        };
        let mut slowest_us = 0.0_f64;
        for shard in &asked {
            let took_us = random.exponential(cluster.shards[*shard].1);
            slowest_us = slowest_us.max(took_us);
            for scope in ["", "collection."] {
                seconds.add(&format!("server.{shard}.{scope}{kind}.operations"), now_us, 1.0);
                seconds.add(&format!("server.{shard}.{scope}{kind}.latency_us"), now_us, took_us);
            }
            seconds.add(&format!("server.{shard}.process.cpu_us"), now_us, took_us);
        }
        let waited_us = cluster.way_us + slowest_us;
        let took_us = network_us + own_us + waited_us;
        if cluster.times {
            seconds.add(&format!("server.{router}.{kind}.operations"), now_us, 1.0);
            seconds.add(&format!("server.{router}.{kind}.latency_us"), now_us, own_us + waited_us);
            seconds.add(&format!("server.{router}.{kind}.shards_us"), now_us, waited_us);
        }
        let targeted = if asked.len() > 1 { "several" } else { "one" };
        for name in ["one", "several"] {
            seconds.add(
                &format!("server.{router}.targeted.{name}"),
                now_us,
                f64::from(u8::from(name == targeted)),
            );
        }
        seconds.add(&format!("server.{router}.process.cpu_us"), now_us, own_us);
        seconds.client(if is_read { "read" } else { "update" }, now_us + took_us, took_us);
        count += 1.0;
        truth.mean_us += took_us;
        for (sum, us) in truth.layers.iter_mut().zip([0.0, network_us, own_us, cluster.way_us, slowest_us]) {
            *sum += us;
        }
    }
    truth.mean_us /= count;
    truth.layers.iter_mut().for_each(|sum| *sum /= count);
    let facts = read_servers(&mut seconds, router);
    (seconds.evidence(SECONDS, &facts), truth)
}

/// The readings of the servers each second, and their identities.
fn read_servers(seconds: &mut Seconds, router: usize) -> Vec<(String, String)> {
    let mut facts = vec![(format!("server.{router}.role"), "router".to_owned())];
    for second in 0..SECONDS {
        seconds.read(&format!("server.{router}.ping_us"), second, 300.0);
        for shard in 0..router {
            seconds.read(&format!("server.{shard}.sharding.chunks"), second, 8.0);
        }
    }
    for shard in 0..router {
        facts.push((format!("server.{shard}.shard"), format!("sh{shard}")));
        facts.push((format!("server.{shard}.role"), "primary".to_owned()));
    }
    facts
}

fn path(judgement: &Judgement, shards: usize) -> &Budget {
    let router = shards.to_string();
    judgement.budgets.iter().find(|budget| budget.member == router && budget.operations == "all").unwrap()
}

fn ids(judgement: &Judgement) -> Vec<(&str, bool)> {
    let own = ["uneven-shards", "slow-shard", "scatter-gather", "router-takes-most"];
    let of_ours = judgement.findings.iter().filter(|finding| own.contains(&finding.id.as_str()));
    of_ours.map(|finding: &Finding| (finding.id.as_str(), finding.is_alarm())).collect()
}

#[test]
fn the_path_through_a_router_is_within_three_points() {
    let four = vec![(1.0, 1500.0); 4];
    let none: Vec<(&str, bool)> = vec![];
    for (name, cluster, expected) in [
        ("even", Cluster::default(), none.clone()),
        ("even, of four", Cluster { shards: four.clone(), ..Cluster::default() }, none.clone()),
        ("far client", Cluster { network_us: 10_000.0, ..Cluster::default() }, none.clone()),
        (
            "a router that works",
            Cluster { router_us: 4000.0, ..Cluster::default() },
            vec![("router-takes-most", true)],
        ),
        (
            "a hot shard",
            Cluster { shards: vec![(3.0, 4000.0), (1.0, 1500.0)], ..Cluster::default() },
            vec![("uneven-shards", true)],
        ),
        (
            "uneven, and none slower",
            Cluster { shards: vec![(3.0, 1500.0), (1.0, 1500.0)], ..Cluster::default() },
            vec![("uneven-shards", false)],
        ),
        (
            "a slow shard",
            Cluster { shards: vec![(1.0, 6000.0), (1.0, 1500.0), (1.0, 1500.0)], ..Cluster::default() },
            vec![("slow-shard", true)],
        ),
        (
            "scattered reads",
            Cluster { shards: four, scattered: 0.6, ..Cluster::default() },
            vec![("scatter-gather", true)],
        ),
    ] {
        let (evidence, truth) = simulate(&cluster, 21);
        let judgement = judge(&evidence);
        let budget = path(&judgement, cluster.shards.len());
        let share = |name: &str| {
            budget.layers.iter().find(|layer| layer.name == name).map_or(0.0, |layer| layer.share)
        };
        let true_share = |at: usize| truth.layers[at] / truth.mean_us;
        println!(
            "{name}: network {:.1} ({:.1}), router {:.1} ({:.1}), way {:.1} ({:.1}), shards {:.1} ({:.1}), closure {:.3}",
            100.0 * share("network"),
            100.0 * true_share(1),
            100.0 * share("router"),
            100.0 * true_share(2),
            100.0 * share("to_shards"),
            100.0 * true_share(3),
            100.0 * share("shards"),
            100.0 * true_share(4),
            budget.closure
        );
        for (layer, at) in [("network", 1), ("router", 2)] {
            assert!((share(layer) - true_share(at)).abs() < 0.03, "{name}: {layer} {budget:#?}");
        }
        let of_shards = true_share(3) + true_share(4);
        assert!((share("to_shards") + share("shards") - of_shards).abs() < 0.03, "{name}: {budget:#?}");
        if cluster.scattered == 0.0 {
            assert!((share("shards") - true_share(4)).abs() < 0.03, "{name}: {budget:#?}");
        }
        assert!((budget.closure - 1.0).abs() < 0.02 && budget.closes, "{name}: {budget:#?}");
        assert_eq!(ids(&judgement), expected, "{name}: {:#?}", judgement.findings);
        let parts = &budget.layers.iter().find(|layer| layer.name == "shards").unwrap().within;
        assert_eq!(parts.len(), cluster.shards.len(), "{name}");
        let own = |member: usize| judgement.budgets.iter().any(|budget| budget.member == member.to_string());
        assert!((0..cluster.shards.len()).all(own), "{name}: each shard has its own budget too");
    }
}

#[test]
fn a_router_that_does_not_time_its_operations_is_one_layer() {
    let cluster = Cluster { times: false, ..Cluster::default() };
    let (evidence, truth) = simulate(&cluster, 22);
    let judgement = judge(&evidence);
    let budget = path(&judgement, 2);
    let share = |name: &str| budget.layers.iter().find(|layer| layer.name == name).map(|layer| layer.share);
    assert_eq!((share("network"), share("to_shards")), (None, None));
    let rest: f64 = truth.layers[..4].iter().sum::<f64>() / truth.mean_us;
    assert!((share("router").unwrap() - rest).abs() < 0.03, "{budget:#?}");
    assert!(budget.missing.iter().any(|said| said.contains("does not time")), "{budget:#?}");
    assert_eq!(ids(&judgement), []);
}

#[test]
fn even_clusters_give_no_finding() {
    let mut wrong = 0;
    for seed in 0..12 {
        let shards = vec![(1.0, 1500.0); 2 + (seed % 3) as usize];
        let (evidence, _) = simulate(&Cluster { shards, ..Cluster::default() }, 100 + seed);
        wrong += ids(&judge(&evidence)).len();
    }
    assert_eq!(wrong, 0);
}

#[test]
fn lost_records_and_hidden_time_do_not_close() {
    let cluster = Cluster::default();
    let (evidence, _) = simulate(&cluster, 23);
    let spoilt = |spoil: &dyn Fn(&str, f64) -> f64| {
        let mut other = Evidence { series: Default::default(), ..evidence.clone() };
        for (name, series) in evidence.series.iter() {
            for point in &series.points {
                let value = spoil(name, point.value);
                other.series.add(name, &series.unit, fathom_record::Point { value, ..*point });
            }
        }
        let judgement = judge(&other);
        path(&judgement, 2).clone()
    };
    // Half of the records are lost, the operations under way are not.
    let lost = spoilt(&|name, value| if name.ends_with("in_flight") { 2.0 * value } else { value });
    assert!(!lost.closes && lost.unexplained_us > 0.0, "{lost:#?}");
    // The router slept: neither its processor nor a shard has the time.
    let slept = spoilt(&|name, value| {
        let hidden = name == "server.2.reads.latency_us" || name == "server.2.writes.latency_us";
        if hidden { value + 250.0 * 500.0 } else { value }
    });
    assert!(slept.unexplained_us > 200.0, "{slept:#?}");
}
