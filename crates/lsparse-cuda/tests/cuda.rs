//! Kernels against plain FP64 on the host, for machines with a GPU: `cargo xtask cuda test`.

use lsparse_cuda::Device;
use lsparse_cuda::mixture::{By, Densities, Element, Failure, Form, Rows, Statistics, Whitening, Work};

/// Numbers between -1 and 1 from a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 30) as f64 - 1.0
    }

    fn normal(&mut self) -> f64 {
        (0..6).map(|_| self.next()).sum::<f64>() / 1.41
    }
}

fn triangle(n: usize) -> usize {
    n * (n + 1) / 2
}

/// Rows and clusters made up: rows are near the means of clusters, which have forms of all sizes.
struct Case {
    form: Form,
    dim: usize,
    num: usize,
    rows: Vec<f64>,
    weights: Option<Vec<f64>>,
    /// The triangles of factors, or precisions.
    forms: Vec<f64>,
    /// The factor that all clusters share, row by row; of turned ones alone.
    turn: Vec<f64>,
    means: Vec<f64>,
    constants: Vec<f64>,
    whitening: Whitening,
}

/// Sums and what comes with them.
#[derive(Debug, PartialEq)]
struct Found {
    sums: Vec<f64>,
    entropy: f64,
    weighed: u64,
}

impl Case {
    fn new(num_rows: usize, dim: usize, num: usize, offset: f64, seed: u64) -> Case {
        Case::of(Form::Triangular, num_rows, dim, num, offset, seed)
    }

    fn of(form: Form, num_rows: usize, dim: usize, num: usize, offset: f64, seed: u64) -> Case {
        let mut numbers = Numbers(seed);
        let size = form.width(dim) - 1 - dim;
        let mut forms = vec![0.0; num * size];
        for factor in forms.chunks_exact_mut(size) {
            if form == Form::Turned {
                factor.fill(1.0);
                continue;
            }
            if form == Form::Columns {
                let size = (4.0 * numbers.next()).exp();
                factor.iter_mut().for_each(|p| *p = size * (1.2 + numbers.next()));
                continue;
            }
            let size = (2.0 * numbers.next()).exp();
            for i in 0..dim {
                for j in 0..i {
                    factor[triangle(i) + j] = 0.3 * size * numbers.next() / (dim as f64).sqrt();
                }
                factor[triangle(i) + i] = size * (1.2 + numbers.next());
            }
        }
        // Clusters about zero are screened by a kernel of their own.
        let wide = if offset.is_nan() { 0.0 } else { 2.0 };
        let offset = if offset.is_nan() { 0.0 } else { offset };
        let means: Vec<f64> = (0..num * dim).map(|_| f64::from((offset + wide * numbers.normal()) as f32)).collect();
        let constants: Vec<f64> = (0..num).map(|_| 3.0 * numbers.next()).collect();
        let mut rows = Vec::with_capacity(num_rows * dim);
        for n in 0..num_rows {
            let k = (n * 7) % num;
            let size = (1.5 * numbers.next()).exp();
            rows.extend((0..dim).map(|d| f64::from((means[k * dim + d] + size * numbers.normal()) as f32)));
        }
        // Any lower triangle will do; a plain one has a plain inverse.
        let plain = |value: f64| (0..dim * dim).map(|i| if i % (dim + 1) == 0 { value } else { 0.0 }).collect();
        let by = match form {
            Form::Triangular if !form.is_screened(dim) => By::Nothing,
            Form::Triangular => By::Factor { factor: plain(0.5), inverse: plain(2.0) },
            Form::Columns => By::Scales((0..dim).map(|d| 0.2 + 0.1 * (d % 7) as f64).collect()),
            Form::Turned => By::Clusters,
        };
        let mut turn = vec![0.0; if form == Form::Turned { dim * dim } else { 0 }];
        for (i, row) in turn.chunks_exact_mut(dim).enumerate() {
            row[..i].iter_mut().for_each(|m| *m = 0.3 * numbers.next() / (dim as f64).sqrt());
            row[i] = 1.2 + numbers.next();
        }
        let whitening = Whitening { center: vec![offset; dim], by };
        Case { form, dim, num, rows, weights: None, forms, turn, means, constants, whitening }
    }

