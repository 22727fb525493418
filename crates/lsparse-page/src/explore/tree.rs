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
    let mut found: Vec<(usize, usize, f32)> = Vec::with_capacity(num.saturating_sub(1));
    // Rows and columns that there are: the topic that each stands for, and how many topics its group has. Those that have
    // gone into others stay until they are half of all; until then something infinite is added to their distances.
    let mut topic: Vec<usize> = (0..num).collect();
    let (mut size, mut gone) = (vec![1.0f64; num], vec![0.0f32; num]);
    let (mut width, mut alive) = (num, num);
    let mut chain: Vec<usize> = Vec::new();
    while alive > 1 {
        let last = match chain.last() {
            Some(&last) => last,
            None => {
                let first = gone.iter().position(|&gone| gone == 0.0).unwrap_or(0);
                chain.push(first);
                first
            }
        };
        let row = &square[last * width..(last + 1) * width];
        let least = smallest(row, &gone);
        // Of equals the one before, or chains would go round in circles.
        let before = chain.len().checked_sub(2).map(|at| chain[at]).filter(|&before| row[before] <= least);
        let Some(nearest) = before else {
            let nearest = (0..width).position(|x| row[x] == least && gone[x] == 0.0 && x != last);
            chain.push(nearest.unwrap_or(last));
            continue;
        };
        chain.truncate(chain.len() - 2);
        let (kept, other) = (last.min(nearest), last.max(nearest));
        found.push((topic[kept], topic[other], least));
        let (a, b) = (size[kept], size[other]);
        let (rows, others) = square.split_at_mut(other * width);
        let (row, other_row) = (&mut rows[kept * width..(kept + 1) * width], &others[..width]);
        for (to_kept, &to_other) in row.iter_mut().zip(other_row) {
            *to_kept = ((a * f64::from(*to_kept) + b * f64::from(to_other)) / (a + b)) as f32;
        }
        row[kept] = f32::INFINITY;
        gone[other] = f32::INFINITY;
        for x in 0..width {
            if gone[x] == 0.0 {
                square[x * width + kept] = square[kept * width + x];
            }
        }
        size[kept] = a + b;
        alive -= 1;
        if alive * 2 <= width {
            let stay: Vec<usize> = (0..width).filter(|&x| gone[x] == 0.0).collect();
            for (to, &from) in stay.iter().enumerate() {
                for (at, &x) in stay.iter().enumerate() {
                    square[to * stay.len() + at] = square[from * width + x];
                }
            }
            chain.iter_mut().for_each(|group| *group = stay.partition_point(|&x| x < *group));
            (topic, size) = stay.iter().map(|&x| (topic[x], size[x])).unzip();
            (gone, width) = (vec![0.0; stay.len()], stay.len());
        }
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

/// The smallest of many sums of two numbers, eight lanes at a time.
fn smallest(row: &[f32], gone: &[f32]) -> f32 {
    let ((chunks, rest), (gone, gone_rest)) = (row.as_chunks::<8>(), gone.as_chunks::<8>());
    let mut least = [f32::INFINITY; 8];
    for (chunk, gone) in chunks.iter().zip(gone) {
        for ((least, &d), &gone) in least.iter_mut().zip(chunk).zip(gone) {
            *least = if d + gone < *least { d + gone } else { *least };
        }
    }
    let rest = rest.iter().zip(gone_rest).map(|(d, gone)| d + gone);
    least.into_iter().chain(rest).fold(f32::INFINITY, f32::min)
}
