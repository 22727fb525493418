//! What a GPU does of a mixture's training: the local step, and whether there is one for it. Rows stay there from lap to lap,
//! clusters go there, statistics come back.
//!
//! What a row's clusters are and what they add up to is the same as on the CPU, in double precision.

mod step;

use lsparse_cuda::mixture::{Form, MOST_CLUSTERS, PANEL_ROWS, bytes_of_rows, bytes_of_work};

use crate::backend::Demand;
use crate::clusters::device::{JUDGED_ROWS, form_of};
use crate::data::Scalar;
use crate::mixture::MixtureModel;
use crate::settings::{MixtureConfig, MixtureMethod, SearchKind};

pub use step::{OnDevice, Resident};

/// What a lap over so many rows of type `T` would ask of a GPU.
pub fn demand<T: Scalar>(config: &MixtureConfig, rows: usize, dim: usize, weighted: bool) -> Demand {
    let family = config.likelihood.family();
    let products = (family.products)(dim) as f64 * rows as f64 * config.clusters as f64;
    // Rows may pass through, a panel while another is worked on, but not less.
    let panel = rows.div_ceil(config.batches.unwrap_or(1).max(1)).min(PANEL_ROWS);
    let form = form_of(config.likelihood).unwrap_or(Form::Columns);
    let bytes = 2 * bytes_of_rows::<T>(form, panel, dim, weighted) + bytes_of_work(form, panel, dim, config.clusters);
    Demand { products, bytes, cannot: cannot(config, dim) }
}

/// What scoring or assigning so many rows of type `T` would ask of a GPU.
pub fn demand_of_judging<T: Scalar>(model: &MixtureModel, rows: usize) -> Demand {
    let (config, dim, clusters) = (&model.config, model.dim(), model.num_clusters());
    let products = (config.likelihood.family().products)(dim) as f64 * rows as f64 * clusters as f64;
    let form = form_of(config.likelihood).unwrap_or(Form::Columns);
    let panel = rows.min(JUDGED_ROWS);
    let bytes = bytes_of_rows::<T>(form, panel, dim, false) + bytes_of_work(form, panel, dim, clusters);
    Demand { products, bytes, cannot: cannot_weigh(config, dim, clusters) }
}

fn no_kernel(what: &str) -> Option<String> {
    Some(format!("there are no kernels for {what} on GPUs"))
}

/// Why the CPU has to do a lap.
fn cannot(config: &MixtureConfig, dim: usize) -> Option<String> {
    match config.method {
        MixtureMethod::Lsparse | MixtureMethod::HardEm | MixtureMethod::Kmeans => {}
        method => return no_kernel(&format!("`method {}`", method.name())),
    }
    if config.find_k {
        return Some("K is found on the CPU".into());
    }
    if config.search == SearchKind::Neighbours {
        return no_kernel("`search neighbours`");
    }
    if config.sparsity_tolerance.is_some() {
        return no_kernel("an L that is chosen (`sparsity-tolerance`)");
    }
    cannot_weigh(config, dim, config.clusters)
}

/// Why it has to weigh rows.
fn cannot_weigh(config: &MixtureConfig, dim: usize, clusters: usize) -> Option<String> {
    let family = config.likelihood.family();
    let Some(form) = form_of(config.likelihood) else {
        return no_kernel(&format!("`likelihood {}`", family.name));
    };
    if config.missing {
        return no_kernel("`missing` values");
    }
    if dim > form.most_columns() {
        return no_kernel(&format!("more than {} columns and `likelihood {}`", form.most_columns(), family.name));
    }
    (clusters > MOST_CLUSTERS).then(|| format!("there are no kernels for more than {MOST_CLUSTERS} clusters on GPUs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::likelihood::LikelihoodKind;
    use crate::settings::Sparsity;

    #[test]
    fn what_a_gpu_cannot_do_has_its_reason() {
        let config = MixtureConfig { likelihood: LikelihoodKind::Gauss, clusters: 100, ..Default::default() };
        assert_eq!(cannot(&config, 64), None);
        let refused = |config: MixtureConfig, dim, word: &str| {
            let why = cannot(&config, dim).unwrap_or_default();
            assert!(why.contains(word), "{why:?} does not say {word}");
        };
        assert_eq!(cannot(&config, 1024), None);
        refused(config.clone(), 1025, "1024 columns");
        let columns = MixtureConfig { likelihood: LikelihoodKind::DiagGauss, ..config.clone() };
        assert_eq!(cannot(&columns, 2048), None);
        refused(columns.clone(), 2049, "2048 columns");
        assert_eq!(cannot(&MixtureConfig { method: MixtureMethod::Kmeans, ..columns.clone() }, 64), None);
        refused(MixtureConfig { find_k: true, ..columns }, 64, "found on the CPU");
        refused(MixtureConfig { likelihood: LikelihoodKind::Poisson, ..config.clone() }, 64, "poisson");
        refused(MixtureConfig { method: MixtureMethod::DpMeans, ..config.clone() }, 64, "dp-means");
        refused(MixtureConfig { missing: true, ..config.clone() }, 64, "missing");
        refused(MixtureConfig { search: SearchKind::Neighbours, ..config.clone() }, 64, "neighbours");
        refused(MixtureConfig { clusters: 50_000, ..config.clone() }, 64, "40000 clusters");
        let chosen = MixtureConfig { sparsity: Sparsity::Auto, ..config };
        refused(MixtureConfig::clone(&chosen.check(1000).unwrap()), 64, "sparsity-tolerance");
    }

    #[test]
    fn panels_must_fit_and_not_all_rows() {
        let config = MixtureConfig { likelihood: LikelihoodKind::Gauss, clusters: 200, ..Default::default() };
        let bytes =
            |batches| demand::<f32>(&MixtureConfig { batches: Some(batches), ..config.clone() }, 4_000_000, 64, false);
        let (whole, hundredth) = (bytes(1), bytes(100));
        assert_eq!(whole.products, hundredth.products);
        assert!(whole.bytes > 2 * 500_000 * 64 * 6 && hundredth.bytes < whole.bytes / 2, "{whole:?} {hundredth:?}");
    }
}
