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
        for (dim, num) in [(1, 3), (16, 40), (64, 130), (100, 33)] {
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
        for (dim, num) in [(5, 9), (64, 130)] {
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
