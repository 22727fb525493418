//! Cholesky factors, triangular inverses and eigenvalue clipping of small symmetric matrices in f64.
//!
//! Written out rather than taken from a linear-algebra crate: these three are all the library needs, they run once
//! a cluster and global step, and the crates that have them take longer to build than everything else together.

use lsparse_kernels::dot_f64;

/// Entries of a packed lower triangle of a `dim` x `dim` matrix, stored row by row: `(i, j)` at `i (i + 1) / 2 + j`.
pub fn packed_len(dim: usize) -> usize {
    dim * (dim + 1) / 2
}

/// Expand a packed lower triangle to a full symmetric row-major matrix.
pub fn unpack(packed: &[f64], dim: usize) -> Vec<f64> {
    let mut full = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let v = packed[i * (i + 1) / 2 + j];
            full[i * dim + j] = v;
            full[j * dim + i] = v;
        }
    }
    full
}

/// Pack the lower triangle of a full row-major matrix.
pub fn pack(full: &[f64], dim: usize, packed: &mut [f64]) {
    for i in 0..dim {
        packed[i * (i + 1) / 2..i * (i + 1) / 2 + i + 1].copy_from_slice(&full[i * dim..i * dim + i + 1]);
    }
}

/// Replace the lower triangle of `a` (row-major) by its Cholesky factor; the upper triangle is left as it was.
///
/// Fails with the first pivot that is not above zero: the matrix is not positive definite.
pub fn cholesky_in_place(a: &mut [f64], dim: usize) -> Result<(), f64> {
    for i in 0..dim {
        for j in 0..=i {
            let (upper_rows, row_i) = a.split_at_mut(i * dim);
            if j < i {
                let row_j = &upper_rows[j * dim..j * dim + dim];
                row_i[j] = (row_i[j] - dot_f64(&row_i[..j], &row_j[..j])) / row_j[j];
            } else {
                let pivot = row_i[i] - dot_f64(&row_i[..i], &row_i[..i]);
                if pivot <= 0.0 || !pivot.is_finite() {
                    return Err(pivot);
                }
                row_i[i] = pivot.sqrt();
            }
        }
    }
    Ok(())
}

/// log determinant of the matrix whose lower Cholesky factor is given.
pub fn log_det_from_cholesky(factor: &[f64], dim: usize) -> f64 {
    2.0 * (0..dim).map(|i| factor[i * dim + i].ln()).sum::<f64>()
}

/// The determinant of a small matrix, which is worked on in its place, by elimination with the largest pivot of a column.
pub fn determinant(matrix: &mut [f64], dim: usize) -> f64 {
    let mut det = 1.0;
    for i in 0..dim {
        let size = |row: &usize| matrix[row * dim + i].abs();
        let Some(pivot) = (i..dim).max_by(|a, b| size(a).total_cmp(&size(b))) else { break };
        if pivot != i {
            (0..dim).for_each(|j| matrix.swap(i * dim + j, pivot * dim + j));
            det = -det;
        }
        let (above, below) = matrix.split_at_mut((i + 1) * dim);
        let row = &above[i * dim..];
        det *= row[i];
        if row[i] == 0.0 {
            return 0.0;
        }
        for other in below.chunks_exact_mut(dim) {
            let times = other[i] / row[i];
            (i..dim).for_each(|j| other[j] -= times * row[j]);
        }
    }
    det
}

/// Inverse of a lower-triangular row-major matrix (its upper triangle is ignored; that of the result is zero).
pub fn invert_lower(factor: &[f64], dim: usize) -> Vec<f64> {
    // Built transposed, so that each entry is a dot product of two contiguous stretches:
    // inv[i][j] = -(sum_{j<=m<i} L[i][m] inv[m][j]) / L[i][i].
    let mut transposed = vec![0.0; dim * dim];
    for i in 0..dim {
        let row = &factor[i * dim..i * dim + dim];
        let scale = 1.0 / row[i];
        for j in 0..i {
            let sum = dot_f64(&row[j..i], &transposed[j * dim + j..j * dim + i]);
            transposed[j * dim + i] = -sum * scale;
        }
        transposed[i * dim + i] = scale;
    }
    let mut inverse = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            inverse[i * dim + j] = transposed[j * dim + i];
        }
    }
    inverse
}

/// tr(M A M^T) for lower-triangular `m` and symmetric `a`, both row-major: the quadratic form of a whole statistic.
pub fn trace_of_form(m: &[f64], a: &[f64], dim: usize) -> f64 {
    let mut total = 0.0;
    for i in 0..dim {
        let row = &m[i * dim..i * dim + i + 1];
        for (p, &left) in row.iter().enumerate() {
            total += left * dot_f64(row, &a[p * dim..p * dim + i + 1]);
        }
    }
    total
}

