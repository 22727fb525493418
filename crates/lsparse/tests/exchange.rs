//! Two processes that exchange nothing but bytes train to the bytes of one.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};

use lsparse::data::{
    CsrRows, Element, Groups, Measuring, MemoryRows, PartialMoments, Piece, Pieced, Pieces, RowSource, Rows, Scalar,
};
use lsparse::elsewhere::{Asked, Job, lacking_piece, measure_piece, work_batch};
use lsparse::mixture::{MixtureInputs, Mixtures, SettledMixture};
use lsparse::runs::{Family, ModelFile};
use lsparse::settings::SearchKind;
use lsparse::settings::TopicsConfig;
use lsparse::synthetic::{planted, themed_corpus};
use lsparse::topics::{TopicFamily, TopicInputs, fit_topics_with};
use lsparse::training::exchange::{Engine, Remote, Round, fold, hand_out, pack, params, unpack};
use lsparse::training::model::Model;
use lsparse::training::rules::{EVIDENCE, Outcome, StopReason};
use lsparse::training::session::Session;
use lsparse::{
    Beside, Init, LikelihoodKind, MixtureConfig, Result, ScheduleKind, SequenceConfig, SequenceInputs, Sparsity,
    fit_mixture_with, fit_sequence_with,
};

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

/// Rows of which each piece is with somebody else: only those who have it read it, but for what is brought.
struct Scattered {
    parts: Vec<Box<dyn RowSource>>,
    ends: Vec<usize>,
    asked: Asked,
    per_round: usize,
    /// One a row, or none.
    weights: Vec<f64>,
    /// The sequences of each piece, or none.
    groups: Vec<Groups>,
    /// Pieces that were worked out, in that order.
    worked: Vec<usize>,
    /// What came of the round, the first last.
    done: Vec<Vec<u8>>,
}

impl Scattered {
    fn new(parts: Vec<Box<dyn RowSource>>, asked: Asked, per_round: usize) -> Self {
        let ends = parts.iter().scan(0, |end, part| {
            *end += part.num_rows();
            Some(*end)
        });
        let (weights, groups, worked, done) = Default::default();
        Scattered { ends: ends.collect(), parts, asked, per_round, weights, groups, worked, done }
    }

    fn read<T: Scalar>(&self, start: usize, count: usize, out: &mut Rows<T>) -> Result<()> {
        for n in start..start + count {
            let part = self.ends.partition_point(|&end| end <= n);
            let first = self.ends[part] - self.parts[part].num_rows();
            T::read(self.parts[part].as_ref(), n - first, 1, out)?;
        }
        Ok(())
    }
}

impl Pieces for Scattered {
    fn ends(&self) -> &[usize] {
        &self.ends
    }

    fn measure(&self, how: &Measuring) -> Result<Option<PartialMoments>> {
        // As bytes, the last first.
        let measured = self.parts.iter().rev().map(|part| pack(&measure_piece(part.as_ref(), 0, &self.asked, how)?));
        let mut measured = measured.collect::<Result<Vec<_>>>()?;
        measured.reverse();
        let parts = measured.iter().map(|bytes| unpack(bytes, "moments")).collect::<Result<Vec<_>>>()?;
        PartialMoments::merged(self.dim(), parts).map(Some)
    }

    fn lacking(&self, some_may_lack: bool) -> Result<Option<Vec<bool>>> {
        let parts = self.parts.iter().map(|part| lacking_piece(part.as_ref(), 0, some_may_lack));
        parts.collect::<Result<Vec<_>>>().map(|parts| Some(parts.concat()))
    }
}

impl RowSource for Scattered {
    fn name(&self) -> &str {
        "scattered"
    }

    fn num_rows(&self) -> usize {
        self.ends[self.ends.len() - 1]
    }

    fn dim(&self) -> usize {
        self.parts[0].dim()
    }

    fn element(&self) -> Element {
        self.parts[0].element()
    }

    fn is_sparse(&self) -> bool {
        self.parts[0].is_sparse()
    }

    fn pieces(&self) -> Option<&dyn Pieces> {
        Some(self)
    }

    fn read_f32(&self, start: usize, count: usize, out: &mut Rows<f32>) -> Result<()> {
        self.read(start, count, out)
    }

    fn read_f64(&self, start: usize, count: usize, out: &mut Rows<f64>) -> Result<()> {
        self.read(start, count, out)
    }
}

impl Engine for Scattered {
    fn batches_per_round(&self) -> usize {
        self.per_round
    }

