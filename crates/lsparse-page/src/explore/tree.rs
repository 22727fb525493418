//! A tree of topics: the two nearest groups are joined until one is left, by the average distance of their topics.

/// Two groups that are joined. Groups below K are topics; group K + i is what merge i made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Merge {
    /// One group.
    pub left: u32,
    /// The other, with the higher number.
    pub right: u32,
    /// The average distance of a topic of one to a topic of the other.
    pub height: f32,
}

/// Average linkage over a matrix of distances (K x K), lowest merges first.
///
/// Nearest-neighbour chains: from any group one goes to its nearest, and so on, until two are each other's nearest; those are
/// joined. Average linkage allows it, and all takes K^2 steps.
pub fn tree(num: usize, mut square: Vec<f32>) -> Vec<Merge> {
    (0..num).for_each(|k| square[k * num + k] = f32::INFINITY);
    let mut size = vec![1.0f64; num];
    let mut alive: Vec<bool> = vec![true; num];
    let mut chain: Vec<usize> = Vec::new();
    let mut found: Vec<(usize, usize, f32)> = Vec::with_capacity(num.saturating_sub(1));
    let mut first = 0;
    while found.len() + 1 < num {
        if chain.is_empty() {
            while !alive[first] {
                first += 1;
            }
            chain.push(first);
        }
        let last = chain[chain.len() - 1];
        let row = &square[last * num..(last + 1) * num];
        let least = smallest(row);
        // Of equals the one before, or chains would go round in circles.
        let before = chain.len().checked_sub(2).map(|at| chain[at]).filter(|&before| row[before] <= least);
        let nearest = before.or_else(|| row.iter().position(|&d| d == least)).unwrap_or(last);
        if before.is_none() {
            chain.push(nearest);
            continue;
        }
        chain.truncate(chain.len() - 2);
        let (kept, gone) = (last.min(nearest), last.max(nearest));
        found.push((kept, gone, least));
        let (a, b) = (size[kept], size[gone]);
        for x in 0..num {
            if !alive[x] || x == kept || x == gone {
                continue;
            }
            let (to_kept, to_gone) = (square[kept * num + x], square[gone * num + x]);
            let mean = ((a * f64::from(to_kept) + b * f64::from(to_gone)) / (a + b)) as f32;
            square[kept * num + x] = mean;
            square[x * num + kept] = mean;
            square[x * num + gone] = f32::INFINITY;
        }
        square[kept * num + gone] = f32::INFINITY;
        alive[gone] = false;
        size[kept] = a + b;
    }
    // Chains find merges in an order of their own.
    found.sort_by(|a, b| a.2.total_cmp(&b.2));
    let mut group: Vec<u32> = (0..num as u32).collect();
    let mut parent: Vec<usize> = (0..num).collect();
    let root = |parent: &mut Vec<usize>, mut at: usize| {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    };
    let join = |(i, &(a, b, height)): (usize, &(usize, usize, f32))| {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        let (left, right) = (group[a].min(group[b]), group[a].max(group[b]));
        parent[b] = a;
        group[a] = (num + i) as u32;
        Merge { left, right, height }
    };
    found.iter().enumerate().map(join).collect()
}

/// The smallest of many numbers, eight lanes at a time.
fn smallest(row: &[f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<8>();
    let mut least = [f32::INFINITY; 8];
    for chunk in chunks {
        least.iter_mut().zip(chunk).for_each(|(least, &d)| *least = if d < *least { d } else { *least });
    }
    least.iter().chain(rest).copied().fold(f32::INFINITY, f32::min)
}