/// Eigenvalues and eigenvectors (as rows) of a symmetric matrix: reflections make it tridiagonal, and rotations of
/// neighbouring rows diagonal (implicit QL).
pub fn symmetric_eigen(matrix: &[f64], dim: usize) -> (Vec<f64>, Vec<f64>) {
    let mut a = matrix.to_vec();
    let (mut values, mut beside, reflections) = tridiagonal(&mut a, dim);
    let mut vectors = a;
    vectors.fill(0.0);
    (0..dim).for_each(|i| vectors[i * dim + i] = 1.0);
    for first in 0..dim {
        for _ in 0..MOST_TURNS {
            let is_small = |i: &usize| beside[*i].abs() <= f64::EPSILON * (values[*i].abs() + values[*i + 1].abs());
            let last = (first..dim - 1).find(is_small).unwrap_or(dim - 1);
            if last == first {
                break;
            }
            turn(&mut values, &mut beside, &mut vectors, first, last);
        }
    }
    for vector in vectors.chunks_exact_mut(dim) {
        for (start, normal) in reflections.iter().rev() {
            reflect(normal, &mut vector[*start..]);
        }
    }
    (values, vectors)
}

/// Turns after which an eigenvalue is as good as it gets; two are usual.
const MOST_TURNS: usize = 60;

/// x - v (v.x), with v of length sqrt(2).
fn reflect(normal: &[f64], x: &mut [f64]) {
    let along = dot_f64(normal, x);
    x.iter_mut().zip(normal).for_each(|(x, v)| *x -= along * v);
}

/// Reflections that make a symmetric matrix tridiagonal, each with the entry that it begins at: the diagonal, what is
/// beside it, and those. The matrix is used up.
fn tridiagonal(a: &mut [f64], dim: usize) -> (Vec<f64>, Vec<f64>, Vec<(usize, Vec<f64>)>) {
    let (mut diagonal, mut beside, mut reflections) = (vec![0.0; dim], vec![0.0; dim], Vec::new());
    for k in 0..dim {
        diagonal[k] = a[k * dim + k];
        let start = k + 1;
        if start == dim {
            break;
        }
        let mut normal = a[k * dim + start..(k + 1) * dim].to_vec();
        let rest = dot_f64(&normal[1..], &normal[1..]);
        if rest == 0.0 {
            beside[k] = normal[0];
            continue;
        }
        // To the side on which nothing cancels.
        let length = (normal[0] * normal[0] + rest).sqrt().copysign(normal[0]);
        beside[k] = -length;
        normal[0] += length;
        let unit = (2.0 / (normal[0] * normal[0] + rest)).sqrt();
        normal.iter_mut().for_each(|v| *v *= unit);
        // A - v w^T - w v^T with w = A v - (v.A v) v / 2.
        let mut w: Vec<f64> = (start..dim).map(|i| dot_f64(&a[i * dim + start..(i + 1) * dim], &normal)).collect();
        let half = 0.5 * dot_f64(&w, &normal);
        w.iter_mut().zip(&normal).for_each(|(w, v)| *w -= half * v);
        for i in start..dim {
            let (v, u) = (normal[i - start], w[i - start]);
            let row = a[i * dim + start..(i + 1) * dim].iter_mut();
            row.zip(w.iter().zip(&normal)).for_each(|(a, (w, n))| *a -= v * w + u * n);
        }
        reflections.push((start, normal));
    }
    (diagonal, beside, reflections)
}

/// One implicit QL step between two places of a tridiagonal matrix, which vectors (as rows) follow.
fn turn(values: &mut [f64], beside: &mut [f64], vectors: &mut [f64], first: usize, last: usize) {
    let dim = values.len();
    let mut g = (values[first + 1] - values[first]) / (2.0 * beside[first]);
    g = values[last] - values[first] + beside[first] / (g + g.hypot(1.0).copysign(g));
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (s * beside[i], c * beside[i]);
        let r = f.hypot(g);
        beside[i + 1] = r;
        if r == 0.0 {
            // What is beside it has become nothing in between.
            values[i + 1] -= p;
            beside[last] = 0.0;
            return;
        }
        (s, c) = (f / r, g / r);
        g = values[i + 1] - p;
        let r = (values[i] - g) * s + 2.0 * c * b;
        p = s * r;
        values[i + 1] = g + p;
        g = c * r - b;
        let (x, y) = vectors[i * dim..(i + 2) * dim].split_at_mut(dim);
        for (x, y) in x.iter_mut().zip(y) {
            (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
        }
    }
    values[first] -= p;
    beside[first] = g;
    beside[last] = 0.0;
}