    /// The statistics as they should be, in plain FP64; and how near the L-th weight of a row is to the next at the least.
    fn expected(&self, sparsity: usize, negligible: f64) -> (Found, f64) {
        let (dim, num, width) = (self.dim, self.num, self.form.width(self.dim));
        let mut found = Found { sums: vec![0.0; num * width], entropy: 0.0, weighed: 0 };
        let mut nearest = f64::INFINITY;
        for (n, x) in self.rows.chunks_exact(dim).enumerate() {
            let weigh = |k: usize| self.constants[k] - 0.5 * self.form_of(k, x);
            let mut order: Vec<(f64, usize)> = (0..num).map(|k| (weigh(k), k)).collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            if sparsity < num {
                nearest = nearest.min(order[sparsity - 1].0 - order[sparsity].0);
            }
            order.truncate(sparsity);
            let top = order[0].0;
            let sum: f64 = order.iter().map(|(w, _)| (w - top).exp()).sum();
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[n]);
            for &(w, k) in &order {
                let r = (w - top).exp() / sum;
                found.entropy -= if r > 0.0 { weight * r * r.ln() } else { 0.0 };
                if r > negligible {
                    let sums = &mut found.sums[k * width..(k + 1) * width];
                    let y: Vec<f64> = x.iter().zip(&self.whitening.center).map(|(x, c)| x - c).collect();
                    sums[0] += weight * r;
                    for i in 0..dim {
                        sums[1 + i] += weight * r * y[i];
                        match self.form {
                            Form::Triangular => {
                                (0..=i).for_each(|j| sums[1 + dim + triangle(i) + j] += weight * r * y[i] * y[j]);
                            }
                            Form::Columns | Form::Turned => sums[1 + dim + i] += weight * r * y[i] * y[i],
                        }
                    }
                }
            }
        }
        (found, nearest)
    }

    /// The quadratic form of a row.
    fn form_of(&self, k: usize, x: &[f64]) -> f64 {
        let (dim, width) = (self.dim, self.form.width(self.dim));
        let (m, mean) = (&self.forms[k * (width - 1 - dim)..], &self.means[k * dim..(k + 1) * dim]);
        let y: Vec<f64> = x.iter().zip(mean).map(|(x, m)| x - m).collect();
        let turned = |i: usize| self.turn[i * dim..].iter().zip(&y[..=i]).map(|(m, y)| m * y).sum::<f64>();
        let product = |i: usize| (0..=i).map(|j| m[triangle(i) + j] * y[j]).sum::<f64>();
        let part = |i: usize| match self.form {
            Form::Triangular => product(i).powi(2),
            Form::Columns => m[i] * y[i].powi(2),
            Form::Turned => turned(i).powi(2),
        };
        (0..dim).map(part).sum()
    }

    /// Rows and clusters on the GPU.
    fn bring<T: Element>(&self, number: fn(f64) -> T, constants: &[f64]) -> (Work, Rows<T>) {
        let mut work = Work::new(Device::open(0).unwrap(), &self.whitening).unwrap();
        let values: Vec<T> = self.rows.iter().map(|&x| number(x)).collect();
        let num_rows = values.len() / self.dim;
        let mut rows = work.rows::<T>(num_rows, self.weights.as_deref()).unwrap();
        let half = num_rows / 2;
        work.put(&mut rows, half, &values[half * self.dim..]).unwrap();
        work.put(&mut rows, 0, &values[..half * self.dim]).unwrap();
        work.whiten(&mut rows).unwrap();
        let (dim, center) = (self.dim, &self.whitening.center);
        let (forms, means, of_clusters) = work.stage(self.num).unwrap();
        forms.copy_from_slice(&self.forms);
        means.copy_from_slice(&self.means);
        of_clusters.copy_from_slice(constants);
        if self.form == Form::Turned {
            for (turned, mean) in means.chunks_exact_mut(dim).zip(self.means.chunks_exact(dim)) {
                for (i, value) in turned.iter_mut().enumerate() {
                    *value = (0..=i).map(|j| self.turn[i * dim + j] * (mean[j] - center[j])).sum();
                }
            }
            work.set_turn(&self.turn, &vec![0.3; dim]).unwrap();
        }
        work.set_clusters().unwrap();
        (work, rows)
    }

    fn run<T: Element>(&self, sparsity: usize, negligible: f64, number: fn(f64) -> T) -> Result<Found, Failure> {
        let (mut work, rows) = self.bring(number, &self.constants);
        let mut summarize = || {
            let Statistics { entropy, weighed } = work.summarize(&rows, sparsity, negligible)?;
            Ok::<Found, Failure>(Found { sums: work.sums()?.to_vec(), entropy, weighed })
        };
        let found = summarize()?;
        assert_eq!(summarize()?, found, "the same bits");
        Ok(found)
    }

    fn check(&self, name: &str, sparsity: usize, found: &Found) {
        let (expected, nearest) = self.expected(sparsity, 6e-8);
        let mut worst: f64 = 0.0;
        let width = self.form.width(self.dim);
        for (k, (a, b)) in found.sums.chunks_exact(width).zip(expected.sums.chunks_exact(width)).enumerate() {
            let size = b.iter().fold(1.0f64, |size, v| size.max(v.abs()));
            for (a, b) in a.iter().zip(b) {
                worst = worst.max((a - b).abs() / size);
                assert!((a - b).abs() <= 1e-9 * size, "{name}: cluster {k}: {a} instead of {b}, {size}");
            }
        }
        assert!((found.entropy - expected.entropy).abs() <= 1e-9 * expected.entropy.max(1.0), "{name}: entropy");
        let a_row = found.weighed as f64 / (self.rows.len() / self.dim) as f64;
        println!("{name} L {sparsity}: {a_row:.2} of {} a row, off by {worst:.1e}, L-th apart {nearest:.1e}", self.num);
    }
}

