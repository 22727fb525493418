//! Figure 1: what the substeps of a pass over image patches cost by L and K, and what L loses.

use std::fs;

use lsparse::allocation::Allocation;
use lsparse::backend::with_threads;
use lsparse::data::{Batches, Dealt, NpyRows, RowSource, Rows, Scalar, read};
use lsparse::likelihood::ClusterSummary;
use lsparse::likelihood::{Clusters, PriorShape, Scratch};
use lsparse::mixture::{Members, Mixture, MixtureModel, MixtureParams, Search, accumulate, respond};
use lsparse::settings::SearchKind;
use lsparse::training::model::Model;
use lsparse::training::observe::Stopwatch;
use lsparse::training::responsibilities::{Responsibilities, dense_responsibilities, top_l_responsibilities};
use lsparse::training::schedule::{Pace, ScheduleKind};
use lsparse::training::session::{Done, Places, Session, Start, Ticket};
use lsparse::training::summary::Summary;
use lsparse::{Init, LikelihoodKind, MixtureConfig, Sparsity, fit_mixture};
use lsparse_kernels::Real;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::data::{DataSet, Part};
use crate::figure::{Claim, Figure};
use crate::runs::read_lines;
use crate::{Result, Settings, Size};

/// L besides K whose passes are timed.
const SPARSITIES: [usize; 5] = [1, 4, 8, 16, 32];
/// L besides K whose steps are timed against K.
const SPARSITIES_BY_CLUSTERS: [usize; 3] = [1, 4, 16];
/// L whose distance from dense is taken.
const SPARSITIES_BY_DISTANCE: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Passes over the data.
const PASSES: usize = 2;
/// The shortest of so many repeats is taken where a step is timed alone.
const REPEATS: usize = 3;
/// What the passes are made of.
const SUBSTEPS: [&str; 4] = ["weights", "responsibilities", "summary", "global step"];

/// The sizes of an experiment.
struct Plan {
    /// K of the passes and of the distances.
    clusters: usize,
    /// Images that are passed over, and batches.
    images: usize,
    batches: usize,
    /// Images that the model is trained on, and laps.
    trained: usize,
    laps: usize,
    /// Images of the steps against K, and as many others for the distances.
    few: usize,
    by_clusters: Vec<usize>,
}

fn plan(size: Size) -> Plan {
    let plan = |clusters, (images, batches), (trained, laps), few, by_clusters: &[usize]| Plan {
        clusters,
        images,
        batches,
        trained,
        laps,
        few,
        by_clusters: by_clusters.to_vec(),
    };
    match size {
        Size::Mini => plan(40, (1, 2), (1, 4), 1, &[20, 80]),
        Size::Quick => plan(100, (16, 4), (16, 6), 4, &[50, 100, 200, 400]),
        Size::Full => plan(200, (40, 10), (40, 10), 4, &[50, 100, 200, 400, 800, 1600]),
    }
}

/// Run the experiment. What was measured is kept and not measured again, as runs of other figures are.
pub fn run(settings: &Settings) -> Result<Figure> {
    let plan = plan(settings.size);
    let name = format!("fig1-{:08x}.jsonl", crc32fast::hash(scope(settings, &plan).as_bytes()));
    let kept = settings.workshop.folder.join(name);
    if !kept.exists() {
        let lines: String = measure(settings, &plan)?.iter().map(|row| format!("{row}\n")).collect();
        fs::write(&kept, lines)?;
    }
    let rows = read_lines(&kept)?;
    Ok(Figure { claims: claims(&plan, &rows), rows, scope: scope(settings, &plan) })
}

fn measure(settings: &Settings, plan: &Plan) -> Result<Vec<Value>> {
    let set = |images| match settings.data {
        Some(_) => DataSet::Images { images, heldout: plan.few },
        None => DataSet::Leaves { images, heldout: plan.few },
    };
    let store = settings.workshop.store();
    let [all, trained, few] = [plan.images, plan.trained, plan.few].map(|images| store.files(&set(images), Part::Test));
    let (all, trained, few) = (all?, trained?, few?);
    with_threads(1, || -> Result<Vec<Value>> {
        let model = train(&NpyRows::open(&trained.train)?, plan.clusters, plan.clusters, plan.laps)?;
        let mut rows = Vec::new();
        let all = NpyRows::open(&all.train)?;
        for sparsity in SPARSITIES.into_iter().filter(|&l| l < plan.clusters).chain([plan.clusters]) {
            rows.extend(passes(&model, &all, plan.batches, sparsity)?);
        }
        rows.extend(exact_passes(&model, &all, plan.batches)?);
        let few_rows = NpyRows::open(&few.train)?;
        for &clusters in &plan.by_clusters {
            rows.extend(steps(&few_rows, clusters)?);
        }
        rows.extend(distances(&model, &NpyRows::open(&few.heldout)?)?);
        Ok(rows)
    })?
}