/// Raise every eigenvalue of `matrix` below 1, measured in units of `floor` (one a row), to 1, in place.
///
/// This is the exact maximiser of the Gaussian likelihood under the constraint `covariance >= diag(floor)`; adding a
/// ridge instead would make the objective dip. A matrix that is already above the floor is left untouched. Says
/// whether anything was changed.
pub fn clip_eigenvalues(matrix: &mut [f64], dim: usize, floor: &[f64]) -> bool {
    // matrix - diag(floor) positive definite <=> every eigenvalue is above the floor: a Cholesky factor is far cheaper
    // than an eigendecomposition, and nearly always settles it.
    let mut shifted = matrix.to_vec();
    for (i, f) in floor.iter().enumerate() {
        shifted[i * dim + i] -= f;
    }
    if cholesky_in_place(&mut shifted, dim).is_ok() {
        return false;
    }
    let unit: Vec<f64> = floor.iter().map(|f| f.sqrt()).collect();
    for (i, row) in matrix.chunks_exact_mut(dim).enumerate() {
        row.iter_mut().zip(&unit).for_each(|(v, u)| *v /= unit[i] * u);
    }
    let (values, mut vectors) = symmetric_eigen(matrix, dim);
    matrix.fill(0.0);
    for (vector, value) in vectors.chunks_exact_mut(dim).zip(values) {
        let size = value.max(1.0).sqrt();
        vector.iter_mut().zip(&unit).for_each(|(v, unit)| *v *= size * unit);
        for (row, &left) in matrix.chunks_exact_mut(dim).zip(&*vector) {
            row.iter_mut().zip(&*vector).for_each(|(to, right)| *to += left * right);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A well-conditioned symmetric matrix with entries that follow no pattern.
    fn sample(dim: usize) -> Vec<f64> {
        let b: Vec<f64> = (0..dim * dim).map(|i| ((i * 7919 + 13) % 101) as f64 / 50.0 - 1.0).collect();
        let mut a = vec![0.0; dim * dim];
        for i in 0..dim {
            for j in 0..dim {
                a[i * dim + j] = (0..dim).map(|m| b[i * dim + m] * b[j * dim + m]).sum::<f64>();
            }
            a[i * dim + i] += 0.5;
        }
        a
    }

    #[test]
    fn a_determinant_is_that_of_the_factors() {
        assert_eq!(determinant(&mut [], 0), 1.0);
        assert_eq!(determinant(&mut [0.0, 2.0, 3.0, 4.0], 2), -6.0);
        assert_eq!(determinant(&mut [1.0, 2.0, 2.0, 4.0], 2), 0.0);
        // L U with rows in another order, an odd one.
        let (l, u) = ([1.0, 0.0, 0.0, 0.5, 1.0, 0.0, -2.0, 3.0, 1.0], [2.0, 1.0, -1.0, 0.0, 0.25, 7.0, 0.0, 0.0, -3.0]);
        let at = |i: usize, j: usize| (0..3).map(|k| l[i * 3 + k] * u[k * 3 + j]).sum::<f64>();
        let mut matrix: Vec<f64> = [2, 1, 0].into_iter().flat_map(|i| (0..3).map(move |j| at(i, j))).collect();
        assert!((determinant(&mut matrix, 3) - 1.5).abs() < 1e-12);
    }

    #[test]
    fn factor_and_inverse_multiply_back() {
        for dim in [1, 2, 3, 7, 20] {
            let a = sample(dim);
            let mut l = a.clone();
            cholesky_in_place(&mut l, dim).unwrap();
            let inv = invert_lower(&l, dim);
            for i in 0..dim {
                for j in 0..dim {
                    let product: f64 = (0..=i.min(j)).map(|m| l[i * dim + m] * l[j * dim + m]).sum();
                    assert!((product - a[i * dim + j]).abs() < 1e-10, "dim {dim}");
                    let unit: f64 = (j..=i).map(|m| l[i * dim + m] * inv[m * dim + j]).sum();
                    assert!((unit - f64::from(u8::from(i == j))).abs() < 1e-9, "dim {dim}");
                }
            }
            // tr(L^-1 A L^-T) = tr(I)
            assert!((trace_of_form(&inv, &a, dim) - dim as f64).abs() < 1e-8);
        }
    }

    #[test]
    fn a_matrix_that_is_not_positive_definite_names_its_pivot() {
        let mut a = vec![1.0, 2.0, 2.0, 1.0];
        assert_eq!(cholesky_in_place(&mut a, 2), Err(-3.0));
    }

    /// Eigenvalues and eigenvectors (as rows) of a symmetric matrix, by cyclic Jacobi rotations.
    ///
    /// Slow and very accurate: what the other is compared with.
    fn eigen_by_rotations(matrix: &[f64], dim: usize) -> (Vec<f64>, Vec<f64>) {
        let mut a = matrix.to_vec();
        let mut vectors = vec![0.0; dim * dim];
        for i in 0..dim {
            vectors[i * dim + i] = 1.0;
        }
        let scale: f64 = a.iter().map(|v| v * v).sum::<f64>().sqrt();
        for _sweep in 0..60 {
            let mut off = 0.0;
            for p in 0..dim {
                for q in 0..p {
                    off += a[p * dim + q] * a[p * dim + q];
                }
            }
            if off.sqrt() <= 1e-17 * scale {
                break;
            }
            for p in 1..dim {
                for q in 0..p {
                    rotate(&mut a, &mut vectors, dim, q, p);
                }
            }
        }
        ((0..dim).map(|i| a[i * dim + i]).collect(), vectors)
    }

    /// One Jacobi rotation that makes `a[p][q]` zero.
    fn rotate(a: &mut [f64], vectors: &mut [f64], dim: usize, p: usize, q: usize) {
        let apq = a[p * dim + q];
        if apq == 0.0 {
            return;
        }
        let theta = (a[q * dim + q] - a[p * dim + p]) / (2.0 * apq);
        let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
        let c = 1.0 / (t * t + 1.0).sqrt();
        let s = t * c;
        for i in 0..dim {
            let (x, y) = (a[i * dim + p], a[i * dim + q]);
            a[i * dim + p] = c * x - s * y;
            a[i * dim + q] = s * x + c * y;
        }
        for i in 0..dim {
            let (x, y) = (a[p * dim + i], a[q * dim + i]);
            a[p * dim + i] = c * x - s * y;
            a[q * dim + i] = s * x + c * y;
            let (x, y) = (vectors[p * dim + i], vectors[q * dim + i]);
            vectors[p * dim + i] = c * x - s * y;
            vectors[q * dim + i] = s * x + c * y;
        }
    }

    #[test]
    fn eigenvalues_are_those_of_slow_rotations_whatever_the_rank() {
        for dim in [1, 2, 3, 8, 33, 70] {
            for rank in [0, 1, dim / 2, dim] {
                let rows: Vec<f64> = (0..rank * dim).map(|i| ((i * 7919 + 13) % 1009) as f64 / 500.0 - 1.0).collect();
                let mut a = vec![0.0; dim * dim];
                for row in rows.chunks_exact(dim) {
                    (0..dim * dim).for_each(|at| a[at] += row[at / dim] * row[at % dim]);
                }
                let (values, vectors) = symmetric_eigen(&a, dim);
                for e in 0..dim {
                    let of = |e: usize| &vectors[e * dim..(e + 1) * dim];
                    for other in 0..dim {
                        let product = of(e).iter().zip(of(other)).map(|(x, y)| x * y).sum::<f64>();
                        assert!((product - f64::from(u8::from(e == other))).abs() < 1e-12, "{dim} {rank}");
                    }
                    for i in 0..dim {
                        let image = (0..dim).map(|j| a[i * dim + j] * of(e)[j]).sum::<f64>();
                        assert!((image - values[e] * of(e)[i]).abs() < 1e-11 * (1.0 + values[e]), "{dim} {rank}");
                    }
                }
                let (mut values, (mut slow, _)) = (values, eigen_by_rotations(&a, dim));
                values.sort_by(f64::total_cmp);
                slow.sort_by(f64::total_cmp);
                let most = slow[dim - 1].max(1.0);
                assert!(values.iter().zip(&slow).all(|(x, y)| (x - y).abs() < 1e-13 * most), "{dim} {rank}");
            }
        }
    }

    #[test]
    fn eigenvectors_rebuild_the_matrix_and_clipping_raises_only_small_values() {
        let dim = 9;
        let a = sample(dim);
        let (values, vectors) = symmetric_eigen(&a, dim);
        let mut rebuilt = vec![0.0; dim * dim];
        for e in 0..dim {
            for i in 0..dim {
                for j in 0..dim {
                    rebuilt[i * dim + j] += values[e] * vectors[e * dim + i] * vectors[e * dim + j];
                }
            }
        }
        assert!(a.iter().zip(&rebuilt).all(|(x, y)| (x - y).abs() < 1e-10));

        let floor = 2.0;
        let mut clipped = a.clone();
        assert!(clip_eigenvalues(&mut clipped, dim, &[floor; 9]));
        let (mut after, _) = symmetric_eigen(&clipped, dim);
        let mut expected: Vec<f64> = values.iter().map(|v| v.max(floor)).collect();
        after.sort_by(f64::total_cmp);
        expected.sort_by(f64::total_cmp);
        assert!(after.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-9));

        let mut untouched = a.clone();
        let lowest = values.iter().cloned().fold(f64::INFINITY, f64::min);
        assert!(!clip_eigenvalues(&mut untouched, dim, &[lowest * 0.5; 9]));
        assert_eq!(untouched, a);
    }
}