#[test]
#[ignore = "needs a GPU"]
fn statistics_are_those_of_plain_double_precision() {
    for (dim, num) in [(1, 20), (2, 9), (7, 40), (16, 33), (17, 70), (33, 50), (64, 60), (65, 40), (100, 30), (128, 45)]
    {
        let mut case = Case::new(700, dim, num, if dim % 2 == 0 { 0.0 } else { 1000.0 }, dim as u64);
        for sparsity in [1, 3, 8, 9, num] {
            case.check(&format!("f32 D {dim}"), sparsity, &case.run(sparsity, 6e-8, |x| x as f32).unwrap());
        }
        case.check(&format!("f64 D {dim}"), 8, &case.run(8, 6e-8, |x| x).unwrap());
        case.weights = Some((0..700).map(|n| f64::from(n % 5) * 0.5).collect());
        case.check(&format!("weighted D {dim}"), 4.min(num), &case.run(4.min(num), 6e-8, |x| x as f32).unwrap());
    }
}

#[test]
#[ignore = "needs a GPU"]
fn many_columns_are_those_of_plain_double_precision() {
    // One more than is screened, whole tiles, one more than whole tiles, and a cluster of more than a segment.
    for (dim, num, rows) in [(129, 5, 700), (192, 30, 300), (193, 12, 300), (300, 3, 5000), (513, 9, 150)] {
        let mut case = Case::new(rows, dim, num, if dim % 2 == 0 { 0.0 } else { 30.0 }, dim as u64);
        for sparsity in [1, 3, num] {
            case.check(&format!("many, f32 D {dim}"), sparsity, &case.run(sparsity, 6e-8, |x| x as f32).unwrap());
        }
        case.check(&format!("many, f64 D {dim}"), 2, &case.run(2, 6e-8, |x| x).unwrap());
        case.weights = Some((0..rows).map(|n| (n % 5) as f64 * 0.5).collect());
        case.check(&format!("many, weighted D {dim}"), 3, &case.run(3, 6e-8, |x| x as f32).unwrap());
    }
    let mut case = Case::new(500, 130, 7, 0.0, 5);
    case.rows[130 * 99 + 3] = f64::NAN;
    assert_eq!(case.run(3, 6e-8, |x| x as f32), Err(Failure::NotANumber { row: 99 }));
}

#[test]
#[ignore = "needs a GPU"]
fn columns_apart_are_those_of_plain_double_precision() {
    // Few columns, as many as stay in shared memory, one more than a multiple, and many; more clusters than a tile.
    for (dim, num) in [(1, 20), (7, 65), (16, 64), (33, 200), (64, 130), (128, 70), (129, 90), (300, 40), (768, 30)] {
        let mut case = Case::of(Form::Columns, 700, dim, num, if dim % 2 == 0 { 0.0 } else { 30.0 }, dim as u64);
        for sparsity in [1, 3, 8, 9, num] {
            case.check(&format!("columns, f32 D {dim}"), sparsity, &case.run(sparsity, 6e-8, |x| x as f32).unwrap());
        }
        case.check(&format!("columns, f64 D {dim}"), 8, &case.run(8, 6e-8, |x| x).unwrap());
        case.weights = Some((0..700).map(|n| f64::from(n % 5) * 0.5).collect());
        case.check(&format!("columns, weighted D {dim}"), 4, &case.run(4, 6e-8, |x| x as f32).unwrap());
    }
    // Rows of which the screen knows nothing, and rows that are none.
    let mut case = Case::of(Form::Columns, 500, 12, 150, 0.0, 5);
    case.rows[12 * 77] = 1e6;
    case.check("columns, far", 8, &case.run(8, 6e-8, |x| x as f32).unwrap());
    case.rows[12 * 99 + 3] = f64::NAN;
    assert_eq!(case.run(8, 6e-8, |x| x as f32), Err(Failure::NotANumber { row: 99 }));
}