/// A model of so many clusters.
fn train(rows: &NpyRows, clusters: usize, sparsity: usize, laps: usize) -> Result<MixtureModel> {
    let config = MixtureConfig {
        likelihood: LikelihoodKind::ZeroMeanGauss,
        prior_scale: Some(0.1),
        prior_shape: PriorShape::Isotropic,
        clusters,
        sparsity: Sparsity::Of(sparsity),
        alpha: 10.0,
        init: Init::Bregman,
        init_lloyd: Some(1),
        laps: Some(laps),
        tolerance: None,
        search: SearchKind::Dense,
        trades: false,
        seed: 1,
        ..Default::default()
    };
    Ok(fit_mixture(rows, &config)?.model)
}

/// The mixture of a model, keeping `sparsity` clusters a row.
fn mixture<T: Scalar>(model: &MixtureModel, sparsity: usize, search: SearchKind) -> Mixture<T> {
    Mixture {
        likelihood: model.config.likelihood.build(&model.prior),
        estimate: model.config.estimate,
        allocation: Allocation::Dirichlet { alpha: model.config.alpha },
        finding: None,
        num_clusters: model.num_clusters(),
        sparsity,
        step: Box::new(Search::new(search, model.num_clusters(), sparsity, 0.0)),
        units_change: 0.0,
    }
}

/// Computing seconds of something that is done again and again.
#[derive(Default)]
struct Timer(Stopwatch);

impl Timer {
    fn time<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.0.start();
        let result = work();
        self.0.halt();
        result
    }

    fn seconds(&self) -> f64 {
        self.0.cpu_seconds()
    }
}

