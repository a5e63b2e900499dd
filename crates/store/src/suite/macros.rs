//! One test for each case of the suite.

/// Runs the conformance suite on a store: one test for each case.
///
/// ```ignore
/// async fn subject() -> steadfast_store::suite::Subject { ... }
/// steadfast_store::conformance!(subject);
/// // A store that lives on tokio's time alone needs not wait for real:
/// steadfast_store::conformance!(#[tokio::test(start_paused = true)] subject);
/// ```
#[macro_export]
macro_rules! conformance {
    ($subject:path) => {
        $crate::conformance!(#[tokio::test] $subject);
    };
    ($(#[$test:meta])+ $subject:path) => {
        $crate::suite_listing! { suite_cases conformance { $(#[$test])+ } $subject; }
    };
}

/// Gives all cases of [`conformance!`](crate::conformance) as values, each a
/// [`Case`](crate::suite::Case), for a store that is too dear to be made anew for each.
#[macro_export]
macro_rules! conformance_cases {
    () => {
        $crate::suite_listing! { suite_values conformance {} unused; }
    };
}

/// The cases that every store passes, given to another macro.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_listing {
    ($callback:ident $module:ident $tests:tt $subject:path;) => {
        $crate::$callback! { $module $tests $subject;
            log {
                an_empty_log_has_no_tail_and_no_records
                records_are_read_in_the_order_of_their_appends
                reads_page_from_any_tail
                reads_begin_at_the_record_that_holds_an_event
                the_tail_is_never_behind
                the_largest_record_fits
                sessions_share_nothing
                purged_records_are_gone
                a_follower_is_signalled
            }
            log_fence {
                one_of_many_racing_appends_wins
                appends_to_many_sessions_all_win
                an_append_after_another_token_conflicts
                a_repeated_append_is_written_once
                a_doubled_append_is_written_once
                a_purge_keeps_the_fence
            }
            mailbox {
                letters_keep_their_order_over_both_lanes
                pending_pages_from_any_letter
                equal_letters_are_not_merged
                acknowledged_letters_are_gone
                positions_are_never_used_twice
                a_full_lane_refuses_alone
            }
            mailbox_queue {
                every_session_with_mail_is_announced
                a_waiting_caller_is_woken
                an_announcement_goes_to_one_caller
                mail_given_back_comes_again_after_its_delay
                acknowledged_mail_is_not_given_back
                silence_brings_mail_again
                newer_mail_is_announced_while_older_is_at_large
                partly_acknowledged_mail_comes_again
                no_session_starves_another
                a_caller_that_leaves_loses_nothing
            }
            timers {
                a_timer_fires_not_before_its_time
                a_timer_of_the_past_fires_at_once
                an_earlier_timer_wakes_who_waits_for_a_later_one
                sessions_and_epochs_have_timers_of_their_own
                a_timer_fires_until_it_is_acknowledged
                a_timer_set_again_is_moved
                a_session_sets_timers_epoch_after_epoch
            }
            active {
                entries_are_listed_in_order
                nodes_are_those_with_entries
                a_newer_entry_is_not_removed
                entries_are_removed_alone
            }
            directory {
                a_tenant_lists_its_own_sessions_by_id
                an_outdated_entry_does_not_replace_a_newer_one
                a_removed_entry_is_gone
                lists_are_filtered_and_paged
            }
            blobs {
                a_blob_comes_back_whole
                a_blob_put_twice_is_one
                sessions_do_not_see_each_others_blobs
                a_sessions_blobs_are_removed_together
            }
            snapshots {
                the_newest_snapshot_is_read
                a_removed_snapshot_is_gone
            }
            live {
                frames_come_in_order
                a_slow_follower_is_told_that_frames_are_lost
                a_follower_gets_its_sessions_frames_only
                a_follower_may_leave
            }
            membership {
                renewals_are_seen_by_all
                a_lease_given_back_is_signalled
                a_watch_tells_nothing_of_before
            }
            node_door {
                each_node_answers_at_its_own_door
                many_questions_are_answered
                nobody_listens
                a_question_that_meets_silence_ends
            }
        }
    };
}

/// All cases as values.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_values {
    ($module:ident $tests:tt $make:path; $($port:ident { $($case:ident)* })*) => {
        vec![$($(
            $crate::suite::Case {
                name: concat!(stringify!($port), "::", stringify!($case)),
                run: |subject| Box::pin($crate::suite::$port::$case(subject)),
            },
        )*)*]
    };
}

/// Runs what a store must keep when it is closed and opened again: one test for each case.
///
/// ```ignore
/// async fn persistent() -> steadfast_store::suite::Persistent { ... }
/// steadfast_store::persistence!(persistent);
/// ```
#[macro_export]
macro_rules! persistence {
    ($persistent:path) => {
        $crate::persistence!(#[tokio::test] $persistent);
    };
    ($(#[$test:meta])+ $persistent:path) => {
        $crate::suite_cases! { surviving { $(#[$test])+ } $persistent;
            persistence {
                the_log_survives
                mail_survives_and_is_announced
                timers_survive
                the_index_survives
                blobs_survive
            }
        }
    };
}

/// Runs the part of the suite that is about remote tools, on a store that has a tool queue: one test
/// for each case. Its deliveries meet silence after [`Subject::silence`](crate::suite::Subject).
#[macro_export]
macro_rules! tool_queue_conformance {
    ($subject:path) => {
        $crate::tool_queue_conformance!(#[tokio::test] $subject);
    };
    ($(#[$test:meta])+ $subject:path) => {
        $crate::suite_cases! { tool_queue { $(#[$test])+ } $subject;
            jobs {
                a_job_goes_to_one_worker_of_its_tool
                a_waiting_worker_is_woken
                a_job_put_twice_stands_once
                a_finished_job_put_again_is_swallowed
                runs_and_checks_of_a_call_are_jobs_of_their_own
                a_job_that_meets_silence_comes_again
                a_job_that_is_kept_alive_stays
                a_job_given_back_comes_after_its_delay
                a_removed_job_is_gone
                a_stale_delivery_may_finish_its_job
                a_worker_that_leaves_loses_nothing
                listeners_hear_cancels_and_progress
            }
            claims {
                one_of_many_holders_gets_a_claim
                a_claim_is_its_holders_for_ever
                claims_do_not_mix
            }
        }
    };
}

/// A module of tests for each file of the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_cases {
    ($module:ident $tests:tt $make:path; $($port:ident { $($case:ident)* })*) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(
                mod $port {
                    #[allow(unused_imports)]
                    use super::*;
                    $($crate::suite_case! { $tests $make, $port, $case })*
                }
            )*
        }
    };
}

/// One test.
#[doc(hidden)]
#[macro_export]
macro_rules! suite_case {
    ({ $(#[$test:meta])+ } $make:path, $port:ident, $case:ident) => {
        $(#[$test])+
        async fn $case() -> $crate::suite::Outcome {
            $crate::suite::$port::$case($make().await).await
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that is written but not listed would never run.
    #[test]
    fn every_case_is_listed_once() {
        let listed = include_str!("macros.rs");
        let files = [
            include_str!("log.rs"),
            include_str!("log_fence.rs"),
            include_str!("mailbox.rs"),
            include_str!("mailbox_queue.rs"),
            include_str!("timers.rs"),
            include_str!("active.rs"),
            include_str!("directory.rs"),
            include_str!("blobs.rs"),
            include_str!("snapshots.rs"),
            include_str!("live.rs"),
            include_str!("membership.rs"),
            include_str!("node_door.rs"),
            include_str!("persistence.rs"),
            include_str!("jobs.rs"),
            include_str!("claims.rs"),
        ];
        for file in files {
            for line in file.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else {
                    continue;
                };
                let name = rest.split('(').next().unwrap();
                let lines = listed.lines().filter(|line| line.trim() == name);
                assert_eq!(lines.count(), 1, "{name}");
            }
        }
    }
}
