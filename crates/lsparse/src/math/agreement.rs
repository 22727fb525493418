//! How well clusters agree with known classes: normalised mutual information, adjusted Rand index, purity.

use std::collections::HashMap;

use serde::Serialize;

/// How well clusters agree with classes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Mutual information over the mean of the two entropies, from 0 to 1.
    pub nmi: f64,
    /// Share of pairs of rows that are together in both or apart in both, less what chance gives: 1 for the same
    /// partition, about 0 for a random one.
    pub ari: f64,
    /// Share of rows that are of the commonest class of their cluster; clusters of one row each are pure, too.
    pub purity: f64,
    /// Classes there are.
    pub classes: usize,
    /// Clusters that have rows.
    pub clusters: usize,
}

impl Agreement {
    /// Of rows by their classes and clusters, one of each a row.
    ///
    /// ```
    /// use lsparse::math::agreement::Agreement;
    ///
    /// let found = Agreement::of(&["a", "a", "b", "b"], &[1, 1, 0, 2]);
    /// assert_eq!((found.purity, found.classes, found.clusters), (1.0, 2, 3));
    /// ```
    pub fn of<A: AsRef<str>>(classes: &[A], clusters: &[u32]) -> Self {
        // Numbered in the order that they come, so that sums do not depend on hashes.
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut cells: HashMap<(usize, usize), f64> = HashMap::new();
        for (class, &cluster) in classes.iter().zip(clusters) {
            let next = numbers.len();
            let class = *numbers.entry(class.as_ref()).or_insert(next);
            let next = places.len();
            let cluster = *places.entry(cluster).or_insert(next);
            *cells.entry((class, cluster)).or_default() += 1.0;
        }
        let mut cells: Vec<((usize, usize), f64)> = cells.into_iter().collect();
        cells.sort_unstable_by_key(|cell| cell.0);
        let (mut of_class, mut of_cluster) = (vec![0.0; numbers.len()], vec![0.0; places.len()]);
        let mut commonest = vec![0.0f64; places.len()];
        for &((class, cluster), count) in &cells {
            of_class[class] += count;
            of_cluster[cluster] += count;
            commonest[cluster] = commonest[cluster].max(count);
        }
        let rows: f64 = of_class.iter().sum();
        Agreement {
            nmi: mutual_information(&cells, &of_class, &of_cluster, rows),
            ari: rand_index(&cells, &of_class, &of_cluster, rows),
            purity: commonest.iter().sum::<f64>() / rows.max(1.0),
            classes: of_class.len(),
            clusters: of_cluster.len(),
        }
    }
}

/// I(class; cluster) / ((H(class) + H(cluster)) / 2); 1 where there is one of each.
fn mutual_information(cells: &[((usize, usize), f64)], of_class: &[f64], of_cluster: &[f64], rows: f64) -> f64 {
    if of_class.len() <= 1 && of_cluster.len() <= 1 {
        return 1.0;
    }
    let shared = cells.iter().map(|&((a, b), n)| n / rows * (n * rows / (of_class[a] * of_cluster[b])).ln());
    let entropy = |counts: &[f64]| -counts.iter().map(|n| n / rows * (n / rows).ln()).sum::<f64>();
    let mean = 0.5 * (entropy(of_class) + entropy(of_cluster));
    // Rounding may leave a trace of either sign.
    let shared: f64 = shared.sum();
    if shared <= f64::EPSILON { 0.0 } else { (shared / mean).min(1.0) }
}

/// The adjusted Rand index (Hubert and Arabie 1985), from counts of ordered pairs of rows.
fn rand_index(cells: &[((usize, usize), f64)], of_class: &[f64], of_cluster: &[f64], rows: f64) -> f64 {
    let squares = |counts: &[f64]| counts.iter().map(|n| n * n).sum::<f64>();
    let together: f64 = cells.iter().map(|cell| cell.1 * cell.1).sum();
    let (classes, clusters) = (squares(of_class), squares(of_cluster));
    let (both, class_alone, cluster_alone) = (together - rows, classes - together, clusters - together);
    let neither = rows * rows - together - class_alone - cluster_alone;
    if class_alone == 0.0 && cluster_alone == 0.0 {
        return 1.0;
    }
    let chance = (both + class_alone) * (class_alone + neither) + (both + cluster_alone) * (cluster_alone + neither);
    2.0 * (both * neither - class_alone * cluster_alone) / chance
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NMI and ARI as scikit-learn 1.9.1 has them, purity from its table of counts.
    #[test]
    fn as_in_scikit_learn() {
        let all = |count: u32, of: fn(u32) -> u32| -> Vec<u32> { (0..count).map(of).collect() };
        for (classes, clusters, nmi, ari, purity) in [
            (vec![0, 0, 1, 1, 2, 2], vec![0, 0, 1, 2, 2, 2], 0.7396673768007592, 0.4444444444444444, 5.0 / 6.0),
            (vec![0; 4], vec![0, 1, 2, 3], 0.0, 0.0, 1.0),
            (vec![0; 3], vec![0; 3], 1.0, 1.0, 1.0),
            (vec![0, 1, 2], vec![0, 1, 2], 1.0, 1.0, 1.0),
            (vec![0, 1, 0, 1], vec![0, 0, 1, 1], 0.0, -0.5, 0.5),
            (
                all(97, |n| n * 7 % 5),
                all(97, |n| (n * n + n / 3) % 7),
                0.01136871554776685,
                -0.04314610992455739,
                0.21649484536082475,
            ),
            (all(97, |n| n / 20), all(97, |n| n / 17), 0.698491733444276, 0.5350140766479824, 0.7731958762886598),
        ] {
            let names: Vec<String> = classes.iter().map(u32::to_string).collect();
            let found = Agreement::of(&names, &clusters);
            for (ours, theirs) in [(found.nmi, nmi), (found.ari, ari), (found.purity, purity)] {
                assert!((ours - theirs).abs() < 1e-12, "{found:?}: {ours} and {theirs}");
            }
        }
    }
}