/// Memoized passes from a model, each batch worked out by `local`; folding it in and the global step are on the clock
/// `global`.
fn memoized(
    model: &MixtureModel,
    mixture: Mixture<f32>,
    data: Dealt<'_>,
    global: &mut Timer,
    mut local: impl FnMut(&Session<'_, Mixture<f32>>, &Ticket<Mixture<f32>>) -> Result<Done<Mixture<f32>>>,
) -> Result<()> {
    let batches = data.batches.num_batches();
    let mut total = model.total.clone();
    total.scale(data.total_weight() / model.total.total_weight());
    let params = mixture.global_step(&total, None)?;
    let start = Start { params, total, stays: false, rng: ChaCha8Rng::seed_from_u64(1) };
    let pace = Pace { schedule: ScheduleKind::Memoized, delay: 1.0, decay: 1.0, leave_out: false };
    let mut session = Session::begin(mixture, data, start, &pace, Places::default(), 0);
    for _ in 0..PASSES * batches {
        let ticket = session.hand_out()?.ok_or("a batch is in flight")?;
        let done = local(&session, &ticket)?;
        global.time(|| session.fold(done))?;
    }
    Ok(())
}

/// Panel a: computing seconds of the substeps of two memoized passes. Reading rows is not counted.
fn passes(model: &MixtureModel, source: &NpyRows, batches: usize, sparsity: usize) -> Result<Vec<Value>> {
    let mixture = mixture::<f32>(model, sparsity, SearchKind::Dense);
    let data = Dealt::new(source, Batches::in_order(source.num_rows(), batches)?);
    let mut rows = Rows::<f32>::dense(source.dim());
    let mut resp = Responsibilities::default();
    let mut members = Members::default();
    let [mut weights, mut responsibilities, mut summary, mut global] = [(); 4].map(|()| Timer::default());
    memoized(model, mixture, data, &mut global, |session, ticket| {
        let (params, batches) = (session.params(), &session.data().batches);
        let first = batches.row_ids(ticket.batch)[0];
        rows.clear();
        read(source, first, batches.len(ticket.batch), &mut rows)?;
        resp.resize(rows.len(), sparsity);
        let mut tile = Tile::new(params);
        let mut start = 0;
        while start < rows.len() {
            let end = (start + f32::TILE).min(rows.len());
            weights.time(|| tile.weigh(params.clusters.as_ref(), &rows, start..end));
            responsibilities.time(|| tile.respond(start..end, &mut resp))?;
            start = end;
        }
        Ok(ticket.done(summary.time(|| summarize(session.model(), &rows, &resp, &mut members))))
    })?;
    let times = [weights, responsibilities, summary, global];
    let row = |(substep, timer): (&str, &Timer)| {
        json!({"panel": "a", "clusters": model.num_clusters(), "sparsity": sparsity, "search": "dense",
            "substep": substep, "cpu_seconds": timer.seconds()})
    };
    Ok(SUBSTEPS.into_iter().zip(&times).map(row).collect())
}

/// Beyond the paper: the same passes at L = 8 with bounds that rule clusters out (the first pass knows none).
fn exact_passes(model: &MixtureModel, source: &NpyRows, batches: usize) -> Result<Vec<Value>> {
    let sparsity = 8.min(model.num_clusters());
    let mixture = mixture::<f32>(model, sparsity, SearchKind::Exact);
    let data = Dealt::new(source, Batches::in_order(source.num_rows(), batches)?);
    let (mut local, mut global) = ([Timer::default(), Timer::default()], Timer::default());
    let mut worker = mixture.worker();
    memoized(model, mixture, data, &mut global, |session, ticket| {
        let work = || ticket.work(session.model(), session.params(), session.data(), &mut worker);
        Ok(local[session.progress().laps].time(work)?)
    })?;
    let names = ["local step and summary, first pass", "local step and summary, second pass", SUBSTEPS[3]];
    let times = [local[0].seconds(), local[1].seconds(), global.seconds()];
    let row = |(substep, seconds): (&str, f64)| {
        json!({"panel": "a", "clusters": model.num_clusters(), "sparsity": sparsity, "search": "exact",
            "substep": substep, "cpu_seconds": seconds})
    };
    Ok(names.into_iter().zip(times).map(row).collect())
}

/// Weights of a tile of rows and what becomes of them.
struct Tile {
    log_pi: Vec<f32>,
    weights: Vec<f32>,
    scratch: Scratch<f32>,
    kept: Vec<f32>,
    entropy: Vec<f64>,
}

impl Tile {
    fn new(params: &MixtureParams<f32>) -> Self {
        Tile {
            log_pi: params.frequencies.log_pi.iter().map(|&v| v as f32).collect(),
            weights: Vec::new(),
            scratch: Scratch::default(),
            kept: Vec::new(),
            entropy: Vec::new(),
        }
    }

    /// W_nk of some rows.
    fn weigh(&mut self, clusters: &dyn Clusters<f32>, rows: &Rows<f32>, range: std::ops::Range<usize>) {
        self.weights.clear();
        for _ in range.clone() {
            self.weights.extend_from_slice(&self.log_pi);
        }
        clusters.add_log_lik(rows, range, &mut self.scratch, &mut self.weights);
    }

    /// Their responsibilities.
    fn respond(&mut self, range: std::ops::Range<usize>, resp: &mut Responsibilities<f32>) -> Result<()> {
        from_weights(&self.weights, self.log_pi.len(), range, resp, &mut self.kept, &mut self.entropy)
    }
}

/// Weights of some rows to responsibilities, as training does it.
fn from_weights(
    weights: &[f32],
    clusters: usize,
    range: std::ops::Range<usize>,
    resp: &mut Responsibilities<f32>,
    kept: &mut Vec<f32>,
    entropy: &mut Vec<f64>,
) -> Result<()> {
    let of_rows = range.start * resp.sparsity..range.end * resp.sparsity;
    let step = if resp.sparsity == clusters { dense_responsibilities } else { top_l_responsibilities };
    let (index, value) = (&mut resp.index[of_rows.clone()], &mut resp.value[of_rows]);
    Ok(step(weights, clusters, range.start, index, value, kept, entropy)?)
}

/// N_k and S_k.
fn summarize(
    mixture: &Mixture<f32>,
    rows: &Rows<f32>,
    resp: &Responsibilities<f32>,
    members: &mut Members<f32>,
) -> ClusterSummary {
    let mut summary = mixture.likelihood.no_statistics(mixture.num_clusters);
    members.regroup(mixture.num_clusters, resp, &[]);
    accumulate(mixture.likelihood.as_ref(), rows, members, &mut summary);
    summary
}

/// Panels b and c: computing seconds of weights to responsibilities, and of responsibilities to statistics, all rows.
fn steps(source: &NpyRows, clusters: usize) -> Result<Vec<Value>> {
    let model = train(source, clusters, 8.min(clusters), 1)?;
    let mut rows = Rows::<f32>::dense(source.dim());
    read(source, 0, source.num_rows(), &mut rows)?;
    let mixture = mixture::<f32>(&model, clusters, SearchKind::Dense);
    let params = mixture.global_step(&model.total, None)?;
    let mut tile = Tile::new(&params);
    let mut table = Vec::with_capacity(rows.len() * clusters);
    for start in (0..rows.len()).step_by(f32::TILE) {
        tile.weigh(params.clusters.as_ref(), &rows, start..(start + f32::TILE).min(rows.len()));
        table.extend_from_slice(&tile.weights);
    }
    let mut out = Vec::new();
    for sparsity in SPARSITIES_BY_CLUSTERS.into_iter().filter(|&l| l < clusters).chain([clusters]) {
        let (mut resp, mut members) = (Responsibilities::default(), Members::default());
        let mut best = [f64::INFINITY; 2];
        for _ in 0..REPEATS {
            resp.resize(rows.len(), sparsity);
            let [mut respond, mut summary] = [(); 2].map(|()| Timer::default());
            respond.time(|| -> Result<()> {
                for (t, weights) in table.chunks(f32::TILE * clusters).enumerate() {
                    let start = t * f32::TILE;
                    let range = start..start + weights.len() / clusters;
                    from_weights(weights, clusters, range, &mut resp, &mut tile.kept, &mut tile.entropy)?;
                }
                Ok(())
            })?;
            std::hint::black_box(summary.time(|| summarize(&mixture, &rows, &resp, &mut members)));
            best = [best[0].min(respond.seconds()), best[1].min(summary.seconds())];
        }
        for (panel, seconds) in ["b", "c"].into_iter().zip(best) {
            out.push(json!({"panel": panel, "clusters": clusters, "sparsity": sparsity, "dense": sparsity == clusters,
                "cpu_seconds": seconds}));
        }
    }
    Ok(out)
}

/// Panel d: the distribution over rows of (1/2) sum_k |r_nk - r~_nk|, dense against L-sparse.
fn distances(model: &MixtureModel, source: &NpyRows) -> Result<Vec<Value>> {
    let clusters = model.num_clusters();
    let mut rows = Rows::<f64>::dense(source.dim());
    read(source, 0, source.num_rows(), &mut rows)?;
    let mixture = mixture::<f64>(model, clusters, SearchKind::Dense);
    let params = mixture.global_step(&model.total, None)?;
    // All clusters of a row, the largest first: its L-sparse responsibilities are the first L of them, normalised.
    let mut dense = Responsibilities::default();
    respond(params.clusters.as_ref(), &params.frequencies.log_pi, &rows, clusters, &mut dense)?;
    let mut out = Vec::new();
    for sparsity in SPARSITIES_BY_DISTANCE.into_iter().filter(|&l| l < clusters) {
        let mut distance: Vec<f64> = (0..rows.len()).map(|n| variational_distance(dense.row(n).1, sparsity)).collect();
        distance.sort_by(f64::total_cmp);
        let shares = (1..100).map(|percent| f64::from(percent) / 100.0).chain([0.995, 0.999, 1.0]);
        for share in shares {
            let at = ((share * distance.len() as f64).ceil() as usize).clamp(1, distance.len()) - 1;
            out.push(json!({"panel": "d", "clusters": clusters, "sparsity": sparsity, "share": share,
                "distance": distance[at]}));
        }
    }
    Ok(out)
}

/// Half the sum of absolute differences between responsibilities (largest first) and their L largest, normalised.
fn variational_distance(dense: &[f64], sparsity: usize) -> f64 {
    let (kept, dropped) = dense.split_at(sparsity);
    let mass: f64 = kept.iter().sum();
    0.5 * (kept.iter().map(|r| (r - r / mass).abs()).sum::<f64>() + dropped.iter().sum::<f64>())
}

/// The one measurement with these fields.
fn measured(rows: &[Value], wanted: &Value, field: &str) -> f64 {
    let fits = |row: &&Value| wanted.as_object().is_some_and(|all| all.iter().all(|(key, value)| &row[key] == value));
    rows.iter().find(fits).and_then(|row| row[field].as_f64()).unwrap_or(f64::NAN)
}

fn claims(plan: &Plan, rows: &[Value]) -> Vec<Claim> {
    let clusters = plan.clusters;
    let seconds = |wanted: Value| measured(rows, &wanted, "cpu_seconds");
    let substep = |sparsity: usize, name: &str| {
        seconds(json!({"panel": "a", "search": "dense", "sparsity": sparsity, "substep": name}))
    };
    let pass = |sparsity: usize| SUBSTEPS.iter().map(|name| substep(sparsity, name)).sum::<f64>();
    let step = |panel: &str, k: usize, l: usize| seconds(json!({"panel": panel, "clusters": k, "sparsity": l}));
    let (least, most) = (plan.by_clusters[0], plan.by_clusters[plan.by_clusters.len() - 1]);
    let respond = [4, 16].map(|l| step("b", most, most) / step("b", most, l));
    let summary = step("c", most, 4) / step("c", most, most);
    let whole = pass(clusters) / pass(4);
    let weights = substep(4, "weights") / pass(4);
    let growth = [4, most].map(|l| step("c", most, l) / step("c", least, if l == 4 { 4 } else { least }));
    let distance =
        |l: usize, share: f64| measured(rows, &json!({"panel": "d", "sparsity": l, "share": share}), "distance");
    let exact: f64 =
        rows.iter().filter(|row| row["search"] == "exact").filter_map(|row| row["cpu_seconds"].as_f64()).sum();
    vec![
        Claim::new(
            "For large K, L = 4 and L = 16 turn weights into responsibilities faster than dense (panel b)",
            respond.iter().all(|&ratio| ratio > 1.0),
            format!("K = {most}: L = 4 {:.1}x, L = 16 {:.1}x faster", respond[0], respond[1]),
        ),
        Claim::new(
            "The cost of the summary step virtually disappears at L = 4 rather than L = K (panels a and c)",
            summary < 0.1,
            format!(
                "L = 4 takes {:.1} % of the dense summary's time at K = {most}; of the passes at K = {clusters} the \
                 summary is {:.0} % at L = K and {:.0} % at L = 4",
                100.0 * summary,
                100.0 * substep(clusters, "summary") / pass(clusters),
                100.0 * substep(4, "summary") / pass(4)
            ),
        ),
        Claim::new(
            "With L-sparse responsibilities the summary scales with L, not with K (panel c)",
            growth[0] < 0.5 * growth[1],
            format!(
                "from K = {least} to {most} the summary takes {:.1} times as long at L = 4 and {:.1} times at L = K",
                growth[0], growth[1]
            ),
        ),
        Claim::new(
            "That makes the whole algorithm more than twice as fast (panel a, L = 4 against L = K)",
            whole > 2.0,
            format!("{whole:.2} times as fast ({:.1} s against {:.1} s)", pass(4), pass(clusters)),
        ),
        Claim::new(
            "What remains is the calculation of the weights (panel a)",
            weights > 0.5,
            format!(
                "{:.0} % of the time at L = 4, {:.0} % at L = K",
                100.0 * weights,
                100.0 * substep(clusters, "weights") / pass(clusters)
            ),
        ),
        Claim::new(
            "which might be sped up by data structures for nearest neighbours (here: exact bounds, L = 8)",
            exact < pass(8),
            format!("{:.2} times as fast over two passes, the first of them dense", pass(8) / exact),
        ),
        Claim::new(
            "L = 8 captures nearly identical responsibilities, L = 1 is coarse (panel d)",
            distance(8, 0.99) < 0.01 && distance(1, 0.99) > 0.1,
            format!(
                "distance from dense, 90th and 99th percentile: L = 8 {:.1e} and {:.1e}, L = 4 {:.1e} and {:.1e}, \
                 L = 1 {:.2} and {:.2}",
                distance(8, 0.9),
                distance(8, 0.99),
                distance(4, 0.9),
                distance(4, 0.99),
                distance(1, 0.9),
                distance(1, 0.99)
            ),
        ),
    ]
}

fn scope(settings: &Settings, plan: &Plan) -> String {
    let source = if settings.data.is_some() { "BSDS500" } else { "drawn" };
    let Plan { clusters, images, batches, trained, laps, few, by_clusters } = plan;
    let patches = |images: usize| images * 9_204;
    format!(
        "8 x 8 patches of {source} images, zero-mean Gaussians, alpha = 10, Wishart prior, single precision, one thread, \
         computing time. a: {PASSES} memoized passes over {} patches in {batches} batches, from a model of K = \
         {clusters} clusters trained densely for {laps} laps on {} patches; reading is not counted. b, c: {} patches, \
         K from {} to {}, the shortest of {REPEATS} repeats. d: the model of a, {} patches of {few} other images.",
        patches(*images),
        patches(*trained),
        patches(*few),
        by_clusters[0],
        by_clusters[by_clusters.len() - 1],
        patches(*few),
    )
}
