//! One broker.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{fetch, ports};

/// A server that is not ready by then never will be; a machine with much to do is slow.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// Starts on ports that turned out to be taken.
const STARTS_MAX: usize = 5;

/// How a server is set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Whether it syncs each write before it acknowledges.
    pub sync_always: bool,
    /// More lines of its configuration, such as of users.
    pub more: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "n1".to_owned(),
            sync_always: true,
            more: String::new(),
        }
    }
}

/// A running broker; ended when dropped.
pub struct NatsServer {
    settings: Settings,
    ports: [u16; 2],
    cluster: String,
    folder: TempDir,
    process: Option<Process>,
}

struct Process {
    child: Child,
    /// Ends the server when this process is gone.
    watchdog: Child,
    _watched: Option<ChildStdin>,
    said: Arc<Mutex<Vec<String>>>,
}

impl NatsServer {
    /// Starts a server on free ports.
    pub fn start(settings: Settings) -> Self {
        for _ in 0..STARTS_MAX {
            let ports = ports::free();
            if let Ok(server) = Self::start_on(settings.clone(), ports, String::new()) {
                return server;
            }
        }
        panic!("no broker on free ports in {STARTS_MAX} tries");
    }

    /// Starts a server on given ports: for clients, and for its monitoring page.
    pub(crate) fn start_on(
        settings: Settings,
        ports: [u16; 2],
        cluster: String,
    ) -> Result<Self, String> {
        let mut server = Self {
            settings,
            ports,
            cluster,
            folder: tempfile::tempdir().unwrap(),
            process: None,
        };
        server.launch()?;
        Ok(server)
    }

    /// Address for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.ports[0])
    }

    /// Address of its monitoring page.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[1])
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Number of its process; none while it is killed.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }

    /// Kills it, as a loss of the machine would; its disk stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same ports and disk.
    pub fn restart(&mut self) {
        self.process = None;
        let until = Instant::now() + READY_PATIENCE;
        while let Err(error) = self.launch() {
            assert!(Instant::now() < until, "{error}");
        }
    }

    /// Stops it where it is, without a word to anybody.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("the broker runs");
        kill_process(pid(&process.child), signal).unwrap();
    }

    fn launch(&mut self) -> Result<(), String> {
        let program = fetch::NATS_SERVER
            .path()
            .unwrap_or_else(|error| panic!("{error}"));
        let file = self.folder.path().join("server.conf");
        fs::write(&file, self.configuration()).unwrap();
        let process = Process::start(&program, &file)?;
        self.process = Some(process);
        Ok(())
    }

    fn configuration(&self) -> String {
        let Settings {
            name,
            sync_always,
            more,
        } = &self.settings;
        let [port, monitor_port] = self.ports;
        let folder = self.folder.path().join("data");
        let sync = if *sync_always {
            "sync_interval: always"
        } else {
            ""
        };
        format!(
            "server_name: {name}\n\
             listen: 127.0.0.1:{port}\n\
             http: 127.0.0.1:{monitor_port}\n\
             jetstream {{\n store_dir: \"{}\"\n {sync}\n}}\n\
             {}\n{more}\n",
            folder.display(),
            self.cluster,
        )
    }
}

impl Process {
    /// Starts it, and waits until it says that it is ready.
    fn start(program: &Path, file: &Path) -> Result<Self, String> {
        let mut child = Command::new(program)
            .arg("-c")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let words = child.stderr.take().expect("stderr is a pipe");
        let mut watchdog = Command::new("sh")
            .args(["-c", "read -r _; kill -9 \"$0\"", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("sh: {error}"))?;
        let said = Arc::new(Mutex::new(Vec::new()));
        let process = Self {
            _watched: watchdog.stdin.take(),
            child,
            watchdog,
            said: Arc::clone(&said),
        };
        let (ready, is_ready) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(words).lines().map_while(Result::ok) {
                if line.contains("Server is ready") {
                    // Nobody waits any more when it was too late.
                    let _late = ready.send(());
                }
                said.lock().unwrap().push(line);
            }
        });
        match is_ready.recv_timeout(READY_PATIENCE) {
            Ok(()) => Ok(process),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let said = process.said.lock().unwrap().join("\n");
                Err(format!("the broker did not start:\n{said}"))
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog first: it must not kill a process that has got the same number since.
        for child in [&mut self.watchdog, &mut self.child] {
            // It may have ended by itself.
            let _ended = child.kill();
            let _waited = child.wait();
        }
    }
}

fn pid(child: &Child) -> Pid {
    let number = i32::try_from(child.id()).unwrap();
    Pid::from_raw(number).expect("a process has a number")
}