    fn begin(&mut self, known: &[u8], run: usize, round: Round) -> Result<()> {
        assert!(round.tickets.len() <= self.per_round && round.tickets.len() == round.batches.len());
        let mut done = Vec::new();
        // Whoever is done last comes first, and something is done twice.
        for (&batch, ticket) in round.batches.iter().zip(&round.tickets).rev() {
            self.worked.push(batch);
            let rows = self.parts[batch].as_ref();
            let weights = self.weights.get(self.ends[batch] - rows.num_rows()..self.ends[batch]);
            let groups = self.groups.get(batch);
            let job = Job { number: batch, known, run, params: &round.params, ticket, weights, groups, prints: None };
            let work = || work_batch(rows, &job);
            work()?;
            done.push(work()?);
        }
        self.done = done;
        Ok(())
    }

    fn next(&mut self) -> Result<Vec<u8>> {
        Ok(self.done.pop().unwrap())
    }
}

/// Pieces of rows: the first so many, the next so many, and so on.
fn cut_rows(source: &MemoryRows<f32>, sizes: &[usize]) -> Vec<Box<dyn RowSource>> {
    let mut first = 0;
    let piece = |&size: &usize| {
        let mut rows = Rows::<f32>::dense(source.dim());
        source.read_f32(first, size, &mut rows).unwrap();
        first += size;
        let values = rows.as_dense().unwrap().to_vec();
        Box::new(MemoryRows::new("a piece", source.dim(), values).unwrap()) as Box<dyn RowSource>
    };
    sizes.iter().map(piece).collect()
}

#[test]
fn pieces_that_others_have_give_the_bytes_of_one_process() {
    let (source, sizes) = (rows(), [150, 1, 99, 120, 30]);
    let some_weights: Vec<f64> = (0..400).map(|n| f64::from(n % 3)).collect();
    for (schedule, standardize, runs, weighted) in [
        (ScheduleKind::Memoized, false, 2, false),
        (ScheduleKind::Memoized, false, 1, true),
        (ScheduleKind::Stochastic, true, 1, false),
        (ScheduleKind::Streaming, false, 1, false),
    ] {
        let row_weights = weighted.then_some(&some_weights[..]);
        let inputs = || MixtureInputs { row_weights, ..Default::default() };
        let config = MixtureConfig {
            likelihood: LikelihoodKind::DiagGauss,
            clusters: 8,
            sparsity: Sparsity::Of(3),
            schedule,
            standardize,
            batches: Some(sizes.len()),
            laps: Some(LAPS),
            tolerance: None,
            runs,
            ..Default::default()
        };
        let scattered = |per_round| Scattered {
            weights: row_weights.unwrap_or_default().to_vec(),
            ..Scattered::new(cut_rows(&source, &sizes), Asked::Mixture(Box::new(config.clone())), per_round)
        };
        let pieced = Pieced::new(&source, scattered(1).ends).unwrap();
        let here = fit_mixture_with(&pieced, &config, inputs(), Beside::default()).unwrap();
        let there = |per_round| {
            let (others, mut engine) = (scattered(per_round), scattered(per_round));
            let beside = Beside { engine: Some(&mut engine), ..Default::default() };
            let fitted = fit_mixture_with(&others, &config, inputs(), beside).unwrap();
            assert!(engine.worked.len() >= sizes.len(), "others have worked");
            fitted.model.to_bytes().unwrap()
        };
        assert!(there(1) == here.model.to_bytes().unwrap(), "{schedule:?}");
        assert!(there(3) == there(3) && there(3) != there(1), "{schedule:?} in rounds");
    }
}

