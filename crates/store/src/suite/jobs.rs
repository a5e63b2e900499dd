//! The tool queue: every job at least once, to one worker at a time while that one says something.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use steadfast_core::id::CallId;
use tokio::time::timeout;

use super::samples::session;
use super::{Failure, Outcome, Subject, is_quiet, soon};
use crate::jobs::{Job, JobDelivery, JobId, JobKind, JobName};
use crate::stores::{Stores, ToolQueue};

/// The tool queue of a store that has one.
pub(super) fn queue(stores: &Stores) -> Result<ToolQueue, Failure> {
    let none = || Failure::new("this store has no tool queue");
    stores.tool_queue.clone().ok_or_else(none)
}

fn job(tool: &str, call: &str, run: u32, kind: JobKind) -> Result<Job, Failure> {
    let call: CallId = call.parse()?;
    Ok(Job {
        name: JobName {
            tool: tool.to_owned(),
            session: session("a")?,
            id: JobId { call, run, kind },
        },
        bytes: Bytes::from(format!("{{\"tool\":\"{tool}\"}}")),
    })
}

fn a_run(call: &str) -> Result<Job, Failure> {
    job("mail", call, 1, JobKind::Run)
}

fn tools(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn next(stores: &Stores, names: &[&str]) -> Result<Arc<dyn JobDelivery>, Failure> {
    let (queue, names) = (queue(stores)?, tools(names));
    Ok(soon("a job", queue.jobs.next(&names)).await??)
}

/// Nothing comes for longer than a silence.
async fn stays_empty(subject: Subject) -> Outcome {
    let queue = queue(&subject.stores)?;
    assert!(is_quiet(subject.silence * 2, queue.jobs.next(&tools(&["mail"]))).await);
    Ok(())
}

/// Workers of each tool get its jobs and no others, each once.
pub async fn a_job_goes_to_one_worker_of_its_tool(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    let mut waiting = BTreeSet::new();
    for n in 0..10 {
        for tool in ["mail", "mail-2", "print"] {
            let job = job(tool, &format!("1-{n}-0"), 1, JobKind::Run)?;
            waiting.insert(job.name.clone());
            jobs.put(job).await?;
        }
    }
    for (names, count) in [(vec!["mail"], 10), (vec!["print", "mail-2"], 20)] {
        for n in 0..count {
            let stores = [&subject.stores, &subject.peer][n % 2];
            let delivery = next(stores, &names).await?;
            let name = delivery.job().name.clone();
            assert!(
                names.contains(&name.tool.as_str()),
                "{name:?} for {names:?}"
            );
            let expected = job(&name.tool, &name.id.call.to_string(), 1, JobKind::Run)?;
            assert_eq!(*delivery.job(), expected);
            assert!(waiting.remove(&name), "{name:?} came twice");
            delivery.finish().await?;
        }
    }
    stays_empty(subject).await
}

/// A worker that waits is woken by a job that another node puts.
pub async fn a_waiting_worker_is_woken(subject: Subject) -> Outcome {
    let (delivery, put) = tokio::join!(next(&subject.stores, &["mail"]), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok::<_, Failure>(queue(&subject.peer)?.jobs.put(a_run("1-2-0")?).await?)
    });
    put?;
    let delivery = delivery?;
    assert_eq!(
        (delivery.job().clone(), delivery.deliveries()),
        (a_run("1-2-0")?, 1)
    );
    Ok(())
}

/// A repeated put, from any node, leaves one job.
pub async fn a_job_put_twice_stands_once(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    jobs.put(a_run("1-2-0")?).await?;
    queue(&subject.peer)?.jobs.put(a_run("1-2-0")?).await?;
    jobs.put(a_run("1-2-0")?).await?;
    next(&subject.stores, &["mail"]).await?.finish().await?;
    stays_empty(subject).await
}

/// A put that is repeated soon after its job was finished does not bring it back.
pub async fn a_finished_job_put_again_is_swallowed(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    jobs.put(a_run("1-2-0")?).await?;
    next(&subject.stores, &["mail"]).await?.finish().await?;
    jobs.put(a_run("1-2-0")?).await?;
    stays_empty(subject).await
}

/// Every run of a call, and every check of one, stands by itself.
pub async fn runs_and_checks_of_a_call_are_jobs_of_their_own(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    let mut waiting = BTreeSet::new();
    for run in [1, 2, 12] {
        for kind in [JobKind::Run, JobKind::Check] {
            let job = job("mail", "1-2-0", run, kind)?;
            waiting.insert(job.name.clone());
            jobs.put(job).await?;
        }
    }
    let removed = job("mail", "1-2-0", 1, JobKind::Run)?.name;
    jobs.remove(&removed).await?;
    waiting.remove(&removed);
    while !waiting.is_empty() {
        let delivery = next(&subject.peer, &["mail"]).await?;
        let name = &delivery.job().name;
        assert!(waiting.remove(name), "{name:?} is not expected");
        delivery.finish().await?;
    }
    stays_empty(subject).await
}

