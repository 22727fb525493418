//! Two processes that exchange nothing but bytes train to the bytes of one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};

use lsparse::data::{CsrRows, MemoryRows};
use lsparse::mixture::{MixtureInputs, Mixtures, SettledMixture};
use lsparse::runs::{Family, ModelFile};
use lsparse::settings::SearchKind;
use lsparse::settings::TopicsConfig;
use lsparse::synthetic::{planted, themed_corpus};
use lsparse::topics::{TopicFamily, TopicInputs};
use lsparse::training::exchange::{Remote, Round, fold, hand_out, pack, params, unpack};
use lsparse::training::model::Model;
use lsparse::training::rules::{Outcome, StopReason};
use lsparse::training::session::Session;
use lsparse::{Init, LikelihoodKind, MixtureConfig, ScheduleKind, Sparsity};

/// Where a process that is started by a test finds it.
const ADDRESS: &str = "LSPARSE_TEST_ADDRESS";
const LAPS: usize = 4;

fn rows() -> MemoryRows<f32> {
    MemoryRows::new("planted", 4, planted(LikelihoodKind::Gauss, 400, 4, 6, 2).values_f32()).unwrap()
}

fn documents() -> CsrRows<f32> {
    themed_corpus(100, 4).rows("themes", 0..100).unwrap()
}

fn send(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(&(bytes.len() as u64).to_le_bytes()).and_then(|()| stream.write_all(bytes)).unwrap();
}

/// None when the other side has gone.
fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 8];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u64::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes).unwrap();
    Some(bytes)
}

/// Not a test by itself: what a process does that a test has started.
#[test]
fn the_other_process() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let mut stream = TcpStream::connect(address).unwrap();
    let (kind, settings): (String, Vec<u8>) = unpack(&receive(&mut stream).unwrap(), "settings").unwrap();
    match kind.as_str() {
        "mixture" => {
            let (source, settled) = (rows(), serde_json::from_slice::<SettledMixture>(&settings).unwrap());
            let family = Mixtures::<f32>::of(&source, settled, MixtureInputs::default()).unwrap();
            serve(stream, &mut Remote::new(family.model(0), family.deal(0).unwrap()));
        }
        _ => {
            let (source, config) = (documents(), serde_json::from_slice::<TopicsConfig>(&settings).unwrap());
            let family = TopicFamily::new(&source, &config, TopicInputs::default()).unwrap();
            serve(stream, &mut Remote::new(family.model(0), family.deal(0).unwrap()));
        }
    }
}

fn serve<M: Model>(mut stream: TcpStream, remote: &mut Remote<'_, M>) {
    while let Some(params) = receive(&mut stream) {
        let ticket = receive(&mut stream).unwrap();
        send(&mut stream, &remote.summarize(&params, &ticket).unwrap());
    }
}

/// Another process, and the line to it.
struct Other {
    process: Child,
    stream: TcpStream,
}

