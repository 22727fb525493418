//! Exact search against dense at every level of SIMD; alone in its process, since the level is process-wide.

use lsparse::data::{ImagePatches, PatchOptions};
use lsparse::settings::SearchKind;
use lsparse::synthetic::dead_leaves;
use lsparse::{LikelihoodKind, MixtureConfig, Precision, fit_mixture};
use lsparse_kernels::{Level, set_level};

#[test]
fn exact_search_is_exact_at_every_level() {
    let images = vec![(150, 150, dead_leaves(150, 150, 4))];
    let source = ImagePatches::from_pixels("leaves", images, &PatchOptions::default()).unwrap();
    for level in Level::ALL {
        if set_level(level) != level {
            continue;
        }
        let families = [LikelihoodKind::ZeroMeanGauss, LikelihoodKind::DiagGauss];
        for (precision, likelihood) in
            [Precision::F32, Precision::F64].into_iter().flat_map(|p| families.map(|f| (p, f)))
        {
            let model = |search| {
                let config = MixtureConfig {
                    likelihood,
                    clusters: 50,
                    batches: Some(2),
                    laps: Some(3),
                    tolerance: None,
                    precision,
                    search,
                    ..Default::default()
                };
                fit_mixture(&source, &config).unwrap().model
            };
            assert!(
                model(SearchKind::Dense) == model(SearchKind::Exact),
                "{} {precision:?} {likelihood:?}",
                level.name()
            );
        }
    }
}
