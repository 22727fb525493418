//! Finding K: planted clusters are found from too few and from too many, and the objective never falls on the way.

use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::synthetic::planted;
use lsparse::{LikelihoodKind, MixtureConfig};

/// Train until nothing is proposed any more, and give K lap by lap.
fn find(config: &MixtureConfig, source: &MemoryRows<f64>) -> (Vec<usize>, f64) {
    let mixtures = Mixtures::<f64>::new(source, config, MixtureInputs::default()).unwrap();
    let mut session = mixtures.session(0).unwrap();
    let mut worker = session.worker();
    let (mut last, mut path) = (f64::NEG_INFINITY, Vec::new());
    let rules = mixtures.plan().rules;
    loop {
        let info = session.step(&mut worker).unwrap();
        let objective = info.objective.unwrap().total();
        if session.progress().laps > 1 || info.ends_lap {
            assert!(objective >= last - 1e-9 * last.abs(), "{last} {objective} in lap {}", info.lap);
            last = objective;
        }
        if info.ends_lap {
            path.push(info.report["clusters"] as usize);
            if std::env::var("SHOW").is_ok() {
                println!(
                    "{} {:.3} {:?}",
                    info.lap,
                    objective,
                    info.moves.iter().map(|m| (m.kind, m.gain)).collect::<Vec<_>>()
                );
            }
        }
        if session.judge(&info, &rules, None).is_some() {
            return (path, last);
        }
    }
}

/// Columns in which clusters can be told apart.
fn columns(kind: LikelihoodKind) -> usize {
    match kind {
        LikelihoodKind::Multinomial | LikelihoodKind::Bernoulli => 40,
        _ => 10,
    }
}

#[test]
fn planted_clusters_are_found_from_few_and_from_many() {
    for kind in LikelihoodKind::ALL.into_iter().filter(|k| std::env::var("KIND").map_or(true, |w| w == k.name())) {
        let truth = std::env::var("TRUTH").map_or(8, |s| s.parse().unwrap());
        for seed in 0..std::env::var("SEEDS").map_or(2, |s| s.parse().unwrap()) {
            let rows = planted(kind, 4000, columns(kind), truth, seed);
            let source = MemoryRows::new("planted", rows.dim, rows.values.clone()).unwrap();
            for start in [1, 5 * truth] {
                let config =
                    MixtureConfig { likelihood: kind, find_k: true, k_start: Some(start), seed, ..Default::default() };
                let (path, last) = find(&config, &source);
                println!("{kind:?} seed {seed} from {start}: {last:.2} {path:?}");
            }
        }
    }
}
