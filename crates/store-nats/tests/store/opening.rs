//! Opening a store: what is made, what is checked, what is refused.

use std::time::Duration;

use serde_json::{Value, json};
use steadfast_nats_server::{NatsServer, Settings};
use steadfast_store::Guarantee;
use steadfast_store_nats::{Auth, NatsStore, OpenError, Options, PreflightError, SetupError};

use crate::brokers::{on_one, open};

async fn refusal(options: &Options) -> OpenError {
    match NatsStore::open(options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Asks the broker's own interface.
async fn api(server: &NatsServer, subject: &str, question: Value) -> Value {
    let client = async_nats::connect(server.url()).await.unwrap();
    let subject = format!("$JS.API.{subject}");
    let answer = client.request(subject, question.to_string().into()).await;
    serde_json::from_slice(&answer.unwrap().payload).unwrap()
}

#[tokio::test]
async fn three_nodes_set_up_at_once() {
    let server = NatsServer::start(Settings::default());
    let options = on_one(&server);
    let opened = futures_util::future::join_all((0..3).map(|_| NatsStore::open(&options))).await;
    let expected = Guarantee {
        fsync: true,
        replicas: 1,
    };
    for store in opened {
        assert_eq!(
            store.unwrap_or_else(|error| panic!("{error}")).guarantee(),
            expected
        );
    }
    let seen = NatsStore::look(&options).await.unwrap();
    assert_eq!((seen.missing, seen.guarantee), (Vec::new(), Ok(expected)));
}

#[tokio::test]
async fn a_look_makes_nothing() {
    let server = NatsServer::start(Settings::default());
    let options = on_one(&server);
    for _ in 0..2 {
        let seen = NatsStore::look(&options).await.unwrap();
        assert!(
            seen.missing.contains(&"stream SF_LOG_1".to_owned()),
            "{seen:?}"
        );
    }
    let names = api(&server, "STREAM.NAMES", json!({})).await;
    assert_eq!(names["total"], 0);
}

#[tokio::test]
async fn partitions_are_fixed_at_the_first_start() {
    let server = NatsServer::start(Settings::default());
    let options = on_one(&server);
    drop(open(&options).await);
    let other = Options {
        partitions: 3,
        ..options.clone()
    };
    let expected = SetupError::Partitions {
        wanted: 3,
        found: 2,
    };
    assert_eq!(refusal(&other).await, OpenError::Setup(expected));
    drop(open(&options).await);
}

#[tokio::test]
async fn a_stream_with_other_settings_is_refused_and_left_alone() {
    let server = NatsServer::start(Settings::default());
    let options = on_one(&server);
    let foreign = json!({
        "name": "SF_MBOX_0", "subjects": ["sf.mbox.0.>"], "retention": "limits",
        "storage": "file", "num_replicas": 1, "allow_direct": true,
    });
    let made = api(&server, "STREAM.CREATE.SF_MBOX_0", foreign).await;
    assert_eq!(made["error"], Value::Null, "{made}");
    let error = refusal(&options).await;
    let OpenError::Setup(SetupError::Differs {
        object,
        setting,
        wanted,
        found,
        ..
    }) = &error
    else {
        panic!("{error}");
    };
    let told = [object, setting, wanted, found].map(String::as_str);
    let expected = [
        "stream SF_MBOX_0",
        "retention",
        "\"workqueue\"",
        "\"limits\"",
    ];
    assert_eq!(told, expected);
    let info = api(&server, "STREAM.INFO.SF_MBOX_0", json!({})).await;
    assert_eq!(info["config"]["retention"], "limits");
}

#[tokio::test]
async fn a_server_that_does_not_sync_is_refused() {
    let server = NatsServer::start(Settings {
        sync_always: false,
        ..Settings::default()
    });
    let options = on_one(&server);
    let error = refusal(&options).await;
    let OpenError::Preflight(PreflightError::NotSynced { server: name, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!(name, "n1");
    let lenient = Options {
        require_fsync: false,
        ..options
    };
    let expected = Guarantee {
        fsync: false,
        replicas: 1,
    };
    assert_eq!(open(&lenient).await.guarantee(), expected);
}

#[tokio::test]
async fn a_promise_that_is_not_known_is_refused() {
    let server = NatsServer::start(Settings::default());
    let blind = Options {
        monitor_urls: Vec::new(),
        ..on_one(&server)
    };
    let wrong = Options {
        monitor_urls: vec![server.url().replace("nats://", "http://")],
        ..on_one(&server)
    };
    for options in [blind, wrong] {
        let error = refusal(&options).await;
        let unknown = matches!(
            &error,
            OpenError::Preflight(PreflightError::SyncUnknown { .. })
        );
        assert!(unknown, "{error}");
    }
}

#[tokio::test]
async fn fewer_copies_than_required_are_refused() {
    let server = NatsServer::start(Settings::default());
    let options = Options {
        require_replicas: 3,
        ..on_one(&server)
    };
    let error = refusal(&options).await;
    let few = matches!(
        &error,
        OpenError::Preflight(PreflightError::Replicas {
            found: 1,
            required: 3,
            ..
        })
    );
    assert!(few, "{error}");
}

#[tokio::test]
async fn more_copies_than_servers_are_refused() {
    let server = NatsServer::start(Settings::default());
    let options = Options {
        replicas: 3,
        setup_patience: Duration::from_millis(200),
        ..on_one(&server)
    };
    let error = refusal(&options).await;
    let refused = matches!(&error, OpenError::Setup(SetupError::Refused { .. }));
    assert!(refused, "{error}");
}

#[tokio::test]
async fn users_and_tokens_are_let_in_and_strangers_are_not() {
    let settings = |more: &str| Settings {
        more: more.to_owned(),
        ..Settings::default()
    };
    let cases = [
        (
            "authorization { user: node, password: \"a word\" }",
            Auth::Password {
                user: "node".to_owned(),
                password: "a word".to_owned(),
            },
        ),
        (
            "authorization { token: \"a-token\" }",
            Auth::Token("a-token".to_owned()),
        ),
    ];
    for (more, auth) in cases {
        let server = NatsServer::start(settings(more));
        let stranger = on_one(&server);
        let error = refusal(&stranger).await;
        assert!(matches!(error, OpenError::Connect { .. }), "{error}");
        drop(open(&Options { auth, ..stranger }).await);
    }
}

#[tokio::test]
async fn two_systems_live_on_one_broker() {
    let server = NatsServer::start(Settings::default());
    let one = on_one(&server);
    let other = Options {
        prefix: "other".to_owned(),
        partitions: 1,
        ..one.clone()
    };
    drop(open(&one).await);
    drop(open(&other).await);
    assert_eq!(
        NatsStore::look(&one).await.unwrap().missing,
        Vec::<String>::new()
    );
}
