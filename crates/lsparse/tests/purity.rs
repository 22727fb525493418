//! The local step is pure: for every method of every family the same parameters, rows and memory give the same bytes,
//! whatever was computed before and by whom.

use std::collections::BTreeSet;

use lsparse::allocation::AlphaRule;
use lsparse::choice::Choice;
use lsparse::data::{Groups, MemoryRows, Scalar};
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::sequence::{SequenceFamily, SequenceInputs};
use lsparse::settings::{MixtureMethod, SearchKind, SequenceMethod, SequenceSearch, TopicMethod, TopicsConfig};
use lsparse::synthetic::{ChainShape, planted, planted_chain, themed_corpus};
use lsparse::topics::gibbs::GibbsFamily;
use lsparse::topics::{TopicFamily, TopicInputs};
use lsparse::training::exchange::{Remote, pack, params, unpack};
use lsparse::training::model::Model;
use lsparse::training::session::{Done, Session};
use lsparse::{Estimate, Init, LikelihoodKind, MixtureConfig, ScheduleKind, SequenceConfig, Sparsity};

/// Statistics, memory and findings as bytes: all but the tally of the work.
fn results<M: Model>(bytes: &[u8]) -> Vec<u8> {
    let Done { batch, visit, visited }: Done<M> = unpack(bytes, "statistics").unwrap();
    pack(&(batch, visit, &visited.summary, &visited.memory, &visited.found)).unwrap()
}

/// A visit as bytes: parameters, ticket, what came of it.
type Visit = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Some laps, every visit noted down.
fn visits<M: Model>(session: &mut Session<'_, M>, laps: usize) -> Vec<Visit> {
    let mut worker = session.worker();
    let mut visits = Vec::new();
    while session.progress().laps < laps {
        session.recycle(&mut worker);
        let ticket = session.hand_out().unwrap().unwrap();
        let under = params(session).unwrap();
        let done = ticket.work(session.model(), session.params(), session.data(), &mut worker).unwrap();
        visits.push((under, pack(&ticket).unwrap(), pack(&done).unwrap()));
        session.fold(done).unwrap();
    }
    visits
}

/// Work the visits of a run out again, in an order of their own, by one who has come from elsewhere.
fn check<'a, F: Family<'a>>(family: &F, what: &str) {
    let visits = visits(&mut family.session(0).unwrap(), 4);
    let mut remote = Remote::new(family.model(0), family.deal(0).unwrap());
    let num = visits.len();
    // Every visit twice, far from where it was.
    for at in (0..num).rev().chain((0..num).map(|i| i * 7 % num)) {
        let (params, ticket, done) = &visits[at];
        let again = remote.summarize(params, ticket).unwrap();
        assert!(results::<F::Model>(&again) == results::<F::Model>(done), "{what}, visit {at}");
    }
    // Bytes that are cut short or damaged are refused.
    let (params, ticket, _) = &visits[num / 2];
    assert!(remote.summarize(params, &ticket[..ticket.len() - 1]).is_err());
    let mut damaged = params.clone();
    damaged[params.len() / 2] ^= 1;
    assert!(remote.summarize(&damaged, ticket).is_err());
    // A session that was saved and restored goes on with the same visits, though the first has gone on too.
    let mut session = family.session(0).unwrap();
    let mut worker = session.worker();
    for _ in 0..num / 2 {
        session.step(&mut worker).unwrap();
    }
    let saved = pack(&session.save()).unwrap();
    session.step(&mut worker).unwrap();
    let saved = unpack(&saved, "a session").unwrap();
    let mut restored = family.restore(saved, Default::default(), 0).unwrap();
    let rest = self::visits(&mut restored, 4);
    assert_eq!(rest.len(), num - num / 2, "{what}");
    for (a, b) in rest.iter().zip(&visits[num / 2..]) {
        assert!(a.1 == b.1 && results::<F::Model>(&a.2) == results::<F::Model>(&b.2), "{what} after a rest");
    }
}

/// All names that a setting may have are among those that were tried.
fn assert_all<C: Choice>(tried: impl IntoIterator<Item = &'static str>) {
    let tried: BTreeSet<&str> = tried.into_iter().collect();
    assert_eq!(tried, C::NAMES.iter().map(|name| name.0).collect());
}

