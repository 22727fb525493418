//! A page and what it asks for, served to this machine alone.
//!
//! Four answers do not need a framework. Whoever asks must know the token that was printed, must have asked this address
//! (a name that somebody else points here is refused), and nothing of a request is ever the name of a file.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lsparse::{Error, Result};

use super::feed::Feed;

/// Requests that are answered at once; more are turned away.
const MOST_AT_ONCE: usize = 16;

/// Bytes of a request's first line and headers.
const LONGEST_REQUEST: u64 = 16 << 10;

/// What a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);

const PAGE: &str = include_str!("../../web/watch/index.html");
const STYLE: &str = include_str!("../../web/watch/style.css");
const SCRIPT: &str = include_str!("../../web/watch/watch.js");

/// Serves pages until it is dropped.
pub struct Server {
    address: SocketAddr,
    token: String,
    ended: Arc<AtomicBool>,
}

/// What all answers need.
struct Shared {
    feed: Arc<Feed>,
    address: SocketAddr,
    token: String,
    page: String,
    open: AtomicUsize,
}

impl Server {
    /// Serve on a port of the loopback address, any free one if none is given.
    pub fn start(feed: Arc<Feed>, port: Option<u16>) -> Result<Self> {
        let refuse = |error: &dyn std::fmt::Display| Error::Config {
            setting: "port",
            problem: format!("no page can be served there: {error}"),
            remedy: "give another port, or none for a free one".into(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).map_err(|e| refuse(&e))?;
        let address = listener.local_addr().map_err(|e| refuse(&e))?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| refuse(&e))?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let page = PAGE.replace("/* style */", STYLE).replace("/* script */", SCRIPT);
        let open = AtomicUsize::new(0);
        let shared = Arc::new(Shared { feed, address, token: token.clone(), page, open });
        let ended = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&ended);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&shared);
                if shared.open.fetch_add(1, Ordering::AcqRel) >= MOST_AT_ONCE {
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                std::thread::spawn(move || {
                    // Who has gone away gets no answer.
                    let _ = shared.answer(stream);
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Ok(Server { address, token, ended })
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        // The listener waits for somebody: be that.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
    }
}

/// A request, as far as anything in it matters.
#[derive(Debug, Default, PartialEq)]
struct Request {
    method: String,
    path: String,
    host: Option<String>,
    origin: Option<String>,
}

impl Request {
    /// Read first line and headers; none if it is no request. What follows them is not read.
    fn read(stream: impl Read, until: Instant) -> io::Result<Option<Self>> {
        let mut lines = BufReader::new(stream.take(LONGEST_REQUEST));
        let mut line = Vec::new();
        let mut request: Option<Request> = None;
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line)?;
            // A line that comes byte by byte is not waited for, though each byte is in time.
            if read == 0 || line.last() != Some(&b'\n') || Instant::now() > until {
                return Ok(None);
            }
            let Ok(text) = std::str::from_utf8(&line) else { return Ok(None) };
            let text = text.trim_end();
            let Some(request) = &mut request else {
                let words: Vec<&str> = text.split(' ').collect();
                let &[method, path, version] = words.as_slice() else { return Ok(None) };
                if !version.starts_with("HTTP/1.") {
                    return Ok(None);
                }
                request = Some(Request { method: method.into(), path: path.into(), ..Request::default() });
                continue;
            };
            if text.is_empty() {
                return Ok(Some(std::mem::take(request)));
            }
            let Some((name, value)) = text.split_once(':') else { return Ok(None) };
            let field = match name.to_ascii_lowercase().as_str() {
                "host" => &mut request.host,
                "origin" => &mut request.origin,
                _ => continue,
            };
            // Two of a kind are somebody's trick.
            if field.replace(value.trim().to_owned()).is_some() {
                return Ok(None);
            }
        }
    }
}

/// A reader that gives up at a time, whatever trickles in until then.
struct Impatient<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Impatient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

