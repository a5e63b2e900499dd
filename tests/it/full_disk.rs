//! The data folder on a small disk of its own that fills up.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use steadfast_tests::client::{Answer, Client};
use steadfast_tests::left_out;
use steadfast_tests::product::Product;

const AGENTS: &str = "[providers.scripted]\nkind = \"scripted\"\n\
    [agents.a]\nmodel = \"scripted/demo\"\n";

/// Room of the disk.
const SIZE: &str = "size=24m";

/// A file system in memory; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        let output = mount
            .args(["-t", "tmpfs", "-o", SIZE, "tmpfs"])
            .arg(at)
            .output();
        match output {
            Ok(output) if output.status.success() => Ok(Self(at.to_owned())),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        let mut piece_bytes = 64 * 1024;
        while piece_bytes > 0 {
            // What of a piece found room stays.
            if file.write_all(&vec![1; piece_bytes]).is_err() {
                piece_bytes /= 2;
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The process that had files open there may just be going.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

async fn send(client: &Client, number: u32) -> Answer {
    let text = "x".repeat(12 * 1024);
    client
        .message("s1", "a", &format!("m{number}"), &text)
        .await
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_acknowledged_is_lost() {
    let mut product = Product::prepare(AGENTS);
    let disk = match SmallDisk::mount(&product.folder().join("data")) {
        Ok(disk) => disk,
        Err(why) => {
            let test = "full_disk::a_full_disk_is_told_and_nothing_acknowledged_is_lost";
            return left_out::say(test, &format!("no file system can be mounted: {why}"));
        }
    };
    product.start_again().await;
    let client = product.client();
    let mut acknowledged = Vec::new();
    for number in 0..3 {
        send(&client, number).await.ok();
        acknowledged.push(number);
    }
    disk.fill();

    let mut refused = None;
    for number in 3..2_000 {
        let answer = send(&client, number).await;
        if !answer.status.is_success() {
            refused = Some((number, answer));
            break;
        }
        acknowledged.push(number);
    }
    let (first_refused, answer) = refused.expect("the disk was never full");
    assert_not_taken(&answer);
    assert!(
        product.log().contains("the disk is full"),
        "{}",
        product.log()
    );
    let body = json!({ "id": "n1", "agent": "a", "content": "x".repeat(12 * 1024) });
    let other = client.post("/v1/sessions/s2/messages", &body).await;
    // Nothing of it was decided, so nothing is in doubt: it says what is wrong and what to do.
    assert_eq!(other.status.as_u16(), 507, "{other:?}");
    assert_eq!(other.code(), Some("store_full"));
    assert_eq!(other.body["retry_after_s"], 10);
    let detail = other.body["detail"].as_str().unwrap();
    assert!(
        detail.contains("nothing happened") && detail.contains("Make room"),
        "{detail}"
    );
    // So does a message so large that a part of it must be written beside the log.
    let body = json!({ "id": "n2", "agent": "a", "content": "x".repeat(200 * 1024) });
    let large = client.post("/v1/sessions/s2/messages", &body).await;
    assert_eq!(large.code(), Some("store_full"), "{large:?}");

    // Reads go on.
    for number in &acknowledged {
        client.receipt("s1", &format!("m{number}")).await;
    }
    client.get("/v1/sessions/s1").await.ok();
    client.get("/v1/sessions/s1/events?follow=false").await.ok();
    client.get("/v1/sessions").await.ok();

    disk.free();
    let recovered = async {
        loop {
            let answer = send(&client, first_refused).await;
            if answer.status.is_success() {
                return;
            }
            // Each answer is one probe; the store says nothing by itself.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let recovered = tokio::time::timeout(Duration::from_secs(45), recovered).await;
    assert!(recovered.is_ok(), "never recovered:\n{}", product.log());
    acknowledged.push(first_refused);
    wait_completed(&client, &acknowledged).await;

    product.crash().await;
    wait_completed(&client, &acknowledged).await;
    assert!(!product.log().contains("panicked"), "{}", product.log());
    assert_eq!(product.terminate().await.code(), Some(0));
    drop(disk);
}

/// Either nothing happened, or it may have: a command that was decided is in doubt until its record
/// is known to be written or not. A session whose owner failed for it rests before it is asked.
fn assert_not_taken(answer: &Answer) {
    let code = answer.code().unwrap_or("none");
    let told = [
        (507, "store_full"),
        (503, "store_unavailable"),
        (503, "outcome_unknown"),
    ];
    assert!(told.contains(&(answer.status.as_u16(), code)), "{answer:?}");
}

async fn wait_completed(client: &Client, messages: &[u32]) {
    for number in messages {
        let path = format!("/v1/sessions/s1/messages/m{number}?wait=40s");
        let receipt = client.get(&path).await.ok();
        assert_eq!(receipt["state"], "completed", "m{number}: {receipt}");
    }
}