impl Other {
    fn start(kind: &str, settings: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "the_other_process"]).env(ADDRESS, listener.local_addr().unwrap().to_string());
        let process = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        send(&mut stream, &pack(&(kind, settings)).unwrap());
        Other { process, stream }
    }

    fn close(mut self) {
        drop(self.stream);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Train in rounds of `round` batches, each worked out by whoever `work` asks.
fn train<M: Model>(session: &mut Session<'_, M>, round: usize, mut work: impl FnMut(&[u8], &[u8]) -> Vec<u8>) {
    while session.progress().laps < LAPS {
        let Round { params: under, tickets, .. } = hand_out(session, round).unwrap();
        assert!(!tickets.is_empty());
        // Whoever is done last comes first: that is of no matter.
        let done: Vec<Vec<u8>> = tickets.iter().rev().map(|ticket| work(&under, ticket)).collect();
        assert_eq!(fold(session, &done).unwrap(), params(session).unwrap());
    }
}

fn model<'a, F: Family<'a>>(family: &F, session: &Session<'a, F::Model>) -> Vec<u8> {
    let (seconds, rows_per_second) = (0.0, 0.0);
    let (reason, objective, recent) = (StopReason::Laps(LAPS), session.objective(), Vec::new());
    let outcome = Outcome { reason, objective, heldout: None, laps: LAPS, seconds, rows_per_second, recent };
    family.saved(session, &outcome).to_bytes().unwrap()
}

/// By two processes in turn, by one process through bytes, and by a session alone where rounds are of one batch.
fn check<'a, F: Family<'a>>(family: &F, kind: &str, settings: &[u8], round: usize) {
    let mut here = family.session(0).unwrap();
    let mut remote = Remote::new(family.model(0), family.deal(0).unwrap());
    train(&mut here, round, |params, ticket| remote.summarize(params, ticket).unwrap());
    let here = model(family, &here);
    let mut others = [Other::start(kind, settings), Other::start(kind, settings)];
    let (mut there, mut turn) = (family.session(0).unwrap(), 0);
    train(&mut there, round, |params, ticket| {
        turn += 1;
        let Other { stream, .. } = &mut others[turn % 2];
        send(stream, params);
        send(stream, ticket);
        receive(stream).unwrap()
    });
    others.into_iter().for_each(Other::close);
    assert!(here == model(family, &there), "{kind} in rounds of {round}");
    if round == 1 {
        let mut alone = family.session(0).unwrap();
        let mut worker = alone.worker();
        while alone.progress().laps < LAPS {
            alone.step(&mut worker).unwrap();
        }
        assert!(here == model(family, &alone), "{kind} alone");
    }
}

#[test]
fn two_processes_end_with_the_bytes_of_one() {
    let source = rows();
    for (search, schedule, round) in [
        (SearchKind::Exact, ScheduleKind::Memoized, 1),
        (SearchKind::Neighbours, ScheduleKind::Memoized, 1),
        (SearchKind::Neighbours, ScheduleKind::Memoized, 3),
        (SearchKind::Dense, ScheduleKind::Stochastic, 2),
    ] {
        let config = MixtureConfig {
            clusters: 8,
            sparsity: Sparsity::Of(3),
            search,
            schedule,
            batches: Some(4),
            init: Init::Bregman,
            ..Default::default()
        };
        let family = Mixtures::<f32>::new(&source, &config, MixtureInputs::default()).unwrap();
        check(&family, "mixture", &serde_json::to_vec(family.settled()).unwrap(), round);
    }
    let source = documents();
    for (leave_out, round) in [(true, 1), (false, 1), (false, 3)] {
        let config = TopicsConfig {
            topics: 12,
            sparsity: Sparsity::Of(3),
            batches: Some(4),
            leave_out,
            warm_start: !leave_out,
            ..Default::default()
        };
        let family = TopicFamily::new(&source, &config, TopicInputs::default()).unwrap();
        check(&family, "topics", &serde_json::to_vec(&config).unwrap(), round);
    }
}

#[test]
fn a_batch_is_in_flight_once_and_folded_in_its_turn() {
    let source = rows();
    let config = MixtureConfig { clusters: 8, batches: Some(4), init: Init::Bregman, ..Default::default() };
    let family = Mixtures::<f32>::new(&source, &config, MixtureInputs::default()).unwrap();
    let mut session = family.session(0).unwrap();
    let mut worker = session.worker();
    // All batches of a lap, and no more before the lap has ended.
    let tickets: Vec<_> = std::iter::from_fn(|| session.hand_out().unwrap()).collect();
    let mut batches: Vec<usize> = tickets.iter().map(|ticket| ticket.batch).collect();
    batches.sort_unstable();
    assert_eq!(batches, [0, 1, 2, 3]);
    assert_eq!(
        tickets.iter().map(|ticket| (ticket.visit, ticket.begins_lap)).filter(|t| t.1).collect::<Vec<_>>(),
        [(0, true)]
    );
    let mut work = |session: &Session<'_, _>, i: usize| {
        tickets[i].work(session.model(), session.params(), session.data(), &mut worker).unwrap()
    };
    let early = work(&session, 1);
    assert!(session.fold(early).err().unwrap().to_string().contains("visit 1 is not the one to fold in"));
    for i in 0..4 {
        let done = work(&session, i);
        assert_eq!(session.fold(done).unwrap().ends_lap, i == 3);
    }
    let again = work(&session, 3);
    assert!(session.fold(again).is_err(), "it is folded in already");
    // Where batches are left out of what they are worked out under they come one by one.
    let source = documents();
    let config = TopicsConfig { topics: 12, batches: Some(4), ..Default::default() };
    let mut session = TopicFamily::new(&source, &config, TopicInputs::default()).unwrap().session(0).unwrap();
    assert!(session.hand_out().unwrap().is_some() && session.hand_out().unwrap().is_none());
}
