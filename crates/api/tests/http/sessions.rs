//! Sessions and agents: making, listing, reading, forking, removing.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use steadfast_core::id::{Epoch, NodeId, Seq, SessionId, SessionKey, TenantId};
use steadfast_protocol::record::RecordHash;
use steadfast_store::log::{Append, Tail};

use crate::world::{World, request};

#[tokio::test]
async fn a_session_is_made_once() {
    let world = World::new().await;
    let body = json!({"agent": "demo", "metadata": {"user": 7}, "tags": ["a", "b"]});
    let made = world.put("/v1/sessions/s1", body.clone()).await.ok(201);
    assert_eq!(
        (&made["id"], &made["agent"], &made["status"], &made["tags"]),
        (
            &json!("s1"),
            &json!("demo"),
            &json!("idle"),
            &json!(["a", "b"])
        )
    );
    assert_eq!(
        (&made["metadata"], &made["owner"]),
        (&json!({"user": 7}), &json!("n1"))
    );
    let again = world.put("/v1/sessions/s1", body).await.ok(200);
    assert_eq!(again["seq"], made["seq"]);
    let other = world
        .put("/v1/sessions/s1", json!({"agent": "short"}))
        .await;
    assert_eq!(other.problem(), (409, "session_exists"));
    let shown = world.get("/v1/sessions/s1").await.ok(200);
    assert_eq!(shown, again);
    let missing = world.get("/v1/sessions/s2").await;
    assert_eq!(missing.problem(), (404, "session_not_found"));
}