/// Sequences of which each piece has some whole ones: with and without missing steps, long ones in stretches.
#[test]
fn sequences_that_others_have_give_the_bytes_of_one_process() {
    let lengths = [&[60, 40, 50][..], &[1], &[0, 99], &[80, 40], &[30]];
    let sizes: Vec<usize> = lengths.iter().map(|lengths| lengths.iter().sum()).collect();
    let all = lengths.concat();
    let groups = Groups::of_lengths("lengths", &all, 400).unwrap();
    let shape = lsparse::synthetic::ChainShape { blur: 3.0, ..Default::default() };
    let truth = lsparse::synthetic::planted_chain(LikelihoodKind::DiagGauss, &all, 2, 5, shape, 8);
    let complete: Vec<f32> = truth.values.iter().map(|&x| x as f32).collect();
    let mut holed = complete.clone();
    [0, 31, 150, 251, 252].into_iter().for_each(|row| holed[2 * row..2 * row + 2].fill(f32::NAN));
    for (schedule, sparsity, missing, cut) in [
        (ScheduleKind::Memoized, 2, false, None),
        (ScheduleKind::Memoized, 5, true, Some(25)),
        (ScheduleKind::Memoized, 2, true, None),
        (ScheduleKind::Stochastic, 2, false, Some(25)),
        (ScheduleKind::Streaming, 1, false, None),
    ] {
        let source = MemoryRows::new("planted", 2, if missing { holed.clone() } else { complete.clone() }).unwrap();
        let config = SequenceConfig {
            likelihood: LikelihoodKind::DiagGauss,
            states: 5,
            sparsity: Sparsity::Of(sparsity),
            schedule,
            missing,
            cut,
            overlap: 10,
            batches: Some(sizes.len()),
            laps: Some(LAPS),
            tolerance: None,
            ..Default::default()
        };
        let inputs = || SequenceInputs { groups: Some(&groups), ..Default::default() };
        let of_piece = |lengths: &&[usize]| Groups::of_lengths("", lengths, lengths.iter().sum()).unwrap();
        let scattered = |per_round| Scattered {
            groups: lengths.iter().map(of_piece).collect(),
            ..Scattered::new(cut_rows(&source, &sizes), Asked::Sequence(Box::new(config.clone())), per_round)
        };
        let pieced = Pieced::new(&source, scattered(1).ends).unwrap();
        let here = fit_sequence_with(&pieced, &config, inputs(), Beside::default()).unwrap();
        let there = |per_round| {
            let (others, mut engine) = (scattered(per_round), scattered(per_round));
            let beside = Beside { engine: Some(&mut engine), ..Default::default() };
            let fitted = fit_sequence_with(&others, &config, inputs(), beside).unwrap();
            assert!(engine.worked.len() >= sizes.len(), "others have worked");
            fitted.model.to_bytes().unwrap()
        };
        assert!(there(1) == here.model.to_bytes().unwrap(), "{schedule:?}");
        assert!(there(3) == there(3) && there(3) != there(1), "{schedule:?} in rounds");
        // A sequence is with one alone.
        let torn = Pieced::new(&source, vec![70, 400]).unwrap();
        let config = SequenceConfig { batches: Some(2), ..config };
        let error = fit_sequence_with(&torn, &config, inputs(), Beside::default()).err().unwrap().to_string();
        assert!(error.contains("does not hold whole sequences"), "{error}");
    }
}

#[test]
fn documents_of_a_round_are_left_out_together() {
    let corpus = themed_corpus(100, 4);
    let parts = || {
        let ranges = [0..30, 30..55, 55..60, 60..80, 80..100];
        ranges.map(|range| Box::new(corpus.rows("a piece", range).unwrap()) as Box<dyn RowSource>).into()
    };
    let config = TopicsConfig {
        topics: 12,
        sparsity: Sparsity::Of(3),
        batches: Some(5),
        laps: Some(LAPS),
        tolerance: None,
        ..Default::default()
    };
    let scattered = |per_round| Scattered::new(parts(), Asked::Topics(Box::new(config.clone())), per_round);
    let there = |per_round| {
        let (others, mut engine) = (scattered(per_round), scattered(per_round));
        let beside = Beside { engine: Some(&mut engine), ..Default::default() };
        let fitted = fit_topics_with(&others, &config, TopicInputs::default(), beside).unwrap();
        let evidence = fitted.outcome.recent.last().and_then(|lap| lap.get(EVIDENCE));
        (fitted.model.to_bytes().unwrap(), evidence.unwrap())
    };
    let source = documents();
    let pieced = Pieced::new(&source, scattered(1).ends).unwrap();
    let here = fit_topics_with(&pieced, &config, TopicInputs::default(), Beside::default()).unwrap();
    let ((one, evidence), (two, of_rounds)) = (there(1), there(2));
    assert!(one == here.model.to_bytes().unwrap() && one != two);
    // Topics without two batches know less of either than those without one, and not nothing.
    assert!(of_rounds < evidence && of_rounds > evidence - 0.5, "{evidence} and {of_rounds}");
    // Half of the batches at most are out at a time.
    assert!(there(5).0 == two);
}

#[test]
fn a_piece_that_is_not_the_tickets_is_refused() {
    let (source, sizes) = (rows(), [150, 250]);
    let ends = vec![150, 400];
    assert!(Pieced::new(&source, vec![150, 150, 400]).is_err() && Pieced::new(&source, vec![150]).is_err());
    let parts = cut_rows(&source, &sizes);
    assert!(Piece::new(parts[0].as_ref(), 1, ends.clone()).is_err());
    let second = Piece::new(parts[1].as_ref(), 1, ends).unwrap();
    let mut out = Rows::<f32>::dense(4);
    assert!(second.read_f32(149, 1, &mut out).is_err() && second.read_f32(150, 250, &mut out).is_ok());
    // What is wrong with a value is said with the row's number among those of the part that it was cut from.
    let holed = MemoryRows::new("X", 1, vec![1.0, f64::NAN]).unwrap();
    let how = Measuring { target: Element::F64, missing: false, threshold: None, units: None };
    let error = measure_piece(&holed, 40, &Asked::Mixture(Box::default()), &how).unwrap_err();
    assert!(error.to_string().contains("X row 42, column 1: NaN"), "{error}");
}