#[test]
#[ignore = "needs a GPU"]
fn clusters_about_zero() {
    for (dim, num) in [(5, 30), (50, 61), (64, 300), (128, 45)] {
        let case = Case::new(900, dim, num, f64::NAN, 11);
        case.check(&format!("about zero, D {dim}"), 8, &case.run(8, 6e-8, |x| x as f32).unwrap());
    }
}

#[test]
#[ignore = "needs a GPU"]
fn many_clusters_that_are_the_same_lose_nothing() {
    // More candidates than there is room for, all with the same weight: the first clusters win.
    let mut case = Case::new(300, 5, 400, 0.0, 3);
    let (factor, mean) = (case.forms[..triangle(5)].to_vec(), case.means[..5].to_vec());
    for k in 100..400 {
        case.forms[k * triangle(5)..(k + 1) * triangle(5)].copy_from_slice(&factor);
        case.means[k * 5..(k + 1) * 5].copy_from_slice(&mean);
    }
    // Above all others, so that they are what every row is left with.
    (0..400).filter(|k| *k == 0 || *k >= 100).for_each(|k| case.constants[k] = 1e6);
    let found = case.run(8, 6e-8, |x| x as f32).unwrap();
    case.check("alike", 8, &found);
    assert!(found.weighed > 300 * 20);
}

#[test]
#[ignore = "needs a GPU"]
fn rows_far_away_and_rows_that_are_none() {
    let mut case = Case::new(500, 12, 64, 0.0, 5);
    case.rows[12 * 77] = 1e6;
    case.check("far", 8, &case.run(8, 6e-8, |x| x as f32).unwrap());
    case.rows[12 * 99 + 3] = f64::NAN;
    assert_eq!(case.run(8, 6e-8, |x| x as f32), Err(Failure::NotANumber { row: 99 }));
}

#[test]
#[ignore = "needs a GPU"]
fn panels_add_up() {
    // More rows than a panel has, with few columns.
    let case = Case::new(600_000, 3, 12, 0.0, 9);
    case.check("panels", 4, &case.run(4, 6e-8, |x| x as f32).unwrap());
    case.check("panels, all clusters", 12, &case.run(12, 6e-8, |x| x as f32).unwrap());
}

#[test]
#[ignore = "needs a GPU"]
fn one_form_for_all_is_that_of_plain_double_precision() {
    for (dim, num) in [(1, 20), (7, 65), (33, 200), (64, 130), (65, 90), (200, 40)] {
        let mut case = Case::of(Form::Turned, 700, dim, num, if dim % 2 == 0 { 0.0 } else { 30.0 }, dim as u64);
        for sparsity in [1, 8, 9, num] {
            case.check(&format!("turned, f32 D {dim}"), sparsity, &case.run(sparsity, 6e-8, |x| x as f32).unwrap());
        }
        case.check(&format!("turned, f64 D {dim}"), 8, &case.run(8, 6e-8, |x| x).unwrap());
        case.weights = Some((0..700).map(|n| f64::from(n % 5) * 0.5).collect());
        case.check(&format!("turned, weighted D {dim}"), 4, &case.run(4, 6e-8, |x| x as f32).unwrap());
    }
}

fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = values.clone().fold(f64::NEG_INFINITY, f64::max);
    top + values.map(|v| (v - top).exp()).sum::<f64>().ln()
}