/// A job whose worker says nothing comes again, to whoever asks, and counts its deliveries.
pub async fn a_job_that_meets_silence_comes_again(subject: Subject) -> Outcome {
    queue(&subject.stores)?.jobs.put(a_run("1-2-0")?).await?;
    for deliveries in 1..=3 {
        let delivery = next(&subject.peer, &["mail"]).await?;
        assert_eq!(
            (delivery.job().clone(), delivery.deliveries()),
            (a_run("1-2-0")?, deliveries)
        );
    }
    Ok(())
}

/// A worker that says that it is still at it keeps its job.
pub async fn a_job_that_is_kept_alive_stays(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    jobs.put(a_run("1-2-0")?).await?;
    let delivery = next(&subject.stores, &["mail"]).await?;
    for _ in 0..9 {
        assert!(is_quiet(subject.silence / 3, jobs.next(&tools(&["mail"]))).await);
        delivery.keep_alive().await?;
    }
    delivery.finish().await?;
    stays_empty(subject).await
}

/// A job that is given back comes again after its delay, and not only after a silence.
pub async fn a_job_given_back_comes_after_its_delay(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    jobs.put(a_run("1-2-0")?).await?;
    let delay = subject.silence / 4;
    let mut delivery = next(&subject.stores, &["mail"]).await?;
    for deliveries in 1..=3 {
        assert_eq!(delivery.deliveries(), deliveries);
        delivery.give_back(delay).await?;
        assert!(is_quiet(delay * 4 / 5, jobs.next(&tools(&["mail"]))).await);
        let in_time = subject.silence * 9 / 10 - delay;
        delivery = timeout(in_time, jobs.next(&tools(&["mail"]))).await??;
    }
    Ok(())
}

/// A job that is taken out is delivered no more; taking out one that is not there is harmless.
pub async fn a_removed_job_is_gone(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    let other = a_run("1-3-0")?;
    jobs.remove(&other.name).await?;
    jobs.put(a_run("1-2-0")?).await?;
    jobs.put(other.clone()).await?;
    queue(&subject.peer)?
        .jobs
        .remove(&a_run("1-2-0")?.name)
        .await?;
    jobs.remove(&a_run("1-2-0")?.name).await?;
    let delivery = next(&subject.stores, &["mail"]).await?;
    assert_eq!(*delivery.job(), other);
    // One that is being worked on does not come again, too.
    jobs.remove(&other.name).await?;
    stays_empty(subject).await
}

/// A worker that was silent too long still finishes what another was given meanwhile.
pub async fn a_stale_delivery_may_finish_its_job(subject: Subject) -> Outcome {
    queue(&subject.stores)?.jobs.put(a_run("1-2-0")?).await?;
    let stale = next(&subject.stores, &["mail"]).await?;
    let newer = next(&subject.peer, &["mail"]).await?;
    stale.finish().await?;
    newer.finish().await?;
    stays_empty(subject).await
}

/// A worker that stops waiting takes nothing with it for longer than a silence.
pub async fn a_worker_that_leaves_loses_nothing(subject: Subject) -> Outcome {
    let jobs = queue(&subject.stores)?.jobs;
    for _ in 0..5 {
        assert!(is_quiet(Duration::from_millis(5), jobs.next(&tools(&["mail"]))).await);
    }
    jobs.put(a_run("1-2-0")?).await?;
    let delivery = next(&subject.stores, &["mail"]).await?;
    assert_eq!(*delivery.job(), a_run("1-2-0")?);
    Ok(())
}

/// Cancels reach every listener, progress that of its session. Both may be lost, so they are told
/// until they are heard.
pub async fn listeners_hear_cancels_and_progress(subject: Subject) -> Outcome {
    let (jobs, peer) = (queue(&subject.stores)?.jobs, queue(&subject.peer)?.jobs);
    let (own, other) = (session("a")?, session("b")?);
    let call: CallId = "1-2-0".parse()?;
    let mut cancels = [jobs.cancelled().await?, peer.cancelled().await?];
    let mut progress = jobs.progressed(&own).await?;
    let tell_once = || async {
        peer.cancel(&own, call).await?;
        peer.progress(&other, Bytes::from_static(b"other")).await?;
        peer.progress(&own, Bytes::from_static(b"half")).await?;
        Ok::<_, Failure>(())
    };
    let tell = async {
        loop {
            if let Err(failure) = tell_once().await {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let hear = async {
        let mut heard = Vec::new();
        for cancels in &mut cancels {
            heard.push(soon("a cancel", cancels.next()).await?);
        }
        let said = soon("progress", progress.next()).await?;
        Ok::<_, Failure>((heard, said))
    };
    let told: Result<_, Failure> = tokio::select! {
        heard = hear => heard,
        failure = tell => Err(failure),
    };
    let (heard, said) = told?;
    assert_eq!(heard, vec![Some((own.clone(), call)); 2]);
    assert_eq!(said, Some(Bytes::from_static(b"half")));
    Ok(())
}
