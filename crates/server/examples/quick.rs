fn main() {
    let mut config = fathom_server::Config::default();
    let args: Vec<String> = std::env::args().collect();
    config.net.port = args[1].parse().unwrap();
    config.storage.db_path = args[2].clone().into();
    config.storage.engine = fathom_server::config::EngineName::parse(&args[3]).unwrap();
    config.storage.wired_tiger.cache_size_gb = Some(1.0);
    config.log_path = Some(format!("{}.log", args[2]).into());
    let server = fathom_server::Server::start(config).unwrap();
    println!("listening {}", server.port());
    let seconds = args.get(4).map_or(600, |s| s.parse().unwrap());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    server.wait(&|d| { std::thread::sleep(d); std::time::Instant::now() >= until || std::path::Path::new("/tmp/stop-quick").exists() });
    println!("{:?}", server.stop());
}