#[test]
#[ignore = "needs a GPU"]
fn densities_are_those_of_plain_double_precision() {
    for form in [Form::Triangular, Form::Columns, Form::Turned] {
        for (dim, num) in [(1, 3), (16, 40), (64, 130), (100, 33), (150, 7)] {
            let case = Case::of(form, 3000, dim, num, if dim % 2 == 0 { 0.0 } else { 30.0 }, 17 + dim as u64);
            let (mut work, rows) = case.bring(|x| x as f32, &vec![0.0; num]);
            // A cluster that is nowhere has a share of nothing.
            let constants: Vec<f64> =
                case.constants.iter().enumerate().map(|(k, c)| if k == 1 { f64::NEG_INFINITY } else { *c }).collect();
            let powers: Vec<f64> = (0..num).map(|k| 2.0 + k as f64).collect();
            let rates: Vec<f64> = (0..num).map(|k| 0.1 / (1.0 + k as f64)).collect();
            let normal = work.log_densities(&rows, &Densities::Normal { constants: &constants }).unwrap();
            let student = Densities::Student { constants: &constants, powers: &powers, rates: &rates };
            let student = work.log_densities(&rows, &student).unwrap();
            let (mut of_columns, mut means) = (vec![0.0; num * dim], vec![0.0; num * dim]);
            for (k, d) in (0..num).flat_map(|k| (0..dim).map(move |d| (k, d))) {
                of_columns[d * num + k] = 0.5 + (k + d) as f64 * 10.0;
                means[d * num + k] = case.means[k * dim + d];
            }
            let columns =
                Densities::Columns { constants: &constants, powers: &powers, rates: &of_columns, means: &means };
            let columns = work.log_densities(&rows, &columns).unwrap();
            let mut worst: f64 = 0.0;
            for (n, x) in case.rows.chunks_exact(dim).enumerate() {
                let q = |k: usize| case.form_of(k, x);
                let of_column =
                    |k: usize, d: usize| (of_columns[d * num + k] * (x[d] - means[d * num + k]).powi(2)).ln_1p();
                let expected = [
                    log_sum((0..num).map(|k| constants[k] - 0.5 * q(k))),
                    log_sum((0..num).map(|k| constants[k] - powers[k] * (rates[k] * q(k)).ln_1p())),
                    log_sum(
                        (0..num).map(|k| constants[k] - powers[k] * (0..dim).map(|d| of_column(k, d)).sum::<f64>()),
                    ),
                ];
                for (found, expected) in [normal[n], student[n], columns[n]].into_iter().zip(expected) {
                    let off = (found - expected).abs() / expected.abs().max(1.0);
                    worst = worst.max(off);
                    assert!(off < 1e-9, "{form:?} D {dim} row {n}: {found} instead of {expected}");
                }
            }
            println!("densities, {form:?} D {dim} K {num}: off by {worst:.1e}");
        }
    }
}

#[test]
#[ignore = "needs a GPU"]
fn rows_keep_the_clusters_of_plain_double_precision() {
    for form in [Form::Triangular, Form::Columns, Form::Turned] {
        for (dim, num) in [(5, 9), (64, 130), (140, 9)] {
            let mut case = Case::of(form, 2000, dim, num, 0.0, 23);
            // Far away most shares are nothing, and there are L clusters all the same.
            case.rows[dim * 5] = 300.0;
            for sparsity in [1, 4, 9] {
                let (mut work, rows) = case.bring(|x| x, &case.constants);
                let (mut index, mut shares) = (Vec::new(), Vec::new());
                work.assign(&rows, sparsity, &mut index, &mut shares).unwrap();
                assert_eq!((index.len(), shares.len()), (2000 * sparsity, 2000 * sparsity));
                for (n, x) in case.rows.chunks_exact(dim).enumerate() {
                    let of_row = n * sparsity..(n + 1) * sparsity;
                    let mut order: Vec<(f64, u32)> =
                        (0..num).map(|k| (case.constants[k] - 0.5 * case.form_of(k, x), k as u32)).collect();
                    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                    let all = log_sum(order[..sparsity].iter().map(|(w, _)| *w));
                    order.truncate(sparsity);
                    order.sort_by_key(|(_, k)| *k);
                    for ((w, k), (found, share)) in
                        order.into_iter().zip(index[of_row.clone()].iter().zip(&shares[of_row]))
                    {
                        let name = format!("{form:?} D {dim} L {sparsity} row {n}");
                        assert_eq!(k, *found, "{name}");
                        assert!(
                            ((w - all).exp() - share).abs() < 1e-9,
                            "{name}: {share} instead of {}",
                            (w - all).exp()
                        );
                    }
                }
            }
        }
    }
}

/// Lists of some words in some topics, each word's topics ascending.
fn word_lists(numbers: &mut Numbers, words: usize, topics: usize) -> (Vec<usize>, Vec<u32>, Vec<f32>) {
    let (mut first, mut topic, mut mass) = (vec![0], Vec::new(), Vec::new());
    for v in 0..words {
        for k in 0..topics as u32 {
            // Some words are in all topics, some in none.
            if v % 11 == 0 || (v % 7 > 0 && numbers.next() > 0.4) {
                topic.push(k);
                mass.push((3.0 * numbers.next()).exp() as f32);
            }
        }
        first.push(topic.len());
    }
    (first, topic, mass)
}

/// psi(x) by its series far out.
fn plain_digamma(mut x: f64) -> f64 {
    let mut less = 0.0;
    while x < 40.0 {
        less += 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    x.ln() - 0.5 / x - z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z / 240.0))) - less
}

