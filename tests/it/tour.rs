//! The tour checks its own promises.

use steadfast_tests::product::process::run;

#[tokio::test]
async fn the_tour_keeps_its_promises() {
    let output = run(["tour"]).await;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("send_refund"), "{text}");
}
