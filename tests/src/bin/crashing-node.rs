//! The product on a store that ends its own process at the crash point of its environment.
//! `crashing-node serve --config FILE`

use anyhow::{Context, bail};
use steadfast::Node;
use steadfast::config::{Config, Sources};
use steadfast_tests::crash_log::{CRASH_POINT, CrashPoint, crashing};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ["serve", "--config", file] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        bail!("crashing-node serve --config FILE");
    };
    let config = Config::load(&Sources::of_file(file.as_ref(), &[])?)?;
    let point = std::env::var(CRASH_POINT).context(CRASH_POINT)?;
    let point: CrashPoint = point.parse().map_err(anyhow::Error::msg)?;
    let node = Node::from_config(config)
        .around_stores(|stores| crashing(stores, point))
        .start()
        .await?;
    node.run_until_signal().await
}