fn check_mixture<T: Scalar>(values: Vec<T>, config: &MixtureConfig, what: &str)
where
    MemoryRows<T>: lsparse::data::RowSource,
{
    let source = MemoryRows::new("planted", 4, values).unwrap();
    check(&Mixtures::<T>::new(&source, config, MixtureInputs::default()).unwrap(), what);
}

#[test]
fn mixtures_are_pure() {
    let methods = [
        (MixtureMethod::Lsparse, SearchKind::Dense),
        (MixtureMethod::Lsparse, SearchKind::Exact),
        (MixtureMethod::Lsparse, SearchKind::Neighbours),
        (MixtureMethod::SparseEm, SearchKind::Auto),
        (MixtureMethod::Truncation, SearchKind::Auto),
        (MixtureMethod::Kmeans, SearchKind::Auto),
        (MixtureMethod::DpMeans, SearchKind::Auto),
        (MixtureMethod::HardEm, SearchKind::Auto),
    ];
    assert_all::<MixtureMethod>(methods.iter().map(|(method, _)| method.name()));
    for (method, search) in methods {
        for (likelihood, estimate, sparsity_tolerance) in [
            (LikelihoodKind::Gauss, Estimate::Posterior, 0.0),
            (LikelihoodKind::Gauss, Estimate::Posterior, 0.01),
            (LikelihoodKind::DiagGauss, Estimate::MaxLikelihood, 0.0),
            (LikelihoodKind::Multinomial, Estimate::Map, 0.0),
        ] {
            let hard = method == MixtureMethod::HardEm || method.has_centres_alone();
            let no_choice = sparsity_tolerance > 0.0 && method != MixtureMethod::Lsparse;
            let other = method.has_centres_alone() && likelihood != LikelihoodKind::DiagGauss;
            if no_choice || other || (likelihood == LikelihoodKind::Multinomial && search == SearchKind::Exact) {
                continue;
            }
            for schedule in [ScheduleKind::Full, ScheduleKind::Memoized, ScheduleKind::Stochastic] {
                if method == MixtureMethod::DpMeans && schedule == ScheduleKind::Stochastic {
                    continue;
                }
                let config = MixtureConfig {
                    method,
                    search,
                    likelihood,
                    estimate,
                    sparsity_tolerance: (sparsity_tolerance > 0.0).then_some(sparsity_tolerance),
                    schedule,
                    clusters: 12,
                    sparsity: if hard || sparsity_tolerance > 0.0 { Sparsity::Of(1) } else { Sparsity::Of(3) },
                    batches: if schedule == ScheduleKind::Full { Some(1) } else { Some(3) },
                    refresh: 2,
                    init: Init::Bregman,
                    ..Default::default()
                };
                let what = format!("{method:?} {search:?} {likelihood:?} {sparsity_tolerance} {schedule:?}");
                let rows = planted(likelihood, 300, 4, 8, 5);
                check_mixture(rows.values_f32(), &config, &what);
                check_mixture(rows.values, &config, &what);
            }
        }
    }
}

/// What a lap gathers to find K by is a result like any other, and so are clusters that are split and merged.
#[test]
fn mixtures_that_find_k_are_pure() {
    for likelihood in [LikelihoodKind::Gauss, LikelihoodKind::Poisson] {
        let config = MixtureConfig {
            likelihood,
            find_k: true,
            k_start: Some(3),
            batches: Some(3),
            tolerance: None,
            ..Default::default()
        };
        check_mixture(planted(likelihood, 400, 4, 8, 5).values, &config, &format!("K of {likelihood:?}"));
    }
}

