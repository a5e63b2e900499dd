//! One data folder belongs to one process.

use steadfast_tests::product::Product;

const AGENTS: &str = "[providers.scripted]\nkind = \"scripted\"\n\
    [agents.a]\nmodel = \"scripted/demo\"\n";

#[tokio::test]
async fn a_second_process_is_told_who_holds_the_folder() {
    let mut product = Product::start(AGENTS).await;
    let client = product.client();
    client.message("s1", "a", "m1", "hello").await.ok();

    let second = product.second().await;
    let text = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{text}");
    let data = product.folder().join("data");
    assert!(text.contains(data.to_str().unwrap()), "{text}");
    assert!(text.contains(&product.pid().to_string()), "{text}");

    // The first one goes on, and its lock ends with it, however it ends.
    client.message("s1", "a", "m2", "hello").await.ok();
    let pid = product.pid();
    product.crash().await;
    assert_ne!(product.pid(), pid);
    client.message("s1", "a", "m3", "hello").await.ok();
}
