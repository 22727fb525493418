//! Training by processes that share no memory: parameters, tickets and what comes of them as bytes.
//!
//! Two functions are all there is. [`Remote::summarize`] works a batch out: (parameters, ticket with the memory of its
//! rows) to (statistics, memory). [`fold`] brings that into a session, in the order of tickets whatever order it comes in:
//! (session, statistics) to parameters. Both are pure, so that work which is lost is simply done again, and models have
//! the same bytes however many processes took part. Bytes are exchanged between the same versions of this library.
//!
//! An [`Engine`] takes rounds of tickets to whoever works them out, and [`Rounds`] steps a session by it. Where rows lie in
//! pieces ([`Pieces`](crate::data::Pieces)) a batch is a piece, and who works it out needs no other rows.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::data::Dealt;
use crate::error::{Error, Result};
use crate::training::model::Model;
use crate::training::session::{Done, Session, Ticket};
use crate::training::trace::StepInfo;

/// Anything that is exchanged as bytes, with a checksum of it.
pub fn pack<V: Serialize>(value: &V) -> Result<Vec<u8>> {
    let refused = |_| Error::Exchange { what: "what can be written" };
    let mut bytes = postcard::to_stdvec(value).map_err(refused)?;
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Ok(bytes)
}

/// What was packed; `what` it is to be is for messages.
pub fn unpack<V: DeserializeOwned>(bytes: &[u8], what: &'static str) -> Result<V> {
    let refused = || Error::Exchange { what };
    let (body, checksum) = bytes.split_last_chunk::<4>().ok_or_else(refused)?;
    if crc32fast::hash(body).to_le_bytes() != *checksum {
        return Err(refused());
    }
    postcard::from_bytes(body).map_err(|_| refused())
}

/// The parameters of a session: its statistics, and what these do not give.
pub fn params<M: Model>(session: &Session<'_, M>) -> Result<Vec<u8>> {
    pack(&(session.total(), session.model().carried(session.params())))
}

/// Batches that are worked out under the same parameters, as bytes.
pub struct Round {
    /// The parameters.
    pub params: Vec<u8>,
    /// A ticket for each batch.
    pub tickets: Vec<Vec<u8>>,
    /// The batches.
    pub batches: Vec<usize>,
    /// Visits of the run before the first of them.
    pub visit: u64,
}

/// The next batches of a session, at most so many and fewer where a lap ends before. How many there are changes the model
/// (parameters are older), so it is to be chosen and kept, and not to follow the number of processes.
pub fn hand_out<M: Model>(session: &mut Session<'_, M>, most: usize) -> Result<Round> {
    let (mut tickets, mut batches) = (Vec::new(), Vec::new());
    session.set_at_once(most);
    while tickets.len() < most
        && let Some(ticket) = session.hand_out()?
    {
        batches.push(ticket.batch);
        tickets.push(pack(&ticket)?);
    }
    // A batch that is left out has changed them.
    Ok(Round { params: params(session)?, tickets, batches, visit: session.progress().step })
}

/// Fold what came of tickets into a session, and give the parameters after it.
pub fn fold<M: Model>(session: &mut Session<'_, M>, done: &[Vec<u8>]) -> Result<Vec<u8>> {
    let done = done.iter().map(|bytes| unpack(bytes, "statistics of a batch"));
    let mut done: Vec<Done<M>> = done.collect::<Result<_>>()?;
    done.sort_by_key(|done| done.visit);
    done.into_iter().try_for_each(|done| session.fold(done).map(drop))?;
    params(session)
}

/// What those who work batches out need to know besides parameters and tickets, the same for a whole training.
#[derive(Serialize, Deserialize)]
pub struct Known {
    /// The kind of model.
    pub family: String,
    /// Settings with all that depends on rows that others have.
    pub settings: String,
    /// Whether rows are worked on in double precision.
    pub double: bool,
    /// Where the pieces end that rows lie in.
    pub ends: Vec<usize>,
}

/// Takes batches to other processes to be worked out.
pub trait Engine: Send {
    /// Batches that are worked out under the same parameters. Models depend on it, so it is to be fixed.
    fn batches_per_round(&self) -> usize;

    /// Have every ticket of a round worked out. `known` is a packed [`Known`].
    fn begin(&mut self, known: &[u8], run: usize, round: Round) -> Result<()>;

    /// What came of the next ticket of the round, in their order: it is folded in while others are still at work.
    fn next(&mut self) -> Result<Vec<u8>>;
}

/// Steps of a session whose batches are worked out elsewhere.
pub struct Rounds<'e> {
    engine: &'e mut dyn Engine,
    known: Vec<u8>,
    /// Tickets of this round whose batches are not folded in yet.
    waiting: usize,
}

impl<'e> Rounds<'e> {
    /// Work by this engine.
    pub fn new(engine: &'e mut dyn Engine, known: &Known) -> Result<Self> {
        Ok(Rounds { engine, known: pack(known)?, waiting: 0 })
    }

    /// Fold a batch in; if it is the first of a round, that begins.
    pub fn step<M: Model>(&mut self, session: &mut Session<'_, M>) -> Result<StepInfo> {
        if self.waiting == 0 {
            let round = hand_out(session, self.engine.batches_per_round().max(1))?;
            let tickets = round.tickets.len();
            if tickets == 0 {
                return Err(Error::Exchange { what: "a batch to be worked out" });
            }
            self.engine.begin(&self.known, session.run(), round)?;
            self.waiting = tickets;
        }
        let info = session.fold(unpack(&self.engine.next()?, "statistics of a batch")?)?;
        self.waiting -= 1;
        Ok(info)
    }

    /// Whether all of a round is folded in: only then can a session be saved and go on as if nothing had been.
    pub fn is_between(&self) -> bool {
        self.waiting == 0
    }

    /// Another run begins.
    pub fn begin(&mut self) {
        self.waiting = 0;
    }
}

/// The end of the line that has rows and no session.
pub struct Remote<'a, M: Model> {
    model: M,
    data: Dealt<'a>,
    worker: M::Worker,
    /// The last parameters, as they came and as they are used.
    params: Option<(Vec<u8>, M::Params)>,
}

impl<'a, M: Model> Remote<'a, M> {
    /// Work for sessions of this model on these rows.
    pub fn new(model: M, data: Dealt<'a>) -> Self {
        let worker = model.worker();
        Remote { model, data, worker, params: None }
    }

    /// Work a ticket out under parameters. Pure: the same bytes give the same bytes, but for the tally of the work, which
    /// results do not depend on.
    pub fn summarize(&mut self, params: &[u8], ticket: &[u8]) -> Result<Vec<u8>> {
        let ticket: Ticket<M> = unpack(ticket, "a ticket")?;
        if ticket.batch >= self.data.batches.num_batches() {
            return Err(Error::Exchange { what: "a ticket of this data" });
        }
        if self.params.as_ref().is_none_or(|(bytes, _)| bytes != params) {
            let foreign = Error::Exchange { what: "parameters of this model" };
            let (total, carried) = unpack(params, "parameters")?;
            self.params = Some((params.to_vec(), self.model.restore(&total, carried)?.ok_or(foreign)?));
        }
        let Some((_, params)) = &self.params else { return Err(Error::Exchange { what: "parameters" }) };
        pack(&ticket.work(&self.model, params, &self.data, &mut self.worker)?)
    }
}
