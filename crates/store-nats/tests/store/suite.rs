//! The conformance suite on one server that syncs each write, on three, and over restarts.

use std::sync::{Arc, Mutex};

use steadfast_nats_server::{NatsServer, Settings};
use steadfast_store::suite::{Persistent, Subject};

use crate::brokers::{on_one, subject, subject_of};

steadfast_store::conformance!(subject);
steadfast_store::persistence!(persistent);
steadfast_store::tool_queue_conformance!(subject);

/// A store whose server is killed and started again between the openings.
async fn persistent() -> Persistent {
    let server = Arc::new(Mutex::new(NatsServer::start(Settings::default())));
    let opened = Arc::new(Mutex::new(false));
    let kept = Arc::clone(&server);
    Persistent {
        open: Box::new(move || {
            let (server, opened) = (Arc::clone(&server), Arc::clone(&opened));
            Box::pin(async move {
                let options = {
                    let mut server = server.lock().unwrap();
                    let mut opened = opened.lock().unwrap();
                    if *opened {
                        server.restart();
                    }
                    *opened = true;
                    on_one(&server)
                };
                subject_of(&options).await
            })
        }),
        keep: Box::new(kept),
    }
}

/// The suite on three servers: one cluster for all cases, each in streams of its own.
mod three_servers {
    use steadfast_nats_server::NatsCluster;

    use super::*;
    use crate::brokers::{on_three, remove_streams};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn pass_the_suite() {
        let cluster = NatsCluster::start(true);
        let mut failures = Vec::new();
        for (number, case) in steadfast_store::conformance_cases!()
            .into_iter()
            .enumerate()
        {
            let mut options = on_three(&cluster);
            options.prefix = format!("sf{number}");
            let subject: Subject = subject_of(&options).await;
            let case: steadfast_store::suite::Case = case;
            // A panic of a case is its own failure.
            match tokio::spawn((case.run)(subject)).await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => failures.push(format!("{}: {failure:?}", case.name)),
                Err(panic) => failures.push(format!("{}: {panic}", case.name)),
            }
            remove_streams(&cluster, &options.prefix).await;
        }
        assert_eq!(failures, Vec::<String>::new());
    }
}
