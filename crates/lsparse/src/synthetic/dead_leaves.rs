//! "Dead leaves" images: overlapping discs of many sizes, whose patches have the statistics of natural images
//! (`lee2001occlusion`).

use rand::RngExt;

use super::generator;

/// A grey image, row by row, in which leaves of radius r fall with density r^-3 until everything is covered.
///
/// Shading across each leaf and a little noise keep patches from being exactly flat, though some are.
pub fn dead_leaves(width: usize, height: usize, seed: u64) -> Vec<u8> {
    let mut rng = generator(seed);
    let mut image = vec![0u8; width * height];
    let mut covered = vec![false; width * height];
    let mut left = width * height;
    let (smallest, largest) = (2.0f64, width.max(height) as f64 / 4.0);
    while left > 0 {
        // Inverse of the distribution function of a density proportional to r^-3 on [smallest, largest].
        let u: f64 = rng.random();
        let radius = 1.0 / (smallest.powi(-2) * (1.0 - u) + largest.powi(-2) * u).sqrt();
        let (cx, cy) = (rng.random::<f64>() * width as f64, rng.random::<f64>() * height as f64);
        let grey = rng.random::<f64>() * 255.0;
        let (slope_x, slope_y) = (rng.random::<f64>() - 0.5, rng.random::<f64>() - 0.5);
        let noise = if rng.random::<f64>() < 0.3 { 0.0 } else { rng.random::<f64>() * 12.0 };
        let rows = (cy - radius).max(0.0) as usize..((cy + radius + 1.0) as usize).min(height);
        for y in rows {
            let columns = (cx - radius).max(0.0) as usize..((cx + radius + 1.0) as usize).min(width);
            for x in columns {
                let (dx, dy) = (x as f64 - cx, y as f64 - cy);
                let at = y * width + x;
                // Leaves that fall later lie below: only what is still bare is painted.
                if !covered[at] && dx * dx + dy * dy <= radius * radius {
                    covered[at] = true;
                    left -= 1;
                    let shade = grey + slope_x * dx + slope_y * dy + noise * (rng.random::<f64>() - 0.5);
                    image[at] = shade.clamp(0.0, 255.0) as u8;
                }
            }
        }
    }
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_image_and_it_is_not_flat() {
        let a = dead_leaves(64, 48, 1);
        assert_eq!(a, dead_leaves(64, 48, 1));
        assert_ne!(a, dead_leaves(64, 48, 2));
        assert!(a.iter().max().unwrap() - a.iter().min().unwrap() > 100);
    }
}