#[test]
fn sequences_are_pure() {
    let shape = ChainShape::default();
    let truth = planted_chain(LikelihoodKind::Gauss, &[90, 40, 70, 0, 100, 60], 3, 6, shape, 3);
    let rows = MemoryRows::new("planted", truth.dim, truth.values.clone()).unwrap();
    let groups = Groups::of_lengths("lengths", &truth.lengths, truth.values.len() / truth.dim).unwrap();
    let base = SequenceConfig { states: 12, sparsity: Sparsity::Of(3), batches: Some(3), ..Default::default() };
    let cases = [
        ("beam", base.clone()),
        ("dense", SequenceConfig { sparsity: Sparsity::Of(12), search: SequenceSearch::Dense, ..base.clone() }),
        ("chosen", SequenceConfig { sparsity: Sparsity::Auto, ..base.clone() }),
        ("followers", SequenceConfig { search: SequenceSearch::Followers, ..base.clone() }),
        ("ml", SequenceConfig { estimate: Estimate::MaxLikelihood, ..base.clone() }),
        ("stretches", SequenceConfig { cut: Some(30), overlap: 10, ..base.clone() }),
        ("stochastic", SequenceConfig { schedule: ScheduleKind::Stochastic, ..base.clone() }),
        ("full", SequenceConfig { schedule: ScheduleKind::Full, batches: None, ..base.clone() }),
        ("viterbi", SequenceConfig { method: SequenceMethod::Viterbi, sparsity: Sparsity::Usual, ..base.clone() }),
    ];
    assert_all::<SequenceMethod>(cases.iter().map(|(_, config)| config.method.name()));
    assert_all::<SequenceSearch>(cases.iter().map(|(_, config)| config.search.name()));
    for (what, config) in cases {
        let inputs = SequenceInputs { groups: Some(&groups), ..Default::default() };
        let checked = SequenceFamily::<f64>::with(&rows, &config, inputs.clone(), |family| {
            check(family, what);
            Ok(())
        });
        checked.unwrap();
        let single = SequenceFamily::<f32>::with(&rows, &config, inputs, |family| {
            check(family, what);
            Ok(())
        });
        single.unwrap();
    }
}

#[test]
fn topics_are_pure() {
    let corpus = themed_corpus(80, 3);
    let source = corpus.rows("themes", 0..80).unwrap();
    let base =
        TopicsConfig { topics: 10, sparsity: Sparsity::Of(3), batches: Some(3), tolerance: None, ..Default::default() };
    let cases = [
        ("left out", base.clone()),
        ("lent", TopicsConfig { topics: 40, init: lsparse::settings::TopicInit::Random, ..base.clone() }),
        ("the paper's", TopicsConfig { leave_out: false, estimate: Estimate::Posterior, ..base.clone() }),
        ("warm", TopicsConfig { warm_start: true, ..base.clone() }),
        ("dense", TopicsConfig { sparsity: Sparsity::Of(10), ..base.clone() }),
        ("stochastic", TopicsConfig { schedule: ScheduleKind::Stochastic, ..base.clone() }),
        ("full", TopicsConfig { schedule: ScheduleKind::Full, batches: Some(1), ..base.clone() }),
        ("symmetric", TopicsConfig { learn_alpha: AlphaRule::Symmetric, ..base.clone() }),
        ("asymmetric", TopicsConfig { learn_alpha: AlphaRule::Asymmetric, ..base.clone() }),
        ("direction", TopicsConfig { learn_alpha: AlphaRule::Direction, ..base.clone() }),
        ("stick", TopicsConfig { learn_alpha: AlphaRule::Stick, ..base.clone() }),
        ("svi-gibbs", TopicsConfig { method: TopicMethod::SviGibbs, ..base.clone() }),
    ];
    assert_all::<AlphaRule>(cases.iter().map(|(_, config)| config.learn_alpha.name()));
    let samplers = [TopicMethod::SparseLda, TopicMethod::AliasLda, TopicMethod::LightLda];
    let tried = cases.iter().map(|(_, config)| config.method).chain(samplers);
    assert_all::<TopicMethod>(tried.map(TopicMethod::name));
    // Topics that are found have no numbers that words could be given by.
    let found = TopicsConfig { find_k: true, topics: 10, k_start: Some(5), sparsity: Sparsity::Of(3), ..base.clone() };
    check(&TopicFamily::new(&source, &found, TopicInputs::default()).unwrap(), "found");
    let seed_words = [vec![3, 4], vec![9]];
    for (what, config) in cases {
        for seed_words in [&[][..], &seed_words] {
            let inputs = TopicInputs { seed_words, ..Default::default() };
            check(&TopicFamily::new(&source, &config, inputs).unwrap(), what);
        }
    }
    for method in samplers {
        let config = TopicsConfig { method, burn_in: Some(1), ..base.clone() };
        let family = TopicFamily::new(&source, &config, TopicInputs::default()).unwrap();
        check(&GibbsFamily::new(family).unwrap(), method.name());
    }
}
