//! Fetches the broker that tests start, unless it is there.

use std::process::ExitCode;

fn main() -> ExitCode {
    match steadfast_nats_server::program() {
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
