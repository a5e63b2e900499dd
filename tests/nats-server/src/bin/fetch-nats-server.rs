//! Fetches the broker that tests start, unless it is there.

use std::process::ExitCode;

fn main() -> ExitCode {
    match steadfast_nats_server::NATS_SERVER.path() {
        Ok(program) => {
            println!("{}", program.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
