//! What a training holds does not grow with its steps.

use lsparse::backend::with_threads;
use lsparse::data::MemoryRows;
use lsparse::mixture::{MixtureInputs, Mixtures};
use lsparse::runs::Family;
use lsparse::synthetic::planted;
use lsparse::{LikelihoodKind, MixtureConfig};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Clusters that are replaced are gone, also where no other thread is there to free them.
#[test]
fn a_run_of_one_thread_holds_no_clusters_of_earlier_steps() {
    const STEPS: usize = 60;
    let (dim, num) = (30, 20);
    let truth = planted(LikelihoodKind::Gauss, 2000, dim, 5, 1);
    let source = MemoryRows::new("rows", dim, truth.values_f32()).unwrap();
    let config = MixtureConfig { clusters: num, batches: Some(4), trades: false, ..Default::default() };
    let mixtures = Mixtures::<f32>::new(&source, &config, MixtureInputs::default()).unwrap();
    let grown = with_threads(1, || {
        let mut session = mixtures.session(0).unwrap();
        let mut worker = session.worker();
        (0..8).for_each(|_| drop(session.step(&mut worker).unwrap()));
        let before = MEMORY.current_usage();
        (0..STEPS).for_each(|_| drop(session.step(&mut worker).unwrap()));
        MEMORY.current_usage().saturating_sub(before)
    });
    // The covariances of one step's clusters alone.
    let clusters = num * dim * dim * size_of::<f64>();
    assert!(grown.unwrap() < 2 * clusters, "{STEPS} steps");
}
