//! Real servers for the tests: each test starts its own on a free port of the loopback, and it ends with the test.
//!
//! A server ends when its [`Server`] is dropped, so also when the test panics; and when the thread that started it ends in any
//! other way, for the kernel then sends the signal (`setpriv --pdeathsig`). Processes are ended by their id.

use std::{
    fs,
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Turns a hang into a failure, no more.
const LIMIT: Duration = Duration::from_secs(60);

/// What can be started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Nats,
    Postgres,
    Redis,
}

impl Kind {
    /// The programs and what to run them through, or why there are none.
    fn find(self) -> Result<PathBuf, String> {
        match self {
            Self::Nats => {
                let path = in_path("nats-server")?;
                let version = output(Command::new(&path).arg("--version"))?;
                // 2.9.10, Debian 12's, answers the making of a bucket with what async-nats 0.51 cannot read.
                let numbers: Vec<u32> =
                    version.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect();
                if numbers.as_slice() < [2, 10].as_slice() {
                    return Err(format!("{} is too old: {}", path.display(), version.trim()));
                }
                Ok(path)
            }
            Self::Postgres => {
                let mut versions: Vec<_> = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().collect();
                versions.sort_by_key(|version| version.file_name().to_string_lossy().parse::<u32>().unwrap_or_default());
                let newest = versions.pop().map(|version| version.path().join("bin/postgres")).filter(|path| path.exists());
                newest.or_else(|| in_path("postgres").ok()).ok_or_else(|| "there is no postgres".to_owned())
            }
            Self::Redis => in_path("redis-server"),
        }
    }
}

/// A running (or killed) server, with the place where it keeps its data.
#[derive(Debug)]
pub(crate) struct Server {
    kind: Kind,
    program: PathBuf,
    port: u16,
    folder: PathBuf,
    child: Option<Child>,
}