/// ln gamma(x) by its series far out.
fn plain_ln_gamma(mut x: f64) -> f64 {
    let mut less = 0.0;
    while x < 40.0 {
        less += x.ln();
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - less
}

#[test]
#[ignore = "needs a GPU"]
fn words_are_summed_to_the_bit_and_topics_written_in_double_precision() {
    use lsparse_cuda::topics::{BatchWords, Lists, Part, Rule, Shape, SparseTotal, Table, TotalWords};
    let device = Device::open(0).unwrap();
    let (words, start_width) = (300, 5);
    // Many topics have no room in shared memory when starts are chosen.
    for topics in [7, 100, 333, 10_050] {
        let mut numbers = Numbers(topics as u64);
        let sizes = (words, topics);
        let mut total = TotalWords::zeros(&device, sizes).unwrap();
        let mut dense = vec![0.0f64; words * topics];
        for factor in [1.0, 1.0, -0.37, 2.5, -1.0] {
            let (first, topic, mass) = word_lists(&mut numbers, words, topics);
            let lists = Lists { first: &first, topic: &topic, mass: &mass };
            let batch = BatchWords::upload(&device, sizes, &lists).unwrap();
            assert_eq!(batch.download().unwrap(), (first.clone(), topic.clone(), mass.clone()));
            total.add(Part::Batch(&batch), factor).unwrap();
            for v in 0..words {
                for i in first[v]..first[v + 1] {
                    let at = &mut dense[v * topics + topic[i] as usize];
                    *at = (*at + factor * f64::from(mass[i])).max(0.0);
                }
            }
        }
        let lists_of = |dense: &[f64]| {
            let (mut first, mut topic, mut mass) = (vec![0], Vec::new(), Vec::new());
            for row in dense.chunks(topics) {
                row.iter().enumerate().filter(|e| *e.1 > 0.0).for_each(|(k, &m)| {
                    topic.push(k as u32);
                    mass.push(m);
                });
                first.push(topic.len());
            }
            (first, topic, mass)
        };
        let want = lists_of(&dense);
        assert!(want.1.len() > 100 && total.download().unwrap() == want, "K = {topics}: other sums");
        // Sums of sums, from there and from here.
        let mut copy = total.copy().unwrap();
        let sparse = Lists { first: &want.0, topic: &want.1, mass: &want.2 };
        copy.add(Part::Sparse(&SparseTotal::upload(&device, sizes, &sparse).unwrap()), 0.3).unwrap();
        copy.add(Part::Total(&total), -0.7).unwrap();
        copy.scale(1.7).unwrap();
        let changed: Vec<f64> = dense.iter().map(|m| (m + 0.3 * m + -0.7 * m).max(0.0) * 1.7).collect();
        assert!(copy.download().unwrap() == lists_of(&changed), "K = {topics}: other sums of sums");
        let batch = copy.as_batch().unwrap().download().unwrap();
        assert_eq!(batch.2, lists_of(&changed).2.iter().map(|&m| m as f32).collect::<Vec<_>>());
        // Topics, some of them pulled by words.
        let (first, topic, mass) = word_lists(&mut numbers, words, topics);
        let pull = Lists { first: &first, topic: &topic, mass: &mass };
        let width = topics.next_multiple_of(16);
        let shape = Shape { vocab_size: words, num_topics: topics, width, start_width };
        let scale: Vec<f32> = (0..topics).map(|_| (2.0 * numbers.next()).exp() as f32).collect();
        for (posterior, pulled) in [(false, false), (true, false), (false, true), (true, true)] {
            let lambda = 0.013;
            let term = |c: f64| if posterior { plain_ln_gamma(c) } else { c * c.ln() };
            let entry = |c: f64| if posterior { plain_digamma(c).exp() as f32 } else { c as f32 };
            let rule = Rule { lambda, posterior, none: entry(lambda), none_term: term(lambda), scale: &scale };
            let mut table = Table::new(&device, shape, pulled.then_some(pull)).unwrap();
            let terms = table.write(&total, &rule).unwrap();
            assert_eq!(terms, table.write(&total, &rule).unwrap());
            let (values, start_topic, start_value) = table.download().unwrap();
            for v in 0..words {
                let mut counts: Vec<f64> = dense[v * topics..][..topics].iter().map(|m| m + lambda).collect();
                if pulled {
                    (first[v]..first[v + 1]).for_each(|i| counts[topic[i] as usize] += f64::from(mass[i]));
                }
                let sum: f64 = counts.iter().map(|&c| term(c)).sum();
                let size: f64 = counts.iter().map(|&c| term(c).abs()).sum();
                assert!((terms[v] - sum).abs() <= 1e-12 * size, "K = {topics}, word {v}: {} and {sum}", terms[v]);
                let row = &values[v * width..(v + 1) * width];
                assert!(row[topics..].iter().all(|&w| w == 0.0));
                for (k, (&have, &c)) in row.iter().zip(&counts).enumerate() {
                    let far = (have - entry(c)).abs() > if posterior { 1.2e-7 * entry(c) } else { 0.0 };
                    assert!(!far, "K = {topics}, word {v}, topic {k}: {have} and {}", entry(c));
                }
                let weights: Vec<f32> = row[..topics].iter().zip(&scale).map(|(w, s)| w * s).collect();
                let mut order: Vec<usize> = (0..topics).collect();
                order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
                let of_word = v * start_width..(v + 1) * start_width;
                let chosen: Vec<usize> = start_topic[of_word.clone()].iter().map(|&k| k as usize).collect();
                assert_eq!(chosen, order[..start_width], "K = {topics}, word {v}");
                let all: f32 = chosen.iter().map(|&k| weights[k]).sum();
                let nothing = weights[order[start_width]] == weights[order[0]] || all <= 0.0;
                for (&k, &share) in chosen.iter().zip(&start_value[of_word]) {
                    assert_eq!(share, if nothing { 0.0 } else { weights[k] / all }, "K = {topics}, word {v}");
                }
            }
        }
    }
    // What is of another shape is refused.
    let lists = Lists { first: &[0, 1], topic: &[7], mass: &[1.0f32] };
    assert!(BatchWords::upload(&device, (1, 7), &lists).is_err());
    let batch = BatchWords::upload(&device, (1, 8), &lists).unwrap();
    assert!(TotalWords::zeros(&device, (1, 9)).unwrap().add(Part::Batch(&batch), 1.0).is_err());
}

#[test]
#[ignore = "needs a GPU"]
fn seeds_and_nearest_topics_are_those_of_plain_sums() {
    use lsparse_cuda::topics::{Lists, Sample, TotalWords};
    let device = Device::open(0).unwrap();
    let (vocab, lambda) = (500usize, 0.1f64);
    for documents in [3usize, 40, 5000] {
        let mut numbers = Numbers(documents as u64);
        let (mut first, mut word, mut count) = (vec![0], Vec::new(), Vec::new());
        for d in 0..documents {
            // Every ninth is a copy of the one before.
            if d % 9 == 8 {
                let before = first[d - 1]..first[d];
                word.extend_from_within(before.clone());
                count.extend_from_within(before);
            } else {
                for v in (0..vocab as u32).filter(|v| (*v as usize + d).is_multiple_of(2 + d % 40)) {
                    word.push(v);
                    count.push(1.0 + (4.0 * numbers.next()).exp().floor() as f32);
                }
            }
            first.push(word.len());
        }
        let of = |d: usize| word[first[d]..first[d + 1]].iter().zip(&count[first[d]..first[d + 1]]);
        let x_ln_x = |x: f64| x * x.ln();
        let length: Vec<f64> = (0..documents).map(|d| of(d).map(|(_, &c)| f64::from(c)).sum()).collect();
        let own_of = |d: usize| {
            let gains: f64 = of(d).map(|(_, &c)| x_ln_x(f64::from(c) + lambda) - x_ln_x(lambda)).sum();
            gains + vocab as f64 * x_ln_x(lambda) - x_ln_x(length[d] + vocab as f64 * lambda)
        };
        let own: Vec<f64> = (0..documents).map(own_of).collect();
        let sample = Sample::upload(&device, vocab, &first, &word, &count).unwrap();
        let num = (documents / 2).min(60);
        let shares: Vec<f64> = (1..num).map(|_| 0.5 * (numbers.next() + 1.0)).collect();
        let given = documents / 3;
        let found = sample.seeds(given, &shares, lambda, (&own, &length)).unwrap().unwrap();
        let (mut nearest, mut owner, mut seeds) = (vec![f64::INFINITY; documents], vec![0; documents], Vec::new());
        for k in 0..num {
            let seed = match k {
                0 => given,
                _ => {
                    let mut left = shares[k - 1] * nearest.iter().sum::<f64>();
                    let reached = |&d: &usize| {
                        left -= nearest[d];
                        nearest[d] > 0.0 && left <= 0.0
                    };
                    (0..documents).find(reached).unwrap()
                }
            };
            seeds.push(seed as u32);
            let mut mu = vec![lambda; vocab];
            of(seed).for_each(|(&v, &c)| mu[v as usize] += f64::from(c));
            let total = length[seed] + vocab as f64 * lambda;
            let constant: f64 = mu.iter().map(|m| lambda * (m / total).ln()).sum();
            for d in 0..documents {
                let cross: f64 = of(d).map(|(&v, &c)| f64::from(c) * (mu[v as usize] / total).ln()).sum();
                let divergence = if d == seed { 0.0 } else { own[d] - constant - cross };
                // (Roundings of single precision apart.)
                if divergence < nearest[d] - 1e-4 * (1.0 + length[d]) || d == seed {
                    (nearest[d], owner[d]) = (divergence.max(0.0), k as u32);
                }
            }
        }
        let same = |a: &[u32], b: &[u32]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        println!("{documents} documents: {} of {num} seeds", same(&found.0, &seeds));
        assert!(same(&found.0, &seeds) * 10 >= num * 9, "{:?} and {seeds:?}", found.0);
        assert!(found == sample.seeds(given, &shares, lambda, (&own, &length)).unwrap().unwrap(), "other bits");
        if found.0 == seeds {
            assert!(same(&found.1, &owner) * 100 >= documents * 97, "{} owners", same(&found.1, &owner));
        }
        // Topics that are the first seeds.
        let topics = num.min(37);
        let mut dense = vec![0.0f64; vocab * topics];
        for (k, &seed) in seeds[..topics].iter().enumerate() {
            of(seed as usize).for_each(|(&v, &c)| dense[v as usize * topics + k] += f64::from(c));
        }
        let (mut of_word, mut topic, mut mass) = (vec![0], Vec::new(), Vec::new());
        for row in dense.chunks(topics) {
            row.iter().enumerate().filter(|e| *e.1 > 0.0).for_each(|(k, &m)| {
                topic.push(k as u32);
                mass.push(m);
            });
            of_word.push(topic.len());
        }
        let lists = Lists { first: &of_word, topic: &topic, mass: &mass };
        let sums: Vec<f64> = seeds[..topics].iter().map(|&s| length[s as usize] + vocab as f64 * lambda).collect();
        let total = TotalWords::upload(&device, (vocab, topics), &lists).unwrap();
        let nearest = sample.nearest(&total, lambda, &sums).unwrap();
        // Documents of these topics, and the same topics among others.
        let mut expected = vec![0.0f64; vocab * topics];
        for (d, &k) in nearest.iter().enumerate() {
            of(d).for_each(|(&v, &c)| expected[v as usize * topics + k as usize] += f64::from(c));
        }
        let gathered = sample.gathered(&nearest, topics).unwrap().unwrap();
        let places: Vec<u32> = (0..topics as u32).map(|k| 2 * (topics as u32 - k) - 1).collect();
        let spread = gathered.spread(&places, 2 * topics + 3).unwrap().download().unwrap();
        let gathered = gathered.download().unwrap();
        for v in 0..vocab {
            let mut row = vec![0.0; topics];
            (gathered.0[v]..gathered.0[v + 1]).for_each(|i| row[gathered.1[i] as usize] = gathered.2[i]);
            assert_eq!(row, expected[v * topics..(v + 1) * topics], "word {v}");
            let mut other = vec![0.0; topics];
            for i in spread.0[v]..spread.0[v + 1] {
                other[topics - (spread.1[i] as usize).div_ceil(2)] = spread.2[i];
            }
            assert_eq!(other, row, "word {v}");
        }
        for (d, &have) in nearest.iter().enumerate() {
            let weight = |k: usize| -> f64 {
                of(d).map(|(&v, &c)| f64::from(c) * ((dense[v as usize * topics + k] + lambda) / sums[k]).ln()).sum()
            };
            let best = (0..topics).map(weight).fold(f64::NEG_INFINITY, f64::max);
            assert!(
                weight(have as usize) >= best - 1e-5 * best.abs() - 1e-9,
                "document {d} is nearer to another topic"
            );
        }
    }
    // Copies of one document: nobody is left to be drawn.
    let (first, word): (Vec<usize>, Vec<u32>) = ((0..=40).map(|d| 2 * d).collect(), [1, 3].repeat(40));
    let sample = Sample::upload(&device, 5, &first, &word, &[2.0; 80]).unwrap();
    let x_ln_x = |x: f64| x * x.ln();
    let own = 2.0 * x_ln_x(2.1) + 3.0 * x_ln_x(0.1) - x_ln_x(4.5);
    let found = sample.seeds(7, &[0.3, 0.9], 0.1, (&[own; 40], &[4.0; 40])).unwrap();
    assert!(found.is_none_or(|(_, owner)| owner.iter().all(|&k| k < 3)));
    assert!(Sample::upload(&device, 3, &first, &word, &[2.0; 80]).is_err(), "a word beyond the vocabulary");
    // Sums of other counts hang on the order.
    let sample = Sample::upload(&device, 5, &first, &word, &[0.3; 80]).unwrap();
    assert!(sample.gathered(&[0; 40], 2).unwrap().is_none());
    assert!(sample.gathered(&[2; 40], 2).is_err());
}