impl Shared {
    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let until = Instant::now() + PATIENCE;
        let request = Request::read(Impatient { stream: &stream, until }, until)?;
        let (status, kind, body) = match &request {
            None => ("400 Bad Request", "text/plain", "this is no request".into()),
            Some(request) => self.find(request),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             X-Frame-Options: DENY\r\nContent-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; \
             style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        if request.is_some_and(|request| request.method != "HEAD") {
            stream.write_all(body.as_bytes())?;
        }
        stream.flush()
    }

    /// What there is at the path of a request, for who may have it.
    fn find(&self, request: &Request) -> (&'static str, &'static str, String) {
        let nothing = |status, text: &str| (status, "text/plain", text.to_owned());
        let port = self.address.port();
        let is_here = |name: &str| name == format!("127.0.0.1:{port}") || name == format!("localhost:{port}");
        if !request.host.as_deref().is_some_and(is_here) {
            return nothing("403 Forbidden", "this page is for 127.0.0.1 alone");
        }
        let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(is_here);
        if request.origin.as_deref().is_some_and(|origin| !is_own(origin)) {
            return nothing("403 Forbidden", "other pages are not answered");
        }
        let known = request.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let Some((_, path)) = known.filter(|(token, _)| same(token.as_bytes(), self.token.as_bytes())) else {
            return nothing("404 Not Found", "the address is the one that was printed, with everything in it");
        };
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match (request.method.as_str(), path) {
            ("GET" | "HEAD", "") => ("200 OK", "text/html", self.page.clone()),
            ("GET", "state") => {
                ("200 OK", "application/json", self.feed.state(query.strip_prefix("has=").unwrap_or_default()))
            }
            // An origin comes with every request of a page that is no plain reading.
            ("POST", "stop") if request.origin.is_some() => match self.feed.ask_to_stop() {
                true => ("200 OK", "application/json", "{}".into()),
                false => nothing("409 Conflict", "this training is another process's: stop it there"),
            },
            ("POST", "stop") => nothing("403 Forbidden", "only the page itself can stop a training"),
            ("GET" | "HEAD" | "POST", _) => nothing("404 Not Found", "there is nothing here"),
            _ => nothing("405 Method Not Allowed", "read, or stop"),
        }
    }
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Send bytes; what comes back.
    fn ask(server: &Server, request: &str) -> String {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that closes before everything was read resets the connection: what came before counts.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn get(server: &Server, path: &str, headers: &str) -> String {
        let port = server.address.port();
        ask(server, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n"))
    }

    fn status(answer: &str) -> &str {
        answer.split(' ').nth(1).unwrap_or("none")
    }

    #[test]
    fn only_who_knows_the_address_and_asked_for_it_is_answered() {
        let feed = Arc::new(Feed::of_a_run(|| ()));
        feed.add("run");
        let server = Server::start(Arc::clone(&feed), None).unwrap();
        let (port, token) = (server.address.port(), server.token.clone());
        let page = get(&server, &format!("/{token}/"), "");
        assert!(status(&page) == "200" && page.contains("<script>") && !page.contains("/* script */"), "{page}");
        assert!(get(&server, &format!("/{token}/state?has=0.0"), "").ends_with(&feed.state("0.0")));
        for path in ["/", "/state", &format!("/{}/", "0".repeat(32)), &format!("/{token}"), &format!("/{token}x/")] {
            assert_eq!(status(&get(&server, path, "")), "404", "{path}");
        }
        for path in ["../../../etc/passwd", "..%2f..%2fetc/passwd", "/etc/passwd", "state/../../x", "index.html"] {
            let answer = get(&server, &format!("/{token}/{path}"), "");
            assert!(status(&answer) == "404" && !answer.contains("root:"), "{path}");
        }
        for (host, expected) in [
            (format!("localhost:{port}"), "200"),
            (format!("evil.example:{port}"), "403"),
            ("127.0.0.1".into(), "403"),
            (format!("127.0.0.1:{port}.evil.example"), "403"),
        ] {
            let answer = ask(&server, &format!("GET /{token}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            assert_eq!(status(&answer), expected, "{host}");
        }
        assert_eq!(status(&ask(&server, &format!("GET /{token}/ HTTP/1.1\r\n\r\n"))), "403");
        let foreign = get(&server, &format!("/{token}/state"), "Origin: http://evil.example\r\n");
        assert_eq!(status(&foreign), "403");
    }

    #[test]
    fn training_is_stopped_by_its_own_page_alone() {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        let feed = Arc::new(Feed::of_a_run(move || stop.store(true, Ordering::SeqCst)));
        let server = Server::start(Arc::clone(&feed), None).unwrap();
        let (port, token) = (server.address.port(), &server.token);
        let post = |origin: &str| {
            ask(&server, &format!("POST /{token}/stop HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{origin}\r\n"))
        };
        assert_eq!(status(&get(&server, &format!("/{token}/stop"), "")), "404");
        assert_eq!(status(&post("")), "403");
        assert_eq!(status(&post("Origin: http://evil.example\r\n")), "403");
        assert!(!stopped.load(Ordering::SeqCst));
        assert_eq!(status(&post(&format!("Origin: http://127.0.0.1:{port}\r\n"))), "200");
        assert!(stopped.load(Ordering::SeqCst));
    }

    #[test]
    fn nonsense_and_silence_are_borne() {
        let server = Server::start(Arc::new(Feed::default()), None).unwrap();
        for nonsense in
            ["\r\n\r\n", "GET\r\n\r\n", "\0\u{1}\r\n", "GET / HTTP/9\r\n\r\n", "GET / HTTP/1.1\r\nx\r\n\r\n"]
        {
            assert!(matches!(status(&ask(&server, nonsense)), "400" | "none"), "{nonsense:?}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
        assert!(matches!(status(&ask(&server, &long)), "400" | "none"));
        // Connections that say nothing do not keep others from being answered, until there are too many.
        let silent: Vec<TcpStream> =
            (0..MOST_AT_ONCE - 2).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        let page = get(&server, &format!("/{}/", server.token), "");
        assert_eq!(status(&page), "200");
        drop(silent);
    }

    #[test]
    fn training_does_not_wait_for_a_page_that_does_not_read() {
        let feed = Arc::new(Feed::of_a_run(|| ()));
        let number = feed.add("run");
        let line = r#"{"event":"end","run":0,"stopped_by":"laps","reason":"x","converged":false,"laps":1,"steps":1,"objective":null,"heldout":null}"#;
        (0..20_000).for_each(|_| feed.push_text(number, line));
        let server = Server::start(Arc::clone(&feed), None).unwrap();
        let (port, token) = (server.address.port(), server.token.clone());
        // They ask for megabytes and take nothing of them, or ask half a question.
        let stuck: Vec<TcpStream> = (0..MOST_AT_ONCE)
            .map(|n| {
                let mut stream = TcpStream::connect(server.address).unwrap();
                let request = format!("GET /{token}/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n");
                stream.write_all(&request.as_bytes()[..request.len() - n % 2 * 2]).unwrap();
                stream
            })
            .collect();
        let began = Instant::now();
        (0..2_000).for_each(|_| feed.push_text(number, line));
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        drop(stuck);
    }

    #[test]
    fn two_of_a_header_are_refused() {
        let read = |text: &str| Request::read(text.as_bytes(), Instant::now() + PATIENCE).unwrap();
        let one = read("GET /a?b HTTP/1.1\r\nhOsT: x:1 \r\nAccept: y\r\n\r\n").unwrap();
        assert_eq!((one.path.as_str(), one.host.as_deref(), one.origin), ("/a?b", Some("x:1"), None));
        assert_eq!(read("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), None);
        assert_eq!(read("GET / HTTP/1.1\r\nHost: a\r\n"), None);
    }
}