impl Server {
    /// `None` where it is not installed, see [`or_skip`].
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        let mut server = Self::not_yet_started(kind)?;
        server.restart();
        Some(server)
    }

    /// One that [`restart`](Self::restart) starts: a client can be there before its server.
    pub(crate) fn not_yet_started(kind: Kind) -> Option<Self> {
        let program = or_skip(kind.find())?;
        let port = free_port();
        let folder = std::env::temp_dir().join(format!("keywake-stores-{}-{port}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let server = Self { kind, program, port, folder, child: None };
        server.prepare();
        Some(server)
    }

    /// Where tests may keep things too; gone with the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Without warning, as `kill -9` does; PostgreSQL by an immediate shutdown, which recovers in the same way but takes its
    /// children along.
    pub(crate) fn kill(&mut self) {
        let signal = if self.kind == Kind::Postgres { Signal::QUIT } else { Signal::KILL };
        self.stop(signal);
    }

    /// Lets it stand still, as a machine does that is gone without a word, and go on. (PostgreSQL's children would go on.)
    pub(crate) fn freeze(&self, frozen: bool) {
        let child = self.child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed())).unwrap();
        kill_process(child, if frozen { Signal::STOP } else { Signal::CONT }).unwrap();
        if frozen {
            // Until its last thread has stopped, it answers.
            waitpid(Some(child), WaitOptions::UNTRACED).unwrap();
        }
    }

    /// Starts it, again too: same port, same data.
    pub(crate) fn restart(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        let began = Instant::now();
        while !self.launch() {
            assert!(began.elapsed() < LIMIT, "{:?} does not start again: {}", self.kind, self.log());
        }
    }

    fn stop(&mut self, signal: Signal) {
        let Some(mut child) = self.child.take() else { return };
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            // It may be gone already.
            let _ = kill_process(pid, signal);
        }
        let began = Instant::now();
        while child.try_wait().is_ok_and(|status| status.is_none()) {
            if began.elapsed() > LIMIT {
                drop(child.kill());
                drop(child.wait());
                break;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// What comes before the first start: PostgreSQL's cluster, made and owned by somebody who is not root.
    fn prepare(&self) {
        if self.kind != Kind::Postgres {
            return;
        }
        if let Some(user) = User::unprivileged() {
            std::os::unix::fs::chown(&self.folder, Some(user.uid), Some(user.gid)).unwrap();
        }
        let data = self.folder.join("data");
        let mut initdb = self.as_user(&self.program.with_file_name("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "--pgdata"]).arg(data);
        output(&mut initdb).unwrap();
    }

    /// Whether it accepts connections; not when it ended before, as it does when its port was taken.
    fn launch(&mut self) -> bool {
        let (port, host) = (self.port.to_string(), Ipv4Addr::LOCALHOST.to_string());
        let mut command = self.as_user(&self.program);
        match self.kind {
            Kind::Nats => command.args(["-js", "-a", &host, "-p", &port, "-sd"]).arg(self.folder.join("data")),
            Kind::Postgres => command.arg("-D").arg(self.folder.join("data")).args(["-p", &port, "-h", &host]).args([
                "-c",
                "unix_socket_directories=",
                // What is written survives the server's death, not the machine's.
                "-c",
                "fsync=off",
                "-c",
                "max_connections=40",
            ]),
            Kind::Redis => command.arg("--dir").arg(&self.folder).args(["--bind", &host, "--port", &port, "--save", ""]),
        };
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        // A group of its own: an interrupt from the terminal is for the test, which then ends it.
        self.child = Some(command.process_group(0).spawn().unwrap());
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            let ended = self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended {
                self.child = None;
                return false;
            }
            if TcpStream::connect(self.address()).is_ok() && self.is_ready() {
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("{:?} does not answer: {}", self.kind, self.log());
    }

    /// PostgreSQL listens before it lets anybody in; it writes into its folder when it does.
    fn is_ready(&self) -> bool {
        let file = self.folder.join("data/postmaster.pid");
        self.kind != Kind::Postgres || fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line.trim() == "ready"))
    }

    fn as_user(&self, program: &Path) -> Command {
        let signal = if self.kind == Kind::Postgres { "QUIT" } else { "KILL" };
        let mut command = Command::new("setpriv");
        command.arg("--pdeathsig").arg(signal);
        if let Some(user) = User::unprivileged().filter(|_| self.kind == Kind::Postgres) {
            command.args([format!("--reuid={}", user.uid), format!("--regid={}", user.gid), "--clear-groups".to_owned()]);
        }
        command.arg(program).current_dir("/");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            say(&format!("{:?} wrote: {}", self.kind, self.log()));
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Whom PostgreSQL runs as when the tests run as root, which it refuses.
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn unprivileged() -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            return None;
        }
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let named = |name: &str| {
            let mut fields =
                users.lines().map(|line| line.split(':')).find(|fields| fields.clone().next() == Some(name))?.skip(2);
            Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
        };
        Some(named("postgres").or_else(|| named("nobody")).unwrap())
    }
}

/// Past the harness, which hides what a test prints that passes.
fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

/// `None`, and a line that says so, where a program is not there; a panic with `REQUIRE_STORES=1`.
pub(crate) fn or_skip(program: Result<PathBuf, String>) -> Option<PathBuf> {
    let required = std::env::var_os("REQUIRE_STORES").is_some_and(|value| value == "1");
    program
        .inspect_err(|why| {
            assert!(!required, "REQUIRE_STORES=1, and {why}");
            say(&format!("SKIPPED: {why}"));
        })
        .ok()
}

pub(crate) fn in_path(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| format!("there is no {program} in PATH"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Below the range from which the kernel takes the ports of connections: a client that tries a killed server again could
/// otherwise be given the server's own port.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(process::id() % 600).unwrap_or_default();
    loop {
        // Relaxed: only that no two calls get the same number.
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (own * 20 + next) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// It is there, it is not, it is there again with what it kept.
fn is_killed_and_starts_again(kind: Kind) {
    let Some(mut server) = Server::start(kind) else { return };
    let address = server.address();
    server.kill();
    assert!(TcpStream::connect(address).is_err());
    server.restart();
    assert!(TcpStream::connect(address).is_ok());
    let folder = server.folder.clone();
    drop(server);
    assert!(TcpStream::connect(address).is_err());
    assert!(!folder.exists());
}

#[test]
fn nats_server_ends_with_its_test() {
    is_killed_and_starts_again(Kind::Nats);
}

#[test]
fn postgres_server_ends_with_its_test() {
    is_killed_and_starts_again(Kind::Postgres);
}

#[test]
fn redis_server_ends_with_its_test() {
    is_killed_and_starts_again(Kind::Redis);
}