#[tokio::test]
async fn a_posted_session_gets_an_id() {
    let world = World::new().await;
    let body = json!({"agent": "demo"});
    let first = world.post("/v1/sessions", body.clone()).await.ok(201);
    let second = world.post("/v1/sessions", body.clone()).await.ok(201);
    assert_ne!(first["id"], second["id"]);
    let named = json!({"agent": "demo", "id": "mine"});
    let named = world.post("/v1/sessions", named).await.ok(201);
    assert_eq!(named["id"], "mine");
    let mut ids = Vec::new();
    for status in [201, 200] {
        let mut again = request(Method::POST, "/v1/sessions", Some(body.clone()));
        again
            .headers_mut()
            .insert("idempotency-key", "k1".parse().unwrap());
        ids.push(world.send(again).await.ok(status)["id"].clone());
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn a_list_is_paged_and_filtered() {
    let world = World::new().await;
    for (id, tag) in [("s1", "x"), ("s2", "y"), ("s3", "x")] {
        let body = json!({"agent": "demo", "tags": [tag]});
        world.put(&format!("/v1/sessions/{id}"), body).await.ok(201);
    }
    let ids = |list: &Value| -> Vec<String> {
        let sessions = list["sessions"].as_array().unwrap();
        sessions
            .iter()
            .map(|session| session["id"].as_str().unwrap().to_owned())
            .collect()
    };
    // The directory may be a moment behind.
    let all = loop {
        let list = world.get("/v1/sessions").await.ok(200);
        if ids(&list).len() == 3 {
            break list;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(ids(&all), ["s1", "s2", "s3"]);
    assert_eq!(all["next"], Value::Null);
    let page = world.get("/v1/sessions?limit=2").await.ok(200);
    assert_eq!(
        (ids(&page), &page["next"]),
        (vec!["s1".into(), "s2".into()], &json!("s2"))
    );
    let page = world.get("/v1/sessions?limit=2&after=s2").await.ok(200);
    assert_eq!(
        (ids(&page), &page["next"]),
        (vec!["s3".to_owned()], &Value::Null)
    );
    for (query, expected) in [
        ("tag=x", vec!["s1", "s3"]),
        ("agent=short", vec![]),
        ("status=idle", vec!["s1", "s2", "s3"]),
        ("status=running", vec![]),
    ] {
        let list = world.get(&format!("/v1/sessions?{query}")).await.ok(200);
        assert_eq!(ids(&list), expected, "{query}");
    }
}

#[tokio::test]
async fn a_removed_session_is_gone_and_its_id_can_be_used_again() {
    let world = World::new().await;
    world.session("s1").await;
    world.begin("s1", "m1", json!([{"hang": 60}])).await.ok(202);
    let gone = world.delete("/v1/sessions/s1").await.ok(202);
    assert_eq!(gone["state"], "done");
    for answer in [
        world.get("/v1/sessions/s1").await,
        world.get("/v1/sessions/s1/messages").await,
        world.get("/v1/sessions/s1/events").await,
        world.delete("/v1/sessions/s1").await,
        world.post("/v1/sessions/s1/cancel", json!({})).await,
    ] {
        assert_eq!(answer.problem(), (404, "session_not_found"));
    }
    loop {
        let again = world.put("/v1/sessions/s1", json!({"agent": "demo"})).await;
        if again.status == StatusCode::CREATED {
            break;
        }
        assert_eq!(again.problem(), (409, "session_deleting"));
        tokio::task::yield_now().await;
    }
    let messages = world.get("/v1/sessions/s1/messages").await.ok(200);
    assert_eq!(messages["messages"], json!([]));
    let done = world
        .say("s1", "m1", json!([{"text": "hello"}]))
        .await
        .ok(200);
    assert_eq!(done["text"], "hello");
}

#[tokio::test]
async fn a_fork_begins_with_a_copy() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .say("s1", "m1", json!([{"text": "one"}]))
        .await
        .ok(200);
    let body = json!({"id": "s2"});
    let fork = world.post("/v1/sessions/s1/fork", body).await.ok(201);
    assert_eq!(
        (&fork["id"], &fork["forked_from"]["session"]),
        (&json!("s2"), &json!("s1"))
    );
    world
        .say("s2", "m2", json!([{"text": "two"}]))
        .await
        .ok(200);
    let texts = |list: Value| -> Vec<Value> {
        let messages = list["messages"].as_array().unwrap().clone();
        messages
            .iter()
            .map(|message| message["parts"][0]["text"].clone())
            .collect()
    };
    let copy = texts(world.get("/v1/sessions/s2/messages").await.ok(200));
    assert_eq!(copy.len(), 4);
    assert_eq!((&copy[1], &copy[3]), (&json!("one"), &json!("two")));
    let first = texts(world.get("/v1/sessions/s1/messages").await.ok(200));
    assert_eq!(first.len(), 2);
    let inside = world.event("s1", "model_replied").await;
    let wrong = json!({"at_seq": inside["seq"]});
    let wrong = world.post("/v1/sessions/s1/fork", wrong).await;
    assert_eq!(wrong.problem(), (409, "fork_not_possible"));
    let missing = world.post("/v1/sessions/none/fork", json!({})).await;
    assert_eq!(missing.problem(), (404, "session_not_found"));
}

#[tokio::test]
async fn a_repeated_fork_is_one_session() {
    let world = World::new().await;
    world.session("s1").await;
    world
        .say("s1", "m1", json!([{"text": "one"}]))
        .await
        .ok(200);
    let mut ids = Vec::new();
    for (message, status) in [("m2", 201), ("m3", 200)] {
        let mut fork = request(Method::POST, "/v1/sessions/s1/fork", None);
        fork.headers_mut()
            .insert("idempotency-key", "k1".parse().unwrap());
        ids.push(world.send(fork).await.ok(status)["id"].clone());
        world
            .say("s1", message, json!([{"text": "more"}]))
            .await
            .ok(200);
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn agents_are_shown_with_their_tools() {
    let world = World::new().await;
    let list = world.get("/v1/agents").await.ok(200);
    let demo = world.get("/v1/agents/demo").await.ok(200);
    assert_eq!(list["agents"][0], demo);
    assert_eq!(demo["model"], "scripted/demo");
    let tool = |index: usize| {
        let tool = &demo["tools"][index];
        [
            &tool["name"],
            &tool["kind"],
            &tool["replay"],
            &tool["approval"],
            &tool["active"],
        ]
        .map(Clone::clone)
    };
    assert_eq!(
        tool(1),
        [
            json!("refund"),
            json!("dynamic"),
            json!("safe"),
            json!("user-approval"),
            json!(true)
        ]
    );
    let missing = world.get("/v1/agents/none").await;
    assert_eq!(missing.problem(), (404, "agent_not_found"));
}

#[tokio::test]
async fn the_node_describes_itself() {
    let world = World::new().await;
    assert_eq!(world.get("/healthz").await.ok(200), json!({"status": "ok"}));
    assert_eq!(world.get("/readyz").await.ok(200), json!({"status": "ok"}));
    world.session("s1").await;
    let metrics = world.get("/metrics").await.ok(200);
    let metrics = metrics.as_str().unwrap();
    for line in [
        r#"steadfast_http_requests_total{route="/v1/sessions/{session}",method="PUT",status="201"} 1"#,
        r#"steadfast_admissions_total{outcome="decided"} 1"#,
        "steadfast_streams_open 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let openapi = world.get("/openapi.json").await.ok(200);
    assert!(openapi["paths"]["/v1/sessions/{session}/messages"]["post"].is_object());
    let page = world.get("/").await.ok(200);
    assert!(
        page.as_str()
            .unwrap()
            .contains("/v1/sessions/{session}/why")
    );
    world.shutdown.cancel();
    assert_eq!(world.get("/readyz").await.problem(), (503, "draining"));
    assert_eq!(world.get("/healthz").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_session_whose_log_is_corrupt_says_so_and_harms_no_other() {
    let world = World::new().await;
    world.session("good").await;
    let key = SessionKey {
        tenant: TenantId::new("default").unwrap(),
        session: SessionId::new("bad").unwrap(),
    };
    let garbage = Append {
        bytes: "\u{1}garbage".into(),
        hash: RecordHash::of(b"\x01garbage"),
        first_seq: Seq(1),
        last_seq: Seq(1),
        epoch: Epoch(1),
        node: NodeId::new("n0").unwrap(),
    };
    let log = &world.stores.log;
    log.append(&key, Tail::EMPTY, garbage).await.unwrap();
    for answer in [
        world.get("/v1/sessions/bad").await,
        world.get("/v1/sessions/bad/messages").await,
        world.get("/v1/sessions/bad/events").await,
        world
            .put("/v1/sessions/bad", json!({"agent": "demo"}))
            .await,
    ] {
        assert_eq!(answer.problem(), (409, "session_quarantined"));
    }
    let log = world.get("/v1/sessions/bad/log").await.ok(200);
    assert_eq!(log["records"], json!([]));
    assert!(log["unreadable"].is_string(), "{log}");
    world.get("/v1/sessions/good").await.ok(200);
}
